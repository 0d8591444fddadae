/* The result of an evaluation: a table of columns, for people, as CSV and as JSON. Main thread. */
#ifndef ROCO_EVAL_REPORT_H
#define ROCO_EVAL_REPORT_H

#include "config/status.h"
#include "eval/cases.h"

#include <stdint.h>

#define ROCO_MAX_COLUMNS 12u

/* A text, or a number where `text` is NULL. NaN: not known. Texts are borrowed. */
typedef struct roco_cell {
    const char *text;
    double number;
    bool whole; /* a count, or not known when it is 0 */
} roco_cell;

typedef struct roco_report {
    const char *names[ROCO_MAX_COLUMNS]; /* one lower-case word, or with _ between words */
    uint32_t n_columns;
    roco_cell *cells; /* [n_rows][n_columns], owned */
    uint32_t n_rows, capacity;
} roco_report;

/* Appends a row of n_columns cells. ROCO_NO_MEMORY. */
roco_status roco_report_add(roco_report *report, const roco_cell *row, roco_error *error);
void roco_report_free(roco_report *report);

/* The first columns of most tables: policy, heads, budget, stride (with `strides`). Both return how many those are. */
uint32_t roco_report_name_case(roco_report *report, bool strides);
uint32_t roco_report_fill_case(const roco_eval_case *c, bool strides, roco_cell *row);

static inline roco_cell roco_cell_count(uint64_t n)
{
    return (roco_cell){.number = (double)n, .whole = true};
}

static inline roco_cell roco_cell_number(double number)
{
    return (roco_cell){.number = number};
}

static inline roco_cell roco_cell_text(const char *text)
{
    return (roco_cell){.text = text};
}

/* To stdout. */
void roco_report_print(const roco_report *report);
/* Path "" writes nothing. ROCO_IO. */
roco_status roco_report_write_csv(const roco_report *report, const char *path, roco_error *error);
roco_status roco_report_write_json(const roco_report *report, const char *path, roco_error *error);
/* Opens and closes a file of results. */
roco_status roco_report_open_file(const char *path, FILE **out, roco_error *error);
roco_status roco_report_close_file(FILE *file, const char *path, roco_error *error);

#endif
