/* Requests and replies of the API in the terms of the tests: bodies that script an answer, parsed JSON, expectations.
 * What is not as said fails the test. */
#ifndef ROCO_TESTS_SUPPORT_API_H
#define ROCO_TESTS_SUPPORT_API_H

#include "support_app.h"

#define COMPLETIONS "/v1/completions"

/* A completion body whose answer is text[size]: its bytes as token ids, then `members`. Owned. */
char *api_body(const char *text, size_t size, const char *members);
/* Posts and parses a JSON reply. Owned (cJSON_Delete). */
cJSON *api_post(support_app *app, const char *path, const char *body, int status);
cJSON *api_get(support_app *app, const char *path, int status);
/* Posts to COMPLETIONS; the error object is as given and its message holds `words`. */
void api_expect_error(support_app *app, const char *body, int status, const char *param, const char *code,
                      const char *words);

/* Members that must be there. */
cJSON *api_at(const cJSON *json, const char *name);
const char *api_text(const cJSON *json, const char *name);
int api_int(const cJSON *json, const char *name);

#endif
