/* GET /openapi.json: the routes and their fields as OpenAPI 3.1, made from the tables that requests are read by. */
#include "server/app_state.h"

#include <string.h>

#define ERROR_SCHEMA                                                                                                   \
    "{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"object\","                    \
    "\"required\":[\"message\",\"type\",\"param\",\"code\"],\"properties\":{\"message\":{\"type\":\"string\"},"        \
    "\"type\":{\"type\":\"string\"},\"param\":{\"type\":[\"string\",\"null\"]},\"code\":{\"type\":[\"string\","        \
    "\"null\"]}}}}}"

#define ANTHROPIC_ERROR_SCHEMA                                                                                         \
    "{\"type\":\"object\",\"required\":[\"type\",\"error\"],\"properties\":{\"type\":{\"const\":\"error\"},\"error\":" \
    "{"                                                                                                                \
    "\"type\":\"object\",\"required\":[\"type\",\"message\"],\"properties\":{\"type\":{\"type\":\"string\"},"          \
    "\"message\":{\"type\":\"string\"}}}}}"

static void write_failure(roco_json_out *out, const roco_route *route, const char *statuses, const char *what)
{
    roco_json_format(out,
                     "\"%s\":{\"description\":\"%s\",\"content\":{\"application/json\":{\"schema\":"
                     "{\"$ref\":\"#/components/schemas/%s\"}}}}",
                     statuses, what, route->anthropic ? "AnthropicError" : "Error");
}

static bool streams(const roco_field *f)
{
    for (; f; f = f->more)
        for (; f->name; f++)
            if (strcmp(f->name, "stream") == 0)
                return true;
    return false;
}

static void write_replies(roco_json_out *out, const roco_route *route)
{
    roco_json_raw(out, "\"responses\":{");
    if (!route->refused) {
        const char *type = route->text ? "text/plain" : "application/json";
        roco_json_format(out, "\"200\":{\"description\":\"done\",\"content\":{\"%s\":{\"schema\":{\"type\":\"%s\"}}",
                         type, route->text ? "string" : "object");
        if (streams(route->fields))
            /* No schema: OpenAPI 3.1 has none for events, and readers differ on whether it is of the text or of each.
             */
            roco_json_raw(out, ",\"text/event-stream\":{}");
        roco_json_raw(out, "}},");
    }
    write_failure(out, route, "4XX", "refused");
    roco_json_raw(out, ",");
    write_failure(out, route, "5XX", "failed, or not now");
    roco_json_raw(out, "}");
}

static void write_operation(roco_json_out *out, const roco_route *route)
{
    roco_json_format(out, "\"%s\":{\"summary\":", route->method == ROCO_GET ? "get" : "post");
    roco_json_string(out, route->summary, strlen(route->summary));
    if (route->open)
        roco_json_raw(out, ",\"security\":[]");
    if (route->json) {
        roco_json_raw(out, ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":");
        if (route->fields)
            roco_fields_schema(route->fields, out);
        else
            roco_json_raw(out, "{}");
        roco_json_raw(out, "}}}");
    }
    roco_json_raw(out, ",");
    write_replies(out, route);
    roco_json_raw(out, "}");
}

static void write_paths(roco_json_out *out)
{
    roco_json_raw(out, "\"paths\":{");
    for (const roco_route *route = roco_app_routes(), *first = route; route->path; route++) {
        const bool same = route > first && strcmp(route[-1].path, route->path) == 0;
        if (!same)
            roco_json_format(out, "%s\"%s\":{", route > first ? "}," : "", route->path);
        else
            roco_json_raw(out, ",");
        write_operation(out, route);
    }
    roco_json_raw(out, "}}");
}

void roco_handle_openapi(roco_exchange *exchange, void *context)
{
    roco_json_out out = {0};
    roco_json_raw(&out, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"roco\",\"version\":\"" ROCO_VERSION
                        "\",\"summary\":\"LLM inference with a KV-cache budget for each request\"},"
                        "\"security\":[{},{\"key\":[]}],");
    write_paths(&out);
    roco_json_raw(&out, ",\"components\":{\"securitySchemes\":{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"}},"
                        "\"schemas\":{\"Error\":" ERROR_SCHEMA ",\"AnthropicError\":" ANTHROPIC_ERROR_SCHEMA "}}}");
    roco_json_reply(&out, exchange);
}
