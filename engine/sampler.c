/* Sampling: see sampler.h for the order of filters. Engine thread; no state beyond the arguments. */
#include "engine/sampler.h"

#include "engine/sampler_row.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct candidate {
    float p; /* unnormalised probability, exp((logit - highest) / temperature) */
    int32_t id;
} candidate;

/* SplitMix64 (Steele, Lea, Flood 2014): a counter in, 64 well-mixed bits out. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t roco_seed_for_choice(uint64_t seed, uint32_t choice)
{
    return choice ? mix(seed ^ mix(choice)) : seed;
}

/* Uniform in [0, 1), 53 bits. */
static double uniform(uint64_t seed, uint64_t index)
{
    return (double)(mix(mix(seed) + index) >> 11) * 0x1p-53;
}

size_t roco_sampler_scratch_bytes(uint32_t n_vocab)
{
    return n_vocab * sizeof(candidate);
}

/* Most probable first; the lower id among equals. */
static int by_probability(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->p != b->p)
        return a->p < b->p ? 1 : -1;
    return (a->id > b->id) - (a->id < b->id);
}

static double weigh(const candidate *c, uint32_t n)
{
    double total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += c[i].p;
    return total;
}

static uint32_t collect_from(const float *p, uint32_t n_vocab, float low, candidate *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (p[i] >= low && p[i] > 0.0f)
            c[n++] = (candidate){p[i], (int32_t)i};
    return n;
}

/* Every token that top_p or min_p can leave in, so that only few candidates need sorting: the likely ones first, and
 * less likely ones when those are no nucleus yet. */
static uint32_t collect_likely(const roco_sampling *s, const float *p, double total, uint32_t n_vocab, candidate *c)
{
    float least = s->min_p, low = 0; /* the highest p is 1 */
    if (s->top_p < 1.0f) {
        /* All tokens under this bound weigh less than 1 - top_p together, so none of them is in the nucleus. */
        const float nucleus = (float)((1.0 - s->top_p) * total / n_vocab);
        least = nucleus > least ? nucleus : least;
        low = 0x1p-6f;
    }
    for (;; low *= 0x1p-6f) {
        const uint32_t n = collect_from(p, n_vocab, low > least ? low : least, c);
        if (low <= least || weigh(c, n) >= s->top_p * total)
            return n;
    }
}

static void sift_down(candidate *heap, uint32_t n, uint32_t at)
{
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && by_probability(&heap[child + 1], &heap[child]) > 0)
            child++;
        if (by_probability(&heap[at], &heap[child]) >= 0)
            return;
        candidate t = heap[at];
        heap[at] = heap[child];
        heap[child] = t;
    }
}

/* The k most probable tokens, with their logits for p: a heap with the least probable of them on top. */
static uint32_t collect_top(const float *logits, uint32_t n_vocab, uint32_t k, candidate *heap)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        if (n == k && logits[i] < heap[0].p)
            continue;
        candidate next = {logits[i], (int32_t)i};
        if (n < k) {
            heap[n++] = next;
            for (uint32_t at = n / 2; n == k && at-- > 0;)
                sift_down(heap, n, at);
        } else if (by_probability(&next, &heap[0]) < 0) {
            heap[0] = next;
            sift_down(heap, n, 0);
        }
    }
    return n;
}

/* Cuts candidates, sorted and weighing `total` with those left out before, by top_p and then min_p; at least one stays.
 */
static uint32_t cut(const roco_sampling *s, const candidate *c, uint32_t n, double total)
{
    if (s->top_p < 1.0f) {
        double sum = 0;
        uint32_t kept = 0;
        while (kept < n && (kept == 0 || sum < s->top_p * total))
            sum += c[kept++].p;
        n = kept;
    }
    while (n > 1 && c[n - 1].p < s->min_p)
        n--;
    return n;
}

static int32_t pick(const candidate *c, uint32_t n, double goal)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += c[i].p;
        if (goal < sum)
            return c[i].id;
    }
    return c[n - 1].id;
}

/* top_k before all else: only the k highest logits ever become probabilities. */
static int32_t draw_of_top(const roco_draw *draw, const float *logits, uint32_t n_vocab, float highest, float inverse,
                           candidate *c)
{
    const roco_sampling *s = draw->sampling;
    uint32_t n = collect_top(logits, n_vocab, (uint32_t)s->top_k, c);
    for (uint32_t i = 0; i < n; i++)
        c[i].p = expf((c[i].p - highest) * inverse);
    qsort(c, n, sizeof *c, by_probability);
    n = cut(s, c, n, weigh(c, n));
    return pick(c, n, uniform(s->seed, draw->index) * weigh(c, n));
}

/* `sums` of the row's parts tell in which part the draw falls; the rest of the row is not looked at. */
static int32_t draw_of_all(const roco_draw *draw, float *p, uint32_t n_vocab, float highest, float inverse,
                           candidate *c)
{
    const roco_sampling *s = draw->sampling;
    const double u = uniform(s->seed, draw->index);
    double *sums = (double *)c; /* as long as nobody collects */
    const double total = roco_row_weigh(p, n_vocab, highest, inverse, sums);
    if (s->top_p >= 1.0f && s->min_p <= 0.0f)
        return (int32_t)roco_row_pick(p, n_vocab, sums, u * total);
    uint32_t n = collect_likely(s, p, total, n_vocab, c);
    qsort(c, n, sizeof *c, by_probability);
    n = cut(s, c, n, total);
    return pick(c, n, u * weigh(c, n));
}

/* Under this temperature the second best token has no weight left in float32 unless it ties. */
#define GREEDY_BELOW 1e-5f

roco_status roco_sample(const roco_draw *draw, float *logits, uint32_t n_vocab, void *scratch, int32_t *token)
{
    const roco_sampling *s = draw->sampling;
    if (draw->allowed && !roco_logits_mask(draw->allowed, logits, n_vocab))
        return ROCO_NUMERIC;
    if (draw->rules)
        roco_logits_apply(draw->rules, draw->allowed, logits, n_vocab);
    uint32_t best;
    if (!roco_row_highest(logits, n_vocab, &best))
        return ROCO_NUMERIC;
    *token = (int32_t)best;
    if (s->temperature < GREEDY_BELOW || s->top_k == 1)
        return ROCO_OK;
    const float highest = logits[best], inverse = 1.0f / s->temperature;
    *token = s->top_k > 0 && (uint32_t)s->top_k < n_vocab
                 ? draw_of_top(draw, logits, n_vocab, highest, inverse, scratch)
                 : draw_of_all(draw, logits, n_vocab, highest, inverse, scratch);
    return ROCO_OK;
}
