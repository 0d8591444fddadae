/* Progress on stderr: one line that is written over on a terminal, only its last state elsewhere. Main thread. */
#ifndef ROCO_EVAL_PROGRESS_H
#define ROCO_EVAL_PROGRESS_H

#include <stdint.h>

typedef struct roco_progress {
    uint64_t done, total; /* tokens */
} roco_progress;

void roco_progress_print(const roco_progress *progress);
/* The last line; what was not needed counts as done. */
void roco_progress_end(roco_progress *progress);

#endif
