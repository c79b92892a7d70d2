/* Tests: the right side of "is". */
#include <math.h>

#include "base/utf8.h"
#include "text/jinja.h"
#include "text/unicode.h"

#define TEST(name, expr)                                                                           \
    static gy_jv name(gy_jx *x, gy_jv v, gy_jv *a, const gy_jargs *raw) {                          \
        (void)x, (void)a, (void)raw;                                                               \
        return gy_jv_bool(expr);                                                                   \
    }

static bool is_mod(gy_jx *x, gy_jv v, gy_jv by, int64_t want) {
    return gy_jx_eq(x, gy_jx_binary(x, JO_MOD, v, by), gy_jv_int(want));
}

static bool ordered(gy_jx *x, gy_jv a, gy_jv b, gy_jop op) {
    int c = gy_jx_cmp(x, a, b, op);
    return c != 2 && (op == JO_LT ? c < 0 : op == JO_LE ? c <= 0 : op == JO_GT ? c > 0 : c >= 0);
}

static bool is_sequence(gy_jv v) {
    return v.t == JX_UNDEF || v.t == JX_STR || v.t == JX_LIST || v.t == JX_TUPLE ||
           v.t == JX_DICT || v.t == JX_RANGE;
}

static bool is_callable(gy_jv v) {
    return v.t == JX_UNDEF || v.t == JX_MACRO || v.t == JX_FUNC || v.t == JX_METHOD ||
           v.t == JX_LOOP || v.t == JX_JOINER;
}

/* Python's identity, as far as values here have one. */
static bool same(gy_jx *x, gy_jv a, gy_jv b) {
    if (a.t != b.t) return false;
    if (a.t == JX_STR || a.t == JX_NONE || gy_jv_is_num(a)) return gy_jx_eq(x, a, b);
    return a.t == JX_UNDEF ? a.s == b.s : a.l == b.l;
}

/* str.islower and isupper: one cased character at least, none of the other case. */
static bool all_case(gy_jx *x, gy_jv v, bool lower) {
    gy_jv s = gy_jx_soft(x, v);
    bool any = false;
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        i += gy_utf8_get(s.s + i, s.n - i, &cp);
        gy_uc_cat c = gy_uc_category(cp);
        if (c == GY_UC_LT || c == (lower ? GY_UC_LU : GY_UC_LL)) return false;
        any |= c == (lower ? GY_UC_LL : GY_UC_LU);
    }
    return any;
}

TEST(t_boolean, v.t == JX_BOOL)
TEST(t_callable, is_callable(v))
TEST(t_defined, v.t != JX_UNDEF)
TEST(t_undefined, v.t == JX_UNDEF)
TEST(t_divisibleby, is_mod(x, v, a[0], 0))
TEST(t_even, is_mod(x, v, gy_jv_int(2), 0))
TEST(t_odd, is_mod(x, v, gy_jv_int(2), 1))
TEST(t_eq, gy_jx_eq(x, v, a[0]))
TEST(t_ne, !gy_jx_eq(x, v, a[0]))
TEST(t_lt, ordered(x, v, a[0], JO_LT))
TEST(t_le, ordered(x, v, a[0], JO_LE))
TEST(t_gt, ordered(x, v, a[0], JO_GT))
TEST(t_ge, ordered(x, v, a[0], JO_GE))
TEST(t_escaped, v.t == JX_STR && v.mark)
TEST(t_false, v.t == JX_BOOL && !v.i)
TEST(t_true, v.t == JX_BOOL && v.i)
TEST(t_filter, v.t == JX_STR && gy_jx_filter(v.s, v.n))
TEST(t_test, v.t == JX_STR && gy_jx_test(v.s, v.n))
TEST(t_float, v.t == JX_FLOAT)
TEST(t_in, gy_jx_contains(x, a[0], v))
TEST(t_integer, v.t == JX_INT || v.t == JX_BIG)
TEST(t_iterable, is_sequence(v) || v.t == JX_VIEW || v.t == JX_ITER || v.t == JX_LOOP)
TEST(t_lower, all_case(x, v, true))
TEST(t_upper, all_case(x, v, false))
TEST(t_mapping, v.t == JX_DICT)
TEST(t_none, v.t == JX_NONE)
TEST(t_number, gy_jv_is_num(v))
TEST(t_sameas, same(x, v, a[0]))
TEST(t_sequence, is_sequence(v))
TEST(t_string, v.t == JX_STR)

static const gy_jfn tests[] = {
    {"!=", t_ne, "other", 1, 0},
    {"<", t_lt, "other", 1, 0},
    {"<=", t_le, "other", 1, 0},
    {"==", t_eq, "other", 1, 0},
    {">", t_gt, "other", 1, 0},
    {">=", t_ge, "other", 1, 0},
    {"boolean", t_boolean, "", 0, 0},
    {"callable", t_callable, "", 0, 0},
    {"defined", t_defined, "", 0, 0},
    {"divisibleby", t_divisibleby, "num", 1, 0},
    {"eq", t_eq, "other", 1, 0},
    {"equalto", t_eq, "other", 1, 0},
    {"escaped", t_escaped, "", 0, 0},
    {"even", t_even, "", 0, 0},
    {"false", t_false, "", 0, 0},
    {"filter", t_filter, "", 0, 0},
    {"float", t_float, "", 0, 0},
    {"ge", t_ge, "other", 1, 0},
    {"greaterthan", t_gt, "other", 1, 0},
    {"gt", t_gt, "other", 1, 0},
    {"in", t_in, "seq", 1, 0},
    {"integer", t_integer, "", 0, 0},
    {"iterable", t_iterable, "", 0, 0},
    {"le", t_le, "other", 1, 0},
    {"lessthan", t_lt, "other", 1, 0},
    {"lower", t_lower, "", 0, 0},
    {"lt", t_lt, "other", 1, 0},
    {"mapping", t_mapping, "", 0, 0},
    {"ne", t_ne, "other", 1, 0},
    {"none", t_none, "", 0, 0},
    {"number", t_number, "", 0, 0},
    {"odd", t_odd, "", 0, 0},
    {"sameas", t_sameas, "other", 1, 0},
    {"sequence", t_sequence, "", 0, 0},
    {"string", t_string, "", 0, 0},
    {"test", t_test, "", 0, 0},
    {"true", t_true, "", 0, 0},
    {"undefined", t_undefined, "", 0, 0},
    {"upper", t_upper, "", 0, 0},
};

const gy_jfn *gy_jx_test(const char *name, size_t n) {
    return gy_jx_find(tests, sizeof tests / sizeof *tests, name, n);
}
