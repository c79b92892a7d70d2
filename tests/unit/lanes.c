/* lanes: vectors of codes are read without a byte beside their row, in both forms. */
#include "testlib.h"

#include "isas.h"
#include "unit/lanes_u3.h"

int lanes_wide_u3(void);

static void test_plain(void **state) {
    (void)state;
    assert_int_equal(u3_at_edges(), 0);
}

/* The first set after the generic one is AVX2 or NEON. */
static void test_wide(void **state) {
    (void)state;
    if (ISAS < 2 || !isas[ISAS > 1]->usable()) skip();
    assert_int_equal(lanes_wide_u3(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain), cmocka_unit_test(test_wide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
