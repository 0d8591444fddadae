/* Where an engine's head profile comes from: a file, the cache folder, roco itself, or a measurement. Engine thread. */
#include "config/clock.h"
#include "engine/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct search {
    roco_engine *engine;
    const roco_engine_info *info;
    const roco_source *source;
    const roco_tokenizer *tokenizer;
    roco_profile_progress *progress;
    void *context;
    float *scores;
    roco_profile_origin *origin;
    char cached[PATH_MAX]; /* "": there is no cache folder */
} search;

/* Makes the folder when it is not there. */
static void find_cache_folder(search *s)
{
    char folder[PATH_MAX - 64];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int size = 0;
    if (cache && *cache == '/')
        size = snprintf(folder, sizeof folder, "%s", cache);
    else if (home && *home == '/')
        size = snprintf(folder, sizeof folder, "%s/.cache", home);
    if (size <= 0 || (size_t)size + sizeof "/roco" > sizeof folder)
        return;
    mkdir(folder, 0777); /* a failure shows at the write */
    memcpy(folder + size, "/roco", sizeof "/roco");
    mkdir(folder, 0777);
    snprintf(s->cached, sizeof s->cached, "%s/%016" PRIx64 ".heads.json", folder, roco_source_fingerprint(s->source));
}

/* A file that need not be there. One that is there and is wrong is passed over with a warning. */
static bool try_file(const search *s, const char *path)
{
    roco_error error;
    if (access(path, F_OK) != 0)
        return false;
    if (roco_profile_read(path, s->source, s->info, s->scores, &error)) {
        snprintf(s->origin->warning, sizeof s->origin->warning, "%s", error.message);
        return false;
    }
    snprintf(s->origin->text, sizeof s->origin->text, "%.*s", (int)sizeof s->origin->text - 1, path);
    return true;
}

bool roco_profile_path(const roco_source *source, char *out, size_t size)
{
    const char *model = roco_source_path(source);
    size_t stem = strlen(model);
    if (stem > 5 && strcmp(model + stem - 5, ".gguf") == 0)
        stem -= 5;
    const int n = snprintf(out, size, "%.*s.heads.json", (int)stem, model);
    return n > 0 && (size_t)n < size;
}

static bool try_beside(const search *s)
{
    char path[PATH_MAX];
    return roco_profile_path(s->source, path, sizeof path) && try_file(s, path);
}

/* Complete or not at all: another server may read it meanwhile. */
static bool keep(const search *s)
{
    char work[PATH_MAX + 32];
    roco_error error;
    if (!s->cached[0])
        return false;
    snprintf(work, sizeof work, "%s.%ld", s->cached, (long)getpid());
    if (!roco_profile_write(work, s->source, s->info, s->scores, &error) && rename(work, s->cached) == 0)
        return true;
    unlink(work);
    return false;
}

static roco_status measure(const search *s, roco_error *error)
{
    const uint32_t part = roco_profile_part(s->engine);
    if (!part)
        return roco_fail(error, ROCO_TOO_LARGE, NULL,
                         "none can be measured: that takes %u tokens of context and of the KV pool",
                         3 * ROCO_PROFILE_MIN_PART);
    int32_t ids[2 * ROCO_PROFILE_PART];
    roco_profile_draw(s->tokenizer, ids, 2 * part);
    const uint64_t start = roco_now_ns();
    roco_status status = roco_profile_measure(s->engine, ids, part, part, s->progress, s->context, s->scores, error);
    if (status)
        return status;
    const double seconds = (double)(roco_now_ns() - start) / 1e9;
    const bool kept = keep(s);
    snprintf(s->origin->text, sizeof s->origin->text, "measured in %.1f s%s%.500s", seconds,
             kept ? ", kept as " : ", could not be kept", kept ? s->cached : "");
    return ROCO_OK;
}

static roco_status find(search *s, const char *choice, roco_error *error)
{
    if (strcmp(choice, "auto") != 0) {
        snprintf(s->origin->text, sizeof s->origin->text, "%s", choice);
        roco_status status = roco_profile_read(choice, s->source, s->info, s->scores, error);
        return status ? status : roco_engine_use_profile(s->engine, s->scores, error);
    }
    find_cache_folder(s);
    bool found = try_beside(s) || (s->cached[0] && try_file(s, s->cached));
    if (!found && roco_profile_builtin(s->source, s->info, s->scores)) {
        snprintf(s->origin->text, sizeof s->origin->text, "built in");
        found = true;
    }
    if (!found) {
        roco_status status = measure(s, error);
        if (status == ROCO_DEVICE || status == ROCO_NO_MEMORY)
            return status;
        if (status) {
            snprintf(s->origin->warning, sizeof s->origin->warning, "%s", error->message);
            return ROCO_OK;
        }
    }
    return roco_engine_use_profile(s->engine, s->scores, error);
}

roco_status roco_profile_find(roco_engine *engine, const roco_source *source, const roco_tokenizer *tokenizer,
                              const char *choice, roco_profile_progress *progress, void *context,
                              roco_profile_origin *origin, roco_error *error)
{
    *origin = (roco_profile_origin){0};
    if (strcmp(choice, "off") == 0)
        return ROCO_OK;
    const roco_engine_info *info = roco_engine_describe(engine);
    search s = {.engine = engine,
                .info = info,
                .source = source,
                .tokenizer = tokenizer,
                .progress = progress,
                .context = context,
                .origin = origin,
                .scores = malloc((size_t)info->n_layers * info->n_kv_heads * sizeof *s.scores)};
    if (!s.scores)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for a head profile");
    roco_status status = find(&s, choice, error);
    free(s.scores);
    return status;
}
