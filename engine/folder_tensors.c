/* Tensors of a folder by the names, and in the meaning, that GGUF files give them. The thread that opens the model. */
#include "engine/folder.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parts of a layer, "layers.<n>.<from>" to "blk.<n>.<to>", up to .weight or .bias. */
static const struct {
    const char *from, *to;
} parts[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"}, /* or see post_norms */
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

static bool take(roco_text *text, const char *start)
{
    const size_t n = strlen(start);
    if (text->size < n || memcmp(text->data, start, n) != 0)
        return false;
    text->data += n;
    text->size -= n;
    return true;
}

/* "layers.<n>.": the number, which may have up to 6 digits; false: the text starts otherwise. */
static bool take_layer(roco_text *text, unsigned *number)
{
    roco_text rest = *text;
    size_t n = 0;
    if (!take(&rest, "layers."))
        return false;
    *number = 0;
    for (; n < rest.size && n < 6 && isdigit((unsigned char)rest.data[n]); n++)
        *number = *number * 10 + (unsigned)(rest.data[n] - '0');
    if (n == 0 || n == rest.size || rest.data[n] != '.')
        return false;
    *text = (roco_text){rest.data + n + 1, rest.size - n - 1};
    return true;
}

static bool rename_part(const roco_folder_family *family, unsigned layer, roco_text part, char *out, size_t size)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        roco_text tail = part;
        if (!take(&tail, parts[i].from) || !(roco_text_is(tail, ".weight") || roco_text_is(tail, ".bias")))
            continue;
        const bool post = family->post_norms && strcmp(parts[i].from, "post_attention_layernorm") == 0;
        snprintf(out, size, "blk.%u.%s%.*s", layer, post ? "post_attention_norm" : parts[i].to, (int)tail.size,
                 tail.data);
        return true;
    }
    return false;
}

/* GGUF's name into out; false: it has none. */
static bool translate(const roco_folder_family *family, roco_text name, char *out, size_t size)
{
    unsigned layer;
    if (roco_text_is(name, "lm_head.weight"))
        snprintf(out, size, "output.weight");
    else if (roco_text_is(name, "embed_tokens.weight"))
        snprintf(out, size, "token_embd.weight");
    else if (roco_text_is(name, "norm.weight"))
        snprintf(out, size, "output_norm.weight");
    else
        return take_layer(&name, &layer) && rename_part(family, layer, name, out, size);
    return true;
}

/* What a folder may hold beside the text model: the other parts of one that sees, and what can be computed. */
static bool is_other(roco_text name)
{
    static const char *const starts[] = {"vision_tower.", "multi_modal_projector.", "visual.", "mm_projector."};
    static const char end[] = ".rotary_emb.inv_freq";
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        roco_text rest = name;
        if (take(&rest, starts[i]))
            return true;
    }
    const size_t n = sizeof end - 1;
    return name.size > n && memcmp(name.data + name.size - n, end, n) == 0;
}

/* Gains as GGUF files hold them. They are small: a copy in float32. */
static roco_status add_one(roco_source *source, roco_source_tensor *tensor, roco_error *error)
{
    const roco_type_traits *traits = roco_type_find((uint32_t)tensor->type);
    const uint64_t n = tensor->bytes / traits->block_bytes;
    float *values = roco_source_own(source, n * sizeof *values, error);
    if (!values)
        return ROCO_NO_MEMORY;
    traits->dequantize(tensor->data, values, n);
    for (uint64_t i = 0; i < n; i++)
        values[i] += 1;
    tensor->type = ROCO_TYPE_F32;
    tensor->data = values;
    tensor->bytes = n * sizeof *values;
    return ROCO_OK;
}

static roco_status put_name(roco_source *source, roco_source_tensor *tensor, const char *name, roco_error *error)
{
    const size_t size = strlen(name);
    char *copy = roco_source_own(source, size, error);
    if (!copy)
        return ROCO_NO_MEMORY;
    memcpy(copy, name, size);
    tensor->name = (roco_text){copy, size};
    return ROCO_OK;
}

/* *keep false: the tensor is not the text model's. */
static roco_status rename_tensor(roco_source *source, const roco_folder_config *config, roco_source_tensor *tensor,
                                 bool *keep, roco_error *error)
{
    char name[64];
    roco_text own = tensor->name;
    /* Models that see: "language_model.model." (transformers 4) or "model.language_model." (5) stands before. */
    bool inner = take(&own, "language_model.") || take(&own, "model.language_model.");
    (void)(take(&own, "model.") || inner);
    *keep = !is_other(own) && !(config->tied && roco_text_is(own, "lm_head.weight"));
    if (!*keep || !translate(config->family, own, name, sizeof name))
        return ROCO_OK; /* an unknown one keeps its name, for who looks at leftovers */
    roco_status status = put_name(source, tensor, name, error);
    const bool norm = tensor->n_dims == 1 && strstr(name, "norm.weight");
    return status || !norm || !config->family->norms_lack_one ? status : add_one(source, tensor, error);
}

roco_status roco_folder_rename_tensors(roco_source *source, const roco_folder_config *config, roco_error *error)
{
    uint64_t kept = 0;
    bool head = false;
    for (uint64_t i = 0; i < source->n_tensors; i++) {
        bool keep = true;
        roco_source_tensor tensor = source->tensors[i];
        roco_status status = rename_tensor(source, config, &tensor, &keep, error);
        if (status)
            return status;
        if (keep)
            source->tensors[kept++] = tensor;
        head = head || (keep && roco_text_is(tensor.name, "output.weight"));
    }
    source->n_tensors = kept;
    if (!head && config->says_tied && !config->tied)
        return roco_fail(error, ROCO_FORMAT, "lm_head.weight",
                         "tensor lm_head.weight is missing, and config.json says it is not the embedding");
    return ROCO_OK;
}
