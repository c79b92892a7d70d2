/* cpu/isa_avx512 - the kernels for x86-64 with AVX-512 F, BW, VL, DQ and VNNI: the AVX2 bodies
 * compiled for it, but for the products of linear_avx512_*.inc. */
#ifdef __x86_64__
#include <cpuid.h>

#include "cpu/cpu.h"
#include "cpu/lanes.h"
#define GY_LANES_AVX512 1 /* sixteen lanes where a body has them */

#include "cpu/math.inc"
#include "cpu/row.inc"

#include "cpu/kvdec.inc"

#include "cpu/attn.inc"
#include "cpu/linear.inc"
#include "cpu/scan.inc"

/* The builtin knows whether the system saves the registers; clang 14's does not know F16C. */
static bool usable(void) {
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

const gy_isa_table gy_isa_avx512 = {
    .name = "avx512",
    .usable = usable,
    .lin = GY_ISA_LINEAR_INIT,
    .row = GY_ISA_ROWS_INIT,
    .scan = GY_ISA_SCAN_INIT,
};
#endif
