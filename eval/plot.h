/* Plots of results as SVG, which every browser shows. Main thread. */
#ifndef ROCO_EVAL_PLOT_H
#define ROCO_EVAL_PLOT_H

#include "config/status.h"

#include <stdbool.h>
#include <stdint.h>

#define ROCO_MAX_SERIES 32u
#define ROCO_MAX_POINTS 32u

/* A line with its name; a dashed one when `dashed`, a level without points over the whole width when n is 1 and x is 0.
 */
typedef struct roco_series {
    char name[48];
    bool dashed;
    uint32_t colour; /* any number; the same one is the same colour */
    double x[ROCO_MAX_POINTS], y[ROCO_MAX_POINTS];
    uint32_t n;
} roco_series;

/* Lines over x, which is shown in powers of two; y too when log_y. Path "" writes nothing. ROCO_IO. */
roco_status roco_plot_lines(const char *path, const char *title, const char *x_name, const char *y_name, bool log_y,
                            const roco_series *series, uint32_t n, roco_error *error);

/* Squares from red (0) to green (1), one panel beside the other; value [n_panels][n_rows][n_columns], NaN: white. */
typedef struct roco_heat {
    const char *title, *row_name, *column_name;
    const char *const *panels;
    const uint32_t *rows, *columns; /* labels */
    uint32_t n_panels, n_rows, n_columns;
    const double *values;
} roco_heat;
roco_status roco_plot_heat(const char *path, const roco_heat *heat, roco_error *error);

#endif
