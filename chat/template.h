/* Chat templates: Jinja, as Hugging Face's transformers sets it up for them, in a sandbox.
 *
 * A template is compiled once and then only read, by any number of threads. A rendering turns values (value.h) into
 * text and reaches nothing else: no file, no clock but the one it is given, no object of the program. Steps, depth,
 * memory, output and time are limited. Known: for, if, set, macro, call, filter, with, break, continue, generation,
 * raw, comments, white-space control with trim_blocks and lstrip_blocks; the operators, tests, filters and methods that
 * docs/API.md lists. Not known: import, include, inheritance, recursive loops, autoescape.
 */
#ifndef ROCO_CHAT_TEMPLATE_H
#define ROCO_CHAT_TEMPLATE_H

#include "chat/value.h"
#include "config/buffer.h"

#include <time.h>

#define ROCO_TEMPLATE_MAX_BYTES (512u * 1024u)

typedef struct roco_template roco_template;

/* Copies what it needs of source[size], UTF-8. Errors: ROCO_FORMAT with the line; ROCO_TOO_LARGE over
 * ROCO_TEMPLATE_MAX_BYTES; ROCO_NO_MEMORY. Returns owned. */
roco_status roco_template_open(const char *source, size_t size, roco_template **out, roco_error *error);
void roco_template_close(roco_template *template);

typedef struct roco_render_limits {
    uint64_t steps; /* nodes walked, items gone through, each 256 bytes copied */
    unsigned depth; /* expressions, bodies and macros inside each other */
    size_t output_bytes;
    uint64_t time_ns;
} roco_render_limits;

#define ROCO_RENDER_LIMITS                                                                                             \
    ((roco_render_limits){.steps = 20000000, .depth = 400, .output_bytes = 64u << 20, .time_ns = 5000000000u})
/* A good limit for the region of one rendering: all its values, temporary ones too. */
#define ROCO_RENDER_MEMORY ((size_t)512 << 20)

/* Init with {0}. */
typedef struct roco_rendering {
    roco_buffer text;    /* UTF-8 */
    roco_buffer foreign; /* for each byte of text: what it came in as with `globals`; 0: the template's own */
} roco_rendering;
void roco_rendering_free(roco_rendering *rendering);

/* `globals` are the names the template sees besides the built-in ones, in `region`, which also takes what the rendering
 * makes; `now` is what strftime_now tells. Errors: ROCO_INVALID (what raise_exception said, or what cannot be done with
 * these values, with the line), ROCO_TOO_LARGE (a limit), ROCO_NO_MEMORY. */
roco_status roco_template_render(const roco_template *template, const roco_dict *globals, roco_region *region,
                                 const roco_render_limits *limits, time_t now, roco_rendering *out, roco_error *error);

#endif
