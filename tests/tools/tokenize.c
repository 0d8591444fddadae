/* tokenize MODEL.gguf [--pre NAME] [--special] [--bos]: texts in, ids out, for the Python tests.
 *
 * stdin: per text its size in bytes as a little-endian 32-bit number, then the text. stdout: per text one line, the
 * ids with spaces between, a tab, and the joined pieces in hexadecimal. stderr: "open_ms N", the time the tokenizer
 * took to open.
 */
#include "config/clock.h"
#include "engine/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const roco_error *error)
{
    fprintf(stderr, "tokenize: %s: %s\n", error->field, error->message);
    return 1;
}

static void print_line(const roco_tokenizer *tokenizer, const roco_ids *ids)
{
    for (size_t i = 0; i < ids->size; i++) {
        printf("%s%d", i ? " " : "", ids->data[i]);
    }
    putchar('\t');
    for (size_t i = 0; i < ids->size; i++) {
        roco_text piece = roco_tokenizer_piece(tokenizer, ids->data[i], true);
        for (size_t k = 0; k < piece.size; k++) {
            printf("%02x", (unsigned char)piece.data[k]);
        }
    }
    putchar('\n');
}

/* One text from stdin; false at the end. *text grows as needed. */
static bool read_text(char **text, size_t *size)
{
    unsigned char head[4];
    if (fread(head, 1, sizeof head, stdin) != sizeof head) {
        return false;
    }
    *size = (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
    char *grown = realloc(*text, *size + 1);
    if (!grown) {
        return false;
    }
    *text = grown;
    return fread(grown, 1, *size, stdin) == *size;
}

static int run(const roco_tokenizer *tokenizer, unsigned flags)
{
    char *text = NULL;
    size_t size;
    roco_ids ids = {0};
    roco_error error = {0};
    int result = 0;
    while (result == 0 && read_text(&text, &size)) {
        ids.size = 0;
        if (roco_tokenizer_encode(tokenizer, text, size, flags, 0, &ids, &error)) {
            result = fail(&error);
        } else {
            print_line(tokenizer, &ids);
        }
    }
    roco_ids_free(&ids);
    free(text);
    return result;
}

int main(int argc, char **argv)
{
    const char *pre = NULL;
    unsigned flags = ROCO_ENCODE_PLAIN;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--pre") == 0 && i + 1 < argc) {
            pre = argv[++i];
        } else if (strcmp(argv[i], "--special") == 0) {
            flags |= ROCO_ENCODE_SPECIAL;
        } else if (strcmp(argv[i], "--bos") == 0) {
            flags |= ROCO_ENCODE_ADD_BOS;
        } else {
            argc = 0;
        }
    }
    if (argc < 2) {
        fputs("usage: tokenize MODEL.gguf [--pre NAME] [--special] [--bos] < texts\n", stderr);
        return 2;
    }
    roco_error error = {0};
    roco_source *gguf = NULL;
    if (roco_source_open(argv[1], &gguf, &error)) {
        return fail(&error);
    }
    roco_tokenizer *tokenizer = NULL;
    uint64_t start = roco_now_ns();
    roco_status status = roco_tokenizer_open_as(gguf, pre, &tokenizer, &error);
    fprintf(stderr, "open_ms %.1f\n", (double)(roco_now_ns() - start) / 1e6);
    roco_source_close(gguf);
    int result = status ? fail(&error) : run(tokenizer, flags);
    roco_tokenizer_close(tokenizer);
    return result;
}
