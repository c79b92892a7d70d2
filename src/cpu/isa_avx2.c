/* cpu/isa_avx2 - the kernels for x86-64 with AVX2, FMA and F16C. */
#include "cpu/cpu.h"
#include "cpu/lanes.h"
#include "cpu/linear.inc"

static bool usable(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

const gy_isa_table gy_isa_avx2 = {
    .name = "avx2",
    .usable = usable,
    .lin = GY_ISA_LINEAR_INIT,
};
