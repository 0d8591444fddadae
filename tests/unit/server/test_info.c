/* `roco info`: what it prints, and its exit codes. */
#include "server/info.h"

#include "support_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/roco-info-XXXXXX";

typedef struct answer {
    int code;
    char out[8192], err[1024];
} answer;

static void read_text(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    out[fread(out, 1, size - 1, file)] = '\0';
    fclose(file);
    unlink(path);
}

/* Points a stream at a file and returns what it pointed at. */
static int redirect(FILE *stream, const char *path)
{
    fflush(stream);
    int before = dup(fileno(stream));
    FILE *file = fopen(path, "w");
    assert_true(before >= 0 && file);
    assert_true(dup2(fileno(file), fileno(stream)) >= 0);
    fclose(file);
    return before;
}

static void restore(FILE *stream, int before)
{
    fflush(stream);
    assert_true(dup2(before, fileno(stream)) >= 0);
    close(before);
}

static answer ask(int argc, char **argv)
{
    answer a;
    char out[64], err[64], *environment[] = {NULL};
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(err, sizeof err, "%s/err", folder);
    int out_before = redirect(stdout, out), err_before = redirect(stderr, err);
    a.code = roco_info(argc, argv, environment);
    restore(stdout, out_before);
    restore(stderr, err_before);
    read_text(out, a.out, sizeof a.out);
    read_text(err, a.err, sizeof a.err);
    return a;
}

static void assert_says(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("'%s' is not in:\n%s", words, text);
}

static void save_tiny(char path[64], const char *omit)
{
    tiny_model model = tiny_model_default();
    gguf_writer w;
    snprintf(path, 64, "%s/tiny.gguf", folder);
    gguf_writer_init(&w);
    w.omit = omit;
    tiny_model_write(&model, &w);
    gguf_writer_save(&w, path);
    gguf_writer_free(&w);
}

/* 2 layers x 2 KV heads of 16: a page is 32 x (16 + 16) x 2 bytes of K and V and 3 x 128 of slot state. */
static void a_model_is_described_with_what_fits(void **state)
{
    char path[64];
    save_tiny(path, NULL);
    char *argv[] = {path, "--kv-pool-tokens", "2048", "--kv-budget", "300"};
    answer a = ask(5, argv);
    assert_int_equal(a.code, 0);
    assert_string_equal(a.err, "");
    assert_says(a.out, "21 keys, 20 tensors");
    assert_says(a.out, "tokenizer.ggml.tokens                   [string x 320]");
    assert_says(a.out, "F32          20           82240    321.2 KiB  32.00");
    assert_says(a.out, "heads         4 query, 2 KV of 16 (key) and 16 (value)");
    assert_says(a.out, "page          2432 bytes: 32 tokens");
    assert_says(a.out, "full context  512 tokens x 4 KV heads: 64 pages");
    assert_says(a.out, "pool          256 pages, 608.0 KiB: 2048 tokens");
    assert_says(a.out, "     128        16     38.0 KiB        16\n");
    assert_says(a.out, "     300        40     95.0 KiB         6  --kv-budget\n");
    assert_says(a.out, "     512        64    152.0 KiB         4  the whole context");
    a = ask(3, (char *[]){path, "--kv-pool-share", "0.5"});
    assert_says(a.out, "pool          0.5 of the memory that is free when the server starts");
    assert_says(a.out, "     128        16     38.0 KiB         -\n");
    a = ask(3, (char *[]){path, "--kv-pool-share", "2"});
    assert_int_equal(a.code, 1);
    assert_says(a.err, "kv-pool-share is '2' (0, or 0.01 to 0.98)");
    unlink(path);
}

static void a_file_roco_cannot_serve_is_described_and_refused(void **state)
{
    char path[64];
    save_tiny(path, "llama.block_count");
    answer a = ask(1, (char *[]){path});
    assert_int_equal(a.code, 1);
    assert_says(a.out, "general.architecture");
    assert_says(a.err, "roco info: ");
    assert_says(a.err, "llama.block_count");
    save_tiny(path, "general.architecture");
    a = ask(1, (char *[]){path});
    assert_int_equal(a.code, 1);
    assert_says(a.err, "general.architecture");
    unlink(path);
}

static void what_cannot_be_read_and_wrong_options_differ_in_code(void **state)
{
    answer a = ask(1, (char *[]){folder});
    assert_int_equal(a.code, 1);
    assert_says(a.err, "is a directory");
    assert_string_equal(a.out, "");
    a = ask(0, (char *[]){NULL});
    assert_int_equal(a.code, 2);
    a = ask(2, (char *[]){folder, "--no-such-option"});
    assert_int_equal(a.code, 2);
    assert_says(a.err, "--no-such-option");
    a = ask(1, (char *[]){"--help"});
    assert_int_equal(a.code, 0);
    assert_says(a.out, "--kv-budget");
}

static int make_folder(void **state)
{
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_described_with_what_fits),
        cmocka_unit_test(a_file_roco_cannot_serve_is_described_and_refused),
        cmocka_unit_test(what_cannot_be_read_and_wrong_options_differ_in_code),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
