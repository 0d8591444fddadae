/* From the JSON of messages to values. */
#include "server/messages.h"

#include <stdio.h>
#include <string.h>

static roco_status no_room(const roco_region *region, roco_error *error)
{
    roco_status status = region->status ? region->status : ROCO_NO_MEMORY;
    return roco_fail(error, status, NULL, "the messages need too much memory");
}

/* --- any JSON --- */

/* Of two members with one name the first counts, as it does for cJSON: what was checked is what is used. */
static bool put_first(roco_region *region, roco_dict *dict, const char *name, roco_value value)
{
    roco_value key;
    return roco_dict_find(dict, name, strlen(name)) ||
           (roco_value_string(region, name, strlen(name), ROCO_FROM_REQUEST, &key) &&
            roco_dict_put(region, dict, key, value));
}

static bool convert(roco_region *region, const cJSON *json, roco_value *out)
{
    int64_t integer;
    switch (json->type & 0xff) {
    case cJSON_True:
    case cJSON_False: *out = roco_bool(cJSON_IsTrue(json)); return true;
    case cJSON_Number:
        *out = roco_json_integer(json, &integer) ? roco_int(integer) : roco_float(json->valuedouble);
        return true;
    case cJSON_String:
        return roco_value_string(region, json->valuestring, strlen(json->valuestring), ROCO_FROM_REQUEST, out);
    case cJSON_Array:
        if (!roco_value_list(region, 0, out))
            return false;
        for (const cJSON *item = json->child; item; item = item->next) {
            roco_value value;
            if (!convert(region, item, &value) || !roco_list_add(region, out->list, value))
                return false;
        }
        return true;
    case cJSON_Object:
        if (!roco_value_dict(region, 0, out))
            return false;
        for (const cJSON *item = json->child; item; item = item->next) {
            roco_value value;
            if (!convert(region, item, &value) || !put_first(region, out->dict, item->string, value))
                return false;
        }
        return true;
    default: *out = roco_none(); return true;
    }
}

roco_status roco_value_from_json(roco_region *region, const cJSON *json, roco_value *out, roco_error *error)
{
    return convert(region, json, out) ? ROCO_OK : no_room(region, error);
}

/* --- one message --- */

typedef struct reader {
    roco_region *region;
    roco_error *error;
    size_t index;   /* of the message */
    uint8_t origin; /* of its content */
    bool as_text;   /* the arguments of calls */
} reader;

static roco_status fail(const reader *r, const char *member, const char *words)
{
    char path[112];
    snprintf(path, sizeof path, "messages[%zu]%s%s", r->index, *member ? "." : "", member);
    return roco_fail(r->error, ROCO_INVALID, path, "%s %s", path, words);
}

static roco_status put(const reader *r, roco_dict *message, const char *name, roco_value value)
{
    return roco_dict_put_named(r->region, message, name, value) ? ROCO_OK : no_room(r->region, r->error);
}

/* The name a template knows the role by; NULL: no such role. */
const char *const roco_roles[ROCO_N_ROLES] = {"system", "user", "assistant", "tool"};

uint32_t roco_role_find(const char *name)
{
    if (strcmp(name, "developer") == 0)
        name = "system";
    uint32_t role = 0;
    while (role < ROCO_N_ROLES && strcmp(name, roco_roles[role]) != 0)
        role++;
    return role;
}

/* Text parts joined by line ends. */
static roco_status join_parts(const reader *r, const cJSON *parts, roco_value *out)
{
    size_t size = 0, n = 0;
    for (const cJSON *part = parts->child; part; part = part->next, n++) {
        const cJSON *type = cJSON_GetObjectItemCaseSensitive(part, "type");
        const cJSON *text = cJSON_GetObjectItemCaseSensitive(part, "text");
        char member[32];
        snprintf(member, sizeof member, "content[%zu]", n);
        if (!cJSON_IsString(type) || strcmp(type->valuestring, "text") != 0)
            return fail(r, member, "must be a part of type text: this server reads no images, sound or files");
        if (!cJSON_IsString(text))
            return fail(r, member, "must have its text as a string");
        size += strlen(text->valuestring) + 1;
    }
    char *joined = roco_region_alloc(r->region, size + 1, 1), *at = joined;
    if (!joined)
        return no_room(r->region, r->error);
    for (const cJSON *part = parts->child; part; part = part->next)
        at += sprintf(at, "%s%s", at == joined && part == parts->child ? "" : "\n",
                      cJSON_GetObjectItemCaseSensitive(part, "text")->valuestring);
    return roco_value_string(r->region, joined, (size_t)(at - joined), r->origin, out) ? ROCO_OK
                                                                                       : no_room(r->region, r->error);
}

static roco_status read_content(const reader *r, const cJSON *content, bool may_lack, roco_value *out)
{
    if (cJSON_IsArray(content))
        return join_parts(r, content, out);
    if (cJSON_IsString(content) || ((!content || cJSON_IsNull(content)) && may_lack)) {
        const char *text = cJSON_IsString(content) ? content->valuestring : "";
        return roco_value_string(r->region, text, strlen(text), r->origin, out) ? ROCO_OK
                                                                                : no_room(r->region, r->error);
    }
    return fail(r, "content",
                may_lack ? "must be a string, an array of text parts or null"
                         : "must be a string or an array of text parts");
}

/* Templates want the arguments of a call as an object, or as the text of one, which is what the API has. A text that is
 * none stays as it is: a model wrote it, and the client only hands it back. */
static roco_status shape_arguments(const reader *r, cJSON *function)
{
    cJSON *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments"), *made = NULL;
    if (r->as_text && cJSON_IsObject(arguments)) {
        char *text = cJSON_PrintUnformatted(arguments);
        made = text ? cJSON_CreateString(text) : NULL;
        cJSON_free(text);
        if (!made)
            return no_room(r->region, r->error);
    } else if (!r->as_text && cJSON_IsString(arguments) && !arguments->valuestring[0]) {
        made = cJSON_CreateObject();
    } else if (!r->as_text && cJSON_IsString(arguments) &&
               (roco_json_parse(arguments->valuestring, strlen(arguments->valuestring), &made, NULL) != ROCO_OK ||
                !cJSON_IsObject(made))) {
        cJSON_Delete(made);
        return ROCO_OK;
    }
    if (made && !cJSON_ReplaceItemInObjectCaseSensitive(function, "arguments", made))
        cJSON_Delete(made);
    return ROCO_OK;
}

static roco_status read_calls(const reader *r, cJSON *calls)
{
    char member[64];
    unsigned n = 0;
    if (!cJSON_IsArray(calls))
        return fail(r, "tool_calls", "must be an array");
    for (cJSON *call = calls->child; call; call = call->next, n++) {
        cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function");
        const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments");
        snprintf(member, sizeof member, "tool_calls[%u].function", n);
        if (!cJSON_IsObject(function))
            return fail(r, member, "must be an object with the call's name and arguments");
        if (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(function, "name")))
            return fail(r, member, "must have its name as a string");
        if (arguments && !cJSON_IsString(arguments) && !cJSON_IsObject(arguments))
            return fail(r, member, "must have its arguments as the text of a JSON object");
        roco_status status = shape_arguments(r, function);
        if (status)
            return status;
    }
    return ROCO_OK;
}

static roco_status read_rest(const reader *r, const cJSON *json, roco_dict *message)
{
    roco_status status = ROCO_OK;
    for (cJSON *member = json->child; member && !status; member = member->next) {
        roco_value value;
        if (cJSON_IsNull(member) || strcmp(member->string, "role") == 0 || strcmp(member->string, "content") == 0)
            continue;
        if (strcmp(member->string, "function_call") == 0)
            return fail(r, "function_call", "is not supported: use tool_calls");
        if (strcmp(member->string, "tool_calls") == 0) {
            if (cJSON_IsArray(member) && !member->child) /* no calls: templates ask whether there is such a member */
                continue;
            status = read_calls(r, member);
        }
        if (status)
            return status;
        status = roco_value_from_json(r->region, member, &value, r->error);
        if (!status && !put_first(r->region, message, member->string, value))
            status = no_room(r->region, r->error);
    }
    return status;
}

static roco_status read_message(reader *r, const cJSON *json, roco_value *out)
{
    if (!cJSON_IsObject(json))
        return fail(r, "", "must be an object");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "role"));
    const uint32_t index = name ? roco_role_find(name) : ROCO_N_ROLES;
    if (index == ROCO_N_ROLES)
        return fail(r, "role", "must be one of: system, developer, user, assistant, tool");
    const char *role = roco_roles[index];
    r->origin = (uint8_t)((json->next ? ROCO_FROM_REQUEST : ROCO_FROM_LAST_MESSAGE) + (index + 1) * ROCO_FROM_ROLE);
    roco_value role_value, content;
    bool may_lack = strcmp(role, "assistant") == 0;
    roco_status status = read_content(r, cJSON_GetObjectItemCaseSensitive(json, "content"), may_lack, &content);
    if (status)
        return status;
    if (!roco_value_dict(r->region, 4, out) || !roco_value_string(r->region, role, strlen(role), false, &role_value))
        return no_room(r->region, r->error);
    status = put(r, out->dict, "role", role_value);
    status = status ? status : put(r, out->dict, "content", content);
    return status ? status : read_rest(r, json, out->dict);
}

roco_status roco_messages_read(roco_region *region, cJSON *array, bool arguments_as_text, roco_value *out,
                               roco_error *error)
{
    if (!cJSON_IsArray(array) || !array->child)
        return roco_fail(error, ROCO_INVALID, "messages", "messages must be an array of at least one message");
    if (!roco_value_list(region, 8, out))
        return no_room(region, error);
    reader r = {region, error, 0, 0, arguments_as_text};
    for (const cJSON *json = array->child; json; json = json->next, r.index++) {
        roco_value message;
        roco_status status = read_message(&r, json, &message);
        if (status)
            return status;
        if (!roco_list_add(region, out->list, message))
            return no_room(region, error);
    }
    return ROCO_OK;
}
