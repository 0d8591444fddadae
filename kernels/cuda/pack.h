/* From the file's blocks to planes (linear.h), on the host. Pure functions. */
#ifndef ROCO_KERNELS_CUDA_PACK_H
#define ROCO_KERNELS_CUDA_PACK_H

#include "kernels/backend.h"
#include "kernels/cuda/linear.h"

/* Bytes of each plane; every plane is a multiple of 16. */
typedef struct roco_plane_sizes {
    size_t quants, high, scales, supers;
} roco_plane_sizes;

/* Form, zero and counts of the matrix, without pointers; false for a type that stays dense. */
bool roco_planes_form(const roco_tensor_view *view, roco_planes *out);
roco_plane_sizes roco_planes_sizes(const roco_planes *planes);
/* Fills planes in host memory, whose pointers `planes` has. */
void roco_planes_pack(const roco_tensor_view *view, const roco_planes *planes);

#endif
