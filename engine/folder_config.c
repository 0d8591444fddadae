/* config.json into the keys of a GGUF file. The thread that opens the model.
 *
 * Names and meanings are those of transformers' configuration classes, versions 4 and 5. What would change an answer
 * and is not known here is refused.
 */
#include "engine/folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const roco_tree *roco_config_member(const roco_folder_config *config, const char *name)
{
    const roco_tree *member = roco_tree_member(config->json, name);
    if (roco_tree_is_null(member))
        member = roco_tree_member(config->defaults, name);
    return roco_tree_is_null(member) ? NULL : member;
}

static roco_status fail_member(const char *name, const char *what, roco_error *error)
{
    return roco_fail(error, ROCO_FORMAT, name, "config.json: %s %s", name, what);
}

/* --- plain members: a number that is a key --- */

typedef struct plain {
    const char *name, *key;
    bool real, needed;
} plain;

static const plain plains[] = {
    {"num_hidden_layers", "block_count", false, true},
    {"hidden_size", "embedding_length", false, true},
    {"intermediate_size", "feed_forward_length", false, true},
    {"num_attention_heads", "attention.head_count", false, true},
    {"num_key_value_heads", "attention.head_count_kv", false, false},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", true, true},
    {"attn_logit_softcapping", "attn_logit_softcapping", true, false},
    {"final_logit_softcapping", "final_logit_softcapping", true, false},
    {"attention_multiplier", "attention.scale", true, false},
    {"embedding_multiplier", "embedding_scale", true, false},
    {"residual_multiplier", "residual_scale", true, false},
    {"logits_scaling", "logit_scale", true, false},
};

static roco_status put_plain(roco_source *source, const roco_folder_config *config, const plain *p, roco_error *error)
{
    char key[96];
    uint64_t whole;
    double real;
    const roco_tree *member = roco_config_member(config, p->name);
    snprintf(key, sizeof key, "%s.%s", config->family->architecture, p->key);
    if (!member)
        return p->needed ? fail_member(p->name, "is missing", error) : ROCO_OK;
    if (p->real)
        return roco_tree_number(member, &real) ? roco_source_put_float(source, key, real, error)
                                               : fail_member(p->name, "is not a number", error);
    return roco_tree_uint(member, &whole) ? roco_source_put_uint(source, key, whole, error)
                                          : fail_member(p->name, "is not a whole number", error);
}

static roco_status put_uint(roco_source *source, const roco_folder_config *config, const char *name, uint64_t value,
                            roco_error *error)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", config->family->architecture, name);
    return roco_source_put_uint(source, key, value, error);
}

/* --- heads --- */

static roco_status read_sizes(roco_folder_config *config, roco_error *error)
{
    const struct {
        const char *name;
        uint64_t *out;
    } sizes[] = {{"num_hidden_layers", &config->n_layers},
                 {"hidden_size", &config->width},
                 {"num_attention_heads", &config->n_heads},
                 {"max_position_embeddings", &config->n_context}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!roco_tree_uint(roco_config_member(config, sizes[i].name), sizes[i].out) || *sizes[i].out == 0 ||
            *sizes[i].out > UINT32_MAX)
            return fail_member(sizes[i].name, "is missing or not a whole number of 1 or more", error);
    const roco_tree *head_dim = roco_config_member(config, "head_dim");
    config->head_dim = config->width / config->n_heads;
    if (head_dim && !roco_tree_uint(head_dim, &config->head_dim))
        return fail_member("head_dim", "is not a whole number", error);
    return config->head_dim >= 2 && config->head_dim <= 1024
               ? ROCO_OK
               : fail_member("head_dim", "(or hidden_size / num_attention_heads) is not 2 to 1024", error);
}

/* Scores are scaled by the root of this number in place of the head's size. */
static roco_status put_scale(roco_source *source, const roco_folder_config *config, roco_error *error)
{
    char key[96];
    double scalar;
    const roco_tree *member = roco_config_member(config, "query_pre_attn_scalar");
    if (!member)
        return ROCO_OK;
    if (!roco_tree_number(member, &scalar) || !(scalar > 0))
        return fail_member("query_pre_attn_scalar", "is not a positive number", error);
    snprintf(key, sizeof key, "%s.attention.scale", config->family->architecture);
    return roco_source_put_float(source, key, 1 / sqrt(scalar), error);
}

static roco_status put_heads(roco_source *source, const roco_folder_config *config, roco_error *error)
{
    char key[96];
    roco_status status = put_uint(source, config, "attention.key_length", config->head_dim, error);
    if (!status)
        status = put_uint(source, config, "attention.value_length", config->head_dim, error);
    if (!status)
        status = put_scale(source, config, error);
    /* Q and K lie as they were trained: rotary pairs half a head apart. GGUF files of some families permute them. */
    snprintf(key, sizeof key, "%s.rope.halves", config->family->architecture);
    return status ? status : roco_source_put_bool(source, key, true, error);
}

/* --- sliding windows --- */

/* Layers of types "sliding_attention" and "full_attention" as a period: every n-th layer is full; 0: none is. False:
 * they do not come that way. */
static bool find_period(const roco_tree *types, uint64_t n_layers, uint64_t *n_windowed, uint64_t *period)
{
    uint64_t n = 0, n_full = 0;
    *period = 0;
    for (const roco_tree *type = roco_tree_first(types); type; type = roco_tree_next(type), n++) {
        bool full = roco_tree_says(type, "full_attention");
        if (!full && !roco_tree_says(type, "sliding_attention"))
            return false;
        if (full && n_full++ == 0)
            *period = n + 1;
        if (*period && full != ((n + 1) % *period == 0))
            return false;
    }
    *n_windowed = n - n_full;
    return n == n_layers;
}

static roco_status put_window(roco_source *source, const roco_folder_config *config, roco_error *error)
{
    bool used = true;
    uint64_t window = 0, n_windowed = config->n_layers, period = 0;
    const roco_tree *types = roco_config_member(config, "layer_types");
    const roco_tree *pattern = roco_config_member(config, "sliding_window_pattern");
    const roco_tree *member = roco_config_member(config, "sliding_window");
    (void)roco_tree_bool(roco_config_member(config, "use_sliding_window"), &used);
    if (!member || !used)
        return ROCO_OK;
    if (!roco_tree_uint(member, &window))
        return fail_member("sliding_window", "is not a whole number", error);
    if (types && !find_period(types, config->n_layers, &n_windowed, &period))
        return fail_member("layer_types", "is not a regular pattern of sliding_attention and full_attention", error);
    if (!types && pattern && (!roco_tree_uint(pattern, &period) || period > 1024))
        return fail_member("sliding_window_pattern", "is not a whole number up to 1024", error);
    if (types && n_windowed == 0)
        return ROCO_OK;
    if (types && period && !config->family->may_window)
        return roco_fail(error, ROCO_UNSUPPORTED, "layer_types",
                         "config.json: layer_types mixes full and sliding attention, which is not supported in %s "
                         "models",
                         config->family->model_type);
    if (types && !period && config->family->may_window)
        period = config->n_layers + 1; /* none is full */
    roco_status status = put_uint(source, config, "attention.sliding_window", window, error);
    return status || !period ? status : put_uint(source, config, "attention.sliding_window_pattern", period, error);
}

/* --- what is not supported --- */

static roco_status refuse_others(const roco_folder_config *config, roco_error *error)
{
    static const char *const members[] = {"hidden_activation", "hidden_act"};
    const bool gelu = strncmp(config->family->architecture, "gemma", 5) == 0;
    bool both_ways = false;
    const roco_tree *activation = NULL;
    for (size_t i = 0; !activation && i < 2; i++)
        activation = roco_config_member(config, members[i]);
    /* Gemma 1's first files say "gelu" and mean its tanh form. */
    bool known = gelu ? roco_tree_says(activation, "gelu_pytorch_tanh") || roco_tree_says(activation, "gelu")
                      : roco_tree_says(activation, "silu");
    if (activation && !known)
        return roco_fail(error, ROCO_UNSUPPORTED, "hidden_act", "config.json: the activation of %s models is %s",
                         config->family->model_type, gelu ? "gelu_pytorch_tanh" : "silu");
    if (roco_tree_bool(roco_config_member(config, "use_bidirectional_attention"), &both_ways) && both_ways)
        return roco_fail(error, ROCO_UNSUPPORTED, "use_bidirectional_attention",
                         "config.json: attention to later tokens (use_bidirectional_attention) is not supported");
    if (roco_config_member(config, "quantization_config"))
        return roco_fail(error, ROCO_UNSUPPORTED, "quantization_config",
                         "config.json: quantised folders (quantization_config) are not supported; use a GGUF file or "
                         "weights in bf16, f16 or f32");
    return ROCO_OK;
}

/* A model with vision keeps its text part in a member of its own. */
static roco_status find_family(const roco_tree *root, roco_folder_config *config, roco_error *error)
{
    roco_text type = {"", 0};
    const roco_tree *text = roco_tree_member(root, "text_config");
    config->json = roco_tree_is_object(text) ? text : root;
    if (!roco_tree_is_object(root))
        return roco_fail(error, ROCO_FORMAT, NULL, "config.json is not an object");
    if (!roco_tree_text(roco_tree_member(config->json, "model_type"), &type))
        return fail_member("model_type", "is missing: the folder does not say its architecture", error);
    config->family = roco_folder_family_find(type);
    if (!config->family) {
        char name[48], known[256];
        roco_text_print(type, name, sizeof name);
        roco_folder_family_list(known, sizeof known);
        return roco_fail(error, ROCO_UNSUPPORTED, "model_type",
                         "architecture \"%s\" (model_type of config.json) is not supported; supported: %s", name,
                         known);
    }
    return ROCO_OK;
}

roco_status roco_folder_read_config(roco_source *source, const roco_tree *root, roco_folder_config *config,
                                    roco_error *error)
{
    *config = (roco_folder_config){0};
    roco_status status = find_family(root, config, error);
    if (!status && config->family->defaults)
        status = roco_tree_open("the defaults", (roco_text){config->family->defaults, strlen(config->family->defaults)},
                                1000, &config->defaults, error);
    if (!status)
        status = read_sizes(config, error);
    if (!status)
        status = refuse_others(config, error);
    if (status)
        return status;
    config->tied = config->family->tied;
    config->says_tied = roco_tree_bool(roco_tree_member(root, "tie_word_embeddings"), &config->tied) ||
                        roco_tree_bool(roco_tree_member(config->json, "tie_word_embeddings"), &config->tied);
    const roco_text name = {config->family->architecture, strlen(config->family->architecture)};
    status = roco_source_put_string(source, "general.architecture", name, error);
    for (size_t i = 0; !status && i < sizeof plains / sizeof *plains; i++)
        status = put_plain(source, config, &plains[i], error);
    if (!status)
        status = put_heads(source, config, error);
    if (!status)
        status = put_window(source, config, error);
    status = status ? status : roco_folder_read_rope(source, config, error);
    return status ? status : put_uint(source, config, "context_length", config->n_context, error);
}

void roco_folder_config_free(roco_folder_config *config)
{
    roco_tree_close(config->defaults);
    *config = (roco_folder_config){0};
}
