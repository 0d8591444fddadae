#include "eval/progress.h"

#include <stdio.h>
#include <unistd.h>

void roco_progress_print(const roco_progress *p)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "%llu of %llu tokens\r", (unsigned long long)p->done, (unsigned long long)p->total);
}

void roco_progress_end(roco_progress *p)
{
    p->done = p->total;
    fprintf(stderr, "%llu of %llu tokens\n", (unsigned long long)p->done, (unsigned long long)p->total);
}
