/* Head profiles as files: JSON of one fixed form, bound to the model file they were measured on. Any thread.
 *
 *     {"roco_head_profile": 1, "model": "0123456789abcdef", "layers": 2, "kv_heads": 2,
 *      "scores": [[0.5, 0.25],
 *                 [0.125, 0]]}
 *
 * `model` is roco_source_fingerprint of the file.
 */
#include "engine/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, MOST_BYTES = 1 << 20 };

roco_status roco_profile_write(const char *path, const roco_source *source, const roco_engine_info *info,
                               const float *scores, roco_error *error)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return roco_fail(error, ROCO_IO, "head-profile", "%s cannot be written: %s", path, strerror(errno));
    fprintf(file, "{\"roco_head_profile\": %d, \"model\": \"%016" PRIx64 "\", \"layers\": %u, \"kv_heads\": %u,\n",
            VERSION, roco_source_fingerprint(source), info->n_layers, info->n_kv_heads);
    for (uint32_t layer = 0; layer < info->n_layers; layer++) {
        fputs(layer ? ",\n            " : " \"scores\": [", file);
        for (uint32_t head = 0; head < info->n_kv_heads; head++)
            fprintf(file, "%s%.6f", head ? ", " : "[", (double)scores[layer * info->n_kv_heads + head]);
        fputc(']', file);
    }
    fputs("]}\n", file);
    const bool broken = ferror(file);
    if (fclose(file) || broken)
        return roco_fail(error, ROCO_IO, "head-profile", "%s cannot be written: %s", path, strerror(errno));
    return ROCO_OK;
}

static roco_status read_text(const char *path, char **out, roco_error *error)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return roco_fail(error, ROCO_IO, "head-profile", "%s cannot be read: %s", path, strerror(errno));
    char *text = malloc(MOST_BYTES + 1);
    const size_t size = text ? fread(text, 1, MOST_BYTES, file) : 0;
    const bool broken = ferror(file);
    fclose(file);
    if (!text || broken) {
        free(text);
        return roco_fail(error, ROCO_IO, "head-profile", "%s cannot be read", path);
    }
    text[size] = '\0';
    *out = text;
    return ROCO_OK;
}

/* What follows `"name":`; NULL when it is not there. The form has each name once and no text that could hold one. */
static const char *value_of(const char *text, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, "\"%s\"", name);
    const char *at = strstr(text, key);
    if (!at)
        return NULL;
    at += strlen(key);
    at += strspn(at, " \t\r\n");
    return *at == ':' ? at + 1 + strspn(at + 1, " \t\r\n") : NULL;
}

static bool is_number(const char *text, const char *name, uint32_t expected)
{
    const char *at = value_of(text, name);
    return at && strtoul(at, NULL, 10) == expected;
}

/* Exactly n numbers from 0 up, whatever the brackets between them. */
static bool read_scores(const char *text, uint32_t n, float *scores)
{
    const char *at = value_of(text, "scores");
    if (!at || *at != '[')
        return false;
    for (uint32_t i = 0;; i++) {
        at += strspn(at, "[], \t\r\n");
        char *end;
        const float score = strtof(at, &end);
        if (end == at)
            return i == n;
        if (i == n || !isfinite(score) || score < 0)
            return false;
        scores[i] = score;
        at = end;
    }
}

roco_status roco_profile_read(const char *path, const roco_source *source, const roco_engine_info *info, float *scores,
                              roco_error *error)
{
    char *text = NULL;
    roco_status status = read_text(path, &text, error);
    if (status)
        return status;
    char mark[24];
    snprintf(mark, sizeof mark, "\"%016" PRIx64 "\"", roco_source_fingerprint(source));
    const char *model = value_of(text, "model");
    if (!is_number(text, "roco_head_profile", VERSION) || !model)
        status = roco_fail(error, ROCO_FORMAT, "head-profile", "%s is no head profile of version %d", path, VERSION);
    else if (strncmp(model, mark, strlen(mark)) != 0)
        status = roco_fail(error, ROCO_INVALID, "head-profile", "%s is the head profile of another model file", path);
    else if (!is_number(text, "layers", info->n_layers) || !is_number(text, "kv_heads", info->n_kv_heads) ||
             !read_scores(text, info->n_layers * info->n_kv_heads, scores))
        status = roco_fail(error, ROCO_FORMAT, "head-profile", "%s does not hold %u x %u scores", path, info->n_layers,
                           info->n_kv_heads);
    free(text);
    return status;
}
