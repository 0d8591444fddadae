/* A scheduler that plays scripts: it stands in for scheduler/scheduler.h at link time.
 *
 * The answer of a job is its own prompt, token by token, then an end token: a test that sends token ids says what comes
 * out. Log-probabilities are minus the token's number in the sequence, that of ~ minus infinity, and the most probable
 * tokens are those of the bytes a, b, c, ... What else shall happen is chosen by the request's top_k, so that nothing
 * is shared between test and fake.
 */
#ifndef ROCO_TESTS_FAKE_SCHEDULER_H
#define ROCO_TESTS_FAKE_SCHEDULER_H

#include "scheduler/scheduler.h"

enum {
    FAKE_DEVICE = 1001,        /* a device fault after 5 tokens */
    FAKE_NUMERIC = 1002,       /* ends with NUMERIC before the first token */
    FAKE_STUCK = 1003,         /* never starts; ends when cancelled or stopped */
    FAKE_QUEUE_TIMEOUT = 1004, /* ends with TIMEOUT before it starts */
    FAKE_TIMEOUT = 1005,       /* the same after 2 tokens */
    FAKE_BUSY = 1006,          /* submit refuses */
    FAKE_TOO_LARGE = 1007,
    FAKE_FAST = 1008, /* 1000 tokens a round */
    FAKE_SLOW = 1009, /* a token every 20 rounds of a millisecond; others: one a round */
};

#endif
