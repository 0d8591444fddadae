/* The texts around the option table: what a manual page and a completion need besides options. */
#include "server/manual.h"

#include "config/options_manual.h"

void roco_print_manual(FILE *out)
{
    fputs(".TH ROCO 1 \"\" \"roco " ROCO_VERSION "\" \"User Commands\"\n.nh\n"
          ".SH NAME\n"
          "roco \\- LLM inference server with a KV\\-cache budget for every request\n"
          ".SH SYNOPSIS\n"
          ".B roco serve\n[\\fIMODEL.gguf\\fR] [\\fIoptions\\fR]\n.br\n"
          ".B roco info\n\\fIMODEL.gguf\\fR [\\fIoptions\\fR]\n.br\n"
          ".B roco eval\nppl|recall|passkey|agree|compare \\fIMODEL.gguf\\fR [\\fIoptions\\fR]\n.br\n"
          ".B roco profile\n\\fIMODEL.gguf\\fR [\\fIoptions\\fR]\n.br\n"
          ".B roco bench\n\\fIMODEL.gguf\\fR [\\fIoptions\\fR]\n.br\n"
          ".B roco ready\n[\\fIoptions\\fR]\n.br\n"
          ".B roco config\n"
          ".SH DESCRIPTION\n"
          "\\fBroco serve\\fR answers OpenAI\\-style requests over HTTP. All sequences share one fixed KV pool, and "
          "each\n"
          "request's cache is capped at a budget of tokens by RoCo eviction.\n"
          "\\fBroco info\\fR shows what a GGUF file holds and how many requests fit in memory.\n"
          "\\fBroco eval\\fR measures what eviction costs on texts and prompts of your own; "
          "\\fBroco eval \\-\\-help\\fR lists its flags.\n"
          "\\fBroco profile\\fR measures which heads look back and writes it beside the model, where "
          "\\fBroco serve\\fR finds it.\n"
          "\\fBroco bench\\fR measures the engine's speed by context, budget and batch, and where a step's time goes.\n"
          "\\fBroco ready\\fR asks a server with these options whether it takes requests; exit code 0 says yes.\n"
          "\\fBroco config\\fR prints a commented file of options.\n"
          ".SH OPTIONS\n"
          "An option is given as \\fB\\-\\-name\\fR \\fIvalue\\fR, as a variable (\\fB\\-\\-kv\\-budget\\fR:\n"
          "\\fBROCO_KV_BUDGET\\fR), or as a line \\fBkv\\-budget = 1024\\fR of the file that \\fB\\-\\-config\\fR or\n"
          "\\fBROCO_CONFIG\\fR names. A flag wins over the variable, the variable over the file.\n",
          out);
    roco_options_print_manual(out);
    fputs(
        ".SH SIGNALS\n"
        ".TP\n\\fBSIGTERM\\fR, \\fBSIGINT\\fR\n"
        "Drain: new requests get 503, /ready answers 503, running ones go on for \\fB\\-\\-drain\\-timeout\\fR seconds "
        "at\n"
        "most. A second one ends at once.\n"
        ".TP\n\\fBSIGHUP\\fR\n"
        "Read the options anew and take over the API keys, the TLS certificate, the log level and the log format.\n"
        "With a mistake in them nothing changes.\n"
        ".SH EXIT STATUS\n"
        "0 after a signal, 1 when the port, the key file or the model cannot be used, 2 for wrong options.\n"
        ".SH EXAMPLES\n"
        ".nf\nroco serve model.gguf \\-\\-kv\\-pool\\-bytes 8GiB \\-\\-kv\\-budget 512\n"
        "curl http://127.0.0.1:8080/v1/completions \\-H 'Content\\-Type: application/json' \\\\\n"
        "  \\-d '{\"prompt\": \"The capital of France is\", \"max_tokens\": 32}'\n.fi\n",
        out);
}

void roco_print_completion(FILE *out)
{
    fputs("# bash completion for roco, printed by `roco completion`\n"
          "_roco()\n"
          "{\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n",
          out);
    roco_options_print_bash(out);
    fputs("    if ((COMP_CWORD == 1)); then\n"
          "        mapfile -t COMPREPLY < <(compgen -W 'serve info eval profile bench ready config manual completion "
          "help' "
          "-- \"$word\")\n"
          "    elif [[ -n ${choices[$before]-} ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"${choices[$before]//|/ }\" -- \"$word\")\n"
          "    elif [[ $word == -* ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
          "    elif [[ $before != --* || $paths == *\" $before \"* ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _roco roco\n",
          out);
}
