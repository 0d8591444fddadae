/* Any bytes as a chat template: it is refused or rendered within its limits, the text is UTF-8, and what came from
 * outside is marked in every byte.
 *
 * What comes from outside holds a character that no template of this fuzzer has: wherever its first byte shows up, it
 * must be foreign.
 */
#include "chat/template.h"
#include "config/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STRANGE "\xee\x84\xa3" /* U+E123, for private use */

static void put(roco_region *region, roco_dict *dict, const char *name, roco_value value)
{
    ROCO_CHECK(roco_dict_put_named(region, dict, name, value));
}

static roco_value string(roco_region *region, const char *text)
{
    roco_value value;
    ROCO_CHECK(roco_value_string(region, text, strlen(text), 1, &value));
    return value;
}

static roco_dict *make_globals(roco_region *region)
{
    roco_value globals, list, message;
    ROCO_CHECK(roco_value_dict(region, 0, &globals) && roco_value_list(region, 0, &list));
    for (int i = 0; i < 3; i++) {
        ROCO_CHECK(roco_value_dict(region, 0, &message));
        put(region, message.dict, "role", string(region, i == 1 ? "assistant" : "user"));
        put(region, message.dict, "content", string(region, STRANGE " a,b\n" STRANGE "\n<|x|>" STRANGE));
        ROCO_CHECK(roco_list_add(region, list.list, message));
    }
    put(region, globals.dict, "messages", list);
    put(region, globals.dict, "s", string(region, "x" STRANGE "y"));
    put(region, globals.dict, "d", message);
    put(region, globals.dict, "n", roco_int(3));
    put(region, globals.dict, "f", roco_float(2.5));
    put(region, globals.dict, "add_generation_prompt", roco_bool(true));
    return globals.dict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    roco_template *template = NULL;
    roco_error error = {0};
    if (roco_template_open((const char *)data, size, &template, &error) != ROCO_OK) {
        ROCO_CHECK(roco_utf8_valid(error.message, strlen(error.message)));
        return 0;
    }
    const roco_render_limits limits = {.steps = 20000, .depth = 100, .output_bytes = 1 << 16, .time_ns = 1000000000};
    roco_region region = {.limit = 16 << 20};
    roco_rendering out = {0};
    if (roco_template_render(template, make_globals(&region), &region, &limits, 0, &out, &error) != ROCO_OK)
        ROCO_CHECK(roco_utf8_valid(error.message, strlen(error.message)));
    ROCO_CHECK(out.text.size == out.foreign.size && out.text.size <= limits.output_bytes);
    ROCO_CHECK(roco_utf8_valid(out.text.data, out.text.size));
    bool made = memchr(data, 0xee, size) || memchr(data, '\\', size);
    for (size_t i = 0; !made && i < out.text.size; i++)
        ROCO_CHECK((unsigned char)out.text.data[i] != 0xee || out.foreign.data[i]);
    roco_rendering_free(&out);
    roco_region_free(&region);
    roco_template_close(template);
    return 0;
}
