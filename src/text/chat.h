/* text/chat - what the three files of chat rendering share; others include text/tmpl.h.
 *
 * A request's JSON is never changed: adapted messages are new nodes in an arena that point into it.
 */
#ifndef GY_TEXT_CHAT_H
#define GY_TEXT_CHAT_H

#include "base/json.h"
#include "base/mem.h"
#include "text/tmpl.h"

typedef struct {
    char *name, *source;
    gy_tmpl *tmpl; /* NULL when the source does not parse */
    gy_err why;    /* what is wrong with it then */
    gy_chat_caps caps;
} gy_chat_template;

struct gy_chat {
    gy_chat_template *t; /* [n]; the default one is named "default" */
    int n;
    char *bos, *eos, *unk, *pad;
};

/* JSON being made: nodes in an arena, arguments parsed on the way. oom is looked at once, before
 * rendering. */
typedef struct {
    gy_arena arena;
    gy_json_doc *docs; /* [n_docs] */
    size_t n_docs, cap_docs;
    bool oom;
} gy_chat_build;

gy_json gy_cj_str(const char *s, size_t n);
gy_json gy_cj_bool(bool b);
gy_json gy_cj_object(gy_chat_build *b, const gy_json *from,
                     uint32_t more); /* a copy with room for more members */
gy_json gy_cj_array(gy_chat_build *b, const gy_json *from, uint32_t more);
void gy_cj_set(gy_json *obj, const char *key, gy_json v); /* replaces, or appends within the room */
void gy_cj_push(gy_json *arr, gy_json v);
void gy_cj_free(gy_chat_build *b);

/* chat_adapt.c: the messages of a request as this template wants them. */
typedef struct {
    bool fill_content; /* missing content becomes "" */
    bool merge_system; /* all system messages become one, in front */
} gy_chat_try;
gy_rc gy_chat_adapt(gy_chat_build *b, const gy_chat_template *t, const gy_json *messages,
                    gy_chat_try how, gy_json *out, gy_err *err);

/* chat_caps.c */
void gy_chat_probe(gy_chat_template *t, const gy_chat *chat);

#endif
