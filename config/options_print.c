/* The option table as --help and as a commented roco.conf. */
#include "config/options_table.h"

#include <inttypes.h>
#include <string.h>

enum { LINE_COLUMNS = 100, HELP_COLUMN = 30 };

static void format_bound(const roco_option_row *row, int64_t value, char *out, size_t room)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    if (row->kind == ROCO_OPTION_SIZE)
        for (; value && value % 1024 == 0 && unit + 1 < sizeof units / sizeof units[0]; unit++)
            value /= 1024;
    snprintf(out, room, "%" PRId64 "%s", value, units[unit]);
}

void roco_option_range(const roco_option_row *row, char range[ROCO_OPTION_RANGE_BYTES])
{
    char low[32], high[32];
    range[0] = '\0';
    if (row->kind == ROCO_OPTION_CHOICE) {
        snprintf(range, ROCO_OPTION_RANGE_BYTES, "%s", row->choices);
    } else if (row->kind != ROCO_OPTION_TEXT) {
        format_bound(row, row->min, low, sizeof low);
        format_bound(row, row->max, high, sizeof high);
        if (row->max == INT64_MAX)
            snprintf(range, ROCO_OPTION_RANGE_BYTES, "%s or more", low);
        else
            snprintf(range, ROCO_OPTION_RANGE_BYTES, "%s to %s", low, high);
    }
}

/* Writes `text` word by word, starting at `column`; lines after the first start with `margin`. */
static void print_wrapped(FILE *out, const char *text, size_t column, const char *margin)
{
    bool first = true;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (!first && column + 1 + word > LINE_COLUMNS) {
            fprintf(out, "\n%s", margin);
            column = strlen(margin);
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", (int)word, text);
        column += word + !first;
        first = false;
        text += word + (text[word] == ' ');
    }
    fputc('\n', out);
}

void roco_option_describe(const roco_option_row *row, bool with_default, char *text, size_t room)
{
    char range[ROCO_OPTION_RANGE_BYTES];
    roco_option_range(row, range);
    bool value = with_default && *row->value;
    bool both = *range && value;
    snprintf(text, room, "%s%s%s%s%s%s%s", row->help, *range || value ? " (" : "", range, both ? "; " : "",
             value ? "default " : "", value ? row->value : "", *range || value ? ")" : "");
}

static void print_help_row(FILE *out, const char *name, const char *value_name, const char *text)
{
    char left[64], margin[HELP_COLUMN + 1];
    snprintf(left, sizeof left, "  --%s %s", name, value_name);
    fprintf(out, "%-*s", HELP_COLUMN, left);
    memset(margin, ' ', HELP_COLUMN);
    margin[HELP_COLUMN] = '\0';
    print_wrapped(out, text, HELP_COLUMN, margin);
}

void roco_options_print_help(FILE *out)
{
    char text[512];
    const char *section = "";
    fputs("Usage: roco serve MODEL.gguf [options]\n\n"
          "An option is given as --name VALUE or --name=VALUE, as a variable (--kv-budget: ROCO_KV_BUDGET),\n"
          "or as a line `kv-budget = 1024` of the file that --config or ROCO_CONFIG names. A flag wins over\n"
          "the variable, the variable over the file; of a flag given twice the last counts.\n\n",
          out);
    print_help_row(out, "config", "PATH", "file of options; `roco config` prints one to start from");
    print_help_row(out, "help", "", "print this text");
    for (size_t i = 0; i < roco_n_option_rows; i++) {
        const roco_option_row *row = &roco_option_rows[i];
        if (strcmp(section, row->section) != 0)
            fprintf(out, "\n%s\n", row->section);
        section = row->section;
        roco_option_describe(row, true, text, sizeof text);
        print_help_row(out, row->name, row->value_name, text);
    }
}

void roco_options_print_file(FILE *out)
{
    char text[512];
    const char *section = "";
    fputs("# Every option of roco at its default. Use: roco serve --config FILE, or ROCO_CONFIG=FILE.\n"
          "# A line is `name = value`. A comment starts with # at the start of a line, or with ; after a space.\n"
          "# Flags (--kv-budget 512) and the environment (ROCO_KV_BUDGET=512) win over this file.\n",
          out);
    for (size_t i = 0; i < roco_n_option_rows; i++) {
        const roco_option_row *row = &roco_option_rows[i];
        if (row->test_only)
            continue;
        if (strcmp(section, row->section) != 0)
            fprintf(out, "\n# ---- %s ----\n", row->section);
        section = row->section;
        roco_option_describe(row, false, text, sizeof text);
        fputs("\n# ", out);
        print_wrapped(out, text, 2, "# ");
        fprintf(out, "%s =%s%s\n", row->name, *row->value ? " " : "", row->value);
    }
}
