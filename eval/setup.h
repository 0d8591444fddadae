/* What every evaluation command starts with: its own flags taken out of argv, the rest read as options, the model, the
 * text. Main thread. */
#ifndef ROCO_EVAL_SETUP_H
#define ROCO_EVAL_SETUP_H

#include "config/options.h"
#include "engine/engine.h"
#include "engine/tokenizer.h"

/* A flag of the command itself: `--name VALUE` or `--name=VALUE`. Exactly one of text and number is set; it holds the
 * default. */
typedef struct roco_eval_flag {
    const char *name; /* NULL ends a table */
    const char **text;
    uint32_t *number, low, high;
    const char *help;
} roco_eval_flag;

typedef struct roco_eval_setup {
    roco_options options;
    roco_source *source;
    roco_tokenizer *tokenizer;
    roco_engine *engine;
} roco_eval_setup;

/* Prints usage and the flags. */
void roco_eval_help(const char *usage, const roco_eval_flag *flags, FILE *out);
/* Reads argv, then opens all. ROCO_INVALID (names the flag), or what opening gives. roco_eval_close in any case. */
roco_status roco_eval_open(int argc, char **argv, char **environment, const roco_eval_flag *flags,
                           roco_eval_setup *setup, roco_error *error);
void roco_eval_close(roco_eval_setup *setup);

/* The whole file, with a zero byte behind it; free() it. ROCO_IO, which names `flag`. */
roco_status roco_eval_read_bytes(const char *flag, const char *path, char **out, size_t *size, roco_error *error);
/* The whole file's token ids, the begin token in front where the model has one; at most max_ids. Free with
 * roco_ids_free. */
roco_status roco_eval_read_text(const roco_eval_setup *setup, const char *path, size_t max_ids, roco_ids *out,
                                roco_error *error);

#endif
