/* snap: one page file. What was written comes back; every damaged byte and every cut is noticed;
 * every failed call and every kill leaves the old file or the new one, whole. */
#include "testlib.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fmap.h"
#include "base/mem.h"
#include "kv/snap.h"
#include "snap_fault.h"

enum { TOKENS = 150, PAGES = 5 };
static char dir[64], path[128];

typedef struct {
    gy_snap_head head;
    int32_t tok[TOKENS];
    gy_snap_page page[PAGES];
    const void *data[PAGES];
    uint8_t bytes[PAGES][9000];
} sample;

/* mark makes two samples differ everywhere. */
static sample *sample_new(int mark) {
    static const struct {
        int group, index, bytes;
    } pages[PAGES] = {{0, 2, 4096}, {0, 3, 4096}, {0, 4, 9000}, {1, 4, 64}, {3, 2, 1}};
    sample *s = calloc(1, sizeof *s);
    assert_non_null(s);
    for (int i = 0; i < TOKENS; i++) s->tok[i] = 100 * mark + i;
    for (int i = 0; i < PAGES; i++) {
        s->page[i] = (gy_snap_page){.group = (uint32_t)pages[i].group,
                                    .index = (uint32_t)pages[i].index,
                                    .bytes = (uint64_t)pages[i].bytes};
        for (int k = 0; k < pages[i].bytes; k++) s->bytes[i][k] = (uint8_t)(k * 31 + i * 7 + mark);
        s->data[i] = s->bytes[i];
    }
    s->head = (gy_snap_head){.kind = GY_SNAP_SEQ,
                             .id = {.bits = 7, .arith = 2},
                             .kv = "k8v4",
                             .first = 128,
                             .n_tok = TOKENS,
                             .n_pages = PAGES,
                             .tok = s->tok,
                             .page = s->page};
    memset(&s->head.id.model, 1, 32), memset(&s->head.id.plan, 2, 32);
    memset(&s->head.id.layout, 3, 32), memset(&s->head.before, 4, 32);
    memset(&s->head.after, mark, 32);
    return s;
}

/* 0: the file at path holds s; else what open or read said. */
static gy_rc compare(const gy_io *io, const sample *s, gy_err *err) {
    gy_snap f;
    gy_rc rc = gy_snap_open(io, path, &f, err);
    if (rc) return rc;
    bool same = f.head.kind == s->head.kind && f.head.first == s->head.first &&
                f.head.n_tok == s->head.n_tok && f.head.n_pages == s->head.n_pages &&
                !memcmp(&f.head.id, &s->head.id, sizeof f.head.id) &&
                !strcmp(f.head.kv, s->head.kv) &&
                gy_digest_equal(&f.head.before, &s->head.before) &&
                gy_digest_equal(&f.head.after, &s->head.after) &&
                !memcmp(f.head.tok, s->tok, (size_t)s->head.n_tok * 4);
    for (int i = 0; !rc && same && i < s->head.n_pages; i++) {
        uint8_t got[9000];
        same = f.head.page[i].group == s->page[i].group &&
               f.head.page[i].index == s->page[i].index &&
               f.head.page[i].bytes == s->page[i].bytes && f.head.page[i].offset % 4096 == 0;
        if (same) rc = gy_snap_read(&f, i, got, err);
        if (same && !rc) same = !memcmp(got, s->bytes[i], s->page[i].bytes);
    }
    gy_snap_close(&f);
    return rc ? rc : same ? GY_OK : GY_EARG;
}

static gy_rc write_sample(const gy_io *io, const sample *s, gy_err *err) {
    return gy_snap_write(io, path, &s->head, s->data, err);
}

static int files_in_dir(void) {
    DIR *d = opendir(dir);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) n += f->d_name[0] != '.';
    closedir(d);
    return n;
}

static void test_round(void **state) {
    (void)state;
    gy_err err = {0};
    sample *a = sample_new(1), *b = sample_new(2);
    assert_int_equal(compare(&gy_io_system, a, &err), GY_ENOTFOUND), err = (gy_err){0};
    assert_ok(write_sample(&gy_io_system, a, &err), err);
    assert_ok(compare(&gy_io_system, a, &err), err);
    assert_int_equal(compare(&gy_io_system, b, &err), GY_EARG);
    assert_ok(write_sample(&gy_io_system, b, &err), err); /* over the old one */
    assert_ok(compare(&gy_io_system, b, &err), err);
    assert_int_equal(files_in_dir(), 1);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    sample *none = sample_new(3); /* an empty sequence is a file too */
    none->head.first = none->head.n_tok = none->head.n_pages = 0;
    assert_ok(write_sample(&gy_io_system, none, &err), err);
    assert_ok(compare(&gy_io_system, none, &err), err);
    free(a), free(b), free(none);
}

/* Short reads and writes and interrupts are no failures. */
static void test_slow(void **state) {
    (void)state;
    gy_err err = {0};
    sample *a = sample_new(1);
    fault f = {0};
    gy_io io = fault_io(&f);
    f.most = 100, f.interrupted = 3;
    assert_ok(write_sample(&io, a, &err), err);
    f.interrupted = 3;
    assert_ok(compare(&io, a, &err), err);
    free(a);
}

/* Every byte of the file is covered by a check, except the zeros between pages. */
static void test_damage(void **state) {
    (void)state;
    gy_err err = {0};
    sample *a = sample_new(1);
    char *text;
    size_t n, used = 256 + 600 + PAGES * 32 + 32, noticed = 0, padding = 0;
    assert_ok(write_sample(&gy_io_system, a, &err), err);
    assert_ok(gy_file_read(path, 1 << 20, &text, &n, &err), err);
    gy_snap open;
    gy_snap_page page[PAGES];
    assert_ok(gy_snap_open(&gy_io_system, path, &open, &err), err);
    memcpy(page, open.head.page, sizeof page);
    gy_snap_close(&open);
    for (int i = 0; i < PAGES; i++) used += a->page[i].bytes;
    FILE *out = fopen(path, "r+b");
    assert_non_null(out);
    setbuf(out, NULL);
    for (size_t i = 0; i < n; i += i < 1100 || i > n - 200 ? 1 : 7) {
        fseek(out, (long)i, SEEK_SET), fputc(text[i] ^ 0x10, out);
        err = (gy_err){0};
        gy_rc rc = compare(&gy_io_system, a, &err);
        bool matters = i < 256 + 600 + PAGES * 32 + 32;
        for (int k = 0; k < PAGES; k++)
            matters |= i >= page[k].offset && i < page[k].offset + page[k].bytes;
        if (!rc && matters) fail_msg("byte %zu damaged: not noticed", i);
        if (rc == GY_EARG || (rc && !err.msg[0])) fail_msg("byte %zu: wrong data was given", i);
        noticed += rc != 0, padding += rc == 0;
        fseek(out, (long)i, SEEK_SET), fputc(text[i], out);
    }
    fclose(out);
    assert_ok(compare(&gy_io_system, a, (err = (gy_err){0}, &err)), err);
    printf("damage: %zu bytes noticed, %zu bytes of padding; %zu of %zu bytes carry data\n",
           noticed, padding, used, n);
    for (size_t cut = 0; cut < n; cut += cut < 1100 ? 1 : 211) {
        assert_int_equal(truncate(path, (off_t)cut), 0);
        err = (gy_err){0};
        if (!compare(&gy_io_system, a, &err)) fail_msg("cut at %zu: not noticed", cut);
        out = fopen(path, "wb");
        assert_int_equal(fwrite(text, 1, n, out), n);
        fclose(out);
    }
    out = fopen(path, "ab"), fputc(0, out), fclose(out);
    err = (gy_err){0};
    assert_int_equal(compare(&gy_io_system, a, &err), GY_EINTEGRITY);
    gy_free(text), free(a);
}

/* Each call in turn fails, once or from then on: the name holds the old file, or after a complete
 * rename the new one, and nothing else lies about unless its removal failed as well. */
static void test_failures(void **state) {
    (void)state;
    sample *old = sample_new(1), *new = sample_new(2);
    int kept = 0, replaced = 0;
    for (int stuck = 0; stuck < 2; stuck++)
        for (long at = 1;; at++) {
            gy_err err = {0};
            fault f = {0};
            gy_io io = fault_io(&f);
            assert_ok(write_sample(&gy_io_system, old, &err), err);
            f.fail_at = at, f.stuck = stuck;
            gy_rc rc = write_sample(&io, new, &err);
            if (f.calls < at) {
                assert_ok(rc, err);
                break;
            }
            if (rc != GY_EIO || !strstr(err.msg, dir))
                fail_msg("call %ld failed: %d '%s'", at, rc, err.msg);
            bool said_written = strstr(err.msg, "is written");
            err = (gy_err){0};
            bool is_old = compare(&gy_io_system, old, &err) == GY_OK;
            bool is_new = compare(&gy_io_system, new, (err = (gy_err){0}, &err)) == GY_OK;
            if (!is_old && !is_new) fail_msg("call %ld failed: neither old nor new is there", at);
            if (is_new != said_written)
                fail_msg("call %ld failed: %s is there, not as said", at, is_new ? "new" : "old");
            if (!stuck && files_in_dir() != 1) fail_msg("call %ld failed: a file is left", at);
            kept += is_old, replaced += is_new;
            char command[200];
            snprintf(command, sizeof command, "rm -f %s/*.tmp", dir);
            assert_int_equal(system(command), 0);
        }
    printf("failures: %d kept the old file, %d had the new one\n", kept, replaced);
    assert_true(kept > 10 && replaced == 2); /* the last sync, alone and as the first of all */
    free(old), free(new);
}

static void test_disk_full(void **state) {
    (void)state;
    sample *old = sample_new(1), *new = sample_new(2);
    gy_err err = {0};
    assert_ok(write_sample(&gy_io_system, old, &err), err);
    for (int64_t room = 0; room < 22000; room += room < 3000 ? 97 : 1009)
        for (int silent = 0; silent < 2; silent++) {
            fault f = {0};
            gy_io io = fault_io(&f);
            f.room = room, f.silent = silent, err = (gy_err){0};
            if (write_sample(&io, new, &err) != GY_EIO) fail_msg("room for %d", (int)room);
            assert_non_null(strstr(err.msg, "No space left"));
            assert_ok(compare(&gy_io_system, old, (err = (gy_err){0}, &err)), err);
            assert_int_equal(files_in_dir(), 1);
        }
    free(old), free(new);
}

/* A child is killed before each call, and in the middle of each write. */
static void test_killed(void **state) {
    (void)state;
    sample *old = sample_new(1), *new = sample_new(2);
    int runs = 0, done = 0;
    for (int half = 0; half < 2; half++)
        for (long at = 1; at < 100; at++) {
            gy_err err = {0};
            int status;
            assert_ok(write_sample(&gy_io_system, old, &err), err);
            pid_t child = fork();
            assert_true(child >= 0);
            if (!child) {
                fault f = {0};
                gy_io io = fault_io(&f);
                *(half ? &f.half_at : &f.die_at) = at;
                write_sample(&io, new, NULL);
                _exit(f.calls < at ? 9 : 0);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            bool is_old = compare(&gy_io_system, old, &err) == GY_OK;
            bool is_new = compare(&gy_io_system, new, (err = (gy_err){0}, &err)) == GY_OK;
            if (!is_old && !is_new) fail_msg("killed at call %ld: %s", at, err.msg);
            runs++;
            if (WIFEXITED(status)) {
                assert_true(is_new);
                if (++done && WEXITSTATUS(status) == 9) break; /* past the last call */
            }
            char command[200];
            snprintf(command, sizeof command, "rm -f %s/*.tmp", dir);
            assert_int_equal(system(command), 0);
        }
    printf("killed: %d children\n", runs - done);
    assert_true(runs - done > 20);
    free(old), free(new);
}

static void test_memory(void **state) {
    (void)state;
    sample *a = sample_new(1);
    gy_err err = {0};
    assert_ok(write_sample(&gy_io_system, a, &err), err);
    for (int write = 0; write < 2; write++) {
        gy_rc rc = GY_ENOMEM;
        for (long n = 1; rc; n++) {
            err = (gy_err){0};
            gy_alloc_fail_at(n);
            rc = write ? write_sample(&gy_io_system, a, &err) : compare(&gy_io_system, a, &err);
            gy_alloc_fail_at(0);
            if (rc && (rc != GY_ENOMEM || !err.msg[0])) fail_msg("allocation %ld: %d", n, rc);
            assert_ok(compare(&gy_io_system, a, (err = (gy_err){0}, &err)), err);
        }
        assert_int_equal(files_in_dir(), 1);
    }
    free(a);
}

static void test_places(void **state) {
    (void)state;
    sample *a = sample_new(1);
    gy_err err = {0};
    assert_int_equal(gy_snap_write(&gy_io_system, "/nonexistent/x", &a->head, a->data, &err),
                     GY_EIO);
    assert_non_null(strstr(err.msg, "/nonexistent/x"));
    err = (gy_err){0};
    assert_int_equal(gy_snap_write(&gy_io_system, dir, &a->head, a->data, &err), GY_EIO);
    gy_snap f;
    err = (gy_err){0};
    assert_int_equal(gy_snap_open(&gy_io_system, dir, &f, &err), GY_EIO);
    err = (gy_err){0};
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(gy_snap_open(&gy_io_system, path, &f, &err), GY_EIO);
    assert_non_null(strstr(err.msg, "not a regular file"));
    err = (gy_err){0};
    assert_int_equal(gy_snap_open(&gy_io_system, "/dev/zero", &f, &err), GY_EIO);
    err = (gy_err){0};
    assert_int_equal(gy_snap_open(&gy_io_system, __FILE__, &f, &err), GY_EFORMAT);
    free(a);
}

/* Others have made the name before: a process of the same id in another container, or one that was
 * killed. */
static int crowded_open(void *arg, const char *file, int flags, int mode) {
    int *others = arg;
    if (flags & O_EXCL && (*others)-- > 0) {
        int fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    return gy_io_system.open(NULL, file, flags, mode);
}

static void test_names_taken(void **state) {
    (void)state;
    sample *a = sample_new(1);
    for (int others = 0; others < 4; others++) {
        int left = others;
        gy_io io = gy_io_system;
        gy_err err = {0};
        io.arg = &left, io.open = crowded_open;
        assert_ok(write_sample(&io, a, &err), err);
        assert_int_equal(compare(&gy_io_system, a, &err), GY_OK);
    }
    assert_int_equal(files_in_dir(), 1 + 1 + 2 + 3); /* theirs are not touched */
    int left = 1000;
    gy_io io = gy_io_system;
    gy_err err = {0};
    io.arg = &left, io.open = crowded_open;
    assert_int_equal(write_sample(&io, a, &err), GY_EIO);
    free(a);
}

static void make_old(const char *name) {
    char file[400];
    struct timespec t[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    snprintf(file, sizeof file, "%s/%s", dir, name);
    int fd = open(file, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(utimensat(AT_FDCWD, file, t, 0), 0);
}

static bool there(const char *name) {
    char file[400];
    snprintf(file, sizeof file, "%s/%s", dir, name);
    return !access(file, F_OK);
}

/* The name of the one temporary file; false when there is none. */
static bool find_tmp(char name[256]) {
    DIR *d = opendir(dir);
    bool found = false;
    for (struct dirent *f; d && (f = readdir(d));)
        if (strstr(f->d_name, ".tmp")) snprintf(name, 256, "%s", f->d_name), found = true;
    if (d) closedir(d);
    return found;
}

/* Children are killed before each call and in the middle of each write: what they leave goes at the
 * next cleaning that is a minute later. */
static void test_orphans(void **state) {
    (void)state;
    sample *a = sample_new(1);
    gy_err err = {0};
    int left = 0, ended = 0;
    for (long at = 1; !ended; at++)
        for (int half = 0; half < 2; half++) {
            char name[256];
            pid_t child = fork();
            int status;
            assert_true(child >= 0);
            if (!child) {
                fault f = {0};
                gy_io io = fault_io(&f);
                *(half ? &f.half_at : &f.die_at) = at;
                write_sample(&io, a, NULL);
                _exit(f.calls < at ? 9 : 0);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            ended |= WIFEXITED(status) && WEXITSTATUS(status) == 9;
            if (!find_tmp(name)) continue;
            assert_ok(gy_snap_clean(&gy_io_system, path, &err), err);
            if (!there(name)) fail_msg("call %ld: %s is young, and gone", at, name);
            make_old(name), left++;
            assert_ok(gy_snap_clean(&gy_io_system, path, &err), err);
            if (there(name)) fail_msg("call %ld: %s is still there", at, name);
        }
    printf("orphans: %d left by killed writers, all removed\n", left);
    assert_true(left > 10);
    /* Others' files, one that is being written, and what is no file. */
    static const char *const stay[] = {"file.kv",          "file.kv.tmp",       "file.kv.1.tmp",
                                       "file.kv.1-.tmp",   "file.kv.-1.tmp",    "file.kv.1-1.tmp2",
                                       "file.kv.x-1.tmp",  "file.kv.1-1x.tmp",  "file.kv2.1-1.tmp",
                                       "afile.kv.1-1.tmp", "file.kv.1-1.1.tmp", "file.kv1-1.tmp"};
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) make_old(stay[i]);
    make_old("file.kv.1-2.tmp"), make_old("file.kv.77-12.tmp"), make_old("file.kv.3-3.tmp");
    char file[400], folder[400];
    snprintf(folder, sizeof folder, "%s/file.kv.4-4.tmp", dir);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(file, sizeof file, "%s/file.kv.3-3.tmp", dir);
    int fd = open(file, O_RDWR);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_ok(gy_snap_clean(&gy_io_system, path, &err), err);
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        if (!there(stay[i])) fail_msg("%s was removed", stay[i]);
    assert_true(there("file.kv.3-3.tmp") && there("file.kv.4-4.tmp"));
    assert_false(there("file.kv.1-2.tmp") || there("file.kv.77-12.tmp"));
    close(fd);
    make_old("file.kv.1-2.tmp");
    gy_rc rc = GY_ENOMEM;
    for (long n = 1; rc; n++) {
        gy_alloc_fail_at(n);
        rc = gy_snap_clean(&gy_io_system, path, &err);
        gy_alloc_fail_at(0);
        assert_true(n > 2 ? !rc : rc == GY_ENOMEM);
        assert_int_equal(there("file.kv.1-2.tmp"), rc != GY_OK); /* it stays for another time */
    }
    assert_ok(gy_snap_clean(&gy_io_system, "/nonexistent/x", (err = (gy_err){0}, &err)), err);
    free(a);
}

static int setup(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/gyre-snap-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/file.kv", dir);
    return 0;
}

static int teardown(void **state) {
    char command[200];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disk_full, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_places, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orphans, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
