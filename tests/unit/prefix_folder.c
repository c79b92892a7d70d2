/* prefix_folder: the folder of files behind the prefix tree. What a flush leaves there is what the
 * next process can use, whatever others did to the folder meanwhile and however small it is. */
#include "testlib.h"

#include "prefix_rig.h"
#include "snap_fault.h"

/* One flush of more than the folder may hold: what stays is a prefix from its beginning. */
static void test_small_folder(void **state) {
    (void)state;
    gy_kvspec spec[] = {layer(keep_all), layer(window(70, 0))};
    gy_err err = {0};
    int32_t tok[LEN];
    for (int i = 0; i < LEN; i++) tok[i] = i;
    for (int pages = 1; pages < 10; pages++) {
        char dir[64] = "/tmp/gyre-prefix-XXXXXX", command[100];
        rig *r = calloc(1, sizeof *r);
        fault lazy = {.lazy = true};
        gy_io io = fault_io(&lazy);
        int got = 0;
        assert_non_null(r);
        assert_non_null(mkdtemp(dir));
        r->layers = 2, r->spec = spec;
        memset(&r->id, 2, sizeof r->id);
        assert_ok(gy_kv_new(spec, 2, LEN, &r->kv, &err), err);
        int64_t each =
            2 * 4096 + (int64_t)(gy_kv_group_bytes(r->kv, 0) + gy_kv_group_bytes(r->kv, 1));
        assert_ok(gy_store_open(dir, pages * each, &io, &r->store, &err), err);
        for (int turn = 0; turn < 2; turn++) {
            assert_ok(gy_prefix_new(r->kv, all_of_it, &r->prefix, &err), err);
            gy_prefix_attach(r->prefix, r->store, &r->id, "f32");
            assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
            got = gy_prefix_adopt(r->prefix, &r->root[0], r->seq[0], tok, LEN);
            check_rows(r, spec, r->seq[0], "a small folder");
            for (int at = got; !turn && at < 8 * GY_PAGE; at += GY_PAGE) {
                feed(r, 0, tok + at, GY_PAGE);
                gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
            }
            assert_ok(gy_prefix_flush(r->prefix, 0, NULL, &err), err);
            gy_kv_seq_free(r->kv, r->seq[0]);
            gy_prefix_free(r->prefix);
        }
        if (got != (pages < 8 ? pages : 8) * GY_PAGE)
            fail_msg("room for %d pages: %d positions found", pages, got);
        gy_store_close(r->store), gy_kv_free(r->kv);
        free(r);
        snprintf(command, sizeof command, "rm -rf %s", dir);
        assert_int_equal(system(command), 0);
    }
}

/* A tree with a folder and 8 pages that a sequence has left, flushed. */
static rig *rig_with_files(const gy_kvspec *spec, const char *dir, int64_t cap, const gy_io *io,
                           int32_t *tok) {
    rig *r = calloc(1, sizeof *r);
    gy_err err = {0};
    assert_non_null(r);
    r->layers = 1, r->spec = spec;
    memset(&r->id, 2, sizeof r->id);
    assert_ok(gy_kv_new(spec, 1, LEN, &r->kv, &err), err);
    assert_ok(gy_store_open(dir, cap, io, &r->store, &err), err);
    assert_ok(gy_prefix_new(r->kv, all_of_it, &r->prefix, &err), err);
    gy_prefix_attach(r->prefix, r->store, &r->id, "f32");
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
    feed(r, 0, tok, 8 * GY_PAGE);
    gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
    gy_kv_seq_free(r->kv, r->seq[0]);
    assert_ok(gy_prefix_flush(r->prefix, 0, NULL, &err), err);
    return r;
}

static void rig_free(rig *r) {
    gy_prefix_free(r->prefix), gy_store_close(r->store), gy_kv_free(r->kv);
    free(r);
}

/* Positions of tok that a new tree on the folder finds. */
static int found(rig *r, const int32_t *tok) {
    gy_prefix *p;
    gy_err err = {0};
    assert_ok(gy_prefix_new(r->kv, all_of_it, &p, &err), err);
    gy_prefix_attach(p, r->store, &r->id, "f32");
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
    int got = gy_prefix_adopt(p, &r->root[0], r->seq[0], tok, LEN);
    check_rows(r, r->spec, r->seq[0], "found");
    gy_kv_seq_free(r->kv, r->seq[0]);
    gy_prefix_free(p);
    return got;
}

/* Another process has swept files, or damaged them: the next flush writes them again. One that
 * finds all there syncs the folder nevertheless, for the other's sync may yet fail. */
static void test_flush_again(void **state) {
    (void)state;
    gy_kvspec spec = layer(keep_all);
    gy_err err = {0};
    int32_t tok[LEN];
    char dir[64] = "/tmp/gyre-prefix-XXXXXX", command[200];
    fault lazy = {.lazy = true};
    gy_io io = fault_io(&lazy);
    gy_store_stats st;
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < LEN; i++) tok[i] = i;
    rig *r = rig_with_files(&spec, dir, all_of_it, &io, tok);
    static const char *const ways[] = {"rm -f %s/*.kv", "for f in %s/[0-7]*.kv; do : >$f; done",
                                       "for f in %s/[8-f]*.kv; do echo more >>$f; done"};
    int most = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(command, sizeof command, ways[i], dir);
        assert_int_equal(system(command), 0);
        int without = found(r, tok);
        assert_ok(gy_prefix_flush(r->prefix, 0, NULL, &err), err);
        int got = found(r, tok);
        if (got != 8 * GY_PAGE) fail_msg("way %d: %d positions found", (int)i, got);
        if (without > most) most = without;
    }
    assert_true(most < 8 * GY_PAGE);
    gy_store_get_stats(r->store, &st);
    uint64_t written = st.written;
    lazy.syncs = 0;
    assert_ok(gy_prefix_flush(r->prefix, 0, NULL, &err), err);
    gy_store_get_stats(r->store, &st);
    assert_true(st.written == written && lazy.syncs == 1);
    rig_free(r);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* A flush counts as a use of what memory holds: the folder keeps that rather than what another
 * process wrote later. What does not fit beside it is not written at all, and not again. */
static void test_flush_use(void **state) {
    (void)state;
    gy_kvspec spec = layer(keep_all);
    gy_err err = {0};
    int32_t a[LEN], b[LEN];
    char dir[64] = "/tmp/gyre-prefix-XXXXXX", command[200];
    fault lazy = {.lazy = true};
    gy_io io = fault_io(&lazy);
    gy_store_stats st;
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < LEN; i++) a[i] = i, b[i] = i + 7;
    gy_kv *kv;
    assert_ok(gy_kv_new(&spec, 1, LEN, &kv, &err), err);
    int64_t each = GY_SNAP_ALIGN + (int64_t)gy_kv_group_bytes(kv, 0);
    gy_kv_free(kv);
    for (int pages = 8; pages > 2; pages -= 2) {
        rig *r = rig_with_files(&spec, dir, pages * each, &io, a);
        snprintf(command, sizeof command, "touch -d 2001-01-01 %s/*.kv", dir);
        assert_int_equal(system(command), 0);
        rig *other = rig_with_files(&spec, dir, all_of_it, &io, b);
        assert_int_equal(found(other, b), 8 * GY_PAGE);
        usleep(20000); /* clocks of disks tick every 4 to 10 ms */
        for (int turn = 0; turn < 2; turn++) {
            assert_ok(gy_prefix_flush(r->prefix, 0, NULL, &err), err);
            if (found(r, a) != pages * GY_PAGE || found(r, b))
                fail_msg("room for %d pages: %d and %d positions found", pages, found(r, a),
                         found(r, b));
        }
        gy_store_get_stats(r->store, &st);
        if (st.written > (uint64_t)pages) fail_msg("%d pages written", (int)st.written);
        rig_free(r), rig_free(other);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* What leaves memory is written before, as long as the disk takes it, and found again; a full disk
 * is asked once, not for each page, until a flush succeeds. */
static void test_leaving(void **state) {
    (void)state;
    gy_kvspec spec[] = {layer(keep_all),
                        layer(window(70, 0)),
                        {.donor = -1, .scan = 20, .keep = {.policy = GY_KEEP_STATE}}};
    gy_err err = {0};
    int32_t tok[3][LEN];
    int evicted = 0;
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < LEN; i++) tok[t][i] = 1000 * t + i;
    for (int layers = 1; layers <= 3; layers++)
        for (int full = 0; full < 2; full++) {
            char dir[64] = "/tmp/gyre-prefix-XXXXXX", command[100];
            fault f = {.lazy = true};
            gy_io io = fault_io(&f);
            gy_prefix_stats st;
            gy_store_stats files;
            rig *r = calloc(1, sizeof *r);
            assert_non_null(r);
            assert_non_null(mkdtemp(dir));
            r->layers = layers, r->spec = spec;
            memset(&r->id, 2, sizeof r->id);
            assert_ok(gy_kv_new(spec, layers, 2 * LEN, &r->kv, &err), err);
            int64_t budget = 9 * (int64_t)(gy_kv_group_bytes(r->kv, 0) + 600);
            if (layers > 1) budget += 9 * (int64_t)gy_kv_group_bytes(r->kv, 1);
            if (layers > 2) budget += 9 * gy_state_block_bytes(gy_kv_state(r->kv));
            assert_ok(gy_store_open(dir, all_of_it, &io, &r->store, &err), err);
            assert_ok(gy_prefix_new(r->kv, budget, &r->prefix, &err), err);
            gy_prefix_attach(r->prefix, r->store, &r->id, "f32");
            for (int t = 0; t < 3; t++) { /* three prefixes, and room for one */
                if (t == 1 && full) f.room = 0;
                if (t == 2 && full) { /* there is room again, but only a flush tries */
                    f.room = -1;
                    gy_store_get_stats(r->store, &files);
                    assert_int_equal(files.failed, 1);
                    assert_ok(gy_prefix_flush(r->prefix, 1, NULL, &err), err);
                }
                assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
                for (int at = 0; at < 8 * GY_PAGE; at += GY_PAGE) {
                    feed(r, 0, tok[t] + at, GY_PAGE);
                    gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
                    gy_prefix_check(r->prefix);
                }
                gy_kv_seq_free(r->kv, r->seq[0]);
            }
            gy_prefix_get_stats(r->prefix, &st);
            assert_ok(gy_prefix_flush(r->prefix, 0, NULL, &err), err); /* what is in memory yet */
            int first = found(r, tok[0]), second = found(r, tok[1]);
            if (second != 8 * GY_PAGE ||
                (full ? first > GY_PAGE || !st.lost : first != 8 * GY_PAGE || st.lost))
                fail_msg("%d layers, disk %s: %d and %d positions found, %d pages lost", layers,
                         full ? "full" : "free", first, second, (int)st.lost);
            evicted += (int)st.evicted;
            rig_free(r);
            snprintf(command, sizeof command, "rm -rf %s", dir);
            assert_int_equal(system(command), 0);
        }
    printf("leaving: %d nodes left memory\n", evicted);
    assert_true(evicted >= 6 * 15);
}

/* Page by page in idle time: after each call what was written is a prefix from its beginning, and
 * what is written then need not be when it leaves memory. */
static void test_idle(void **state) {
    (void)state;
    gy_kvspec spec = layer(keep_all);
    gy_err err = {0};
    int32_t tok[LEN];
    char dir[64] = "/tmp/gyre-prefix-XXXXXX", command[100];
    fault lazy = {.lazy = true};
    gy_io io = fault_io(&lazy);
    gy_store_stats st;
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < LEN; i++) tok[i] = i;
    rig *r = rig_with_files(&spec, dir, all_of_it, &io, tok);
    int32_t other[LEN];
    for (int i = 0; i < LEN; i++) other[i] = i + 1;
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
    feed(r, 0, other, 8 * GY_PAGE);
    gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
    gy_kv_seq_free(r->kv, r->seq[0]);
    for (int i = 0; i <= 8; i++) {
        int left = -1, got = found(r, other);
        gy_store_get_stats(r->store, &st);
        if (got != i * GY_PAGE || (int)st.written != 8 + i)
            fail_msg("%d pages written: %d positions found", (int)st.written - 8, got);
        assert_ok(gy_prefix_flush(r->prefix, 1, &left, &err), err);
        assert_int_equal(left, i < 8 ? 7 - i : 0);
    }
    assert_ok(gy_prefix_flush(r->prefix, 100, NULL, &err), err);
    gy_store_get_stats(r->store, &st);
    assert_int_equal(st.written, 16);
    rig_free(r);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* A folder smaller than the memory takes no part: what would leave it at once is not written. And
 * one that fills while no flush comes is swept all the same. */
static void test_leaving_small(void **state) {
    (void)state;
    gy_kvspec spec = layer(keep_all);
    gy_err err = {0};
    int32_t tok[LEN];
    for (int small = 0; small < 2; small++) {
        char dir[64] = "/tmp/gyre-prefix-XXXXXX", command[100];
        fault lazy = {.lazy = true};
        gy_io io = fault_io(&lazy);
        gy_store_stats st;
        rig *r = calloc(1, sizeof *r);
        assert_non_null(r);
        assert_non_null(mkdtemp(dir));
        r->layers = 1, r->spec = &spec;
        assert_ok(gy_kv_new(&spec, 1, LEN, &r->kv, &err), err);
        int64_t each = GY_SNAP_ALIGN + (int64_t)gy_kv_group_bytes(r->kv, 0);
        int64_t cap = small ? 3 * each : 20 * each;
        assert_ok(gy_store_open(dir, cap, &io, &r->store, &err), err);
        assert_ok(gy_prefix_new(r->kv, 10 * each, &r->prefix, &err), err);
        gy_prefix_attach(r->prefix, r->store, &r->id, "f32");
        for (int t = 0; t < 30; t++) {
            for (int i = 0; i < LEN; i++) tok[i] = 1000 * t + i;
            assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
            feed(r, 0, tok, 6 * GY_PAGE);
            gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
            gy_kv_seq_free(r->kv, r->seq[0]);
        }
        gy_store_get_stats(r->store, &st);
        printf("%s folder: %d written, %d deleted\n", small ? "small" : "large", (int)st.written,
               (int)st.deleted);
        int kept = (int)st.written - (int)st.deleted;
        assert_true(small ? !st.written : st.written > 100 && kept > 0 && kept <= 22);
        rig_free(r);
        snprintf(command, sizeof command, "rm -rf %s", dir);
        assert_int_equal(system(command), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_folder),  cmocka_unit_test(test_flush_again),
        cmocka_unit_test(test_flush_use),     cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_leaving_small), cmocka_unit_test(test_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
