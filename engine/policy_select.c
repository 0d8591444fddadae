/* Quickselect over slot indices; what neighbours in position order share. */
#include "engine/policy_select.h"
#include "kernels/order.h"

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t t = *a;
    *a = *b;
    *b = t;
}

/* The middle one of three: sorted input, the common case for positions, then splits in half. */
static uint32_t median(const double *key, const int32_t *position, uint32_t a, uint32_t b, uint32_t c)
{
    if (roco_ranks_before(key, position, b, a))
        swap(&a, &b);
    if (roco_ranks_before(key, position, c, b))
        b = roco_ranks_before(key, position, c, a) ? a : c;
    return b;
}

/* Hoare's find (CACM 4, 1961, algorithm 65). Ranks differ, so each inner scan stops at the pivot at the latest. */
void roco_select_lowest(const double *key, const int32_t *position, uint32_t *order, uint32_t n, uint32_t count)
{
    if (count == 0)
        return;
    int64_t target = (int64_t)count - 1, low = 0, high = (int64_t)n - 1;
    while (low < high) {
        uint32_t pivot = median(key, position, order[low], order[(low + high) / 2], order[high]);
        int64_t left = low, right = high;
        while (left <= right) {
            while (roco_ranks_before(key, position, order[left], pivot))
                left++;
            while (roco_ranks_before(key, position, pivot, order[right]))
                right--;
            if (left <= right)
                swap(&order[left++], &order[right--]);
        }
        if (right < target)
            low = left;
        if (target < left)
            high = right;
    }
}

void roco_select_finish(uint32_t n, const uint32_t *order, uint32_t count, double *marks, uint32_t *victims)
{
    for (uint32_t j = 0; j < n; j++)
        marks[j] = 0;
    for (uint32_t i = 0; i < count; i++)
        marks[order[i]] = 1;
    uint32_t written = 0;
    for (uint32_t j = 0; j < n && written < count; j++)
        if (marks[j] != 0)
            victims[written++] = j;
}

void roco_select_unprotected(const roco_policy_view *view, uint32_t surplus, uint32_t *victims)
{
    uint32_t n_unprotected = 0;
    for (uint32_t j = 0; j < view->n; j++)
        if (!roco_policy_protects(view, j))
            view->order[n_unprotected++] = j;
    roco_select_lowest(view->scratch, view->position, view->order, n_unprotected, surplus);
    roco_select_finish(view->n, view->order, surplus, view->scratch, victims);
}

void roco_select_pool(const roco_policy_view *view, uint32_t width, bool maximum, const double *from, double *to)
{
    const uint32_t half = width / 2;
    roco_order_by_position(view->position, view->n, view->order);
    for (uint32_t i = 0; i < view->n; i++) {
        const uint32_t first = i < half ? 0 : i - half, end = i + half + 1 < view->n ? i + half + 1 : view->n;
        double sum = 0, highest = -INFINITY;
        for (uint32_t k = first; k < end; k++) {
            sum += from[view->order[k]];
            highest = fmax(highest, from[view->order[k]]);
        }
        to[view->order[i]] = maximum ? highest : sum / (end - first);
    }
}
