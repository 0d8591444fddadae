/* The same tests on a GPU: order and poison are its own affair. */
#include "support_cuda.h"

#include <stdio.h>

static uint32_t n_checked, n_cases, every = 1;

void support_cuda_start(int argc, char **argv)
{
    every = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
}

bool support_cuda_next(void)
{
    return n_cases++ % every == 0;
}

bool support_cuda_set_free_bytes(size_t bytes)
{
    return false;
}

void support_cuda_count(uint32_t n_shapes)
{
    n_checked += n_shapes;
}

void support_cuda_break_graphs(bool broken)
{
}

uint32_t support_cuda_graph_runs(void)
{
    return UINT32_MAX;
}

int support_cuda_end(int failed)
{
    printf("%u shapes\n", n_checked);
    return failed;
}
