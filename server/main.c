/* The program: picks the subcommand. Wiring only. */
#include "config/options.h"
#include "eval/eval.h"
#include "server/info.h"
#include "server/manual.h"
#include "server/ready.h"
#include "server/serve.h"

#include <stdio.h>
#include <string.h>

extern char **environ;

static void print_usage(FILE *out)
{
    fprintf(out, "usage: roco COMMAND [OPTIONS]\n"
                 "\n"
                 "  serve MODEL        answer OpenAI-style requests over HTTP\n"
                 "  info MODEL         show what a model holds and how many requests fit in memory\n"
                 "  eval ppl|recall|passkey|agree|compare MODEL.gguf\n"
                 "                     measure what eviction costs: perplexity, or finding again what was read once\n"
                 "  bench MODEL        measure speed by context, budget and batch, and where the time goes\n"
                 "  profile MODEL.gguf measure which heads look back, and write it beside the model\n"
                 "  ready              ask a server with these options whether it takes requests (exit code 0: yes)\n"
                 "  config             print a commented roco.conf with every default\n"
                 "  manual             print the manual page (roff)\n"
                 "  completion         print the completion for bash\n"
                 "  help               print this\n"
                 "\n"
                 "MODEL is a GGUF file or a Hugging Face folder.\n"
                 "roco serve --help lists the options; roco --version prints the version.\n");
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "serve") == 0)
        return roco_serve(argc - 2, argv + 2, environ);
    if (strcmp(command, "info") == 0)
        return roco_info(argc - 2, argv + 2, environ);
    if (strcmp(command, "eval") == 0)
        return roco_eval(argc - 2, argv + 2, environ);
    if (strcmp(command, "bench") == 0)
        return roco_bench_main(argc - 2, argv + 2, environ);
    if (strcmp(command, "profile") == 0)
        return roco_profile(argc - 2, argv + 2, environ);
    if (strcmp(command, "ready") == 0)
        return roco_ready(argc - 2, argv + 2, environ);
    if (strcmp(command, "config") == 0) {
        roco_options_print_file(stdout);
        return 0;
    }
    if (strcmp(command, "manual") == 0) {
        roco_print_manual(stdout);
        return 0;
    }
    if (strcmp(command, "completion") == 0) {
        roco_print_completion(stdout);
        return 0;
    }
    if (strcmp(command, "help") == 0 || strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(command, "--version") == 0) {
        printf("roco %s\n", ROCO_VERSION);
        return 0;
    }
    if (*command)
        fprintf(stderr, "roco: there is no command '%s'\n\n", command);
    print_usage(stderr);
    return 2;
}
