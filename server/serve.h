/* `roco serve`: one model behind HTTP until a signal ends it. */
#ifndef ROCO_SERVER_SERVE_H
#define ROCO_SERVER_SERVE_H

#include "server/app.h"

/* argv without program and subcommand. Prints "listening on URL" to stdout as soon as the port is bound; the log goes
 * to stderr. Returns the exit code: 0 after SIGTERM or SIGINT (or --help), 1 when the port, the key file or the model
 * is unusable, 2 for wrong options. */
int roco_serve(int argc, char **argv, char **environment);

/* serve_report.c: logs the memory arithmetic of a loaded app. */
void roco_serve_report(const roco_app *app, double load_seconds);

#endif
