/* The AVX2 or NEON form of the check of lanes.c; -2: compiled with neither. */
#include "unit/lanes_u3.h"

int lanes_wide_u3(void);
int lanes_wide_u3(void) {
#if defined GY_LANES_AVX2 || defined GY_LANES_NEON
    return u3_at_edges();
#else
    return u3_at_edges() ? -3 : -2;
#endif
}
