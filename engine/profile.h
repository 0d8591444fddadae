/* Head profiles: which heads look back, and how a budget is spent on them.
 *
 * A few heads ("retrieval heads": DuoAttention, arXiv 2410.10819; RazorAttention, 2407.15891) fetch what was read once
 * and is asked for later. A profile gives each (layer, KV head) a score, measured once per model; by it a cache keeps
 * the best heads whole and shares the rest among the others, in no more memory than equal budgets take.
 */
#ifndef ROCO_ENGINE_PROFILE_H
#define ROCO_ENGINE_PROFILE_H

#include "engine/engine.h"
#include "engine/tokenizer.h"

/* Tokens of the passage and of the filler that a profile is measured on; less where the context or pool is small. */
#define ROCO_PROFILE_PART     300u
#define ROCO_PROFILE_MIN_PART 32u

/* Called after each step with the tokens done so far. */
typedef void roco_profile_progress(void *context, uint32_t done, uint32_t total);

/* Runs `passage, filler, passage` and writes scores [n_layers * n_kv_heads], layer-major, 0..1 or a little more: the
 * attention that the second copy's tokens pay to their first copies and to the tokens after those, as a mean over
 * tokens, and of a group's query heads the highest. ids [n_passage + n_filler], n_passage >= 2. Uses pages from the
 * pool's start: no cache may be open. Allocates. Engine thread. ROCO_TOO_LARGE when 2 n_passage + n_filler tokens fit
 * neither context nor pool; ROCO_NO_MEMORY; ROCO_DEVICE. */
roco_status roco_profile_measure(roco_engine *engine, const int32_t *ids, uint32_t n_passage, uint32_t n_filler,
                                 roco_profile_progress *progress, void *context, float *scores, roco_error *error);
/* The most tokens that passage and filler may have each, at most ROCO_PROFILE_PART; 0 when fewer than
 * ROCO_PROFILE_MIN_PART would. */
uint32_t roco_profile_part(const roco_engine *engine);
/* Fills ids[n] with text-like nonsense that any model can be profiled with: ordinary tokens drawn from a fixed seed. */
void roco_profile_draw(const roco_tokenizer *tokenizer, int32_t *ids, uint32_t n);

/* --- profile files --- */

/* Writes a profile of the model in `source` as JSON. ROCO_IO. */
roco_status roco_profile_write(const char *path, const roco_source *source, const roco_engine_info *info,
                               const float *scores, roco_error *error);
/* Reads it back. ROCO_IO (cannot be read), ROCO_FORMAT (no profile), ROCO_INVALID (of another model). scores
 * [n_layers * n_kv_heads]. */
roco_status roco_profile_read(const char *path, const roco_source *source, const roco_engine_info *info, float *scores,
                              roco_error *error);
/* Where a profile of this file lies beside it: MODEL.heads.json for MODEL.gguf. False when out[size] is too small. */
bool roco_profile_path(const roco_source *source, char *out, size_t size);
/* The profile that roco brings along for this file; false when there is none. */
bool roco_profile_builtin(const roco_source *source, const roco_engine_info *info, float *scores);

/* Where an engine's profile came from. */
typedef struct roco_profile_origin {
    char text[600];    /* "built in", "measured in 1.2 s, kept as FILE", the file's path; "" when there is none */
    char warning[600]; /* what went wrong and was got around; "" nothing */
} roco_profile_origin;

/* Gives the engine a profile (roco_engine_use_profile). `choice`: "off": none. "auto": MODEL.heads.json beside the
 * model, else <fingerprint>.heads.json in the user's cache folder (XDG_CACHE_HOME/roco, ~/.cache/roco), else the one
 * built in, else one is measured and kept in the cache folder; that an automatic one cannot be had is a warning. Any
 * other: that file, which must be this model's. Before any cache is open. `progress` may be NULL. */
roco_status roco_profile_find(roco_engine *engine, const roco_source *source, const roco_tokenizer *tokenizer,
                              const char *choice, roco_profile_progress *progress, void *context,
                              roco_profile_origin *origin, roco_error *error);

/* --- budgets by head --- */

/* What there is to deal to the heads that a profile ranks. */
typedef struct roco_head_room {
    uint32_t n_heads;                /* ranked, >= 1 */
    uint32_t n_needed, n_wanted;     /* best heads that must be whole for a passage to be found again; that should be */
    uint32_t n_pages;                /* for all of them */
    uint32_t length;                 /* of the sequence, prompt and answer: a whole head's slots */
    uint32_t budget;                 /* tokens a head would hold if all were alike */
    uint32_t guarded;                /* protected tokens of a head, fewer than the budget */
    roco_kv_type type;               /* of the pool */
    bool quantise;                   /* K and V may be q8 and q4 */
    uint32_t slots[ROCO_N_KV_TYPES]; /* of a page, by type */
} roco_head_room;

/* How one sequence's slots are dealt: the n_whole best heads get `whole` each, the n_more next ones `more`, all others
 * `low`. `whole` 0: all are alike, and of the pool's type. */
typedef struct roco_head_shares {
    uint32_t n_whole, n_more;
    uint32_t whole, more, low;
    roco_kv_type whole_type, low_type; /* low_type: of heads without a rank too */
} roco_head_shares;

/* No more than n_pages pages. Every share has room for more than the protected tokens. */
roco_head_shares roco_head_shares_make(const roco_head_room *room);
/* The share of the head that is rank-th best, from 0. */
static inline uint32_t roco_head_share(const roco_head_shares *shares, uint32_t rank)
{
    return rank < shares->n_whole                    ? shares->whole
           : rank < shares->n_whole + shares->n_more ? shares->more
                                                     : shares->low;
}

#endif
