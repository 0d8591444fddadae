/* Steps whose rows all decode, as CUDA graphs: what was launched once for a bucket of rows and columns is launched
 * again as one piece, with new tables in the same places. Engine thread. */
#ifndef ROCO_KERNELS_CUDA_GRAPHS_H
#define ROCO_KERNELS_CUDA_GRAPHS_H

#include "kernels/cuda/tables.h"

/* Closing takes a backend whose open failed or was never reached. */
roco_status roco_cuda_graphs_open(roco_cuda *cuda, roco_error *error);
void roco_cuda_graphs_close(roco_cuda *cuda);

/* The operations: see kernels/backend.h. */
uint32_t roco_cuda_begin(roco_backend *backend, const roco_step_tables *step);
bool roco_cuda_end(roco_backend *backend);

#endif
