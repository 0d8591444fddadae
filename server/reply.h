/* Plain replies: a JSON object, a text, or why a request is refused. Loop thread. */
#ifndef ROCO_SERVER_REPLY_H
#define ROCO_SERVER_REPLY_H

#include "config/status.h"
#include "http/http.h"
#include "http/json.h"

/* Why a request is refused, in the terms of the API. */
typedef struct roco_problem {
    roco_error error;
    unsigned http;    /* 0: by the error's status */
    const char *code; /* static text; NULL: by the error's status */
} roco_problem;

unsigned roco_problem_http(const roco_problem *problem);
const char *roco_problem_code(const roco_problem *problem);

/* Answers with the problem; after it the exchange must not be used. */
void roco_problem_reply(const roco_problem *problem, roco_exchange *exchange);

/* 200 with what was written, which is freed; 500 when memory ran out. After it the exchange must not be used. */
void roco_text_reply(roco_json_out *out, const char *content_type, roco_exchange *exchange);
void roco_json_reply(roco_json_out *out, roco_exchange *exchange);

#endif
