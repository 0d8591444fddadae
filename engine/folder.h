/* The inside of reading a Hugging Face folder, whose files are put into GGUF's words:
 *
 *     config.json                               keys "<architecture>.*"               folder_config.c, folder_rope.c
 *     *.safetensors, by their index or one      tensors "blk.<n>.*"                   safetensors.c, folder_tensors.c
 *     tokenizer.json, tokenizer_config.json,    keys "tokenizer.*"                    folder_tokenizer.c
 *     generation_config.json, chat_template.jinja
 *
 * A family is a row of the table in folder_families.c. The thread that opens the model.
 */
#ifndef ROCO_ENGINE_FOLDER_H
#define ROCO_ENGINE_FOLDER_H

#include "engine/json_tree.h"
#include "engine/source_internal.h"

/* What a family's folders have in common beyond names. */
typedef struct roco_folder_family {
    const char *model_type;   /* config.json */
    const char *architecture; /* the registry's (model.c) */
    bool post_norms;          /* post_attention_layernorm is the norm of what attention adds, not of what follows */
    bool norms_lack_one;      /* norm gains are stored less 1 */
    bool tied;                /* unless config.json says otherwise, the head is the embedding */
    bool may_window;          /* of its layers some attend to a sliding window, others not */
    const char *defaults;     /* JSON object: what config.json may leave out; NULL: nothing */
} roco_folder_family;

/* NULL: there is no such family. */
const roco_folder_family *roco_folder_family_find(roco_text model_type);
/* Names of all, for a message. */
void roco_folder_family_list(char *out, size_t size);

/* config.json, or its text part, with the family's defaults behind it. */
typedef struct roco_folder_config {
    const roco_folder_family *family;
    const roco_tree *json;
    roco_tree *defaults; /* owned */
    uint64_t n_layers, width, n_heads, head_dim, n_context;
    uint64_t rope_dim;    /* once the rope is read */
    bool tied, says_tied; /* the head is the embedding; config.json says whether */
} roco_folder_config;

/* A member that is there and not null, of the config or its defaults; NULL: neither has it. */
const roco_tree *roco_config_member(const roco_folder_config *config, const char *name);

/* Reads config.json and puts its keys into the source. config borrows from `root`; roco_folder_config_free, also on
 * failure. ROCO_FORMAT, ROCO_UNSUPPORTED. */
roco_status roco_folder_read_config(roco_source *source, const roco_tree *root, roco_folder_config *config,
                                    roco_error *error);
void roco_folder_config_free(roco_folder_config *config);
/* folder_rope.c: rope_parameters, or rope_theta and rope_scaling. Puts keys, and the tensors of rotary factors. */
roco_status roco_folder_read_rope(roco_source *source, roco_folder_config *config, roco_error *error);

/* Appends the tensors of a safetensors file under their own names, checked against its size. `name` begins messages. */
roco_status roco_safetensors_parse(roco_source *source, const roco_source_file *file, const char *name,
                                   roco_error *error);
/* Gives the model's tensors GGUF's names and meaning, and takes out those that no text model has. */
roco_status roco_folder_rename_tensors(roco_source *source, const roco_folder_config *config, roco_error *error);

/* The other files' texts; {NULL, 0} where there is none. */
typedef struct roco_folder_texts {
    roco_text tokenizer, tokenizer_config, generation_config, chat_template;
} roco_folder_texts;
roco_status roco_folder_read_tokenizer(roco_source *source, const roco_folder_config *config,
                                       const roco_folder_texts *texts, roco_error *error);

#endif
