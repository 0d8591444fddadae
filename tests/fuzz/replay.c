/* Runs a fuzzer's entry over a packed corpus, so that every input that was ever worth keeping is tried with each build:
 * replay_<what> FILE.corpus. The file: for each input its size, 32 bits little endian, then its bytes (corpus.py).
 */
#include "config/status.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    uint32_t size;
    unsigned n = 0;
    if (!file) {
        fprintf(stderr, "usage: %s FILE.corpus\n", argv[0]);
        return 2;
    }
    while (fread(&size, sizeof size, 1, file) == 1) {
        uint8_t *data = malloc(size ? size : 1); /* its own block, so that a sanitizer sees where it ends */
        ROCO_CHECK(data && fread(data, 1, size, file) == size);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
        n++;
    }
    fclose(file);
    printf("%u inputs\n", n);
    return n > 0 ? 0 : 1;
}
