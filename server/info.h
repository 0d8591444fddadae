/* `roco info FILE`: what a GGUF file holds and how many requests fit in a pool. */
#ifndef ROCO_SERVER_INFO_H
#define ROCO_SERVER_INFO_H

/* argv without program and subcommand. Prints to stdout; what is wrong to stderr. Returns the exit code: 0, 1 when the
 * file is unreadable or no model roco can serve (what could be read is printed all the same), 2 for wrong options. */
int roco_info(int argc, char **argv, char **environment);

#endif
