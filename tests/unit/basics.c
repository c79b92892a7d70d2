/* base: 16-bit floats, UTF-8, buffers, arenas, file maps, digests, environment. */
#include <math.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/env.h"
#include "base/fmap.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "testlib.h"

/* ---- num ---- */

/* The value by its definition, in double, where every 16-bit value is exact. */
static double half_value(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY)
               : e     ? ldexp(1 + m / 1024.0, e - 15)
                       : ldexp(m / 1024.0, -14);
    return h & 0x8000 ? -v : v;
}

static void every_half(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float x = gy_f16_f32(h);
        double v = half_value(h);
        if (isnan(v)) {
            if (!isnan(x) || !isnan(gy_f16_f32(gy_f32_f16(x))))
                fail_msg("f16 %04x: a NaN got lost", i);
        } else if ((double)x != v || !signbit(x) != !signbit(v) || gy_f32_f16(x) != h) {
            fail_msg("f16 %04x: %a, %a expected, back %04x", i, (double)x, v, gy_f32_f16(x));
        }
        float y = gy_bf16_f32(h);
        if (isnan(y)) {
            if (!isnan(gy_bf16_f32(gy_f32_bf16(y)))) fail_msg("bf16 %04x: a NaN got lost", i);
        } else if (gy_f32_bits(y) != i << 16 || gy_f32_bf16(y) != h) {
            fail_msg("bf16 %04x: back %04x", i, gy_f32_bf16(y));
        }
    }
}

/* Between neighbours a and b = next(a): values below the middle go to a, above to b, the middle to
 * the even one. */
static void rounding_of(uint16_t (*to)(float), float (*from)(uint16_t), uint32_t last,
                        const char *name) {
    for (uint32_t i = 0; i < last; i++) {
        uint16_t a = (uint16_t)i, b = (uint16_t)(i + 1);
        float x = from(a), y = from(b), mid = x + (y - x) / 2;
        if (mid == x || mid == y) continue; /* neighbours of f32 itself */
        uint16_t even = i & 1 ? b : a;
        if (to(mid) != even || to(nextafterf(mid, x)) != a || to(nextafterf(mid, y)) != b ||
            to(-mid) != (even | 0x8000))
            fail_msg("%s: wrong rounding between %04x and %04x", name, a, b);
    }
}

static void rounds_to_nearest_even(void **state) {
    (void)state;
    rounding_of(gy_f32_f16, gy_f16_f32, 0x7BFF, "f16");
    rounding_of(gy_f32_bf16, gy_bf16_f32, 0x7F7F, "bf16");
    assert_int_equal(gy_f32_f16(65519.996f), 0x7BFF);
    assert_int_equal(gy_f32_f16(65520.0f), 0x7C00);
    assert_int_equal(gy_f32_f16(-INFINITY), 0xFC00);
    assert_int_equal(gy_f32_f16(0x1p-25f), 0); /* half of the least subnormal: to even */
    assert_int_equal(gy_f32_f16(0x1.8p-25f), 1);
    assert_int_equal(gy_f32_bf16(3.4e38f), 0x7F80); /* past the largest bf16 */
}

/* ---- utf8, buf ---- */

static void every_code_point(void **state) {
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char s[4];
        uint32_t back;
        size_t n = gy_utf8_put(s, c);
        bool surrogate = c >= 0xD800 && c < 0xE000;
        if (gy_utf8_get(s, n, &back) != n || back != (surrogate ? 0xFFFD : c))
            fail_msg("U+%04X came back as U+%04X", c, back);
    }
}

static void buffers(void **state) {
    (void)state;
    gy_buf b = {.max = 10};
    gy_buf_puts(&b, "12345");
    gy_buf_printf(&b, "%d", 67890);
    assert_string_equal(b.p, "1234567890");
    gy_buf_c(&b, 'x');
    assert_true(b.over && b.n == 10);
    assert_null(gy_buf_take(&b, NULL));
    gy_buf_free(&b);
    size_t n;
    char *p = gy_buf_take(&b, &n); /* an empty buffer gives an empty string */
    assert_true(p && !n && !*p);
    gy_free(p);
    gy_alloc_fail_at(1);
    gy_buf_puts(&b, "x");
    gy_alloc_fail_at(0);
    gy_buf_puts(&b, "y");
    assert_true(b.oom && !b.n);
    gy_buf_free(&b);
}

static void arenas(void **state) {
    (void)state;
    gy_arena a = {0};
    for (size_t n = 0; n < 300; n++) {
        unsigned char *p = gy_arena_alloc(&a, n * n);
        assert_true(p && (uintptr_t)p % 16 == 0);
        for (size_t i = 0; i < n * n; i++) {
            if (p[i]) fail_msg("arena memory of %zu bytes is not zeroed", n * n);
        }
        memset(p, 0xAA, n * n);
    }
    assert_string_equal(gy_arena_printf(&a, "%0600d", 7) + 598, "07");
    assert_null(gy_arena_alloc(&a, SIZE_MAX - 8));
    gy_arena_free(&a);
    assert_null(a.block);
}

/* ---- files ---- */

static char *write_file(char path[64], const void *data, size_t n) {
    strcpy(path, "/tmp/gyre-basics-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    close(fd);
    return path;
}

static void maps_and_reads(void **state) {
    (void)state;
    char path[64], *text;
    size_t n;
    gy_fmap map;
    gy_err err = {0};
    write_file(path, "hello\0there", 11);
    assert_ok(gy_fmap_open(&map, path, &err), err);
    assert_true(map.bytes == 11 && !memcmp(map.data, "hello\0there", 11));
    gy_fmap_close(&map);
    assert_null(map.data);
    assert_ok(gy_file_read(path, 11, &text, &n, &err), err);
    assert_true(n == 11 && !memcmp(text, "hello\0there", 12));
    gy_free(text);
    assert_int_equal(gy_file_read(path, 10, &text, &n, &err), GY_ELIMIT);
    assert_non_null(strstr(err.msg, path));
    assert_null(text);
    for (long nth = 1; nth <= 1; nth++) {
        gy_alloc_fail_at(nth);
        assert_int_equal(gy_file_read(path, 11, &text, &n, NULL), GY_ENOMEM);
        gy_alloc_fail_at(0);
    }
    unlink(path);
    write_file(path, "", 0);
    err = (gy_err){0};
    assert_ok(gy_fmap_open(&map, path, &err), err);
    assert_int_equal(map.bytes, 0);
    gy_fmap_close(&map);
    assert_ok(gy_file_read(path, 0, &text, &n, &err), err);
    assert_true(!n && !*text);
    gy_free(text);
    unlink(path);
}

static void refuses_what_is_no_file(void **state) {
    (void)state;
    gy_fmap map;
    gy_err err = {0};
    char *text, fifo[64];
    assert_int_equal(gy_fmap_open(&map, "/nonexistent/file", &err), GY_EIO);
    assert_non_null(strstr(err.msg, "/nonexistent/file"));
    assert_int_equal(gy_fmap_open(&map, "/tmp", NULL), GY_EIO);
    snprintf(fifo, sizeof fifo, "/tmp/gyre-fifo-%d", (int)getpid());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(gy_fmap_open(&map, fifo, NULL), GY_EIO); /* and does not wait for a writer */
    assert_int_equal(gy_file_read(fifo, 10, &text, NULL, NULL), GY_EIO);
    unlink(fifo);
}

static void makes_parents(void **state) {
    (void)state;
    char root[64], path[128];
    gy_err err = {0};
    snprintf(root, sizeof root, "/tmp/gyre-parents-%d", (int)getpid());
    snprintf(path, sizeof path, "%s/a/b/file", root);
    for (int i = 0; i < 2; i++) assert_ok(gy_file_parents(path, &err), err);
    assert_int_equal(access(path, F_OK), -1);
    char *slash = strrchr(path, '/');
    *slash = 0;
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/a", root);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(root), 0);
    assert_int_equal(gy_file_parents("/dev/null/x/y", &err), GY_EIO);
    assert_non_null(strstr(err.msg, "/dev/null"));
    assert_int_equal(gy_file_parents("", NULL), GY_OK);
    assert_int_equal(gy_file_parents("name", NULL), GY_OK);
}

/* ---- hash ---- */

static void sha256_known(void **state) {
    (void)state;
    char hex[65];
    gy_sha256 *h = gy_sha256_new();
    gy_sha256_end(h, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    h = gy_sha256_new();
    gy_sha256_add(h, "a", 1), gy_sha256_add(h, "bc", 2);
    gy_sha256_end(h, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    gy_alloc_fail_at(1);
    assert_null(gy_sha256_new());
    gy_alloc_fail_at(0);
}

/* Every flipped bit, every length and the seed change the hash; low bits spread over a small table.
 */
static void hash64_spreads(void **state) {
    (void)state;
    unsigned char s[80] = {0};
    uint64_t seen[80], none = gy_hash64(s, 64, 1);
    int slot[256] = {0};
    assert_true(none != gy_hash64(s, 64, 2));
    for (int bit = 0; bit < 64 * 8; bit++) {
        s[bit / 8] ^= (unsigned char)(1 << bit % 8);
        uint64_t h = gy_hash64(s, 64, 1);
        if (h == none || (uint32_t)h == (uint32_t)none) fail_msg("bit %d does not count", bit);
        slot[h & 255]++;
        s[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (int i = 0; i < 256; i++) assert_true(slot[i] < 12); /* mean 2 */
    for (int n = 0; n < 80; n++) {
        seen[n] = gy_hash64(s, (size_t)n, 1);
        for (int k = 0; k < n; k++) assert_true(seen[k] != seen[n]);
    }
}

/* ---- env ---- */

static void expect_env(gy_env_name name, const char *expected) {
    char *v = gy_env(name);
    assert_non_null(v);
    if (strcmp(v, expected))
        fail_msg("variable %d is \"%s\", \"%s\" expected", (int)name, v, expected);
    gy_free(v);
}

static void environment(void **state) {
    (void)state;
    static const char *const all[] = {"GYRE_HOME",      "GYRE_CACHE",     "XDG_DATA_HOME",
                                      "XDG_CACHE_HOME", "HF_HOME",        "HF_HUB_CACHE",
                                      "HF_TOKEN",       "HF_ENDPOINT",    "HF_HUB_OFFLINE",
                                      "GYRE_THREADS",   "OMP_NUM_THREADS"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) unsetenv(all[i]);
    setenv("HOME", "/h", 1);
    expect_env(GY_ENV_HOME, "/h/.local/share/gyre");
    expect_env(GY_ENV_CACHE, "/h/.cache/gyre");
    expect_env(GY_ENV_HF_CACHE, "/h/.cache/huggingface/hub");
    expect_env(GY_ENV_HF_ENDPOINT, "https://huggingface.co");
    expect_env(GY_ENV_HF_TOKEN, "");
    expect_env(GY_ENV_HF_OFFLINE, "");
    setenv("XDG_DATA_HOME", "/d", 1), setenv("XDG_CACHE_HOME", "relative", 1);
    expect_env(GY_ENV_HOME, "/d/gyre");
    expect_env(GY_ENV_CACHE, "/h/.cache/gyre");
    setenv("GYRE_HOME", "", 1);
    expect_env(GY_ENV_HOME, "/d/gyre");
    setenv("GYRE_HOME", "/g", 1), setenv("HF_HUB_OFFLINE", "TRUE", 1),
        setenv("OMP_NUM_THREADS", "3", 1);
    expect_env(GY_ENV_HOME, "/g");
    expect_env(GY_ENV_HF_OFFLINE, "1");
    expect_env(GY_ENV_THREADS, "3");
    setenv("GYRE_THREADS", "5", 1);
    expect_env(GY_ENV_THREADS, "5");
    char dir[] = "/tmp/gyre-env-XXXXXX", token[64];
    assert_non_null(mkdtemp(dir));
    setenv("HF_HOME", dir, 1);
    snprintf(token, sizeof token, "%s/token", dir);
    FILE *f = fopen(token, "w");
    fputs("  hf_secret\n", f);
    fclose(f);
    expect_env(GY_ENV_HF_TOKEN, "hf_secret");
    setenv("HF_TOKEN", "direct", 1);
    expect_env(GY_ENV_HF_TOKEN, "direct");
    unlink(token), rmdir(dir);
    unsetenv("HOME"), unsetenv("HF_HOME"), unsetenv("XDG_CACHE_HOME"), unsetenv("HF_TOKEN");
    expect_env(GY_ENV_HF_CACHE, "");
    expect_env(GY_ENV_HF_TOKEN, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half),
        cmocka_unit_test(rounds_to_nearest_even),
        cmocka_unit_test(every_code_point),
        cmocka_unit_test(buffers),
        cmocka_unit_test(arenas),
        cmocka_unit_test(maps_and_reads),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(makes_parents),
        cmocka_unit_test(sha256_known),
        cmocka_unit_test(hash64_spreads),
        cmocka_unit_test(environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
