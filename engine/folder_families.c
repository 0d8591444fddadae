/* The families a Hugging Face folder may be of: data, and the look into it. Any thread. */
#include "engine/folder.h"

#include <stdio.h>
#include <string.h>

/* What transformers leaves out of the text part of a Gemma 3 model with vision. */
#define GEMMA3                                                                                                         \
    "{\"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"head_dim\": 256, \"query_pre_attn_scalar\": 256,"      \
    " \"max_position_embeddings\": 131072, \"sliding_window\": 4096, \"rms_norm_eps\": 1e-6, \"rope_theta\": 1e6,"     \
    " \"rope_local_base_freq\": 10000}"

static const roco_folder_family families[] = {
    {.model_type = "llama", .architecture = "llama"},
    {.model_type = "mistral", .architecture = "llama"},
    {.model_type = "qwen2", .architecture = "qwen2"},
    {.model_type = "qwen3", .architecture = "qwen3"},
    {.model_type = "gemma", .architecture = "gemma", .norms_lack_one = true, .tied = true},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .post_norms = true,
     .norms_lack_one = true,
     .tied = true,
     .may_window = true},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .post_norms = true,
     .norms_lack_one = true,
     .tied = true,
     .may_window = true,
     .defaults = GEMMA3},
    {.model_type = "phi3", .architecture = "phi3"},
    {.model_type = "granite", .architecture = "granite"},
    {.model_type = "olmo2", .architecture = "olmo2", .post_norms = true},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

const roco_folder_family *roco_folder_family_find(roco_text model_type)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (roco_text_is(model_type, families[i].model_type))
            return &families[i];
    return NULL;
}

void roco_folder_family_list(char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < N_FAMILIES && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "", families[i].model_type);
}
