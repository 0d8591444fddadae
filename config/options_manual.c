/* The option table as the options of the manual page and of the completion. Data in, text out. */
#include "config/options_manual.h"

#include "config/options_table.h"

#include <string.h>

/* A hyphen that is to be copied from the page must be written as a minus. */
static void print_roff(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '-' || *text == '\\')
            fputc('\\', out);
        fputs(*text == '\\' ? "e" : (const char[]){*text, '\0'}, out);
    }
}

static void print_row(FILE *out, const char *name, const char *value_name, const char *text)
{
    fputs(".TP\n\\fB\\-\\-", out);
    print_roff(out, name);
    fprintf(out, "\\fR%s\\fI%s\\fR\n", *value_name ? " " : "", value_name);
    print_roff(out, text);
    fputc('\n', out);
}

void roco_options_print_manual(FILE *out)
{
    char text[512];
    const char *section = "";
    print_row(out, "config", "PATH", "file of options; roco config prints one to start from");
    print_row(out, "help", "", "print the options");
    for (size_t i = 0; i < roco_n_option_rows; i++) {
        const roco_option_row *row = &roco_option_rows[i];
        if (row->test_only)
            continue;
        if (strcmp(section, row->section) != 0)
            fprintf(out, ".SS %s\n", row->section);
        section = row->section;
        roco_option_describe(row, true, text, sizeof text);
        print_row(out, row->name, row->value_name, text);
    }
}

static bool takes_path(const roco_option_row *row)
{
    return strcmp(row->value_name, "PATH") == 0 || strcmp(row->value_name, "FILE") == 0;
}

void roco_options_print_bash(FILE *out)
{
    fputs("    local options='--config --help", out);
    for (size_t i = 0; i < roco_n_option_rows; i++)
        if (!roco_option_rows[i].test_only)
            fprintf(out, " --%s", roco_option_rows[i].name);
    fputs("'\n    local paths=' --config", out);
    for (size_t i = 0; i < roco_n_option_rows; i++)
        if (takes_path(&roco_option_rows[i]))
            fprintf(out, " --%s", roco_option_rows[i].name);
    fputs(" '\n    local -A choices=(", out);
    for (size_t i = 0; i < roco_n_option_rows; i++)
        if (roco_option_rows[i].choices)
            fprintf(out, "[--%s]='%s' ", roco_option_rows[i].name, roco_option_rows[i].choices);
    fputs(")\n", out);
}
