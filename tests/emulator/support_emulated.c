/* The tests on the emulator. */
#include "support_cuda.h"

#include "tests/emulator/emulator.h"

#include <stdio.h>
#include <string.h>

static uint32_t n_checked, n_cases, every = 1;
static bool mixed = true;

void support_cuda_start(int argc, char **argv)
{
    const char *order = argc > 1 ? argv[1] : "mixed";
    mixed = strcmp(order, "mixed") == 0;
    emulator_set_order(strcmp(order, "reverse") == 0  ? EMULATOR_REVERSE
                       : strcmp(order, "random") == 0 ? EMULATOR_RANDOM
                                                      : EMULATOR_FORWARD,
                       7);
    emulator_set_poison(argc > 2 ? (unsigned char)atoi(argv[2]) : 255);
    every = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
}

bool support_cuda_next(void)
{
    const uint32_t number = n_cases++;
    if (mixed) {
        emulator_set_order((emulator_order)(number % 3), number);
        emulator_set_poison(number % 2 ? 0 : 255);
    }
    return number % every == 0;
}

bool support_cuda_set_free_bytes(size_t bytes)
{
    emulator_set_free_bytes(bytes);
    return true;
}

void support_cuda_count(uint32_t n_shapes)
{
    n_checked += n_shapes;
}

void support_cuda_break_graphs(bool broken)
{
    emulator_graph_break(broken);
}

uint32_t support_cuda_graph_runs(void)
{
    return (uint32_t)emulator_count().graph_runs;
}

int support_cuda_end(int failed)
{
    const emulator_counts c = emulator_count();
    printf("%u shapes, %llu launches, %llu graphs run, %llu threads, %llu switches\n", n_checked,
           (unsigned long long)c.launches, (unsigned long long)c.graph_runs, (unsigned long long)c.threads,
           (unsigned long long)c.switches);
    return failed;
}
