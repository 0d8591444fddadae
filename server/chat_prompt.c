/* Rendering the messages of a chat request. */
#include "server/chat_prompt.h"

#include "server/chat_fold.h"
#include "server/messages.h"
#include "server/tool_grammar.h"

#include <string.h>

/* What a conversation costs that is no work to speak of: the loop, which all wait for, renders no more than that. */
static const roco_render_limits brief_limits = {
    .steps = 100000, .depth = 400, .output_bytes = 1u << 20, .time_ns = 50000000u};
enum { BRIEF_MEMORY = 8 << 20 };

/* --- what the template sees --- */

static roco_status no_memory(const roco_region *region, roco_error *error)
{
    return roco_fail(error, region->status ? region->status : ROCO_NO_MEMORY, "messages",
                     "the messages need too much memory");
}

static bool put_token(const roco_served_model *model, roco_region *region, roco_dict *globals, const char *name,
                      int32_t id)
{
    roco_text piece = id < 0 ? (roco_text){"", 0} : roco_tokenizer_piece(model->tokenizer, id, true);
    roco_value value;
    return roco_value_string(region, piece.data, piece.size, false, &value) &&
           roco_dict_put_named(region, globals, name, value);
}

/* chat_template_kwargs first, so that nothing of the request's own can be covered by them. */
static roco_status put_kwargs(roco_region *region, const cJSON *kwargs, roco_dict *globals, roco_error *error)
{
    static const char *const taken[] = {"messages",  "tools",    "add_generation_prompt", "continue_final_message",
                                        "bos_token", "eos_token"};
    for (const cJSON *item = kwargs ? kwargs->child : NULL; item; item = item->next) {
        for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
            if (strcmp(item->string, taken[i]) == 0)
                return roco_fail(error, ROCO_INVALID, "chat_template_kwargs",
                                 "chat_template_kwargs may not hold %s, which the server sets", taken[i]);
        roco_value value;
        roco_status status = roco_value_from_json(region, item, &value, error);
        if (status)
            return status;
        if (!roco_dict_put_named(region, globals, item->string, value))
            return no_memory(region, error);
    }
    return ROCO_OK;
}

/* In front of chat_template_kwargs, which are more particular. */
static bool put_reasoning(roco_region *region, const roco_completion_params *params, roco_dict *globals)
{
    roco_value effort;
    if (params->thinking != ROCO_THINKING_DEFAULT &&
        !roco_dict_put_named(region, globals, "enable_thinking", roco_bool(params->thinking == ROCO_THINKING_ON)))
        return false;
    return !params->reasoning_effort ||
           (roco_value_string(region, params->reasoning_effort, strlen(params->reasoning_effort), ROCO_FROM_REQUEST,
                              &effort) &&
            roco_dict_put_named(region, globals, "reasoning_effort", effort));
}

static bool put_tools(roco_region *region, const roco_served_model *model, const cJSON *tools, roco_dict *globals)
{
    roco_value value = roco_none();
    if (tools && model->chat.writes_tools && roco_value_from_json(region, tools, &value, NULL) != ROCO_OK)
        return false;
    return roco_dict_put_named(region, globals, "tools", value);
}

static roco_status read_messages(const roco_served_model *model, const roco_completion_params *params,
                                 roco_region *region, roco_value *messages, roco_error *error)
{
    bool as_text = model->chat.arguments_as_text || !model->chat.writes_calls;
    roco_status status = roco_messages_read(region, params->messages, as_text, messages, error);
    return status ? status : roco_chat_fold(region, &model->chat, roco_tools_shown(params), messages->list, error);
}

static roco_status fill_globals(const roco_served_model *model, const roco_completion_params *params,
                                roco_region *region, roco_dict *globals, roco_value *messages, roco_error *error)
{
    bool generate = params->add_generation_prompt == ROCO_ABSENT ? !params->continue_final_message
                                                                 : params->add_generation_prompt != 0;
    roco_status status =
        roco_dict_put_named(region, globals, "documents", roco_none()) && put_reasoning(region, params, globals)
            ? put_kwargs(region, params->chat_template_kwargs, globals, error)
            : no_memory(region, error);
    if (!status)
        status = read_messages(model, params, region, messages, error);
    if (status)
        return status;
    bool fits = roco_dict_put_named(region, globals, "messages", *messages) &&
                put_tools(region, model, roco_tools_shown(params), globals) &&
                roco_dict_put_named(region, globals, "add_generation_prompt", roco_bool(generate)) &&
                put_token(model, region, globals, "bos_token", roco_tokenizer_bos(model->tokenizer)) &&
                put_token(model, region, globals, "eos_token", roco_tokenizer_eos(model->tokenizer));
    return fits ? ROCO_OK : no_memory(region, error);
}

/* --- where the answer begins --- */

/* Cuts the rendering after the last byte that is of the last message, so that what closes its turn is not there. */
static roco_status cut_after(roco_rendering *rendering, const roco_list *messages, roco_error *error)
{
    const roco_value *role = roco_dict_find(messages->items[messages->size - 1].dict, "role", 4);
    size_t size = rendering->text.size;
    while (size && !(rendering->foreign.data[size - 1] & ROCO_FROM_LAST_MESSAGE))
        size--;
    rendering->text.size = rendering->foreign.size = size;
    if (size && role->string->size == strlen("assistant"))
        return ROCO_OK;
    return roco_fail(error, ROCO_INVALID, "continue_final_message",
                     "continue_final_message wants a last message of the assistant, with text that the chat template "
                     "writes");
}

/* The place of the last message's text. */
static size_t last_message(const roco_rendering *rendering)
{
    size_t at = 0;
    while (at < rendering->text.size && !(rendering->foreign.data[at] & ROCO_FROM_LAST_MESSAGE))
        at++;
    return at;
}

/* The place of a mark of reasoning that the template itself opens the answer with; else the end. */
static size_t opened_reasoning(const roco_chat_template *chat, const roco_rendering *rendering)
{
    size_t end = rendering->text.size, length = chat->think ? strlen(chat->think) : 0;
    const char *text = rendering->text.data;
    while (end && (text[end - 1] == '\n' || text[end - 1] == ' '))
        end--;
    bool opened = length && end >= length && memcmp(text + end - length, chat->think, length) == 0 &&
                  rendering->foreign.data[end - 1] == 0;
    return opened ? end - length : rendering->text.size;
}

static bool add_own(roco_rendering *rendering, const char *text)
{
    size_t size = strlen(text);
    if (roco_buffer_append(&rendering->text, text, size) || roco_buffer_reserve(&rendering->foreign, size + 1))
        return false;
    memset(rendering->foreign.data + rendering->foreign.size, 0, size);
    rendering->foreign.size += size;
    return true;
}

/* A call that must come is begun in the prompt, so that the model can only go on with it. */
static bool begin_call(const roco_chat_template *chat, const roco_completion_params *params, roco_rendering *rendering)
{
    const roco_call_spelling *s = &chat->calls->spelling;
    const char *name = roco_tools_forced(params);
    return add_own(rendering, s->lead) && (!*name || (add_own(rendering, name) && add_own(rendering, s->middle)));
}

/* The end of the prompt that belongs to the answer's turn. */
static roco_status begin_turn(const roco_served_model *model, const roco_completion_params *params,
                              roco_rendering *rendering, roco_buffer *begun, roco_error *error)
{
    size_t from = params->continue_final_message ? last_message(rendering) : opened_reasoning(&model->chat, rendering);
    bool forced = roco_tools_forced(params) != NULL;
    roco_constraint_field content;
    bool formed = forced || (params->constraint.kind == ROCO_CONSTRAINT_TOOLS
                                 ? roco_tools_content(params->constraint.source, &content)
                                 : params->constraint.kind != ROCO_CONSTRAINT_NONE);
    bool good = true;
    /* An answer of a given form leaves no room for reasoning. */
    if (formed && !params->continue_final_message && from < rendering->text.size)
        good = add_own(rendering, model->chat.answer) && add_own(rendering, "\n\n");
    good = good && (!forced || begin_call(&model->chat, params, rendering));
    bool any = good && from < rendering->text.size;
    if (!good || (any && roco_buffer_append(begun, rendering->text.data + from, rendering->text.size - from)))
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    return ROCO_OK;
}

/* --- all together --- */

static roco_status render(const roco_served_model *model, const roco_completion_params *params,
                          const roco_render_limits *limits, roco_region *region, roco_rendering *out, roco_error *error)
{
    const roco_template *template =
        roco_tools_shown(params) && model->chat.for_tools ? model->chat.for_tools : model->chat.plain;
    roco_value globals, messages;
    if (!roco_value_dict(region, 8, &globals))
        return no_memory(region, error);
    roco_status status = fill_globals(model, params, region, globals.dict, &messages, error);
    if (status)
        return status;
    roco_error inner = {0};
    status = roco_template_render(template, globals.dict, region, limits, time(NULL), out, &inner);
    if (status)
        return roco_fail(error, status, status == ROCO_NO_MEMORY ? NULL : "messages", "%s", inner.message);
    return params->continue_final_message ? cut_after(out, messages.list, error) : ROCO_OK;
}

static roco_status check(const roco_served_model *model, const roco_completion_params *params, roco_problem *problem)
{
    if (!model->chat.plain) {
        problem->code = "no_chat_template";
        return roco_fail(&problem->error, ROCO_UNSUPPORTED, "messages",
                         "%s; start the server with --chat-template FILE, or use /v1/completions", model->no_chat);
    }
    if (roco_tools_shown(params) && !model->chat.calls)
        return roco_fail(&problem->error, ROCO_UNSUPPORTED, "tools",
                         "this model's chat template writes tool calls in a form that the server does not know");
    return ROCO_OK;
}

roco_status roco_chat_prompt(const roco_served_model *model, const roco_completion_params *params, bool may_wait,
                             size_t max_ids, roco_ids *ids, roco_pins *pins, roco_buffer *begun, roco_problem *problem)
{
    roco_region region = {.limit = may_wait ? ROCO_RENDER_MEMORY : BRIEF_MEMORY};
    roco_rendering rendering = {0};
    roco_status status = check(model, params, problem);
    if (!status) {
        status =
            render(model, params, may_wait ? &ROCO_RENDER_LIMITS : &brief_limits, &region, &rendering, &problem->error);
        if (!may_wait && (status == ROCO_TOO_LARGE || status == ROCO_NO_MEMORY))
            status = ROCO_BUSY;
    }
    if (!status)
        status = begin_turn(model, params, &rendering, begun, &problem->error);
    if (!status)
        status = roco_tokenizer_encode_marked(model->tokenizer, rendering.text.data ? rendering.text.data : "",
                                              (const uint8_t *)rendering.foreign.data, rendering.text.size,
                                              ROCO_ENCODE_SPECIAL | ROCO_ENCODE_ADD_BOS, max_ids, ids, &problem->error);
    if (!status)
        status = roco_pins_add_roles(pins, params->pin_roles, model->tokenizer, ids, &rendering, &problem->error);
    roco_rendering_free(&rendering);
    roco_region_free(&region);
    return status;
}
