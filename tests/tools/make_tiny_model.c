/* Writes a tiny seeded llama model: make_tiny_model FILE [NAME=VALUE]...
 *
 * Names: layers heads kv-heads head-dim value-dim width ffn vocab context seed type tied rope-freqs. What is not given
 * is as in tiny_model_default.
 */
#include "support_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_type(const char *name, roco_tensor_type *out)
{
    for (uint32_t type = 0; type < 64; type++) {
        const roco_type_traits *traits = roco_type_find(type);
        if (traits && strcmp(traits->name, name) == 0) {
            *out = traits->type;
            return true;
        }
    }
    return false;
}

static bool apply(tiny_model *m, const char *name, size_t n, const char *text)
{
    const struct {
        const char *name;
        uint32_t *value;
    } counts[] = {
        {"layers", &m->n_layers}, {"heads", &m->n_heads},     {"kv-heads", &m->n_kv_heads},
        {"ffn", &m->ffn},         {"head-dim", &m->head_dim}, {"value-dim", &m->value_dim},
        {"width", &m->width},     {"vocab", &m->n_vocab},     {"context", &m->context},
    };
    if (n == 4 && strncmp(name, "type", n) == 0)
        return parse_type(text, &m->type);
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text == '\0' || *end != '\0')
        return false;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (strlen(counts[i].name) == n && strncmp(name, counts[i].name, n) == 0) {
            *counts[i].value = (uint32_t)value;
            return true;
        }
    }
    if (n == 4 && strncmp(name, "seed", n) == 0)
        m->seed = value;
    else if (n == 4 && strncmp(name, "tied", n) == 0)
        m->tied = value != 0;
    else if (n == 10 && strncmp(name, "rope-freqs", n) == 0)
        m->rope_freqs = value != 0;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    tiny_model model = tiny_model_default();
    if (argc < 2) {
        fprintf(stderr, "usage: make_tiny_model FILE [NAME=VALUE]...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (!equals || !apply(&model, argv[i], (size_t)(equals - argv[i]), equals + 1)) {
            fprintf(stderr, "make_tiny_model: not understood: %s\n", argv[i]);
            return 2;
        }
    }
    tiny_model_save(&model, argv[1]);
    return 0;
}
