/* prefix: random operations against a naive model that remembers every page ever offered, in
 * stores that keep everything, keep windows, or both. What is adopted holds the right bytes; with
 * room for all it is exactly the longest possible prefix; with little room every count still
 * agrees, nothing in use is taken away, and all memory comes back. The same with a folder of page
 * files behind, across restarts. */
#include "testlib.h"

#include "base/mem.h"
#include "prefix_rig.h"
#include "snap_fault.h"

static uint64_t name_of(const int32_t *tok, int page, int root) {
    return gy_hash64(tok, (size_t)(page + 1) * GY_PAGE * 4, 77 + (uint64_t)root);
}

static record *look(rig *r, const int32_t *tok, int page, int root) {
    uint64_t name = name_of(tok, page, root);
    for (int i = 0; i < r->n; i++)
        if (r->rec[i].prefix == name && r->rec[i].index == page) return &r->rec[i];
    return NULL;
}

/* kv.md 4.1 from the definition: does the query at len, or the write beside len - 1, need page i?
 */
static bool needs(gy_keep keep, int len, int i) {
    if (keep.policy == GY_KEEP_ALL) return i * GY_PAGE < len;
    for (int p = i * GY_PAGE; p < (i + 1) * GY_PAGE && p < len; p++)
        if (len - p < keep.window || p < keep.sinks) return true;
    return i == len / GY_PAGE && len % GY_PAGE;
}

static int expected(rig *r, const gy_kvspec *spec, const int32_t *tok, int n, int root) {
    int best = 0;
    record *path[LEN / GY_PAGE + 1];
    for (int k = 1; k * GY_PAGE < n; k++) {
        path[k - 1] = look(r, tok, k - 1, root);
        if (!path[k - 1]) break;
        bool whole = !gy_kv_state(r->kv) || path[k - 1]->has[GY_KV_GROUPS];
        for (int l = 0; l < r->layers; l++)
            for (int i = 0; i < k && spec[l].keep.policy != GY_KEEP_STATE; i++)
                whole &= !needs(spec[l].keep, k * GY_PAGE, i) ||
                         path[i]->has[gy_kv_layer_group(r->kv, l)];
        if (whole) best = k * GY_PAGE;
    }
    return best;
}

/* Tokens from few long random pieces, so that prefixes are shared, part and meet again. */
static int random_tokens(rig *r, int32_t *tok, int most) {
    int n = 1 + (int)(test_rand(&r->seed) % (unsigned)most), at = 0;
    while (at < n) {
        int piece = (int)(test_rand(&r->seed) % ALPHABET);
        int len = GY_PAGE / 2 * (1 + (int)(test_rand(&r->seed) % 4));
        for (int i = 0; i < len && at < n; i++, at++) tok[at] = piece * 1000 + i;
    }
    return n;
}

static void remember(rig *r, const struct gy_seq *seq, int root) {
    for (int i = 0; i < seq->committed / GY_PAGE; i++) {
        record *x = look(r, seq->tok, i, root);
        if (!x) {
            if (r->n == RECORDS) fail_msg("more records than expected");
            x = &r->rec[r->n++];
            *x = (record){.prefix = name_of(seq->tok, i, root), .index = i};
        }
        for (int g = 0; g < r->groups; g++) x->has[g] |= seq->group[g].at[i] != NULL;
        for (int k = 0; k < seq->state.marks; k++)
            x->has[GY_KV_GROUPS] |= seq->state.mark[k].pos == (i + 1) * GY_PAGE;
    }
}

static void replace(rig *r, const gy_kvspec *spec, int s, bool exact, int *hits) {
    int32_t tok[LEN];
    gy_err err = {0};
    int n = random_tokens(r, tok, LEN - 200), root = (int)(test_rand(&r->seed) % 8 == 0);
    gy_kv_seq_free(r->kv, r->seq[s]);
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[s], &err), err);
    int want = expected(r, spec, tok, n, root);
    int got = gy_prefix_adopt(r->prefix, &r->root[root], r->seq[s], tok, n);
    if (exact ? got != want : got > want || got % GY_PAGE)
        fail_msg("%d tokens: %d adopted, expected %s%d", n, got, exact ? "" : "at most ", want);
    assert_int_equal(r->seq[s]->len, got);
    assert_int_equal(r->seq[s]->committed, got);
    assert_memory_equal(r->seq[s]->tok, tok, (size_t)got * 4);
    check_rows(r, spec, r->seq[s], "adopted");
    r->seq_root[s] = root, *hits += got > 0;
    for (int at = got; at < n;) {
        int take = 1 + (int)(test_rand(&r->seed) % 200);
        if (take > n - at) take = n - at;
        feed(r, s, tok + at, take), at += take;
        if (test_rand(&r->seed) % 3 == 0)
            gy_prefix_offer(r->prefix, &r->root[root], r->seq[s]), remember(r, r->seq[s], root);
    }
}

static void change(rig *r, int s) {
    int32_t tok[LEN];
    struct gy_seq *seq = r->seq[s], *fork;
    gy_err err = {0};
    switch (test_rand(&r->seed) % 3) {
    case 0: /* goes on, perhaps back first, onto shared pages */
        if (test_rand(&r->seed) % 2)
            (void)gy_kv_trim(r->kv, seq,
                             seq->len - (int)(test_rand(&r->seed) % 100) % (seq->len + 1), NULL);
        if (seq->len < LEN - 150) feed(r, s, tok, random_tokens(r, tok, 150));
        break;
    case 1:
        assert_ok(gy_kv_seq_fork(r->kv, seq, &fork, &err), err);
        gy_kv_seq_free(r->kv, seq);
        r->seq[s] = fork;
        break;
    default:
        gy_prefix_offer(r->prefix, &r->root[r->seq_root[s]], seq);
        remember(r, seq, r->seq_root[s]);
    }
}

/* Writes what is in memory, all or a part of it, or ends the tree and begins a new one. */
static void persist(rig *r, int64_t budget, bool exact) {
    gy_err err = {0};
    int left = 0;
    if (test_rand(&r->seed) % 2) {
        int most = exact ? 0 : (int)(test_rand(&r->seed) % 5);
        assert_ok(gy_prefix_flush(r->prefix, most, &left, &err), err);
        assert_true(most || !left);
        for (int i = 0; exact && i < r->n; i++)
            for (int g = 0; g <= GY_KV_GROUPS; g++) r->rec[i].disk[g] |= r->rec[i].has[g];
        return;
    }
    gy_prefix_free(r->prefix);
    assert_ok(gy_prefix_new(r->kv, budget, &r->prefix, &err), err);
    gy_prefix_attach(r->prefix, r->store, &r->id, "f32");
    int kept = 0;
    for (int i = 0; exact && i < r->n; i++) {
        bool any = false;
        for (int g = 0; g <= GY_KV_GROUPS; g++) any |= r->rec[i].has[g] = r->rec[i].disk[g];
        if (any) r->rec[kept++] = r->rec[i];
    }
    if (exact) r->n = kept;
}

static void run(const char *name, const gy_kvspec *spec, int layers, int64_t budget, bool exact,
                const char *folder) {
    rig *r = calloc(1, sizeof *r);
    gy_err err = {0};
    uint64_t evicted = 0, total = 0, read = 0;
    fault lazy = {.lazy = true};
    gy_io io = fault_io(&lazy);
    int hits = 0, steps = exact ? 150 : 400;
    assert_non_null(r);
    r->seed = test_seed(), r->layers = layers, r->spec = spec;
    assert_ok(gy_kv_new(spec, layers, (SEQS + 1) * (LEN + GY_PAGE), &r->kv, &err), err);
    assert_ok(gy_prefix_new(r->kv, budget, &r->prefix, &err), err);
    r->groups = gy_kv_groups(r->kv);
    memset(&r->root[1], 1, sizeof r->root[1]);
    memset(&r->id, 2, sizeof r->id);
    if (folder) {
        assert_ok(gy_store_open(folder, all_of_it, &io, &r->store, &err), err);
        gy_prefix_attach(r->prefix, r->store, &r->id, "f32");
    }
    for (int s = 0; s < SEQS; s++) assert_ok(gy_kv_seq_new(r->kv, &r->seq[s], &err), err);
    for (int i = 0; i < steps; i++) {
        int s = (int)(test_rand(&r->seed) % SEQS);
        gy_prefix_stats st;
        if (r->store && test_rand(&r->seed) % 8 == 0) {
            gy_prefix_get_stats(r->prefix, &st);
            evicted += st.evicted, total += st.hits, read += st.read;
            persist(r, budget, exact);
            gy_prefix_get_stats(r->prefix, &st);
            evicted -= st.evicted, total -= st.hits, read -= st.read; /* 0 when it is a new one */
        } else if (test_rand(&r->seed) % 2)
            replace(r, spec, s, exact, &hits);
        else
            change(r, s);
        gy_prefix_check(r->prefix);
        if (i % 10 == 0)
            for (int k = 0; k < SEQS; k++) check_rows(r, spec, r->seq[k], "later");
    }
    gy_prefix_stats st;
    gy_prefix_get_stats(r->prefix, &st);
    evicted += st.evicted, total += st.hits, read += st.read;
    if (r->store) printf("%s: %llu pages read from files\n", name, (unsigned long long)read);
    printf("%s: %d hits, %d nodes, %lld bytes of %lld, %llu evicted, %llu tokens not computed\n",
           name, hits, st.nodes, (long long)st.bytes, (long long)budget,
           (unsigned long long)evicted, (unsigned long long)st.hit_tokens);
    assert_true(hits > 5 && total == (uint64_t)hits);
    assert_true(exact ? !evicted : evicted > 10);
    assert_true(!r->store || read > 0);
    /* Sequences outlive the tree, and then everything is free: the whole bound can be taken. */
    gy_prefix_free(r->prefix);
    for (int k = 0; k < SEQS; k++) check_rows(r, spec, r->seq[k], "after the tree");
    for (int k = 0; k < SEQS; k++) gy_kv_seq_free(r->kv, r->seq[k]);
    struct gy_seq *big;
    assert_ok(gy_kv_seq_new(r->kv, &big, &err), err);
    assert_ok(gy_kv_reserve(r->kv, big, (int)gy_kv_max_positions(r->kv), &err), err);
    if (r->groups)
        assert_int_equal(gy_kv_reserve(r->kv, big, (int)gy_kv_max_positions(r->kv) + 1, &err),
                         GY_ELIMIT);
    gy_kv_seq_free(r->kv, big);
    gy_store_close(r->store);
    gy_kv_free(r->kv);
    free(r);
}

static void test_all(void **state) {
    (void)state;
    gy_kvspec spec[] = {layer(keep_all), layer(keep_all)};
    run("all, room for everything", spec, 2, all_of_it, true, NULL);
    run("all, little room", spec, 2, 200000, false, NULL);
}

static void test_window(void **state) {
    (void)state;
    gy_kvspec spec[] = {layer(keep_all), layer(window(100, 0)), layer(window(16, 0)),
                        layer(window(64, 70))};
    run("all and windows, room for everything", spec, 4, all_of_it, true, NULL);
    run("all and windows, little room", spec, 4, 300000, false, NULL);
    gy_kvspec only[] = {layer(window(130, 0)), layer(window(1, 0))};
    run("windows alone, room for everything", only, 2, all_of_it, true, NULL);
    run("windows alone, little room", only, 2, 100000, false, NULL);
}

/* Layers with state beside others, alone, and with files. */
static void test_states(void **state) {
    (void)state;
    gy_kvspec spec[] = {layer(keep_all),
                        layer(window(100, 0)),
                        {.donor = -1, .scan = 20, .keep = {.policy = GY_KEEP_STATE}}};
    char dir[64] = "/tmp/gyre-prefix-XXXXXX", command[100];
    assert_non_null(mkdtemp(dir));
    run("state and others, room for everything", spec, 3, all_of_it, true, NULL);
    run("state and others, little room", spec, 3, 300000, false, NULL);
    run("state alone, room for everything", spec + 2, 1, all_of_it, true, NULL);
    run("state alone, little room", spec + 2, 1, 15000, false, NULL);
    run("state and others, with files", spec, 3, all_of_it, true, dir);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void test_files(void **state) {
    (void)state;
    static const gy_keep w = {.policy = GY_KEEP_WINDOW, .window = 100};
    gy_kvspec spec[] = {layer(keep_all), layer(w), layer(window(64, 70))};
    for (int turn = 0; turn < 4; turn++) {
        char dir[64] = "/tmp/gyre-prefix-XXXXXX", command[100];
        assert_non_null(mkdtemp(dir));
        if (turn < 2)
            run("all, with files", spec, 1, turn ? 300000 : all_of_it, !turn, dir);
        else
            run("all and windows, with files", spec, 3, turn == 3 ? 500000 : all_of_it, turn == 2,
                dir);
        snprintf(command, sizeof command, "rm -rf %s", dir);
        assert_int_equal(system(command), 0);
    }
}

/* Every failed call while writing or reading makes less be found, and what is found is right. */
static void test_file_failures(void **state) {
    (void)state;
    gy_kvspec spec[] = {layer(keep_all), layer(window(50, 0))};
    gy_err err = {0};
    int32_t tok[300];
    int misses = 0, partial = 0, calls = 0;
    for (int i = 0; i < 300; i++) tok[i] = i;
    for (int reading = 0; reading < 2; reading++)
        for (long at = 1, past = 0; !past; at++, calls++) {
            char dir[64] = "/tmp/gyre-prefix-XXXXXX", command[100];
            fault f = {0};
            gy_io io = fault_io(&f);
            f.lazy = true;
            rig *r = calloc(1, sizeof *r);
            assert_non_null(r);
            assert_non_null(mkdtemp(dir));
            r->layers = 2, r->spec = spec;
            assert_ok(gy_kv_new(spec, 2, 2000, &r->kv, &err), err);
            assert_ok(gy_store_open(dir, all_of_it, &io, &r->store, &err), err);
            assert_ok(gy_prefix_new(r->kv, all_of_it, &r->prefix, &err), err);
            gy_prefix_attach(r->prefix, r->store, &r->id, "f32");
            assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
            feed(r, 0, tok, 300);
            gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
            f.calls = 0, f.fail_at = reading ? 0 : at;
            gy_rc rc = gy_prefix_flush(r->prefix, 0, NULL, &err);
            if (!reading) past = f.calls < at;
            assert_true(rc == GY_OK || rc == GY_EIO), err = (gy_err){0};
            gy_prefix_free(r->prefix);
            assert_ok(gy_prefix_new(r->kv, all_of_it, &r->prefix, &err), err);
            gy_prefix_attach(r->prefix, r->store, &r->id, "f32");
            assert_ok(gy_kv_seq_new(r->kv, &r->seq[1], &err), err);
            f.calls = 0, f.fail_at = reading ? at : 0;
            int got = gy_prefix_adopt(r->prefix, &r->root[0], r->seq[1], tok, 300);
            if (reading) past = f.calls < at;
            check_rows(r, spec, r->seq[1], "after a failed call");
            gy_prefix_check(r->prefix);
            misses += !got, partial += got && got < 256;
            if (rc == GY_OK && !reading && got != 256) fail_msg("flushed, but %d found", got);
            /* A page read badly once is not lost: the next reader has it. */
            f.fail_at = 0;
            gy_kv_seq_free(r->kv, r->seq[1]);
            assert_ok(gy_kv_seq_new(r->kv, &r->seq[1], &err), err);
            got = gy_prefix_adopt(r->prefix, &r->root[0], r->seq[1], tok, 300);
            if (reading && got != 256) fail_msg("call %ld: then %d found", at, got);
            gy_kv_seq_free(r->kv, r->seq[0]), gy_kv_seq_free(r->kv, r->seq[1]);
            gy_prefix_free(r->prefix), gy_store_close(r->store), gy_kv_free(r->kv);
            free(r);
            snprintf(command, sizeof command, "rm -rf %s", dir);
            assert_int_equal(system(command), 0);
        }
    printf("file failures: %d calls, %d misses, %d shorter prefixes\n", calls, misses, partial);
    assert_true(calls > 50 && misses > 0 && partial > 0);
}

/* The pages of the tree are outside the store's bound until they are used, and a prefix that does
 * not fit is a miss. */
static void test_bound(void **state) {
    (void)state;
    gy_kvspec spec = layer(keep_all);
    gy_err err = {0};
    rig *r = calloc(1, sizeof *r);
    int32_t tok[LEN];
    gy_prefix_stats st;
    assert_non_null(r);
    r->layers = 1, r->spec = &spec;
    assert_ok(gy_kv_new(&spec, 1, 4 * GY_PAGE, &r->kv, &err), err);
    assert_ok(gy_prefix_new(r->kv, all_of_it, &r->prefix, &err), err);
    for (int turn = 0; turn < 3; turn++) { /* 3 x 4 pages, though the bound is 4 */
        for (int i = 0; i < LEN; i++) tok[i] = turn + i;
        assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
        feed(r, 0, tok, 4 * GY_PAGE);
        gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
        gy_kv_seq_free(r->kv, r->seq[0]);
    }
    gy_prefix_get_stats(r->prefix, &st);
    assert_int_equal(st.nodes, 12);
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[1], &err), err);
    assert_int_equal(gy_prefix_adopt(r->prefix, &r->root[0], r->seq[0], tok, LEN), 4 * GY_PAGE);
    /* The same pages once more cost nothing. */
    assert_int_equal(gy_prefix_adopt(r->prefix, &r->root[0], r->seq[1], tok, LEN), 4 * GY_PAGE);
    assert_int_equal(gy_kv_reserve(r->kv, r->seq[1], 1, &err), GY_ELIMIT);
    gy_kv_seq_free(r->kv, r->seq[1]);
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[1], (err = (gy_err){0}, &err)), err);
    for (int i = 0; i < LEN; i++) tok[i] = i;
    assert_int_equal(gy_prefix_adopt(r->prefix, &r->root[0], r->seq[1], tok, LEN), 0);
    assert_int_equal(r->seq[1]->len, 0);
    gy_kv_seq_free(r->kv, r->seq[0]);
    assert_int_equal(gy_prefix_adopt(r->prefix, &r->root[0], r->seq[1], tok, LEN), 4 * GY_PAGE);
    check_rows(r, &spec, r->seq[1], "bound");
    gy_kv_seq_free(r->kv, r->seq[1]);
    gy_prefix_check(r->prefix);
    gy_prefix_free(r->prefix);
    gy_kv_free(r->kv);
    free(r);
}

/* The least recently used leaf goes first; a budget too small for one page keeps nothing. */
static void test_order(void **state) {
    (void)state;
    gy_kvspec spec = layer(keep_all);
    gy_err err = {0};
    rig *r = calloc(1, sizeof *r);
    int32_t tok[4][2 * GY_PAGE + 1];
    gy_prefix_stats st;
    assert_non_null(r);
    r->layers = 1, r->spec = &spec;
    assert_ok(gy_kv_new(&spec, 1, LEN, &r->kv, &err), err);
    for (int pass = 0; pass < 2; pass++) {
        int64_t budget = pass ? 1000 : all_of_it;
        if (!pass) { /* how much three prefixes of two pages take */
            budget = 3 * 2 * (int64_t)(gy_kv_group_bytes(r->kv, 0) + 512);
        }
        assert_ok(gy_prefix_new(r->kv, budget, &r->prefix, &err), err);
        for (int k = 0; k < 4; k++) {
            for (int i = 0; i <= 2 * GY_PAGE; i++) tok[k][i] = 1000 * k + i;
            if (k == 3 && !pass) { /* 0 is used again: 1 is the oldest now */
                assert_ok(gy_kv_seq_new(r->kv, &r->seq[1], &err), err);
                assert_int_equal(
                    gy_prefix_adopt(r->prefix, &r->root[0], r->seq[1], tok[0], 2 * GY_PAGE + 1),
                    2 * GY_PAGE);
                gy_kv_seq_free(r->kv, r->seq[1]);
            }
            assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
            feed(r, 0, tok[k], 2 * GY_PAGE);
            gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
            gy_kv_seq_free(r->kv, r->seq[0]);
            gy_prefix_check(r->prefix);
        }
        static const int want[4] = {2 * GY_PAGE, 0, 2 * GY_PAGE, 2 * GY_PAGE};
        for (int k = 0; k < 4; k++) {
            assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
            int got = gy_prefix_adopt(r->prefix, &r->root[0], r->seq[0], tok[k], 2 * GY_PAGE + 1);
            if (got != (pass ? 0 : want[k])) fail_msg("pass %d prefix %d: %d", pass, k, got);
            gy_kv_seq_free(r->kv, r->seq[0]);
        }
        gy_prefix_get_stats(r->prefix, &st);
        assert_true(st.bytes <= budget);
        gy_prefix_free(r->prefix);
    }
    gy_kv_free(r->kv);
    free(r);
}

/* Any allocation may fail: then less is found or kept, and nothing else changes. */
static void test_memory(void **state) {
    (void)state;
    gy_kvspec spec[] = {layer(keep_all), layer(window(50, 0))};
    gy_err err = {0};
    int32_t tok[300];
    for (int i = 0; i < 300; i++) tok[i] = i;
    for (long n = 1, failures = 1; failures; n++) {
        rig *r = calloc(1, sizeof *r);
        assert_non_null(r);
        r->layers = 2, r->spec = spec;
        assert_ok(gy_kv_new(spec, 2, 2000, &r->kv, &err), err);
        assert_ok(gy_prefix_new(r->kv, all_of_it, &r->prefix, &err), err);
        assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
        feed(r, 0, tok, 300);
        assert_ok(gy_kv_seq_new(r->kv, &r->seq[1], &err), err);
        long before = gy_alloc_count();
        gy_alloc_fail_at(n);
        gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
        int got = gy_prefix_adopt(r->prefix, &r->root[0], r->seq[1], tok, 300);
        failures = gy_alloc_count() - before >= n;
        gy_alloc_fail_at(0);
        gy_prefix_check(r->prefix);
        check_rows(r, spec, r->seq[1], "after a failed allocation");
        if (!failures && got != 256) fail_msg("%d adopted, expected 256", got);
        gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]); /* the failure was single */
        gy_kv_seq_free(r->kv, r->seq[1]);
        assert_ok(gy_kv_seq_new(r->kv, &r->seq[1], &err), err);
        got = gy_prefix_adopt(r->prefix, &r->root[0], r->seq[1], tok, 300);
        if (got != 256) fail_msg("after allocation %ld: %d adopted, expected 256", n, got);
        gy_kv_seq_free(r->kv, r->seq[0]), gy_kv_seq_free(r->kv, r->seq[1]);
        gy_prefix_free(r->prefix), gy_kv_free(r->kv);
        free(r);
    }
}

/* A sequence whose pages the tree keeps under one root is offered under another, as a conversation
 * is whose requests have different salts: nobody finds them there, and nothing breaks. */
static void test_two_roots(void **state) {
    (void)state;
    gy_kvspec spec = layer(keep_all);
    gy_err err = {0};
    rig *r = calloc(1, sizeof *r);
    int32_t tok[LEN];
    assert_non_null(r);
    r->layers = 1, r->spec = &spec;
    memset(&r->root[1], 1, sizeof r->root[1]);
    for (int i = 0; i < LEN; i++) tok[i] = i;
    assert_ok(gy_kv_new(&spec, 1, 2 * LEN, &r->kv, &err), err);
    assert_ok(gy_prefix_new(r->kv, all_of_it, &r->prefix, &err), err);
    for (int s = 0; s < 2; s++) assert_ok(gy_kv_seq_new(r->kv, &r->seq[s], &err), err);
    feed(r, 0, tok, 2 * GY_PAGE);
    gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
    gy_prefix_offer(r->prefix, &r->root[1], r->seq[0]);
    gy_prefix_check(r->prefix);
    assert_int_equal(gy_prefix_adopt(r->prefix, &r->root[1], r->seq[1], tok, LEN), 0);
    assert_int_equal(gy_prefix_adopt(r->prefix, &r->root[0], r->seq[1], tok, LEN), 2 * GY_PAGE);
    check_rows(r, &spec, r->seq[1], "two roots");
    /* What only the second root has seen is found under it once its own pages are there. */
    gy_kv_seq_free(r->kv, r->seq[1]);
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[1], &err), err);
    feed(r, 1, tok, 3 * GY_PAGE);
    gy_prefix_offer(r->prefix, &r->root[1], r->seq[1]);
    gy_kv_seq_free(r->kv, r->seq[1]);
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[1], &err), err);
    assert_int_equal(gy_prefix_adopt(r->prefix, &r->root[1], r->seq[1], tok, LEN), 3 * GY_PAGE);
    check_rows(r, &spec, r->seq[1], "the second root");
    gy_prefix_check(r->prefix);
    for (int s = 0; s < 2; s++) gy_kv_seq_free(r->kv, r->seq[s]);
    gy_prefix_free(r->prefix);
    gy_kv_free(r->kv);
    free(r);
}

/* A folder holds a prefix of more pages than the budget: reading it lets nodes go that were just
 * made. */
static void test_large_folder(void **state) {
    (void)state;
    gy_kvspec spec = layer(keep_all);
    gy_err err = {0};
    char dir[64] = "/tmp/gyre-prefix-XXXXXX", command[100];
    int32_t tok[LEN];
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < LEN; i++) tok[i] = i;
    for (int pages = 9; pages; pages--) { /* the first writes them all */
        rig *r = calloc(1, sizeof *r);
        fault lazy = {.lazy = true};
        gy_io io = fault_io(&lazy);
        assert_non_null(r);
        r->layers = 1, r->spec = &spec;
        memset(&r->id, 2, sizeof r->id);
        assert_ok(gy_kv_new(&spec, 1, LEN, &r->kv, &err), err);
        int64_t budget = pages * (int64_t)(gy_kv_group_bytes(r->kv, 0) + 512);
        assert_ok(gy_prefix_new(r->kv, pages == 9 ? all_of_it : budget, &r->prefix, &err), err);
        assert_ok(gy_store_open(dir, all_of_it, &io, &r->store, &err), err);
        gy_prefix_attach(r->prefix, r->store, &r->id, "f32");
        for (int turn = 0; turn < 2; turn++) {
            assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
            int got = gy_prefix_adopt(r->prefix, &r->root[0], r->seq[0], tok, LEN);
            gy_prefix_check(r->prefix);
            int room = pages < 8 ? pages : 8; /* what fits is had, not nothing */
            if (pages < 9 && got != room * GY_PAGE)
                fail_msg("room for %d pages: %d positions", pages, got);
            if (!got) feed(r, 0, tok, 8 * GY_PAGE);
            check_rows(r, &spec, r->seq[0], "a large folder");
            gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
            assert_ok(gy_prefix_flush(r->prefix, 0, NULL, &err), err);
            gy_prefix_check(r->prefix);
            gy_kv_seq_free(r->kv, r->seq[0]);
        }
        gy_prefix_free(r->prefix);
        gy_store_close(r->store);
        gy_kv_free(r->kv);
        free(r);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* A sequence that went back to its beginning to feed its tokens again is not empty. */
static void test_waiting_tokens(void **state) {
    (void)state;
    gy_kvspec spec[] = {layer(keep_all),
                        {.donor = -1, .scan = 20, .keep = {.policy = GY_KEEP_STATE}}};
    gy_err err = {0};
    rig *r = calloc(1, sizeof *r);
    int32_t tok[LEN];
    assert_non_null(r);
    r->layers = 2, r->spec = spec;
    for (int i = 0; i < LEN; i++) tok[i] = i;
    assert_ok(gy_kv_new(spec, 2, 2 * LEN, &r->kv, &err), err);
    assert_ok(gy_prefix_new(r->kv, all_of_it, &r->prefix, &err), err);
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
    feed(r, 0, tok, 2 * GY_PAGE);
    gy_prefix_offer(r->prefix, &r->root[0], r->seq[0]);
    gy_kv_seq_free(r->kv, r->seq[0]);
    assert_ok(gy_kv_seq_new(r->kv, &r->seq[0], &err), err);
    feed(r, 0, tok + 7, 50);
    assert_ok(gy_kv_trim(r->kv, r->seq[0], 30, &err), err);
    assert_int_equal(r->seq[0]->len, 0);
    assert_int_equal(r->seq[0]->replay, 30);
    assert_int_equal(gy_prefix_adopt(r->prefix, &r->root[0], r->seq[0], tok, LEN), 0);
    assert_int_equal(r->seq[0]->replay, 30);
    assert_memory_equal(r->seq[0]->tok, tok + 7, 30 * sizeof *tok);
    gy_kv_seq_free(r->kv, r->seq[0]);
    gy_prefix_free(r->prefix);
    gy_kv_free(r->kv);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),         cmocka_unit_test(test_all),
        cmocka_unit_test(test_window),         cmocka_unit_test(test_bound),
        cmocka_unit_test(test_order),          cmocka_unit_test(test_memory),
        cmocka_unit_test(test_files),          cmocka_unit_test(test_file_failures),
        cmocka_unit_test(test_two_roots),      cmocka_unit_test(test_large_folder),
        cmocka_unit_test(test_waiting_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
