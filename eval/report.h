/* The result of an evaluation: rows, as a table for people, CSV and JSON. Main thread. */
#ifndef ROCO_EVAL_REPORT_H
#define ROCO_EVAL_REPORT_H

#include "config/status.h"

#include <stdint.h>

enum { ROCO_REPORT_VALUES = 2 };

typedef struct roco_report_row {
    const char *policy;
    const char *heads;                 /* "profile", "uniform"; "" where heads do not matter */
    uint32_t budget;                   /* 0: none */
    uint32_t tokens;                   /* of the sequence */
    uint32_t held;                     /* tokens a head held at the end, the mean over heads */
    double values[ROCO_REPORT_VALUES]; /* NaN: not known */
} roco_report_row;

typedef struct roco_report {
    const char *names[ROCO_REPORT_VALUES]; /* of the values: one lower-case word, or with _ between words */
    roco_report_row *rows;
    uint32_t n_rows;
} roco_report;

/* To stdout. */
void roco_report_print(const roco_report *report);
/* Path "" writes nothing. ROCO_IO. */
roco_status roco_report_write_csv(const roco_report *report, const char *path, roco_error *error);
roco_status roco_report_write_json(const roco_report *report, const char *path, roco_error *error);

#endif
