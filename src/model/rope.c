/* model/rope - see rope.h. Every kind of models.md 3.2 is one function from plain frequencies to
 * scaled ones. */
#include "model/rope.h"

#include <math.h>

#include "base/dmath.h"

static const double TWO_PI = 6.28318530717958647692;

typedef struct {
    const gy_json *config, *block; /* block: rope_scaling; NULL for plain */
    double theta;
    int dims;  /* rotated; dims/2 frequencies */
    double *f; /* [dims/2] in: plain, out: scaled */
    gy_rope *r;
    gy_err *err;
} scaling;

/* A number of the block that must be finite and greater than low. absent NAN: required. */
static gy_rc number(const scaling *s, const char *key, double low, double absent, double *out) {
    const gy_json *v = gy_json_get(s->block, key);
    *out = absent;
    if (gy_json_null(v)) {
        if (!isnan(absent)) return GY_OK;
        return gy_fail(s->err, GY_EFORMAT, "rope_scaling.%s is missing", key);
    }
    if (!gy_json_num(v, out) || !isfinite(*out) || !(*out > low))
        return gy_fail(s->err, GY_EFORMAT, "rope_scaling.%s must be a finite number above %g", key,
                       low);
    return GY_OK;
}

/* The context the model was first trained with: in the block, else at the top. absent 0: required.
 */
static gy_rc original_context(const scaling *s, double absent, double *out) {
    static const char key[] = "original_max_position_embeddings";
    if (gy_json_null(gy_json_get(s->block, key)) && gy_json_num(gy_json_get(s->config, key), out)) {
        if (isfinite(*out) && *out > 0) return GY_OK;
        return gy_fail(s->err, GY_EFORMAT, "%s must be a finite number above 0", key);
    }
    return number(s, key, 0, absent > 0 ? absent : (double)NAN, out);
}

static gy_rc max_context(const scaling *s, double *out) {
    if (gy_json_num(gy_json_get(s->config, "max_position_embeddings"), out) && *out >= 1 &&
        *out <= 0x1p31)
        return GY_OK;
    return gy_fail(s->err, GY_EFORMAT,
                   "max_position_embeddings must be a positive number for this rope_scaling");
}

static gy_rc scale_none(scaling *s) {
    const gy_json *sections = gy_json_get(s->block, "mrope_section");
    if (!gy_json_null(sections) && (sections->kind != GY_JSON_ARR || sections->n != 3))
        return gy_fail(s->err, GY_EFORMAT, "rope_scaling.mrope_section must be a list of 3");
    return GY_OK; /* with text alone the three position streams of mrope are equal */
}

static gy_rc scale_linear(scaling *s) {
    double factor;
    gy_rc rc = number(s, "factor", 0, NAN, &factor);
    for (int i = 0; !rc && i < s->dims / 2; i++) s->f[i] /= factor;
    return rc;
}

static gy_rc scale_dynamic(scaling *s) {
    double factor, max;
    gy_rc rc = number(s, "factor", 0, NAN, &factor);
    if (!rc) rc = max_context(s, &max);
    if (rc) return rc;
    if (s->dims < 4)
        return gy_fail(s->err, GY_EUNSUPPORTED,
                       "rope type dynamic needs at least 4 rotated dimensions");
    if (factor < 1)
        return gy_fail(s->err, GY_EFORMAT,
                       "rope_scaling.factor of type dynamic must be at least 1");
    s->r->dyn_max = max >= 0x1p31 ? INT32_MAX : (int)max;
    s->r->dyn_base = s->theta, s->r->dyn_factor = factor;
    return GY_OK;
}

static gy_rc scale_llama3(scaling *s) {
    double factor, lo, hi, context;
    gy_rc rc = number(s, "factor", 0, NAN, &factor);
    if (!rc) rc = number(s, "low_freq_factor", 0, 1, &lo);
    if (!rc) rc = number(s, "high_freq_factor", 0, 4, &hi);
    if (!rc) rc = original_context(s, 8192, &context);
    if (rc) return rc;
    if (!(hi > lo))
        return gy_fail(s->err, GY_EFORMAT,
                       "rope_scaling.high_freq_factor must be above low_freq_factor");
    for (int i = 0; i < s->dims / 2; i++) {
        double f = s->f[i], wave = TWO_PI / f, t = (context / wave - lo) / (hi - lo);
        if (wave > context / lo)
            s->f[i] = f / factor;
        else if (!(wave < context / hi))
            s->f[i] = f * ((1 - t) / factor + t);
    }
    return GY_OK;
}

static double yarn_gain(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * gy_dlog(factor) + 1;
}

/* The dimension whose wave turns `turns` times within the original context. */
static double yarn_dim(const scaling *s, double context, double turns) {
    return s->dims * gy_dlog(context / (turns * TWO_PI)) / (2 * gy_dlog(s->theta));
}

static gy_rc scale_yarn(scaling *s) {
    double factor, context, fast, slow, m, all, gain;
    gy_rc rc = number(s, "factor", 0, NAN, &factor);
    if (!rc) rc = original_context(s, 4096, &context);
    if (!rc) rc = number(s, "beta_fast", 0, 32, &fast);
    if (!rc) rc = number(s, "beta_slow", 0, 1, &slow);
    if (!rc) rc = number(s, "mscale", -1e30, 0, &m);
    if (!rc) rc = number(s, "mscale_all_dim", -1e30, 0, &all);
    if (!rc) rc = number(s, "attention_factor", 0, -1, &gain);
    if (rc) return rc;
    if (!(s->theta > 1))
        return gy_fail(s->err, GY_EFORMAT, "rope_theta must be above 1 for rope type yarn");
    double lo = yarn_dim(s, context, fast), hi = yarn_dim(s, context, slow);
    if (gy_json_b(s->block, "truncate", true)) lo = floor(lo), hi = ceil(hi);
    if (lo < 0) lo = 0;
    if (hi > s->dims - 1) hi = s->dims - 1;
    if (lo == hi) hi += 0.001;
    for (int i = 0; i < s->dims / 2; i++) {
        double r = (i - lo) / (hi - lo);
        r = r < 0 ? 0 : r > 1 ? 1 : r;
        s->f[i] = s->f[i] * (1 - r) + s->f[i] / factor * r;
    }
    if (gain < 0)
        gain = m != 0 && all != 0 ? yarn_gain(factor, m) / yarn_gain(factor, all)
                                  : yarn_gain(factor, 1);
    s->r->mscale = (float)gain;
    return GY_OK;
}

/* Always the long factors: which of the two lists applies would otherwise depend on how long a
 * sequence will become. */
static gy_rc scale_longrope(scaling *s) {
    double context, max = 0, ratio, gain;
    const gy_json *list = gy_json_get(s->block, "long_factor");
    if (!gy_json_is(list, GY_JSON_ARR) || (int64_t)list->n != s->dims / 2)
        return gy_fail(s->err, GY_EFORMAT, "rope_scaling.long_factor must be a list of %d numbers",
                       s->dims / 2);
    for (int i = 0; i < s->dims / 2; i++) {
        double v;
        if (!gy_json_num(list->item + i, &v) || !isfinite(v) || !(v > 0))
            return gy_fail(s->err, GY_EFORMAT,
                           "rope_scaling.long_factor[%d] must be a finite number above 0", i);
        s->f[i] /= v;
    }
    gy_rc rc = number(s, "attention_factor", 0, -1, &gain);
    if (rc || gain > 0) return s->r->mscale = (float)gain, rc;
    rc = original_context(s, 4096, &context);
    if (!rc) rc = number(s, "factor", 0, -1, &ratio);
    if (!rc && ratio < 0) rc = max_context(s, &max), ratio = max / context;
    if (rc) return rc;
    if (ratio > 1 && !(context > 1))
        return gy_fail(s->err, GY_EFORMAT, "original_max_position_embeddings must be above 1");
    s->r->mscale = ratio <= 1 ? 1 : (float)sqrt(1 + gy_dlog(ratio) / gy_dlog(context));
    return GY_OK;
}

/* Exponents over the whole head; pairs past the rotated part keep frequency 0, that is no rotation.
 */
static gy_rc scale_proportional(scaling *s) {
    double factor, part;
    gy_rc rc = number(s, "factor", 0, 1, &factor);
    if (!rc) rc = number(s, "partial_rotary_factor", 0, 1, &part);
    if (rc) return rc;
    if (part > 1)
        return gy_fail(s->err, GY_EFORMAT, "rope_scaling.partial_rotary_factor must be at most 1");
    int turned = (int)(s->dims * part) / 2;
    for (int i = 0; i < s->dims / 2; i++) s->f[i] = i < turned ? s->f[i] / factor : 0;
    return GY_OK;
}

static const struct {
    const char *name;
    gy_rc (*scale)(scaling *);
} kinds[] = {
    {"default", scale_none},       {"mrope", scale_none},
    {"linear", scale_linear},      {"dynamic", scale_dynamic},
    {"llama3", scale_llama3},      {"yarn", scale_yarn},
    {"deepseek_yarn", scale_yarn}, {"longrope", scale_longrope},
    {"su", scale_longrope},        {"proportional", scale_proportional},
};

gy_rc gy_rope_read(const gy_json *config, const char *layer_type, double theta_absent,
                   gy_rope_config *out, gy_err *err) {
    const gy_json *v5 = gy_json_get(config, "rope_parameters");
    const gy_json *inner = layer_type ? gy_json_get(v5, layer_type) : NULL;
    if (!gy_json_null(v5) && v5->kind != GY_JSON_OBJ)
        return gy_fail(err, GY_EFORMAT, "rope_parameters must be an object");
    if (gy_json_is(inner, GY_JSON_OBJ)) v5 = inner;
    const gy_json *theta = gy_json_get(config, "rope_theta"),
                  *block = gy_json_get(config, "rope_scaling");
    if (gy_json_null(theta)) theta = gy_json_get(v5, "rope_theta");
    if (gy_json_null(block)) block = gy_json_null(v5) ? NULL : v5;
    if (block && block->kind != GY_JSON_OBJ)
        return gy_fail(err, GY_EFORMAT, "rope_scaling must be an object or null");
    double t = theta_absent;
    if (gy_json_null(theta) && !(theta_absent > 0))
        return gy_fail(err, GY_EFORMAT, "rope_theta is missing");
    if (!gy_json_null(theta) && (!gy_json_num(theta, &t) || !isfinite(t) || !(t > 0)))
        return gy_fail(err, GY_EFORMAT, "rope_theta must be a finite number above 0");
    *out = (gy_rope_config){.theta = t, .scaling = block};
    return GY_OK;
}

static gy_rc apply(scaling *s) {
    const gy_json *kind = gy_json_get(s->block, "type");
    char quoted[64];
    if (gy_json_null(kind)) kind = gy_json_get(s->block, "rope_type");
    if (gy_json_null(kind)) return scale_none(s);
    if (kind->kind != GY_JSON_STR)
        return gy_fail(s->err, GY_EFORMAT, "rope_scaling.type must be a string");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind->s, kinds[i].name)) return kinds[i].scale(s);
    return gy_fail(s->err, GY_EUNSUPPORTED,
                   "rope type \"%s\" is not supported (default, mrope, linear, dynamic, llama3, "
                   "yarn, deepseek_yarn, "
                   "longrope, su and proportional are)",
                   gy_err_quote(quoted, kind->s, kind->n));
}

gy_rc gy_rope_make(const gy_json *config, const gy_rope_config *c, int dims, bool pairs,
                   gy_arena *arena, gy_rope *r, gy_err *err) {
    if (dims < 2 || dims % 2)
        return gy_fail(err, GY_EFORMAT, "%d rotated dimensions: must be even and at least 2", dims);
    int n = dims / 2;
    double *f = gy_alloc_n((size_t)n, sizeof *f);
    float *out = gy_arena_alloc(arena, (size_t)n * sizeof *out);
    gy_rc rc = f && out ? GY_OK : gy_fail(err, GY_ENOMEM, "rotary table: out of memory");
    *r = (gy_rope){.rot = dims, .pairs = pairs, .mscale = 1, .inv_freq = out};
    if (!rc) {
        for (int i = 0; i < n; i++) f[i] = gy_dpow(c->theta, -2.0 * i / dims);
        scaling s = {config, c->scaling, c->theta, dims, f, r, err};
        rc = apply(&s);
    }
    for (int i = 0; !rc && i < n; i++) {
        out[i] = (float)f[i];
        if (!isfinite(out[i]))
            rc = gy_fail(err, GY_EFORMAT, "rotary frequency %d is not finite", i);
    }
    gy_free(f);
    return rc;
}
