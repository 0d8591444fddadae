/* Templates and conversations whose text Python's jinja2 has made (tests/golden/make_chat_templates.py).
 *
 *     unit_chat_test_golden [FOLDER]    FOLDER: another one with families.txt and its templates
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chat/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NOW = 1773039902 }; /* 2026-03-09 07:05:02 UTC, as in the script */

static const char *folder = ROCO_SOURCE_DIR "/tests/golden/chat";

typedef struct reader {
    char *data;
    size_t size, at;
} reader;

static reader read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("no file %s", path);
    reader r = {0};
    fseek(file, 0, SEEK_END);
    r.size = (size_t)ftell(file);
    rewind(file);
    r.data = malloc(r.size + 1);
    assert_int_equal(fread(r.data, 1, r.size, file), r.size);
    r.data[r.size] = '\0';
    fclose(file);
    return r;
}

static size_t read_count(reader *r)
{
    char *end;
    size_t count = strtoul(r->data + r->at, &end, 10);
    r->at = (size_t)(end - r->data) + 1; /* and the ':' or line end after it */
    return count;
}

static roco_value read_value(reader *r, roco_region *region)
{
    roco_value value = roco_none();
    char *end;
    switch (r->data[r->at++]) {
    case 'n': return value;
    case 't': return roco_bool(true);
    case 'f': return roco_bool(false);
    case 'i': value = roco_int(strtoll(r->data + r->at, &end, 10)); break;
    case 'd': value = roco_float(strtod(r->data + r->at, &end)); break;
    case 's': {
        size_t size = read_count(r);
        assert_true(roco_value_string(region, r->data + r->at, size, true, &value));
        r->at += size;
        return value;
    }
    case 'l': {
        size_t count = read_count(r);
        assert_true(roco_value_list(region, count, &value));
        while (count--)
            assert_true(roco_list_add(region, value.list, read_value(r, region)));
        return value;
    }
    case 'm': {
        size_t count = read_count(r);
        assert_true(roco_value_dict(region, count, &value));
        while (count--) {
            roco_value key = read_value(r, region), item = read_value(r, region);
            assert_true(roco_dict_put(region, value.dict, key, item));
        }
        return value;
    }
    default: fail_msg("no value at byte %zu", r->at - 1); return value;
    }
    r->at = (size_t)(end - r->data) + 1;
    return value;
}

static bool take(reader *r, const char *word)
{
    size_t size = strlen(word);
    if (r->size - r->at < size || memcmp(r->data + r->at, word, size) != 0)
        return false;
    r->at += size;
    return true;
}

static void open_template(reader *r, char *name, size_t name_size, roco_template **out)
{
    roco_error error = {0};
    reader source = {0};
    roco_template_close(*out);
    *out = NULL;
    if (take(r, "template ")) {
        size_t size = strcspn(r->data + r->at, "\n");
        char path[512];
        snprintf(name, name_size, "%.*s", (int)size, r->data + r->at);
        r->at += size + 1;
        snprintf(path, sizeof path, "%s/%s.jinja", folder, name);
        source = read_file(path);
        if (roco_template_open(source.data, source.size, out, &error))
            print_error("%s: %s\n", name, error.message);
        free(source.data);
        return;
    }
    assert_true(take(r, "inline "));
    size_t size = read_count(r);
    snprintf(name, name_size, "%.*s", size < 150 ? (int)size : 150, r->data + r->at);
    if (roco_template_open(r->data + r->at, size, out, &error))
        *out = NULL; /* an error, then, in all cases */
    r->at += size + 1;
}

/* True when the case comes out as it should. */
static bool run_case(reader *r, const char *name, const roco_template *template, int number)
{
    roco_region region = {.limit = ROCO_RENDER_MEMORY};
    roco_rendering out = {0};
    roco_error error = {0};
    roco_value globals = read_value(r, &region);
    r->at++;
    roco_status status = ROCO_FORMAT;
    if (template)
        status = roco_template_render(template, globals.dict, &region, &ROCO_RENDER_LIMITS, NOW, &out, &error);
    bool same;
    if (take(r, "error\n")) {
        same = status != ROCO_OK;
        if (!same)
            print_error("%s, case %d: not refused: %s\n", name, number, out.text.data ? out.text.data : "");
    } else {
        assert_true(take(r, "text "));
        size_t size = read_count(r);
        same = status == ROCO_OK && out.text.size == size &&
               (size == 0 || memcmp(out.text.data, r->data + r->at, size) == 0);
        if (!same)
            print_error("%s, case %d: %s\n--- wanted\n%.*s\n--- got\n%s\n---\n", name, number, error.message, (int)size,
                        r->data + r->at, out.text.data ? out.text.data : "");
        assert_true(out.foreign.size == out.text.size);
        r->at += size + 1;
    }
    roco_rendering_free(&out);
    roco_region_free(&region);
    return same;
}

static void compare(const char *file)
{
    char path[512], name[256] = "";
    snprintf(path, sizeof path, "%s/%s", folder, file);
    reader r = read_file(path);
    roco_template *template = NULL;
    int number = 0, n_cases = 0, n_wrong = 0;
    while (r.at < r.size) {
        if (take(&r, "case ")) {
            n_cases++;
            n_wrong += !run_case(&r, name, template, number++);
            continue;
        }
        open_template(&r, name, sizeof name, &template);
        number = 0;
    }
    roco_template_close(template);
    free(r.data);
    if (n_wrong)
        fail_msg("%d of %d cases differ", n_wrong, n_cases);
    assert_true(n_cases > 0);
}

static void test_features(void **state)
{
    compare("features.txt");
}

static void test_families(void **state)
{
    compare("families.txt");
}

int main(int argc, char **argv)
{
    setenv("TZ", "UTC", 1);
    tzset();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families), cmocka_unit_test(test_features)};
    if (argc > 1) {
        folder = argv[1];
        return _cmocka_run_group_tests("golden", tests, 1, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
