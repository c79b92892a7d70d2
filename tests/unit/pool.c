/* base/pool: every item once, whatever the number of threads; also the input of the tsan preset. */
#include "base/pool.h"

#include "base/mem.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "testlib.h"

typedef struct {
    int *plain; /* [items] written without atomics: the pool must order them before run returns */
    atomic_int inside; /* items being worked on */
    int threads, most_worker;
    atomic_int bad_worker;
    int base;
} job;

static void put(void *arg, int item, int worker) {
    job *j = arg;
    if (worker < 0 || worker >= j->threads) atomic_fetch_add(&j->bad_worker, 1);
    j->plain[item] += j->base + item;
}

static void every_item_once(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 3, 8}, items[] = {0, 1, 2, 3, 7, 64, 1000};
    int plain[1000];
    for (int t = 0; t < 4; t++) {
        gy_pool *pool;
        gy_err err = {0};
        assert_ok(gy_pool_new(threads[t], &pool, &err), err);
        assert_int_equal(gy_pool_threads(pool), threads[t]);
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < 7; i++) {
                job j = {.plain = plain, .threads = threads[t], .base = round};
                memset(plain, 0, sizeof plain);
                gy_pool_run(pool, items[i], put, &j);
                for (int k = 0; k < 1000; k++) {
                    int expected = k < items[i] ? round + k : 0;
                    if (plain[k] != expected)
                        fail_msg("%d threads, %d items: item %d gave %d, %d expected", threads[t],
                                 items[i], k, plain[k], expected);
                }
                assert_int_equal(atomic_load(&j.bad_worker), 0);
            }
        }
        gy_pool_free(pool);
    }
}

/* Runs whose result feeds the next one, with pauses in which workers fall asleep or nearly do. */
static void runs_follow_each_other(void **state) {
    (void)state;
    enum { N = 37 };
    gy_pool *pool;
    gy_err err = {0};
    assert_ok(gy_pool_new(4, &pool, &err), err);
    int plain[N] = {0}, expected[N] = {0};
    for (int run = 0; run < 600; run++) {
        int n = run % N + 1;
        job j = {.plain = plain, .threads = 4, .base = run};
        gy_pool_run(pool, n, put, &j);
        for (int i = 0; i < n; i++) expected[i] += run + i;
        assert_memory_equal(plain, expected, sizeof plain);
        long pause = run % 10 == 0 ? 200000 : run % 10 == 1 ? 38000 : run % 10 == 2 ? 42000 : 0;
        if (pause) nanosleep(&(struct timespec){0, pause}, NULL);
    }
    gy_pool_free(pool);
}

/* The per-worker scratch rule: two items never run at once with the same worker number. */
static void claim(void *arg, int item, int worker) {
    atomic_int *busy = arg;
    (void)item;
    if (atomic_fetch_add(&busy[worker], 1)) atomic_store(&busy[8], 1);
    for (int i = 0; i < 50; i++) atomic_load(&busy[worker]);
    atomic_fetch_sub(&busy[worker], 1);
}

static void worker_numbers_are_exclusive(void **state) {
    (void)state;
    gy_pool *pool;
    gy_err err = {0};
    atomic_int busy[9] = {0};
    assert_ok(gy_pool_new(8, &pool, &err), err);
    for (int run = 0; run < 100; run++) gy_pool_run(pool, 64, claim, busy);
    assert_int_equal(atomic_load(&busy[8]), 0);
    gy_pool_free(pool);
}

/* As many items as threads, each of which ends when all have begun: every thread has to take one,
 * asleep before or not. A pool that leaves a thread out runs into the time limit. */
typedef struct {
    atomic_int begun, late;
    int items;
} meeting;

static void meet(void *arg, int item, int worker) {
    meeting *m = arg;
    struct timespec a, b;
    (void)item, (void)worker;
    atomic_fetch_add(&m->begun, 1);
    clock_gettime(CLOCK_MONOTONIC, &a);
    while (atomic_load(&m->begun) < m->items && !atomic_load(&m->late)) {
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &b);
        if (b.tv_sec - a.tv_sec > 20) atomic_store(&m->late, 1);
    }
}

static void every_thread_takes_part(void **state) {
    (void)state;
    static const int threads[] = {2, 3, 8};
    for (int t = 0; t < 3; t++) {
        gy_pool *pool;
        gy_err err = {0};
        assert_ok(gy_pool_new(threads[t], &pool, &err), err);
        for (int run = 0; run < 30; run++) {
            meeting m = {.items = threads[t]};
            if (run % 3 == 0)
                nanosleep(&(struct timespec){0, 1000000}, NULL); /* all workers sleep */
            gy_pool_run(pool, threads[t], meet, &m);
            if (atomic_load(&m.late))
                fail_msg("%d threads, run %d: a thread stayed away", threads[t], run);
        }
        gy_pool_free(pool);
    }
}

static void bad_arguments(void **state) {
    (void)state;
    gy_pool *pool;
    assert_int_equal(gy_pool_new(0, &pool, NULL), GY_EARG);
    assert_null(pool);
    assert_int_equal(gy_pool_new(-1, &pool, NULL), GY_EARG);
    assert_int_equal(gy_pool_new(1 << 30, &pool, NULL), GY_EARG);
    gy_pool_free(NULL);
}

static void allocation_failures(void **state) {
    (void)state;
    int failed = 0;
    for (long nth = 1;; nth++, failed++) {
        gy_pool *pool;
        gy_alloc_fail_at(nth);
        gy_rc rc = gy_pool_new(3, &pool, NULL);
        gy_alloc_fail_at(0);
        if (!rc) {
            gy_pool_free(pool);
            break;
        }
        assert_int_equal(rc, GY_ENOMEM);
        assert_null(pool);
    }
    assert_true(failed >= 4);
}

static void nothing(void *arg, int item, int worker) {
    (void)arg, (void)item, (void)worker;
}

/* Not a limit, a record: what one empty run costs. */
static void cost_of_a_run(void **state) {
    (void)state;
    gy_pool *pool;
    gy_err err = {0};
    int threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    assert_ok(gy_pool_new(threads > 1 ? threads : 2, &pool, &err), err);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 2000; i++) gy_pool_run(pool, 16, nothing, NULL);
    clock_gettime(CLOCK_MONOTONIC, &b);
    double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 2000;
    printf("%d threads, 16 empty items: %.0f ns a run\n", gy_pool_threads(pool), ns);
    gy_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),
        cmocka_unit_test(runs_follow_each_other),
        cmocka_unit_test(worker_numbers_are_exclusive),
        cmocka_unit_test(every_thread_takes_part),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(allocation_failures),
        cmocka_unit_test(cost_of_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
