/* vectors - the shared vectors of codecs: safetensors files of small tensors.
 *
 * For tests only: a damaged file fails the test. A tensor points into its file. */
#ifndef GY_TEST_VECTORS_H
#define GY_TEST_VECTORS_H

#include "testlib.h"

#include "base/json.h"
#include "base/num.h"
#include "codec/codec.h"

typedef struct {
    uint8_t *file, *data;
    gy_json_doc head;
} vectors;

typedef struct {
    const uint8_t *p;
    size_t bytes;
    int rows, cols; /* the first dimension; the product of all others */
} tensor;

static inline vectors vectors_open(const char *name) {
    char rel[80];
    snprintf(rel, sizeof rel, "vectors/%s.safetensors", name);
    FILE *f = fopen(shared_path(rel), "rb");
    if (!f) fail_msg("cannot open %s", rel);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    vectors v = {.file = malloc(n)};
    assert_int_equal(fread(v.file, 1, n, f), n);
    fclose(f);
    uint64_t head;
    memcpy(&head, v.file, 8);
    assert_true(head < n - 8);
    gy_err err = {0};
    assert_ok(gy_json_parse(&v.head, (char *)v.file + 8, head, &err), err);
    v.data = v.file + 8 + head;
    return v;
}

static inline void vectors_close(vectors *v) {
    gy_json_free(&v->head);
    free(v->file);
}

__attribute__((format(printf, 2, 3), unused)) static tensor get(const vectors *v, const char *fmt,
                                                                ...) {
    char name[80];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    const gy_json *t = gy_json_get(v->head.root, name);
    if (!t) fail_msg("no tensor %s", name);
    const gy_json *shape = gy_json_get(t, "shape");
    int64_t at[2], n, size[2] = {1, 1};
    for (int i = 0; i < 2; i++)
        assert_true(gy_json_int(&gy_json_get(t, "data_offsets")->item[i], &at[i]));
    for (uint32_t i = 0; i < shape->n; i++) {
        assert_true(gy_json_int(&shape->item[i], &n));
        size[i > 0] *= n;
    }
    return (tensor){v->data + at[0], (size_t)(at[1] - at[0]), (int)size[0], (int)size[1]};
}

static inline float real_at(const uint8_t *p, size_t i, int type) {
    if (type == GY_CODEC_F32) return gy_bits_f32(gy_load_u32(p + 4 * i));
    uint16_t h = gy_load_u16(p + 2 * i);
    return type == GY_CODEC_F16 ? gy_f16_f32(h) : gy_bf16_f32(h);
}

static inline bool same(float a, float b) {
    return gy_f32_bits(a) == gy_f32_bits(b) || (a != a && b != b);
}

static inline gy_rows rows_of(gy_cparm c, int rows, int cols, uint8_t *const plane[3]) {
    gy_rows m = {.c = c, .rows = rows, .cols = cols, .global = 1};
    size_t bytes[3];
    gy_codecs[c.kind].bytes(c, cols, bytes);
    for (int p = 0; p < 3; p++) m.plane[p] = plane[p], m.step[p] = (ptrdiff_t)bytes[p];
    return m;
}

#endif
