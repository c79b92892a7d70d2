/* text/tmpl - chat templates: the expression language of Jinja2 3.1 that checkpoints use.
 *
 * Parse once, render many times; a parsed template is constant and may be rendered from any thread
 * at once. Values are made in an arena per render; inputs are copied, never changed. Bounded:
 * source 1 MiB, parse depth 200, steps, output and macro depth as in gy_tmpl_limits. Source:
 * spec/serving.md 20. */
#ifndef GY_TEXT_TMPL_H
#define GY_TEXT_TMPL_H

#include "base/buf.h"
#include "base/json.h"

typedef struct gy_tmpl gy_tmpl;
typedef struct {
    int64_t steps;
    size_t output, memory;
    int depth;
} gy_tmpl_limits; /* 0: 5,000,000; 16 MiB; 256 MiB; 200 */

gy_rc gy_tmpl_parse(const char *source, size_t n, gy_tmpl **t,
                    gy_err *err); /* message has the line */
void gy_tmpl_free(gy_tmpl *t);
/* vars is an object: the names a template sees. raise_exception's text is the message of a GY_EARG
 * error, verbatim; other template errors are GY_EFORMAT, a bound that was passed GY_ELIMIT. */
gy_rc gy_tmpl_render(const gy_tmpl *t, const gy_json *vars, const gy_tmpl_limits *limits,
                     gy_buf *out, gy_err *err);

/* ---- Chat: from a request body to the prompt text ---- */

typedef struct gy_chat gy_chat;
typedef struct {
    const char *source; /* default template or NULL */
    int n_named;
    const char *const *name, *const *named; /* [n_named] "tool_use" and its source */
    const char *bos, *eos, *unk, *pad;      /* special tokens' text, or NULL */
} gy_chat_options;
/* A template that does not parse is kept with its error, which rendering with it gives. */
gy_rc gy_chat_new(const gy_chat_options *options, gy_chat **chat, gy_err *err);
void gy_chat_free(gy_chat *chat);
gy_rc gy_chat_check(const gy_chat *chat, gy_err *err); /* the first such error */
bool gy_chat_has_template(const gy_chat *chat);
/* Without a template: GY_ENOTFOUND, and the message begins with "no_chat_template". A template's
 * raise_exception: GY_EARG with its text; other wrong fields of body: GY_EARG with the field's
 * name; media that the template cannot take: GY_EUNSUPPORTED. body: an object with messages, and
 * optionally tools, documents, add_generation_prompt (default true), continue_final_message,
 * chat_template_kwargs (their members become variables), reasoning_effort, enable_thinking...
 * Messages are adapted to what the template can do (spec/serving.md 20.7). */
gy_rc gy_chat_render(const gy_chat *chat, const gy_json *body, gy_buf *out, gy_err *err);

/* What a template can do, found by rendering small conversations when it was loaded. */
typedef struct {
    bool system_role, typed_content, string_content, tools, tool_calls, parallel_tool_calls,
        object_arguments;
    bool preserve_reasoning, reasoning_effort, enable_thinking;
} gy_chat_caps;
gy_chat_caps gy_chat_capabilities(
    const gy_chat *chat, bool with_tools); /* of the template chosen with or without tools */
const char *gy_chat_source(const gy_chat *chat,
                           bool with_tools); /* its source, or NULL; lives with chat */
/* Source of a built-in template ("chatml", "llama3", ...; also taken as options->source), or NULL;
 * static. */
const char *gy_chat_builtin(const char *name);

#endif
