/* text/jinja_str - string operations that filters and methods share. Results keep the mark of their
 * string. */
#ifndef GY_TEXT_JINJA_STR_H
#define GY_TEXT_JINJA_STR_H

#include "text/jinja.h"

enum { JS_LEFT, JS_RIGHT, JS_CENTER }; /* where the fill goes */

gy_jv gy_js_take(gy_jx *x, size_t start, int mark); /* x->tmp from start on, cut off */
gy_jv gy_js_upper(gy_jx *x, gy_jv s);
gy_jv gy_js_lower(gy_jx *x, gy_jv s);
gy_jv gy_js_capitalize(gy_jx *x, gy_jv s);
gy_jv gy_js_strip(gy_jx *x, gy_jv s, gy_jv chars, int sides); /* chars: a string, None or MISSING */
gy_jv gy_js_pad(gy_jx *x, gy_jv s, int64_t width, gy_jv fill, int where);
gy_jv gy_js_replace(gy_jx *x, gy_jv s, gy_jv from, gy_jv to, int64_t count); /* count < 0: all */
gy_jlist *gy_js_split(gy_jx *x, gy_jv s, gy_jv sep, int64_t max,
                      bool from_right); /* sep None: white space */
gy_jlist *gy_js_splitlines(gy_jx *x, gy_jv s, bool keep);

#endif
