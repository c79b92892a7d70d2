#include "gyre.h"

const char *gy_version(void) {
    return GY_VERSION;
}

/* D9: bumped by any commit that changes a bit of any result. */
int gy_bits(void) {
    return 1;
}
