/* What the tests of the CUDA backend share: an emulated backend beside a CPU one, device copies, the count of shapes.
 */
#ifndef ROCO_TESTS_EMULATOR_SUPPORT_CUDA_H
#define ROCO_TESTS_EMULATOR_SUPPORT_CUDA_H

#include "kernels/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Reads the order of threads and the poison: PROGRAM [forward|reverse|random] [0..255]. */
void support_cuda_start(int argc, char **argv);
/* To be printed at the end, with the emulator's own numbers. */
void support_cuda_count(uint32_t n_shapes);
int support_cuda_end(int failed);

roco_backend *support_cuda_open(const roco_backend_config *config);
/* Device memory with n floats of `from`, or with what fresh memory has when it is NULL. */
float *support_cuda_put(roco_backend *backend, const float *from, size_t n);
/* Fetches n floats and closes the memory; the result is the caller's. */
float *support_cuda_take(roco_backend *backend, float *memory, size_t n);

#endif
