/* roof - what this machine reaches at best, by loops that do nothing else (gyre_measure.h).
 *
 * Each figure is the best of several rounds, for a round in which another program ran tells about
 * that program. Peaks use twelve independent accumulators: more than latency times throughput of
 * the CPUs at hand. */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pool.h"
#include "gyre_measure.h"

#ifdef __linux__
#include <sys/mman.h>
#endif
#if defined __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { TURNS = 1 << 17, ACCS = 12, PIECE = 1 << 20 };

#define ROUNDS_SECONDS 0.15 /* for each figure */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A register loop; returns what it computed, so that it is computed. */
typedef struct {
    uint64_t (*run)(float seed);
    int lanes; /* multiply-adds of one accumulator and turn */
} loop;

#if defined __x86_64__
/* Makes the compiler believe that x changes, or it would move the product out of the loop. */
#define CHANGES(x) __asm__ volatile("" : "+x"(x))
#define ALL(X)     X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define ACC(n)     c##n = {0},
#define OPAQUE(n)  CHANGES(c##n); /* equal ones would become one */
#define SUM(n)     out.v = c##n, sum += out.u[0];
#define LOOP(name, isa, type, start, STEP)                                                         \
    __attribute__((target(isa))) static uint64_t name(float seed) {                                \
        type a = start, b = a, ALL(ACC) none = {0};                                                \
        union {                                                                                    \
            type v;                                                                                \
            uint64_t u[sizeof(type) / 8];                                                          \
        } out = {.v = none};                                                                       \
        uint64_t sum = out.u[0];                                                                   \
        ALL(OPAQUE)                                                                                \
        for (int i = 0; i < TURNS; i++) {                                                          \
            CHANGES(a);                                                                            \
            ALL(STEP)                                                                              \
        }                                                                                          \
        ALL(SUM)                                                                                   \
        return sum;                                                                                \
    }
#define FMA512(n) c##n = _mm512_fmadd_ps(a, b, c##n);
#define FMA256(n) c##n = _mm256_fmadd_ps(a, b, c##n);
#define DOT512(n) c##n = _mm512_dpbusd_epi32(c##n, a, b);
#define DOT256(n) c##n = _mm256_dpbusd_avx_epi32(c##n, a, b);
#define MADD256(n)                                                                                 \
    CHANGES(a);                                                                                    \
    c##n = _mm256_add_epi32(c##n,                                                                  \
                            _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
LOOP(f32_avx512, "avx512f", __m512, _mm512_set1_ps(seed), FMA512)
LOOP(f32_avx2, "avx2,fma", __m256, _mm256_set1_ps(seed), FMA256)
LOOP(int8_avx512, "avx512f,avx512vnni", __m512i, _mm512_set1_epi32((int)seed), DOT512)
LOOP(int8_vnni, "avx2,avxvnni", __m256i, _mm256_set1_epi32((int)seed), DOT256)
LOOP(int8_avx2, "avx2", __m256i, _mm256_set1_epi32((int)seed), MADD256)

/* CPUID leaf 7, subleaf 1, EAX bit 4; __builtin_cpu_supports of gcc 12 and clang 14 differ here. */
static bool has_avxvnni(void) {
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a >> 4 & 1);
}
#endif

/* Four accumulators of four: what a compiler makes of it on any machine. */
static uint64_t f32_plain(float seed) {
    float c[16] = {0};
    for (int i = 0; i < TURNS; i++)
        for (int k = 0; k < 16; k++) c[k] = c[k] * seed + seed;
    uint64_t sum = 0;
    for (int k = 0; k < 16; k++) sum += c[k] > 0;
    return sum;
}

static loop best_f32(void) {
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f")) return (loop){f32_avx512, ACCS * 16};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (loop){f32_avx2, ACCS * 8};
#endif
    return (loop){f32_plain, 16};
}

static loop best_int8(void) {
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512vnni")) return (loop){int8_avx512, ACCS * 64};
    if (has_avxvnni()) return (loop){int8_vnni, ACCS * 32};
    if (__builtin_cpu_supports("avx2")) return (loop){int8_avx2, ACCS * 32};
#endif
    return (loop){NULL, 0};
}

/* ---- Rounds ---- */

typedef struct {
    loop loop;
    const uint64_t *at; /* [pieces * PIECE / 8] */
    _Atomic uint64_t sink;
} job;

static void loop_item(void *arg, int item, int worker) {
    job *j = arg;
    (void)worker;
    atomic_fetch_add(&j->sink, j->loop.run(1 + 1e-9f * (float)item));
}

/* One stream a thread: with four the CPUs at hand read little more than half as fast. */
static void read_item(void *arg, int item, int worker) {
    job *j = arg;
    const uint64_t *p = j->at + (size_t)item * (PIECE / 8);
    uint64_t sum[32] = {0};
    (void)worker;
    for (int i = 0; i < PIECE / 8; i += 32)
        for (int k = 0; k < 32; k++) sum[k] += p[i + k];
    for (int k = 1; k < 32; k++) sum[0] += sum[k];
    atomic_fetch_add(&j->sink, sum[0]);
}

/* Items a second, at best. */
static double best_rate(gy_pool *pool, int items, gy_pool_fn fn, job *j) {
    double best = 0;
    for (double begin = now(), start = begin; start < begin + ROUNDS_SECONDS;) {
        start = now();
        gy_pool_run(pool, items, fn, j);
        double rate = items / (now() - start);
        if (rate > best) best = rate;
    }
    return best;
}

static double peak(gy_pool *pool, loop l) {
    job j = {.loop = l};
    if (!l.run) return 0;
    /* Several items a thread, so that one which starts late leaves its share to the others. */
    return best_rate(pool, 8 * gy_pool_threads(pool), loop_item, &j) * TURNS * l.lanes * 2;
}

static size_t buffer_bytes(void) {
    long cache = -1;
    size_t n = (size_t)256 << 20, most = (size_t)1 << 30;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    if (cache > 0 && (size_t)cache < most / 4 && 4 * (size_t)cache > n) n = 4 * (size_t)cache;
    if (cache > 0 && (size_t)cache >= most / 4) n = most;
    return n / PIECE * PIECE;
}

gy_rc gy_measure_roof(int threads, gy_roof *roof, gy_err *err) {
    gy_pool *pool = NULL;
    if (err) *err = (gy_err){0};
    if (threads < 1 || threads > 1024)
        return gy_fail(err, GY_EARG, "roof: %d threads, expected 1 to 1024", threads);
    size_t n = buffer_bytes(), huge = (size_t)2 << 20;
    char *memory = gy_alloc_aligned(n + huge);
    if (!memory) return gy_fail(err, GY_ENOMEM, "roof: no buffer of %zu bytes", n);
    char *at = memory + (huge - (uintptr_t)memory % huge) % huge;
#ifdef MADV_HUGEPAGE
    madvise(at, n, MADV_HUGEPAGE); /* a wish: without it the figure is that of small pages */
#endif
    memset(at, 1, n); /* pages that nobody wrote are all the same one */
    gy_rc rc = gy_pool_new(threads, &pool, err);
    if (!rc) {
        job j = {.at = (const uint64_t *)(const void *)at};
        roof->f32_ops = peak(pool, best_f32());
        roof->int8_ops = peak(pool, best_int8());
        roof->read_bytes = best_rate(pool, (int)(n / PIECE), read_item, &j) * PIECE;
    }
    gy_pool_free(pool);
    gy_free(memory);
    return rc;
}
