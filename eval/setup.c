#include "eval/setup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void roco_eval_help(const char *usage, const roco_eval_flag *flags, FILE *out)
{
    fprintf(out, "usage: %s\n\n", usage);
    for (; flags->name; flags++)
        fprintf(out, "  --%-14s %s\n", flags->name, flags->help);
    fprintf(out,
            "\nOptions of roco serve that say how the model runs (--threads, --precision, --kv-type, --kv-pool-bytes,\n"
            "--kv-sink, --kv-recent, --evict-stride, --head-profile) are taken as well.\n");
}

static roco_status read_number(const roco_eval_flag *flag, const char *value, roco_error *error)
{
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(value, &end, 10);
    if (errno || !*value || *end || *value == '-' || number < flag->low || number > flag->high)
        return roco_fail(error, ROCO_INVALID, flag->name, "--%s: '%.40s' is not a whole number (allowed: %u to %u)",
                         flag->name, value, flag->low, flag->high);
    *flag->number = (uint32_t)number;
    return ROCO_OK;
}

/* Takes the flag at argv[*at] with its value when it is one of the command's own; *taken says so. */
static roco_status take_flag(const roco_eval_flag *flags, int argc, char **argv, int *at, bool *taken,
                             roco_error *error)
{
    *taken = false;
    for (const roco_eval_flag *flag = flags; flag->name && strncmp(argv[*at], "--", 2) == 0; flag++) {
        const size_t n = strlen(flag->name);
        const char *rest = argv[*at] + 2 + n;
        if (strncmp(argv[*at] + 2, flag->name, n) != 0 || (*rest && *rest != '='))
            continue;
        *taken = true;
        if (!*rest && *at + 1 >= argc)
            return roco_fail(error, ROCO_INVALID, flag->name, "--%s needs a value", flag->name);
        const char *value = *rest ? rest + 1 : argv[++*at];
        if (flag->number)
            return read_number(flag, value, error);
        *flag->text = value;
        return ROCO_OK;
    }
    return ROCO_OK;
}

/* The command's own flags out of argv, in place; what is left are options. */
static roco_status take_flags(const roco_eval_flag *flags, int *argc, char **argv, roco_error *error)
{
    int left = 0;
    for (int i = 0; i < *argc; i++) {
        bool taken;
        char *word = argv[i];
        roco_status status = take_flag(flags, *argc, argv, &i, &taken, error);
        if (status)
            return status;
        if (!taken)
            argv[left++] = word;
    }
    *argc = left;
    return ROCO_OK;
}

roco_status roco_eval_open(int argc, char **argv, char **environment, const roco_eval_flag *flags,
                           roco_eval_setup *setup, roco_error *error)
{
    *setup = (roco_eval_setup){0};
    roco_options_result result;
    roco_status status = take_flags(flags, &argc, argv, error);
    if (!status)
        status = roco_options_parse(&setup->options, argc, argv, environment, stdout, &result, error);
    if (!status)
        status = roco_source_open(setup->options.model, &setup->source, error);
    if (!status)
        status = roco_tokenizer_open(setup->source, &setup->tokenizer, error);
    if (status)
        return status;
    const roco_engine_config config = roco_engine_configure(&setup->options, setup->source);
    return roco_engine_open(&config, &setup->engine, error);
}

void roco_eval_close(roco_eval_setup *setup)
{
    if (setup->engine)
        roco_engine_close(setup->engine);
    if (setup->tokenizer)
        roco_tokenizer_close(setup->tokenizer);
    if (setup->source)
        roco_source_close(setup->source);
    roco_options_free(&setup->options);
}

roco_status roco_eval_read_bytes(const char *flag, const char *path, char **out, size_t *size, roco_error *error)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return roco_fail(error, ROCO_IO, flag, "%s cannot be read: %s", path, strerror(errno));
    char *bytes = NULL;
    *size = 0;
    for (size_t room = 1 << 16, n = 1; n > 0; room *= 2) {
        char *more = realloc(bytes, room);
        if (!more)
            break;
        bytes = more;
        n = fread(bytes + *size, 1, room - 1 - *size, file);
        *size += n;
        bytes[*size] = '\0';
    }
    const bool whole = feof(file) && !ferror(file);
    fclose(file);
    if (!whole) {
        free(bytes);
        return roco_fail(error, ROCO_IO, flag, "%s cannot be read", path);
    }
    *out = bytes;
    return ROCO_OK;
}

roco_status roco_eval_read_text(const roco_eval_setup *setup, const char *path, size_t max_ids, roco_ids *out,
                                roco_error *error)
{
    char *bytes = NULL;
    size_t size = 0;
    roco_status status = roco_eval_read_bytes("text", path, &bytes, &size, error);
    if (!status)
        status = roco_tokenizer_encode(setup->tokenizer, bytes, size, ROCO_ENCODE_ADD_BOS, 0, out, error);
    free(bytes);
    if (!status && out->size > max_ids)
        out->size = max_ids;
    return status;
}
