/* The post-processor: ids in front of and behind those of the text. Only one text, never a pair. */
#include "text/tok_in.h"

static gy_rc ids_insert(gy_ids *ids, int at, int32_t id, gy_err *err) {
    if (!gy_ids_need(ids, 1)) return gy_tok_oom(err);
    memmove(ids->id + at + 1, ids->id + at, (size_t)(ids->n - at) * sizeof *ids->id);
    ids->id[at] = id;
    ids->n++;
    return GY_OK;
}

static void ids_remove(gy_ids *ids, int at) {
    memmove(ids->id + at, ids->id + at + 1, (size_t)(ids->n - at - 1) * sizeof *ids->id);
    ids->n--;
}

static gy_rc bad(gy_err *err, const char *what) {
    return gy_fail(err, GY_EFORMAT, "tokenizer: post_processor: %s", what);
}

static gy_rc id_of(const gy_json *v, int32_t *id, gy_err *err) {
    int64_t i;
    if (!gy_json_int(v, &i) || i < 0 || i >= GY_TOK_MAX_IDS)
        return bad(err, "an id is not a token's number");
    *id = (int32_t)i;
    return GY_OK;
}

/* The ids that a SpecialToken of the template stands for, into ids at place at. */
static gy_rc special_ids(const gy_json *all, const char *name, gy_ids *ids, int at, gy_err *err) {
    const gy_json *list = gy_json_get(gy_json_get(all, name), "ids");
    char q[64];
    if (!gy_json_is(list, GY_JSON_ARR)) {
        return gy_fail(err, GY_EFORMAT,
                       "tokenizer: post_processor: special_tokens has no ids for \"%s\"",
                       gy_err_quote(q, name, strlen(name)));
    }
    gy_rc rc = GY_OK;
    for (uint32_t i = 0; !rc && i < list->n; i++) {
        int32_t id = 0;
        rc = id_of(&list->item[i], &id, err);
        if (!rc) rc = ids_insert(ids, at + (int)i, id, err);
    }
    return rc;
}

static gy_rc template_add(gy_post *p, const gy_json *v, gy_err *err) {
    const gy_json *single = gy_json_get(v, "single"), *all = gy_json_get(v, "special_tokens");
    if (!gy_json_is(single, GY_JSON_ARR)) return bad(err, "single is not a list");
    bool text = false;
    int front = 0; /* ids that this template puts before what is there already */
    for (uint32_t i = 0; i < single->n; i++) {
        const gy_json *special = gy_json_get(&single->item[i], "SpecialToken");
        const char *sequence = gy_json_s(gy_json_get(&single->item[i], "Sequence"), "id", NULL);
        const char *name = gy_json_s(special, "id", NULL);
        if (sequence) {
            if (strcmp(sequence, "A") || text) {
                return gy_fail(err, GY_EUNSUPPORTED,
                               "tokenizer: post_processor: single has another text than one A");
            }
            text = true;
            continue;
        }
        if (!name) return bad(err, "a piece of single is neither SpecialToken nor Sequence");
        gy_ids *ids = text ? &p->after : &p->before;
        int n = ids->n;
        gy_rc rc = special_ids(all, name, ids, text ? n : front, err);
        if (rc) return rc;
        if (!text) front += ids->n - n;
    }
    return text ? GY_OK : bad(err, "single has no Sequence A");
}

/* ["[SEP]", 102] */
static gy_rc pair_id(const gy_json *v, const char *key, int32_t *id, gy_err *err) {
    const gy_json *pair = gy_json_get(v, key);
    if (!gy_json_is(pair, GY_JSON_ARR) || pair->n != 2)
        return bad(err, "sep and cls are not pairs of a name and an id");
    return id_of(&pair->item[1], id, err);
}

static gy_rc bert_add(gy_post *p, const gy_json *v, gy_err *err) {
    int32_t sep = -1, cls = -1;
    gy_rc rc = pair_id(v, "sep", &sep, err);
    if (!rc) rc = pair_id(v, "cls", &cls, err);
    if (!rc) rc = ids_insert(&p->before, 0, cls, err);
    return rc ? rc : ids_insert(&p->after, p->after.n, sep, err);
}

static gy_rc step_add(gy_post *p, const gy_json *v, int depth, gy_err *err) {
    if (gy_json_null(v)) return GY_OK;
    const char *type = gy_json_s(v, "type", NULL);
    if (!type) return bad(err, "type is missing");
    if (!strcmp(type, "ByteLevel")) return GY_OK; /* changes offsets only */
    if (!strcmp(type, "TemplateProcessing")) return template_add(p, v, err);
    if (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing"))
        return bert_add(p, v, err);
    if (!strcmp(type, "Sequence")) {
        const gy_json *list = gy_json_get(v, "processors");
        if (!gy_json_is(list, GY_JSON_ARR)) return bad(err, "processors is not a list");
        if (depth > 8)
            return gy_fail(err, GY_ELIMIT,
                           "tokenizer: post_processor: Sequences are nested too deeply");
        gy_rc rc = GY_OK;
        for (uint32_t i = 0; !rc && i < list->n; i++)
            rc = step_add(p, &list->item[i], depth + 1, err);
        return rc;
    }
    char q[64];
    return gy_fail(err, GY_EUNSUPPORTED, "tokenizer: post_processor: type \"%s\"",
                   gy_err_quote(q, type, strlen(type)));
}

static gy_rc ids_known(const gy_ids *ids, const gy_tok *tok, gy_err *err) {
    for (int i = 0; i < ids->n; i++) {
        size_t n;
        if (gy_tok_name(tok, ids->id[i], &n)) continue;
        return gy_fail(err, GY_EFORMAT, "tokenizer: post_processor: id %d is no token", ids->id[i]);
    }
    return GY_OK;
}

gy_rc gy_post_new(gy_post *p, const gy_json *post_processor, const gy_tok *tok, gy_err *err) {
    gy_rc rc = step_add(p, post_processor, 0, err);
    if (!rc) rc = ids_known(&p->before, tok, err);
    if (!rc) rc = ids_known(&p->after, tok, err);
    p->first = !rc && p->before.n ? p->before.id[0] : -1;
    return rc;
}

gy_rc gy_post_override(gy_post *p, int add_bos, int32_t bos, int add_eos, int32_t eos,
                       gy_err *err) {
    gy_rc rc = GY_OK;
    bool has_bos = p->before.n && p->before.id[0] == bos;
    bool has_eos = p->after.n && p->after.id[p->after.n - 1] == eos;
    if (bos >= 0 && add_bos == 1 && !has_bos) rc = ids_insert(&p->before, 0, bos, err);
    if (bos >= 0 && add_bos == 0 && has_bos) ids_remove(&p->before, 0);
    if (!rc && eos >= 0 && add_eos == 1 && !has_eos)
        rc = ids_insert(&p->after, p->after.n, eos, err);
    if (eos >= 0 && add_eos == 0 && has_eos) ids_remove(&p->after, p->after.n - 1);
    return rc;
}

void gy_post_free(gy_post *p) {
    gy_free(p->before.id);
    gy_free(p->after.id);
    *p = (gy_post){0};
}
