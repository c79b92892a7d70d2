/* codec/kvname - reads, writes and judges KV codec names. See kvname.h. */
#include "codec/kvname.h"

#include <stdio.h>
#include <string.h>

#include "codec/impl.h"

#define EXPECTED "expected f16, bf16, f32, q8, q4, q4.32, k8v4, turbo, turbo-k8v3, or K.V"

enum { GROUP_DEFAULT = 64, GROUP_LLAMA = 32 };

typedef struct {
    const char *p, *end, *text;
    gy_err *err;
} reader;

/* What one word names: a codec for either side, or one for keys, for values, or for both. */
typedef struct {
    gy_cparm k, v;
    bool has_k, has_v, either; /* either: k and v are the same, and one of them may be taken */
} item;

static gy_rc bad(const reader *r, const char *what) {
    char q[64];
    return gy_fail(r->err, GY_EARG, "kv: '%s': %s",
                   gy_err_quote(q, r->text, (size_t)(r->end - r->text)), what);
}

static bool take(reader *r, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n)) return false;
    r->p += n;
    return true;
}

static bool digit_at(const reader *r, int ahead) {
    return r->end - r->p > ahead && r->p[ahead] >= '0' && r->p[ahead] <= '9';
}

/* A number of at most four digits; -1 when there is none. */
static int number(reader *r) {
    int v = -1;
    for (int i = 0; i < 4 && digit_at(r, 0); i++) v = (v < 0 ? 0 : v) * 10 + *r->p++ - '0';
    return v;
}

static bool type_of(reader *r, uint8_t *type) {
    if (take(r, "f32"))
        *type = GY_CODEC_F32;
    else if (take(r, "f16"))
        *type = GY_CODEC_F16;
    else if (take(r, "bf16"))
        *type = GY_CODEC_BF16;
    else
        return false;
    return true;
}

/* bits, then [.G | gG | :gG][:T]; grouped: whether a group or type was given. */
static gy_rc affine(reader *r, gy_cparm *c, bool *grouped) {
    int bits = number(r), group = GROUP_DEFAULT;
    uint8_t type = GY_CODEC_F16;
    *grouped = true;
    if (r->end - r->p > 1 && *r->p == '.' && digit_at(r, 1))
        r->p++, group = number(r);
    else if (take(r, ":g") || take(r, "g"))
        group = number(r);
    else
        *grouped = false;
    if (take(r, ":")) {
        if (!type_of(r, &type)) return bad(r, "after ':' a group such as g32, or f16, f32 or bf16");
        *grouped = true;
    }
    if (bits != 2 && bits != 3 && bits != 4 && bits != 5 && bits != 6 && bits != 8)
        return bad(r, "affine codes have 2, 3, 4, 5, 6 or 8 bits");
    if (group != 32 && group != 64 && group != 128)
        return bad(r, "affine groups have 32, 64 or 128 values");
    *c = (gy_cparm){GY_CODEC_AFFINE, (uint8_t)bits, type, (uint16_t)group};
    return GY_OK;
}

/* Behind 'k' or at 'v': kB[..][.]vB[..], kB[..] or vB[..]. */
static gy_rc affine_pair(reader *r, item *it) {
    bool k_grouped = false, v_grouped = false;
    gy_rc rc = GY_OK;
    if (take(r, "k")) {
        it->has_k = true;
        rc = affine(r, &it->k, &k_grouped);
        if (r->end - r->p > 1 && r->p[0] == '.' && r->p[1] == 'v') r->p++;
    }
    if (!rc && take(r, "v")) {
        it->has_v = true;
        rc = affine(r, &it->v, &v_grouped);
        if (it->has_k && v_grouped && !k_grouped)
            it->k.group = it->v.group, it->k.stype = it->v.stype;
    }
    return rc;
}

/* Behind "turbo" or "turbox". */
static gy_rc turbo(reader *r, bool exact, item *it) {
    it->k = (gy_cparm){.kind = GY_CODEC_TURBO_K, .bits = 8};
    it->v = (gy_cparm){.kind = exact ? GY_CODEC_TURBOX_V : GY_CODEC_TURBO_V, .bits = exact ? 4 : 3};
    if (!take(r, "-") && !take(r, ":")) {
        it->has_k = it->has_v = true;
        return GY_OK;
    }
    if (take(r, "k")) {
        int bits = number(r);
        it->has_k = true, it->k.bits = bits > 0 && bits < 256 ? (uint8_t)bits : 0;
        if (!gy_turbo_k_fits(it->k, 64)) return bad(r, "turbo keys have 2, 4, 5 or 8 bits");
        if (r->end - r->p > 1 && r->p[0] == '.' && r->p[1] == 'v') r->p++;
    }
    if (take(r, "v")) {
        int bits = number(r);
        it->has_v = true, it->v.bits = bits > 0 && bits < 256 ? (uint8_t)bits : 0;
        if (!gy_turbo_v_fits(it->v, 64))
            return bad(r, exact ? "turbox values have 4, 5 or 8 bits"
                                : "turbo values have 2, 3, 4, 5 or 8 bits");
    }
    return it->has_k || it->has_v ? GY_OK : bad(r, "after turbo- or turbo: kA, vB or kAvB");
}

static gy_rc word(reader *r, item *it) {
    bool grouped;
    gy_rc rc = GY_OK;
    uint8_t type;
    *it = (item){0};
    if (take(r, "turbox")) return turbo(r, true, it);
    if (take(r, "turbo")) return turbo(r, false, it);
    if (r->end - r->p > 1 && (*r->p == 'k' || *r->p == 'v') && digit_at(r, 1))
        return affine_pair(r, it);
    if (type_of(r, &type))
        it->k = (gy_cparm){.kind = type};
    else if (take(r, "q8_0"))
        it->k = (gy_cparm){GY_CODEC_AFFINE, 8, GY_CODEC_F16, GROUP_LLAMA};
    else if (take(r, "q4_0") || take(r, "q4_1"))
        it->k = (gy_cparm){GY_CODEC_AFFINE, 4, GY_CODEC_F16, GROUP_LLAMA};
    else if (r->end - r->p > 1 && *r->p == 'q' && digit_at(r, 1))
        r->p++, rc = affine(r, &it->k, &grouped);
    else
        return bad(r, "not a KV codec; " EXPECTED);
    it->v = it->k;
    it->has_k = it->has_v = it->either = true;
    return rc;
}

gy_rc gy_kv_codec_parse(const char *text, size_t n, gy_cparm *k, gy_cparm *v, gy_err *err) {
    reader r = {text, text + n, text, err};
    item a, b;
    gy_rc rc = word(&r, &a);
    if (rc) return rc;
    if (r.p == r.end) {
        if (!a.has_k || !a.has_v)
            return bad(&r, a.has_k ? "a codec for keys only; name one for values after a '.'"
                                   : "a codec for values only; name one for keys before a '.'");
        *k = a.k, *v = a.v;
        return GY_OK;
    }
    if (!take(&r, ".")) return bad(&r, "not a KV codec; " EXPECTED);
    rc = word(&r, &b);
    if (rc) return rc;
    if (r.p != r.end) return bad(&r, "not a KV codec; " EXPECTED);
    if (!a.has_k || (a.has_v && !a.either))
        return bad(&r, "what stands before the '.' must name a codec for keys");
    if (!b.has_v || (b.has_k && !b.either))
        return bad(&r, "what stands after the '.' must name a codec for values");
    *k = a.k, *v = b.v;
    return GY_OK;
}

/* ---- Names ---- */

/* One side of a pair; side 'k' or 'v'. */
static bool side_name(gy_cparm c, char side, char out[24]) {
    static const char *const types[] = {":f32", "", ":bf16"};
    if (c.kind <= GY_CODEC_BF16)
        snprintf(out, 24, "%s", gy_codecs[c.kind].name);
    else if (c.kind == GY_CODEC_AFFINE && c.stype <= GY_CODEC_BF16)
        snprintf(out, 24, "q%d:g%d%s", c.bits, c.group, types[c.stype]);
    else if (c.kind == (side == 'k' ? GY_CODEC_TURBO_K : GY_CODEC_TURBO_V))
        snprintf(out, 24, "turbo-%c%d", side, c.bits);
    else if (c.kind == GY_CODEC_TURBOX_V && side == 'v')
        snprintf(out, 24, "turbox-v%d", c.bits);
    else
        return false;
    return true;
}

const char *gy_kv_codec_name(gy_cparm k, gy_cparm v, char out[48]) {
    char a[24], b[24];
    if (!side_name(k, 'k', a) || !side_name(v, 'v', b)) {
        snprintf(out, 48, "?");
    } else if (k.kind == GY_CODEC_TURBO_K && v.kind >= GY_CODEC_TURBO_V) {
        snprintf(out, 48, "%s-k%dv%d", v.kind == GY_CODEC_TURBOX_V ? "turbox" : "turbo", k.bits,
                 v.bits);
    } else {
        bool one = gy_cparm_same(k, v);
        snprintf(out, 48, one ? "%s" : "%s.%s", a, b);
    }
    return out;
}

/* ---- Heads ---- */

static gy_rc side_fits(gy_cparm c, char side, int dim, gy_err *err) {
    const char *what = side == 'k' ? "keys" : "values";
    char name[32];
    gy_cparm_name(c, name);
    const gy_codec *codec = c.kind < GY_CODEC_COUNT ? &gy_codecs[c.kind] : NULL;
    bool turbo_k = c.kind == GY_CODEC_TURBO_K, turbo_v = codec && codec->turn;
    if (!codec || !codec->encode || (turbo_k && side == 'v') || (turbo_v && side == 'k'))
        return gy_fail(err, GY_EUNSUPPORTED, "KV codec %s cannot store %s", name, what);
    if (codec->fits(c, dim)) return GY_OK;
    if (turbo_k || turbo_v)
        return gy_fail(err, GY_EUNSUPPORTED,
                       "KV codec %s cannot store %s of %d values: turbo needs heads of 64, 128, "
                       "256 or 512; f16 fits",
                       name, what, dim);
    for (int g = 64; c.kind == GY_CODEC_AFFINE && g >= 32; g /= 2) {
        gy_cparm other = c;
        other.group = (uint16_t)g;
        if (codec->fits(other, dim))
            return gy_fail(err, GY_EUNSUPPORTED,
                           "KV codec %s cannot store %s of %d values: not a multiple of %d; groups "
                           "of %d (q%d.%d) fit",
                           name, what, dim, c.group, g, c.bits, g);
    }
    return gy_fail(err, GY_EUNSUPPORTED, "KV codec %s cannot store %s of %d values; f16 fits", name,
                   what, dim);
}

gy_rc gy_kv_codec_fits(gy_cparm k, gy_cparm v, int kdim, int vdim, gy_err *err) {
    gy_rc rc = side_fits(k, 'k', kdim, err);
    return rc ? rc : side_fits(v, 'v', vdim, err);
}
