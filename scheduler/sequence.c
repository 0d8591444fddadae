#include "scheduler/sequence.h"

void roco_sequence_fail(roco_sequence *sequence, roco_status status)
{
    if (sequence->finish != ROCO_FINISH_NONE)
        return;
    if (status != ROCO_CANCELLED)
        sequence->finish = ROCO_FINISH_ERROR;
    else
        sequence->finish = sequence->job->complete ? ROCO_FINISH_STOP : ROCO_FINISH_CANCELLED;
    sequence->status = sequence->finish == ROCO_FINISH_STOP ? ROCO_OK : status;
}
