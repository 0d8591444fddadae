/* Readers of the fields that concern the tokens of an answer. What needs the vocabulary is checked in job_rules.c. */
#include "server/fields_completion.h"

roco_status roco_read_logprobs(const cJSON *value, void *out, roco_error *error)
{
    roco_completion_params *params = out;
    int64_t n;
    if (cJSON_IsFalse(value)) /* a chat's way to want none */
        return ROCO_OK;
    if (!roco_json_integer(value, &n) || n < 0 || n > ROCO_MAX_LOGPROBS)
        return roco_field_not_integer(error, "logprobs", 0, ROCO_MAX_LOGPROBS);
    params->logprobs = true;
    params->top_logprobs = n;
    return ROCO_OK;
}

roco_status roco_read_logit_bias(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsObject(value))
        return roco_fail(error, ROCO_INVALID, "logit_bias", "logit_bias must be an object of token ids and biases");
    ((roco_completion_params *)out)->logit_bias = value;
    return ROCO_OK;
}

roco_status roco_read_stop_token_ids(const cJSON *value, void *out, roco_error *error)
{
    if (!cJSON_IsArray(value))
        return roco_fail(error, ROCO_INVALID, "stop_token_ids", "stop_token_ids must be an array of token ids");
    ((roco_completion_params *)out)->stop_token_ids = value;
    return ROCO_OK;
}
