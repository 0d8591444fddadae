/* Inside config/ only: the rows of the option table and what the flags, the environment and the file share. */
#ifndef ROCO_CONFIG_OPTIONS_TABLE_H
#define ROCO_CONFIG_OPTIONS_TABLE_H

#include "config/options.h"

typedef enum roco_option_kind {
    ROCO_OPTION_INT,    /* int64_t, whole number within min..max */
    ROCO_OPTION_SIZE,   /* int64_t, bytes within min..max, with KiB, MiB, GiB, TiB */
    ROCO_OPTION_TEXT,   /* const char *, min bytes at least */
    ROCO_OPTION_CHOICE, /* const char *, one of `choices` */
} roco_option_kind;

typedef struct roco_option_row {
    const char *name;    /* as in --name and in a roco.conf; ROCO_NAME in the environment */
    const char *section; /* heading in --help; rows of one section follow each other */
    roco_option_kind kind;
    size_t offset;          /* of the field of roco_options */
    int64_t min, max;       /* INT64_MAX: no upper bound */
    const char *choices;    /* "a|b|c" */
    const char *value_name; /* what --help calls the value */
    const char *value;      /* the default, read exactly as a user's value is */
    const char *help;       /* a sentence without its full stop */
    bool test_only;         /* not in the printed roco.conf */
} roco_option_row;

enum { ROCO_OPTIONS_MOST = 64 };

extern const roco_option_row roco_option_rows[];
extern const size_t roco_n_option_rows;

/* Where a value came from; a higher one wins whatever the order of reading. */
typedef enum roco_option_source {
    ROCO_FROM_DEFAULT,
    ROCO_FROM_FILE,
    ROCO_FROM_ENVIRONMENT,
    ROCO_FROM_FLAG
} roco_option_source;

typedef struct roco_option_reader {
    roco_options *options;
    roco_option_source sources[ROCO_OPTIONS_MOST]; /* of the value each row has now */
} roco_option_reader;

/* NULL when unknown. */
const roco_option_row *roco_option_find(const char *name);
/* The known name closest to `name`, NULL when none is near. */
const char *roco_option_nearest(const char *name);

/* Checks `text` against the row and stores it unless a higher source has spoken. `where` is how the user named the
 * option ("--port", "ROCO_PORT", "roco.conf:3: port") and starts the error. */
roco_status roco_option_set(roco_option_reader *reader, const roco_option_row *row, const char *text,
                            roco_option_source source, const char *where, roco_error *error);
/* "0 to 65535", "1MiB or more" or the choices; "" for a text. */
enum { ROCO_OPTION_RANGE_BYTES = 80 };
void roco_option_range(const roco_option_row *row, char range[ROCO_OPTION_RANGE_BYTES]);

/* The help, with range and, if asked for, default behind it. */
void roco_option_describe(const roco_option_row *row, bool with_default, char *text, size_t room);

roco_status roco_option_read_file(roco_option_reader *reader, const char *path, roco_error *error);

void roco_options_print_help(FILE *out);

#endif
