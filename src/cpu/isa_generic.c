/* cpu/isa_generic - the kernels in plain C. */
#include "cpu/cpu.h"
#include "cpu/lanes.h"

#include "cpu/math.inc"
#include "cpu/row.inc"

#include "cpu/kvdec.inc"

#include "cpu/attn.inc"
#include "cpu/linear.inc"
#include "cpu/scan.inc"

static bool usable(void) {
    return true;
}

const gy_isa_table gy_isa_generic = {
    .name = "generic",
    .usable = usable,
    .lin = GY_ISA_LINEAR_INIT,
    .row = GY_ISA_ROWS_INIT,
    .scan = GY_ISA_SCAN_INIT,
};
