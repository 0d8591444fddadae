/* Names of KV types, and what q8 and q4 make of numbers (kv_layout.h says where they stand). Any thread; no state. */
#ifndef ROCO_KERNELS_KV_CODE_H
#define ROCO_KERNELS_KV_CODE_H

#include "kernels/kv_layout.h"

#include <stdbool.h>

/* "f16", "f32", "q8", "q4". */
const char *roco_kv_type_name(roco_kv_type type);
/* False when there is no such name. */
bool roco_kv_type_find(const char *name, roco_kv_type *out);

/* Codes of n components, one a byte (q8: int8), and by block of ROCO_KV_BLOCK the f16 scale and, at q4, least. What is
 * beyond f16's range counts as its largest finite value; a NaN makes its whole block NaN. Every step is one correctly
 * rounded operation, so any instruction set gives these bits. leasts: NULL at q8. */
void roco_kv_encode(roco_kv_type type, const float *in, uint32_t n, uint8_t *codes, uint16_t *scales, uint16_t *leasts);

/* One component of a slot, of any type. */
float roco_kv_key(const roco_kv_layout *layout, const unsigned char *page, uint32_t slot, uint32_t component);
float roco_kv_value(const roco_kv_layout *layout, const unsigned char *page, uint32_t slot, uint32_t component);

#endif
