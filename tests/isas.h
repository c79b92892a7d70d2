/* The instruction sets that this processor may have, the plain C one first; WIDE and
 * WIDEST name the next one and the last, also for tests that build no table. */
#ifndef GY_TEST_ISAS_H
#define GY_TEST_ISAS_H

#include "cpu/cpu.h"

static const gy_isa_table *const isas[] = {
    &gy_isa_generic,
#if defined __x86_64__
    &gy_isa_avx2,
    &gy_isa_avx512,
#elif defined __aarch64__
    &gy_isa_neon,
#endif
};
#if defined __aarch64__
#define WIDE   "neon"
#define WIDEST "neon"
#else
#define WIDE   "avx2"
#define WIDEST "avx512"
#endif
enum { ISAS = sizeof isas / sizeof *isas };

#endif
