/* What policies ask of keys and values. Pure functions over the view; no allocation. */
#ifndef ROCO_ENGINE_POLICY_KEYS_H
#define ROCO_ENGINE_POLICY_KEYS_H

#include "kernels/policy.h"

/* likeness[j] = mean over all tokens i of cos(k_i, k_j): one pass for the mean of unit keys, one for the products.
 * Never NaN; a key of zeros, or a broken one, is like every other. Overwrites view->vector. */
void roco_key_likeness(const roco_policy_view *view, double *likeness);

/* The sum of x[0..n), in blocks of ROCO_POLICY_BLOCK that are then added up: an order that a device can take too. */
double roco_sum_in_blocks(const double *x, uint32_t n);

/* mean[dim] = sum over j of weight[j] v_j, into view->vector. */
void roco_value_mean(const roco_policy_view *view, const double *weight);
/* distance[j] = |v_j - view->vector|. */
void roco_value_distance(const roco_policy_view *view, double *distance);
/* norm[j] = sum over components of |v_j|. */
void roco_value_norm(const roco_policy_view *view, double *norm);

#endif
