#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support_api.h"

#include <stdlib.h>
#include <string.h>

/* `text` as the ids of its bytes: "[107,108]". Owned. */
static char *ids_of(const char *text, size_t size)
{
    roco_json_out out = {0};
    for (size_t i = 0; i < size; i++)
        roco_json_format(&out, "%c%d", i ? ',' : '[', (unsigned char)text[i] + SUPPORT_FIRST_BYTE);
    roco_json_raw(&out, "]");
    return out.buffer.data;
}

char *api_body(const char *text, size_t size, const char *members)
{
    char *ids = ids_of(text, size);
    roco_json_out out = {0};
    roco_json_format(&out, "{\"prompt\":%s,%s}", ids, members);
    free(ids);
    return out.buffer.data;
}

static cJSON *parse(support_reply reply, const char *body, int status)
{
    if (reply.status != status)
        fail_msg("%d instead of %d: %s -> %s", reply.status, status, body, reply.body ? reply.body : "");
    assert_true(reply.complete);
    assert_non_null(strstr(reply.head, "Content-Type: application/json\r\n"));
    cJSON *json = cJSON_Parse(reply.body);
    assert_non_null(json);
    support_reply_free(&reply);
    return json;
}

cJSON *api_post(support_app *app, const char *path, const char *body, int status)
{
    return parse(support_post(app, path, body), body, status);
}

cJSON *api_get(support_app *app, const char *path, int status)
{
    return parse(support_get(app, path), path, status);
}

cJSON *api_at(const cJSON *json, const char *name)
{
    cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
    assert_non_null(value);
    return value;
}

const char *api_text(const cJSON *json, const char *name)
{
    return api_at(json, name)->valuestring;
}

int api_int(const cJSON *json, const char *name)
{
    return api_at(json, name)->valueint;
}

void api_expect_error(support_app *app, const char *body, int status, const char *param, const char *code,
                      const char *words)
{
    cJSON *json = api_post(app, COMPLETIONS, body, status), *error = api_at(json, "error");
    assert_string_equal(api_text(error, "type"), status == 429  ? "rate_limit_error"
                                                 : status < 500 ? "invalid_request_error"
                                                                : "server_error");
    if (param)
        assert_string_equal(api_text(error, "param"), param);
    else
        assert_true(cJSON_IsNull(api_at(error, "param")));
    assert_string_equal(api_text(error, "code"), code);
    if (!strstr(api_text(error, "message"), words))
        fail_msg("\"%s\" does not say \"%s\"", api_text(error, "message"), words);
    cJSON_Delete(json);
}
