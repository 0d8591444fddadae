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

/* VNNI for vectors of 256 bits without AVX-512. */
static bool has_avx_vnni(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & (1u << 4)) != 0;
}

/* __builtin_cpu_supports also asks whether the operating system saves the registers. */
static bool has_isa(roco_isa isa)
{
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    switch (isa) {
    case ROCO_ISA_PORTABLE: return true;
    case ROCO_ISA_AVX2: return avx2;
    case ROCO_ISA_AVX_VNNI: return avx2 && has_avx_vnni();
    default:
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vnni");
    }
}
#else
static bool has_isa(roco_isa isa)
{
    return isa == ROCO_ISA_PORTABLE;
}
#endif

static const struct {
    const char *name, *description;
} known[ROCO_N_ISAS] = {
    [ROCO_ISA_PORTABLE] = {"portable", "portable"},
    [ROCO_ISA_AVX2] = {"avx2", "avx2"},
    [ROCO_ISA_AVX_VNNI] = {"avxvnni", "avx-vnni"},
    [ROCO_ISA_AVX512] = {"avx512", "avx512-vnni"},
};

static roco_isa best_isa(void)
{
    roco_isa isa = ROCO_ISA_AVX512;
    while (!has_isa(isa))
        isa--;
    return isa;
}

const char *roco_isa_name(roco_isa isa)
{
    return known[isa].description;
}

roco_status roco_isa_choose(const char *name, roco_isa *out, roco_error *error)
{
    if (name == NULL || strcmp(name, "auto") == 0) {
        *out = best_isa();
        return ROCO_OK;
    }
    for (roco_isa isa = 0; isa < ROCO_N_ISAS; isa++) {
        if (strcmp(name, known[isa].name) != 0)
            continue;
        if (!has_isa(isa))
            return roco_fail(error, ROCO_UNSUPPORTED, "isa", "this machine has no %s; its best is %s", name,
                             known[best_isa()].name);
        *out = isa;
        return ROCO_OK;
    }
    return roco_fail(error, ROCO_UNSUPPORTED, "isa",
                     "unknown instruction set; auto, portable, avx2, avxvnni and avx512 are known");
}
