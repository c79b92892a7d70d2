/* cpu/linear - cutting LINEAR and LOGITS into pool items. No arithmetic but bias here. */
#include "cpu/linear.h"

/* Coded rows of one item: with 2048 columns they fill a quarter of L2. Whole groups of 4 and of 6,
 * as kernels take them. */
enum { ROW_BLOCK = 132 };

static size_t align64(size_t n) {
    return (n + 63) & ~(size_t)63;
}

size_t gy_linear_scratch(int cols) {
    /* The largest user is a decoded tile of the exact product: 32 rows of f32, a cache line apart;
     * each kernel states its layout. */
    return align64(((size_t)cols + 255) / 256 * 256 * 128 + 4096);
}

static size_t padded_chunks(int cols) {
    return ((size_t)cols / 32 + 7) / 8 * 8;
}

/* One row: q pair even: 96 bytes a chunk; d ds dh[2] sum(2) sums[3]: 36. */
static size_t row_bytes(int cols) {
    return align64(padded_chunks(cols) * 132);
}

/* The array of gy_xrow comes first, then the rows. */
size_t gy_linear_coded(int rows, int cols) {
    return align64((size_t)rows * sizeof(gy_xrow)) + (size_t)rows * row_bytes(cols);
}

gy_xrow gy_linear_xrow(void *mem, int cols) {
    size_t p = padded_chunks(cols);
    gy_xrow x = {.q = mem};
    x.pair = x.q + 32 * p, x.even = x.pair + 32 * p;
    x.d = (float *)(void *)(x.even + 32 * p);
    x.ds = x.d + p, x.dh[0] = x.ds + p, x.dh[1] = x.dh[0] + p;
    x.sum = (int32_t *)(void *)(x.dh[1] + p);
    x.sums[0] = x.sum + 2 * p, x.sums[1] = x.sums[0] + p, x.sums[2] = x.sums[1] + p;
    return x;
}

bool gy_linear_is_coded(const gy_rows *m) {
    return m->cols % 32 == 0 && gy_codec_intkind(m->c).has;
}

typedef struct {
    const gy_linear_env *env;
    const gy_op *op;
    const float *x;
    float *y;
    ptrdiff_t ldx, ldy;
    int rows, row_block, col_block;
    int weights, blocks[3], col0[3]; /* column blocks and first output column of each weight */
    int blocks_all;
    gy_xrow *coded;
    bool any_coded, small;
} job;

enum { CODE_ROWS = 4 }; /* rows of one coding item */

static void code_item(void *arg, int item, int worker) {
    (void)worker;
    job *j = arg;
    int end = (item + 1) * CODE_ROWS < j->rows ? (item + 1) * CODE_ROWS : j->rows;
    int cols = j->op->w[0]->file.cols;
    for (int r = item * CODE_ROWS; r < end; r++)
        j->env->isa->code(j->x + r * j->ldx, cols, j->coded[r]);
}

static void add_bias(float *y, ptrdiff_t ldy, int rows, const float *bias, int n) {
    for (int r = 0; r < rows; r++, y += ldy) {
        for (int c = 0; c < n; c++) y[c] += bias[c];
    }
}

static void product_item(void *arg, int item, int worker) {
    const job *j = arg;
    const gy_linear_env *env = j->env;
    int r0 = item / j->blocks_all * j->row_block, b = item % j->blocks_all, k = 0;
    while (b >= j->blocks[k]) b -= j->blocks[k++];
    const gy_weight *w = j->op->w[k];
    int c0 = b * j->col_block, n = w->file.rows - c0, rows = j->rows - r0;
    if (n > j->col_block) n = j->col_block;
    if (rows > j->row_block) rows = j->row_block;
    float *y = j->y + r0 * j->ldy + j->col0[k] + c0;
    void *scratch = (char *)env->scratch + (size_t)worker * env->scratch_bytes;
    if (j->coded && gy_linear_is_coded(&w->file)) {
        env->isa->fast(w, c0, n, j->coded + r0, rows, y, j->ldy, scratch);
    } else {
        env->isa->exact(w, c0, n, j->x + r0 * j->ldx, j->ldx, rows, y, j->ldy, scratch);
    }
    if (w->bias) add_bias(y, j->ldy, rows, w->bias + c0, n);
    if (j->op->kind == GY_OP_LOGITS && (j->op->u.logits.a != 1 || j->op->u.logits.cap != 0)) {
        for (int r = 0; r < rows; r++)
            env->finish(y + r * j->ldy, n, j->op->u.logits.a, j->op->u.logits.cap);
    }
}

/* Small ops run whole on the caller: waking a worker costs about as much as 32 KiB of weights.
 * Otherwise about eight items a thread, so that the last one is short; blocks are multiples of 16,
 * which no kernel has to split. */
static void cut(job *j, int threads) {
    int outs = 0;
    size_t bytes = 0;
    for (; j->weights < 3 && j->op->w[j->weights]; j->weights++) {
        const gy_rows *m = &j->op->w[j->weights]->file;
        size_t plane[3];
        gy_codecs[m->c.kind].bytes(m->c, m->cols, plane);
        bytes += (plane[0] + plane[1] + plane[2]) * (size_t)m->rows;
        j->col0[j->weights] = outs;
        outs += m->rows;
        if (gy_linear_is_coded(m)) j->any_coded = true;
    }
    j->row_block = j->rows <= ROW_BLOCK + ROW_BLOCK / 2 ? j->rows : ROW_BLOCK;
    int row_blocks = (j->rows + j->row_block - 1) / j->row_block, most = j->rows > 8 ? 128 : 512;
    int want = outs * row_blocks / (8 * threads);
    j->col_block = (want + 15) / 16 * 16;
    if (j->col_block > most) j->col_block = most;
    if (j->col_block < 16) j->col_block = 16;
    if (threads == 1 && j->rows <= 8) j->col_block = outs;
    j->small = bytes * (size_t)j->rows < 32768;
    if (j->small) j->col_block = outs;
    for (int k = 0; k < j->weights; k++) {
        j->blocks[k] = (j->op->w[k]->file.rows + j->col_block - 1) / j->col_block;
        j->blocks_all += j->blocks[k];
    }
}

static void run_items(job *j, int items, gy_pool_fn fn) {
    if (items > 1 && !j->small) {
        gy_pool_run(j->env->pool, items, fn, j);
    } else {
        for (int i = 0; i < items; i++) fn(j, i, 0);
    }
}

void gy_linear_run(const gy_linear_env *env, const gy_op *op, const float *x, ptrdiff_t ldx,
                   int rows, float *y, ptrdiff_t ldy) {
    if (rows <= 0) return;
    job j = {.env = env, .op = op, .x = x, .y = y, .ldx = ldx, .ldy = ldy, .rows = rows};
    cut(&j, gy_pool_threads(env->pool));
    if (env->arith == GY_BE_FAST && !(op->flags & GY_OPF_EXACT) && j.any_coded) {
        int cols = op->w[0]->file.cols;
        size_t bytes = row_bytes(cols);
        j.coded = env->coded;
        char *mem = (char *)env->coded + align64((size_t)rows * sizeof(gy_xrow));
        for (int r = 0; r < rows; r++) j.coded[r] = gy_linear_xrow(mem + (size_t)r * bytes, cols);
        run_items(&j, (rows + CODE_ROWS - 1) / CODE_ROWS, code_item);
    }
    run_items(&j, j.blocks_all * ((rows + j.row_block - 1) / j.row_block), product_item);
}
