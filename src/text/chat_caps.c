/* Capabilities of a template, found by rendering: small conversations with unmistakable words, then
 * a look for them. */
#include <string.h>

#include "text/chat.h"

/* Renders body (JSON text) as variables; false when the template refuses. */
static bool probe(const gy_chat_template *t, const gy_chat *chat, const char *body, gy_buf *out) {
    gy_json_doc doc = {0};
    gy_err ignored = {0};
    gy_chat_build b = {0};
    out->n = 0;
    if (gy_json_parse(&doc, body, strlen(body), &ignored)) return false;
    gy_json vars = gy_cj_object(&b, doc.root, 8);
    if (!gy_json_get(doc.root, "tools")) gy_cj_set(&vars, "tools", (gy_json){.kind = GY_JSON_NULL});
    gy_cj_set(&vars, "documents", (gy_json){.kind = GY_JSON_NULL});
    gy_cj_set(&vars, "add_generation_prompt", gy_cj_bool(true));
    if (chat->bos) gy_cj_set(&vars, "bos_token", gy_cj_str(chat->bos, strlen(chat->bos)));
    if (chat->eos) gy_cj_set(&vars, "eos_token", gy_cj_str(chat->eos, strlen(chat->eos)));
    gy_tmpl_limits small = {.steps = 200000, .output = 1 << 20, .memory = 16 << 20};
    bool ok = !b.oom && !gy_tmpl_render(t->tmpl, &vars, &small, out, &ignored);
    if (!ok) out->n = 0;
    gy_cj_free(&b);
    gy_json_free(&doc);
    return ok;
}

static bool shows(const gy_buf *out, const char *word) {
    return out->n && memmem(out->p, out->n, word, strlen(word));
}

#define USER "{\"role\":\"user\",\"content\":\"gyuser\"}"
#define CALL(id, name, args)                                                                       \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name                      \
    "\",\"arguments\":" args "}}"
#define ASKS(calls) "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" calls "]}"
#define ANSWER(id, name)                                                                           \
    "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"name\":\"" name "\",\"content\":"            \
    "\"gyresult\"}"
#define TOOL(name)                                                                                 \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name                                        \
    "\",\"description\":\"d\",\"parameters\":{\"type\":\"object\","                                \
    "\"properties\":{\"gykey\":{\"type\":\"string\",\"description\":\"d\"}},\"required\":["        \
    "\"gykey\"]}}}"
#define BODY(messages) "{\"messages\":[" messages "]}"
#define BODY_TOOLS(messages)                                                                       \
    "{\"messages\":[" messages "],\"tools\":[" TOOL("gytool") "," TOOL("gyother") "]}"

void gy_chat_probe(gy_chat_template *t, const gy_chat *chat) {
    gy_chat_caps *c = &t->caps;
    gy_buf out = {0};
    /* A variant for tools may fail without them, so every question is asked with tools when it is
     * one. */
    bool tools = strcmp(t->name, "tool_use") == 0;
    probe(t, chat, tools ? BODY_TOOLS(USER) : BODY(USER), &out);
    c->string_content = shows(&out, "gyuser");
    const char *typed =
        tools ? BODY_TOOLS(
                    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"gyuser\"}]}")
              : BODY("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"gyuser\"}]}");
    probe(t, chat, typed, &out);
    c->typed_content =
        shows(&out, "gyuser") && !shows(&out, "{'type'") && !shows(&out, "{\"type\": \"text\"");
    if (!c->string_content && !c->typed_content)
        c->string_content = true; /* nothing works: leave content as it is */
    probe(t, chat,
          tools ? BODY_TOOLS("{\"role\":\"system\",\"content\":\"gysystem\"}," USER)
                : BODY("{\"role\":\"system\",\"content\":\"gysystem\"}," USER),
          &out);
    c->system_role = shows(&out, "gysystem");
    probe(t, chat, BODY_TOOLS(USER), &out);
    c->tools = shows(&out, "gytool");
    probe(t, chat,
          BODY_TOOLS(USER "," ASKS(CALL(
              "abcdef123", "gycall", "{\"gykey\":\"gyvalue\"}")) "," ANSWER("abcdef123", "gycall")),
          &out);
    c->object_arguments =
        shows(&out, "gycall") && shows(&out, "gyvalue") && !shows(&out, "{'gykey'");
    c->tool_calls = c->object_arguments;
    if (!c->tool_calls) {
        probe(t, chat,
              BODY_TOOLS(USER "," ASKS(
                  CALL("abcdef123", "gycall",
                       "\"{\\\"gykey\\\": \\\"gyvalue\\\"}\"")) "," ANSWER("abcdef123", "gycall")),
              &out);
        c->tool_calls = shows(&out, "gycall") && shows(&out, "gyvalue");
    }
    const char *two =
        c->object_arguments
            ? BODY_TOOLS(USER "," ASKS(CALL("abcdef123", "gycall", "{\"gykey\":\"a\"}") "," CALL(
                  "abcdef456", "gysecond",
                  "{\"gykey\":\"b\"}")) "," ANSWER("abcdef123", "gycall") "," ANSWER("abcdef456",
                                                                                     "gysecond"))
            : BODY_TOOLS(USER "," ASKS(CALL("abcdef123", "gycall", "\"{}\"") "," CALL(
                  "abcdef456", "gysecond",
                  "\"{}\"")) "," ANSWER("abcdef123", "gycall") "," ANSWER("abcdef456", "gysecond"));
    probe(t, chat, two, &out);
    c->parallel_tool_calls = c->tool_calls && shows(&out, "gycall") && shows(&out, "gysecond");
    probe(t, chat,
          BODY(USER ",{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":"
                    "\"gythought\",\"thinking\":\"gythought\",\"reasoning\":\"gythought\"}," USER),
          &out);
    c->preserve_reasoning = shows(&out, "gythought");
    c->reasoning_effort = strstr(t->source, "reasoning_effort") != NULL;
    c->enable_thinking = strstr(t->source, "enable_thinking") != NULL;
    gy_buf_free(&out);
}
