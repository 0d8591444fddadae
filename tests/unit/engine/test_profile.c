/* Head profiles: how a budget is dealt, what a cache makes of it, files, and measuring on a tiny model. */
#include "engine/policies.h"
#include "engine/profile.h"
#include "support_gguf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* As with 64 components. */
static const uint32_t page_slots[ROCO_N_KV_TYPES] = {
    [ROCO_KV_F16] = 32, [ROCO_KV_F32] = 32, [ROCO_KV_Q8] = 56, [ROCO_KV_Q4] = 88};

static roco_head_room room_of(uint32_t n_heads, uint32_t budget, uint32_t length)
{
    roco_head_room room = {.n_heads = n_heads,
                           .n_needed = 6,
                           .n_wanted = 9,
                           .n_pages = n_heads * (budget / 32),
                           .length = length,
                           .budget = budget,
                           .guarded = 14,
                           .quantise = true};
    memcpy(room.slots, page_slots, sizeof room.slots);
    return room;
}

static uint32_t pages(uint32_t slots, roco_kv_type type)
{
    return (slots + page_slots[type] - 1) / page_slots[type];
}

static void check_shares(const roco_head_room *room)
{
    const roco_head_shares s = roco_head_shares_make(room);
    uint64_t n_pages = 0;
    if (!s.whole)
        return;
    for (uint32_t rank = 0; rank < room->n_heads; rank++) {
        const uint32_t share = roco_head_share(&s, rank);
        assert_true(share > room->guarded && share <= room->length);
        assert_true(rank == 0 || share <= roco_head_share(&s, rank - 1));
        n_pages += pages(share, rank < s.n_whole ? s.whole_type : s.low_type);
    }
    assert_true(s.n_whole == 0 || (s.n_whole >= room->n_needed && s.n_whole <= room->n_wanted));
    assert_true(s.n_whole > 0 || room->quantise);
    assert_true(room->quantise || (s.low_type == room->type && s.whole_type == room->type));
    assert_true(n_pages <= room->n_pages);
}

static void test_shares_never_take_more_than_there_is(void **state)
{
    uint64_t random = 7;
    for (uint32_t i = 0; i < 100000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t n_heads = 1 + (uint32_t)(random >> 33) % 300, budget = 32 + (uint32_t)(random >> 21) % 3000;
        roco_head_room room = room_of(n_heads, budget, budget + 1 + (uint32_t)(random >> 40) % 20000);
        room.n_needed = 1 + i % 7;
        room.n_wanted = room.n_needed + i % 3;
        room.guarded = (uint32_t)(random >> 50) % (i % 2 ? budget : 20);
        room.quantise = i % 4 > 0;
        room.type = i % 8 ? ROCO_KV_F16 : ROCO_KV_Q8;
        check_shares(&room);
    }
}

static void expect(roco_head_room room, uint32_t n_whole, roco_kv_type whole_type, uint32_t low, uint32_t n_more)
{
    const roco_head_shares s = roco_head_shares_make(&room);
    assert_int_equal(s.n_whole, n_whole);
    assert_int_equal(s.whole, room.length);
    assert_int_equal(s.whole_type, whole_type);
    assert_int_equal(s.low_type, room.quantise ? ROCO_KV_Q8 : room.type);
    assert_int_equal(s.low, low);
    assert_int_equal(s.n_more, n_more);
}

/* All that should be whole are, at 8 bits; then as many as leave half of the budget; then those at the edge of the
 * cliff, at 4 bits; then none. */
static void test_the_cliff(void **state)
{
    expect(room_of(90, 512, 4400), 9, ROCO_KV_Q8, 9 * 56, 0);  /* 1440 pages - 9 x 79 = 81 x 9 */
    expect(room_of(90, 512, 7400), 7, ROCO_KV_Q8, 6 * 56, 11); /* 8 would leave 224 */
    expect(room_of(90, 256, 4400), 6, ROCO_KV_Q4, 5 * 56, 0);  /* 720 - 6 x 50 = 84 x 5 */
    expect(room_of(90, 128, 4400), 0, ROCO_KV_Q8, 4 * 56, 0);
    expect(room_of(90, 512, 600), 9, ROCO_KV_Q8, 600, 45); /* all of it everywhere */
}

/* Where only the pool's own type can be had the others keep a quarter at the least. */
static void test_one_type_alone(void **state)
{
    roco_head_room room = room_of(90, 512, 4400);
    room.quantise = false;
    room.type = ROCO_KV_F32;
    expect(room, 6, ROCO_KV_F32, 7 * 32, 24);
    room.n_needed = 5;
    expect(room, 5, ROCO_KV_F32, 8 * 32, 70);
    room.length = 7400;
    assert_int_equal(roco_head_shares_make(&room).whole, 0);
    room = room_of(4, 128, 200);
    room.quantise = false;
    room.n_needed = room.n_wanted = 1;
    room.guarded = 110; /* no room beside the protected tokens */
    assert_int_equal(roco_head_shares_make(&room).whole, 0);
}

typedef struct fixture {
    char model_path[64], path[128];
    roco_source *gguf;
    roco_engine *engine;
} fixture;

static int open_fixture(void **state)
{
    static fixture f;
    f = (fixture){0};
    snprintf(f.model_path, sizeof f.model_path, "/tmp/roco-profile-%d.gguf", (int)getpid());
    snprintf(f.path, sizeof f.path, "/tmp/roco-profile-%d.json", (int)getpid());
    tiny_model model = tiny_model_default();
    tiny_model_save(&model, f.model_path);
    roco_error error = {0};
    assert_int_equal(roco_source_open(f.model_path, &f.gguf, &error), ROCO_OK);
    const roco_engine_config config = {.source = f.gguf,
                                       .backend = "cpu",
                                       .precision = "f32",
                                       .threads = 1,
                                       .kv_pool_tokens = 8192,
                                       .stride = 16,
                                       .step_tokens = 64};
    if (roco_engine_open(&config, &f.engine, &error))
        fail_msg("%s", error.message);
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    roco_engine_close(f->engine);
    roco_source_close(f->gguf);
    unlink(f->model_path);
    unlink(f->path);
    return 0;
}

static void test_caches_follow_the_profile(void **state)
{
    fixture *f = *state;
    const float scores[] = {0.1f, 0.7f, 0.1f, 0.2f}; /* 2 layers x 2 KV heads; equal scores rank by index */
    roco_error error;
    roco_cache_spec spec = {.policy = roco_policy_find("roco"), .budget = 64, .length = 130, .sink = 4, .recent = 10};
    const uint32_t uniform = roco_cache_pages(f->engine, &spec);
    assert_int_equal(roco_engine_use_profile(f->engine, scores, &error), ROCO_OK);
    assert_true(roco_engine_describe(f->engine)->has_profile);
    assert_true(roco_cache_pages(f->engine, &spec) <= uniform);
    uint32_t table[64];
    for (uint32_t i = 0; i < 64; i++)
        table[i] = i;
    roco_cache *cache = NULL;
    assert_int_equal(roco_cache_open(f->engine, &spec, table, &cache, &error), ROCO_OK);
    int32_t tokens[130] = {0}, positions[130];
    for (uint32_t at = 0; at < 130;) {
        roco_step_item item = {.cache = cache, .tokens = tokens, .n_tokens = at < 128 ? 64 : 1, .decode = at >= 128};
        assert_int_equal(roco_engine_step(f->engine, &item, 1, &error), ROCO_OK);
        at += item.n_tokens;
        roco_cache_check(f->engine, cache);
    }
    /* 8 pages for 4 x 64 slots: at q8, of which a page holds 48, three each make the best two heads whole */
    const uint32_t held[] = {48, 130, 48, 130};
    for (uint32_t head = 0; head < 4; head++)
        assert_int_equal(roco_cache_positions(f->engine, cache, head / 2, head % 2, positions), held[head]);
    roco_cache_usage usage;
    roco_cache_measure(cache, &usage);
    assert_true(usage.held <= 64);
    roco_cache_close(f->engine, cache);
    spec.uniform = true;
    assert_int_equal(roco_cache_open(f->engine, &spec, table, &cache, &error), ROCO_OK);
    assert_int_equal(roco_cache_pages(f->engine, &spec), uniform);
    roco_cache_close(f->engine, cache);
}

static void test_files(void **state)
{
    fixture *f = *state;
    const roco_engine_info *info = roco_engine_describe(f->engine);
    const float scores[] = {0.5f, 0.25f, 0, 1};
    float read[4];
    roco_error error;
    assert_int_equal(roco_profile_write(f->path, f->gguf, info, scores, &error), ROCO_OK);
    assert_int_equal(roco_profile_read(f->path, f->gguf, info, read, &error), ROCO_OK);
    assert_memory_equal(read, scores, sizeof read);
    assert_false(roco_profile_builtin(f->gguf, info, read));

    roco_engine_info other = *info;
    other.n_layers = 3;
    assert_int_equal(roco_profile_read(f->path, f->gguf, &other, read, &error), ROCO_FORMAT);
    assert_non_null(strstr(error.message, "3 x 2"));
    assert_int_equal(roco_profile_read("/tmp/roco-no-such-file", f->gguf, info, read, &error), ROCO_IO);
    assert_int_equal(roco_profile_write("/tmp/roco-no-such-folder/x", f->gguf, info, scores, &error), ROCO_IO);
}

static void rewrite(const fixture *f, const char *text)
{
    FILE *file = fopen(f->path, "w");
    fputs(text, file);
    fclose(file);
}

static void test_files_that_are_none(void **state)
{
    fixture *f = *state;
    const roco_engine_info *info = roco_engine_describe(f->engine);
    char head[128], text[512];
    snprintf(head, sizeof head, "{\"roco_head_profile\": 1, \"model\": \"%016llx\", \"layers\": 2, \"kv_heads\": 2",
             (unsigned long long)roco_source_fingerprint(f->gguf));
    static const char *const bad[] = {
        "",
        ", \"scores\": ",
        ", \"scores\": [[1, 2], [3]]}",
        ", \"scores\": [[1, 2], [3, 4], [5]]}",
        ", \"scores\": [[1, 2], [3, nan]]}",
        ", \"scores\": [[1, 2], [3, -1]]}",
        ", \"scores\": [[1, 2], [3, inf]]}",
    };
    float read[8];
    roco_error error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "%s%s", head, bad[i]);
        rewrite(f, text);
        assert_int_equal(roco_profile_read(f->path, f->gguf, info, read, &error), ROCO_FORMAT);
    }
    rewrite(f, "{\"roco_head_profile\": 1, \"model\": \"0123456789abcdef\", \"layers\": 2}");
    assert_int_equal(roco_profile_read(f->path, f->gguf, info, read, &error), ROCO_INVALID);
    rewrite(f, "");
    assert_int_equal(roco_profile_read(f->path, f->gguf, info, read, &error), ROCO_FORMAT);
    snprintf(text, sizeof text, "%s, \"scores\": [[1, 2], [3, 4]]}", head);
    rewrite(f, text);
    assert_int_equal(roco_profile_read(f->path, f->gguf, info, read, &error), ROCO_OK);
    assert_true(read[0] == 1 && read[3] == 4);
}

static void test_measuring(void **state)
{
    fixture *f = *state;
    int32_t ids[120];
    for (int32_t i = 0; i < 120; i++)
        ids[i] = (i * 37 + 5) % 256 + 3;
    float scores[4], again[4];
    roco_error error;
    assert_int_equal(roco_profile_part(f->engine), 170); /* a third of the context of 512 */
    assert_int_equal(roco_profile_measure(f->engine, ids, 70, 50, NULL, NULL, scores, &error), ROCO_OK);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(scores[i] > 0 && scores[i] < 1);
    assert_int_equal(roco_profile_measure(f->engine, ids, 70, 50, NULL, NULL, again, &error), ROCO_OK);
    assert_memory_equal(scores, again, sizeof scores);
    assert_int_equal(roco_profile_measure(f->engine, ids, 60, 60, NULL, NULL, again, &error), ROCO_OK);
    assert_int_equal(roco_profile_measure(f->engine, ids, 300, 0, NULL, NULL, again, &error), ROCO_TOO_LARGE);
}

static void find(fixture *f, const char *choice, roco_status expected, roco_profile_origin *origin)
{
    roco_tokenizer *tokenizer = NULL;
    roco_error error = {0};
    assert_int_equal(roco_tokenizer_open(f->gguf, &tokenizer, &error), ROCO_OK);
    assert_int_equal(roco_profile_find(f->engine, f->gguf, tokenizer, choice, NULL, NULL, origin, &error), expected);
    roco_tokenizer_close(tokenizer);
}

static void test_finding(void **state)
{
    fixture *f = *state;
    char folder[] = "/tmp/roco-cache-XXXXXX", kept[600], beside[128];
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_true(roco_profile_path(f->gguf, beside, sizeof beside));
    assert_false(roco_profile_path(f->gguf, beside, 8));
    assert_true(roco_profile_path(f->gguf, beside, sizeof beside));
    roco_profile_origin origin;

    find(f, "off", ROCO_OK, &origin);
    assert_false(origin.text[0] || roco_engine_describe(f->engine)->has_profile);
    find(f, "auto", ROCO_OK, &origin); /* measured, and kept */
    assert_true(strncmp(origin.text, "measured in ", 12) == 0 && roco_engine_describe(f->engine)->has_profile);
    snprintf(kept, sizeof kept, "%s", strstr(origin.text, folder));
    find(f, "auto", ROCO_OK, &origin);
    assert_string_equal(origin.text, kept);

    const float scores[] = {0.5f, 0.25f, 0, 1};
    roco_error error;
    assert_int_equal(roco_profile_write(beside, f->gguf, roco_engine_describe(f->engine), scores, &error), ROCO_OK);
    find(f, "auto", ROCO_OK, &origin); /* beside the model goes first */
    assert_string_equal(origin.text, beside);
    snprintf(f->path, sizeof f->path, "%s", beside); /* removed at the end */
    rewrite(f, "not a profile");
    find(f, "auto", ROCO_OK, &origin); /* passed over, with a warning */
    assert_string_equal(origin.text, kept);
    assert_non_null(strstr(origin.warning, beside));
    find(f, beside, ROCO_FORMAT, &origin); /* asked for: an error */
    find(f, kept, ROCO_OK, &origin);

    unlink(kept);
    setenv("XDG_CACHE_HOME", "/proc/no-such-folder", 1);
    find(f, "auto", ROCO_OK, &origin); /* works without a place to keep it */
    assert_non_null(strstr(origin.text, "could not be kept"));
    snprintf(kept, sizeof kept, "%s/roco", folder);
    assert_int_equal(rmdir(kept), 0); /* no half-written file is left */
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_never_take_more_than_there_is),
        cmocka_unit_test(test_one_type_alone),
        cmocka_unit_test(test_the_cliff),
        cmocka_unit_test_setup_teardown(test_caches_follow_the_profile, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_files, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_files_that_are_none, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_measuring, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_finding, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
