/* The AVX2 form of the check of lanes.c; -2: compiled without AVX2. */
#include "unit/lanes_u3.h"

int lanes_avx2_u3(void);
int lanes_avx2_u3(void) {
#ifdef GY_LANES_AVX2
    return u3_at_edges();
#else
    return -2;
#endif
}
