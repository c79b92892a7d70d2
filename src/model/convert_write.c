/* model/convert_write - safetensors files of a list of tensors, row by row. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "model/convert.h"

static uint64_t bytes_of(const gy_convert_tensor *t) {
    return (uint64_t)gy_convert_rows(t) * gy_convert_row_bytes(t);
}

static gy_rc open_in(const char *dir, const char *name, FILE **f, gy_err *err) {
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        return gy_fail(err, GY_EARG, "%s/%s: path is too long", dir, name);
    *f = fopen(path, "wb");
    return *f ? GY_OK : gy_fail(err, GY_EIO, "%s: %s", path, strerror(errno));
}

/* Flushes to the disk and closes: an error of the last byte is an error of the file. */
static gy_rc close_file(FILE *f, const char *name, gy_rc rc, gy_err *err) {
    bool bad = ferror(f) || fflush(f) || fsync(fileno(f));
    int e = errno;
    if (fclose(f) && !bad) bad = true, e = errno;
    return rc ? rc : bad ? gy_fail(err, GY_EIO, "%s: %s", name, strerror(e)) : GY_OK;
}

gy_rc gy_convert_text(const char *dir, const char *name, const char *text, size_t n, gy_err *err) {
    FILE *f;
    gy_rc rc = open_in(dir, name, &f, err);
    if (rc) return rc;
    if (fwrite(text, 1, n, f) != n)
        rc = gy_fail(err, GY_EIO, "%s/%s: %s", dir, name, strerror(errno));
    return close_file(f, name, rc, err);
}

/* The header: 8 bytes of length, JSON padded with spaces to a multiple of 8. */
static gy_rc write_head(FILE *f, const char *name, const gy_convert_tensor *t, int n, gy_err *err) {
    gy_buf b = {0};
    uint64_t at = 0;
    gy_buf_puts(&b, "{\"__metadata__\":{\"format\":\"mlx\"}");
    for (int i = 0; i < n; i++) {
        gy_buf_c(&b, ',');
        gy_buf_json(&b, t[i].name, strlen(t[i].name));
        gy_buf_printf(&b, ":{\"dtype\":\"%s\",\"shape\":[", t[i].dtype);
        for (int k = 0; k < t[i].dims; k++)
            gy_buf_printf(&b, "%s%lld", k ? "," : "", (long long)t[i].shape[k]);
        gy_buf_printf(&b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                      (unsigned long long)(at + bytes_of(&t[i])));
        at += bytes_of(&t[i]);
    }
    gy_buf_c(&b, '}');
    while (b.n % 8 && !b.oom) gy_buf_c(&b, ' ');
    uint64_t head = b.n;
    gy_rc rc = b.oom ? gy_fail(err, GY_ENOMEM, "%s: out of memory", name) : GY_OK;
    if (!rc && (fwrite(&head, 8, 1, f) != 1 || fwrite(b.p, 1, b.n, f) != b.n))
        rc = gy_fail(err, GY_EIO, "%s: %s", name, strerror(errno));
    gy_buf_free(&b);
    return rc;
}

typedef struct {
    gy_progress_fn fn;
    void *arg;
    uint64_t done, total;
} meter;

static gy_rc write_tensor(FILE *f, const char *file, const gy_convert_tensor *t, meter *m,
                          gy_err *err) {
    size_t bytes = gy_convert_row_bytes(t), since = 0;
    uint8_t *row = gy_alloc(bytes + 8);
    void *scratch = gy_alloc(gy_convert_scratch(t));
    gy_rc rc =
        row && scratch ? GY_OK : gy_fail(err, GY_ENOMEM, "tensor %s: out of memory", t->name);
    for (int64_t r = 0, rows = gy_convert_rows(t); r < rows && !rc; r++) {
        gy_convert_row(t, r, row, scratch);
        if (fwrite(row, 1, bytes, f) != bytes)
            rc = gy_fail(err, GY_EIO, "%s: %s", file, strerror(errno));
        m->done += bytes, since += bytes;
        if ((since >= 1 << 20 || r + 1 == rows) && m->fn && !rc) {
            since = 0;
            if (!m->fn(m->arg, t->name, m->done, m->total))
                rc = gy_fail(err, GY_ECANCEL, "conversion stopped");
        }
    }
    gy_free(row);
    gy_free(scratch);
    return rc;
}

static gy_rc write_file(const char *dir, const char *name, const gy_convert_tensor *t, int n,
                        meter *m, gy_err *err) {
    FILE *f;
    gy_rc rc = open_in(dir, name, &f, err);
    if (rc) return rc;
    rc = write_head(f, name, t, n, err);
    for (int i = 0; i < n && !rc; i++) rc = write_tensor(f, name, &t[i], m, err);
    return close_file(f, name, rc, err);
}

/* Tensors from i on that fit one shard together; at least one. */
static int shard_len(const gy_convert_list *list, int i, uint64_t limit) {
    uint64_t bytes = 0;
    int n = 0;
    for (; i + n < list->n; n++) {
        bytes += bytes_of(&list->at[i + n]);
        if (n && bytes > limit) break;
    }
    return n;
}

gy_rc gy_convert_write(const char *dir, const gy_convert_list *list, uint64_t shard_bytes,
                       gy_progress_fn progress, void *arg, gy_err *err) {
    meter m = {.fn = progress, .arg = arg};
    gy_buf index = {0};
    int shards = 0, shard = 0;
    for (int i = 0; i < list->n; i++) m.total += bytes_of(&list->at[i]);
    for (int i = 0; i < list->n; shards++) i += shard_len(list, i, shard_bytes);
    if (shards <= 1) return write_file(dir, "model.safetensors", list->at, list->n, &m, err);
    gy_buf_printf(&index, "{\"metadata\":{\"total_size\":%llu},\"weight_map\":{",
                  (unsigned long long)m.total);
    gy_rc rc = GY_OK;
    for (int i = 0, n; i < list->n && !rc; i += n) {
        char name[64];
        n = shard_len(list, i, shard_bytes);
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", ++shard, shards);
        rc = write_file(dir, name, list->at + i, n, &m, err);
        for (int k = i; k < i + n; k++) {
            if (k) gy_buf_c(&index, ',');
            gy_buf_json(&index, list->at[k].name, strlen(list->at[k].name));
            gy_buf_printf(&index, ":\"%s\"", name);
        }
    }
    gy_buf_puts(&index, "}}\n");
    if (!rc && index.oom) rc = gy_fail(err, GY_ENOMEM, "index: out of memory");
    if (!rc) rc = gy_convert_text(dir, "model.safetensors.index.json", index.p, index.n, err);
    gy_buf_free(&index);
    return rc;
}
