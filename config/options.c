/* Reading options: one value against its row, then flags, environment and file in that order of rank. Runs once, at
 * start, on the main thread. Knows no option by name but the two that are not rows, --config and --help, and the rules
 * between options at the end. */
#include "config/options_table.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The value at fault as it may be shown: printable, short, never a terminal's control bytes. */
typedef struct shown {
    char text[68];
} shown;

static shown show(const char *text)
{
    shown s;
    size_t n = strlen(text);
    size_t kept = n > 60 ? 60 : n;
    for (size_t i = 0; i < kept; i++)
        s.text[i] = isprint((unsigned char)text[i]) ? text[i] : '?';
    memcpy(s.text + kept, n > kept ? "..." : "", n > kept ? 4 : 1);
    return s;
}

static roco_status parse_whole(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*digits))
        return ROCO_INVALID;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end)
        return ROCO_INVALID;
    *out = value; /* saturated when out of range, so that the bounds refuse it with their own words */
    return errno == ERANGE ? ROCO_TOO_LARGE : ROCO_OK;
}

roco_status roco_parse_size(const char *text, int64_t *out)
{
    static const struct {
        const char *name;
        int shift;
    } units[] = {{"", 0},     {"B", 0},  {"K", 10},   {"KiB", 10}, {"M", 20},
                 {"MiB", 20}, {"G", 30}, {"GiB", 30}, {"T", 40},   {"TiB", 40}};
    if (!isdigit((unsigned char)*text))
        return ROCO_INVALID;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno == ERANGE)
        return ROCO_INVALID;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        if (value > INT64_MAX >> units[i].shift)
            return ROCO_INVALID;
        *out = (int64_t)value << units[i].shift;
        return ROCO_OK;
    }
    return ROCO_INVALID;
}

const roco_option_row *roco_option_find(const char *name)
{
    for (size_t i = 0; i < roco_n_option_rows; i++)
        if (strcmp(roco_option_rows[i].name, name) == 0)
            return &roco_option_rows[i];
    return NULL;
}

/* Levenshtein distance of two short names, one row of the matrix at a time. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    size_t row[LONGEST + 1];
    size_t n = strlen(b);
    if (n > LONGEST || strlen(a) > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (a[i] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

const char *roco_option_nearest(const char *name)
{
    enum { NEAR = 3 };
    const char *best = NULL;
    size_t best_distance = NEAR;
    for (size_t i = 0; i < roco_n_option_rows; i++) {
        size_t d = distance(name, roco_option_rows[i].name);
        if (d < best_distance) {
            best = roco_option_rows[i].name;
            best_distance = d;
        }
    }
    return best;
}

static roco_status keep_text(roco_options *options, const char *text, const char **out)
{
    char *copy = strdup(text);
    char **owned = realloc(options->owned, (options->n_owned + 1) * sizeof *owned);
    if (owned)
        options->owned = owned;
    if (!copy || !owned) {
        free(copy);
        return ROCO_NO_MEMORY;
    }
    owned[options->n_owned++] = copy;
    *out = copy;
    return ROCO_OK;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *at = choices; length;) {
        size_t n = strcspn(at, "|");
        if (n == length && memcmp(at, text, n) == 0)
            return true;
        if (!at[n])
            break;
        at += n + 1;
    }
    return false;
}

static roco_status check_number(const roco_option_row *row, const char *text, int64_t *out, const char *where,
                                roco_error *error)
{
    char range[ROCO_OPTION_RANGE_BYTES];
    roco_option_range(row, range);
    bool is_size = row->kind == ROCO_OPTION_SIZE;
    roco_status status = is_size ? roco_parse_size(text, out) : parse_whole(text, out);
    if (status == ROCO_INVALID)
        return roco_fail(error, ROCO_INVALID, row->name, "%s: '%s' is not %s (allowed: %s)", where, show(text).text,
                         is_size ? "a size such as 512MiB or 2GiB" : "a whole number", range);
    if (status || *out < row->min || *out > row->max)
        return roco_fail(error, ROCO_INVALID, row->name, "%s: %s is out of range (allowed: %s)", where, show(text).text,
                         range);
    return ROCO_OK;
}

static roco_status check_text(const roco_option_row *row, const char *text, const char *where, roco_error *error)
{
    if (row->kind == ROCO_OPTION_CHOICE && !is_choice(row->choices, text)) {
        char range[ROCO_OPTION_RANGE_BYTES];
        roco_option_range(row, range);
        return roco_fail(error, ROCO_INVALID, row->name, "%s: '%s' is unknown (allowed: %s)", where, show(text).text,
                         range);
    }
    if (row->kind == ROCO_OPTION_TEXT && strlen(text) < (size_t)row->min)
        return roco_fail(error, ROCO_INVALID, row->name, "%s: must not be empty", where);
    return ROCO_OK;
}

roco_status roco_option_set(roco_option_reader *reader, const roco_option_row *row, const char *text,
                            roco_option_source source, const char *where, roco_error *error)
{
    bool is_number = row->kind == ROCO_OPTION_INT || row->kind == ROCO_OPTION_SIZE;
    int64_t number = 0;
    roco_status status =
        is_number ? check_number(row, text, &number, where, error) : check_text(row, text, where, error);
    if (status)
        return status;
    roco_option_source *now = &reader->sources[row - roco_option_rows];
    if (source < *now)
        return ROCO_OK;
    *now = source;
    char *field = (char *)reader->options + row->offset;
    if (is_number) {
        memcpy(field, &number, sizeof number);
        return ROCO_OK;
    }
    const char *kept;
    status = keep_text(reader->options, text, &kept);
    if (status)
        return roco_fail(error, status, row->name, "%s: out of memory", where);
    memcpy(field, &kept, sizeof kept);
    return ROCO_OK;
}

static roco_status unknown_flag(const char *name, size_t length, roco_error *error)
{
    char plain[64];
    snprintf(plain, sizeof plain, "%.*s", (int)(length > 63 ? 63 : length), name);
    const char *near = roco_option_nearest(plain);
    return roco_fail(error, ROCO_INVALID, show(plain).text, "unknown option --%s%s%s; see --help", show(plain).text,
                     near ? ", did you mean --" : "", near ? near : "");
}

/* What one pass over the flags found beside the rows. */
typedef struct flags {
    const char *config; /* borrowed from argv or the environment; NULL: no file */
    const char *model;  /* the argument without a name */
    bool help;
} flags;

/* Takes argv[*at] and, where its value is the next word, argv[*at + 1]. */
static roco_status read_flag(roco_option_reader *reader, flags *found, int argc, char **argv, int *at,
                             roco_error *error)
{
    const char *name = argv[*at] + 2;
    const char *value = strchr(name, '=');
    size_t length = value ? (size_t)(value - name) : strlen(name);
    char plain[64];
    if (length >= sizeof plain)
        return unknown_flag(name, length, error);
    memcpy(plain, name, length);
    plain[length] = '\0';

    const roco_option_row *row = roco_option_find(plain);
    bool is_config = strcmp(plain, "config") == 0;
    if (!row && !is_config)
        return unknown_flag(name, length, error);
    if (value)
        value++;
    else if (*at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0)
        value = argv[++*at];
    else
        return roco_fail(error, ROCO_INVALID, plain,
                         "--%s needs a value; one that starts with -- is given as --%s=VALUE", plain, plain);
    if (is_config) {
        found->config = value;
        return ROCO_OK;
    }
    char where[72];
    snprintf(where, sizeof where, "--%s", plain);
    return roco_option_set(reader, row, value, ROCO_FROM_FLAG, where, error);
}

static roco_status read_flags(roco_option_reader *reader, flags *found, int argc, char **argv, roco_error *error)
{
    bool only_arguments = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!only_arguments && strcmp(word, "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            found->help = true;
            return ROCO_OK;
        } else if (!only_arguments && strncmp(word, "--", 2) == 0) {
            roco_status status = read_flag(reader, found, argc, argv, &i, error);
            if (status)
                return status;
        } else if (!only_arguments && word[0] == '-') {
            return roco_fail(error, ROCO_INVALID, "", "unknown option %s; see --help", show(word).text);
        } else if (found->model) {
            return roco_fail(error, ROCO_INVALID, "model", "one model file is allowed, the second is '%s'",
                             show(word).text);
        } else {
            found->model = word;
            roco_status status =
                roco_option_set(reader, roco_option_find("model"), word, ROCO_FROM_FLAG, "model", error);
            if (status)
                return status;
        }
    }
    return ROCO_OK;
}

static void environment_name(const char *name, char *out, size_t room)
{
    size_t used = (size_t)snprintf(out, room, "ROCO_");
    for (; *name && used + 1 < room; name++)
        out[used++] = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
    out[used] = '\0';
}

static roco_status read_variable(roco_option_reader *reader, flags *found, const char *variable, roco_error *error)
{
    char name[64], known[64];
    size_t length = strcspn(variable, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length > 63 ? 63 : length), variable);
    const char *value = variable[length] ? variable + length + 1 : "";
    if (strcmp(name, "ROCO_CONFIG") == 0) {
        if (!found->config && *value)
            found->config = value;
        return ROCO_OK;
    }
    for (size_t i = 0; i < roco_n_option_rows; i++) {
        environment_name(roco_option_rows[i].name, known, sizeof known);
        if (strcmp(name, known) == 0)
            return roco_option_set(reader, &roco_option_rows[i], value, ROCO_FROM_ENVIRONMENT, name, error);
    }
    char plain[64] = {0};
    for (size_t i = strlen("ROCO_"); name[i]; i++)
        plain[i - strlen("ROCO_")] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    const char *near = roco_option_nearest(plain);
    if (near)
        environment_name(near, known, sizeof known);
    return roco_fail(error, ROCO_INVALID, show(name).text, "unknown environment variable %s%s%s", show(name).text,
                     near ? ", did you mean " : "", near ? known : "");
}

static roco_status read_environment(roco_option_reader *reader, flags *found, char **environment, roco_error *error)
{
    for (char **variable = environment; variable && *variable; variable++) {
        if (strncmp(*variable, "ROCO_", strlen("ROCO_")) != 0)
            continue;
        roco_status status = read_variable(reader, found, *variable, error);
        if (status)
            return status;
    }
    return ROCO_OK;
}

static roco_status set_defaults(roco_option_reader *reader, roco_error *error)
{
    reader->options->fault = "";
    for (size_t i = 0; i < roco_n_option_rows; i++) {
        const roco_option_row *row = &roco_option_rows[i];
        roco_status status = roco_option_set(reader, row, row->value, ROCO_FROM_DEFAULT, row->name, error);
        if (status)
            return status;
    }
    return ROCO_OK;
}

/* Values that are fine alone and make no server together. */
static roco_status check_together(const roco_options *o, roco_error *error)
{
    if (!*o->model)
        return roco_fail(error, ROCO_INVALID, "model", "a model is needed: the path of a GGUF file");
    if (o->step_tokens < o->max_seqs + o->evict_stride)
        return roco_fail(error, ROCO_INVALID, "step-tokens",
                         "step-tokens is %lld, allowed: max-seqs + evict-stride (%lld) or more",
                         (long long)o->step_tokens, (long long)(o->max_seqs + o->evict_stride));
    if (o->kv_budget_max && o->kv_budget_max < o->kv_budget)
        return roco_fail(error, ROCO_INVALID, "kv-budget-max",
                         "kv-budget-max is %lld, allowed: 0, or kv-budget (%lld) or more", (long long)o->kv_budget_max,
                         (long long)o->kv_budget);
    if (!*o->tls_cert != !*o->tls_key)
        return roco_fail(error, ROCO_INVALID, *o->tls_cert ? "tls-key" : "tls-cert",
                         "tls-cert and tls-key belong together: the other one is missing");
    if (o->kv_sink + o->kv_recent >= o->kv_budget)
        return roco_fail(error, ROCO_INVALID, "kv-budget",
                         "kv-budget is %lld, allowed: more than kv-sink + kv-recent (%lld)", (long long)o->kv_budget,
                         (long long)(o->kv_sink + o->kv_recent));
    return ROCO_OK;
}

roco_status roco_options_parse(roco_options *options, int argc, char **argv, char **environment, FILE *out,
                               roco_options_result *result, roco_error *error)
{
    *options = (roco_options){0};
    *result = ROCO_OPTIONS_RUN;
    roco_option_reader reader = {.options = options};
    flags found = {0};
    /* Flags are read first, though they rank highest, since they may name the file or ask for help only. */
    roco_status status = set_defaults(&reader, error);
    if (!status)
        status = read_flags(&reader, &found, argc, argv, error);
    if (!status && found.help) {
        roco_options_print_help(out);
        *result = ROCO_OPTIONS_EXIT;
        return ROCO_OK;
    }
    if (!status)
        status = read_environment(&reader, &found, environment, error);
    if (!status && found.config)
        status = roco_option_read_file(&reader, found.config, error);
    return status ? status : check_together(options, error);
}

void roco_options_free(roco_options *options)
{
    for (size_t i = 0; i < options->n_owned; i++)
        free(options->owned[i]);
    free(options->owned);
    *options = (roco_options){0};
}
