/* The kinds of `roco eval`: each takes its arguments without program, command and kind, and returns the process's exit
 * code. Main thread. */
#ifndef ROCO_EVAL_COMMANDS_H
#define ROCO_EVAL_COMMANDS_H

#include "eval/setup.h"

int roco_eval_text(bool recall, int argc, char **argv, char **environment);          /* text.c: ppl, recall */
int roco_eval_passkey(int argc, char **argv, char **environment);                    /* passkey.c */
int roco_eval_prompts(bool side_by_side, int argc, char **argv, char **environment); /* prompts.c: agree, compare */

/* What all end with: the message on stderr, and the exit code. */
int roco_eval_exit(roco_status status, const roco_error *error);
/* True when argv asks for help; the flags were printed then. */
bool roco_eval_helped(int argc, char **argv, const char *usage, const roco_eval_flag *flags);

#endif
