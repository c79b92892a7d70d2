/* run/prefix - the tree of prefixes. See prefix.h. */
#include "run/prefix.h"

#include <string.h>

#include "base/mem.h"

typedef struct node node;
struct node {
    gy_digest before, name; /* before: the parent's name, or the root */
    node *parent;           /* NULL: page 0 of its root */
    node *next;             /* bucket */
    node *newer, *older; /* use; a parent is never older than its child, so the oldest is a leaf */
    int index, children;
    int32_t tok[GY_PAGE];
    gy_page *page[GY_KV_GROUPS]; /* NULL: not offered yet */
    gy_state_block *state;       /* behind the page; NULL: no mark was there, or no such layers */
    bool stored[GY_SNAP_STATE + 1]; /* files known to be there */
};

struct gy_prefix {
    gy_kv *kv;
    gy_state_pool *states; /* NULL: no recurrent layers */
    int groups;
    size_t buckets; /* a power of two */
    node **bucket;  /* [buckets] */
    node *newest, *oldest;
    gy_prefix_stats stats;
    gy_store *store; /* NULL: none */
    const gy_identity *id;
    const char *kv_name;
    bool mute; /* a page that left memory could not be written: none is, until a flush can */
};

enum { BUCKETS = 64 };

gy_rc gy_prefix_new(gy_kv *kv, int64_t budget, gy_prefix **prefix, gy_err *err) {
    gy_prefix *p = gy_alloc(sizeof *p);
    if (p) p->bucket = gy_alloc_n(BUCKETS, sizeof *p->bucket);
    if (!p || !p->bucket)
        return gy_free(p), gy_fail(err, GY_ENOMEM, "out of memory for the prefix tree");
    p->kv = kv, p->states = gy_kv_state(kv), p->groups = gy_kv_groups(kv), p->buckets = BUCKETS;
    p->stats.budget = budget;
    *prefix = p;
    return GY_OK;
}

/* ---- Finding ---- */

static size_t slot_of(const gy_prefix *p, const gy_digest *name) {
    uint64_t h;
    memcpy(&h, name, sizeof h); /* a digest is as good as a hash of it */
    return (size_t)h & (p->buckets - 1);
}

/* The tokens are compared too: a digest alone never decides whose pages are used. */
static node *find(const gy_prefix *p, const gy_digest *name, int index, const int32_t *tok) {
    for (node *x = p->bucket[slot_of(p, name)]; x; x = x->next)
        if (gy_digest_equal(&x->name, name))
            return x->index == index && !memcmp(x->tok, tok, sizeof x->tok) ? x : NULL;
    return NULL;
}

/* Doubles the buckets; without memory for it chains just grow longer. */
static void spread(gy_prefix *p) {
    node **old = p->bucket, **bucket = gy_alloc_n(p->buckets * 2, sizeof *bucket);
    if (!bucket) return;
    size_t n = p->buckets;
    p->bucket = bucket, p->buckets *= 2;
    for (size_t i = 0; i < n; i++)
        for (node *x = old[i], *next; x; x = next) {
            next = x->next;
            node **at = &bucket[slot_of(p, &x->name)];
            x->next = *at, *at = x;
        }
    gy_free(old);
}

/* ---- Order of use ---- */

static void unlink_use(gy_prefix *p, node *x) {
    *(x->newer ? &x->newer->older : &p->newest) = x->older;
    *(x->older ? &x->older->newer : &p->oldest) = x->newer;
    x->newer = x->older = NULL;
}

static void link_newest(gy_prefix *p, node *x) {
    x->older = p->newest, x->newer = NULL;
    *(p->newest ? &p->newest->newer : &p->oldest) = x;
    p->newest = x;
}

/* From the leaf to the root, which ends newest. */
static void touch(gy_prefix *p, node *leaf) {
    for (node *x = leaf; x; x = x->parent) unlink_use(p, x), link_newest(p, x);
}

/* ---- Leaving ---- */

static int64_t page_bytes(const gy_prefix *p, int g) {
    return gy_kv_page_cost(p->kv, g);
}

static bool used(const gy_prefix *p, const node *x) {
    for (int g = 0; g < p->groups; g++)
        if (x->page[g] && !gy_kv_page_idle(x->page[g])) return true;
    return false;
}

static void drop(gy_prefix *p, node *x) {
    node **at = &p->bucket[slot_of(p, &x->name)];
    while (*at != x) at = &(*at)->next;
    *at = x->next;
    unlink_use(p, x);
    if (x->parent) x->parent->children--;
    for (int g = 0; g < p->groups; g++)
        if (x->page[g]) {
            p->stats.bytes -= page_bytes(p, g);
            gy_kv_page_unkeep(p->kv, g, x->page[g]);
        }
    if (x->state) {
        p->stats.bytes -= gy_state_block_bytes(p->states);
        gy_state_unshare(p->states, x->state);
    }
    p->stats.bytes -= (int64_t)sizeof *x;
    p->stats.nodes--;
    gy_free(x);
}

/* ---- Writing ---- */

static gy_store_page page_of(const gy_prefix *p, const node *x, int g) {
    bool state = g == GY_SNAP_STATE;
    return (gy_store_page){.id = p->id,
                           .before = &x->before,
                           .name = &x->name,
                           .tok = x->tok,
                           .index = x->index,
                           .group = g,
                           .bytes = state ? (size_t)gy_state_block_bytes(p->states)
                                          : gy_kv_group_bytes(p->kv, g)};
}

static bool has_page(const gy_prefix *p, const node *x, int g) {
    return g == GY_SNAP_STATE ? x->state != NULL : g < p->groups && x->page[g];
}

/* Writes x's page g unless the store has it. */
static gy_rc write_page(gy_prefix *p, node *x, int g, gy_err *err) {
    gy_store_page page = page_of(p, x, g);
    const void *data =
        g == GY_SNAP_STATE ? gy_state_block_data(x->state) : gy_kv_page_data(x->page[g]);
    gy_rc rc = gy_store_put(p->store, &page, p->kv_name, data, err);
    x->stored[g] = rc == GY_OK;
    return rc;
}

/* What leaves memory is written first. A folder smaller than the memory would not keep it, and a
 * disk that took no page will not take the next one. */
static void write_behind(gy_prefix *p, node *x) {
    bool wanted = p->store && !p->mute && p->stats.bytes <= gy_store_cap(p->store);
    for (int g = 0; p->store && g <= GY_SNAP_STATE; g++) {
        if (!has_page(p, x, g) || x->stored[g]) continue;
        if (wanted && !p->mute && write_page(p, x, g, NULL)) p->mute = true;
        p->stats.lost += !x->stored[g];
    }
    if (p->store && gy_store_crowded(p->store)) gy_store_sweep(p->store);
}

/* Lets leaves go until `more` bytes fit; stays is not to go. False when too much is in use. */
static bool make_room(gy_prefix *p, int64_t more, const node *stays) {
    if (more > p->stats.budget) return false;
    for (node *x = p->oldest, *newer; x && p->stats.bytes > p->stats.budget - more; x = newer) {
        newer = x->newer;
        if (x->children || x == stays || used(p, x)) continue;
        /* Its parent may be the next leaf, and is the next newer one or later. */
        write_behind(p, x);
        drop(p, x), p->stats.evicted++;
    }
    return p->stats.bytes <= p->stats.budget - more;
}

void gy_prefix_free(gy_prefix *p) {
    if (!p) return;
    while (p->oldest) drop(p, p->oldest);
    gy_free(p->bucket);
    gy_free(p);
}

/* ---- Adopting ---- */

/* Whether the first k pages of the path let a sequence of k pages go on. */
static bool suffices(const gy_prefix *p, node *const *path, int k) {
    if (p->states && !path[k - 1]->state) return false;
    for (int g = 0; g < p->groups; g++) {
        if (!gy_kv_group_bytes(p->kv, g)) continue;
        for (int i = k - 1; i >= 0; i--)
            if (!path[i]->page[g] && gy_kv_page_needed(p->kv, g, k * GY_PAGE, i)) return false;
    }
    return true;
}

/* The nodes of ids' full pages, as far as they are there; at most `most`. */
static int walk(const gy_prefix *p, const gy_digest *root, const int32_t *ids, int most,
                node **path) {
    gy_digest name = *root;
    for (int i = 0; i < most; i++) {
        if (!gy_chain_next(&name, ids + i * GY_PAGE, &name)) return i;
        path[i] = find(p, &name, i, ids + i * GY_PAGE);
        if (!path[i]) return i;
    }
    return most;
}

/* Page table of group g for a sequence of k pages: what it needs, and behind a window as much of
 * the slack as is there without a gap. */
static void choose(const gy_prefix *p, node *const *path, int k, int g, gy_page **at) {
    bool gap = false;
    for (int i = k - 1; i >= 0; i--) {
        bool needed = gy_kv_page_needed(p->kv, g, k * GY_PAGE, i);
        bool slack = i && gy_kv_page_needed(p->kv, g, (k - 1) * GY_PAGE, i);
        gap |= !needed && !path[i]->page[g];
        at[i] = needed || (slack && !gap) ? path[i]->page[g] : NULL;
    }
}

static bool give(const gy_prefix *p, node *const *path, int k, struct gy_seq *seq,
                 const int32_t *ids) {
    gy_page **all = gy_alloc_n((size_t)k * (size_t)p->groups + 1, sizeof *all);
    gy_page *const *at[GY_KV_GROUPS] = {0};
    if (!all) return false;
    for (int g = 0; g < p->groups; g++) {
        gy_page **mine = all + (size_t)g * (size_t)k;
        if (gy_kv_group_bytes(p->kv, g)) choose(p, path, k, g, mine);
        at[g] = mine;
    }
    gy_rc rc = gy_kv_seq_adopt(p->kv, seq, ids, k * GY_PAGE, 0, at, NULL);
    gy_free(all);
    if (!rc && p->states) gy_state_begin(&seq->state, k * GY_PAGE, path[k - 1]->state);
    return rc == GY_OK;
}

/* ---- Offering ---- */

static node *add(gy_prefix *p, const gy_digest *before, const gy_digest *name, node *parent,
                 int index, const int32_t *tok) {
    if (!make_room(p, (int64_t)sizeof(node), parent)) return NULL;
    node *x = gy_alloc(sizeof *x);
    if (!x) return NULL;
    if ((size_t)p->stats.nodes >= p->buckets) spread(p);
    x->before = *before, x->name = *name, x->parent = parent, x->index = index;
    memcpy(x->tok, tok, sizeof x->tok);
    node **at = &p->bucket[slot_of(p, name)];
    x->next = *at, *at = x;
    link_newest(p, x);
    if (parent) parent->children++;
    p->stats.nodes++, p->stats.bytes += (int64_t)sizeof *x;
    return x;
}

/* Keeps what seq has of page x->index; false when the budget does not allow it. */
static bool keep_pages(gy_prefix *p, node *x, const struct gy_seq *seq) {
    for (int g = 0; g < p->groups; g++) {
        gy_page *page = x->index < seq->group[g].n ? seq->group[g].at[x->index] : NULL;
        /* Kept already: under another root, since requests of one sequence may differ in salt. */
        if (!page || x->page[g] || gy_kv_page_kept(page)) continue;
        if (!make_room(p, page_bytes(p, g), x)) return false;
        gy_kv_page_keep(p->kv, g, page);
        x->page[g] = page;
        p->stats.bytes += page_bytes(p, g);
    }
    if (!p->states || x->state) return true;
    int64_t more = gy_state_block_bytes(p->states);
    x->state = gy_state_share(&seq->state, (x->index + 1) * GY_PAGE);
    if (!x->state) return true;
    p->stats.bytes += more; /* before, so that x is whole whatever happens */
    if (make_room(p, 0, x)) return true;
    gy_state_unshare(p->states, x->state);
    x->state = NULL, p->stats.bytes -= more;
    return false;
}

void gy_prefix_offer(gy_prefix *p, const gy_digest *root, const struct gy_seq *seq) {
    gy_digest before = *root, name;
    node *last = NULL;
    if (gy_kv_recoded(seq)) return;
    for (int i = 0; i < seq->committed / GY_PAGE; i++) {
        const int32_t *tok = seq->tok + i * GY_PAGE;
        if (!gy_chain_next(&before, tok, &name)) break;
        node *x = find(p, &name, i, tok);
        if (!x) x = add(p, &before, &name, last, i, tok);
        if (!x) break;
        last = x, before = name;
        if (!keep_pages(p, x, seq)) break;
    }
    touch(p, last);
}

/* ---- The store behind ---- */

void gy_prefix_attach(gy_prefix *p, gy_store *store, const gy_identity *id, const char *kv_name) {
    p->store = store, p->id = id, p->kv_name = kv_name;
}

/* A prefix of ids on its way from the store: nodes as far as they are there, names, and which page
 * files are there. */
typedef struct {
    const gy_digest *root;
    const int32_t *ids;
    node **path;                     /* [n], NULL from the first that is not in memory */
    gy_digest *name;                 /* [n] */
    bool (*disk)[GY_SNAP_STATE + 1]; /* [n] */
    int n;
} trail;

/* Looks how far memory and store together reach. */
static void scout(gy_prefix *p, trail *t, int most) {
    gy_digest name = *t->root;
    for (t->n = 0; t->n < most; t->n++) {
        int i = t->n;
        bool any = t->path[i] != NULL;
        if (!gy_chain_next(&name, t->ids + i * GY_PAGE, &name)) return;
        t->name[i] = name;
        for (int g = 0; g < p->groups; g++) {
            if (!gy_kv_group_bytes(p->kv, g) || (t->path[i] && t->path[i]->page[g])) continue;
            t->disk[i][g] = gy_store_has(p->store, &name, g);
            any |= t->disk[i][g];
        }
        if (p->states && !(t->path[i] && t->path[i]->state))
            any |= t->disk[i][GY_SNAP_STATE] = gy_store_has(p->store, &name, GY_SNAP_STATE);
        if (!any) return;
    }
}

/* What does not fit the budget as a whole is not begun: its last pages would push out the first. */
static bool reachable(const gy_prefix *p, const trail *t, int k) {
    int64_t bytes = (int64_t)k * (int64_t)sizeof(node) + gy_state_block_bytes(p->states);
    if (p->states && !t->disk[k - 1][GY_SNAP_STATE] && !(t->path[k - 1] && t->path[k - 1]->state))
        return false;
    for (int g = 0; g < p->groups; g++)
        for (int i = k - 1; i >= 0; i--) {
            if (!gy_kv_page_needed(p->kv, g, k * GY_PAGE, i)) continue;
            bytes += page_bytes(p, g);
            if (!t->disk[i][g] && (!t->path[i] || !t->path[i]->page[g])) return false;
        }
    return bytes <= p->stats.budget;
}

/* Reads page g of node x; the deepest node of the path stays whatever has to go for it. */
static bool read_page(gy_prefix *p, node *x, int g, const node *deepest) {
    gy_page *page;
    gy_store_page want = page_of(p, x, g);
    if (!make_room(p, page_bytes(p, g), deepest) || gy_kv_page_take(p->kv, g, &page, NULL))
        return false;
    bool ok = gy_store_get(p->store, &want, gy_kv_page_data(page));
    if (ok) {
        gy_kv_page_keep(p->kv, g, page);
        x->page[g] = page, x->stored[g] = true;
        p->stats.bytes += page_bytes(p, g), p->stats.read++;
    }
    gy_kv_page_unref(p->kv, g, page);
    return ok;
}

static bool read_state(gy_prefix *p, node *x) {
    gy_store_page want = page_of(p, x, GY_SNAP_STATE);
    if (!make_room(p, gy_state_block_bytes(p->states), x)) return false;
    gy_state_block *block = gy_state_block_new(p->states);
    if (!block) return false;
    if (!gy_store_get(p->store, &want, gy_state_block_data(block)))
        return gy_state_unshare(p->states, block), false;
    x->state = block, x->stored[GY_SNAP_STATE] = true;
    p->stats.bytes += gy_state_block_bytes(p->states), p->stats.read++;
    return true;
}

/* Brings what a sequence of k pages needs into memory. What cannot be had is struck out. */
static bool fetch(gy_prefix *p, trail *t, int k) {
    for (int i = 0; i < k; i++) {
        if (t->path[i]) continue;
        t->path[i] = add(p, i ? &t->name[i - 1] : t->root, &t->name[i], i ? t->path[i - 1] : NULL,
                         i, t->ids + i * GY_PAGE);
        if (!t->path[i]) return t->n = i, false;
    }
    for (int g = 0; g < p->groups; g++)
        for (int i = k - 1; i >= 0; i--) {
            if (t->path[i]->page[g] || !gy_kv_page_needed(p->kv, g, k * GY_PAGE, i)) continue;
            if (!read_page(p, t->path[i], g, t->path[k - 1])) return t->disk[i][g] = false, false;
        }
    if (p->states && !t->path[k - 1]->state && !read_state(p, t->path[k - 1]))
        return t->disk[k - 1][GY_SNAP_STATE] = false, false;
    return true;
}

/* The longest prefix with the store's help: more than the k pages that memory has, or k. */
static int extend(gy_prefix *p, trail *t, int most, int k) {
    int best = k;
    t->name = gy_alloc_n((size_t)most, sizeof *t->name);
    t->disk = gy_alloc_n((size_t)most, sizeof *t->disk);
    if (t->name && t->disk) {
        scout(p, t, most);
        /* Each failure strikes something out, so this ends. */
        for (int longer = t->n; longer > k;) {
            if (!reachable(p, t, longer)) {
                longer--;
                continue;
            }
            /* Fetching may let the nodes behind go. */
            for (int i = longer; i < most; i++) t->path[i] = NULL;
            bool whole = fetch(p, t, longer);
            if (whole) best = longer;
            if (longer > t->n) longer = t->n;
            /* What was added stands newest yet, in front of its parents. */
            if (longer) touch(p, t->path[longer - 1]);
            if (whole) break;
        }
    }
    gy_free(t->name);
    gy_free(t->disk);
    return best;
}

int gy_prefix_adopt(gy_prefix *p, const gy_digest *root, struct gy_seq *seq, const int32_t *ids,
                    int n) {
    int most = n > 0 ? (n - 1) / GY_PAGE : 0, k = 0;
    if (seq->len || seq->replay || !most || gy_kv_recoded(seq)) return 0;
    node **path = gy_alloc_n((size_t)most, sizeof *path);
    if (path) {
        k = walk(p, root, ids, most, path);
        while (k && !suffices(p, path, k)) k--;
        if (p->store && k < most)
            k = extend(p, &(trail){.root = root, .ids = ids, .path = path}, most, k);
        if (k && !give(p, path, k, seq, ids)) k = 0;
        if (k) touch(p, path[k - 1]);
    }
    gy_free(path);
    p->stats.hits += k > 0, p->stats.misses += k == 0;
    p->stats.hit_tokens += (uint64_t)k * GY_PAGE;
    return k * GY_PAGE;
}

gy_rc gy_prefix_flush(gy_prefix *p, int most, int *left, gy_err *err) {
    gy_rc rc = GY_OK;
    int wrote = 0, rest = 0;
    int64_t room = p->store ? gy_store_cap(p->store) : 0;
    /* From the newest on: parents come before their children, and what the folder does not hold
     * beside them would only be swept. */
    for (node *x = p->store ? p->newest : NULL; x && room >= 0; x = x->older)
        for (int g = 0; g <= GY_SNAP_STATE && room >= 0; g++) {
            if (!has_page(p, x, g)) continue;
            room -= GY_SNAP_ALIGN + (int64_t)page_of(p, x, g).bytes;
            /* A file that was there may have been swept by another process meanwhile. */
            if (room < 0 || (most && x->stored[g])) continue;
            if (!rc && (!most || wrote < most)) rc = write_page(p, x, g, err), wrote += !rc;
            rest += !x->stored[g];
        }
    if (wrote && !most && !rc) rc = gy_store_sync(p->store, err);
    if (wrote) p->mute = false;
    if (wrote && (!most || !rest || gy_store_crowded(p->store))) gy_store_sweep(p->store);
    if (left) *left = rest;
    return rc;
}

/* ---- Reports ---- */

void gy_prefix_get_stats(const gy_prefix *p, gy_prefix_stats *stats) {
    *stats = p->stats;
}

void gy_prefix_check(const gy_prefix *p) {
    int64_t bytes = 0;
    int nodes = 0, children = 0, linked = 0, with_parent = 0;
    for (size_t b = 0; b < p->buckets; b++)
        for (const node *x = p->bucket[b]; x; x = x->next) {
            GY_ASSERT(slot_of(p, &x->name) == b);
            GY_ASSERT(x->parent ? x->index == x->parent->index + 1 : x->index == 0);
            bytes += (int64_t)sizeof *x;
            nodes++, children += x->children, with_parent += x->parent != NULL;
            for (int g = 0; g < p->groups; g++)
                if (x->page[g]) bytes += page_bytes(p, g);
            if (x->state) bytes += gy_state_block_bytes(p->states);
        }
    GY_ASSERT(nodes == p->stats.nodes && bytes == p->stats.bytes && children == with_parent);
    GY_ASSERT(bytes <= p->stats.budget || !nodes);
    for (const node *x = p->newest; x; x = x->older, linked++) {
        GY_ASSERT(x->older ? x->older->newer == x : x == p->oldest);
        /* A leaf is older than its parents. */
        for (const node *y = x->older; y && x->index < 4; y = y->older) GY_ASSERT(y != x->parent);
    }
    GY_ASSERT(linked == nodes);
}
