/* What eviction costs, on the user's own model and text: the commands `roco eval`, `roco profile` and `roco bench`.
 *
 * A layer beside the scheduler: it drives the engine itself, in batches, and knows nothing of requests. Main thread;
 * tables go to stdout, progress and errors to stderr. argv without program and command; environment as environ. All
 * return the process's exit code.
 */
#ifndef ROCO_EVAL_EVAL_H
#define ROCO_EVAL_EVAL_H

/* roco eval ppl|recall|passkey|agree|compare MODEL.gguf ... */
int roco_eval(int argc, char **argv, char **environment);
/* roco bench MODEL: the engine's speed, and where a step's time goes. */
int roco_bench_main(int argc, char **argv, char **environment);
/* roco profile MODEL.gguf: measures a head profile and writes it. */
int roco_profile(int argc, char **argv, char **environment);

#endif
