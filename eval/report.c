#include "eval/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

roco_status roco_report_add(roco_report *r, const roco_cell *row, roco_error *error)
{
    if (r->n_rows == r->capacity) {
        const uint32_t capacity = r->capacity ? 2 * r->capacity : 64;
        roco_cell *cells = realloc(r->cells, (size_t)capacity * r->n_columns * sizeof *cells);
        if (!cells)
            return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory for a table");
        r->cells = cells;
        r->capacity = capacity;
    }
    memcpy(r->cells + (size_t)r->n_rows++ * r->n_columns, row, r->n_columns * sizeof *row);
    return ROCO_OK;
}

void roco_report_free(roco_report *r)
{
    free(r->cells);
    r->cells = NULL;
}

uint32_t roco_report_name_case(roco_report *r, bool strides)
{
    uint32_t n = 0;
    r->names[n++] = "policy";
    r->names[n++] = "heads";
    r->names[n++] = "budget";
    if (strides)
        r->names[n++] = "stride";
    return n;
}

uint32_t roco_report_fill_case(const roco_eval_case *c, bool strides, roco_cell *row)
{
    uint32_t n = 0;
    row[n++] = roco_cell_text(c->policy->name);
    row[n++] = roco_cell_text(roco_eval_case_heads(c));
    row[n++] = roco_cell_count(c->budget);
    if (strides)
        row[n++] = roco_cell_count(c->stride);
    return n;
}

typedef struct printed {
    char text[32];
} printed;

/* For machines a number that is not known is `missing` and a count of 0 is 0; people see "-" for both. */
static printed print_cell(const roco_cell *cell, bool people, const char *missing)
{
    printed p = {""};
    if (cell->text)
        snprintf(p.text, sizeof p.text, "%s", people && !*cell->text ? "-" : cell->text);
    else if (isnan(cell->number) || (people && cell->whole && cell->number == 0))
        snprintf(p.text, sizeof p.text, "%s", people ? "-" : missing);
    else if (cell->whole)
        snprintf(p.text, sizeof p.text, "%.0f", cell->number);
    else if (cell->number != 0 && (fabs(cell->number) < 0.001 || fabs(cell->number) >= 1e6))
        snprintf(p.text, sizeof p.text, "%.4g", cell->number);
    else
        snprintf(p.text, sizeof p.text, "%.3f", cell->number);
    return p;
}

static const roco_cell *cell_at(const roco_report *r, uint32_t row, uint32_t column)
{
    return &r->cells[(size_t)row * r->n_columns + column];
}

static int width_of(const roco_report *r, uint32_t column)
{
    size_t width = strlen(r->names[column]);
    for (uint32_t row = 0; row < r->n_rows; row++) {
        const size_t n = strlen(print_cell(cell_at(r, row, column), true, "").text);
        width = n > width ? n : width;
    }
    return (int)width;
}

void roco_report_print(const roco_report *r)
{
    int widths[ROCO_MAX_COLUMNS];
    for (uint32_t c = 0; c < r->n_columns; c++) {
        widths[c] = width_of(r, c);
        const bool left = r->n_rows && cell_at(r, 0, c)->text;
        printf("%s%*s", c ? "  " : "", left ? -widths[c] : widths[c], r->names[c]);
    }
    putchar('\n');
    for (uint32_t row = 0; row < r->n_rows; row++) {
        for (uint32_t c = 0; c < r->n_columns; c++) {
            const roco_cell *cell = cell_at(r, row, c);
            printf("%s%*s", c ? "  " : "", cell->text ? -widths[c] : widths[c], print_cell(cell, true, "").text);
        }
        putchar('\n');
    }
}

roco_status roco_report_open_file(const char *path, FILE **out, roco_error *error)
{
    *out = fopen(path, "w");
    return *out ? ROCO_OK : roco_fail(error, ROCO_IO, NULL, "%s cannot be written: %s", path, strerror(errno));
}

roco_status roco_report_close_file(FILE *file, const char *path, roco_error *error)
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
    roco_status status = roco_report_open_file(path, &file, error);
    if (status)
        return status;
    for (uint32_t c = 0; c < r->n_columns; c++)
        fprintf(file, "%s%s", c ? "," : "", r->names[c]);
    for (uint32_t i = 0; i < r->n_rows * r->n_columns; i++)
        fprintf(file, "%s%s", i % r->n_columns ? "," : "\n", print_cell(&r->cells[i], false, "").text);
    fputc('\n', file);
    return roco_report_close_file(file, path, error);
}

roco_status roco_report_write_json(const roco_report *r, const char *path, roco_error *error)
{
    FILE *file;
    if (!*path)
        return ROCO_OK;
    roco_status status = roco_report_open_file(path, &file, error);
    if (status)
        return status;
    for (uint32_t row = 0; row < r->n_rows; row++)
        for (uint32_t c = 0; c < r->n_columns; c++) {
            const roco_cell *cell = cell_at(r, row, c);
            const char *quote = cell->text ? "\"" : "";
            fprintf(file, "%s\"%s\": %s%s%s%s",
                    c     ? ", "
                    : row ? ",\n {"
                          : "[{",
                    r->names[c], quote, print_cell(cell, false, "null").text, quote, c + 1 == r->n_columns ? "}" : "");
        }
    fputs(r->n_rows ? "]\n" : "[]\n", file);
    return roco_report_close_file(file, path, error);
}
