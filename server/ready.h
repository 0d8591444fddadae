/* `roco ready`: does the server with these options take requests? For health checks where there is no curl. */
#ifndef ROCO_SERVER_READY_H
#define ROCO_SERVER_READY_H

/* argv without program and subcommand; takes the options of `roco serve`, of which host and port matter. Prints what
 * /ready answered to stdout; what is wrong to stderr. Returns the exit code: 0 when the answer was 200, 1 when it was
 * another or none came within 5 s, 2 for wrong options. */
int roco_ready(int argc, char **argv, char **environment);

#endif
