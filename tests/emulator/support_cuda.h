/* What the tests of the CUDA backend share: a CUDA backend, emulated or on a GPU, beside a CPU one, device copies, the
 * count of shapes. support_emulated.c and support_device.c have the two forms of what differs. */
#ifndef ROCO_TESTS_EMULATOR_SUPPORT_CUDA_H
#define ROCO_TESTS_EMULATOR_SUPPORT_CUDA_H

#include "kernels/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* PROGRAM [mixed|forward|reverse|random [POISON [EVERY]]]: the order of threads, what fresh memory is filled with, and
 * which share of the cases is run: every so many. Mixed, the default: orders and poisons change from case to case. */
void support_cuda_start(int argc, char **argv);
/* Starts the next case; false when it is left out. */
bool support_cuda_next(void);
/* To be printed at the end. */
void support_cuda_count(uint32_t n_shapes);
int support_cuda_end(int failed);

/* From now on the device cannot record graphs. A real one always can. */
void support_cuda_break_graphs(bool broken);
/* Steps that ran as graphs so far; UINT32_MAX where nobody counts them. */
uint32_t support_cuda_graph_runs(void);
/* What the device says is free from now on, when that can be chosen: not on a GPU. */
bool support_cuda_set_free_bytes(size_t bytes);

roco_backend *support_cuda_open(const roco_backend_config *config);
/* Device memory with n floats of `from`, or with what fresh memory has when it is NULL. */
float *support_cuda_put(roco_backend *backend, const float *from, size_t n);
/* Fetches n floats and closes the memory; the result is the caller's. */
float *support_cuda_take(roco_backend *backend, float *memory, size_t n);

#endif
