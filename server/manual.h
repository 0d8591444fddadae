/* `roco manual` and `roco completion`: the manual page and the completion of bash, printed from the option table, for
 * what installs roco. */
#ifndef ROCO_SERVER_MANUAL_H
#define ROCO_SERVER_MANUAL_H

#include <stdio.h>

void roco_print_manual(FILE *out);
void roco_print_completion(FILE *out);

#endif
