/* What the command line does with an answer's text: which part is reasoning, how wide a character
 * is on a terminal. */
#include "base/buf.h"
#include "cli/think.h"
#include "cli/width.h"
#include "testlib.h"

/* Runs as "a" for the answer and "r" for reasoning, one letter a byte, and the bytes themselves. */
typedef struct {
    gy_buf kind, text;
    int runs_left; /* fn says stop after so many; < 0: never */
} seen;

static bool note(void *arg, const char *s, size_t n, bool reasoning) {
    seen *o = arg;
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++) gy_buf_c(&o->kind, reasoning ? 'r' : 'a');
    gy_buf_add(&o->text, s, n);
    return o->runs_left < 0 || o->runs_left-- > 0;
}

static void drop(seen *o) {
    gy_buf_free(&o->kind), gy_buf_free(&o->text);
}

static const struct {
    const char *prompt, *text, *kind;
} cases[] = {
    {"", "plain", "aaaaa"},
    {"", "a<think>b</think>c", "arrrrrrrrrrrrrrrra"},
    {"", "<think>b", "rrrrrrrr"},
    {"<think>\n", "b</think>c", "rrrrrrrrra"},
    {"<think>x</think>", "b<c", "aaa"},
    {"<think>x</think><think>", "b", "r"},
    {"", "<thin>a</think>b", "aaaaaaaaaaaaaaaa"},
    {"", "<<think>x", "arrrrrrrr"},
    {"", "<thi<think>x", "aaaarrrrrrrr"},
    {"", "[THINK]x[/THINK]y", "rrrrrrrrrrrrrrrra"},
    {"", "[THINK]x</think>y", "rrrrrrrrrrrrrrrrr"}, /* another kind's closer does not close */
    {"", "[a[[1]<b>", "aaaaaaaaa"},
    {"", "<seed:think>x</seed:think>y", "rrrrrrrrrrrrrrrrrrrrrrrrrra"},
    {"", "a<think", "aaaaaaa"}, /* never became a mark */
};

/* Pieces of every size from one byte up, and random cuts, give the same bytes and kinds. */
static void test_cuts(void **state) {
    (void)state;
    uint64_t rng = test_seed();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t n = strlen(cases[c].text);
        for (size_t size = 1; size <= n + 20; size++) {
            cli_think t;
            seen o = {.runs_left = -1};
            cli_think_start(&t, cases[c].prompt, strlen(cases[c].prompt));
            for (size_t at = 0, step; at < n; at += step) {
                step = size <= n ? size : 1 + test_rand(&rng) % 5;
                if (step > n - at) step = n - at;
                assert_true(cli_think_push(&t, cases[c].text + at, step, note, &o));
            }
            assert_true(cli_think_end(&t, note, &o));
            if (strcmp(o.text.p, cases[c].text) || strcmp(o.kind.p, cases[c].kind))
                fail_msg("case %zu, pieces of %zu: '%s' is %s, expected %s", c, size, o.text.p,
                         o.kind.p, cases[c].kind);
            drop(&o);
        }
    }
}

static void test_stop(void **state) {
    (void)state;
    cli_think t;
    seen o = {.runs_left = 1};
    cli_think_start(&t, "", 0);
    assert_false(cli_think_push(&t, "a<think>b", 9, note, &o));
    assert_string_equal(o.text.p, "a<think>");
    drop(&o);
}

static void test_cells(void **state) {
    (void)state;
    static const struct {
        const char *s;
        size_t n, bytes;
        const char *cell;
        int wide;
    } table[] = {
        {"ab", 2, 1, "a", 1},
        {"\t", 1, 1, "    ", 4},
        {"\x1b[", 2, 1, "^[", 2},
        {"\x7f", 1, 1, "^?", 2},
        {"\xC3\xA4x", 3, 2, "\xC3\xA4", 1},
        {"\xE4\xB8\x96", 3, 3, "\xE4\xB8\x96", 2},         /* a Han character */
        {"\xCC\x81", 2, 2, "\xCC\x81", 0},                 /* combining acute */
        {"\xF0\x9F\x98\x80", 4, 4, "\xF0\x9F\x98\x80", 2}, /* a face */
        {"\xE4\xB8", 2, 2, "?", 1},                        /* cut short */
        {"\x80z", 2, 1, "?", 1},
        {"\xF0(", 2, 1, "?", 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char cell[8];
        int wide;
        size_t bytes = cli_cell(table[i].s, table[i].n, cell, &wide);
        if (bytes != table[i].bytes || wide != table[i].wide || strcmp(cell, table[i].cell))
            fail_msg("case %zu: %zu bytes, %d cells, '%s'", i, bytes, wide, cell);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
