/* A template's source as tokens, with the white space that its tags ask to be dropped already gone. */
#ifndef ROCO_CHAT_LEXER_H
#define ROCO_CHAT_LEXER_H

#include "chat/region.h"
#include "chat/value.h"

#include <stdint.h>

typedef enum roco_token_kind {
    ROCO_TOKEN_DATA,
    ROCO_TOKEN_PRINT_BEGIN, /* {{ */
    ROCO_TOKEN_PRINT_END,
    ROCO_TOKEN_BLOCK_BEGIN, /* {% */
    ROCO_TOKEN_BLOCK_END,
    ROCO_TOKEN_NAME,
    ROCO_TOKEN_STRING,
    ROCO_TOKEN_INT,
    ROCO_TOKEN_FLOAT,
    ROCO_TOKEN_OPERATOR,
    ROCO_TOKEN_END,
} roco_token_kind;

/* One or two characters of an operator as one number. */
#define ROCO_OP1(a)    ((uint16_t)(unsigned char)(a))
#define ROCO_OP2(a, b) ((uint16_t)((unsigned char)(a) | (unsigned char)(b) << 8))

typedef struct roco_token {
    uint8_t kind;
    uint16_t op; /* of an OPERATOR */
    uint32_t line;
    roco_value value; /* DATA, NAME, STRING: a string; INT, FLOAT */
} roco_token;

/* Where reading fails: the region's escape is taken after `error` was filled. */
typedef struct roco_source {
    const char *data;
    size_t size;
    roco_region *region;
    roco_error *error;
} roco_source;

/* Fills the error ("line N: ...", ROCO_FORMAT) and leaves by the region's escape. */
_Noreturn void roco_source_fail(const roco_source *source, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* All tokens, the last an END, in the region. */
roco_token *roco_lex(const roco_source *source);

#endif
