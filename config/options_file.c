/* A roco.conf: lines `name = value`, comments from # or ;. inih splits the lines; the reader under it keeps what inih
 * would let through out: continuation lines, lines that are cut, NUL bytes. */
#include "config/options_table.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <string.h>

typedef struct conf {
    roco_option_reader *reader;
    FILE *stream;
    const char *path;
    int line;
    roco_status status; /* of the first fault; `error` tells it */
    roco_error *error;
} conf;

/* fgets for inih. White space in front is dropped, since inih takes an indented line for more of the value above. */
static char *read_line(char *line, int room, void *context)
{
    conf *c = context;
    int used = 0, byte = EOF, bytes = 0;
    if (c->status)
        return NULL;
    c->line++;
    while ((byte = getc(c->stream)) != EOF) {
        bytes++;
        if (byte == '\n')
            break;
        if (used == 0 && isspace(byte))
            continue;
        if (byte == '\0' || used == room - 2) {
            c->status = roco_fail(c->error, ROCO_INVALID, "config", "%s:%d: %s", c->path, c->line,
                                  byte ? "the line is too long" : "not a text file");
            return NULL;
        }
        line[used++] = (char)byte;
    }
    if (!bytes)
        return NULL;
    line[used++] = '\n';
    line[used] = '\0';
    return line;
}

/* Called by inih for every pair; 0 stops nothing there, so faults after the first are passed over here. */
static int take_pair(void *context, const char *section, const char *name, const char *value)
{
    conf *c = context;
    if (c->status)
        return 0;
    char where[192];
    snprintf(where, sizeof where, "%.120s:%d: %.50s", c->path, c->line, name);
    const roco_option_row *row = roco_option_find(name);
    if (*section) {
        c->status =
            roco_fail(c->error, ROCO_INVALID, "config", "%s:%d: a roco.conf has no [sections]", c->path, c->line);
    } else if (!row) {
        const char *near = roco_option_nearest(name);
        c->status = roco_fail(c->error, ROCO_INVALID, name, "%s is an unknown option%s%s", where,
                              near ? ", did you mean " : "", near ? near : "");
    } else {
        c->status = roco_option_set(c->reader, row, value, ROCO_FROM_FILE, where, c->error);
    }
    return c->status == ROCO_OK;
}

roco_status roco_option_read_file(roco_option_reader *reader, const char *path, roco_error *error)
{
    conf c = {.reader = reader, .path = path, .error = error, .stream = fopen(path, "re")};
    if (!c.stream)
        return roco_fail(error, ROCO_INVALID, "config", "%s: %s", path, strerror(errno));
    int bad_line = ini_parse_stream(read_line, &c, take_pair, &c);
    if (!c.status && ferror(c.stream))
        c.status = roco_fail(error, ROCO_INVALID, "config", "%s: %s", path, strerror(errno));
    else if (!c.status && bad_line)
        c.status = roco_fail(error, ROCO_INVALID, "config", "%s:%d: expected name = value", path, bad_line);
    fclose(c.stream);
    return c.status;
}
