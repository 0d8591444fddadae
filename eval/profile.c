/* `roco profile`: measures which heads of a model look back, and writes it to a file that roco serve finds. Main
 * thread.
 */
#include "engine/profile.h"
#include "eval/eval.h"
#include "eval/setup.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define USAGE "roco profile MODEL.gguf [--out FILE] [--text FILE]"

static void print_progress(void *context, uint32_t done, uint32_t total)
{
    fprintf(stderr, "%u of %u tokens\n", done, total);
}

/* Passage and filler: from the text, or drawn. */
static roco_status get_ids(const roco_eval_setup *setup, const char *text, uint32_t *part, roco_ids *ids,
                           roco_error *error)
{
    *part = roco_profile_part(setup->engine);
    if (!*part)
        return roco_fail(error, ROCO_TOO_LARGE, NULL, "context and KV pool must have room for %u tokens",
                         3 * ROCO_PROFILE_MIN_PART);
    if (*text) {
        roco_status status = roco_eval_read_text(setup, text, 2 * (size_t)*part, ids, error);
        *part = (uint32_t)(ids->size / 2);
        if (!status && *part < ROCO_PROFILE_MIN_PART)
            status = roco_fail(error, ROCO_INVALID, "text", "the text has %zu tokens; at least %u are needed",
                               ids->size, 2 * ROCO_PROFILE_MIN_PART);
        return status;
    }
    ids->data = malloc(2 * *part * sizeof *ids->data);
    if (!ids->data)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    ids->size = ids->capacity = 2 * *part;
    roco_profile_draw(setup->tokenizer, ids->data, 2 * *part);
    return ROCO_OK;
}

static void print_best(const roco_engine_info *info, const float *scores)
{
    enum { SHOWN = 10 };
    const uint32_t n = info->n_layers * info->n_kv_heads;
    printf("layer head  score\n");
    for (uint32_t rank = 0; rank < SHOWN && rank < n; rank++)
        for (uint32_t i = 0; i < n; i++) {
            uint32_t before = 0;
            for (uint32_t j = 0; j < n; j++)
                before += scores[j] > scores[i] || (scores[j] == scores[i] && j < i);
            if (before == rank)
                printf("%5u %4u  %.3f\n", i / info->n_kv_heads, i % info->n_kv_heads, (double)scores[i]);
        }
}

static roco_status run(const roco_eval_setup *setup, const char *text, const char *out, roco_error *error)
{
    const roco_engine_info *info = roco_engine_describe(setup->engine);
    char beside[PATH_MAX];
    uint32_t part;
    roco_ids ids = {0};
    float *scores = malloc((size_t)info->n_layers * info->n_kv_heads * sizeof *scores);
    roco_status status = scores ? ROCO_OK : roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    if (!status && !*out && !roco_profile_path(setup->source, beside, sizeof beside))
        status = roco_fail(error, ROCO_INVALID, "out", "the model's path is too long; give --out FILE");
    if (!status)
        status = get_ids(setup, text, &part, &ids, error);
    if (!status)
        status = roco_profile_measure(setup->engine, ids.data, part, part, print_progress, NULL, scores, error);
    if (!status)
        status = roco_profile_write(*out ? out : beside, setup->source, info, scores, error);
    if (!status) {
        print_best(info, scores);
        printf("written to %s\n", *out ? out : beside);
    }
    free(scores);
    roco_ids_free(&ids);
    return status;
}

int roco_profile(int argc, char **argv, char **environment)
{
    const char *out = "", *text = "";
    const roco_eval_flag flags[] = {
        {"out", &out, NULL, 0, 0, "file to write (MODEL.heads.json beside the model, where roco serve looks)"},
        {"text", &text, NULL, 0, 0, "text to measure on, some 600 tokens of it (tokens drawn from the vocabulary)"},
        {0},
    };
    if (argc < 1 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        roco_eval_help(USAGE, flags, argc < 1 ? stderr : stdout);
        return argc < 1 ? 2 : 0;
    }
    roco_eval_setup setup;
    roco_error error = {0};
    roco_status status = roco_eval_open(argc, argv, environment, flags, &setup, &error);
    if (!status)
        status = run(&setup, text, out, &error);
    if (status)
        fprintf(stderr, "roco: %s\n", error.message);
    roco_eval_close(&setup);
    return status == ROCO_OK ? 0 : status == ROCO_INVALID ? 2 : 1;
}
