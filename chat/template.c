/* Opening and rendering: where reading and running fail to. */
#include "chat/template.h"

#include "chat/run.h"
#include "config/clock.h"
#include "config/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a syntax tree: some 40 times its longest source. */
enum { MAX_TREE_BYTES = 64 << 20, STEPS_BETWEEN_LOOKS = 4096 };

struct roco_template {
    roco_region region;
    const roco_node *body;
};

/* --- failing --- */

/* Error texts go into JSON and logs: one line, whole characters. */
static void clean(char *text)
{
    size_t size = strlen(text);
    text[roco_utf8_complete_prefix(text, size)] = '\0';
    for (char *c = text; *c;) {
        size_t step = roco_utf8_next(c, strlen(c), NULL);
        if (step == 0)
            *c = '?';
        else if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
        c += step ? step : 1;
    }
}

void roco_run_fail(roco_run *run, roco_status status, const char *format, ...)
{
    char words[340];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    clean(words);
    run->region->status = roco_fail(run->error, status, NULL, "chat template, line %u: %s", run->line, words);
    longjmp(*run->region->escape, 1);
}

void roco_run_charge(roco_run *run, uint64_t steps)
{
    uint64_t before = run->steps;
    run->steps += steps;
    if (run->steps > run->max_steps)
        roco_run_fail(run, ROCO_TOO_LARGE, "more than %llu steps", (unsigned long long)run->max_steps);
    if (before / STEPS_BETWEEN_LOOKS != run->steps / STEPS_BETWEEN_LOOKS && roco_thread_ns() > run->deadline_ns)
        roco_run_fail(run, ROCO_TOO_LARGE, "it takes too long");
}

void roco_run_down(roco_run *run)
{
    if (run->depth == 0)
        roco_run_fail(run, ROCO_TOO_LARGE, "too many levels inside each other");
    run->depth--;
}

/* --- opening --- */

/* Apart from its caller, whose variables must not change between setjmp and longjmp. */
static roco_status parse(roco_template *template, const char *source, size_t size, roco_error *error)
{
    jmp_buf escape;
    roco_source reading = {source, size, &template->region, error};
    template->region.escape = &escape;
    if (setjmp(escape) == 0)
        template->body = roco_parse(&reading);
    template->region.escape = NULL;
    return template->region.status;
}

roco_status roco_template_open(const char *source, size_t size, roco_template **out, roco_error *error)
{
    if (size > ROCO_TEMPLATE_MAX_BYTES)
        return roco_fail(error, ROCO_TOO_LARGE, NULL, "the template has %zu bytes; allowed are %u", size,
                         ROCO_TEMPLATE_MAX_BYTES);
    if (!roco_utf8_valid(source, size))
        return roco_fail(error, ROCO_FORMAT, NULL, "the template is not UTF-8");
    roco_template *template = calloc(1, sizeof *template);
    if (!template)
        return roco_fail(error, ROCO_NO_MEMORY, NULL, "out of memory");
    roco_error words = {0};
    template->region.limit = MAX_TREE_BYTES;
    roco_status status = parse(template, source, size, &words);
    if (status) {
        roco_template_close(template);
        clean(words.message);
        return roco_fail(error, status, NULL, "%s", words.message[0] ? words.message : roco_status_text(status));
    }
    *out = template;
    return ROCO_OK;
}

void roco_template_close(roco_template *template)
{
    if (!template)
        return;
    roco_region_free(&template->region);
    free(template);
}

/* --- rendering --- */

static void run_body(roco_run *run, const roco_node *body)
{
    jmp_buf escape;
    run->region->escape = &escape;
    if (setjmp(escape) == 0)
        roco_execute(run, body);
    run->region->escape = NULL;
}

static roco_status copy_out(const roco_builder *builder, roco_rendering *out)
{
    size_t size = builder->size;
    if (roco_buffer_append(&out->text, builder->data, size) || roco_buffer_reserve(&out->foreign, size))
        return ROCO_NO_MEMORY;
    if (builder->marks)
        memcpy(out->foreign.data, builder->marks, size);
    else
        memset(out->foreign.data, builder->foreign, size);
    out->foreign.size = size;
    return ROCO_OK;
}

roco_status roco_template_render(const roco_template *template, const roco_dict *globals, roco_region *region,
                                 const roco_render_limits *limits, time_t now, roco_rendering *out, roco_error *error)
{
    roco_error words = {0};
    roco_builder builder = {0};
    roco_scope scope = {0};
    roco_run run = {
        .region = region,
        .error = &words,
        .globals = globals,
        .now = now,
        .max_steps = limits->steps,
        .deadline_ns = roco_thread_ns() + limits->time_ns,
        .depth = limits->depth,
        .max_output = limits->output_bytes,
        .scope = &scope,
        .out = &builder,
    };
    region->status = ROCO_OK;
    run_body(&run, template->body);
    roco_status status = region->status ? region->status : copy_out(&builder, out);
    if (!status)
        return ROCO_OK;
    if (!words.message[0])
        roco_fail(&words, status, NULL, "chat template, line %u: %s", run.line,
                  status == ROCO_TOO_LARGE ? "it takes too much memory" : roco_status_text(status));
    return roco_fail(error, status, NULL, "%s", words.message);
}

void roco_rendering_free(roco_rendering *rendering)
{
    roco_buffer_free(&rendering->text);
    roco_buffer_free(&rendering->foreign);
}
