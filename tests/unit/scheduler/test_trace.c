/* The trace file: one JSON object a line, labels escaped, and the decisions of a known run. */
#include "scheduler/trace.h"
#include "tests/unit/scheduler/support_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct trace_file {
    char path[64];
    char text[65536];
} trace_file;

static int open_file(void **state)
{
    trace_file *file = calloc(1, sizeof *file);
    if (!file)
        return -1;
    snprintf(file->path, sizeof file->path, "trace-test-XXXXXX");
    int fd = mkstemp(file->path);
    *state = file;
    return fd < 0 ? -1 : close(fd);
}

static int close_file(void **state)
{
    trace_file *file = *state;
    int result = unlink(file->path);
    free(file);
    return result;
}

static void read_file(trace_file *file)
{
    FILE *in = fopen(file->path, "r");
    assert_non_null(in);
    size_t size = fread(file->text, 1, sizeof file->text - 1, in);
    file->text[size] = '\0';
    fclose(in);
}

/* Quotes closed, brackets balanced, printable ASCII: enough to catch a broken writer. */
static void check_line(const char *line, size_t size)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        assert_true(line[i] >= 0x20 && line[i] < 0x7f);
        if (quoted && line[i] == '\\')
            i++;
        else if (line[i] == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += (line[i] == '{' || line[i] == '[') - (line[i] == '}' || line[i] == ']');
        assert_true(depth > 0 || i + 1 == size);
    }
    assert_false(quoted);
    assert_int_equal(depth, 0);
}

static uint32_t check_lines(const char *text)
{
    uint32_t n = 0;
    for (const char *line = text; *line; n++) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        check_line(line, (size_t)(end - line));
        line = end + 1;
    }
    return n;
}

static void expect_text(const trace_file *file, const char *text)
{
    if (!strstr(file->text, text))
        fail_msg("the trace lacks %s:\n%s", text, file->text);
}

static void tells_each_steps_decisions(void **state)
{
    trace_file *file = *state;
    harness h;
    harness_job long_one, short_one;
    harness_init(&h);
    h.fake.gated = true;
    h.config.trace = file->path;
    harness_start(&h);
    harness_must_submit(&h, (harness_ask){.n_prompt = 100, .max_tokens = 2, .seed = 1, .budget = 32}, &long_one);
    fake_engine_wait_held(h.engine);
    harness_must_submit(&h, (harness_ask){.n_prompt = 20, .max_tokens = 1, .seed = 2}, &short_one);
    fake_engine_open_gate(h.engine);
    harness_finish_all(&h);
    harness_close(&h);
    read_file(file);
    assert_int_equal(check_lines(file->text), 3);
    expect_text(file, "\"admitted\":[1],\"decode\":[],\"prefill\":[{\"id\":1,\"position\":0,\"tokens\":64}],"
                      "\"drawn\":[],\"evicted_slots\":128,\"finished\":[]");
    expect_text(file,
                "\"rows\":56,\"admitted\":[2],\"decode\":[],\"prefill\":[{\"id\":1,\"position\":64,\"tokens\":36},"
                "{\"id\":2,\"position\":0,\"tokens\":20}]");
    expect_text(file, "\"finished\":[{\"id\":2,\"label\":\"test\",\"why\":\"length\"}]");
    expect_text(file, "\"step\":3,");
    expect_text(file, "\"decode\":[1],\"prefill\":[]");
}

static void escapes_labels(void **state)
{
    trace_file *file = *state;
    roco_trace trace;
    assert_int_equal(roco_trace_open(&trace, file->path, NULL), ROCO_OK);
    roco_trace_write(&trace, &(roco_trace_step){0}); /* nothing happened: no line */
    roco_trace_finished(&trace, 1, "a\"b\\c\n\x1b\xc3\xa9", "stop");
    roco_trace_finished(&trace, 2, NULL, "stop");
    roco_trace_write(&trace, &(roco_trace_step){0});
    roco_trace_close(&trace);
    read_file(file);
    assert_int_equal(check_lines(file->text), 1);
    expect_text(file, "\"label\":\"a\\\"b\\\\c\\u000a\\u001b\\u00c3\\u00a9\"");
    expect_text(file, "{\"id\":2,\"label\":\"\"");
}

static void a_path_that_cannot_be_written_is_refused(void **state)
{
    roco_trace trace;
    roco_error error = {0};
    assert_int_equal(roco_trace_open(&trace, "no-such-folder/trace", &error), ROCO_IO);
    assert_string_equal(error.field, "trace");
    roco_trace_close(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tells_each_steps_decisions, open_file, close_file),
        cmocka_unit_test_setup_teardown(escapes_labels, open_file, close_file),
        cmocka_unit_test(a_path_that_cannot_be_written_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
