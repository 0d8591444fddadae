/* Rendering the messages of a chat request. */
#include "server/chat_prompt.h"

#include "chat/template.h"
#include "config/log.h"
#include "server/messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the template --- */

static roco_status read_file(const char *path, roco_buffer *out, roco_error *error)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return roco_fail(error, ROCO_IO, "chat-template", "cannot open %s: %s", path, strerror(errno));
    char block[4096];
    roco_status status = ROCO_OK;
    for (size_t size; !status && (size = fread(block, 1, sizeof block, file)) > 0;)
        status = out->size > ROCO_TEMPLATE_MAX_BYTES ? ROCO_TOO_LARGE : roco_buffer_append(out, block, size);
    bool failed = ferror(file);
    fclose(file);
    if (failed || status)
        return roco_fail(error, status ? status : ROCO_IO, "chat-template", "%s: %s", path,
                         status ? roco_status_text(status) : "cannot be read");
    return ROCO_OK;
}

static roco_status load_file(roco_served_model *model, const char *path, roco_error *error)
{
    roco_buffer source = {0};
    roco_error inner = {0};
    roco_status status = read_file(path, &source, error);
    if (!status) {
        status = roco_template_open(source.data ? source.data : "", source.size, &model->chat_template, &inner);
        if (status)
            roco_fail(error, status, "chat-template", "%s: %s", path, inner.message);
    }
    roco_buffer_free(&source);
    return status;
}

roco_status roco_chat_template_load(roco_served_model *model, const roco_source *from, roco_error *error)
{
    if (model->options->chat_template[0])
        return load_file(model, model->options->chat_template, error);
    roco_text source;
    roco_error inner = {0};
    if (roco_source_string(from, "tokenizer.chat_template", &source, NULL) != ROCO_OK) {
        snprintf(model->no_chat, sizeof model->no_chat, "the model's file has no chat template");
        return ROCO_OK;
    }
    if (roco_template_open(source.data, source.size, &model->chat_template, &inner) != ROCO_OK) {
        snprintf(model->no_chat, sizeof model->no_chat, "the chat template in the model's file cannot be read: %s",
                 inner.message);
        roco_log(ROCO_LOG_WARN, "%s", model->no_chat);
    }
    return ROCO_OK;
}

void roco_chat_template_close(roco_served_model *model)
{
    roco_template_close(model->chat_template);
    model->chat_template = NULL;
}

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

static roco_status fill_globals(const roco_served_model *model, const roco_completion_params *params,
                                roco_region *region, roco_dict *globals, roco_value *messages, roco_error *error)
{
    bool generate = params->add_generation_prompt == ROCO_ABSENT ? !params->continue_final_message
                                                                 : params->add_generation_prompt != 0;
    roco_status status = roco_dict_put_named(region, globals, "documents", roco_none())
                             ? put_kwargs(region, params->chat_template_kwargs, globals, error)
                             : no_memory(region, error);
    if (!status)
        status = roco_messages_read(region, params->messages, messages, error);
    if (status)
        return status;
    bool fits = roco_dict_put_named(region, globals, "messages", *messages) &&
                roco_dict_put_named(region, globals, "tools", roco_none()) &&
                roco_dict_put_named(region, globals, "add_generation_prompt", roco_bool(generate)) &&
                put_token(model, region, globals, "bos_token", roco_tokenizer_bos(model->tokenizer)) &&
                put_token(model, region, globals, "eos_token", roco_tokenizer_eos(model->tokenizer));
    return fits ? ROCO_OK : no_memory(region, error);
}

/* --- continuing the last message --- */

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

/* --- all together --- */

static roco_status render(const roco_served_model *model, const roco_completion_params *params, roco_region *region,
                          roco_rendering *out, roco_error *error)
{
    roco_value globals, messages;
    if (!roco_value_dict(region, 8, &globals))
        return no_memory(region, error);
    roco_status status = fill_globals(model, params, region, globals.dict, &messages, error);
    if (status)
        return status;
    roco_error inner = {0};
    status =
        roco_template_render(model->chat_template, globals.dict, region, &ROCO_RENDER_LIMITS, time(NULL), out, &inner);
    if (status)
        return roco_fail(error, status, status == ROCO_NO_MEMORY ? NULL : "messages", "%s", inner.message);
    return params->continue_final_message ? cut_after(out, messages.list, error) : ROCO_OK;
}

roco_status roco_chat_prompt(const roco_served_model *model, const roco_completion_params *params, size_t max_ids,
                             roco_ids *ids, roco_pins *pins, roco_problem *problem)
{
    if (!model->chat_template) {
        problem->code = "no_chat_template";
        return roco_fail(&problem->error, ROCO_UNSUPPORTED, "messages",
                         "%s; start the server with --chat-template FILE, or use /v1/completions", model->no_chat);
    }
    roco_region region = {.limit = ROCO_RENDER_MEMORY};
    roco_rendering rendering = {0};
    roco_status status = render(model, params, &region, &rendering, &problem->error);
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
