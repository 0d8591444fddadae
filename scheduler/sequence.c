#include "scheduler/sequence.h"

void roco_sequence_fail(roco_sequence *sequence, roco_status status)
{
    if (sequence->finish != ROCO_FINISH_NONE)
        return;
    sequence->finish = status == ROCO_CANCELLED ? ROCO_FINISH_CANCELLED : ROCO_FINISH_ERROR;
    sequence->status = status;
}
