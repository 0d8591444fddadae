/* Sets of code points as sorted ranges. Any thread; a set belongs to its user. */
#include "grammar/parts.h"

#include <stdlib.h>

enum { FIRST_SURROGATE = 0xD800, LAST_SURROGATE = 0xDFFF };

void roco_charset_add(roco_charset *set, uint32_t low, uint32_t high)
{
    if (low > high)
        return;
    if (!roco_grow(&set->data, set->n, &set->capacity, sizeof *set->data)) {
        set->failed = true;
        return;
    }
    set->data[set->n++] = (roco_range){low, high};
}

static int by_low(const void *left, const void *right)
{
    const uint32_t a = ((const roco_range *)left)->low, b = ((const roco_range *)right)->low;
    return (a > b) - (a < b);
}

/* No UTF-8 spells a surrogate. */
static void drop_surrogates(roco_charset *set)
{
    for (uint32_t i = 0, n = set->n; i < n; i++) {
        roco_range *range = &set->data[i];
        if (range->high < FIRST_SURROGATE || range->low > LAST_SURROGATE)
            continue;
        const uint32_t high = range->high;
        if (range->low < FIRST_SURROGATE) {
            range->high = FIRST_SURROGATE - 1;
            roco_charset_add(set, LAST_SURROGATE + 1, high);
        } else {
            range->low = LAST_SURROGATE + 1; /* empty when high is a surrogate, too */
        }
    }
}

void roco_charset_sort(roco_charset *set)
{
    drop_surrogates(set);
    if (set->n > 1)
        qsort(set->data, set->n, sizeof *set->data, by_low);
    uint32_t n = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        const roco_range range = set->data[i];
        if (range.low > range.high)
            continue;
        if (n > 0 && range.low <= set->data[n - 1].high + 1)
            set->data[n - 1].high = range.high > set->data[n - 1].high ? range.high : set->data[n - 1].high;
        else
            set->data[n++] = range;
    }
    set->n = n;
}

void roco_charset_negate(roco_charset *set)
{
    roco_charset_sort(set);
    roco_charset out = {.failed = set->failed};
    uint32_t next = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        if (set->data[i].low > next)
            roco_charset_add(&out, next, set->data[i].low - 1);
        next = set->data[i].high + 1;
    }
    roco_charset_add(&out, next, ROCO_MAX_CODE);
    roco_charset_sort(&out);
    free(set->data);
    *set = out;
}

bool roco_charset_has(const roco_charset *set, uint32_t code)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (code >= set->data[i].low && code <= set->data[i].high)
            return true;
    return false;
}

void roco_charset_free(roco_charset *set)
{
    free(set->data);
    *set = (roco_charset){0};
}
