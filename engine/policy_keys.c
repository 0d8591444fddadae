#include "engine/policy_keys.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define BLOCK ROCO_POLICY_BLOCK

static uint32_t tokens_in(const roco_policy_view *view, uint32_t first)
{
    return view->n - first < BLOCK ? view->n - first : BLOCK;
}

/* What is not a number, or beyond all, as the largest finite one. */
static double bounded(double value)
{
    return fabs(value) <= DBL_MAX ? value : DBL_MAX;
}

/* sums[i] = sum over components of x[c][i]^2. */
static void add_squares(const float *x, uint32_t dim, double *sums)
{
    for (uint32_t c = 0; c < dim; c++)
        for (uint32_t i = 0; i < BLOCK; i++)
            sums[i] += (double)x[c * BLOCK + i] * (double)x[c * BLOCK + i];
}

/* sums[i] = sum over components of x[c][i] y[c]. */
static void add_products(const float *x, uint32_t dim, const double *y, double *sums)
{
    for (uint32_t c = 0; c < dim; c++)
        for (uint32_t i = 0; i < BLOCK; i++)
            sums[i] += (double)x[c * BLOCK + i] * y[c];
}

/* to[c] += sum over tokens of x[c][i] weight[i]. */
static void add_weighted(const float *x, uint32_t dim, const double *weight, double *to)
{
    for (uint32_t c = 0; c < dim; c++) {
        double sum = 0;
        for (uint32_t i = 0; i < BLOCK; i++)
            sum += (double)x[c * BLOCK + i] * weight[i];
        to[c] += sum;
    }
}

void roco_key_likeness(const roco_policy_view *view, double *likeness)
{
    const uint32_t dim = view->keys->dim;
    memset(view->vector, 0, dim * sizeof *view->vector);
    for (uint32_t first = 0; first < view->n; first += BLOCK) {
        const float *k = view->keys->block(view->keys, first);
        double squares[BLOCK] = {0}, weight[BLOCK] = {0}; /* 1 / |k_j|, for now in likeness too */
        add_squares(k, dim, squares);
        for (uint32_t i = 0; i < tokens_in(view, first); i++)
            likeness[first + i] = weight[i] = squares[i] > 0 && squares[i] <= DBL_MAX ? 1 / sqrt(squares[i]) : 0;
        add_weighted(k, dim, weight, view->vector);
    }
    for (uint32_t c = 0; c < dim; c++)
        view->vector[c] = isnan(view->vector[c]) ? 0 : view->vector[c] / view->n;
    for (uint32_t first = 0; first < view->n; first += BLOCK) {
        double products[BLOCK] = {0};
        add_products(view->keys->block(view->keys, first), dim, view->vector, products);
        for (uint32_t i = 0; i < tokens_in(view, first); i++) {
            const double inverse = likeness[first + i], cosine = products[i] * inverse;
            likeness[first + i] = isnan(cosine) || inverse == 0 ? 1 : cosine;
        }
    }
}

double roco_sum_in_blocks(const double *x, uint32_t n)
{
    double all = 0;
    for (uint32_t first = 0; first < n; first += BLOCK) {
        double sum = 0;
        for (uint32_t i = first; i < n && i < first + BLOCK; i++)
            sum += x[i];
        all += sum;
    }
    return all;
}

void roco_value_mean(const roco_policy_view *view, const double *weight)
{
    const uint32_t dim = view->values->dim;
    memset(view->vector, 0, dim * sizeof *view->vector);
    for (uint32_t first = 0; first < view->n; first += BLOCK) {
        double weights[BLOCK] = {0};
        memcpy(weights, weight + first, tokens_in(view, first) * sizeof *weights);
        add_weighted(view->values->block(view->values, first), dim, weights, view->vector);
    }
}

void roco_value_distance(const roco_policy_view *view, double *distance)
{
    const uint32_t dim = view->values->dim;
    for (uint32_t first = 0; first < view->n; first += BLOCK) {
        const float *v = view->values->block(view->values, first);
        double squares[BLOCK] = {0};
        for (uint32_t c = 0; c < dim; c++)
            for (uint32_t i = 0; i < BLOCK; i++) {
                const double d = (double)v[c * BLOCK + i] - view->vector[c];
                squares[i] += d * d;
            }
        for (uint32_t i = 0; i < tokens_in(view, first); i++)
            distance[first + i] = bounded(sqrt(squares[i]));
    }
}

void roco_value_norm(const roco_policy_view *view, double *norm)
{
    const uint32_t dim = view->values->dim;
    for (uint32_t first = 0; first < view->n; first += BLOCK) {
        const float *v = view->values->block(view->values, first);
        double sums[BLOCK] = {0};
        for (uint32_t c = 0; c < dim; c++)
            for (uint32_t i = 0; i < BLOCK; i++)
                sums[i] += fabs((double)v[c * BLOCK + i]);
        for (uint32_t i = 0; i < tokens_in(view, first); i++)
            norm[first + i] = bounded(sums[i]);
    }
}
