#include "base/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

/* A run is the fields fn, arg, items and the counter left, which falls from items.
 *
 * A thread takes an item by lowering left. Whoever finds it above 0 holds an item of the run that
 * is live, and the caller cannot leave that run before the item is counted in done: so fn, arg and
 * items are read only then, and are plain. A worker that wakes late finds left at 0 or below, or
 * takes part in whatever run is live by then; nobody waits for it. left sinks below 0 by at most
 * one a thread, and the next run sets it anew.
 *
 *     caller   fn arg items, done = 0, left = items (release), epoch++, wake | take items | wait
 * for done == items worker   wait for epoch | take items | done += taken (release), wake the caller
 * if that was the last
 *
 * Every word that many threads write has its own cache line. */
struct gy_pool {
    gy_pool_fn fn;
    void *arg;
    int items, threads;
    long spin_ns;
    pthread_t *thread; /* [threads - 1] */
    _Alignas(64) _Atomic int32_t left;
    _Alignas(64) _Atomic uint32_t done;
    _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t epoch; /* counts runs; the futex on which workers sleep */
    _Atomic uint32_t sleepers, quit;
};

typedef struct {
    gy_pool *pool;
    int worker;
} start_arg;

/* Long enough for the serial gap between two operators of a step, short enough not to heat an idle
 * machine. With more threads than cores a spinning thread takes the core from one that has work. */
enum { SPIN_NS = 40000, SPIN_CROWDED_NS = 1000 };

static void futex_wait(_Atomic uint32_t *word, uint32_t while_value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int threads) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Spins while *word is value. True if it changed in time. On a busy machine the thread that is
 * waited for may be queued on this very core, so after the first microsecond each round offers it.
 */
static bool spin_while(_Atomic uint32_t *word, uint32_t value, long spin_ns) {
    int64_t end = 0;
    for (;;) {
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
            relax();
        }
        int64_t now = now_ns();
        if (!end)
            end = now + spin_ns;
        else if (now >= end)
            return false;
        else
            sched_yield();
    }
}

/* Takes and runs items until none is left; returns how many. */
static uint32_t take_items(gy_pool *p, int worker) {
    for (uint32_t taken = 0;; taken++) {
        int32_t left = atomic_fetch_sub_explicit(&p->left, 1, memory_order_acq_rel);
        if (left <= 0) return taken;
        p->fn(p->arg, p->items - left, worker);
    }
}

static void *work(void *start) {
    gy_pool *p = ((start_arg *)start)->pool;
    int worker = ((start_arg *)start)->worker;
    char name[16];
    gy_free(start);
    snprintf(name, sizeof name, "gyre-%d", worker);
    pthread_setname_np(pthread_self(), name);
    while (!atomic_load(&p->quit)) {
        uint32_t seen = atomic_load(&p->epoch);
        uint32_t taken = take_items(p, worker);
        if (taken) {
            uint32_t items =
                (uint32_t)p->items; /* read while the run is held open by what is not yet counted */
            uint32_t done = atomic_fetch_add(&p->done, taken) + taken;
            if (done == items && atomic_load(&p->caller_sleeps)) futex_wake(&p->done, 1);
        }
        if (spin_while(&p->epoch, seen, p->spin_ns)) continue;
        /* sleepers is raised before the kernel compares epoch; gy_pool_run raises epoch before it
         * reads sleepers. */
        atomic_fetch_add(&p->sleepers, 1);
        while (atomic_load(&p->epoch) == seen) futex_wait(&p->epoch, seen);
        atomic_fetch_sub(&p->sleepers, 1);
    }
    return NULL;
}

void gy_pool_run(gy_pool *p, int items, gy_pool_fn fn, void *arg) {
    if (items <= 1 || p->threads == 1) {
        for (int i = 0; i < items; i++) fn(arg, i, 0);
        return;
    }
    p->fn = fn, p->arg = arg, p->items = items;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    atomic_store_explicit(&p->left, items, memory_order_release);
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers)) futex_wake(&p->epoch, items - 1);

    uint32_t done = take_items(p, 0);
    done += atomic_fetch_add(&p->done, done);
    while (done != (uint32_t)items) {
        if (!spin_while(&p->done, done, p->spin_ns)) {
            atomic_store(&p->caller_sleeps, 1);
            futex_wait(&p->done, done);
            atomic_store(&p->caller_sleeps, 0);
        }
        done = atomic_load(&p->done);
    }
}

static int cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                                  : CPU_COUNT(&set);
}

/* Workers take no signals: handlers run on the program's own threads. */
static int start_workers(gy_pool *p) {
    sigset_t all, old;
    int failed = 0, started = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (!failed && started < p->threads - 1) {
        start_arg *start = gy_alloc(sizeof *start);
        if (!start) {
            failed = ENOMEM;
            break;
        }
        *start = (start_arg){p, started + 1};
        failed = pthread_create(&p->thread[started], NULL, work, start);
        if (failed)
            gy_free(start);
        else
            started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) p->threads = started + 1;
    return failed;
}

gy_rc gy_pool_new(int threads, gy_pool **pool, gy_err *err) {
    *pool = NULL;
    if (threads < 1 || threads > 4096)
        return gy_fail(err, GY_EARG, "%d threads asked for, 1 to 4096 expected", threads);
    gy_pool *p = gy_alloc_aligned(sizeof *p);
    pthread_t *thread = gy_alloc_n((size_t)threads, sizeof *thread);
    if (!p || !thread) {
        gy_free(p), gy_free(thread);
        return gy_fail(err, GY_ENOMEM, "out of memory for %d threads", threads);
    }
    p->threads = threads, p->thread = thread;
    p->spin_ns = threads > cores() ? SPIN_CROWDED_NS : SPIN_NS;
    int failed = start_workers(p);
    if (failed) {
        gy_pool_free(p);
        return gy_fail(err, failed == ENOMEM ? GY_ENOMEM : GY_ELIMIT, "cannot start %d threads: %s",
                       threads, strerror(failed));
    }
    *pool = p;
    return GY_OK;
}

void gy_pool_free(gy_pool *p) {
    if (!p) return;
    atomic_store(&p->quit, 1);
    atomic_fetch_add(&p->epoch, 1);
    futex_wake(&p->epoch, INT_MAX);
    for (int i = 0; i < p->threads - 1; i++) pthread_join(p->thread[i], NULL);
    gy_free(p->thread);
    gy_free(p);
}

int gy_pool_threads(const gy_pool *p) {
    return p->threads;
}
