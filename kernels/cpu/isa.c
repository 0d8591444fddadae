/* What this machine can do, and which variant the operations use. Reads the processor; keeps nothing. */
#include "kernels/cpu/cpu.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Compilers differ in whether __builtin_cpu_supports knows this name. */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & (1u << 29)) != 0;
}

/* __builtin_cpu_supports also asks whether the operating system saves the registers. */
static roco_isa best_isa(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return ROCO_ISA_PORTABLE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"))
        return ROCO_ISA_AVX512;
    return ROCO_ISA_AVX2;
}
#else
static roco_isa best_isa(void)
{
    return ROCO_ISA_PORTABLE;
}
#endif

const char *roco_isa_name(roco_isa isa)
{
    static const char *const names[] = {"portable", "avx2", "avx512-vnni"};
    return names[isa];
}

roco_status roco_isa_choose(const char *name, roco_isa *out, roco_error *error)
{
    static const struct {
        const char *name;
        roco_isa isa;
    } known[] = {{"portable", ROCO_ISA_PORTABLE}, {"avx2", ROCO_ISA_AVX2}, {"avx512", ROCO_ISA_AVX512}};

    roco_isa best = best_isa();
    if (name == NULL || strcmp(name, "auto") == 0) {
        *out = best;
        return ROCO_OK;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(name, known[i].name) != 0)
            continue;
        if (known[i].isa > best)
            return roco_fail(error, ROCO_UNSUPPORTED, "isa", "this machine has no %s; its best is %s", known[i].name,
                             known[best].name);
        *out = known[i].isa;
        return ROCO_OK;
    }
    return roco_fail(error, ROCO_UNSUPPORTED, "isa",
                     "unknown instruction set; auto, portable, avx2 and avx512 are known");
}
