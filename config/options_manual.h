/* The option table for what is installed beside the program. Any thread. */
#ifndef ROCO_CONFIG_OPTIONS_MANUAL_H
#define ROCO_CONFIG_OPTIONS_MANUAL_H

#include <stdio.h>

/* The rows as the options section of a manual page (roff). Test-only rows are left out, here and below. */
void roco_options_print_manual(FILE *out);
/* Three variables of a bash function: options, paths (the options that take one) and choices (by option, with bars
 * between). */
void roco_options_print_bash(FILE *out);

#endif
