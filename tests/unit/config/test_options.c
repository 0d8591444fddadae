#include "config/options_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* One reading of options; words and variables end with NULL. */
typedef struct reading {
    roco_options options;
    roco_options_result result;
    roco_error error;
    roco_status status;
} reading;

static reading read_options(const char *const *words, const char *const *variables)
{
    reading r = {0};
    int argc = 0;
    while (words[argc])
        argc++;
    r.status = roco_options_parse(&r.options, argc, (char **)(uintptr_t)words, (char **)(uintptr_t)variables, stdout,
                                  &r.result, &r.error);
    return r;
}

#define WORDS(...)     ((const char *const[]){__VA_ARGS__, NULL})
#define VARIABLES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void assert_refused(const char *const *words, const char *const *variables, const char *field,
                           const char *message)
{
    reading r = read_options(words, variables);
    assert_int_equal(r.status, ROCO_INVALID);
    assert_string_equal(r.error.field, field);
    assert_string_equal(r.error.message, message);
    roco_options_free(&r.options);
}

static char *write_file(const char *text)
{
    static char path[] = "/tmp/roco-options-XXXXXX";
    memcpy(strstr(path, "options-") + strlen("options-"), "XXXXXX", 6);
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    return path;
}

static reading read_with_file(const char *text, const char *const *variables)
{
    char *path = write_file(text);
    reading r = read_options(WORDS("m.gguf", "--config", path), variables);
    unlink(path);
    return r;
}

static void test_defaults(void **state)
{
    reading r = read_options(WORDS("m.gguf"), NULL);
    const roco_options *o = &r.options;
    assert_int_equal(r.status, ROCO_OK);
    assert_int_equal(r.result, ROCO_OPTIONS_RUN);
    assert_string_equal(o->model, "m.gguf");
    assert_string_equal(o->backend, "auto");
    assert_string_equal(o->precision, "auto");
    assert_int_equal(o->threads, 0);
    assert_int_equal(o->context, 0);
    assert_int_equal(o->kv_pool_bytes, INT64_C(2) << 30);
    assert_int_equal(o->kv_pool_tokens, 0);
    assert_int_equal(o->kv_budget, 1024);
    assert_int_equal(o->kv_budget_max, 0);
    assert_string_equal(o->kv_policy, "roco");
    assert_string_equal(o->kv_type, "f16");
    assert_int_equal(o->kv_sink, 4);
    assert_int_equal(o->kv_recent, 10);
    assert_int_equal(o->evict_stride, 64);
    assert_int_equal(o->step_tokens, 512);
    assert_int_equal(o->max_seqs, 64);
    assert_int_equal(o->queue, 256);
    assert_int_equal(o->queue_timeout, 300);
    assert_int_equal(o->request_timeout, 0);
    assert_string_equal(o->trace, "");
    assert_string_equal(o->host, "127.0.0.1");
    assert_int_equal(o->port, 8080);
    assert_int_equal(o->max_body, 8 << 20);
    assert_int_equal(o->max_connections, 1024);
    assert_int_equal(o->keep_alive, 10);
    assert_int_equal(o->idle_timeout, 60);
    assert_int_equal(o->drain_timeout, 30);
    assert_string_equal(o->api_key_file, "");
    assert_string_equal(o->log_level, "info");
    assert_string_equal(o->fault, "");
    roco_options_free(&r.options);
}

/* Every row, by every road, to its own field: a wrong offset or name shows. */
static void test_each_row_reaches_its_field_from_flag_variable_and_file(void **state)
{
    for (size_t i = 0; i < roco_n_option_rows; i++) {
        const roco_option_row *row = &roco_option_rows[i];
        char value[64], flag[128], variable[128], line[128];
        bool is_number = row->kind == ROCO_OPTION_INT || row->kind == ROCO_OPTION_SIZE;
        if (is_number)
            snprintf(value, sizeof value, "%lld", (long long)(row->max == INT64_MAX ? row->min : row->max));
        else if (row->kind == ROCO_OPTION_CHOICE)
            snprintf(value, sizeof value, "%s", strrchr(row->choices, '|') + 1);
        else
            snprintf(value, sizeof value, "text-%zu", i);
        snprintf(flag, sizeof flag, "--%s=%s", row->name, value);
        snprintf(line, sizeof line, "%s = %s\n", row->name, value);
        snprintf(variable, sizeof variable, "ROCO_%s=%s", row->name, value);
        for (char *c = variable; *c != '='; c++)
            *c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;

        for (int road = 0; road < 3; road++) {
            roco_options options = {0};
            roco_options_result result;
            roco_error error = {0};
            char *path = write_file(road == 2 ? line : "");
            char config[128];
            snprintf(config, sizeof config, "--config=%s", path);
            char *argv[] = {config, road == 0 ? flag : config};
            char *environment[] = {road == 1 ? variable : "OTHER=1", NULL};
            /* Some single values break a rule between options; the field is set all the same. */
            roco_status status = roco_options_parse(&options, 2, argv, environment, stdout, &result, &error);
            unlink(path);
            if (status)
                assert_true(strstr(error.message, "a model is needed") || strstr(error.message, "or more") ||
                            strstr(error.message, "more than"));
            const char *field = (const char *)&options + row->offset;
            if (is_number)
                assert_int_equal(*(const int64_t *)field, strtoll(value, NULL, 10));
            else
                assert_string_equal(*(char *const *)field, value);
            roco_options_free(&options);
        }
    }
}

static void test_flag_over_environment_over_file_over_default(void **state)
{
    char *path = write_file("port = 1\nqueue = 2\nthreads = 3\n");
    reading r =
        read_options(WORDS("m.gguf", "--port", "11", "--config", path), VARIABLES("ROCO_PORT=21", "ROCO_QUEUE=22"));
    unlink(path);
    assert_int_equal(r.status, ROCO_OK);
    assert_int_equal(r.options.port, 11);
    assert_int_equal(r.options.queue, 22);
    assert_int_equal(r.options.threads, 3);
    assert_int_equal(r.options.kv_budget, 1024);
    roco_options_free(&r.options);
}

static void test_the_last_of_two_equal_flags_counts(void **state)
{
    reading r = read_options(WORDS("--port", "1", "m.gguf", "--port=2"), NULL);
    assert_int_equal(r.status, ROCO_OK);
    assert_int_equal(r.options.port, 2);
    roco_options_free(&r.options);
}

static void test_the_file_may_be_named_by_a_variable_and_a_flag_wins(void **state)
{
    char variable[64];
    char *path = write_file("port = 77\n");
    snprintf(variable, sizeof variable, "ROCO_CONFIG=%s", path);
    reading r = read_options(WORDS("m.gguf"), VARIABLES(variable));
    assert_int_equal(r.status, ROCO_OK);
    assert_int_equal(r.options.port, 77);
    roco_options_free(&r.options);
    r = read_options(WORDS("m.gguf", "--config", "/dev/null"), VARIABLES(variable));
    assert_int_equal(r.status, ROCO_OK);
    assert_int_equal(r.options.port, 8080);
    roco_options_free(&r.options);
    unlink(path);
    r = read_options(WORDS("m.gguf"), VARIABLES("ROCO_CONFIG="));
    assert_int_equal(r.status, ROCO_OK);
    roco_options_free(&r.options);
}

static void test_out_of_range_names_option_and_range(void **state)
{
    assert_refused(WORDS("m", "--port", "65536"), NULL, "port", "--port: 65536 is out of range (allowed: 0 to 65535)");
    assert_refused(WORDS("m", "--port=-1"), NULL, "port", "--port: -1 is out of range (allowed: 0 to 65535)");
    assert_refused(WORDS("m", "--port", "99999999999999999999999"), NULL, "port",
                   "--port: 99999999999999999999999 is out of range (allowed: 0 to 65535)");
    assert_refused(WORDS("m", "--kv-pool-bytes", "512KiB"), NULL, "kv-pool-bytes",
                   "--kv-pool-bytes: 512KiB is out of range (allowed: 1MiB or more)");
    assert_refused(WORDS("m", "--max-body", "2GiB"), NULL, "max-body",
                   "--max-body: 2GiB is out of range (allowed: 1KiB to 1GiB)");
    assert_refused(WORDS("m"), VARIABLES("ROCO_KV_BUDGET=31"), "kv-budget",
                   "ROCO_KV_BUDGET: 31 is out of range (allowed: 32 to 2147483647)");
    assert_refused(WORDS("m", "--precision", "f64"), NULL, "precision",
                   "--precision: 'f64' is unknown (allowed: auto|f32|int8)");
    assert_refused(WORDS("m", "--precision", "int"), NULL, "precision",
                   "--precision: 'int' is unknown (allowed: auto|f32|int8)");
    assert_refused(WORDS("m", "--log-level="), NULL, "log-level",
                   "--log-level: '' is unknown (allowed: error|warn|info|debug)");
    assert_refused(WORDS("m", "--host="), NULL, "host", "--host: must not be empty");
}

static void test_each_bound_is_allowed_and_the_next_value_is_not(void **state)
{
    for (size_t i = 0; i < roco_n_option_rows; i++) {
        const roco_option_row *row = &roco_option_rows[i];
        if (row->kind != ROCO_OPTION_INT && row->kind != ROCO_OPTION_SIZE)
            continue;
        for (int side = 0; side < 2; side++) {
            roco_options options = {0};
            roco_option_reader reader = {.options = &options};
            roco_error error = {0};
            char text[32];
            int64_t bound = side ? row->max : row->min;
            snprintf(text, sizeof text, "%lld", (long long)bound);
            assert_int_equal(roco_option_set(&reader, row, text, ROCO_FROM_FLAG, row->name, &error), ROCO_OK);
            if (bound == INT64_MAX)
                continue;
            snprintf(text, sizeof text, "%lld", (long long)(side ? bound + 1 : bound - 1));
            assert_int_equal(roco_option_set(&reader, row, text, ROCO_FROM_FLAG, row->name, &error), ROCO_INVALID);
            assert_string_equal(error.field, row->name);
        }
    }
}

static void test_malformed_numbers(void **state)
{
    static const char *const bad[] = {"", " 1", "1 ", "1x", "0x10", "1.5", "1e3", "-", "+", "abc", "nan", "1,000"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char flag[64], message[128];
        snprintf(flag, sizeof flag, "--queue=%s", bad[i]);
        snprintf(message, sizeof message, "--queue: '%s' is not a whole number (allowed: 0 to 100000)", bad[i]);
        assert_refused(WORDS("m", flag), NULL, "queue", message);
    }
    assert_refused(WORDS("m", "--kv-pool-bytes=2GB"), NULL, "kv-pool-bytes",
                   "--kv-pool-bytes: '2GB' is not a size such as 512MiB or 2GiB (allowed: 1MiB or more)");
}

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"0", 0},
                {"1048576", 1048576},
                {"7B", 7},
                {"3K", 3072},
                {"3KiB", 3072},
                {"512M", INT64_C(512) << 20},
                {"2GiB", INT64_C(2) << 30},
                {"2 GiB", INT64_C(2) << 30},
                {"1T", INT64_C(1) << 40},
                {"9223372036854775807", INT64_MAX},
                {"8388607TiB", INT64_C(8388607) << 40}};
    static const char *const bad[] = {"",
                                      "K",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1.5G",
                                      "2GB",
                                      "2gib",
                                      "2 G x",
                                      "0x10",
                                      "1e6",
                                      "2 GiB ",
                                      "8388608T",
                                      "9223372036854775808",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t bytes = -1;
        assert_int_equal(roco_parse_size(good[i].text, &bytes), ROCO_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t bytes = -1;
        assert_int_equal(roco_parse_size(bad[i], &bytes), ROCO_INVALID);
        assert_int_equal(bytes, -1);
    }
}

static void test_unknown_names_are_refused_with_the_nearest(void **state)
{
    assert_refused(WORDS("m", "--kv-buget", "1"), NULL, "kv-buget",
                   "unknown option --kv-buget, did you mean --kv-budget; see --help");
    assert_refused(WORDS("m", "--kv_budget=64"), NULL, "kv_budget",
                   "unknown option --kv_budget, did you mean --kv-budget; see --help");
    assert_refused(WORDS("m", "--zzz"), NULL, "zzz", "unknown option --zzz; see --help");
    assert_refused(WORDS("m", "-p", "80"), NULL, "", "unknown option -p; see --help");
    assert_refused(WORDS("m", "--="), NULL, "", "unknown option --; see --help");
    assert_refused(WORDS("m"), VARIABLES("ROCO_KV_POLCY=x"), "ROCO_KV_POLCY",
                   "unknown environment variable ROCO_KV_POLCY, did you mean ROCO_KV_POLICY");
    assert_refused(WORDS("m"), VARIABLES("ROCO_port=1"), "ROCO_port",
                   "unknown environment variable ROCO_port, did you mean ROCO_PORT");
    assert_refused(WORDS("m"), VARIABLES("ROCO_"), "ROCO_", "unknown environment variable ROCO_");
    char longest[600];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "--", 2);
    longest[sizeof longest - 1] = '\0';
    reading r = read_options(WORDS("m", longest), NULL);
    assert_int_equal(r.status, ROCO_INVALID);
    roco_options_free(&r.options);
    memcpy(longest, "ROCO_", 5);
    r = read_options(WORDS("m"), VARIABLES(longest));
    assert_int_equal(r.status, ROCO_INVALID);
    roco_options_free(&r.options);
}

static void test_variables_of_others_are_left_alone(void **state)
{
    reading r = read_options(WORDS("m"), VARIABLES("PATH=/bin", "ROCOCO=1", "XROCO_PORT=1", "ROCO=1"));
    assert_int_equal(r.status, ROCO_OK);
    assert_int_equal(r.options.port, 8080);
    roco_options_free(&r.options);
}

static void test_exactly_one_model(void **state)
{
    assert_refused((const char *const[]){NULL}, NULL, "model", "a model is needed: the path of a GGUF file");
    assert_refused(WORDS("a.gguf", "b.gguf"), NULL, "model", "one model file is allowed, the second is 'b.gguf'");
    reading r = read_options(WORDS("--", "--odd.gguf"), NULL);
    assert_int_equal(r.status, ROCO_OK);
    assert_string_equal(r.options.model, "--odd.gguf");
    roco_options_free(&r.options);
    r = read_options((const char *const[]){NULL}, VARIABLES("ROCO_MODEL=e.gguf"));
    assert_int_equal(r.status, ROCO_OK);
    assert_string_equal(r.options.model, "e.gguf");
    roco_options_free(&r.options);
}

static void test_a_flag_without_its_value(void **state)
{
    static const char message[] = "--port needs a value; one that starts with -- is given as --port=VALUE";
    assert_refused(WORDS("m", "--port"), NULL, "port", message);
    assert_refused(WORDS("m", "--port", "--host"), NULL, "port", message);
    assert_refused(WORDS("m", "--config"), NULL, "config",
                   "--config needs a value; one that starts with -- is given as --config=VALUE");
}

static void test_values_that_make_no_server_together(void **state)
{
    assert_refused(WORDS("m", "--step-tokens", "127"), NULL, "step-tokens",
                   "step-tokens is 127, allowed: max-seqs + evict-stride (128) or more");
    assert_refused(WORDS("m", "--kv-budget-max", "512"), NULL, "kv-budget-max",
                   "kv-budget-max is 512, allowed: 0, or kv-budget (1024) or more");
    assert_refused(WORDS("m", "--kv-budget", "32", "--kv-recent", "28"), NULL, "kv-budget",
                   "kv-budget is 32, allowed: more than kv-sink + kv-recent (32)");
    reading r =
        read_options(WORDS("m", "--step-tokens", "128", "--kv-budget-max", "1024", "--kv-recent", "1019"), NULL);
    assert_int_equal(r.status, ROCO_OK);
    roco_options_free(&r.options);
}

static void test_messages_hold_no_control_bytes(void **state)
{
    reading r = read_options(WORDS("m", "--port", "8\n0\x1b[31m\xff"), NULL);
    assert_int_equal(r.status, ROCO_INVALID);
    assert_string_equal(r.error.message, "--port: '8?0?[31m?' is not a whole number (allowed: 0 to 65535)");
    roco_options_free(&r.options);
}

static void test_a_file_with_comments_spaces_and_carriage_returns(void **state)
{
    reading r =
        read_with_file("# comment\r\n; another\r\n\r\n   port=9 ; why\r\n\thost =  ::1  \r\nkv-policy = full", NULL);
    assert_int_equal(r.status, ROCO_OK);
    assert_int_equal(r.options.port, 9);
    assert_string_equal(r.options.host, "::1");
    assert_string_equal(r.options.kv_policy, "full");
    roco_options_free(&r.options);
}

static void test_faults_in_a_file_name_line_and_option(void **state)
{
    static const struct {
        const char *text, *field, *ending;
    } bad[] = {
        {"port = 80\nkv-buget = 1\n", "kv-buget", ":2: kv-buget is an unknown option, did you mean kv-budget"},
        {"\nport = 70000\n", "port", ":2: port: 70000 is out of range (allowed: 0 to 65535)"},
        {"port = 80 # x\n", "port", ":1: port: '80 # x' is not a whole number (allowed: 0 to 65535)"},
        {"host = a\n  port 80\n", "config", ":2: expected name = value"},
        {"[server]\nport = 80\n", "config", ":2: a roco.conf has no [sections]"},
        {"config = x\n", "config", ":1: config is an unknown option"},
        {"= 3\n", "", ":1:  is an unknown option"},
        {"port = 1\nport = x\n", "port", ":2: port: 'x' is not a whole number (allowed: 0 to 65535)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        reading r = read_with_file(bad[i].text, NULL);
        assert_int_equal(r.status, ROCO_INVALID);
        assert_string_equal(r.error.field, bad[i].field);
        size_t length = strlen(r.error.message), ending = strlen(bad[i].ending);
        assert_true(length >= ending);
        assert_string_equal(r.error.message + length - ending, bad[i].ending);
        roco_options_free(&r.options);
    }
}

static void test_a_line_too_long_for_the_parser_is_refused_whole(void **state)
{
    char text[1024] = "trace = ";
    memset(text + 8, 'a', 500);
    strcpy(text + 508, "\nport = 80\n");
    reading r = read_with_file(text, NULL);
    assert_int_equal(r.status, ROCO_INVALID);
    assert_non_null(strstr(r.error.message, ":1: the line is too long"));
    roco_options_free(&r.options);
}

static void test_files_that_are_none(void **state)
{
    reading r = read_options(WORDS("m", "--config", "/nonexistent/roco.conf"), NULL);
    assert_int_equal(r.status, ROCO_INVALID);
    assert_string_equal(r.error.field, "config");
    assert_string_equal(r.error.message, "/nonexistent/roco.conf: No such file or directory");
    roco_options_free(&r.options);
    r = read_options(WORDS("m", "--config", "/"), NULL);
    assert_int_equal(r.status, ROCO_INVALID);
    assert_string_equal(r.error.message, "/: Is a directory");
    roco_options_free(&r.options);
    r = read_options(WORDS("m", "--config", "/dev/zero"), NULL);
    assert_int_equal(r.status, ROCO_INVALID);
    assert_string_equal(r.error.message, "/dev/zero:1: not a text file");
    roco_options_free(&r.options);
}

static void test_values_are_checked_even_where_a_higher_source_wins(void **state)
{
    assert_refused(WORDS("m", "--port", "1"), VARIABLES("ROCO_PORT=x"), "port",
                   "ROCO_PORT: 'x' is not a whole number (allowed: 0 to 65535)");
}

static char *print(void (*printer)(FILE *out))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    printer(out);
    fclose(out);
    return text;
}

static void test_help_shows_every_row_and_ends_the_run(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    roco_options options;
    roco_options_result result;
    char *argv[] = {"--port", "1", "--help", "--nonsense"};
    assert_int_equal(roco_options_parse(&options, 4, argv, NULL, out, &result, NULL), ROCO_OK);
    fclose(out);
    assert_int_equal(result, ROCO_OPTIONS_EXIT);
    for (size_t i = 0; i < roco_n_option_rows; i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "\n  --%s ", roco_option_rows[i].name);
        assert_non_null(strstr(text, flag));
    }
    size_t longest = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        longest = strcspn(line, "\n") > longest ? strcspn(line, "\n") : longest;
    assert_true(longest <= 100);
    free(text);
    roco_options_free(&options);
}

static void test_the_printed_file_reads_back_as_the_defaults(void **state)
{
    char *text = print(roco_options_print_file);
    char *path = write_file(text);
    reading file = read_options(WORDS("--config", path, "m.gguf"), NULL);
    reading plain = read_options(WORDS("m.gguf"), NULL);
    unlink(path);
    assert_int_equal(file.status, ROCO_OK);
    for (size_t i = 0; i < roco_n_option_rows; i++) {
        const roco_option_row *row = &roco_option_rows[i];
        const char *a = (const char *)&file.options + row->offset, *b = (const char *)&plain.options + row->offset;
        if (row->kind == ROCO_OPTION_INT || row->kind == ROCO_OPTION_SIZE)
            assert_int_equal(*(const int64_t *)a, *(const int64_t *)b);
        else
            assert_string_equal(*(char *const *)a, *(char *const *)b);
    }
    roco_options_free(&file.options);
    roco_options_free(&plain.options);
    free(text);
}

static void test_the_committed_example_is_what_is_printed(void **state)
{
    char *text = print(roco_options_print_file);
    FILE *example = fopen(ROCO_SOURCE_DIR "/roco.conf.example", "r");
    assert_non_null(example);
    char *committed = calloc(1, strlen(text) + 2);
    size_t n = fread(committed, 1, strlen(text) + 1, example);
    fclose(example);
    assert_int_equal(n, strlen(text));
    assert_string_equal(committed, text);
    free(committed);
    free(text);
}

static void test_names_are_distinct_and_sections_stay_together(void **state)
{
    for (size_t i = 0; i < roco_n_option_rows; i++)
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(roco_option_rows[i].name, roco_option_rows[j].name);
            assert_int_not_equal(roco_option_rows[i].offset, roco_option_rows[j].offset);
            if (strcmp(roco_option_rows[i].section, roco_option_rows[j].section) == 0)
                assert_string_equal(roco_option_rows[i - 1].section, roco_option_rows[i].section);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_each_row_reaches_its_field_from_flag_variable_and_file),
        cmocka_unit_test(test_flag_over_environment_over_file_over_default),
        cmocka_unit_test(test_the_last_of_two_equal_flags_counts),
        cmocka_unit_test(test_the_file_may_be_named_by_a_variable_and_a_flag_wins),
        cmocka_unit_test(test_out_of_range_names_option_and_range),
        cmocka_unit_test(test_each_bound_is_allowed_and_the_next_value_is_not),
        cmocka_unit_test(test_malformed_numbers),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_unknown_names_are_refused_with_the_nearest),
        cmocka_unit_test(test_variables_of_others_are_left_alone),
        cmocka_unit_test(test_exactly_one_model),
        cmocka_unit_test(test_a_flag_without_its_value),
        cmocka_unit_test(test_values_that_make_no_server_together),
        cmocka_unit_test(test_messages_hold_no_control_bytes),
        cmocka_unit_test(test_a_file_with_comments_spaces_and_carriage_returns),
        cmocka_unit_test(test_faults_in_a_file_name_line_and_option),
        cmocka_unit_test(test_a_line_too_long_for_the_parser_is_refused_whole),
        cmocka_unit_test(test_files_that_are_none),
        cmocka_unit_test(test_values_are_checked_even_where_a_higher_source_wins),
        cmocka_unit_test(test_help_shows_every_row_and_ends_the_run),
        cmocka_unit_test(test_the_printed_file_reads_back_as_the_defaults),
        cmocka_unit_test(test_the_committed_example_is_what_is_printed),
        cmocka_unit_test(test_names_are_distinct_and_sections_stay_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
