#include "eval/report.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct cell {
    char text[32];
} cell;

/* "-" for what is not known, as people like it; "" for machines. */
static cell number(double value, const char *missing)
{
    cell c;
    if (isnan(value))
        snprintf(c.text, sizeof c.text, "%s", missing);
    else
        snprintf(c.text, sizeof c.text, "%.4g", value);
    if (!isnan(value) && fabs(value) >= 0.001 && fabs(value) < 1e6)
        snprintf(c.text, sizeof c.text, "%.3f", value);
    return c;
}

void roco_report_print(const roco_report *r)
{
    printf("%-10s %-8s %8s %8s %8s %14s %14s\n", "policy", "heads", "budget", "tokens", "held", r->names[0],
           r->names[1]);
    for (uint32_t i = 0; i < r->n_rows; i++) {
        const roco_report_row *row = &r->rows[i];
        char budget[16] = "-";
        if (row->budget)
            snprintf(budget, sizeof budget, "%u", row->budget);
        printf("%-10s %-8s %8s %8u %8u %14s %14s\n", row->policy, row->heads[0] ? row->heads : "-", budget, row->tokens,
               row->held, number(row->values[0], "-").text, number(row->values[1], "-").text);
    }
}

static roco_status open_file(const char *path, FILE **out, roco_error *error)
{
    *out = fopen(path, "w");
    return *out ? ROCO_OK : roco_fail(error, ROCO_IO, NULL, "%s cannot be written: %s", path, strerror(errno));
}

static roco_status close_file(FILE *file, const char *path, roco_error *error)
{
    const bool broken = ferror(file);
    if (fclose(file) || broken)
        return roco_fail(error, ROCO_IO, NULL, "%s cannot be written", path);
    return ROCO_OK;
}

roco_status roco_report_write_csv(const roco_report *r, const char *path, roco_error *error)
{
    FILE *file;
    if (!*path)
        return ROCO_OK;
    roco_status status = open_file(path, &file, error);
    if (status)
        return status;
    fprintf(file, "policy,heads,budget,tokens,held,%s,%s\n", r->names[0], r->names[1]);
    for (uint32_t i = 0; i < r->n_rows; i++) {
        const roco_report_row *row = &r->rows[i];
        fprintf(file, "%s,%s,%u,%u,%u,%s,%s\n", row->policy, row->heads, row->budget, row->tokens, row->held,
                number(row->values[0], "").text, number(row->values[1], "").text);
    }
    return close_file(file, path, error);
}

roco_status roco_report_write_json(const roco_report *r, const char *path, roco_error *error)
{
    FILE *file;
    if (!*path)
        return ROCO_OK;
    roco_status status = open_file(path, &file, error);
    if (status)
        return status;
    for (uint32_t i = 0; i < r->n_rows; i++) {
        const roco_report_row *row = &r->rows[i];
        fprintf(file, "%s{\"policy\": \"%s\", \"heads\": \"%s\", \"budget\": %u, \"tokens\": %u, \"held\": %u",
                i ? ",\n " : "[", row->policy, row->heads, row->budget, row->tokens, row->held);
        for (int v = 0; v < ROCO_REPORT_VALUES; v++)
            fprintf(file, ", \"%s\": %s", r->names[v], number(row->values[v], "null").text);
        fputc('}', file);
    }
    fputs("]\n", file);
    return close_file(file, path, error);
}
