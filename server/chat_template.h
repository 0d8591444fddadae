/* The model's chat template and what it has words for: tools, calls, results, reasoning. Loaded once, then constant:
 * any thread.
 *
 * What a template knows is found by trying it: a short conversation is rendered, and what comes out is looked at.
 */
#ifndef ROCO_SERVER_CHAT_TEMPLATE_H
#define ROCO_SERVER_CHAT_TEMPLATE_H

#include "chat/template.h"
#include "chat/turn.h"
#include "config/options.h"
#include "engine/source.h"
#include "engine/tokenizer.h"

typedef struct roco_chat_template {
    roco_template *plain;        /* NULL: there is none */
    roco_template *for_tools;    /* the file's variant for requests with tools; NULL: `plain` serves for all */
    const roco_call_form *calls; /* how its model writes calls; NULL: in a form that is not known here */
    bool writes_tools;           /* it shows `tools` to the model; else the server's own words must */
    bool tools_in_system;        /* it wants them as the text of a member of the system message */
    bool writes_calls;           /* it shows calls and their results; else the server's own words must */
    bool arguments_as_text;      /* of calls, where most want an object */
    bool calls_without_content;  /* it wants none where most want an empty text */
    const char *think, *answer;  /* the marks around reasoning; NULL: none */
    int32_t shown[8];            /* control tokens whose text belongs to an answer: marks of calls and reasoning */
    uint32_t n_shown;
} roco_chat_template;

/* Of `--chat-template`, else the file's own. None, or a file's that cannot be read, is no error: out->plain is NULL
 * then, and `why` says so. Free with roco_chat_template_free. */
roco_status roco_chat_template_load(const roco_options *options, const roco_source *source,
                                    const roco_tokenizer *tokenizer, roco_chat_template *out, char why[512],
                                    roco_error *error);
void roco_chat_template_free(roco_chat_template *chat);

/* The control token whose text this is; -1: it is text. */
int32_t roco_control_token(const roco_tokenizer *tokenizer, const char *text);

#endif
