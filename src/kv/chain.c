/* kv/chain - see chain.h. Every field is hashed as 8 bytes little-endian, never as a C struct:
 * padding and pointer sizes must not reach a digest that other machines compare. */
#include "kv/chain.h"

void gy_digest_int(gy_sha256 *h, uint64_t v) {
    uint8_t b[8];
    for (int i = 0; i < 8; i++) b[i] = (uint8_t)(v >> 8 * i);
    gy_sha256_add(h, b, sizeof b);
}

void gy_digest_text(gy_sha256 *h, const char *s) {
    size_t n = s ? strlen(s) : 0;
    gy_digest_int(h, n);
    if (n) gy_sha256_add(h, s, n);
}

static int nibble(char c) {
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

bool gy_digest_end(gy_sha256 *h, gy_digest *out) {
    char hex[65];
    gy_sha256_end(h, hex);
    if (!hex[0]) return false;
    for (int i = 0; i < 32; i++)
        out->b[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
    return true;
}

const char *gy_digest_hex(const gy_digest *d, char out[65]) {
    static const char digit[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++)
        out[2 * i] = digit[d->b[i] >> 4], out[2 * i + 1] = digit[d->b[i] & 15];
    out[64] = 0;
    return out;
}

static void add_codec(gy_sha256 *h, gy_cparm c) {
    gy_digest_int(h, c.kind), gy_digest_int(h, c.bits);
    gy_digest_int(h, c.stype), gy_digest_int(h, c.group);
}

bool gy_chain_layout(const gy_kvspec *spec, int n_layers, gy_digest *out) {
    gy_sha256 *h = gy_sha256_new();
    if (!h) return false;
    gy_digest_text(h, "gyre kv layout 1");
    gy_digest_int(h, GY_PAGE), gy_digest_int(h, (uint64_t)n_layers);
    for (int i = 0; i < n_layers; i++) {
        const gy_kvspec *s = spec + i;
        add_codec(h, s->k), add_codec(h, s->v);
        const int field[] = {s->heads,       s->kdim,       s->vdim, s->donor, s->keep.policy,
                             s->keep.window, s->keep.sinks, s->form, s->conv,  s->scan};
        for (size_t f = 0; f < sizeof field / sizeof *field; f++)
            gy_digest_int(h, (uint64_t)(int64_t)field[f]);
    }
    return gy_digest_end(h, out);
}

bool gy_chain_root(const gy_identity *id, const char *adapter, const char *salt, gy_digest *out) {
    gy_sha256 *h = gy_sha256_new();
    if (!h) return false;
    gy_digest_text(h, "gyre kv chain 1");
    gy_digest_int(h, id->bits), gy_digest_int(h, id->arith);
    gy_sha256_add(h, id->model.b, sizeof id->model.b);
    gy_sha256_add(h, id->plan.b, sizeof id->plan.b);
    gy_sha256_add(h, id->layout.b, sizeof id->layout.b);
    gy_digest_text(h, adapter), gy_digest_text(h, salt);
    return gy_digest_end(h, out);
}

bool gy_chain_next(const gy_digest *before, const int32_t *tok, gy_digest *after) {
    uint8_t b[4 * GY_PAGE];
    gy_sha256 *h = gy_sha256_new();
    if (!h) return false;
    for (int i = 0; i < GY_PAGE; i++)
        for (int k = 0; k < 4; k++) b[4 * i + k] = (uint8_t)((uint32_t)tok[i] >> 8 * k);
    gy_sha256_add(h, before->b, sizeof before->b);
    gy_sha256_add(h, b, sizeof b);
    return gy_digest_end(h, after);
}
