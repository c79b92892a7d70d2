/* testlib - what every test needs: cmocka, where oracle data lies, counted skips, seeds.
 *
 * Oracle data is read from the folder named by GYRE_SHARED, else by the build (../shared). A test
 * that needs it and does not find it skips those cases with a counted notice; cases in tests/data
 * run always. */
#ifndef GY_TESTLIB_H
#define GY_TESTLIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gyre.h"

#define GY_TEST_PATHS 8

/* Path of rel inside the shared folder; one of a few rotating buffers. */
static inline const char *shared_path(const char *rel) {
    static char path[GY_TEST_PATHS][1024];
    static int turn;
    const char *root = getenv("GYRE_SHARED");
    char *p = path[turn++ % GY_TEST_PATHS];
    snprintf(p, sizeof path[0], "%s/%s", root && *root ? root : GY_SHARED_DATA, rel);
    return p;
}

/* Path of rel inside tests/data. */
static inline const char *data_path(const char *rel) {
    static char path[GY_TEST_PATHS][1024];
    static int turn;
    char *p = path[turn++ % GY_TEST_PATHS];
    snprintf(p, sizeof path[0], "%s/%s", GY_TEST_DATA, rel);
    return p;
}

static inline bool have_shared(const char *rel) {
    return access(shared_path(rel), R_OK) == 0;
}

/* Prints the notice and skips the running test. */
#define SKIP_WITHOUT_SHARED(rel)                                                                   \
    do {                                                                                           \
        if (!have_shared(rel)) {                                                                   \
            printf("notice: skipped, needs %s (set GYRE_SHARED)\n", shared_path(rel));             \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        gy_rc rc_ = (call);                                                                        \
        if (rc_) fail_msg("%s: %s: %s", #call, gy_rc_name(rc_), (err).msg);                        \
    } while (0)

/* A small generator for random tests; the seed is printed and taken back from SEED. */
static inline uint64_t test_seed(void) {
    const char *s = getenv("SEED");
    uint64_t seed = s && *s ? strtoull(s, NULL, 0) : 20261130;
    printf("SEED=%llu\n", (unsigned long long)seed);
    return seed;
}
static inline uint32_t test_rand(uint64_t *state) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    uint32_t x = (uint32_t)(*state >> 33) ^ (uint32_t)(*state >> 53);
    return x * 2654435761u;
}
static inline float test_uniform(uint64_t *state) {
    return (float)(test_rand(state) >> 8) * 0x1p-23f - 1.0f;
} /* [-1, 1) */

#endif
