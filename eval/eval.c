/* `roco eval`: which kind, and what all kinds end with. Main thread. */
#include "eval/eval.h"

#include "eval/commands.h"

#include <stdio.h>
#include <string.h>

int roco_eval_exit(roco_status status, const roco_error *error)
{
    if (status)
        fprintf(stderr, "roco: %s\n", error->message);
    return status == ROCO_OK ? 0 : status == ROCO_INVALID ? 2 : 1;
}

bool roco_eval_helped(int argc, char **argv, const char *usage, const roco_eval_flag *flags)
{
    if (argc < 1 || (strcmp(argv[0], "--help") != 0 && strcmp(argv[0], "-h") != 0))
        return false;
    roco_eval_help(usage, flags, stdout);
    return true;
}

static void print_kinds(FILE *out)
{
    fputs("usage: roco eval KIND MODEL.gguf [FLAGS]; roco eval KIND --help lists the flags\n\n"
          "  ppl       perplexity of a text, by policy, budget and stride\n"
          "  recall    perplexity of a passage's second copy: is what was read once found again?\n"
          "  passkey   a number hidden in filler, by length and depth: is it told when asked for?\n"
          "  agree     share of tokens equal to those of the full cache on your prompts, and divergence from it\n"
          "  compare   answers of two policies to your prompts, side by side\n",
          out);
}

int roco_eval(int argc, char **argv, char **environment)
{
    const char *kind = argc > 0 ? argv[0] : "";
    const int left = argc - 1;
    if (strcmp(kind, "ppl") == 0 || strcmp(kind, "recall") == 0)
        return roco_eval_text(*kind == 'r', left, argv + 1, environment);
    if (strcmp(kind, "passkey") == 0)
        return roco_eval_passkey(left, argv + 1, environment);
    if (strcmp(kind, "agree") == 0 || strcmp(kind, "compare") == 0)
        return roco_eval_prompts(*kind == 'c', left, argv + 1, environment);
    const bool asked = strcmp(kind, "--help") == 0 || strcmp(kind, "-h") == 0;
    print_kinds(asked ? stdout : stderr);
    return asked ? 0 : 2;
}
