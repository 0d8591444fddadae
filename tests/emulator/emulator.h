/* The emulator's inside, as device.h and the tests see it. One OS thread; nothing here is for product code. */
#ifndef ROCO_TESTS_EMULATOR_EMULATOR_H
#define ROCO_TESTS_EMULATOR_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <functional>
extern "C" {
#endif

typedef enum emulator_order { EMULATOR_FORWARD, EMULATOR_REVERSE, EMULATOR_RANDOM } emulator_order;

/* How threads, and blocks, follow each other, and what bytes fresh memory has. */
void emulator_set_order(emulator_order order, uint64_t seed);
void emulator_set_poison(unsigned char poison);

/* What the device says is free; memory itself has no limit but 4 GiB a piece. */
void emulator_set_free_bytes(size_t bytes);

typedef struct emulator_counts {
    uint64_t launches, threads, switches;
    uint64_t graph_runs;
} emulator_counts;
emulator_counts emulator_count(void);

/* Device memory: exactly `bytes`, poisoned. */
void *emulator_memory_open(size_t bytes);
void emulator_memory_close(void *memory);

/* From begin to end launches are kept and not run; `run` runs all that were kept. What other work runs between them
 * comes in with emulator_keep. */
typedef struct emulator_graph emulator_graph;
/* From now on nothing can be kept: end gives NULL. */
void emulator_graph_break(bool broken);
void emulator_graph_begin(void);
emulator_graph *emulator_graph_end(void);
void emulator_graph_run(emulator_graph *graph);
void emulator_graph_close(emulator_graph *graph);

float emulator_half_to_float(uint16_t bits);
uint16_t emulator_half_from_float(float value);

typedef struct emulator_index {
    unsigned x, y, z;
} emulator_index;

typedef struct emulator_fiber {
    emulator_index thread, block;
} emulator_fiber;

extern emulator_fiber *emulator_thread; /* the one that runs */
extern emulator_index emulator_block_size, emulator_grid_size;

typedef enum emulator_operation {
    EMULATOR_SYNC,
    EMULATOR_XOR,
    EMULATOR_INDEX,
    EMULATOR_UP,
    EMULATOR_BALLOT
} emulator_operation;

void emulator_barrier(int line);
/* All lanes of `mask` must come with the same operation and site; each gets its result. */
uint64_t emulator_warp(emulator_operation operation, unsigned mask, uint64_t value, int lane, int site);
/* The block's array of this declaration: made by the first thread that asks. */
void *emulator_shared(const void *site, size_t bytes);
void *emulator_dynamic_shared(void);

#ifdef __cplusplus
}

struct emulator_shape {
    const char *name;
    emulator_index grid, block;
    size_t shared_bytes;
};

void emulator_launch(const emulator_shape &shape, std::function<void()> kernel);
/* Runs `work` now, or keeps it for the graph that is being kept. */
void emulator_keep(std::function<void()> work);
#endif

#endif
