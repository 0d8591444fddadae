/* The test-only switch `--fault`: parts that fail on purpose, so that what happens then can be tested. */
#ifndef ROCO_SERVER_FAULTS_H
#define ROCO_SERVER_FAULTS_H

#include "config/status.h"

#include <stdint.h>

typedef struct roco_faults {
    uint64_t nan_after;    /* nan:N     the N-th sampled token of the process sees a NaN logit; 0 off */
    uint64_t device_after; /* device:N  each sequence fails with a device fault after N tokens; 0 off */
} roco_faults;

/* `text`: "", or switches joined by commas. ROCO_INVALID; ROCO_UNSUPPORTED in builds without ROCO_FAULTS. */
roco_status roco_faults_parse(const char *text, roco_faults *out, roco_error *error);

#endif
