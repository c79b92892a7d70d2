/* cpu/isa_neon - the kernels for arm64 with the dot products of ARMv8.2. */
#ifdef __aarch64__
#include <sys/auxv.h>

#include "cpu/cpu.h"
#include "cpu/lanes.h"

#include "cpu/math.inc"
#include "cpu/row.inc"

#include "cpu/kvdec.inc"

#include "cpu/attn.inc"
#include "cpu/linear.inc"
#include "cpu/scan.inc"

enum { CAN_DOT = 1 << 20 }; /* HWCAP_ASIMDDP */

static bool usable(void) {
    return getauxval(AT_HWCAP) & CAN_DOT;
}

const gy_isa_table gy_isa_neon = {
    .name = "neon",
    .usable = usable,
    .lin = GY_ISA_LINEAR_INIT,
    .row = GY_ISA_ROWS_INIT,
    .scan = GY_ISA_SCAN_INIT,
};
#endif
