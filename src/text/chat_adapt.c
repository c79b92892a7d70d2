/* Messages as a template wants them: spec/serving.md 4.1, 4.2, 20.7. */
#include <string.h>

#include "text/chat.h"

/* ---- JSON being made ---- */

gy_json gy_cj_str(const char *s, size_t n) {
    return (gy_json){.kind = GY_JSON_STR, .n = (uint32_t)n, .s = s};
}
gy_json gy_cj_bool(bool b) {
    return (gy_json){.kind = GY_JSON_BOOL, .truth = b};
}

static void *room(gy_chat_build *b, size_t bytes) {
    void *p = gy_arena_alloc(&b->arena, bytes);
    if (!p) b->oom = true;
    return p;
}

gy_json gy_cj_array(gy_chat_build *b, const gy_json *from, uint32_t more) {
    gy_json v = {.kind = GY_JSON_ARR};
    uint32_t n = from ? from->n : 0;
    gy_json *item = room(b, ((size_t)n + more + 1) * sizeof *item);
    if (!item) return v;
    if (n) memcpy(item, from->item, n * sizeof *item);
    v.item = item, v.n = n;
    return v;
}

gy_json gy_cj_object(gy_chat_build *b, const gy_json *from, uint32_t more) {
    gy_json v = gy_cj_array(b, from, more);
    uint32_t n = from ? from->n : 0;
    gy_json_key *key = room(b, ((size_t)n + more + 1) * sizeof *key);
    v.kind = GY_JSON_OBJ;
    if (!key || b->oom) return v.n = 0, v;
    if (n) memcpy(key, from->key, n * sizeof *key);
    v.key = key;
    return v;
}

void gy_cj_push(gy_json *arr, gy_json v) {
    if (arr->item) ((gy_json *)arr->item)[arr->n++] = v;
}

void gy_cj_set(gy_json *obj, const char *key, gy_json v) {
    size_t n = strlen(key);
    if (!obj->item || !obj->key) return;
    for (uint32_t i = 0; i < obj->n; i++)
        if (obj->key[i].n == n && memcmp(obj->key[i].s, key, n) == 0) {
            ((gy_json *)obj->item)[i] = v;
            return;
        }
    ((gy_json_key *)obj->key)[obj->n] = (gy_json_key){key, (uint32_t)n};
    gy_cj_push(obj, v);
}

void gy_cj_free(gy_chat_build *b) {
    for (size_t i = 0; i < b->n_docs; i++) gy_json_free(&b->docs[i]);
    gy_free(b->docs);
    gy_arena_free(&b->arena);
}

/* ---- Content ---- */

static bool is(const gy_json *v, const char *text) {
    return gy_json_is(v, GY_JSON_STR) && v->n == strlen(text) && memcmp(v->s, text, v->n) == 0;
}

static bool is_any(const gy_json *v, const char *const *words) {
    for (; *words; words++)
        if (is(v, *words)) return true;
    return false;
}

/* The text of a part, or NULL when it is none. */
static const gy_json *part_text(const gy_json *part) {
    static const char *const texts[] = {"text", "input_text", "output_text", NULL};
    const gy_json *type = gy_json_get(part, "type"), *text = gy_json_get(part, "text");
    if (gy_json_is(part, GY_JSON_STR)) return part;
    if (is(type, "refusal")) return gy_json_get(part, "refusal");
    return !type || is_any(type, texts) ? text : NULL;
}

static gy_rc bad_part(const gy_json *part, gy_err *err) {
    char quoted[64];
    const gy_json *type = gy_json_get(part, "type");
    if (!gy_json_is(type, GY_JSON_STR))
        return gy_fail(err, GY_EARG, "messages: a content part without type and text");
    return gy_fail(err, GY_EUNSUPPORTED,
                   "messages: content parts of type \"%s\" are not supported by this model",
                   gy_err_quote(quoted, type->s, type->n));
}

/* All text parts in one string, nothing between them. */
static gy_rc join_parts(gy_chat_build *b, const gy_json *parts, gy_json *out, gy_err *err) {
    size_t n = 0;
    for (uint32_t i = 0; i < parts->n; i++) {
        const gy_json *text = part_text(&parts->item[i]);
        if (!gy_json_is(text, GY_JSON_STR)) return bad_part(&parts->item[i], err);
        n += text->n;
    }
    if (n > UINT32_MAX / 2) return gy_fail(err, GY_ELIMIT, "messages: content too long");
    char *s = room(b, n + 1), *at = s;
    *out = gy_cj_str(s, n);
    if (!s) return GY_OK;
    for (uint32_t i = 0; i < parts->n; i++) {
        const gy_json *text = part_text(&parts->item[i]);
        memcpy(at, text->s, text->n), at += text->n;
    }
    return GY_OK;
}

/* Parts for a template that reads lists: text parts as {type: text}, images as {type: image}. */
static gy_rc typed_parts(gy_chat_build *b, const gy_json *parts, gy_json *out, gy_err *err) {
    static const char *const images[] = {"image", "image_url", "input_image", NULL};
    *out = gy_cj_array(b, NULL, parts->n);
    for (uint32_t i = 0; i < parts->n; i++) {
        const gy_json *part = &parts->item[i], *text = part_text(part);
        bool image = is_any(gy_json_get(part, "type"), images);
        if (!image && !gy_json_is(text, GY_JSON_STR)) return bad_part(part, err);
        gy_json p = gy_cj_object(b, NULL, 2);
        gy_cj_set(&p, "type", image ? gy_cj_str("image", 5) : gy_cj_str("text", 4));
        if (!image) gy_cj_set(&p, "text", *text);
        gy_cj_push(out, p);
    }
    return GY_OK;
}

static gy_rc adapt_content(gy_chat_build *b, const gy_chat_caps *caps, const gy_json *content,
                           gy_json *out, gy_err *err) {
    if (content->kind == GY_JSON_ARR)
        return caps->typed_content ? typed_parts(b, content, out, err)
                                   : join_parts(b, content, out, err);
    if (content->kind != GY_JSON_STR)
        return gy_fail(err, GY_EARG,
                       "messages: content must be a string, null or an array of parts");
    *out = *content;
    if (caps->string_content || !caps->typed_content) return GY_OK;
    gy_json part = gy_cj_object(b, NULL, 2);
    gy_cj_set(&part, "type", gy_cj_str("text", 4));
    gy_cj_set(&part, "text", *content);
    *out = gy_cj_array(b, NULL, 1);
    gy_cj_push(out, part);
    return GY_OK;
}

/* ---- Tool calls ---- */

/* As Python's json.dumps writes it; templates that concatenate arguments were trained on that. */
static void dump(gy_buf *s, const gy_json *v) {
    if (v->kind != GY_JSON_ARR && v->kind != GY_JSON_OBJ) {
        gy_json_write(s, v);
        return;
    }
    gy_buf_c(s, v->kind == GY_JSON_ARR ? '[' : '{');
    for (uint32_t i = 0; i < v->n; i++) {
        if (i) gy_buf_puts(s, ", ");
        if (v->kind == GY_JSON_OBJ) gy_buf_json(s, v->key[i].s, v->key[i].n), gy_buf_puts(s, ": ");
        dump(s, &v->item[i]);
    }
    gy_buf_c(s, v->kind == GY_JSON_ARR ? ']' : '}');
}

/* JSON text as an object, kept in b; NULL when it is none. No text at all is an empty object: some
 * clients send that. */
static const gy_json *parse_arguments(gy_chat_build *b, const gy_json *text) {
    gy_err ignored = {0};
    if (b->n_docs == b->cap_docs) {
        size_t cap = b->cap_docs ? b->cap_docs * 2 : 8;
        gy_json_doc *docs = gy_realloc(b->docs, cap * sizeof *docs);
        if (!docs) return b->oom = true, NULL;
        b->docs = docs, b->cap_docs = cap;
    }
    gy_json_doc *doc = &b->docs[b->n_docs];
    *doc = (gy_json_doc){0};
    if (gy_json_parse(doc, text->n ? text->s : "{}", text->n ? text->n : 2, &ignored)) {
        gy_json_free(doc);
        return NULL;
    }
    b->n_docs++;
    return gy_json_is(doc->root, GY_JSON_OBJ) ? doc->root : NULL;
}

static gy_json adapt_arguments(gy_chat_build *b, const gy_chat_caps *caps, const gy_json *args) {
    if (args->kind == GY_JSON_STR && caps->object_arguments) {
        const gy_json *obj = parse_arguments(b, args);
        return obj ? *obj : *args;
    }
    if (args->kind != GY_JSON_OBJ || caps->object_arguments || !caps->tool_calls) return *args;
    gy_buf s = {0};
    dump(&s, args);
    char *copy = s.oom ? NULL : gy_arena_strndup(&b->arena, s.p, s.n);
    gy_json v = gy_cj_str(copy, s.n);
    gy_buf_free(&s);
    if (!copy) b->oom = true, v = *args;
    return v;
}

static gy_json adapt_call(gy_chat_build *b, const gy_chat_caps *caps, const gy_json *call) {
    const gy_json *fn = gy_json_get(call, "function"), *args = gy_json_get(fn, "arguments");
    if (!gy_json_is(call, GY_JSON_OBJ) || !args) return *call;
    gy_json copy = gy_cj_object(b, call, 0), f = gy_cj_object(b, fn, 0);
    gy_cj_set(&f, "arguments", adapt_arguments(b, caps, args));
    gy_cj_set(&copy, "function", f);
    return copy;
}

static gy_json adapt_calls(gy_chat_build *b, const gy_chat_caps *caps, const gy_json *calls) {
    gy_json out = gy_cj_array(b, NULL, calls->n);
    for (uint32_t i = 0; i < calls->n; i++) gy_cj_push(&out, adapt_call(b, caps, &calls->item[i]));
    return out;
}

/* The deprecated single function_call, as a list of calls. */
static gy_json old_call(gy_chat_build *b, const gy_json *fn) {
    gy_json list = gy_cj_array(b, NULL, 1), call = gy_cj_object(b, NULL, 2);
    gy_cj_set(&call, "type", gy_cj_str("function", 8));
    gy_cj_set(&call, "function", *fn);
    gy_cj_push(&list, call);
    return list;
}

/* ---- Messages ---- */

static gy_json adapt_role(const gy_chat_template *t, const gy_json *role) {
    if (is(role, "developer") && !strstr(t->source, "developer")) return gy_cj_str("system", 6);
    if (is(role, "function")) return gy_cj_str("tool", 4);
    return *role;
}

static gy_rc adapt_message(gy_chat_build *b, const gy_chat_template *t, const gy_json *m,
                           gy_chat_try how, gy_json *out, gy_err *err) {
    static const char *const reasons[] = {"reasoning_content", "thinking", "reasoning"};
    const gy_json *reason = NULL;
    if (!gy_json_is(m, GY_JSON_OBJ))
        return gy_fail(err, GY_EARG, "messages: every message must be an object");
    if (!gy_json_is(gy_json_get(m, "role"), GY_JSON_STR))
        return gy_fail(err, GY_EARG, "messages: role must be a string");
    for (int i = 0; i < 3 && !reason; i++)
        if (gy_json_is(gy_json_get(m, reasons[i]), GY_JSON_STR))
            reason = gy_json_get(m, reasons[i]);
    *out = gy_cj_object(b, NULL, m->n + 5);
    for (uint32_t i = 0; i < m->n; i++) {
        const gy_json *v = &m->item[i];
        gy_json now = *v;
        gy_rc rc = GY_OK;
        if (v->kind == GY_JSON_NULL) continue;
        if (strcmp(m->key[i].s, "role") == 0)
            now = adapt_role(t, v);
        else if (strcmp(m->key[i].s, "content") == 0)
            rc = adapt_content(b, &t->caps, v, &now, err);
        else if (strcmp(m->key[i].s, "tool_calls") == 0 && v->kind == GY_JSON_ARR)
            now = adapt_calls(b, &t->caps, v);
        if (rc) return rc;
        gy_cj_set(out, m->key[i].s, now);
    }
    const gy_json *fn = gy_json_get(m, "function_call"), *refusal = gy_json_get(m, "refusal");
    if (gy_json_is(fn, GY_JSON_OBJ) && !gy_json_get(out, "tool_calls")) {
        gy_json calls = old_call(b, fn);
        gy_cj_set(out, "tool_calls", adapt_calls(b, &t->caps, &calls));
    }
    if (!gy_json_get(out, "content") && gy_json_is(refusal, GY_JSON_STR))
        gy_cj_set(out, "content", *refusal);
    if (!gy_json_get(out, "content") && how.fill_content)
        gy_cj_set(out, "content", gy_cj_str("", 0));
    for (int i = 0; i < 3 && reason; i++) gy_cj_set(out, reasons[i], *reason);
    return GY_OK;
}

/* The text of a content that was adapted, for joining. */
static gy_rc plain_text(gy_chat_build *b, const gy_json *content, gy_json *out, gy_err *err) {
    if (gy_json_is(content, GY_JSON_ARR)) return join_parts(b, content, out, err);
    *out = gy_json_is(content, GY_JSON_STR) ? *content : gy_cj_str("", 0);
    return GY_OK;
}

/* Moves all system messages into one leading message, joined by an empty line. */
static gy_rc merge_system(gy_chat_build *b, const gy_chat_template *t, gy_json *messages,
                          gy_err *err) {
    gy_json out = gy_cj_array(b, NULL, messages->n), text, lead = gy_cj_object(b, NULL, 2);
    gy_buf s = {0};
    gy_rc rc = GY_OK;
    gy_cj_push(&out, lead);
    for (uint32_t i = 0; i < messages->n && !rc; i++) {
        const gy_json *m = &messages->item[i];
        if (!is(gy_json_get(m, "role"), "system")) {
            gy_cj_push(&out, *m);
            continue;
        }
        rc = plain_text(b, gy_json_get(m, "content"), &text, err);
        if (s.n) gy_buf_puts(&s, "\n\n");
        if (!rc && text.s) gy_buf_add(&s, text.s, text.n);
    }
    char *copy = rc || s.oom ? NULL : gy_arena_strndup(&b->arena, s.p ? s.p : "", s.n);
    size_t n = s.n;
    gy_buf_free(&s);
    if (rc) return rc;
    if (!copy || b->oom) return b->oom = true, GY_OK;
    gy_json joined = gy_cj_str(copy, n), content;
    rc = adapt_content(b, &t->caps, &joined, &content, err);
    gy_cj_set(&lead, "role", gy_cj_str("system", 6));
    gy_cj_set(&lead, "content", content);
    ((gy_json *)out.item)[0] = lead;
    *messages = out;
    return rc;
}

gy_rc gy_chat_adapt(gy_chat_build *b, const gy_chat_template *t, const gy_json *messages,
                    gy_chat_try how, gy_json *out, gy_err *err) {
    gy_rc rc = GY_OK;
    if (!gy_json_is(messages, GY_JSON_ARR))
        return gy_fail(err, GY_EARG, "messages: an array is expected");
    *out = gy_cj_array(b, NULL, messages->n);
    for (uint32_t i = 0; i < messages->n && !rc; i++) {
        gy_json m;
        rc = adapt_message(b, t, &messages->item[i], how, &m, err);
        if (!rc) gy_cj_push(out, m);
    }
    if (!rc && how.merge_system) rc = merge_system(b, t, out, err);
    return rc;
}
