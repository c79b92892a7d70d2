/* Chat: from a request body to the prompt text. */
#include <stdio.h>
#include <string.h>

#include "text/chat.h"
#include "text/jinja.h"

/* The word that marks where an open last message ends. The space tells whether the template trimmed
 * the message. */
static const char marker[] = "GYRE-CONTINUES-HERE-4c1f ";

static void add_template(gy_chat *chat, const char *name, const char *source, gy_rc *rc,
                         gy_err *err) {
    const char *known = gy_chat_builtin(source);
    gy_chat_template *t = &chat->t[chat->n];
    if (known) source = known;
    t->name = gy_strdup(name), t->source = gy_strdup(source);
    if (!t->name || !t->source)
        *rc = gy_fail(err, GY_ENOMEM, "chat template: out of memory");
    else if (gy_tmpl_parse(source, strlen(source), &t->tmpl, &t->why))
        gy_fail_in(&t->why, "chat template %s", name);
    /* A model serves raw text without its template, so a broken one fails only who asks for it. */
    if (t->why.rc == GY_ENOMEM) *rc = gy_fail(err, GY_ENOMEM, "%s", t->why.msg);
    chat->n++;
}

static bool copy_token(char **to, const char *from) {
    return !from || (*to = gy_strdup(from));
}

gy_rc gy_chat_new(const gy_chat_options *o, gy_chat **out, gy_err *err) {
    gy_chat *chat = gy_alloc(sizeof *chat);
    gy_rc rc = GY_OK;
    if (chat) chat->t = gy_alloc_n((size_t)o->n_named + 1, sizeof *chat->t);
    if (!chat || !chat->t || !copy_token(&chat->bos, o->bos) || !copy_token(&chat->eos, o->eos) ||
        !copy_token(&chat->unk, o->unk) || !copy_token(&chat->pad, o->pad))
        rc = gy_fail(err, GY_ENOMEM, "chat template: out of memory");
    if (!rc && o->source) add_template(chat, "default", o->source, &rc, err);
    for (int i = 0; i < o->n_named && !rc; i++) {
        if (o->source && strcmp(o->name[i], "default") == 0)
            continue; /* the single template wins over the list's */
        add_template(chat, o->name[i], o->named[i], &rc, err);
    }
    for (int i = 0; i < (rc ? 0 : chat->n); i++)
        if (chat->t[i].tmpl) gy_chat_probe(&chat->t[i], chat);
    if (rc)
        gy_chat_free(chat);
    else
        *out = chat;
    return rc;
}

void gy_chat_free(gy_chat *chat) {
    if (!chat) return;
    for (int i = 0; i < chat->n; i++) {
        gy_free(chat->t[i].name), gy_free(chat->t[i].source);
        gy_tmpl_free(chat->t[i].tmpl);
    }
    gy_free(chat->t);
    gy_free(chat->bos), gy_free(chat->eos), gy_free(chat->unk), gy_free(chat->pad);
    gy_free(chat);
}

static const gy_chat_template *named(const gy_chat *chat, const char *name) {
    for (int i = 0; i < chat->n; i++)
        if (strcmp(chat->t[i].name, name) == 0) return &chat->t[i];
    return NULL;
}

static const gy_chat_template *choose(const gy_chat *chat, bool tools) {
    const gy_chat_template *t = tools ? named(chat, "tool_use") : NULL;
    return t ? t : named(chat, "default");
}

bool gy_chat_has_template(const gy_chat *chat) {
    return chat && choose(chat, true) != NULL;
}

static gy_rc check(const gy_chat_template *t, gy_err *err) {
    return t->tmpl ? GY_OK : gy_fail(err, t->why.rc, "%s", t->why.msg);
}

gy_rc gy_chat_check(const gy_chat *chat, gy_err *err) {
    gy_rc rc = GY_OK;
    for (int i = 0; i < chat->n && !rc; i++) rc = check(&chat->t[i], err);
    return rc;
}

gy_chat_caps gy_chat_capabilities(const gy_chat *chat, bool with_tools) {
    const gy_chat_template *t = choose(chat, with_tools);
    return t ? t->caps : (gy_chat_caps){0};
}

const char *gy_chat_source(const gy_chat *chat, bool with_tools) {
    const gy_chat_template *t = choose(chat, with_tools);
    return t ? t->source : NULL;
}

/* ---- Variables ---- */

static bool is(const gy_json *v, const char *text) {
    return gy_json_is(v, GY_JSON_STR) && v->n == strlen(text) && memcmp(v->s, text, v->n) == 0;
}

static bool mentions(const gy_chat_template *t, const char *word) {
    char quoted[40];
    snprintf(quoted, sizeof quoted, "'%s'", word);
    if (strstr(t->source, quoted)) return true;
    snprintf(quoted, sizeof quoted, "\"%s\"", word);
    return strstr(t->source, quoted) != NULL;
}

/* A level that the template does not name is mapped to the nearest of low, medium, high. */
static gy_json effort_for(const gy_chat_template *t, const gy_json *effort) {
    if (mentions(t, effort->s)) return *effort;
    if (is(effort, "minimal") || is(effort, "none")) return gy_cj_str("low", 3);
    if (is(effort, "xhigh") || is(effort, "max")) return gy_cj_str("high", 4);
    return *effort;
}

/* Fields of the request about thinking, as the variables that templates read. */
static void set_thinking(gy_json *vars, const gy_chat_template *t, const gy_json *body) {
    const gy_json *effort = gy_json_get(body, "reasoning_effort"),
                  *on = gy_json_get(body, "enable_thinking");
    const gy_json *thinking = gy_json_get(body, "thinking");
    if (!gy_json_is(effort, GY_JSON_STR)) effort = NULL;
    bool off = (gy_json_is(on, GY_JSON_BOOL) && !on->truth) || is(effort, "none") ||
               is(gy_json_get(thinking, "type"), "disabled") ||
               (gy_json_is(thinking, GY_JSON_BOOL) && !thinking->truth);
    bool wanted = (gy_json_is(on, GY_JSON_BOOL) && on->truth) || effort ||
                  is(gy_json_get(thinking, "type"), "enabled") ||
                  (gy_json_is(thinking, GY_JSON_BOOL) && thinking->truth);
    if (off || wanted) {
        gy_cj_set(vars, "enable_thinking", gy_cj_bool(!off));
        gy_cj_set(vars, "thinking", gy_cj_bool(!off));
    } else if (!gy_json_null(on)) {
        gy_cj_set(vars, "enable_thinking", *on); /* as it came; a template may take a word */
    }
    if (effort && (!off || t->caps.reasoning_effort))
        gy_cj_set(vars, "reasoning_effort", effort_for(t, effort));
    else if (off && mentions(t, "none") && t->caps.reasoning_effort)
        gy_cj_set(vars, "reasoning_effort", gy_cj_str("none", 4));
}

static gy_rc set_kwargs(gy_json *vars, const gy_json *kwargs, gy_err *err) {
    static const char *const fixed[] = {"messages", "tools", "add_generation_prompt", "bos_token",
                                        "eos_token"};
    if (gy_json_null(kwargs)) return GY_OK;
    if (kwargs->kind != GY_JSON_OBJ)
        return gy_fail(err, GY_EARG, "chat_template_kwargs: an object is expected");
    for (uint32_t i = 0; i < kwargs->n; i++) {
        for (size_t k = 0; k < sizeof fixed / sizeof *fixed; k++)
            if (strcmp(kwargs->key[i].s, fixed[k]) == 0)
                return gy_fail(err, GY_EARG, "chat_template_kwargs: may not set %s", fixed[k]);
        gy_cj_set(vars, kwargs->key[i].s, kwargs->item[i]);
    }
    return GY_OK;
}

static void set_token(gy_json *vars, const char *name, const char *text) {
    if (text) gy_cj_set(vars, name, gy_cj_str(text, strlen(text)));
}

typedef struct {
    const gy_chat *chat;
    const gy_chat_template *t;
    const gy_json *body, *messages;
    bool prompt, open; /* add_generation_prompt; the last message stays open */
} request;

static gy_rc variables(gy_chat_build *b, const request *r, gy_json *messages, gy_json *vars,
                       gy_err *err) {
    static const char *const passed[] = {"response_format", "tool_choice", "verbosity",
                                         "parallel_tool_calls"};
    const gy_json *kwargs = gy_json_get(r->body, "chat_template_kwargs"),
                  null = {.kind = GY_JSON_NULL};
    const gy_json *tools = gy_json_get(r->body, "tools"),
                  *documents = gy_json_get(r->body, "documents");
    *vars = gy_cj_object(b, NULL, 20 + (gy_json_is(kwargs, GY_JSON_OBJ) ? kwargs->n : 0));
    gy_cj_set(vars, "messages", *messages);
    gy_cj_set(vars, "tools", tools && tools->n ? *tools : null);
    gy_cj_set(vars, "documents", documents ? *documents : null);
    gy_cj_set(vars, "add_generation_prompt", gy_cj_bool(r->prompt));
    if (r->open) gy_cj_set(vars, "continue_final_message", gy_cj_bool(true));
    set_token(vars, "bos_token", r->chat->bos), set_token(vars, "eos_token", r->chat->eos);
    set_token(vars, "unk_token", r->chat->unk), set_token(vars, "pad_token", r->chat->pad);
    set_thinking(vars, r->t, r->body);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        const gy_json *v = gy_json_get(r->body, passed[i]);
        if (!gy_json_null(v)) gy_cj_set(vars, passed[i], *v);
    }
    return set_kwargs(vars, kwargs, err);
}

/* ---- The open last message ---- */

static gy_rc mark_text(gy_chat_build *b, gy_json *text, gy_err *err) {
    if (!gy_json_is(text, GY_JSON_STR))
        return gy_fail(err, GY_EARG, "continue_final_message: the last message has no text");
    char *s = gy_arena_alloc(&b->arena, (size_t)text->n + sizeof marker);
    if (!s) return b->oom = true, GY_OK;
    memcpy(s, text->s, text->n), memcpy(s + text->n, marker, sizeof marker);
    *text = gy_cj_str(s, text->n + sizeof marker - 1);
    return GY_OK;
}

/* Appends the marker to the last text of the last message; the nodes are ours to change. */
static gy_rc mark_last(gy_chat_build *b, gy_json *messages, gy_err *err) {
    if (!messages->n) return gy_fail(err, GY_EARG, "continue_final_message: there is no message");
    gy_json *content = (gy_json *)gy_json_get(&messages->item[messages->n - 1], "content");
    if (!gy_json_is(content, GY_JSON_ARR)) return mark_text(b, content, err);
    for (uint32_t i = content->n; i-- > 0;) {
        gy_json *text = (gy_json *)gy_json_get(&content->item[i], "text");
        if (text) return mark_text(b, text, err);
    }
    return gy_fail(err, GY_EARG, "continue_final_message: the last message has no text");
}

static gy_rc cut_at_marker(gy_buf *text, size_t start, gy_err *err) {
    size_t n = sizeof marker - 2, at = SIZE_MAX; /* without the space */
    for (size_t i = text->n >= n ? text->n - n + 1 : 0; i-- > start && at == SIZE_MAX;)
        if (memcmp(text->p + i, marker, n) == 0) at = i;
    if (at == SIZE_MAX)
        return gy_fail(
            err, GY_EFORMAT,
            "continue_final_message: the template does not show the end of the last message");
    bool kept = at + n < text->n && text->p[at + n] == ' ';
    text->n = at;
    if (!kept)
        text->n =
            start + gy_jx_strip(gy_jv_str(text->p + start, at - start), gy_jv_of(JX_MISSING), 2).n;
    text->p[text->n] = 0;
    return GY_OK;
}

/* ---- Rendering ---- */

static gy_rc attempt(const request *r, gy_chat_try how, gy_buf *out, gy_err *err) {
    gy_chat_build b = {0};
    gy_json messages = {0}, vars = {0};
    size_t start = out->n;
    gy_rc rc = gy_chat_adapt(&b, r->t, r->messages, how, &messages, err);
    if (!rc && r->open) rc = mark_last(&b, &messages, err);
    if (!rc) rc = variables(&b, r, &messages, &vars, err);
    if (!rc && b.oom) rc = gy_fail(err, GY_ENOMEM, "chat: out of memory");
    if (!rc) rc = gy_tmpl_render(r->t->tmpl, &vars, NULL, out, err);
    if (!rc && r->open) rc = cut_at_marker(out, start, err);
    if (rc) out->n = start;
    gy_cj_free(&b);
    return rc;
}

static bool lacks_content(const gy_json *messages) {
    for (uint32_t i = 0; i < messages->n; i++)
        if (gy_json_null(gy_json_get(&messages->item[i], "content"))) return true;
    return false;
}

/* Whether joining the system messages would change anything: several of them, or one that does not
 * lead. */
static bool scattered_system(const gy_json *messages) {
    uint32_t n = 0, first = 0;
    for (uint32_t i = 0; i < messages->n; i++) {
        const gy_json *role = gy_json_get(&messages->item[i], "role");
        if (!is(role, "system") && !is(role, "developer")) continue;
        if (!n++) first = i;
    }
    return n > 1 || (n == 1 && first > 0);
}

/* The first failure is the one reported: later attempts change messages that the client wrote. */
static gy_rc render(const request *r, gy_buf *out, gy_err *err) {
    gy_err first = {0}, later = {0};
    gy_chat_try how = {0};
    gy_rc rc = attempt(r, how, out, &first);
    bool template_failed = rc == GY_EARG || rc == GY_EFORMAT;
    if (template_failed && lacks_content(r->messages)) {
        how.fill_content = true;
        rc = attempt(r, how, out, &later);
    }
    if (rc && template_failed && scattered_system(r->messages)) {
        how.merge_system = true, later = (gy_err){0};
        rc = attempt(r, how, out, &later);
    }
    return rc ? gy_fail(err, first.rc, "%s", first.msg) : GY_OK;
}

static gy_rc read_flags(request *r, gy_err *err) {
    const gy_json *last = r->messages->n ? &r->messages->item[r->messages->n - 1] : NULL;
    const gy_json *prompt = gy_json_get(r->body, "add_generation_prompt");
    bool prefill =
        is(gy_json_get(last, "role"), "assistant") &&
        (gy_json_b(last, "prefill", false) || gy_json_b(r->body, "prefill_assistant", false));
    r->open = gy_json_b(r->body, "continue_final_message", false) || prefill;
    if (r->open && gy_json_is(prompt, GY_JSON_BOOL) && prompt->truth)
        return gy_fail(err, GY_EARG, "continue_final_message: excludes add_generation_prompt");
    r->prompt = !r->open && gy_json_b(r->body, "add_generation_prompt", true);
    return GY_OK;
}

gy_rc gy_chat_render(const gy_chat *chat, const gy_json *body, gy_buf *out, gy_err *err) {
    const gy_json *tools = gy_json_get(body, "tools");
    request r = {.chat = chat, .body = body, .messages = gy_json_get(body, "messages")};
    if (!gy_json_null(tools) && tools->kind != GY_JSON_ARR)
        return gy_fail(err, GY_EARG, "tools: an array is expected");
    if (!gy_json_is(r.messages, GY_JSON_ARR))
        return gy_fail(err, GY_EARG, "messages: an array is expected");
    r.t = choose(chat, tools && tools->n);
    if (!r.t)
        return gy_fail(
            err, GY_ENOTFOUND,
            "no_chat_template: the model has no chat template; name one with --chat-template");
    gy_rc rc = check(r.t, err);
    if (!rc) rc = read_flags(&r, err);
    return rc ? rc : render(&r, out, err);
}
