/* snap_store: a folder of page files. What is written is found by every reader of the same
 * identity and by no other; damaged files go to the quarantine; the cap and the order of use hold;
 * strangers' files are left alone; processes may share a folder and die at any moment. */
#include "testlib.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kv/snap_store.h"
#include "snap_fault.h"

enum { BYTES = 5000, PAGES = 12 };
static char dir[64];
static const int64_t no_cap = (int64_t)1 << 40;

typedef struct {
    gy_identity id;
    gy_digest name[PAGES + 1]; /* name[0]: the root */
    int32_t tok[PAGES][GY_PAGE];
    uint8_t data[PAGES][BYTES];
} chain;

static chain *chain_new(int mark) {
    chain *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->id.bits = 1, c->id.arith = (uint32_t)mark;
    assert_true(gy_chain_root(&c->id, NULL, NULL, &c->name[0]));
    for (int i = 0; i < PAGES; i++) {
        for (int k = 0; k < GY_PAGE; k++) c->tok[i][k] = 64 * i + k + mark;
        for (int k = 0; k < BYTES; k++) c->data[i][k] = (uint8_t)(k * 7 + i * 13 + mark);
        assert_true(gy_chain_next(&c->name[i], c->tok[i], &c->name[i + 1]));
    }
    return c;
}

static gy_store_page page_of(const chain *c, int i, int group) {
    return (gy_store_page){.id = &c->id,
                           .before = &c->name[i],
                           .name = &c->name[i + 1],
                           .tok = c->tok[i],
                           .index = i,
                           .group = group,
                           .bytes = BYTES};
}

static gy_rc put(gy_store *s, const chain *c, int i, gy_err *err) {
    gy_store_page p = page_of(c, i, i % 3);
    return gy_store_put(s, &p, "f16", c->data[i], err);
}

/* False for a miss; what is found must be right. */
static bool get(gy_store *s, const chain *c, int i) {
    uint8_t got[BYTES];
    gy_store_page p = page_of(c, i, i % 3);
    memset(got, 0xEE, sizeof got);
    if (!gy_store_get(s, &p, got)) return false;
    if (memcmp(got, c->data[i], BYTES)) fail_msg("page %d came back with other bytes", i);
    return true;
}

static gy_store *store(int64_t cap, const gy_io *io) {
    gy_store *s;
    gy_err err = {0};
    assert_ok(gy_store_open(dir, cap, io, &s, &err), err);
    return s;
}

static void name_of(const chain *c, int i, char path[200]) {
    char hex[65];
    snprintf(path, 200, "%s/%s.%d.kv", dir, gy_digest_hex(&c->name[i + 1], hex), i % 3);
}

static int files(const char *folder, const char *end) {
    DIR *d = opendir(folder);
    int n = 0;
    if (!d) return 0;
    for (struct dirent *f; (f = readdir(d));) {
        size_t k = strlen(f->d_name), e = strlen(end);
        n += k >= e && !strcmp(f->d_name + k - e, end);
    }
    closedir(d);
    return n;
}

static void test_pages(void **state) {
    (void)state;
    gy_err err = {0};
    chain *c = chain_new(0), *other = chain_new(1);
    gy_store *s = store(no_cap, &gy_io_system), *again = store(no_cap, &gy_io_system);
    gy_store_stats st;
    for (int i = 0; i < PAGES; i++) {
        assert_false(get(s, c, i));
        assert_false(gy_store_has(s, &c->name[i + 1], i % 3));
        assert_ok(put(s, c, i, &err), err);
        assert_true(gy_store_has(again, &c->name[i + 1], i % 3));
        assert_false(gy_store_has(again, &c->name[i + 1], 7));
        assert_true(get(again, c, i) && get(s, c, i));
        assert_false(get(again, other, i));
    }
    assert_ok(put(again, c, 3, &err), err); /* is there */
    gy_store_get_stats(again, &st);
    assert_int_equal(st.written, 0);
    gy_store_get_stats(s, &st);
    assert_int_equal(st.written, PAGES);
    assert_int_equal(files(dir, ".kv"), PAGES);
    assert_int_equal(st.quarantined, 0);
    gy_store_close(s), gy_store_close(again);
    free(c), free(other);
}

/* Each field that a reader states is compared, even if the name fits. */
static void test_identity(void **state) {
    (void)state;
    gy_err err = {0};
    chain *c = chain_new(0);
    gy_store *s = store(no_cap, &gy_io_system);
    gy_store_stats st;
    uint8_t got[BYTES];
    for (int field = 0; field < 9; field++) {
        assert_ok(put(s, c, 4, &err), err);
        gy_store_page p = page_of(c, 4, 1);
        gy_identity id = c->id;
        gy_digest before = c->name[4];
        int32_t tok[GY_PAGE];
        memcpy(tok, p.tok, sizeof tok);
        p.id = &id, p.tok = tok, p.before = &before;
        switch (field) {
        case 0: id.bits++; break;
        case 1: id.arith++; break;
        case 2: id.model.b[5]++; break;
        case 3: id.plan.b[5]++; break;
        case 4: id.layout.b[5]++; break;
        case 5: before.b[31]++; break;
        case 6: tok[63]++; break;
        case 7: p.index++; break;
        default: p.bytes--; break;
        }
        if (gy_store_get(s, &p, got)) fail_msg("field %d is not compared", field);
        gy_store_get_stats(s, &st);
        assert_int_equal(st.quarantined, field + 1);
        assert_false(get(s, c, 4));
    }
    gy_store_close(s);
    free(c);
}

static void test_damage(void **state) {
    (void)state;
    gy_err err = {0};
    chain *c = chain_new(0);
    gy_store *s = store(no_cap, &gy_io_system);
    gy_store_stats st;
    char path[200], folder[100];
    int turns = 0;
    snprintf(folder, sizeof folder, "%s/quarantine", dir);
    for (long at = 0; at < 4096 + BYTES; at += at < 4096 ? 37 : 1201) {
        if (at >= 576 && at < 4096) continue; /* zeros between head and page */
        turns++;
        assert_ok(put(s, c, 2, &err), err);
        name_of(c, 2, path);
        FILE *f = fopen(path, "r+b");
        assert_non_null(f);
        fseek(f, at, SEEK_SET);
        int byte = fgetc(f);
        fseek(f, at, SEEK_SET), fputc(byte ^ 0x41, f), fclose(f);
        if (get(s, c, 2)) fail_msg("byte %ld damaged: not noticed", at);
        if (access(path, F_OK) && files(folder, ".kv") != 1) fail_msg("byte %ld: deleted", at);
        unlink(path); /* another version is left where it is */
    }
    assert_ok(put(s, c, 2, &err), err);
    assert_int_equal(truncate(path, 4096), 0);
    assert_false(get(s, c, 2));
    assert_ok(put(s, c, 2, &err), err); /* computed again, kept again */
    assert_true(get(s, c, 2));
    gy_store_get_stats(s, &st);
    printf("damage: %d files damaged, %d put aside\n", turns + 1, (int)st.quarantined);
    assert_true(st.quarantined >= (uint64_t)turns - 2);
    gy_store_close(s);
    free(c);
}

/* Uses are set apart by an hour each, the page of index i last used at hour i. */
static void age(const chain *c) {
    char path[200];
    for (int i = 0; i < PAGES; i++) {
        struct timespec t[2] = {{.tv_sec = 1000000 + 3600 * i}, {.tv_sec = 1000000 + 3600 * i}};
        name_of(c, i, path);
        if (utimensat(AT_FDCWD, path, t, 0)) assert_int_equal(errno, ENOENT);
    }
}

static void make(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("mine", f), fclose(f);
    struct timespec t[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static bool there(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void test_sweep(void **state) {
    (void)state;
    gy_err err = {0};
    chain *c = chain_new(0);
    gy_store *s = store(5 * (4096 + BYTES) + 100, &gy_io_system);
    gy_store_stats st;
    char hex[65], name[200];
    static const char *const foreign[] = {"session.kv", "notes.txt", "a.tmp", "x.0.kv",
                                          "0123456789abcdef.0.kv"};
    for (int i = 0; i < PAGES; i++) assert_ok(put(s, c, i, &err), err);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) make(foreign[i]);
    age(c);
    assert_true(get(s, c, 1)); /* is the newest now */
    gy_store_sweep(s);
    for (int i = 0; i < PAGES; i++)
        if (gy_store_has(s, &c->name[i + 1], i % 3) != (i < 5))
            fail_msg("page %d is %s", i, i < 5 ? "gone" : "still there");
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (!there(foreign[i])) fail_msg("%s was deleted", foreign[i]);
    gy_store_get_stats(s, &st);
    assert_int_equal(st.deleted, PAGES - 5);
    /* Left by killed writers: gone when old and not locked. */
    gy_digest_hex(&c->name[1], hex);
    snprintf(name, sizeof name, "%s.0.kv.123-4.tmp", hex), make(name);
    char locked[200], path[300];
    snprintf(locked, sizeof locked, "%s.0.kv.123-5.tmp", hex), make(locked);
    snprintf(path, sizeof path, "%s/%s", dir, locked);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    snprintf(path, sizeof path, "%s/%s.0.kv.123-6.tmp", dir, hex);
    fclose(fopen(path, "w"));
    gy_store_sweep(s);
    assert_false(there(name));
    assert_true(there(locked));
    assert_int_equal(access(path, F_OK), 0);
    close(fd);
    /* Another process sweeps: nothing happens. */
    age(c);
    snprintf(path, sizeof path, "%s/lock", dir);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    gy_store *small = store(1, &gy_io_system);
    gy_store_sweep(small);
    assert_true(get(small, c, 1));
    close(fd);
    gy_store_sweep(small);
    assert_false(get(small, c, 1));
    gy_store_close(small), gy_store_close(s);
    free(c);
}

static void damage(const chain *c, int way, const char *path) {
    char from[200];
    gy_err err = {0};
    uint8_t byte = 0;
    static const int at[] = {8, 0, 300, 40, 560};
    static const off_t size[] = {0, 100, 400, 4096, 4096 + BYTES - 1, 4096 + BYTES + 1};
    if (way < 5) {
        int fd = open(path, O_RDWR);
        assert_true(fd >= 0 && pread(fd, &byte, 1, at[way]) == 1);
        byte ^= 0x5A;
        assert_int_equal(pwrite(fd, &byte, 1, at[way]), 1);
        close(fd);
    } else if (way < 11) {
        assert_int_equal(truncate(path, size[way - 5]), 0);
    } else { /* another page under this name */
        gy_store *s = store(no_cap, &gy_io_system);
        assert_ok(put(s, c, 8, &err), err);
        name_of(c, 8, from);
        assert_int_equal(rename(from, path), 0);
        gy_store_close(s);
    }
}

/* What has a page's name but is not that page is put aside and written anew. */
static void test_put_replaces(void **state) {
    (void)state;
    static const char *const ways[] = {"another version", "another magic", "a token",
                                       "the model",       "the table",     "empty",
                                       "no head",         "half a head",   "no page",
                                       "cut by one",      "one too long",  "another page"};
    enum { WAYS = sizeof ways / sizeof *ways };
    gy_err err = {0};
    chain *c = chain_new(0);
    gy_store *s = store(no_cap, &gy_io_system);
    gy_store_stats st;
    char path[200], folder[100];
    name_of(c, 5, path);
    snprintf(folder, sizeof folder, "%s/quarantine", dir);
    for (int way = 0; way < WAYS; way++) {
        assert_ok(put(s, c, 5, &err), err);
        damage(c, way, path);
        assert_ok(put(s, c, 5, &err), err);
        gy_store_get_stats(s, &st);
        if (st.written != (uint64_t)way + 2 || st.quarantined != (uint64_t)way + 1)
            fail_msg("%s: %d written, %d put aside", ways[way], (int)st.written,
                     (int)st.quarantined);
        if (!get(s, c, 5)) fail_msg("%s: not replaced", ways[way]);
    }
    assert_int_equal(files(folder, ".kv"), 1);
    printf("put: %d of %d files that are not the page replaced\n", WAYS, WAYS);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* nothing to keep */
    assert_ok(put(s, c, 5, &err), err);
    assert_true(get(s, c, 5));
    gy_store_close(s);
    free(c);
}

static void set_used(const chain *c, int i, int64_t seconds) {
    char path[200];
    struct timespec t[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    name_of(c, i, path);
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* The first pages of the chain that are there; a page behind a missing one is of no use. */
static int usable(gy_store *s, const chain *c, const char *what) {
    int n = 0;
    while (n < PAGES && gy_store_has(s, &c->name[n + 1], n % 3)) n++;
    for (int i = n; i < PAGES; i++)
        if (gy_store_has(s, &c->name[i + 1], i % 3))
            fail_msg("%s: page %d went before page %d", what, n, i);
    return n;
}

/* Leaves go before their ancestors, whatever the times of the files say, and a prefix whose end was
 * used lately stays before another. */
static void test_sweep_leaves(void **state) {
    (void)state;
    static const char *const times[] = {"ancestors first", "all at once", "leaves first",
                                        "at random", "the leaf alone"};
    gy_err err = {0};
    chain *c = chain_new(0), *other = chain_new(1);
    uint64_t seed = test_seed();
    int sweeps = 0;
    for (int way = 0; way < 5; way++)
        for (int room = 0; room <= 2 * PAGES; room++, sweeps++) {
            gy_store *s = store(room * (4096 + BYTES) + 100, &gy_io_system);
            for (int i = 0; i < PAGES; i++) {
                assert_ok(put(s, c, i, &err), err);
                assert_ok(put(s, other, i, &err), err);
                int64_t at[] = {i, 0, PAGES - i, (int64_t)(test_rand(&seed) % PAGES),
                                i == PAGES - 1 ? 3 : 0};
                set_used(c, i, 5000 + at[way]), set_used(other, i, 1000 + at[way]);
            }
            gy_store_sweep(s);
            int newer = usable(s, c, times[way]), older = usable(s, other, times[way]);
            if (newer != (room < PAGES ? room : PAGES) || newer + older != room)
                fail_msg("%s, room for %d: %d and %d pages left", times[way], room, newer, older);
            gy_store_close(s);
        }
    printf("leaves: %d sweeps leave what can be used\n", sweeps);
    free(c), free(other);
}

/* Files whose links are no tree, or cannot be read, are swept as well. */
static void test_sweep_links(void **state) {
    (void)state;
    gy_err err = {0};
    chain *c = chain_new(0);
    gy_store *s = store(3 * (4096 + BYTES), &gy_io_system);
    char path[200];
    for (int i = 0; i < PAGES; i++) { /* each is its own parent, or its child's child */
        gy_digest before = c->name[i % 2 ? i + 1 : i + 2 > PAGES ? 0 : i + 2];
        gy_store_page p = page_of(c, i, i % 3);
        p.before = &before;
        assert_ok(gy_store_put(s, &p, "f16", c->data[i], &err), err);
        name_of(c, i, path);
        if (i % 4 == 3) assert_int_equal(truncate(path, 4096 + i), 0);
    }
    gy_store_sweep(s);
    assert_true(files(dir, ".kv") <= 3 + PAGES / 4 && files(dir, ".kv") >= 3);
    gy_store_close(s);
    s = store(1, &gy_io_system);
    gy_store_sweep(s);
    assert_int_equal(files(dir, ".kv"), 0);
    gy_store_close(s);
    free(c);
}

static int deny_open(void *arg, const char *path, int flags, int mode) {
    if (flags & (O_WRONLY | O_RDWR | O_CREAT)) return errno = EROFS, -1;
    return gy_io_system.open(arg, path, flags, mode);
}
static int deny_name(void *arg, const char *path) {
    (void)arg, (void)path;
    return errno = EROFS, -1;
}
static int deny_rename(void *arg, const char *from, const char *to) {
    (void)to;
    return deny_name(arg, from);
}

static void test_read_only(void **state) {
    (void)state;
    gy_err err = {0};
    chain *c = chain_new(0);
    gy_store *s = store(no_cap, &gy_io_system);
    for (int i = 0; i < 3; i++) assert_ok(put(s, c, i, &err), err);
    gy_store_close(s);
    gy_io io = gy_io_system;
    io.open = deny_open, io.rename = deny_rename, io.unlink = io.mkdir = deny_name;
    s = store(1, &io);
    assert_true(get(s, c, 0) && get(s, c, 1));
    assert_int_equal(put(s, c, 5, &err), GY_EIO);
    assert_non_null(strstr(err.msg, "Read-only"));
    char path[200];
    name_of(c, 1, path);
    assert_int_equal(truncate(path, 300), 0);
    assert_false(get(s, c, 1)); /* damaged, cannot be moved: a miss */
    gy_store_sweep(s);
    assert_true(get(s, c, 0));
    gy_store_close(s);
    err = (gy_err){0};
    assert_int_equal(gy_store_open("/nonexistent/folder", 1, &io, &s, &err), GY_EIO);
    free(c);
}

/* Writers, readers and sweepers share a folder too small for all, and some are killed. */
static void worker(const chain *c, int seed) {
    gy_store *s = store(6 * (4096 + BYTES), &gy_io_system);
    uint64_t state = (uint64_t)seed;
    for (int i = 0; i < 150; i++) {
        int page = (int)(test_rand(&state) % PAGES);
        switch (test_rand(&state) % 4) {
        case 0: gy_store_sweep(s); break;
        case 1: get(s, c, page); break;
        default: put(s, c, page, NULL);
        }
    }
    gy_store_stats st;
    gy_store_get_stats(s, &st);
    _exit(st.quarantined ? 3 : 0);
}

static void test_processes(void **state) {
    (void)state;
    enum { WORKERS = 6 };
    chain *c = chain_new(0);
    uint64_t seed = test_seed();
    int ended = 0, killed = 0, kept = 0;
    for (int round = 0; round < 4; round++) {
        pid_t child[WORKERS];
        fflush(stdout);
        for (int w = 0; w < WORKERS; w++) {
            child[w] = fork();
            assert_true(child[w] >= 0);
            if (!child[w]) worker(c, (int)(test_rand(&seed) % 10000) + w);
        }
        for (int w = 1; w < WORKERS; w += 2)
            usleep(test_rand(&seed) % 5000), kill(child[w], SIGKILL);
        for (int w = 0; w < WORKERS; w++) {
            int status;
            assert_int_equal(waitpid(child[w], &status, 0), child[w]);
            killed += WIFSIGNALED(status);
            if (WIFEXITED(status) && WEXITSTATUS(status))
                fail_msg("a worker ended with %d", WEXITSTATUS(status));
            ended += WIFEXITED(status);
        }
        gy_store *s = store(no_cap, &gy_io_system);
        gy_store_stats st;
        for (int i = 0; i < PAGES; i++) {
            bool has = gy_store_has(s, &c->name[i + 1], i % 3);
            if (has != get(s, c, i)) fail_msg("page %d is there but cannot be read", i);
            kept += has;
        }
        gy_store_get_stats(s, &st);
        assert_int_equal(st.quarantined, 0);
        gy_store_close(s);
    }
    printf("processes: %d ended, %d were killed, %d pages left, all whole\n", ended, killed, kept);
    assert_true(kept > 0 && killed > 0);
    free(c);
}

static int setup(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/gyre-store-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    char command[200];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_identity, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_put_replaces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sweep_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sweep_links, setup, teardown),
        cmocka_unit_test_setup_teardown(test_read_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
