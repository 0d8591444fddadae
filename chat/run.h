/* One rendering: its limits, its scopes and its output, as the files of the interpreter share them.
 *
 * Everything lies in the run's region. Failing leaves by the region's escape, so no function here returns an error.
 */
#ifndef ROCO_CHAT_RUN_H
#define ROCO_CHAT_RUN_H

#include "chat/syntax.h"

#include <time.h>

/* Text under construction: bytes, and of each whether it is foreign. Init with {0}. */
typedef struct roco_builder {
    char *data;
    uint8_t *marks; /* [capacity]; NULL while all bytes are alike */
    size_t size, capacity;
    uint8_t foreign; /* what the bytes are while marks is NULL */
} roco_builder;

typedef struct roco_variable roco_variable;
struct roco_variable {
    const roco_string *name;
    roco_value value;
    roco_variable *next;
};

/* Names set in one stretch of the template; what is not found here is looked for further out. */
typedef struct roco_scope roco_scope;
struct roco_scope {
    roco_scope *outer;
    roco_variable *variables;
};

typedef struct roco_run {
    roco_region *region;
    roco_error *error;
    const roco_dict *globals;
    time_t now;
    uint64_t steps, max_steps, deadline_ns;
    unsigned depth;
    size_t max_output;
    uint32_t line; /* of what is evaluated */
    roco_scope *scope;
    roco_builder *out;
} roco_run;

typedef struct roco_macro {
    const roco_node *node; /* a MACRO */
    roco_scope *scope;     /* where it was defined */
} roco_macro;

typedef struct roco_loop {
    const roco_list *items;
    size_t at;
    roco_value changed; /* what changed() was last called with; undefined before */
} roco_loop;

/* Arguments of a filter, test, function or method. */
typedef struct roco_arguments {
    roco_value *values;
    size_t n;
    const roco_string **names; /* of named ones */
    roco_value *named;
    size_t n_named;
} roco_arguments;

/* --- failing --- */
_Noreturn void roco_run_fail(roco_run *run, roco_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void roco_run_fail_undefined(roco_run *run, roco_value value);
/* Counts work; fails when there was too much of it, or too little time. */
void roco_run_charge(roco_run *run, uint64_t steps);
void roco_run_down(roco_run *run);
static inline void roco_run_up(roco_run *run)
{
    run->depth++;
}

/* --- text.c: strings --- */
void roco_builder_add(roco_run *run, roco_builder *builder, const roco_string *string);
void roco_builder_bytes(roco_run *run, roco_builder *builder, const char *data, size_t size, uint8_t foreign);
void roco_builder_text(roco_run *run, roco_builder *builder, const char *text); /* the program's own */
roco_value roco_builder_value(roco_run *run, const roco_builder *builder);
roco_value roco_text_value(roco_run *run, const char *text);
/* A part, by bytes; it shares the bytes. */
roco_value roco_string_part(roco_run *run, const roco_string *string, size_t start, size_t size);
bool roco_string_is(const roco_string *string, const char *text);
uint8_t roco_string_mark(const roco_string *string, size_t at);
size_t roco_string_length(const roco_string *string); /* in characters */
/* Bytes of the character at `at`. */
size_t roco_string_step(const roco_string *string, size_t at);
/* First place of `needle` at or after `from`, or SIZE_MAX. */
size_t roco_string_find(roco_run *run, const roco_string *string, const roco_string *needle, size_t from);
bool roco_is_space(const roco_string *string, size_t at, size_t *size);

/* --- print.c: values as text --- */
void roco_print(roco_run *run, roco_builder *out, roco_value value);        /* str() */
void roco_print_quoted(roco_run *run, roco_builder *out, roco_value value); /* repr() */
roco_value roco_to_text(roco_run *run, roco_value value);                   /* a string is itself */
const roco_string *roco_to_string(roco_run *run, roco_value value);
typedef struct roco_json_style {
    const roco_string *indent;                         /* one level; NULL: all on one line */
    const roco_string *item_separator, *key_separator; /* NULL: as json.dumps chooses */
    bool ascii, sort;
} roco_json_style;
void roco_print_json(roco_run *run, roco_builder *out, roco_value value, const roco_json_style *style);

/* --- operate.c: operators; format.c: values set into a text --- */
roco_value roco_operate(roco_run *run, uint16_t op, roco_value a, roco_value b);
roco_value roco_negate(roco_run *run, roco_value value);
bool roco_compare(roco_run *run, uint16_t op, roco_value a, roco_value b);
/* roco_value_equal, its work counted. */
bool roco_equal(roco_run *run, roco_value a, roco_value b);
/* Below, equal, above 0: an order of numbers, strings and lists; others fail. */
int roco_order(roco_run *run, roco_value a, roco_value b);
/* By key, stable. */
void roco_sort_entries(roco_run *run, roco_dict_entry *entries, size_t n, bool reverse);
roco_value roco_format_percent(roco_run *run, const roco_string *format, roco_value values);
roco_value roco_format_braces(roco_run *run, const roco_string *format, const roco_arguments *arguments);

/* --- access.c: parts of values --- */
roco_value roco_undefined(roco_run *run, const roco_string *name);
roco_value roco_get_attribute(roco_run *run, roco_value value, const roco_string *name);
roco_value roco_get_item(roco_run *run, roco_value value, roco_value key);
/* Python's value[start:stop:step]; absent parts are none. */
roco_value roco_get_slice(roco_run *run, roco_value value, const roco_value bounds[3]);
/* What a for goes over; a list is itself. */
const roco_list *roco_iterate(roco_run *run, roco_value value);
roco_list *roco_new_list(roco_run *run, size_t capacity);
roco_value roco_list_value(roco_list *list);
roco_value roco_pair(roco_run *run, roco_value a, roco_value b);
/* In code points, items or entries. */
int64_t roco_length(roco_run *run, roco_value value);

/* --- arguments --- */
/* The argument at `index` or of that name; NULL when neither was given. */
const roco_value *roco_argument(const roco_arguments *arguments, size_t index, const char *name);
int64_t roco_int_argument(roco_run *run, const roco_arguments *arguments, size_t index, const char *name,
                          int64_t absent);
bool roco_bool_argument(const roco_arguments *arguments, size_t index, const char *name, bool absent);
/* NULL when absent or none. */
const roco_string *roco_string_argument(roco_run *run, const roco_arguments *arguments, size_t index, const char *name);

/* --- evaluate.c and execute.c --- */
roco_value roco_evaluate(roco_run *run, const roco_node *node);
roco_value roco_call(roco_run *run, roco_value callee, const roco_arguments *arguments);
roco_arguments roco_evaluate_arguments(roco_run *run, const roco_node *node);
/* Applies a FILTER node's chain; `subject` stands for the missing innermost operand. */
roco_value roco_apply_filters(roco_run *run, const roco_node *chain, roco_value subject);
typedef enum roco_flow { ROCO_FLOW_ON, ROCO_FLOW_BREAK, ROCO_FLOW_CONTINUE } roco_flow;
roco_flow roco_execute(roco_run *run, const roco_node *body);
roco_value roco_call_macro(roco_run *run, const roco_macro *macro, const roco_arguments *arguments);
const roco_value *roco_lookup(roco_run *run, const roco_string *name);
void roco_assign(roco_run *run, const roco_string *name, roco_value value);
void roco_open_scope(roco_run *run, roco_scope *outer);

/* --- the built-in names --- */
roco_value roco_apply_filter(roco_run *run, const roco_string *name, roco_value value, const roco_arguments *arguments);
bool roco_apply_test(roco_run *run, const roco_string *name, roco_value value, const roco_arguments *arguments);
/* Undefined when there is none of that name. */
roco_value roco_find_function(const roco_string *name);
roco_value roco_call_function(roco_run *run, roco_value function, const roco_arguments *arguments);
roco_value roco_find_method(roco_run *run, roco_value self, const roco_string *name);
roco_value roco_call_method(roco_run *run, roco_value method, const roco_arguments *arguments);

/* A row of a table of filters. */
typedef struct roco_filter {
    const char *name;
    roco_value (*apply)(roco_run *run, roco_value value, const roco_arguments *arguments);
} roco_filter;
/* Both end with name NULL. */
extern const roco_filter roco_text_filters[], roco_list_filters[];

/* By one character for upper() and lower(): ASCII, Latin, Greek and Cyrillic; others stay. */
roco_value roco_change_case(roco_run *run, const roco_string *string, char how);

#endif
