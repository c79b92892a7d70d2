#!/usr/bin/env python3
"""Makes tests/data/text/tmpl_*.json: template snippets rendered by Jinja2 in the environment that transformers uses.

usage: make_tmpl_cases.py OUT_DIR [SEED [COUNT]]   needs jinja2 3.1.6, nothing else

tmpl_cases.json holds the written cases below, tmpl_random.json expressions drawn at random. Cases whose text holds an
object's address are left out. What gyre does differently on purpose (docs: spec/serving.md 20.3) is not asked here:
changing lists and dicts, integers beyond 64 bits.
"""
import datetime
import json
import os
import random
import re
import resource
import signal
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime(2026, 7, 4, 9, 5, 7)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attrs = dict(*args, **kwargs)
        for k in attrs:
            if isinstance(k, str) and k.startswith("_"):
                raise jinja2.exceptions.SecurityError("underscore")
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError("underscore")
        jinja2.utils.Namespace.__setitem__(self, name, value)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: NOW.strftime(f)
    env.globals["namespace"] = Namespace
    return env


ENV = environment()
V = {
    "s": "Hello", "e": "", "sp": "  a b \n", "u": "Stra\u00dfe \u0130 \u01c6 \u00e9 \u65e5\u672c \U0001f600", "n": 3, "z": 0, "neg": -7, "f": 2.5, "f1": 1.0,
    "t": True, "fa": False, "no": None, "l": [3, 1, 2], "ls": ["b", "A", "c"], "el": [],
    "d": {"b": 1, "a": [1, {"x": None}], "B": "\u00e9"}, "ed": {}, "dn": {"x": {"y": {"z": [10, 20, {"w": "deep"}]}}},
    "msgs": [{"role": "system", "content": "S"}, {"role": "user", "content": "U1"},
             {"role": "assistant", "content": "A1", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"a": 1}}}]},
             {"role": "user", "content": "U2"}],
    "lines": "one\ntwo\n\nthree", "q": "it's \"q\" \\ / <b>&amp;</b> \x07\x1f\x7f \u00a0\u2028", "mixed": [1, "a", None, True, 2.5],
    "nested": [[1, 2], [3, [4, 5]]], "html": "<a href='x'>T &amp; \"q\"</a>", "big": 12345678901234567890123,
    "people": [{"name": "Bob", "age": 30, "city": "Rome"}, {"name": "alice", "age": 25, "city": "Oslo"}, {"name": "Carl", "age": 30, "city": "rome"}],
}
CASES = []


def add(*templates):
    CASES.extend(templates)


add("{{ 1 ~ 2 ~ 3 }}", "{{ 'a' ~ 'b' + 'c' }}", "{{ 2 ** 3 ** 2 }}", "{{ -2 ** 2 }}", "{{ 2 ** -1 ** 2 }}", "{{ 7 // -2 }}", "{{ 7 % -3 }}", "{{ -7.5 // 2 }}", "{{ -7.5 % 2 }}", "{{ 7.5 % -2 }}", "{{ 0.0 / 1 }}", "{{ 1 / 3 }}", "{{ 1e300 * 1e10 }}", "{{ 1e308 * 10 - 1e308 * 10 }}", "{{ 5 % 0 }}", "{{ 5.0 // 0 }}", "{{ 10 ** 18 }}", "{{ 0 ** 0 }}", "{{ 0 ** -1 }}", "{{ true ** 2 }}", "{{ true / 2 }}", "{{ +true }}", "{{ -true }}", "{{ +'a' }}", "{{ -'a' }}", "{{ +none }}", "{{ -missing }}", "{{ 3 * 'ab' }}", "{{ 'ab' * -1 }}|", "{{ [1] * 3 }}", "{{ (1,) * 2 }}", "{{ 2 * [none] }}", "{{ 'a' * 2.0 }}", "{{ [1] + (2,) }}", "{{ (1,) + (2,) }}", "{{ {} + {} }}", "{{ none + 1 }}", "{{ 'a' - 'b' }}", "{{ [1,2] - [1] }}")
add("{{ 1 < 2 <= 2 < 3 != 4 }}", "{{ 1 < 2 == true }}", "{{ 1 == 1 == 1 }}", "{{ 'a' in 'abc' in ['abc'] }}", "{{ 1 in [1] == true }}", "{{ not 1 in [2] }}", "{{ not true == false }}", "{{ not not 1 }}", "{{ 1 is number and 2 is number }}", "{{ 1 + 1 is number }}", "{{ (1 + 1) is number }}", "{{ 1 if 2 is even else 3 }}", "{{ 'a' is string or none }}", "{{ 3 is divisibleby 3 }}", "{{ 4 is divisibleby(3) }}", "{{ 3 is in [1,2,3] }}", "{{ 3 is not in [1,2] }}", "{{ 'x' is not string }}", "{{ 1 is sameas 1 }}", "{{ none is sameas none }}", "{{ 1 is sameas true }}", "{{ 2 is gt 1 }}", "{{ 2 is ge 2 and 2 is le 2 }}", "{{ 1 is lt 'a' }}", "{{ 5 is even }}", "{{ 5 is odd }}", "{{ 'a' is odd }}", "{{ 2.0 is even }}", "{{ missing is odd }}", "{{ 'abc' is lower }}", "{{ 'aBc' is lower }}", "{{ '123' is lower }}", "{{ 'A1' is upper }}", "{{ 5 is upper }}", "{{ 'upper' is filter }}", "{{ 'nope' is filter }}", "{{ 'odd' is test }}", "{{ 'zz' is test }}", "{{ '<b>' is escaped }}", "{{ '<b>'|e is escaped }}", "{{ d is iterable }}{{ d.items() is iterable }}{{ d.items() is sequence }}{{ d.keys() is mapping }}", "{{ range(3) is sequence }}{{ range(3) is iterable }}", "{{ namespace() is mapping }}{{ namespace() is iterable }}", "{{ s.upper is callable }}{{ s is callable }}{{ missing is callable }}", "{{ 1.5 is integer }}{{ 1.5 is float }}{{ big is integer }}{{ big is number }}{{ true is integer }}{{ true is number }}", "{{ missing.x is defined }}", "{{ d.zz is undefined }}", "{{ x is defined is true }}", "{{ 1 is eq 1 }}{{ 1 is == 1 }}", "{{ 1 is ne 2 }}", "{{ 'a' is in 'cat' }}", "{{ 5 is number(1) }}", "{{ 1 is eq }}", "{{ 1 is eq(1, 2) }}", "{{ x is defined if t else 3 }}", "{{ t is true }}{{ 1 is true }}{{ fa is false }}{{ 0 is false }}", "{{ none is none }}{{ missing is none }}", "{{ (1,2) is sequence }}{{ {} is sequence }}")
add("{{ 1 == 1.0 }}{{ true == 1 }}{{ '1' == 1 }}{{ none == none }}", "{{ [1, 2] < [1, 2, 0] }}", "{{ (1,2) < (1,3) }}", "{{ [1] < (2,) }}", "{{ {} < {} }}", "{{ none < none }}", "{{ true < 2 }}", "{{ 'a' < 'B' }}", "{{ '\u00e9' > 'z' }}", "{{ [] == () }}", "{{ (1,) == (1.0,) }}", "{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}", "{{ range(3) == range(0, 3) }}", "{{ range(3) == [0,1,2] }}", "{{ missing == missing }}", "{{ missing != none }}", "{{ missing < 1 }}", "{{ 1 in {1: 2} }}", "{{ [1] in {1: 2} }}", "{{ 1 in 'abc' }}", "{{ none in [none] }}", "{{ missing in [missing] }}", "{{ 'x' in d.items() }}", "{{ ('b', 1) in d.items() }}", "{{ 'b' in d.keys() }}", "{{ 1 in d.values() }}", "{{ 2.0 in range(3) }}", "{{ 1 in 5 }}", "{{ 'a' in none }}", "{{ 9007199254740993 == 9007199254740992.0 }}", "{{ big == big }}{{ big > 1 }}{{ big < 1.0 }}{{ -big < 0 }}", "{{ nested == [[1, 2], [3, [4, 5]]] }}")
add("{{ l[::-1] }}{{ l[::2] }}{{ l[1:] }}{{ l[:1] }}{{ l[-1:] }}{{ l[:-1] }}{{ l[5:] }}{{ l[:5] }}{{ l[-9:9] }}", "{{ s[::-2] }}|{{ s[3:0:-1] }}|{{ s[:0:-1] }}|{{ s[-3:] }}|{{ s[1:-1] }}", "{{ u[7:] }}|{{ u[::-1] }}|{{ u[-1] }}|{{ u[0:3] }}", "{{ (1,2,3)[1:] }}{{ (1,2,3)[::-1] }}", "{{ range(10)[2:8:2] }}{{ range(10)[::-1] }}{{ range(10)[-1] }}", "{{ l[1:2:0] }}", "{{ l['a':] }}", "{{ l[1.0] }}|", "{{ l[1.0:] }}", "{{ l[none:none] }}", "{{ l[missing:] }}", "{{ d[1:] }}", "{{ no[1:] }}", "{{ missing[1:] }}", "{{ l[true] }}{{ l[false:] }}", "{{ l[-4] }}|{{ l[3] }}|{{ s[99] }}|", "{{ d['zz'] }}|{{ d[none] }}|{{ d[[1]] }}|{{ d[(1,)] }}|", "{{ {1: 'a', true: 'b'} }}", "{{ {1: 'a'}[1.0] }}{{ {1: 'a'}[true] }}", "{{ {(1,2): 'x'}[1,2] }}", "{{ {[1]: 2} }}", "{{ {'a': 1, 'a': 2} }}", "{{ {'a': 1,}['a'] }}{{ [1,][0] }}{{ (1,)[0] }}", "{{ dn.x.y.z[2].w }}{{ dn['x'].y['z'][0] }}{{ dn.x.q.r }}", "{{ dn.x.y.z.1 }}", "{{ l.0 }}{{ l.9 }}|", "{{ nested.1.1.0 }}", "{{ nested[1][1][-1] }}", "{{ 'abc'.1 }}", "{{ 5.5.real }}", "{{ d.b.real }}", "{{ n.real }}{{ f.imag }}{{ n.denominator }}", "{{ s.foo.bar }}", "{{ ''['x'] }}|{{ none.x }}|{{ true.x }}|", "{{ d.__class__ }}|{{ d['__class__'] }}|{{ s._x }}|", "{{ {'_x': 1}._x }}", "{{ d.get('b') }}{{ d.get('q') }}{{ d.get('q', 5) }}{{ d.get() }}", "{{ d.get('b', default=1) }}", "{{ d.get([1]) }}", "{{ d.keys()|list }}{{ d.values()|list }}{{ d.items()|list }}", "{{ d.keys() }}{{ d.values() }}{{ d.items() }}", "{{ ed.items() }}{{ ed.keys() }}", "{{ d.items()|length }}{{ d.keys()|first }}", "{{ d.items()[0] }}|", "{{ d.copy() }}")
add("{{ sp.strip() }}|{{ sp.lstrip() }}|{{ sp.rstrip() }}|", "{{ 'xxaxx'.strip('x') }}{{ 'xyaxy'.strip('yx') }}{{ 'aaa'.strip('a') }}|", "{{ 'abc'.strip('') }}{{ 'abc'.strip(none) }}", "{{ 'abc'.strip(1) }}", "{{ 'abc'.strip(chars='a') }}", "{{ '\u00e9a\u00e9'.strip('\u00e9') }}", "{{ '\x1c\x1f\x85\xa0a\u2003\u200b'.strip() }}|", "{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.split(',', maxsplit=1) }}{{ 'a,b,c'.split(sep=',') }}{{ 'abc'.split('') }}", "{{ ' a  b c '.split(none, 1) }}", "{{ ' a  b c '.rsplit(none, 1) }}", "{{ ' a  b '.split(' ') }}", "{{ 'a b c'.split(maxsplit=0) }}{{ '  a b '.split(none, 0) }}", "{{ 'aXXbXXc'.split('XX') }}{{ 'aXXbXXc'.rsplit('XX', 1) }}{{ 'XX'.split('XX') }}{{ ''.split('X') }}{{ ''.rsplit() }}", "{{ 'aaaa'.split('aa') }}{{ 'aaa'.rsplit('aa') }}", "{{ 'a\nb\r\nc\rd\x0be\x0cf\x1cg\u2028h\x85i'.splitlines() }}", "{{ 'a\nb\n'.splitlines(true) }}{{ ''.splitlines() }}{{ '\n'.splitlines() }}", "{{ 'a\n\nb'.splitlines(keepends=true) }}", "{{ 'abc'.startswith('ab') }}{{ 'abc'.startswith('b', 1) }}{{ 'abc'.startswith('b', 1, 1) }}{{ 'abc'.startswith('', 5) }}{{ 'abc'.startswith(('x', 'ab')) }}{{ 'abc'.startswith(()) }}", "{{ 'abc'.startswith(['a']) }}", "{{ 'abc'.startswith(1) }}", "{{ 'abc'.endswith('c') }}{{ 'abc'.endswith('b', 0, 2) }}{{ 'abc'.endswith('', 3) }}{{ 'abc'.endswith('', 4) }}{{ 'abc'.endswith(('x','c')) }}", "{{ 'abab'.replace('a', 'x') }}{{ 'abab'.replace('a', 'x', 1) }}{{ 'abab'.replace('', '-') }}{{ 'ab'.replace('', '-', 2) }}{{ ''.replace('', 'x') }}{{ 'ab'.replace('a', 'x', -1) }}{{ 'ab'.replace('a', 'x', 0) }}", "{{ 'ab'.replace('a') }}", "{{ 'ab'.replace('a', 1) }}", "{{ 'hello'.find('l') }}{{ 'hello'.find('l', 3) }}{{ 'hello'.find('z') }}{{ 'hello'.find('l', -2) }}{{ 'hello'.find('', 5) }}{{ 'hello'.find('', 6) }}{{ 'hello'.find('o', 0, 4) }}", "{{ 'hello'.rfind('l') }}{{ 'hello'.rfind('') }}{{ 'hello'.rfind('l', 0, 3) }}{{ 'hello'.index('l') }}{{ 'hello'.rindex('l') }}", "{{ 'hello'.index('z') }}", "{{ u.find('\u65e5') }}{{ u.count('') }}{{ 'aaaa'.count('aa') }}{{ 'aaaa'.count('a', 1, 3) }}", "{{ 'a-b-c'.partition('-') }}{{ 'a-b-c'.rpartition('-') }}{{ 'abc'.partition('-') }}{{ 'abc'.rpartition('-') }}", "{{ 'abc'.partition('') }}", "{{ 'foobar'.removeprefix('foo') }}{{ 'foobar'.removesuffix('bar') }}{{ 'foo'.removeprefix('x') }}{{ 'aa'.removesuffix('aa') }}|", "{{ ','.join(['a','b']) }}{{ ','.join('abc') }}{{ ','.join(d) }}{{ ','.join([]) }}|", "{{ ','.join([1]) }}", "{{ ','.join(5) }}", "{{ ', '.join(msgs|map(attribute='role')) }}", "{{ 'abc'.center(7) }}|{{ 'abc'.center(8, '*') }}|{{ 'abcd'.center(7,'*') }}|{{ 'abc'.ljust(5, '.') }}|{{ 'abc'.rjust(5) }}|{{ 'abc'.center(2) }}", "{{ 'abc'.center(7, 'xy') }}", "{{ '7'.zfill(3) }}{{ '-7'.zfill(4) }}{{ '+7'.zfill(4) }}{{ 'abc'.zfill(2) }}{{ ''.zfill(2) }}", "{{ 'a\tb'.expandtabs() }}|{{ 'ab\tc\td'.expandtabs(4) }}|{{ 'a\tb'.expandtabs(tabsize=2) }}|{{ 'a\tb'.expandtabs(0) }}", "{{ 'hello World'.title() }}{{ \"they're bill's\".title() }}{{ 'a1b c'.title() }}{{ u.title() }}", "{{ 'hELLO'.capitalize() }}{{ '\u01c6a'.capitalize() }}{{ '\u00dfa'.capitalize() }}{{ ''.capitalize() }}|", "{{ 'Hello \u00c9\u00df'.swapcase() }}", "{{ '\u03a3\u03a4\u03a3'.lower() }}{{ '\u0130'.lower()|length }}", "{{ u.upper() }}{{ '\ufb01'.upper() }}", "{{ 'abc'.isalpha() }}{{ 'ab1'.isalpha() }}{{ ''.isalpha() }}{{ '\u00e9'.isalpha() }}{{ 'ab1'.isalnum() }}{{ 'a b'.isalnum() }}", "{{ '12'.isdigit() }}{{ '\u00b2'.isdigit() }}{{ '\u0663'.isdigit() }}{{ '\u00bd'.isdigit() }}{{ '\u00bd'.isnumeric() }}{{ '\u00b2'.isdecimal() }}{{ ''.isdigit() }}", "{{ ' \n'.isspace() }}{{ ''.isspace() }}{{ 'aB'.islower() }}{{ 'ab1'.islower() }}{{ 'AB1'.isupper() }}{{ 'Hello World'.istitle() }}{{ 'Hello world'.istitle() }}{{ 'abc'.isascii() }}{{ '\u00e9'.isascii() }}{{ 'a\n'.isprintable() }}", "{{ s.nope() }}", "{{ s.upper(1) }}", "{{ (s ~ 'x').upper() }}", "{{ 'a'.join(['b', none]) }}", "{{ 'abc'.count() }}", "{{ [1,2,1].count(1) }}{{ [1,2].index(2) }}{{ (1,2,1).count(1) }}{{ (1,2).index(2) }}", "{{ [1].index(5) }}")
add("{{ '%s %s' % ('a', 1) }}", "{{ '%s' % 'a' }}{{ '%s' % none }}{{ '%s' % [1, 2] }}{{ '%s' % d }}", "{{ '%s %s' % 'a' }}", "{{ '%s' % ('a', 'b') }}", "{{ '%d|%5d|%-5d|%05d|%+d|% d' % (42, 42, 42, 42, 42, 42) }}", "{{ '%d' % 3.9 }}{{ '%d' % -3.9 }}{{ '%i' % true }}", "{{ '%d' % 'a' }}", "{{ '%x %X %o %#x %#o' % (255, 255, 8, 255, 8) }}", "{{ '%x' % 2.5 }}", "{{ '%f %.2f %10.3f %-10.1f| %010.2f %+.1f' % (1.5, 2.555, 3.14159, 2.25, -3.5, 1) }}", "{{ '%e %.3E %g %g %g %G' % (12345.678, 0.00012, 1e-5, 1e10, 123456789.0, 1e-10) }}", "{{ '%c%c' % ('a', 98) }}", "{{ '%r %s' % ('a', 'a') }}", "{{ '%5s|%-5s|%.2s|%5.1s|' % ('ab', 'ab', 'abc', 'abc') }}", "{{ '%%' % () }}{{ '100%%' }}", "{{ '%(a)s-%(b)d' % {'a': 'x', 'b': 2} }}", "{{ '%(zz)s' % {'a': 1} }}", "{{ '%(a)s' % 5 }}", "{{ '%z' % 1 }}", "{{ '%' % 1 }}", "{{ '%*d|%-*d|%.*f' % (5, 42, 5, 42, 1, 2.55) }}", "{{ 'abc' % () }}{{ 'abc' % [] }}{{ 'abc' % {} }}", "{{ 'abc' % 1 }}", "{{ '%s' % missing }}|", "{{ '%d' % missing }}", "{{ '%5s' % '\u00e9' }}|{{ '%.3d' % 7 }}|{{ '%05s' % 'a' }}|{{ '%d' % big }}", "{{ '%s=%s'|format('a', 1) }}{{ '%(x)s'|format(x=1) }}{{ '%s'|format('a') }}", "{{ '%s'|format('a', x=1) }}", "{{ '%s'|format }}", "{{ '%05d' % -42 }}")
add("{{ '{} {}'.format(1, 'a') }}", "{{ '{1} {0} {1}'.format('a', 'b') }}", "{{ '{a} {b!r}'.format(a=1, b='x') }}", "{{ '{} {0}'.format(1) }}", "{{ '{0} {}'.format(1) }}", "{{ '{}'.format() }}", "{{ '{x}'.format() }}", "{{ '{{}} {}'.format(1) }}", "{{ '{'.format() }}", "{{ '}'.format() }}", "{{ '{0.real} {1[a]} {2[0]}'.format(5, {'a': 'x'}, [9]) }}", "{{ '{0[zz]}|{0.q}|'.format({'a': 1}) }}", "{{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:=+5d}'.format('a', 'b', 'c', 'd', 5) }}", "{{ '{:5}|{:5}|'.format('a', 5) }}", "{{ '{:05d} {:+d} {: d} {:x} {:#X} {:o} {:b} {:c}'.format(42, 42, 42, 255, 255, 8, 5, 65) }}", "{{ '{:,} {:_} {:,.2f} {:010,d}'.format(1234567, 1234567, 1234567.891, 1234) }}", "{{ '{:.2f} {:e} {:g} {:.3g} {:%} {:.1%}'.format(3.14159, 12345.678, 0.0001, 1234.5, 0.25, 0.125) }}", "{{ '{:.3} {:.10} {} {:}'.format(3.14159, 2.5, 1e16, 1.0) }}", "{{ '{:.1}|{:.2}|{:.5}|{:.1}'.format(15.5, 123.0, 100000.0, 0.0) }}", "{{ '{:.2}'.format('abc') }}{{ '{:5.1}|'.format('abc') }}", "{{ '{:d}'.format('a') }}", "{{ '{:d}'.format(1.5) }}", "{{ '{:s}'.format(5) }}", "{{ '{:.2}'.format(5) }}", "{{ '{:>5}'.format([1]) }}", "{{ '{}'.format([1, 'a']) }}{{ '{!s}'.format([1]) }}{{ '{!r:>5}'.format('a') }}", "{{ '{:{}}|{:{w}.{p}f}'.format('a', 5, 2.5, w=6, p=2) }}", "{{ '{} {}'.format(none, true) }}{{ '{:5}|'.format(true) }}{{ '{:d}'.format(true) }}", "{{ '{:05}'.format(-42) }}{{ '{:05.1f}'.format(-2.5) }}{{ '{:<05}|'.format(4) }}", "{{ '{:e}'.format(5) }}{{ '{:f}'.format(5) }}{{ '{:n}'.format(1234) }}", "{{ '{!x}'.format(1) }}", "{{ '{:q}'.format(1) }}", "{{ '{a.b.c}'.format(a={'b': {'c': 7}}) }}", "{{ '{a[b][c]}'.format(a={'b': {'c': 7}}) }}", "{{ '{:\u00e9>4}'.format(1) }}", "{{ '{:+.1f} {: .1f} {:-.1f}'.format(1, 1, -1) }}", "{{ '{:5d}|{:<5d}|{:^5d}|'.format(1, 2, 3) }}", "{{ '{:#b} {:#o} {:#010x}'.format(5, 8, 255) }}", "{{ '{:.0f} {:.0f} {:.0e}'.format(0.5, 1.5, 12345.0) }}", "{{ '{:G} {:E}'.format(1e-10, 1e10) }}", "{{ '{:,}'.format(1234.5) }}{{ '{:,}'.format(999) }}{{ '{:,}'.format(-1234567) }}", "{{ '{:08,}|{:012,.1f}'.format(1234, 1234.5) }}")
add("{{ 'a b'|upper }}{{ 5|upper }}{{ none|upper }}{{ missing|upper }}{{ [1]|upper }}", "{{ 'hELLO wORLD'|capitalize }}{{ 'hello world-foo (bar) [x] <y>'|title }}{{ \"it's\"|title }}{{ '\u01c6x'|title }}", "{{ '  x '|trim }}|{{ 'xax'|trim('x') }}|{{ 5|trim }}|{{ none|trim }}", "{{ 'abc'|length }}{{ l|length }}{{ d|length }}{{ missing|length }}{{ u|count }}{{ range(5)|length }}", "{{ 5|length }}", "{{ none|length }}", "{{ l|map('string')|length }}", "{{ l|first }}{{ 'abc'|first }}{{ d|first }}{{ el|first }}|{{ missing|first }}|{{ l|last }}{{ 'abc'|last }}{{ d|last }}{{ el|last }}|{{ range(3)|last }}", "{{ 5|first }}", "{{ 5|last }}", "{{ l|map('string')|last }}", "{{ l|map('string')|first }}", "{{ l|join }}{{ l|join('-') }}{{ 'abc'|join(',') }}{{ d|join(',') }}{{ [1,none,true]|join(' ') }}{{ el|join('x') }}|{{ missing|join(',') }}|", "{{ l|join(d=', ') }}{{ people|join(', ', attribute='name') }}{{ people|join(', ', 'age') }}{{ l|join(1) }}", "{{ 5|join }}", "{{ l|sort }}{{ ls|sort }}{{ ls|sort(true) }}{{ ls|sort(case_sensitive=true) }}{{ ls|sort(false, true) }}", "{{ people|sort(attribute='age')|map(attribute='name')|list }}{{ people|sort(attribute='age,name')|map(attribute='name')|list }}{{ people|sort(reverse=true, attribute='age')|map(attribute='name')|list }}{{ people|sort(attribute='city')|map(attribute='name')|join }}", "{{ mixed|sort }}", "{{ 'hello'|sort }}{{ d|sort }}{{ (3,1)|sort }}{{ el|sort }}{{ nested|sort(attribute=0) }}", "{{ l|reverse|list }}{{ 'abc'|reverse }}{{ (1,2)|reverse|list }}{{ d|reverse|list }}{{ range(3)|reverse|list }}{{ l|map('string')|reverse }}", "{{ 5|reverse }}", "{{ none|reverse }}", "{{ [1,1,2,'a','A']|unique|list }}{{ ['a','A']|unique(true)|list }}{{ people|unique(attribute='age')|map(attribute='name')|list }}{{ 'aAb'|unique|list }}", "{{ [[1],[1]]|unique|list }}", "{{ l|min }}{{ l|max }}{{ ls|min }}{{ ls|max }}{{ ls|max(true) }}{{ people|max(attribute='age') }}{{ el|max }}|{{ 'hello'|min }}", "{{ mixed|max }}", "{{ l|sum }}{{ el|sum }}{{ people|sum(attribute='age') }}{{ l|sum(start=10) }}{{ [1.5,2]|sum }}{{ [[1],[2]]|sum(start=[]) }}", "{{ ['a']|sum }}", "{{ ['a']|sum(start='') }}", "{{ missing|sum }}{{ 5|sum }}")
add("{{ [1,2,3,4,5]|batch(2)|list }}{{ [1,2,3]|batch(2, 'x')|list }}{{ el|batch(2)|list }}{{ 'abc'|batch(2)|list }}{{ [1,2]|batch(0)|list }}", "{{ [1,2,3,4,5]|slice(2)|list }}{{ [1,2,3,4,5]|slice(3, 'x')|list }}{{ [1]|slice(3)|list }}{{ l|slice(0)|list }}", "{{ l|batch }}", "{{ people|groupby('age') }}", "{% for g in people|groupby('age') %}{{ g.grouper }}:{{ g.list|map(attribute='name')|join(',') }};{% endfor %}", "{% for k, v in people|groupby('city') %}{{ k }}={{ v|length }};{% endfor %}", "{% for k, v in people|groupby('city', case_sensitive=true) %}{{ k }}={{ v|length }};{% endfor %}", "{% for k, v in msgs|groupby('zz', default='none') %}{{ k }}={{ v|length }};{% endfor %}", "{{ (people|groupby('age'))[0][0] }}{{ (people|groupby('age'))|first|first }}", "{{ people|map(attribute='name')|list }}{{ people|map(attribute='zz')|list }}{{ people|map(attribute='zz', default='-')|list }}{{ msgs|map(attribute='tool_calls.0.id', default='?')|list }}", "{{ nested|map(attribute=0)|list }}{{ nested|map('first')|list }}{{ nested|map('length')|list }}{{ ls|map('upper')|join }}{{ ls|map('replace', 'b', 'x')|list }}{{ l|map('string')|map('length')|list }}{{ ['1','x']|map('int', default=9)|list }}", "{{ l|map('nope')|list }}", "{{ l|map('e\\0\\0zz')|list }}", "{{ l|select('eq\\x00\\x00', 1)|list }}", "{{ l|map()|list }}", "{{ l|map(attribute='x', foo=1)|list }}", "{{ none|map('upper')|list }}{{ 0|map('x')|list }}", "{{ 5|map('upper')|list }}", "{{ [0,1,2,none,'','a']|select|list }}{{ [0,1,2]|select('odd')|list }}{{ [1,2,3]|select('gt', 1)|list }}{{ [1,2,3]|select('>', 1)|list }}{{ ls|select('in', ['A','c'])|list }}{{ ls|select('==', 'A')|list }}{{ [1,'a']|select('string')|list }}", "{{ [0,1,2]|reject('odd')|list }}{{ [0,1]|reject|list }}{{ d|select('equalto','a')|list }}{{ 'abc'|reject('equalto','b')|join }}", "{{ people|selectattr('age', 'gt', 26)|map(attribute='name')|list }}{{ people|selectattr('zz')|list }}{{ people|selectattr('name')|list|length }}{{ people|rejectattr('age', 'equalto', 30)|map(attribute='name')|list }}{{ msgs|selectattr('tool_calls', 'defined')|map(attribute='content')|list }}{{ msgs|rejectattr('tool_calls')|list|length }}{{ msgs|selectattr('tool_calls.0.function.name', 'eq', 'f')|list|length }}", "{{ people|selectattr()|list }}", "{{ people|selectattr('age', 'nope')|list }}", "{{ people|selectattr('age', 'gt')|list }}", "{{ l|select('nope')|list }}", "{{ el|select('nope')|list }}")
add("{{ d|items|list }}{{ ed|items|list }}{{ missing|items|list }}", "{{ l|items|list }}", "{{ d|dictsort }}{{ d|dictsort(true) }}{{ d|dictsort(reverse=true) }}{{ {'x': 2, 'y': 1}|dictsort(by='value') }}{{ {'x': 2, 'y': 1}|dictsort(false, 'value', true) }}", "{{ d|dictsort(by='zz') }}", "{{ l|dictsort }}", "{{ missing|dictsort }}", "{% for k, v in d|dictsort %}{{ k }};{% endfor %}", "{{ d|list }}{{ 'abc'|list }}{{ (1,2)|list }}{{ range(3)|list }}{{ missing|list }}{{ d.items()|list }}", "{{ 5|list }}", "{{ none|list }}", "{{ 5|string ~ 'x' }}{{ none|string }}{{ [1,'a']|string }}{{ missing|string }}|{{ 1.0|string }}{{ true|string }}", "{{ missing|default }}|{{ missing|default('x') }}{{ none|default('x') }}{{ none|default('x', true) }}{{ ''|default('x', boolean=true) }}{{ 0|d(5, true) }}{{ d.q|default('z') }}{{ missing|d(default_value='k') }}{{ d.q.r|default('z') }}", "{{ missing.a|default('x') }}", "{{ (1/0)|default(1) }}", "{{ '3'|int }}{{ ' 42 '|int }}{{ '-5'|int }}{{ '+5'|int }}{{ '1_000'|int }}{{ '3.99'|int }}{{ 'abc'|int }}{{ ''|int }}{{ 'abc'|int(5) }}{{ 3.9|int }}{{ -3.9|int }}{{ true|int }}{{ none|int }}{{ [1]|int }}{{ '1e3'|int }}{{ '0x1f'|int }}", "{{ '0x1f'|int(0, 16) }}{{ 'ff'|int(base=16) }}{{ '0b101'|int(0, 2) }}{{ '777'|int(0, 8) }}{{ '0o17'|int(0, 8) }}{{ '9'|int(7, 8) }}{{ 'z'|int(0, 36) }}{{ '0x1f'|int(0, 0) }}{{ '12'|int(base=10) }}", "{{ missing|int }}", "{{ '1'|int('a','b','c') }}", "{{ 'inf'|int }}{{ 'nan'|int(3) }}{{ '1e400'|int(4) }}", "{{ '2.5'|float }}{{ 'x'|float }}{{ 'x'|float(1.5) }}{{ ' 3 '|float }}{{ 3|float }}{{ 'inf'|float }}{{ '-inf'|float }}{{ 'nan'|float }}{{ '1e5'|float }}{{ '.5'|float }}{{ '5.'|float }}{{ '1_0.5'|float }}{{ none|float }}{{ true|float }}{{ '1__0'|float }}{{ '1e'|float }}{{ '1e400'|float }}", "{{ missing|float }}", "{{ 2.5|round }}{{ 3.5|round }}{{ -2.5|round }}{{ 2.567|round(2) }}{{ 2.567|round(1, 'ceil') }}{{ 2.567|round(1, 'floor') }}{{ 5|round }}{{ 5|round(1) }}{{ 1234|round(-2) }}{{ 1250|round(-2) }}{{ 1350|round(-2) }}{{ 5.5|round(method='floor') }}{{ 5.2|round(0, 'ceil') }}{{ 1234.5|round(-2) }}{{ 2.675|round(2) }}{{ 0.5|round }}{{ 1.5|round|int }}", "{{ 5|round(0, 'floor') }}{{ 7|round(1, 'ceil') }}{{ -2.5|round(0, 'floor') }}", "{{ 2.5|round(method='zz') }}", "{{ 'a'|round }}", "{{ none|round }}", "{{ -5|abs }}{{ -2.5|abs }}{{ true|abs }}{{ 'a'|abs }}", "{{ n|abs }}{{ -n|abs }}{{ -n|string|length }}")
add("{{ lines|indent }}|{{ lines|indent(2) }}|{{ lines|indent(2, true) }}|{{ lines|indent(2, true, true) }}|{{ lines|indent(width=1, blank=true) }}|{{ lines|indent('> ') }}", "{{ ''|indent }}|{{ ''|indent(2, true) }}|{{ 'a\n'|indent }}|{{ '\na'|indent(first=true) }}|{{ 'a\r\nb'|indent }}", "{{ 5|indent }}", "{{ none|indent }}", "{{ 'a b c'|replace(' ', '_') }}{{ 'aaa'|replace('a', 'b', 2) }}{{ 5|replace('5', '6') }}{{ 'aaa'|replace('a', 5) }}{{ 'abc'|replace('', '-') }}{{ 'aa'|replace('a','b',count=1) }}{{ 'aa'|replace(old='a', new='b') }}{{ none|replace('None','x') }}", "{{ 'a'|replace('a') }}", "{{ 'hello world foo bar'|truncate(11) }}{{ 'hello world foo bar'|truncate(9, true) }}{{ 'hello world'|truncate(5, false, '..') }}{{ 'hello world'|truncate(5, leeway=0) }}{{ 'hello'|truncate(3, true, '', 0) }}{{ 'foo bar baz qux'|truncate(11, False, '...', 0) }}{{ 'abcdefghijkl'|truncate(5, leeway=0) }}", "{{ 'hello world'|truncate(2) }}", "{{ 5|truncate }}", "{{ lines|wordcount }}{{ 'a-b c_d e.f'|wordcount }}{{ ''|wordcount }}{{ '\u00e9t\u00e9 1 2'|wordcount }}", "{{ 'ab'|center(7) }}|{{ 'ab'|center }}|{{ 5|center(3) }}|", "{{ '<a>&\"\\''|e }}{{ '<a>'|escape|e }}{{ 5|e }}{{ '<a>'|e|forceescape }}{{ '<a>'|safe|e }}{{ '<a>'|forceescape }}{{ [1,'<']|e }}", "{{ '<b>'|e ~ '<c>' }}{{ '<b>'|e + '<c>' }}{{ '<c>' + '<b>'|e }}{{ ('<b>'|safe) * 2 }}{{ '<b>'|e|upper }}{{ ['<b>'|e] }}{{ '<b>'|e|length }}{{ ('<b>'|e)[0:4] + '<' }}", "{{ ('%s'|safe) % '<b>' }}{{ ('{}'|safe).format('<b>') }}{{ (','|safe).join(['<', '>']) }}{{ ('a<b'|safe).replace('a', '<') }}{{ ('<x>'|safe|string) + '<' }}{{ ('<x>'|safe)|replace('x', '<') }}{{ ['<b>'|safe, '<c>']|join }}{{ ('a,b'|safe).split(',') }}", "{% autoescape true %}{{ '<b>' }}{{ '<b>'|safe }}{{ '<b>' ~ '<c>' }}{{ ['<b>'|safe, '<c>']|join('<') }}{{ ['<']|join('>') }}{% set x %}<i>{% endset %}{{ x }}{{ l }}{{ '<'|upper }}{{ '<x>'|replace('x', '<') }}{{ none }}{{ missing }}{% endautoescape %}{{ '<b>' }}", "{% macro m(a) %}<{{ a }}>{% endmacro %}{% autoescape true %}{{ m('<') }}{% endautoescape %}{{ m('<') }}", "{{ html|striptags }}{{ '<!-- x --> a  <b>b</b>\n c &lt; &#65; &nbsp;'|striptags }}{{ 'a < b'|striptags }}{{ '<a'|striptags }}", "{{ 'a b/c?d=\u00e9&~'|urlencode }}{{ {'a b': 1, 'c': '/&'}|urlencode }}{{ [('x', 'y z')]|urlencode }}{{ 5|urlencode }}", "{{ {'class': 'a', 'id': none, 'x': '<', 'n': 5, 'm': missing}|xmlattr }}|{{ {'a': 1}|xmlattr(false) }}|{{ ed|xmlattr }}|", "{{ {'a b': 1}|xmlattr }}", "{{ 100|filesizeformat }}{{ 1|filesizeformat }}{{ 0|filesizeformat }}{{ 1000|filesizeformat }}{{ 1234567|filesizeformat }}{{ 1024|filesizeformat(true) }}{{ 10000000000|filesizeformat(binary=true) }}{{ '1500'|filesizeformat }}", "{{ d|attr('items') is callable }}{{ d|attr('b') is defined }}{{ n|attr('real') }}{{ 'x'|attr('__class__') is defined }}", "{{ d|pprint }}{{ 'a'|pprint }}{{ [1,'x']|pprint }}{{ {'z':1,'a':2}|pprint }}")
add("{{ d|tojson }}{{ l|tojson }}{{ s|tojson }}{{ q|tojson }}{{ u|tojson }}{{ u|tojson(true) }}{{ none|tojson }}{{ true|tojson }}{{ 1.0|tojson }}{{ big|tojson }}{{ (1,2)|tojson }}{{ mixed|tojson }}", "{{ d|tojson(indent=2) }}{{ d|tojson(indent=0) }}{{ [[],{}]|tojson(indent=2) }}{{ d|tojson(indent='--') }}{{ d|tojson(indent=-1) }}", "{{ d|tojson(separators=(',', ':')) }}{{ d|tojson(separators=[';', '=']) }}{{ d|tojson(sort_keys=true) }}{{ d|tojson(indent=1, separators=(', ', ' : '), sort_keys=true) }}{{ l|tojson(false, 2) }}", "{{ {1:'a', true:'b', none:'c', 1.5:'d', 'e':[]}|tojson }}", "{{ {(1,2): 3}|tojson }}", "{{ missing|tojson }}", "{{ [missing]|tojson }}", "{{ range(3)|tojson }}", "{{ d.items()|tojson }}", "{{ l|map('string')|tojson }}", "{{ namespace(a=1)|tojson }}", "{{ {1:1,'a':2}|tojson(sort_keys=true) }}", "{{ ('<b>'|e)|tojson }}", "{{ 'inf'|float|tojson }}{{ 'nan'|float|tojson }}{{ 1e22|tojson }}{{ 1e21|tojson }}{{ 123456789.123|tojson }}{{ 1e-7|tojson }}{{ 5e-324|tojson }}{{ 0.1|tojson }}{{ -0.0|tojson }}", "{{ '\x00\x01\x1f\x7f\x80\u2028\ud7ff\U0001f600'|tojson }}{{ '\x00\x7f\x80\U0001f600'|tojson(ensure_ascii=true) }}")
add("{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}", "{% for x in l %}{{ loop.previtem|default('-') }}{{ loop.nextitem|default('-') }};{% endfor %}", "{% for x in l %}{{ loop.cycle('a','b') }}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}", "{% for x in [1,1,2,2,1] %}{{ loop.changed(x) }}{% endfor %}", "{% for x in [1,1] %}{{ loop.changed(x, 1) }}{% endfor %}", "{% for x in l %}{{ loop }}{% endfor %}", "{% for x in l %}{{ loop.foo }}|{{ loop['index'] }}{% endfor %}", "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}{{ x }}{% else %}e{% endfor %}", "{% for x in l if loop.index > 1 %}{{ x }}{% endfor %}", "{% for x in el %}a{% else %}b{% endfor %}", "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}E{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% else %}E{% endfor %}", "{% for a, b in d.items() %}{{ a }}={{ b }};{% endfor %}", "{% for a, b in [[1,2,3]] %}{{ a }}{% endfor %}", "{% for a, b in [1] %}{{ a }}{% endfor %}", "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for (a, b) in ['xy'] %}{{ a }}{{ b }}{% endfor %}", "{% for a, in [[1]] %}{{ a }}{% endfor %}", "{% for x in 'ab' %}{{ x }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x in l|sort if x is odd %}{{ x }}{% endfor %}", "{% for x in (l if t else el) %}{{ x }}{% endfor %}", "{% for x in l if t else el %}{{ x }}{% endfor %}", "{% for loop in l %}{% endfor %}", "{% for true in l %}{% endfor %}", "{% for x.y in l %}{% endfor %}", "{% for x in nested recursive %}{{ x if x is number else '(' ~ loop(x) ~ ')' }}{% endfor %}", "{% for x in nested recursive %}{{ loop.depth }}{% if x is iterable %}{{ loop(x) }}{% endif %}{% endfor %}", "{% for x in l %}{{ loop(x) }}{% endfor %}", "{% for x in l %}{% for y in ls %}{{ loop.index }}{{ loop.length }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for x in l %}{% set outer = loop %}{% for y in ls %}{{ outer.index }}{{ loop.index }},{% endfor %}{% endfor %}", "{{ loop }}|{{ loop is defined }}", "{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}{% for i in range(0) %}x{% else %}none{% endfor %}", "{{ range(1, 10, 3) }}{{ range(5) }}{{ range(0, 5, 1) }}{{ range(3, 0)|list }}", "{{ range(1.5) }}", "{{ range(1, 2, 0) }}", "{{ range() }}", "{{ range(-3)|list }}{{ range(3)[1] }}{{ range(10)|sum }}", "{% for x in range(100001) %}{% endfor %}", "{% break %}", "{% for x in l %}{% set q %}{% break %}{% endset %}{% endfor %}|", "{% for x in l %}a{% filter upper %}b{{ x }}{% if loop.last %}{% break %}{% endif %}{% endfilter %}{% endfor %}|", "{% for x in l %}{% endfor %}{{ x is defined }}", "{% for x in l %}{% if loop.first %}{% set y = x %}{% endif %}{{ y }};{% endfor %}", "{% set y = 'o' %}{% for x in l %}{{ y }}{% set y = x %}{{ y }};{% endfor %}{{ y }}", "{% for x in l %}{{ y is defined }}{% set y = x %}{% endfor %}", "{% for m in msgs %}{{ m.role[0] }}{{ ',' if not loop.last }}{% endfor %}", "{% for k, g in d|dictsort|groupby(0) %}{{ k }}{{ g }};{% endfor %}", "{% for x in missing %}a{% else %}none{% endfor %}", "{% for x in l %}{{ x }}{% endfor %}{% for x in l|reverse %}{{ x }}{% endfor %}", "{% for c in s %}{{ c }}{{ loop.last }}{% endfor %}")
add("{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}", "{% if fa %}{% set x = 2 %}{% endif %}{{ x is defined }}", "{% set x = 1 %}{% for i in l %}{% set x = 5 %}{% endfor %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set (a, b) = 'xy' %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a = 1, %}{{ a }}", "{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{% set ns.b = 3 %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{{ ns }}", "{% set ns = namespace({'x': 1}) %}{{ ns.x }}{{ ns['x'] }}", "{% set ns = namespace() %}{% for i in l %}{% set ns.v = i %}{% endfor %}{{ ns.v }}", "{% set ns = namespace(x=[]) %}{% set ns.x = ns.x + [1] %}{{ ns.x }}", "{% set ns = namespace(a=1) %}{% set ns.a, b = 5, 6 %}{{ ns.a }}{{ b }}", "{% set d.b = 2 %}", "{% set missing.b = 2 %}", "{% set x['a'] = 1 %}", "{% set 5 = 1 %}", "{% set none = 1 %}", "{% set [a] = 1 %}", "{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x|length }}{{ x is string }}", "{% set x | upper | replace('A', 'z') %}abc{% endset %}{{ x }}", "{% set x %}{% set y = 5 %}{% endset %}{{ y is defined }}", "{% set ns = namespace(a=1) %}{% set ns.a %}blk{% endset %}{{ ns.a }}", "{% filter upper %}a{% set y = 5 %}{% endfilter %}{{ y is defined }}", "{% filter replace('a', 'b') | upper %}aab{% endfilter %}", "{% filter trim %}  x {% endfilter %}|", "{% with %}{% set y = 1 %}{% endwith %}{{ y is defined }}", "{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}", "{% set a = 9 %}{% with a=1, b=a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}", "{% generation %}a{% set y = 1 %}{{ n }}{% endgeneration %}{{ y is defined }}", "{% for x in l %}{% generation %}{{ loop.index }}{{ x }}{% endgeneration %}{% endfor %}", "{% if t %}{% generation %}x{% endgeneration %}{% endif %}")
add("{% macro f(a, b=2, c=3) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}|{{ f(1, 5) }}|{{ f(1, c=7) }}|{{ f(c=1, b=2, a=3) }}|{{ f() }}", "{% macro f(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ f() }}{{ f(none) }}", "{% macro f(a) %}{{ a.x }}{% endmacro %}{{ f() }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}", "{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, x=4) }}{{ f() }}", "{% macro f() %}{{ kwargs.x }}{{ kwargs }}{% endmacro %}{{ f(x=1, y=2) }}", "{% macro f(varargs) %}{{ varargs }}{% endmacro %}{{ f(1) }}", "{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(1) }}", "{% macro f(a=b, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f() }}", "{% macro f(a=1, b) %}{% endmacro %}", "{% macro f(x) %}{% set y = x %}{{ y }}{% endmacro %}{{ f(1) }}{{ y is defined }}", "{% set g = 1 %}{% macro f() %}{{ g }}{% set g = 2 %}{{ g }}{% endmacro %}{{ f() }}{{ g }}", "{% macro f() %}{{ h() }}{% endmacro %}{% macro h() %}H{% endmacro %}{{ f() }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}x{{ n }}{% endcall %}", "{% macro f() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b=5) f() %}{{ a }}-{{ b }}{% endcall %}", "{% macro f() %}[{{ caller() }}]{% endmacro %}{% call(a) f() %}{{ a is defined }}{% endcall %}", "{% macro f() %}{% endmacro %}{% call f() %}x{% endcall %}", "{% macro f() %}{{ caller }}{% endmacro %}{{ f() }}|", "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}", "{% macro f(caller=none) %}{{ caller is none }}{% endmacro %}{{ f() }}", "{% macro f(caller) %}{{ caller() }}{% endmacro %}{{ f() }}", "{% macro f(x) %}{{ x }}{{ caller() }}{% endmacro %}{% for i in l %}{% call f(i) %}<{{ i }}>{% endcall %}{% endfor %}", "{% call 5 %}{% endcall %}", "{% call s.upper() %}{% endcall %}", "{% macro f(a, b=2) %}{% endmacro %}{{ f.name }}{{ f.arguments }}{{ f.catch_kwargs }}{{ f.catch_varargs }}{{ f.caller }}", "{% macro f() %}{% endmacro %}{{ f }}{{ f is callable }}", "{% macro f() %} x {% endmacro %}{{ f()|trim }}|{{ f() ~ 'y' }}|{{ f() + 'z' }}|{{ f()|length }}", "{% macro f(*a) %}{% endmacro %}", "{% set args = [1, 2] %}{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*args) }}{{ f(**{'a': 3, 'b': 4}) }}{{ f(1, *[2]) }}", "{{ dict(**{'a': 1}) }}{{ dict(a=1, **{'b': 2}) }}{{ dict([('x', 1)], y=2) }}{{ dict({'a': 1}) }}{{ dict() }}", "{{ dict(1) }}", "{{ dict([1]) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{% for i in l %}{{ f(i) }}{% endfor %}", "{% for i in l %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}", "{% for i in l %}{{ g() }}{% endfor %}{% macro g() %}{{ i is defined }}{% endmacro %}", "{% macro g() %}{{ i is defined }}{% endmacro %}{% for i in l %}{{ g() }}{% endfor %}", "{% if t %}{% macro f() %}ok{% endmacro %}{% endif %}{{ f() }}", "{% macro f() %}{{ loop is defined }}{% endmacro %}{% for i in l %}{{ f() }}{% endfor %}", "{% macro f(x) %}{{ x|upper }}{% endmacro %}{{ ['a','b']|map('upper')|join }}{{ f('q') }}", "{% macro f(a, ) %}{{ a }}{% endmacro %}{{ f(1) }}", "{{ f(1) }}{% macro f(a) %}{{ a }}{% endmacro %}", "{% macro a() %}{% macro b() %}B{% endmacro %}{{ b() }}{% endmacro %}{{ a() }}{{ b is defined }}")
add("{{ namespace(_a=1) }}", "{% set ns = namespace() %}{% set ns._a = 1 %}", "{{ raise_exception('boom') }}", "{{ raise_exception('x ' ~ n ~ ' \u00e9') }}", "{% if n > 2 %}{{ raise_exception(\"quote ' \\\" here\") }}{% endif %}", "{{ raise_exception() }}", "{{ strftime_now('%Y-%m-%d %H:%M:%S %j %a %A %b %B %y %d %e %I %p %M %S %% %-d %-m') }}|{{ strftime_now('plain') }}|{{ strftime_now('') }}|{{ strftime_now('%U %W %u %w %D %F %T %R %C %h %n %t %Z %z %f') }}", "{{ cycler('a','b').next() }}{% set c = cycler('a','b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}", "{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "{{ cycler() }}", "{{ lipsum is defined }}{{ range is defined }}{{ dict is defined }}{{ zip is defined }}", "{{ 'a' if fa }}|{{ 'a' if t }}|{{ ('a' if fa) is defined }}|{{ 'a' if fa else 'b' if fa else 'c' }}|{{ 'x' ~ ('a' if fa) }}", "{{ ('a' if fa).x }}", "{{ 1 or 1/0 }}{{ 0 and 1/0 }}", "{{ missing and missing.x }}|{{ missing or 'x' }}", "{{ [] or {} or '' or 0 or none }}", "{{ none and 1 }}{{ 1 and none }}{{ '' and 1 }}|", "{{ t and fa or n }}{{ not t or n }}{{ t if not fa }}")
add("a\n{% if t %}\nb\n{% endif %}\nc\n", "  {% if t %}\n  b\n  {% endif %}\n  c", "a {%- if t -%} b {%- endif -%} c", "a\n\n{%- if t %}\n\nb{% endif %}", "{% if t -%}\n\n  x\n\n{%- endif %}", "{{- n -}}", "a {{- n -}} b", "a {{ n -}}\n\n b", "a\n  {{- n }}", "  {{ n }}\n  ", "{#- c -#}\n a", "a\n{# c #}\nb", "  {# c #}\nb", "a {# c #} b", "{# c\nd #}\nx", "{#+ c +#}\nx", "  {#+ c #}\nx", "{%+ if t %}x{% endif %}", "  {%+ if t %}x{% endif %}", "{% if t +%}\nx{% endif +%}\ny", "  {%- if t %}x{% endif %}", "\t {% if t %}x{% endif %}", "x  {% if t %}x{% endif %}", "{% raw %}{{ x }}{% endraw %}", "a\n{% raw %}\n {{ x }}\n{% endraw %}\nb", "a {%- raw -%} {{ x }} {%- endraw -%} b", "{% raw %}{% if %}{% endraw %}x", "{% raw %}{# #}{% endraw %}", "  {% raw %}x{% endraw %}\n  y", "{% raw %}a", "{%raw%}a{%endraw%}", "\n\nx\n\n", "\r\na\r\n", "a\rb", "{{ 'a\\\nb' }}", "{{ \"a'b\" ~ 'c\"d' }}", "{{ '\\'' ~ \"\\\"\" ~ '\\\\' }}", "{{ '\\n\\t\\r\\x41\\u0042\\U00000043\\101\\q' }}", "{{ '\\xZZ' }}", "{{ '%}' }}{{ '}}' }}{{ \"{{\" }}", "{{ {'a':{'b':1}}['a']['b'] }}", "{{ {'a':1}}}", "{{[1,2]}}", "{{ [1,\n2,\n3] }}", "{{ 1 }}{{ 2 }}\n{{ 3 }}", "{% if t %}{% if t %}x{% endif %}{% endif %}", "{% if t: %}x{% endif %}", "{% if t %}x{% elif fa %}y{% else %}z{% endif %}", "{% if fa %}x{% elif fa %}y{% else %}z{% endif %}", "{% if fa %}x{% elif t %}y{% endif %}", "{% if not l %}x{% endif %}|", "{% if t, fa %}x{% endif %}", "{% print 1, 'a' %}", "{{ 1, 2 }}", "{{ 1, }}", "{{ () }}", "{{ (1) }}{{ (1,) }}", "{{ 0x1F }}{{ 0b101 }}{{ 0o17 }}{{ 1_000 }}{{ 1e3 }}{{ 1.5e-3 }}{{ 1E5 }}{{ 00 }}", "{{ 012 }}", "{{ 1. }}", "{{ .5 }}", "{{ 1__0 }}", "{{ 1.5.5 }}", "{{ a..b }}", "{{ a.'b' }}", "{{ 'a' 'b' \"c\" }}", "{{ @ }}", "{{ a $ b }}", "{{ a ! b }}", "{{ a ? b : c }}", "{{ \u00e9 }}|", "{% set \u00e9t\u00e9 = 1 %}{{ \u00e9t\u00e9 }}", "{{ l[ }}", "{{ l] }}", "{{ (l }}", "{{ f(a=1, 2) }}", "{{ f(a=1, a=2) }}", "{{ f(**d, 1) }}", "{{ dict(a=1, a=2) }}", "{{ 'a'|upper() }}{{ 'a'|upper|lower|title }}", "{{ 'a'|upper(1) }}", "{{ 'a'|foo.bar }}", "{{ 'a' | default ('b') }}", "{{ 'a'is string }}", "{{ not }}", "{{ 1 not 2 }}", "{{ 1 is }}", "{{ 1 is is }}", "{{ 1 is not }}", "{{ 'a'|  }}", "{% %}", "{% 5 %}", "{% if %}", "{% for %}", "{% set %}", "{% macro %}", "{% else %}", "{% elif %}", "{% endfor %}", "{% if t %}{% endfor %}", "{% for x in l %}{% endif %}", "{% if t %}a{% else %}b{% else %}c{% endif %}", "{% block x %}{% endblock %}"[:0] + "{% do l %}", "{% trans %}x{% endtrans %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% include 'x' %}", "{% extends 'x' %}", "{{ 'x'|frob }}", "{% if fa %}{{ 'x'|frob }}{% endif %}ok", "{% if t %}{{ 'x'|frob }}{% endif %}ok", "{{ 'x'|frob if fa else 'ok' }}", "{{ 1 if x is frob else 2 }}", "{{ 'ok' if t else 'x' is frob }}", "{% if fa %}{% for x in l %}{{ x|frob }}{% endfor %}{% endif %}", "{% for x in el %}{{ x|frob }}{% endfor %}", "{% macro f() %}{{ 1|frob }}{% endmacro %}", "{# a {% b #}x", "{# #}", "{##}", "{#-#}", "a{#\n#}\nb", "{{ n }}{# x #}{{ n }}", "{ { n } }", "{%", "{{", "{#", "}}", "%}", "#}", "{", "", " ", "\n", "\n\n")
add("{{ (1, 'a', none, [1.5], {'k': (1,)}) }}", "{{ 'it\\'s' }}{{ ['it\\'s'] }}{{ ['\"'] }}{{ ['\\'\"'] }}", "{{ ['\\n\\t\\\\\\x00\\x7f\\xa0\\xad\\u200b\\u2028\\ue000\\U0001f600\\U000e0001'] }}", "{{ [1e16, 1e15, 123456789012345678.0, 1e-4, 1e-5, 0.1, 1/3, 2/3, 1e100, 5e-324, 1.7976931348623157e308, 100.0, 0.5] }}", "{{ [true, false, none, missing] }}", "{{ 1e15 }}{{ 123456.789 }}{{ 1.10 }}{{ -1.5e-10 }}", "{{ big }}{{ -big }}{{ [big] }}{{ big|string|length }}", "{{ 'x' }}", "{{ self }}", "{{ {}|string }}{{ []|string }}{{ ()|string }}", "{{ {'a': {'b': [1, {'c': 'd'}]}} }}", "{{ -5 // 2 * 2 + -5 % 2 }}", "{{ 'a' < 'b' and 'b' < 'c' }}", "{{ l|length - 1 }}", "{{ - l|length }}", "{{ l|length * 2 ~ 'x' }}", "{{ 'a' ~ l|join ~ 'b' }}", "{{ n|string ~ n }}", "{{ [l|first, l|last] }}", "{{ (l|sort)[0] }}", "{{ msgs[-1]['content'] }}{{ msgs[-1].content[-1] }}{{ msgs[1:][0].role }}{{ (msgs|last).role }}{{ msgs|map(attribute='role')|join(',') }}", "{{ msgs[2].tool_calls[0].function.arguments|tojson }}{{ msgs[2].tool_calls[0]['function']['name'] }}{{ msgs[0].tool_calls }}|{{ msgs[0].tool_calls is defined }}", "{{ (msgs|selectattr('role','equalto','user')|list)[-1].content }}", "{%- for message in msgs -%}\n{%- if message['role'] == 'user' -%}\n{{ '<|user|>' + message['content'] }}\n{%- elif message['role'] == 'assistant' -%}\n{{ '<|bot|>' + message['content'] }}{%- endif -%}\n{%- endfor -%}", "{% set loop_messages = msgs[1:] if msgs[0]['role'] == 'system' else msgs %}{% set system_message = msgs[0]['content'] if msgs[0]['role'] == 'system' else false %}{% for m in loop_messages %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>' + system_message + '<</SYS>>' + m['content'] %}{% else %}{% set content = m['content'] %}{% endif %}{{ content|trim }};{% endfor %}")
add(*["{{ %s }}" % e for e in ["[1, 2]|string|upper", "'a b c'.split()|join('-')|upper", "('a' ~ 'b')|upper", "l|map('float')|list", "[[1,2],[3]]|map('sum')|list", "ls|map('lower')|sort|list", "d|map('upper')|list", "'abc'|map('upper')|list", "people|map(attribute='age')|unique|sort|list", "people|map(attribute='name')|map('lower')|map('first')|join", "range(5)|select('even')|map('string')|join('+')", "people|sum('age')", "people|min(attribute='age')", "[1,2,3]|batch(2)|map('list')|list", "[3,2,1]|sort|first", "'  a'|trim|length", "[none, 1]|map('default', 'x', true)|list", "['a','b']|map('indent', 2, true)|list", "[1.234, 5.678]|map('round', 1)|list", "['x']|map('center', 5)|list", "['<']|map('e')|list", "[[1,2],[3,4]]|map('join', '-')|list", "[{'a': 1}]|map('items')|map('list')|list", "[1,2,3]|reject('in', [2])|list", "msgs|map('length')|list", "msgs|map(attribute='content')|map('length')|list", "msgs|map(attribute='role')|list|unique|list", "ls|select('upper')|list", "ls|select('lower')|list", "['', ' ', 'a']|select|list", "mixed|select('number')|list", "mixed|select('none')|list", "mixed|reject('none')|list", "mixed|map('string')|list", "mixed|select('boolean')|list", "mixed|select('sameas', true)|list", "[1,2,3,4]|select('divisibleby', 2)|list", "people|selectattr('city', 'lower')|list", "people|selectattr('age', 'odd')|list|length"]])


class TooSlow(BaseException):
    pass


def too_slow(*_):
    raise TooSlow()


def run(source):
    """What the reference does with a template."""
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        text = ENV.from_string(source).render(**json.loads(json.dumps(V)))
    except (TooSlow, MemoryError):
        return {"render": "generator"}  # which keep() leaves out
    except jinja2.exceptions.TemplateSyntaxError:
        return {"error": "syntax"}
    except jinja2.exceptions.TemplateError as e:
        return {"error": "raised", "message": str(e)} if type(e) is jinja2.exceptions.TemplateError else {"error": "render"}
    except RecursionError:
        return {"error": "render"}
    except Exception:
        return {"error": "render"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {"render": text}


ATOMS = ["s", "e", "sp", "u", "n", "z", "neg", "f", "f1", "t", "fa", "no", "l", "ls", "el", "d", "ed", "msgs", "lines", "missing", "mixed",
         "nested", "people", "html", "1", "0", "-1", "2.5", "'a'", "'b c'", "''", "'\u00e9x'", "none", "true", "[]", "{}", "[1, 'a']",
         "(1, 2)", "{'k': [1]}", "range(4)", "d.a", "d.zz", "msgs[0]", "people[1].name", "'%s'", "'{}'", "'<b>'|e", "namespace(a=1)"]
OPS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
FILTERS = ["abs", "attr('real')", "batch(2)", "capitalize", "center(7)", "count", "d('q')", "default('q', true)", "dictsort", "e",
           "first", "float", "float(9)", "forceescape", "groupby('age')", "groupby(0)", "indent", "indent(1, true)", "int", "int(9)", "items",
           "join", "join(',')", "join('-', attribute='name')", "last", "length", "list", "lower", "map('upper')", "map('string')",
           "map(attribute='name')", "map(attribute=0)", "max", "min", "reject", "reject('string')", "rejectattr('age')", "replace('a', 'X')",
           "reverse", "round", "round(1)", "safe", "select", "select('number')", "selectattr('age', 'gt', 26)", "slice(2)", "sort",
           "sort(reverse=true)", "sort(attribute='age')", "string", "striptags", "sum", "title", "tojson", "tojson(indent=1)", "trim", "trim('a')",
           "truncate(5, true, '.', 0)", "unique", "upper", "urlencode", "xmlattr", "format(1)", "format('x', 2)", "filesizeformat"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "callable", "true",
         "false", "odd", "even", "divisibleby(2)", "eq(1)", "ne('a')", "lt(2)", "ge(1)", "in([1, 'a', none])", "in('abc')", "lower", "upper",
         "sameas(none)", "escaped"]
METHODS = ["upper()", "lower()", "strip()", "strip('a')", "lstrip()", "split()", "split(' ')", "split('l', 1)", "rsplit(none, 1)", "splitlines()", "title()",
           "capitalize()", "startswith('a')", "endswith(('a', 'o'))", "replace('l', 'L')", "replace('', '.')", "find('l')", "rfind('l')", "count('l')", "count(1)",
           "index('l')", "index(1)", "join(['x', 'y'])", "join(ls)", "format(1, 2)", "get('b')", "get('zz', 1)", "keys()", "values()", "items()", "isdigit()", "isalpha()",
           "zfill(4)", "center(6, '*')", "ljust(6)", "partition('l')", "swapcase()", "removeprefix('H')", "real", "role", "zz", "0"]


def expression(r, depth):
    k = r.random()
    if depth <= 0 or k < 0.12:
        return r.choice(ATOMS)
    sub = lambda: expression(r, depth - 1)  # noqa: E731
    if k < 0.40:
        return "(%s)|%s" % (sub(), r.choice(FILTERS)) if r.random() < 0.7 else "%s|%s" % (r.choice(ATOMS), r.choice(FILTERS))
    if k < 0.58:
        a, op, b = sub(), r.choice(OPS), sub()
        return "(%s) %s (%s)" % (a, op, b) if r.random() < 0.6 else "%s %s %s" % (a, op, b)
    if k < 0.72:
        return "(%s).%s" % (sub(), r.choice(METHODS))
    if k < 0.80:
        return "(%s) is %s%s" % (sub(), r.choice(["", "not "]), r.choice(TESTS))
    if k < 0.84:
        return "(%s)[%s]" % (sub(), r.choice(["0", "-1", "'b'", "'a'", "n", "none"]))
    if k < 0.88:  # slices of literals are computed by the reference's compiler, by other rules
        names = [a for a in ATOMS if a.isidentifier() and a not in ("none", "true")]
        return "%s[%s]" % (r.choice(names), r.choice(["1:", "::-1", ":-1", "1:3", "::2", "-2:", "n:", ":n", "none:2"]))
    if k < 0.92:
        return "%s if %s else %s" % (sub(), sub(), sub())
    if k < 0.95:
        return "[%s, %s]" % (sub(), sub())
    if k < 0.97:
        return "{'k': %s}" % sub()
    return r.choice(["not (%s)", "-(%s)", "(%s) ~ 'z'", "dict(k=%s)"]) % sub()


def tag(r, inner, begin="{%", end="%}"):
    return begin + r.choice(["", "", "-", "+"]) + " " + inner + " " + r.choice(["", "", "-", "+" if end == "%}" else ""]) + end


def spaces(r, depth=2):
    """Text, white space and tags in any order: what is trimmed?"""
    out = []
    for _ in range(r.randint(1, 6)):
        k = r.random()
        if k < 0.55 or depth == 0:
            out.append(r.choice(["a", "b", " ", "  ", "\n", "\n\n", "\t", "\r\n", " \n ", "\u00a0", "x y"]))
        elif k < 0.68:
            out.append(tag(r, r.choice(["n", "' '", "'q'", "s"]), "{{", "}}").replace("+", ""))
        elif k < 0.76:
            out.append(tag(r, "c", "{#", "#}"))
        elif k < 0.90:
            out.append(tag(r, "if t") + spaces(r, depth - 1) + tag(r, "endif"))
        elif k < 0.96:
            out.append(tag(r, "for x in l") + spaces(r, depth - 1) + tag(r, "endfor"))
        else:
            out.append(tag(r, "raw").replace("+", "") + "{{ z }}" + r.choice(["", "\n", " "]) + tag(r, "endraw"))
    return "".join(out)


def program(r, depth=3):
    """Assignments and blocks over a few names: who sees what?"""
    out = []
    name = lambda: r.choice("abcd")  # noqa: E731
    for _ in range(r.randint(1, 4)):
        k, v = r.random(), name()
        value = r.choice(["1", "'s'", "[1, 2]", "a", "b", "c", "d", "n", "(a, b)", "loop.index0", "a ~ 'x'", "b or 'y'", "f1(1)", "ns.v"])
        body = (lambda: program(r, depth - 1)) if depth else (lambda: "{{ %s }}," % name())
        if k < 0.30 or depth == 0:
            out.append("{{ %s }}," % r.choice([v, v, v + " is defined", "loop is defined", "ns.v", "f1(%s)" % v, "[%s]" % v]))
        elif k < 0.50:
            out.append("{%% set %s = %s %%}" % (v, value))
        elif k < 0.60:
            out.append("{%% if %s %%}%s{%% else %%}%s{%% endif %%}" % (r.choice([v, "t", "fa", "loop is defined and loop.first"]), body(), body()))
        elif k < 0.74:
            out.append("{%% for %s in %s %%}%s{%% endfor %%}" % (v, r.choice(["l", "[1, 2]", "'xy'", "ls if t", "range(2)"]).replace("ls if t", "ls"), body()))
        elif k < 0.80:
            out.append("{%% with %s = %s %%}%s{%% endwith %%}" % (v, value, body()))
        elif k < 0.86:
            out.append("{%% macro f%d(%s, b=%s) %%}%s{%% endmacro %%}{{ f1(2) }}" % (r.randint(1, 2), v if v != "b" else "a", value, body()))
        elif k < 0.92:
            out.append("{%% set %s %%}%s{%% endset %%}" % (v, body()))
        elif k < 0.96:
            out.append("{% set ns = namespace(v=0) %}{% set ns.v = " + value + " %}")
        else:
            out.append(r.choice(["{%% filter upper %%}%s{%% endfilter %%}", "{%% generation %%}%s{%% endgeneration %%}", "{%% call f1(1) %%}%s{%% endcall %%}"]) % body())
    return "".join(out)


def keep(case):
    text = case.get("render", "")
    low = text.lower()
    return not any(w in low for w in (" at 0x", "generator", "generx", "g,e,n,e,r", "g.e.n.e.r", "<built-in", "object sync_do", "0x7f", "f7x0")) and len(text) < 2000


def large(source):
    """Integers beyond 64 bits are refused by gyre."""
    return re.search(r"\*\*|\bbig\b", source) is not None


def main():
    signal.signal(signal.SIGALRM, too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    out = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1200
    head = {"fixed_now": NOW.isoformat(), "context": V}
    written = [c for c in ({"template": t, **run(t)} for t in CASES) if keep(c)]
    r, drawn, seen = random.Random(seed), [], set()
    while len(drawn) < count:
        t = "{{ %s }}" % expression(r, 3)
        if t in seen or large(t):
            continue
        seen.add(t)
        c = {"template": t, **run(t)}
        if keep(c) and ("render" in c or r.random() < 0.3):
            drawn.append(c)
    for make, share in ((spaces, 3), (program, 2)):
        for _ in range(count // share):
            t = make(r)
            c = {"template": t, **run(t)}
            if keep(c) and t not in seen and ("render" in c or r.random() < 0.2):
                seen.add(t)
                drawn.append(c)
    for name, cases in (("tmpl_cases", written), ("tmpl_random", drawn)):
        with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as f:
            rows = [json.dumps(c, ensure_ascii=True) for c in cases]
            f.write(json.dumps(head, ensure_ascii=True)[:-1] + ', "cases": [\n' + ",\n".join(rows) + "\n]}\n")
        print(name, len(cases), "cases,", sum("error" in c for c in cases), "of them errors")


if __name__ == "__main__":
    main()
