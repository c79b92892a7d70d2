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

/* ---- Conversations of cases/template/chat.json ---- */

static const char *const sources[][2] = {
    {"deepseek_v3", "deepseek-v3"}, {"gemma3", "gemma3"}, {"qwen3", "qwen3"}};

static gy_chat *open_published(const char *name, gy_tmpl **t) {
    char rel[256];
    size_t n;
    gy_err err = {0};
    gy_json_doc doc = {0};
    gy_chat *chat = NULL;
    snprintf(rel, sizeof rel, "fixtures/templates/%s.cases.json", name);
    load(shared_path(rel), &doc);
    const gy_json *special = gy_json_get(doc.root, "special_tokens");
    snprintf(rel, sizeof rel, "fixtures/templates/jinja/%s.jinja", name);
    char *source = read_file(shared_path(rel), &n);
    assert_non_null(source);
    gy_chat_options o = {.source = source,
                         .bos = gy_json_s(special, "bos_token", NULL),
                         .eos = gy_json_s(special, "eos_token", NULL)};
    assert_ok(gy_chat_new(&o, &chat, &err), err);
    assert_ok(gy_tmpl_parse(source, n, t, &err), err);
    gy_free(source);
    gy_json_free(&doc);
    return chat;
}

/* The case whose outcome is expected: a call with null content must look like one with ""
 * (cases/README.md). */
static const gy_json *model_case(const gy_json *cases, const gy_json *c) {
    if (strcmp(gy_json_s(c, "id", ""), "tool_call_null_content") != 0) return c;
    for (uint32_t i = 0; i < cases->n; i++)
        if (strcmp(gy_json_s(&cases->item[i], "id", ""), "tool_call_and_result") == 0 &&
            strcmp(gy_json_s(&cases->item[i], "tokenizer", ""), gy_json_s(c, "tokenizer", "")) == 0)
            return &cases->item[i];
    return c;
}

static void test_chat_json(void **state) {
    (void)state;
    SKIP_WITHOUT_SHARED("cases/template/chat.json");
    SKIP_WITHOUT_SHARED("fixtures/templates/jinja/qwen3.jinja");
    gy_json_doc doc = {0};
    load(shared_path("cases/template/chat.json"), &doc);
    const gy_json *cases = gy_json_get(doc.root, "cases");
    int passed = 0, total = 0;
    for (size_t s = 0; s < sizeof sources / sizeof *sources; s++) {
        gy_tmpl *t = NULL;
        gy_chat *chat = open_published(sources[s][1], &t);
        for (uint32_t i = 0; i < cases->n; i++) {
            const gy_json *c = &cases->item[i], *like = model_case(cases, c),
                          *want = gy_json_get(like, "render");
            gy_buf out = {0};
            gy_err err = {0};
            if (strcmp(gy_json_s(c, "tokenizer", ""), sources[s][0]) != 0) continue;
            gy_rc rc = gy_chat_render(chat, gy_json_get(c, "context"), &out, &err);
            bool ok = want ? rc == GY_OK && same(&out, want) : rc != GY_OK;
            if (strcmp(gy_json_s(like, "error", ""), "raised") == 0)
                ok = rc == GY_EARG && !strcmp(err.msg, gy_json_s(like, "message", ""));
            if (!ok)
                printf("MISS %s %s: got %s\n   want %s\n", sources[s][0], gy_json_s(c, "id", ""),
                       rc ? err.msg : out.p, want ? want->s : "an error");
            passed += ok, total++;
            gy_buf_free(&out);
        }
        gy_chat_free(chat);
        gy_tmpl_free(t);
    }
    printf("cases/template/chat.json: %d/%d\n", passed, total);
    gy_json_free(&doc);
    assert_true(total > 0);
    assert_int_equal(passed, total);
}

/* ---- What requests ask for ---- */

static gy_chat *open_chat(const char *source) {
    gy_chat *chat = NULL;
    gy_err err = {0};
    gy_chat_options o = {.source = source, .bos = "<s>", .eos = "</s>"};
    assert_ok(gy_chat_new(&o, &chat, &err), err);
    return chat;
}

static gy_rc ask(const gy_chat *chat, const char *body, gy_buf *out, gy_err *err) {
    gy_json_doc doc = {0};
    *err = (gy_err){0};
    out->n = 0;
    parse(&doc, body);
    gy_rc rc = gy_chat_render(chat, doc.root, out, err);
    gy_json_free(&doc);
    return rc;
}

typedef struct {
    const char *source, *body, *want;
    gy_rc rc;
} asked;

static void run_asked(const asked *a, size_t n) {
    gy_buf out = {0};
    gy_err err;
    for (size_t i = 0; i < n; i++) {
        gy_chat *chat = open_chat(a[i].source);
        gy_rc rc = ask(chat, a[i].body, &out, &err);
        const char *got = rc ? err.msg : out.p ? out.p : "";
        if (rc != a[i].rc || (rc ? strstr(got, a[i].want) == NULL : strcmp(got, a[i].want) != 0))
            fail_msg("%s\n with %s\n got  %s: %s\n want %s: %s", a[i].source, a[i].body,
                     gy_rc_name(rc), got, gy_rc_name(a[i].rc), a[i].want);
        gy_chat_free(chat);
    }
    gy_buf_free(&out);
}

#define TALK                                                                                       \
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U\"}" \
    ","                                                                                            \
    "{\"role\":\"assistant\",\"content\":\"A\"},{\"role\":\"user\",\"content\":\"V\"}]}"

static void test_builtin(void **state) {
    (void)state;
    static const asked a[] = {
        {"chatml", TALK,
         "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<"
         "|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n",
         GY_OK},
        {"llama2", TALK, "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] V [/INST]",
         GY_OK},
        {"llama3", TALK,
         "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_"
         "header_id|>\n\nU<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|"
         "start_header_id|>user<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>assistant<|end_"
         "header_id|>\n\n",
         GY_OK},
        {"mistral-v1", TALK, "<s> [INST] S\n\nU [/INST] A</s> [INST] V [/INST]", GY_OK},
        {"mistral-v3", TALK, "<s>[INST] S\n\nU[/INST] A</s>[INST] V[/INST]", GY_OK},
        {"mistral-v7", TALK,
         "<s>[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST] U[/INST] A</s>[INST] V[/INST]", GY_OK},
        {"gemma", TALK,
         "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<"
         "start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n",
         GY_OK},
        {"phi3", TALK,
         "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n<|"
         "assistant|>\n",
         GY_OK},
        {"zephyr", TALK,
         "<|system|>\nS</s>\n<|user|>\nU</s>\n<|assistant|>\nA</s>\n<|user|>\nV</"
         "s>\n<|assistant|>\n",
         GY_OK},
        {"vicuna", TALK, "<s>S\n\nUSER: U\nASSISTANT: A</s>\nUSER: V\nASSISTANT:", GY_OK},
        {"deepseek", TALK,
         "<s>S<\xEF\xBD\x9CUser\xEF\xBD\x9C>U<\xEF\xBD\x9C"
         "Assistant\xEF\xBD\x9C>A</s><\xEF\xBD\x9CUser\xEF\xBD\x9C>V<\xEF\xBD\x9C"
         "Assistant\xEF\xBD\x9C>",
         GY_OK},
    };
    run_asked(a, sizeof a / sizeof *a);
    assert_null(gy_chat_builtin("nope"));
}

#define PLAIN                                                                                      \
    "{% for m in messages %}[{{ m.role }}:{{ m.content + '' }}]{% endfor %}{% if "                 \
    "add_generation_prompt %}>{% endif %}"
#define ONE_SYSTEM                                                                                 \
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ "                     \
    "raise_exception('system must lead') }}{% endif %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
#define PARTS                                                                                      \
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in "     \
    "m.content %}{{ p.text if p.type == 'text' else '<img>' }}{% endfor %}{% endif %}{% endfor %}"
#define CALLS                                                                                      \
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<{{ c.function.name "  \
    "}} {{ c.function.arguments|tojson }}>{% endfor %}{% endfor %}"
#define CALLS_TEXT                                                                                 \
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ '<' + "             \
    "c.function.name + ' ' + c.function.arguments + '>' }}{% endfor %}{% endfor %}"
#define WITH_CALL(args)                                                                            \
    "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{"      \
    "\"name\":\"f\",\"arguments\":" args "}}]}]}"

static void test_requests(void **state) {
    (void)state;
    static const asked a[] = {
        {PLAIN, "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}", "[user:U]>", GY_OK},
        {PLAIN,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}],\"add_generation_prompt\":false}",
         "[user:U]", GY_OK},
        {PLAIN, "{\"messages\":[{\"role\":\"developer\",\"content\":\"D\"}]}", "[system:D]>",
         GY_OK},
        {"{# developer #}" PLAIN, "{\"messages\":[{\"role\":\"developer\",\"content\":\"D\"}]}",
         "[developer:D]>", GY_OK},
        {PLAIN, "{\"messages\":[{\"role\":\"function\",\"content\":\"R\"}]}", "[tool:R]>", GY_OK},
        {PLAIN, "{\"messages\":[{\"role\":\"assistant\",\"content\":null}]}", "[assistant:]>",
         GY_OK},
        {PLAIN,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{"
         "\"type\":\"text\",\"text\":\"b\"}]}]}",
         "[user:ab]>", GY_OK},
        {PLAIN,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{"
         "\"url\":\"x\"}}]}]}",
         "image_url", GY_EUNSUPPORTED},
        {PARTS,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{"
         "\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]}]}",
         "a<img>", GY_OK},
        {PLAIN,
         "{\"messages\":[{\"role\":\"assistant\",\"content\":\"abc "
         "\"}],\"continue_final_message\":true}",
         "[assistant:abc ", GY_OK},
        {"{% for m in messages %}[{{ m.content|trim }}]{% endfor %}",
         "{\"messages\":[{\"role\":\"assistant\",\"content\":\"abc "
         "\"}],\"continue_final_message\":true}",
         "[abc", GY_OK},
        {PLAIN, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"abc\",\"prefill\":true}]}",
         "[assistant:abc", GY_OK},
        {PLAIN,
         "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"continue_final_message\":"
         "true,\"add_generation_prompt\":true}",
         "continue_final_message", GY_EARG},
        {"x",
         "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"continue_final_message\":"
         "true}",
         "continue_final_message", GY_EFORMAT},
        {PLAIN,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}],\"chat_template_kwargs\":{"
         "\"tools\":[]}}",
         "tools", GY_EARG},
        {"{{ mode }}", "{\"messages\":[],\"chat_template_kwargs\":{\"mode\":\"m\"}}", "m", GY_OK},
        {ONE_SYSTEM,
         "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":"
         "\"U\"},{\"role\":\"system\",\"content\":\"b\"}]}",
         "[system:a\n\nb][user:U]", GY_OK},
        {"{{ raise_exception('never: ' ~ messages|length) }}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"system\",\"content\":"
         "\"b\"}]}",
         "never: 2", GY_EARG},
        {CALLS, WITH_CALL("\"{\\\"a\\\":1.0}\""), "<f {\"a\": 1.0}>", GY_OK},
        {CALLS, WITH_CALL("\"\""), "<f {}>", GY_OK},
        {CALLS, WITH_CALL("\"{broken\""), "<f \"{broken\">", GY_OK},
        {CALLS_TEXT, WITH_CALL("\"{\\\"a\\\":1.0}\""), "<f {\"a\":1.0}>", GY_OK},
        {CALLS_TEXT, WITH_CALL("{\"a\":[1,2.50]}"), "<f {\"a\": [1, 2.50]}>", GY_OK},
        {CALLS,
         "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"function_call\":{\"name\":"
         "\"g\",\"arguments\":\"{}\"}}]}",
         "<g {}>", GY_OK},
        {"{{ messages[0].thinking }}{{ messages[0].reasoning }}{{ messages[0].reasoning_content }}",
         "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"reasoning\":\"r\"}]}", "rrr",
         GY_OK},
        {"{{ enable_thinking }}{{ thinking }}", "{\"messages\":[],\"reasoning_effort\":\"none\"}",
         "FalseFalse", GY_OK},
        {"{{ enable_thinking }}{{ reasoning_effort }}",
         "{\"messages\":[],\"reasoning_effort\":\"xhigh\"}", "Truehigh", GY_OK},
        {"{{ reasoning_effort }}{# 'xhigh' #}", "{\"messages\":[],\"reasoning_effort\":\"xhigh\"}",
         "xhigh", GY_OK},
        {"{{ tools is none }}{{ documents is none }}{{ bos_token }}{{ eos_token }}{{ pad_token is "
         "defined }}",
         "{\"messages\":[]}", "TrueTrue<s></s>False", GY_OK},
        {PLAIN, "{\"messages\":5}", "messages", GY_EARG},
        {PLAIN, "{\"messages\":[5]}", "messages", GY_EARG},
        {PLAIN, "{\"messages\":[{\"content\":\"x\"}]}", "role", GY_EARG},
        {PLAIN, "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "content", GY_EARG},
        {PLAIN, "{\"messages\":[],\"tools\":{}}", "tools", GY_EARG},
    };
    run_asked(a, sizeof a / sizeof *a);
}

static void test_several(void **state) {
    (void)state;
    const char *name[] = {"default", "tool_use"}, *text[] = {"D", "{{ tools|length }}"};
    gy_chat_options o = {.n_named = 2, .name = name, .named = text};
    gy_chat *chat = NULL;
    gy_buf out = {0};
    gy_err err = {0};
    assert_ok(gy_chat_new(&o, &chat, &err), err);
    assert_true(gy_chat_has_template(chat));
    assert_ok(ask(chat, "{\"messages\":[]}", &out, &err), err);
    assert_string_equal(out.p, "D");
    assert_ok(ask(chat, "{\"messages\":[],\"tools\":[1,2]}", &out, &err), err);
    assert_string_equal(out.p, "2");
    assert_string_equal(gy_chat_source(chat, true), text[1]);
    gy_chat_free(chat);
    o = (gy_chat_options){0};
    assert_ok(gy_chat_new(&o, &chat, &err), err);
    assert_false(gy_chat_has_template(chat));
    assert_int_equal(ask(chat, "{\"messages\":[]}", &out, &err), GY_ENOTFOUND);
    assert_non_null(strstr(err.msg, "no_chat_template"));
    gy_chat_free(chat);
    /* One that does not parse fails whoever asks for it, and nobody else. */
    const char *broken[] = {"tool_use"}, *source[] = {"a\n{% if %}"};
    o = (gy_chat_options){.source = "D", .n_named = 1, .name = broken, .named = source};
    err = (gy_err){0};
    assert_ok(gy_chat_new(&o, &chat, &err), err);
    assert_true(gy_chat_has_template(chat));
    assert_ok(ask(chat, "{\"messages\":[]}", &out, &err), err);
    for (int i = 0; i < 2; i++) {
        err = (gy_err){0};
        gy_rc rc = i ? gy_chat_check(chat, &err)
                     : ask(chat, "{\"messages\":[],\"tools\":[1]}", &out, &err);
        assert_int_equal(rc, GY_EFORMAT);
        assert_non_null(strstr(err.msg, "tool_use"));
        assert_non_null(strstr(err.msg, "line 2"));
    }
    gy_chat_free(chat);
    gy_buf_free(&out);
}

/* Every allocation of a load and a render fails once; nothing leaks (asan) and every failure says
 * so. */
static void test_memory(void **state) {
    (void)state;
    gy_buf out = {0};
    gy_err err = {0};
    gy_json_doc doc = {0};
    parse(&doc, WITH_CALL("\"{\\\"a\\\":1.0}\""));
    gy_chat_options o = {.source = "chatml", .bos = "<s>"};
    for (long nth = 1;; nth++) {
        gy_chat *chat = NULL;
        err = (gy_err){0}, out.n = 0;
        gy_alloc_fail_at(nth);
        gy_rc rc = gy_chat_new(&o, &chat, &err);
        if (!rc) rc = gy_chat_render(chat, doc.root, &out, &err);
        gy_alloc_fail_at(0);
        gy_chat_free(chat);
        gy_buf_free(&out);
        if (rc) assert_int_equal(rc, err.rc);
        if (!rc && nth > 400) break;
        if (nth > 5000) fail_msg("allocation never stops failing");
    }
    gy_json_free(&doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published), cmocka_unit_test(test_chat_json),
        cmocka_unit_test(test_builtin),   cmocka_unit_test(test_requests),
        cmocka_unit_test(test_several),   cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
