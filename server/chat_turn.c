#include "server/chat_turn.h"

#include "server/tool_grammar.h"

#include <string.h>

static bool offers(const void *context, const char *name, size_t size)
{
    const roco_buffer *offered = context;
    for (const char *at = offered->data; at < offered->data + offered->size; at += strlen(at) + 1)
        if (strlen(at) == size && memcmp(at, name, size) == 0)
            return true;
    return false;
}

static roco_status list_names(const cJSON *tools, roco_buffer *out)
{
    roco_status status = ROCO_OK;
    for (const cJSON *tool = tools->child; tool && !status; tool = tool->next) {
        const char *name =
            cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(tool, "function"), "name")->valuestring;
        status = roco_buffer_append(out, name, strlen(name) + 1);
    }
    return status;
}

roco_status roco_chat_turn_open(const roco_chat_template *chat, const roco_completion_params *params,
                                roco_chat_turn *out, roco_error *error)
{
    const cJSON *tools = roco_tools_shown(params);
    roco_constraint_field content;
    if (tools && list_names(tools, &out->offered))
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    out->form = (roco_turn_form){
        .calls = tools ? chat->calls : NULL,
        .single = tools && !roco_tools_several(params),
        .first =
            params->constraint.kind == ROCO_CONSTRAINT_TOOLS && roco_tools_content(params->constraint.source, &content),
        .think = params->split_reasoning ? chat->think : NULL,
        .answer = params->split_reasoning ? chat->answer : NULL,
        .offers = offers,
        .context = &out->offered,
    };
    out->include_reasoning = params->include_reasoning;
    if (out->form.calls || out->form.answer) {
        out->shown = chat->shown;
        out->n_shown = chat->n_shown;
    }
    return ROCO_OK;
}

void roco_chat_turn_free(roco_chat_turn *turn)
{
    roco_buffer_free(&turn->begun);
    roco_buffer_free(&turn->offered);
}

roco_status roco_chat_turn_begin(const roco_chat_turn *chat, roco_turn *turn)
{
    roco_turn_init(turn, &chat->form);
    return chat->begun.size ? roco_turn_prime(turn, chat->begun.data, chat->begun.size) : ROCO_OK;
}
