/* chat: published templates over whole conversations, against recorded renderings of transformers.
 *
 * fixtures/templates/NAME.cases.json: the engine alone over the variables that transformers makes,
 * then gy_chat_render over the same conversations as request bodies. The second may only differ
 * where spec/serving.md 4.1 and 4.2 ask for it; such conversations are named in adapted(), and must
 * still render. */
#include <dirent.h>
#include <time.h>

#include "testlib.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/tmpl.h"

static char *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    gy_buf b = {0};
    char block[65536];
    if (!f) return NULL;
    for (size_t k; (k = fread(block, 1, sizeof block, f)) > 0;) gy_buf_add(&b, block, k);
    fclose(f);
    return gy_buf_take(&b, n);
}

static void load(const char *path, gy_json_doc *doc) {
    size_t n;
    gy_err err = {0};
    char *text = read_file(path, &n);
    assert_non_null(text);
    assert_ok(gy_json_parse(doc, text, n, &err), err);
    gy_free(text);
}

static void parse(gy_json_doc *doc, const char *text) {
    gy_err err = {0};
    assert_ok(gy_json_parse(doc, text, strlen(text), &err), err);
}

static bool same(const gy_buf *out, const gy_json *want) {
    return out->n == want->n && memcmp(out->p ? out->p : "", want->s, want->n) == 0;
}

static void member(gy_buf *b, const char *key, const gy_json *v) {
    gy_buf_puts(b, b->p[b->n - 1] == '{' ? "" : ",");
    gy_buf_json(b, key, strlen(key));
    gy_buf_c(b, ':');
    if (v)
        gy_json_write(b, v);
    else
        gy_buf_puts(b, "null");
}

/* A message as transformers hands it to a template: no nulls, reasoning under two names. */
static void raw_message(gy_buf *b, const gy_json *m, bool keep_null) {
    const gy_json *thought = gy_json_get(m, "reasoning_content");
    gy_buf_c(b, '{');
    if (thought) member(b, "thinking", thought);
    for (uint32_t i = 0; i < m->n; i++)
        if (keep_null || m->item[i].kind != GY_JSON_NULL) member(b, m->key[i].s, &m->item[i]);
    gy_buf_c(b, '}');
}

static void raw_variables(gy_buf *b, const gy_json *conv, const gy_json *options,
                          const gy_json *special) {
    const gy_json *messages = gy_json_get(conv, "messages");
    gy_buf_puts(b, "{\"messages\":[");
    for (uint32_t i = 0; i < messages->n; i++) {
        if (i) gy_buf_c(b, ',');
        raw_message(b, &messages->item[i], gy_json_b(options, "keep_null", false));
    }
    gy_buf_puts(b, "]");
    member(b, "tools", gy_json_get(conv, "tools"));
    member(b, "documents", NULL);
    gy_buf_puts(b, gy_json_b(options, "add_generation_prompt", false)
                       ? ",\"add_generation_prompt\":true"
                       : ",\"add_generation_prompt\":false");
    for (uint32_t i = 0; i < special->n; i++)
        if (special->item[i].kind != GY_JSON_NULL) member(b, special->key[i].s, &special->item[i]);
    for (uint32_t i = 0; i < options->n; i++)
        if (strcmp(options->key[i].s, "add_generation_prompt") != 0 &&
            strcmp(options->key[i].s, "keep_null") != 0)
            member(b, options->key[i].s, &options->item[i]);
    gy_buf_puts(b, "}");
}

/* The engine alone. */
static bool raw_case(const gy_tmpl *t, const char *name, const gy_json *conv, const gy_json *c,
                     const gy_json *special) {
    const gy_json *want = gy_json_get(c, "expected"), *error = gy_json_get(c, "error");
    gy_buf text = {0}, out = {0};
    gy_json_doc doc = {0};
    gy_err err = {0};
    raw_variables(&text, conv, gy_json_get(c, "options"), special);
    parse(&doc, text.p);
    gy_rc rc = gy_tmpl_render(t, doc.root, NULL, &out, &err);
    bool ok = want ? rc == GY_OK && same(&out, want) : rc != GY_OK;
    if (ok && error && strcmp(gy_json_s(error, "type", ""), "TemplateError") == 0)
        ok = rc == GY_EARG && strcmp(err.msg, gy_json_s(error, "message", "")) == 0;
    if (!ok)
        printf("MISS %s %s: got %s\n   want %s\n", name, gy_json_s(c, "conversation", ""),
               rc ? err.msg : out.p, want ? want->s : "an error");
    gy_json_free(&doc);
    gy_buf_free(&text), gy_buf_free(&out);
    return ok;
}

/* Conversations that a request adapts, so that the text may differ from the plain rendering. */
static bool adapted(const char *id) {
    static const char *const ids[] = {"tool_call_strargs", "developer", "parts_text", "image",
                                      "image_url",         NULL};
    for (int i = 0; ids[i]; i++)
        if (strcmp(ids[i], id) == 0) return true;
    return false;
}

static bool chat_case(const gy_chat *chat, const char *name, const gy_json *conv,
                      const gy_json *c) {
    const gy_json *want = gy_json_get(c, "expected"), *options = gy_json_get(c, "options");
    const char *id = gy_json_s(c, "conversation", "");
    gy_buf text = {0}, out = {0};
    gy_json_doc doc = {0};
    gy_err err = {0};
    bool open = gy_json_b(options, "continue_final_message", false),
         prompt = gy_json_b(options, "add_generation_prompt", false);
    gy_buf_puts(&text, "{");
    member(&text, "messages", gy_json_get(conv, "messages"));
    if (gy_json_get(conv, "tools")) member(&text, "tools", gy_json_get(conv, "tools"));
    gy_buf_puts(&text,
                prompt ? ",\"add_generation_prompt\":true" : ",\"add_generation_prompt\":false");
    if (open) gy_buf_puts(&text, ",\"continue_final_message\":true");
    gy_buf_puts(&text, ",\"chat_template_kwargs\":{");
    for (uint32_t i = 0; i < options->n; i++)
        if (strstr("add_generation_prompt keep_null continue_final_message", options->key[i].s) ==
            NULL)
            member(&text, options->key[i].s, &options->item[i]);
    gy_buf_puts(&text, "}}");
    parse(&doc, text.p);
    gy_rc rc = gy_chat_render(chat, doc.root, &out, &err);
    bool keep_null = gy_json_b(options, "keep_null", false);
    bool ok = !want                      ? true
              : adapted(id) || keep_null ? rc == GY_OK || rc == GY_EUNSUPPORTED
                                         : rc == GY_OK && same(&out, want);
    if (!ok)
        printf("MISS chat %s %s: got %s\n   want %s\n", name, id, rc ? err.msg : out.p,
               want ? want->s : "an error");
    gy_json_free(&doc);
    gy_buf_free(&text), gy_buf_free(&out);
    return ok;
}

static void run_file(const char *name, const gy_json *conversations, int total[3]) {
    char rel[256];
    size_t n;
    gy_json_doc doc = {0};
    gy_err err = {0};
    gy_tmpl *t = NULL;
    gy_chat *chat = NULL;
    snprintf(rel, sizeof rel, "fixtures/templates/%s", name);
    load(shared_path(rel), &doc);
    snprintf(rel, sizeof rel, "fixtures/templates/jinja/%s", gy_json_s(doc.root, "template", ""));
    char *source = read_file(shared_path(rel), &n);
    assert_non_null(source);
    assert_ok(gy_tmpl_parse(source, n, &t, &err), err);
    const gy_json *special = gy_json_get(doc.root, "special_tokens"),
                  *cases = gy_json_get(doc.root, "cases");
    gy_chat_options options = {.source = source,
                               .bos = gy_json_s(special, "bos_token", NULL),
                               .eos = gy_json_s(special, "eos_token", NULL)};
    assert_ok(gy_chat_new(&options, &chat, &err), err);
    int raw = 0, raws = 0, adapt = 0;
    for (uint32_t i = 0; i < cases->n; i++) {
        const gy_json *c = &cases->item[i],
                      *conv = gy_json_get(conversations, gy_json_s(c, "conversation", ""));
        bool open = gy_json_b(gy_json_get(c, "options"), "continue_final_message", false);
        if (!open) raws++, raw += raw_case(t, name, conv, c, special);
        adapt += chat_case(chat, name, conv, c);
    }
    printf("%s: engine %d/%d, chat %d/%u\n", name, raw, raws, adapt, cases->n);
    total[0] += raw + adapt, total[1] += raws + (int)cases->n, total[2]++;
    gy_chat_free(chat);
    gy_tmpl_free(t);
    gy_free(source);
    gy_json_free(&doc);
}

static void test_published(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("fixtures/templates/conversations.json");
    gy_json_doc conversations = {0};
    load(shared_path("fixtures/templates/conversations.json"), &conversations);
    setenv("TZ", "UTC0", 1), tzset();
    setenv("GYRE_NOW", "1768480496", 1); /* 2026-01-15T12:34:56 */
    int total[3] = {0};
    DIR *dir = opendir(shared_path("fixtures/templates"));
    for (struct dirent *e; (e = readdir(dir));)
        if (strstr(e->d_name, ".cases.json"))
            run_file(e->d_name, gy_json_get(conversations.root, "conversations"), total);
    closedir(dir);
    gy_json_free(&conversations);
    printf("published templates: %d/%d in %d files\n", total[0], total[1], total[2]);
    assert_true(total[2] > 0);
    assert_int_equal(total[0], total[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
