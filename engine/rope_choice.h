/* RoPE scaling by option, in place of the file's. */
#ifndef ROCO_ENGINE_ROPE_CHOICE_H
#define ROCO_ENGINE_ROPE_CHOICE_H

#include <stdint.h>

typedef struct roco_rope_choice {
    const char *scaling; /* NULL or "file": the file's; "none" | "linear" | "dynamic" | "yarn" */
    const char *factor;  /* 1 to 1000 as text; how many times the original positions there is room for */
    uint32_t original;   /* positions trained on; 0: the file's context */
} roco_rope_choice;

#endif
