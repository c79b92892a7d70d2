/* text/jinja - the inside of the template engine; only jinja_*.c and tmpl.c may include this.
 *
 *     source -lex-> tokens -parse-> nodes (constant, arena of gy_tmpl)      once
 *     nodes + variables -eval-> text                                        per render, arena of
 * gy_jx
 *
 * A value is 16 bytes and is copied freely; lists, dicts and strings that it points to live in the
 * render's arena or in the caller's JSON (strings only). Strings are UTF-8 with a byte count and no
 * NUL. The evaluator leaves through longjmp on failure: everything it holds lies in gy_jx, so
 * nothing is lost. Bounds: every node evaluated and every 64 bytes moved cost a step; nesting of C
 * calls is counted, so depth of data and of macros cannot overflow the stack. Thread: a gy_jx
 * belongs to one render; nodes and tables are constant. */
#ifndef GY_TEXT_JINJA_H
#define GY_TEXT_JINJA_H

#include <setjmp.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/tmpl.h"

typedef enum {
    JX_MISSING, /* no value: an argument not given, a name not set */
    JX_UNDEF,
    JX_NONE,
    JX_BOOL,
    JX_INT,
    JX_BIG, /* an integer beyond int64, as canonical decimal text */
    JX_FLOAT,
    JX_STR,
    JX_LIST,
    JX_TUPLE,
    JX_DICT,
    JX_VIEW, /* dict.keys(), values(), items() */
    JX_RANGE,
    JX_ITER, /* a generator: its items are known, reading consumes them */
    JX_NS,
    JX_MACRO,
    JX_FUNC,
    JX_METHOD,
    JX_LOOP,
    JX_CYCLER,
    JX_JOINER
} gy_jx_type;

enum { JX_VIEW_KEYS, JX_VIEW_VALUES, JX_VIEW_ITEMS };
enum { JX_UNDEF_NAME, JX_UNDEF_ATTR, JX_UNDEF_TEXT }; /* what an UNDEF's text is */

typedef struct gy_jv gy_jv;
struct gy_jv {
    uint8_t t;    /* gy_jx_type */
    uint8_t mark; /* STR: safe markup; TUPLE: a group of groupby; VIEW: which; UNDEF: which */
    uint32_t n;   /* bytes of STR, BIG, UNDEF */
    union {
        int64_t i; /* INT, BOOL */
        double f;
        const char *s;      /* STR, BIG, UNDEF: [n] */
        struct gy_jlist *l; /* LIST, TUPLE, ITER, CYCLER */
        struct gy_jdict *d; /* DICT, NS, VIEW */
        struct gy_jrange *r;
        struct gy_jmacro *m;
        const struct gy_jfn *fn;
        struct gy_jbound *b;
        struct gy_jloop *loop;
    };
};

typedef struct gy_jlist {
    gy_jv *v;
    uint32_t n, cap, at;   /* at: next item of an ITER or CYCLER */
    struct gy_jlazy *lazy; /* ITER: the call that will give the items, or NULL */
} gy_jlist;
typedef struct gy_jrange {
    int64_t start, stop, step, n;
} gy_jrange;
typedef struct gy_jpair {
    gy_jv k, v;
    uint64_t hash;
} gy_jpair;
/* Insertion order in e; idx is an open-addressed table of positions + 1, made when n passes 8. */
typedef struct gy_jdict {
    gy_jpair *e;
    uint32_t n, cap, *idx, mask;
} gy_jdict;

typedef struct {
    gy_jv name, v;
} gy_jkw;
typedef struct {
    gy_jv *pos;
    gy_jkw *kw;
    uint32_t n, n_kw;
} gy_jargs;

typedef struct gy_jx gy_jx;
/* A filter, test, method or global. a: the bound parameters in the order of params, JX_MISSING
 * where not given; with JX_RAW params is unused and raw holds the call as written. JX_LAZY: the
 * call is made when its items are first asked for, as a Python generator does, so that an error in
 * it only counts then. */
typedef gy_jv (*gy_jfn_call)(gy_jx *x, gy_jv self, gy_jv *a, const gy_jargs *raw);
typedef struct gy_jfn {
    const char *name;
    gy_jfn_call call;
    const char *params; /* "width first blank"; a leading '/' means positional only */
    uint8_t need, flags;
} gy_jfn;
enum { JX_RAW = 1, JX_LAZY = 2, JX_MAX_PARAMS = 6, JX_MAX_DOCS = 64 };
typedef struct gy_jlazy {
    const gy_jfn *fn;
    gy_jv self, a[JX_MAX_PARAMS];
    gy_jargs raw;
} gy_jlazy;
typedef struct gy_jbound {
    gy_jv self;
    const gy_jfn *fn;
} gy_jbound;

/* ---- Nodes ---- */

typedef enum {
    JN_CONST,
    JN_NAME,
    JN_NSREF,
    JN_LIST,
    JN_TUPLE,
    JN_DICT,
    JN_ATTR,
    JN_ITEM,
    JN_SLICE,
    JN_CALL,
    JN_FILTER,
    JN_TEST,
    JN_NEG,
    JN_POS,
    JN_NOT,
    JN_BIN,
    JN_AND,
    JN_OR,
    JN_CMP,
    JN_CONCAT,
    JN_COND,
    JN_KW,
    JN_STAR,
    JN_STAR2,
    JN_PAIR,
    JN_BODY,
    JN_OUT,
    JN_DATA,
    JN_IF,
    JN_FOR,
    JN_SET,
    JN_SETBLOCK,
    JN_MACRO,
    JN_CALLBLOCK,
    JN_FILTERBLOCK,
    JN_WITH,
    JN_SCOPE,
    JN_ESCAPE,
    JN_BREAK,
    JN_CONTINUE
} gy_jn_kind;

typedef enum {
    JO_ADD,
    JO_SUB,
    JO_MUL,
    JO_DIV,
    JO_FLOORDIV,
    JO_MOD,
    JO_POW,
    JO_EQ,
    JO_NE,
    JO_LT,
    JO_LE,
    JO_GT,
    JO_GE,
    JO_IN,
    JO_NOTIN
} gy_jop;

/* Which fields a kind uses is said beside its parser; a node owns nothing. */
typedef struct gy_jn gy_jn;
struct gy_jn {
    uint8_t k, op;  /* gy_jn_kind; gy_jop or a flag */
    uint16_t depth; /* of the tree below */
    int32_t line;
    uint32_t n, sym;
    gy_jn *a, *b, *c;
    gy_jn **list; /* [n] */
    union {
        gy_jv v; /* CONST, DATA; names of ATTR, FILTER, TEST, KW */
    };
    const gy_jfn *fn; /* FILTER, TEST; NULL: unknown, an error when reached */
};
/* LATE: the top level assigns a name before it reads it. Then inner blocks that run earlier find it
 * undefined even if the caller gave it: the reference settles at compile time whose name it is. */
enum { JX_READ = 1, JX_LATE = 2 };
enum { JX_FOR_RECURSIVE = 1, JX_MACRO_VARARGS = 1, JX_MACRO_KWARGS = 2, JX_MACRO_CALLER = 4 };

typedef struct {
    const char *s;
    uint32_t n;
} gy_jsym;
struct gy_tmpl {
    gy_arena arena;
    char *source; /* normalised: \n only, last newline gone */
    gy_jn *body;
    gy_jsym *sym;     /* [n_sym] every name that the template mentions */
    uint8_t *mention; /* [n_sym] JX_READ, JX_LATE: how the top level first mentions a name */
    uint32_t n_sym, cap_sym;
    uint32_t s_loop, s_caller, s_varargs, s_kwargs,
        s_block; /* s_block: what a filter block captured */
};

/* ---- A render ---- */

typedef struct {
    uint32_t sym;
    gy_jv v;
} gy_jvar;
typedef struct gy_jscope {
    struct gy_jscope *up;
    gy_jvar *var;
    uint32_t n, cap;
} gy_jscope; /* up NULL: the root */
typedef struct gy_jmacro {
    const gy_jn *node;
    gy_jscope *scope;
    bool caller;
    gy_jv name;
    bool escape; /* whether the place where it was written escapes */
} gy_jmacro;
typedef struct gy_jloop {
    const gy_jn *node;
    gy_jscope *scope; /* where the loop was written */
    gy_jlist *items;
    uint32_t i;
    int depth0;
    gy_jv last_changed; /* of loop.changed */
} gy_jloop;

struct gy_jx {
    const gy_tmpl *t;
    gy_arena arena;
    gy_buf out, tmp;
    int64_t steps; /* left */
    size_t memory;
    int depth, calls, max_calls; /* nested evaluations; nested macro and recursive loop calls */
    int line;
    bool escape;
    gy_jv *given,
        *top; /* [n_sym] input variables and globals; what the template set at its top level */
    char *tail, *tail_end; /* the last string made ends here and may grow in place up to there */
    gy_json_doc docs[JX_MAX_DOCS]; /* what from_json parsed: strings of values point into them */
    int n_docs;
    size_t doc_bytes;
    gy_err *err;
    jmp_buf fail;
};

_Noreturn void gy_jx_fail(gy_jx *x, gy_rc rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void *gy_jx_alloc(gy_jx *x, size_t bytes); /* zeroed; never NULL */
void gy_jx_charge(gy_jx *x, size_t bytes); /* pays for work over that many bytes */
void gy_jx_enter(gy_jx *x);
static inline void gy_jx_leave(gy_jx *x) {
    x->depth--;
}

/* jinja_lex.c */
typedef enum {
    JT_EOF,
    JT_DATA,
    JT_VAR_BEGIN,
    JT_VAR_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_STRING,
    JT_INT,
    JT_FLOAT,
    JT_ADD,
    JT_SUB,
    JT_DIV,
    JT_FLOORDIV,
    JT_MUL,
    JT_MOD,
    JT_POW,
    JT_TILDE,
    JT_LBRACKET,
    JT_RBRACKET,
    JT_LPAREN,
    JT_RPAREN,
    JT_LBRACE,
    JT_RBRACE,
    JT_EQ,
    JT_NE,
    JT_GT,
    JT_GE,
    JT_LT,
    JT_LE,
    JT_ASSIGN,
    JT_DOT,
    JT_COLON,
    JT_PIPE,
    JT_COMMA,
    JT_SEMI
} gy_jt_kind;
typedef struct {
    uint8_t k;
    int32_t line;
    gy_jv v;
} gy_jtok; /* v: text of NAME and DATA, value of a literal */
typedef struct {
    gy_jtok *tok;
    uint32_t n;
} gy_jtoks; /* ends with JT_EOF; gy_free tok */
gy_rc gy_jx_lex(gy_arena *arena, const char *source, size_t n, gy_jtoks *toks, gy_err *err);
const char *gy_jx_tok_name(gy_jt_kind k);

/* jinja_parse.c */
gy_rc gy_jx_parse(gy_tmpl *t, const gy_jtoks *toks, gy_err *err);

/* jinja_value.c: making and comparing values */
static inline gy_jv gy_jv_of(gy_jx_type t) {
    return (gy_jv){.t = (uint8_t)t};
}
static inline gy_jv gy_jv_bool(bool b) {
    return (gy_jv){.t = JX_BOOL, .i = b};
}
static inline gy_jv gy_jv_int(int64_t i) {
    return (gy_jv){.t = JX_INT, .i = i};
}
static inline gy_jv gy_jv_float(double f) {
    return (gy_jv){.t = JX_FLOAT, .f = f};
}
static inline gy_jv gy_jv_str(const char *s, size_t n) {
    return (gy_jv){.t = JX_STR, .n = (uint32_t)n, .s = s};
}
static inline gy_jv gy_jv_cstr(const char *s) {
    return gy_jv_str(s, strlen(s));
}
static inline gy_jv gy_jv_dict(gy_jdict *d) {
    return (gy_jv){.t = JX_DICT, .d = d};
}
static inline gy_jv gy_jv_list(gy_jlist *l) {
    return (gy_jv){.t = JX_LIST, .l = l};
}
static inline bool gy_jv_is_int(gy_jv v) {
    return v.t == JX_INT || v.t == JX_BOOL;
}
static inline bool gy_jv_is_num(gy_jv v) {
    return v.t >= JX_BOOL && v.t <= JX_FLOAT;
}
static inline bool gy_jv_given(gy_jv v) {
    return v.t != JX_MISSING;
}
static inline bool gy_jv_is(gy_jv v, const char *text) {
    return v.t == JX_STR && v.n == strlen(text) && memcmp(v.s, text, v.n) == 0;
}
gy_jv gy_jv_undef(const char *name, size_t n, int which);
gy_jv gy_jx_str(gy_jx *x, const char *s, size_t n); /* copies */
gy_jv gy_jx_tmp(gy_jx *x);                          /* copies x->tmp and empties it */
gy_jv gy_jx_join2(gy_jx *x, gy_jv a, gy_jv b);      /* concatenation of two strings */
gy_jlist *gy_jx_list(gy_jx *x, size_t cap);
void gy_jx_push(gy_jx *x, gy_jlist *l, gy_jv v);
gy_jv gy_jx_tuple(gy_jx *x, const gy_jv *v, size_t n);
gy_jdict *gy_jx_dict(gy_jx *x, size_t cap);
gy_jv *gy_jx_dict_get(gy_jx *x, const gy_jdict *d,
                      gy_jv key); /* NULL when absent; unhashable keys fail */
void gy_jx_dict_set(gy_jx *x, gy_jdict *d, gy_jv key, gy_jv v);
bool gy_jx_dict_del(gy_jx *x, gy_jdict *d, gy_jv key, gy_jv *old);
bool gy_jv_hashable(gy_jv v);
gy_jv gy_jx_from_json(gy_jx *x, const gy_json *j);
gy_jv gy_jx_int_text(gy_jx *x, const char *s,
                     size_t n);  /* canonical decimal digits with sign: INT or BIG */
const char *gy_jv_type(gy_jv v); /* Python's name of the type */
bool gy_jv_truth(gy_jv v);
double gy_jx_double(gy_jx *x, gy_jv v); /* of a number */
bool gy_jx_eq(gy_jx *x, gy_jv a, gy_jv b);
int gy_jx_cmp(gy_jx *x, gy_jv a, gy_jv b,
              gy_jop op); /* <0, 0, >0, 2: unordered; fails where Python does */
bool gy_jx_contains(gy_jx *x, gy_jv box, gy_jv v);
gy_jlist *gy_jx_items(gy_jx *x,
                      gy_jv v); /* iteration: a list that may be the value's own; not changed */
int64_t gy_jx_len(gy_jx *x, gy_jv v);              /* len(); -1 when the value has none */
_Noreturn void gy_jx_undefined(gy_jx *x, gy_jv v); /* fails: use of an undefined value */

/* jinja_text.c: values as text */
void gy_jx_write(gy_jx *x, gy_buf *b, gy_jv v); /* str() */
void gy_jx_repr(gy_jx *x, gy_buf *b, gy_jv v);
gy_jv gy_jx_soft(gy_jx *x, gy_jv v); /* str(); strings stay, with their mark */
size_t gy_jx_float_repr(char out[40], double f);
bool gy_jx_parse_double(const char *s, size_t n, double *out); /* Python's float(text) */
void gy_jx_escape(gy_buf *b, const char *s, size_t n);
gy_jv gy_jx_escaped(gy_jx *x, gy_jv v); /* markup; already safe text stays */
bool gy_jx_space(uint32_t cp);
gy_jv gy_jx_strip(gy_jv s, gy_jv chars,
                  int sides); /* sides: 1 left, 2 right; chars MISSING: white space */
size_t gy_jx_chars(const char *s, size_t n); /* code points */
size_t gy_jx_offset(const char *s, size_t n,
                    size_t chars); /* byte offset of a code point; n past the end */

/* jinja_json.c */
void gy_jx_tojson(gy_jx *x, gy_buf *b, gy_jv v, bool ascii, gy_jv indent, gy_jv separators,
                  bool sort);
gy_jv gy_jx_parse_json(gy_jx *x, gy_jv text);

/* jinja_format.c */
gy_jv gy_jx_percent(gy_jx *x, gy_jv format, gy_jv args);         /* format % args */
gy_jv gy_jx_brace(gy_jx *x, gy_jv format, const gy_jargs *args); /* format.format(...) */

/* jinja_ops.c */
gy_jv gy_jx_binary(gy_jx *x, gy_jop op, gy_jv a, gy_jv b);
gy_jv gy_jx_neg(gy_jx *x, gy_jv a);
gy_jv gy_jx_attr(gy_jx *x, gy_jv obj, gy_jv name); /* obj.name */
gy_jv gy_jx_item(gy_jx *x, gy_jv obj, gy_jv key);  /* obj[key] */
gy_jv gy_jx_only_attr(gy_jx *x, gy_jv obj,
                      gy_jv name); /* getattr without the fall back to items; MISSING when absent */
gy_jv gy_jx_slice(gy_jx *x, gy_jv obj, gy_jv start, gy_jv stop, gy_jv step);
int64_t gy_jx_index(gy_jx *x, gy_jv v, const char *what); /* an int that fits, else a TypeError */

/* jinja_call.c */
gy_jv gy_jx_call(gy_jx *x, gy_jv fn, const gy_jargs *args);
void gy_jx_force(gy_jx *x, gy_jlist *l);
gy_jv gy_jx_apply(gy_jx *x, const gy_jfn *fn, gy_jv self, const gy_jargs *args);

/* jinja_eval.c */
gy_jv gy_jx_eval(gy_jx *x, gy_jscope *s, const gy_jn *e);
void gy_jx_run(gy_jx *x);
gy_jv gy_jx_call_macro(gy_jx *x, gy_jmacro *m, const gy_jargs *args);
gy_jv gy_jx_loop_again(gy_jx *x, gy_jloop *loop, gy_jv items); /* loop(items) */
gy_jv gy_jx_loop_attr(gy_jx *x, gy_jloop *loop, gy_jv name);

/* Tables; NULL when there is none of that name. */
const gy_jfn *gy_jx_filter(const char *name, size_t n);
const gy_jfn *gy_jx_test(const char *name, size_t n);
const gy_jfn *gy_jx_method(gy_jv self, const char *name, size_t n);
const gy_jfn *gy_jx_find(const gy_jfn *table, size_t count, const char *name, size_t n);
gy_jv gy_jx_global(const char *name, size_t n); /* MISSING when there is none */
bool gy_jx_run_test(gy_jx *x, gy_jv name, gy_jv v, const gy_jargs *args);
gy_jv gy_jx_get_path(gy_jx *x, gy_jv v, gy_jv path, gy_jv absent); /* map(attribute="a.b.0") */
extern const gy_jfn gy_jx_filters2[];
extern const size_t gy_jx_n_filters2;

#endif
