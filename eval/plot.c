#include "eval/plot.h"

#include "eval/report.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 720, HEIGHT = 420, LEFT = 70, RIGHT = 170, TOP = 40, BOTTOM = 55, CELL = 34 };

/* Told apart by people who see colours differently as well: Okabe and Ito (2008). */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
#define N_COLOURS (sizeof colours / sizeof *colours)

static void begin(FILE *f, int width, int height, const char *title)
{
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"22\" font-size=\"15\">%s</text>\n",
            width, height, width, height, LEFT, title);
}

static void label(FILE *f, double x, double y, const char *anchor, const char *text)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text);
}

/* --- lines --- */

typedef struct axes {
    double x0, x1, y0, y1; /* of the data, x as its logarithm, y too when log_y */
    bool log_y;
} axes;

static double scale_y(const axes *a, double y)
{
    return a->log_y ? log2(y) : y;
}

static double place_x(const axes *a, double x)
{
    return LEFT + (log2(x) - a->x0) / (a->x1 - a->x0) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const axes *a, double y)
{
    return HEIGHT - BOTTOM - (scale_y(a, y) - a->y0) / (a->y1 - a->y0) * (HEIGHT - TOP - BOTTOM);
}

static bool is_level(const roco_series *s)
{
    return s->n == 1 && s->x[0] == 0;
}

static axes measure(const roco_series *series, uint32_t n, bool log_y)
{
    axes a = {INFINITY, -INFINITY, INFINITY, -INFINITY, log_y};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < series[i].n; k++) {
            if (!is_level(&series[i])) {
                a.x0 = fmin(a.x0, log2(series[i].x[k]));
                a.x1 = fmax(a.x1, log2(series[i].x[k]));
            }
            a.y0 = fmin(a.y0, scale_y(&a, series[i].y[k]));
            a.y1 = fmax(a.y1, scale_y(&a, series[i].y[k]));
        }
    if (!(a.x1 > a.x0))
        a = (axes){isfinite(a.x0) ? a.x0 - 1 : 0, isfinite(a.x0) ? a.x0 + 1 : 1, a.y0, a.y1, log_y};
    const double margin = a.y1 > a.y0 ? (a.y1 - a.y0) * 0.08 : 1;
    a.y0 -= margin;
    a.y1 += margin;
    return a;
}

/* A round distance of marks that gives about six of them. */
static double step_for(double range)
{
    const double raw = range / 6, power = pow(10, floor(log10(raw))), part = raw / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

static void draw_mark(FILE *f, const axes *a, double y)
{
    char text[32];
    snprintf(text, sizeof text, "%g", y);
    fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", LEFT, WIDTH - RIGHT,
            place_y(a, y), place_y(a, y));
    label(f, LEFT - 8, place_y(a, y) + 4, "end", text);
}

static void draw_axes(FILE *f, const axes *a, const char *x_name, const char *y_name)
{
    char text[32];
    for (double x = ceil(a->x0 - 1e-9); x <= a->x1 + 1e-9; x++) {
        snprintf(text, sizeof text, "%g", exp2(x));
        fprintf(f, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/>\n", place_x(a, exp2(x)),
                place_x(a, exp2(x)), TOP, HEIGHT - BOTTOM);
        label(f, place_x(a, exp2(x)), HEIGHT - BOTTOM + 18, "middle", text);
    }
    const double step = a->log_y ? 1 : step_for(a->y1 - a->y0);
    for (double y = ceil(a->y0 / step) * step; y <= a->y1; y += step)
        draw_mark(f, a, a->log_y ? exp2(y) : y);
    label(f, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12, "middle", x_name);
    fprintf(f, "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", HEIGHT / 2,
            y_name);
}

static void draw_series(FILE *f, const axes *a, const roco_series *s, uint32_t index)
{
    const char *colour = colours[s->colour % N_COLOURS];
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colour,
            s->dashed ? " stroke-dasharray=\"6 4\"" : "");
    for (uint32_t k = 0; k < s->n && !is_level(s); k++)
        fprintf(f, "%.1f,%.1f ", place_x(a, s->x[k]), place_y(a, s->y[k]));
    if (is_level(s))
        fprintf(f, "%d,%.1f %d,%.1f", LEFT, place_y(a, s->y[0]), WIDTH - RIGHT, place_y(a, s->y[0]));
    fprintf(f, "\"/>\n");
    for (uint32_t k = 0; k < s->n && !is_level(s); k++)
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", place_x(a, s->x[k]), place_y(a, s->y[k]),
                colour);
    const double y = TOP + 10 + 18.0 * index;
    fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"%s/>\n",
            WIDTH - RIGHT + 12, WIDTH - RIGHT + 36, y, y, colour, s->dashed ? " stroke-dasharray=\"6 4\"" : "");
    label(f, WIDTH - RIGHT + 42, y + 4, "start", s->name);
}

roco_status roco_plot_lines(const char *path, const char *title, const char *x_name, const char *y_name, bool log_y,
                            const roco_series *series, uint32_t n, roco_error *error)
{
    FILE *f;
    if (!*path)
        return ROCO_OK;
    roco_status status = roco_report_open_file(path, &f, error);
    if (status)
        return status;
    const axes a = measure(series, n, log_y);
    begin(f, WIDTH, HEIGHT, title);
    draw_axes(f, &a, x_name, y_name);
    for (uint32_t i = 0; i < n; i++)
        draw_series(f, &a, &series[i], i);
    fputs("</svg>\n", f);
    return roco_report_close_file(f, path, error);
}

/* --- heat --- */

static void draw_cell(FILE *f, double x, double y, double value)
{
    const double v = fmin(fmax(value, 0), 1);
    const int red = (int)(213 - 213 * v), green = (int)(94 + 64 * v), blue = (int)(115 * v);
    fprintf(f, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\" stroke=\"white\"/>\n", x,
            y, CELL, CELL, isnan(value) ? 255 : red, isnan(value) ? 255 : green, isnan(value) ? 255 : blue);
    if (!isnan(value))
        fprintf(f, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"white\" font-size=\"10\">%.0f</text>\n",
                x + CELL / 2, y + CELL / 2 + 4, 100 * value);
}

static void draw_panel(FILE *f, const roco_heat *h, uint32_t panel, double left, double top)
{
    char text[32];
    label(f, left, top - 8, "start", h->panels[panel]);
    for (uint32_t c = 0; c < h->n_columns; c++) {
        snprintf(text, sizeof text, "%u", h->columns[c]);
        label(f, left + CELL * (c + 0.5), top + CELL * h->n_rows + 16, "middle", text);
    }
    for (uint32_t r = 0; r < h->n_rows; r++) {
        snprintf(text, sizeof text, "%u", h->rows[r]);
        label(f, left - 6, top + CELL * (r + 0.5) + 4, "end", text);
        for (uint32_t c = 0; c < h->n_columns; c++)
            draw_cell(f, left + CELL * c, top + CELL * r,
                      h->values[((size_t)panel * h->n_rows + r) * h->n_columns + c]);
    }
}

roco_status roco_plot_heat(const char *path, const roco_heat *h, roco_error *error)
{
    enum { PER_LINE = 3 };
    FILE *f;
    if (!*path)
        return ROCO_OK;
    roco_status status = roco_report_open_file(path, &f, error);
    if (status)
        return status;
    const int wide = (int)h->n_columns * CELL + 80, high = (int)h->n_rows * CELL + 70;
    const uint32_t lines = (h->n_panels + PER_LINE - 1) / PER_LINE;
    begin(f, 60 + wide * (int)(h->n_panels < PER_LINE ? h->n_panels : PER_LINE) + 60, 70 + high * (int)lines, h->title);
    for (uint32_t panel = 0; panel < h->n_panels; panel++)
        draw_panel(f, h, panel, 60 + wide * (int)(panel % PER_LINE), 70 + high * (int)(panel / PER_LINE));
    char names[128];
    snprintf(names, sizeof names, "down: %s, across: %s, in the squares: percent found", h->row_name, h->column_name);
    label(f, 60, 60 + high * (int)lines, "start", names);
    fputs("</svg>\n", f);
    return roco_report_close_file(f, path, error);
}
