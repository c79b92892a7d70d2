/* lanes: vectors of codes are read without a byte beside their row, in both forms. */
#include "testlib.h"

#include "cpu/cpu.h"
#include "unit/lanes_u3.h"

int lanes_avx2_u3(void);

static void test_plain(void **state) {
    (void)state;
    assert_int_equal(u3_at_edges(), 0);
}

static void test_avx2(void **state) {
    (void)state;
    gy_err err = {0};
    if (!gy_isa_find("avx2", &err)) skip();
    assert_int_equal(lanes_avx2_u3(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain), cmocka_unit_test(test_avx2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
