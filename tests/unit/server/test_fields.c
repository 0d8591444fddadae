/* The completion fields: what each takes, what each refuses, and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/fields_completion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads {"prompt":"p", <members>}. The tree stays open for what `out` borrows. */
static roco_status read_members(const char *members, roco_completion_params *out, cJSON **tree, roco_error *error)
{
    char text[4096];
    snprintf(text, sizeof text, "{\"prompt\":\"p\"%s%s}", *members ? "," : "", members);
    *tree = NULL;
    assert_int_equal(roco_json_parse(text, strlen(text), tree, NULL), ROCO_OK);
    *error = (roco_error){0};
    return roco_completion_params_read(*tree, out, error);
}

static void refused(const char *members, const char *field, const char *words)
{
    roco_completion_params params;
    roco_error error;
    cJSON *tree;
    if (read_members(members, &params, &tree, &error) == ROCO_OK)
        fail_msg("accepted: %s", members);
    cJSON_Delete(tree);
    assert_string_equal(error.field, field);
    if (!strstr(error.message, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", members, error.message, words);
}

static roco_completion_params accepted(const char *members)
{
    roco_completion_params params;
    roco_error error;
    cJSON *tree;
    if (read_members(members, &params, &tree, &error) != ROCO_OK)
        fail_msg("refused: %s: %s", members, error.message);
    cJSON_Delete(tree);
    return params;
}

static void test_defaults(void **state)
{
    const char *nothing[] = {"",
                             "\"max_tokens\":null,\"temperature\":null,\"top_p\":null,\"top_k\":null,\"min_p\":null,"
                             "\"seed\":null,\"stop\":null,\"n\":null,\"stream\":null,\"stream_options\":null,"
                             "\"ignore_eos\":null,\"kv_budget\":null,\"kv_policy\":null,\"kv_sink\":null,"
                             "\"kv_recent\":null,\"model\":null,\"logprobs\":null,\"tools\":null"};
    for (size_t i = 0; i < 2; i++) {
        roco_completion_params p = accepted(nothing[i]);
        assert_int_equal(p.max_tokens, ROCO_ABSENT);
        assert_true(p.temperature == 1 && p.top_p == 1 && p.min_p == 0 && p.top_k == 0);
        assert_int_equal(p.seed, ROCO_ABSENT);
        assert_int_equal(p.n, 1);
        assert_int_equal(p.stops.n, 0);
        assert_false(p.stream || p.include_usage || p.ignore_eos);
        assert_true(p.kv_budget == 0 && !p.policy && !p.model);
        assert_int_equal(p.kv_sink, ROCO_ABSENT);
    }
}

static void test_zero_is_a_value(void **state)
{
    roco_completion_params p =
        accepted("\"temperature\":0,\"top_p\":0,\"seed\":0,\"frequency_penalty\":0,\"kv_sink\":0");
    assert_true(p.temperature == 0 && p.top_p == 0);
    assert_int_equal(p.seed, 0);
    assert_int_equal(p.kv_sink, 0);
}

static void test_values(void **state)
{
    roco_completion_params p =
        accepted("\"max_tokens\":2147483647,\"top_k\":-1,\"seed\":-9007199254740991,\"n\":16,\"stream\":true,"
                 "\"stream_options\":{\"include_usage\":true,\"other\":1},\"kv_budget\":32,\"kv_policy\":\"recency\","
                 "\"stop\":[\"a\",\"bc\"],\"unknown\":{\"x\":[1]},\"user\":7");
    assert_int_equal(p.max_tokens, 2147483647);
    assert_int_equal(p.top_k, -1);
    assert_int_equal(p.seed, -9007199254740991);
    assert_int_equal(p.n, 16);
    assert_true(p.stream && p.include_usage);
    assert_true(p.kv_budget == 32);
    assert_string_equal(p.policy->name, "recency");
    assert_int_equal(p.stops.n, 2);
    assert_int_equal(p.stops.length[1], 2);
    assert_true(accepted("\"kv_budget\":0.25").kv_budget == 0.25);
    assert_int_equal(accepted("\"max_completion_tokens\":7").max_tokens, 7);
    p = accepted("\"logprobs\":0,\"n\":3");
    assert_true(p.logprobs && p.top_logprobs == 0 && p.best_of == 3);
    assert_false(accepted("\"logprobs\":false").logprobs);
    assert_true(accepted("\"repetition_penalty\":1.1").repetition_penalty == 1.1);
    assert_int_equal(accepted("\"max_completion_tokens\":7,\"max_tokens\":7").max_tokens, 7);
}

static void test_bad_values(void **state)
{
    static const struct {
        const char *members, *field, *words;
    } cases[] = {
        {"\"max_tokens\":-1", "max_tokens", "from 0 to 2147483647"},
        {"\"max_tokens\":3000000000", "max_tokens", "2147483647"},
        {"\"max_tokens\":1e400", "max_tokens", "integer"},
        {"\"max_tokens\":1.5", "max_tokens", "integer"},
        {"\"max_tokens\":\"5\"", "max_tokens", "integer"},
        {"\"max_tokens\":5,\"max_completion_tokens\":6", "max_completion_tokens", "differ"},
        {"\"temperature\":-1", "temperature", "from 0 to 2"},
        {"\"temperature\":1e15", "temperature", "from 0 to 2"},
        {"\"temperature\":true", "temperature", "number"},
        {"\"top_p\":1.5", "top_p", "from 0 to 1"},
        {"\"top_k\":-5", "top_k", "-1"},
        {"\"min_p\":2", "min_p", "from 0 to 1"},
        {"\"seed\":9007199254740992", "seed", "9007199254740991"},
        {"\"seed\":9007199254740993", "seed", "9007199254740991"},
        {"\"seed\":0.5", "seed", "integer"},
        {"\"n\":0", "n", "from 1 to 16"},
        {"\"n\":1.5", "n", "from 1 to 16"},
        {"\"n\":100000", "n", "from 1 to 16"},
        {"\"stream\":1", "stream", "true or false"},
        {"\"stream_options\":true", "stream_options", "object"},
        {"\"stream_options\":{\"include_usage\":1}", "stream_options.include_usage", "true or false"},
        {"\"stop\":\"\"", "stop", "1 to 256"},
        {"\"stop\":[null]", "stop", "string"},
        {"\"stop\":[7]", "stop", "string"},
        {"\"stop\":{}", "stop", "string"},
        {"\"stop\":{\"a\":1}", "stop", "string"},
        {"\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\"]", "stop", "4"},
        {"\"kv_budget\":0", "kv_budget", "from 32"},
        {"\"kv_budget\":1", "kv_budget", "from 32"},
        {"\"kv_budget\":31", "kv_budget", "from 32"},
        {"\"kv_budget\":-1", "kv_budget", "from 32"},
        {"\"kv_budget\":1.5", "kv_budget", "share"},
        {"\"kv_budget\":64.5", "kv_budget", "share"},
        {"\"kv_budget\":\"64\"", "kv_budget", "from 32"},
        {"\"kv_budget\":1e300", "kv_budget", "from 32"},
        {"\"kv_policy\":\"lru\"", "kv_policy", "full, roco"},
        {"\"kv_policy\":1", "kv_policy", "full, roco"},
        {"\"kv_sink\":-1", "kv_sink", "from 0"},
        {"\"kv_recent\":0", "kv_recent", "from 1"},
        {"\"model\":5", "model", "string"},
        {"\"seed\":1,\"seed\":2", "seed", "twice"},
        {"\"logprobs\":-1", "logprobs", "from 0 to 5"},
        {"\"logprobs\":6", "logprobs", "from 0 to 5"},
        {"\"logprobs\":true", "logprobs", "from 0 to 5"},
        {"\"echo\":1", "echo", "true or false"},
        {"\"best_of\":1000", "best_of", "from 1 to 16"},
        {"\"best_of\":2,\"n\":3", "best_of", "at least n"},
        {"\"best_of\":2,\"stream\":true", "best_of", "streamed"},
        {"\"presence_penalty\":2.1", "presence_penalty", "from -2 to 2"},
        {"\"frequency_penalty\":-2.1", "frequency_penalty", "from -2 to 2"},
        {"\"repetition_penalty\":0", "repetition_penalty", "from 0.1 to 10"},
        {"\"logit_bias\":[1]", "logit_bias", "object"},
        {"\"min_tokens\":-1", "min_tokens", "from 0"},
        {"\"min_tokens\":6,\"max_tokens\":5", "min_tokens", "over max_tokens"},
        {"\"stop_token_ids\":7", "stop_token_ids", "array"},
        {"\"prompt\":\"q\"", "prompt", "twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].members, cases[i].field, cases[i].words);

    char long_stop[4096] = "\"stop\":\"";
    memset(long_stop + strlen(long_stop), 'x', 257);
    strcpy(long_stop + 8 + 257, "\"");
    refused(long_stop, "stop", "1 to 256");
    strcpy(long_stop + 8 + 256, "\"");
    assert_int_equal(accepted(long_stop).stops.length[0], 256);
}

static void test_unsupported(void **state)
{
    static const struct {
        const char *name, *harmless, *harmful;
    } cases[] = {
        {"suffix", "\"\"", "\"x\""},
        {"ebnf", "\"\"", "\"root ::= x\""},
        {"tools", "[]", "[{}]"},
        {"tool_choice", "\"none\"", "\"auto\""},
        {"repeat_penalty", "1", "1.1"},
        {"top_logprobs", "0", "2"},
        {"messages", "null", "[]"},
        {"max_new_tokens", "null", "5"},
        {"allowed_token_ids", "[]", "[7]"},
        {"skip_special_tokens", "true", "false"},
        {"tfs_z", "1.0", "0.9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char members[256];
        snprintf(members, sizeof members, "\"%s\":%s", cases[i].name, cases[i].harmless);
        accepted(members);
        snprintf(members, sizeof members, "\"%s\":%s", cases[i].name, cases[i].harmful);
        refused(members, cases[i].name, "not supported");
    }
}

static void test_prompt_forms(void **state)
{
    static const char *const bad[] = {
        "{}", "{\"prompt\":null}", "{\"prompt\":[]}", "{\"prompt\":7}", "{\"prompt\":{}}", "[]", "\"x\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cJSON *tree = NULL;
        roco_completion_params params;
        roco_error error;
        assert_int_equal(roco_json_parse(bad[i], strlen(bad[i]), &tree, NULL), ROCO_OK);
        assert_int_equal(roco_completion_params_read(tree, &params, &error), ROCO_INVALID);
        cJSON_Delete(tree);
    }
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 17);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 17) - 1, file) > 0);
    fclose(file);
    return text;
}

/* The tables that users read are those that requests are read by. */
static void check_docs(const roco_field *fields)
{
    char *table = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&table, &size);
    roco_fields_print(fields, file);
    fclose(file);
    char *docs = read_file(ROCO_SOURCE_DIR "/docs/API.md");
    if (!strstr(docs, table)) {
        fputs(table, stderr); /* to be pasted; fail_msg would cut it */
        fail_msg("docs/API.md must hold the table above");
    }
    free(docs);
    free(table);
}

static void test_docs_are_current(void **state)
{
    check_docs(roco_completion_fields);
    check_docs(roco_chat_fields);
    check_docs(roco_responses_fields);
    check_docs(roco_messages_fields);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),         cmocka_unit_test(test_zero_is_a_value),
        cmocka_unit_test(test_values),           cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_unsupported),      cmocka_unit_test(test_prompt_forms),
        cmocka_unit_test(test_docs_are_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
