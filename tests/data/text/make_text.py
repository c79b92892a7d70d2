#!/usr/bin/env python3
"""Make regex.json, pretok.json and normalize.json beside this file with the tokenizers library (0.23.3) as the oracle.

usage: make_text.py

regex.json: patterns, each with texts and the byte spans of all matches that are not empty.
pretok.json, normalize.json: members of tokenizer.json, each with texts and the pieces or the normalised text.
"""
import base64
import json
import os
import random
import struct

from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import Split

HERE = os.path.dirname(os.path.abspath(__file__))
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
P1 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
P2 = P1.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
P3 = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + CONTRACTIONS + r"?|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER
      + "*" + CONTRACTIONS + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
P4 = P3.replace(CONTRACTIONS + "?", "").replace("{1,3}", "").replace("[\\r\\n/]*", "[\\r\\n]*")
P5 = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
      r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
      r"""|\s*[\r\n]+|\s+(?!\S)|\s+"""]
P6 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
KNOWN = [P1, P2, P3, P4, *P5, P6,
         # as other public models have them
         r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
         r" ?[^(\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+", r"[0-9][0-9][0-9]", r"\s+", r"\p{P}", r"[\p{P}\p{S}]",
         r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", r"(?=(\d{3})+(?!\d))",
         r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
         + CONTRACTIONS + r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+",
         r"\d{1,3}(?=(?:\d{3})*\b)", r"\w+|[^\w\s]+", r"[^\n]+|[\n]+", r"(?:\r?\n)+(?!\r?\n)", r"[a-zA-Z]+|\d|\s{1,16}| |\S"]
SMALL = ["", "a", "a|b|ab", r"a{1,2}+", "a++a", "a?+a", r"\s++$", "^a", "a$", r"a\Z", r"a\z", r"\Aa", ".", "(?m:.)", r"\n$",
         "^", "(?i)[^a]", "(?i:\u212a)", "(?i:'s)", r"(?i)[\p{Lu}]", r"(?i)\p{Lu}", "a(?i)b|c", "(?:a|(?i)b|c)d", "(?i:a)b",
         r"[^\p{L}&&[a-z]]", "[a-z&&[^b]]+", r"[\w&&[^\d]&&[^_]]+", "[]a]", "[a-]", "[^]a]", "[a-c-e]+", r"[\w-]+", r"[\]\[]",
         r"\w+", r"\W+", r"[\w]+", r"[^\W]+", r"\d+", r"\D+", r"\S+", r"\bfoo\b", r"\Boo", r"\b", "(?<=a)b", "(?<!a)b",
         r"(?<=\s)\w", "(?<=a|b)c", "(?=ab)a", r"(?!ab)\w+", r"\w+(?=\s*\n)", r"\w+(?!\s*\n)", r"(?=a|b)\w", "(?=(?=a)a)a",
         "(?:|a)*", "(?:a|b|)*c", "(?:a*|b)*c", "(?:a?){3}b", "(?:ab?){2,3}?c", "(?:a+)+b", "a{2}?", "a{2}?b", "a{0}b", "a{,2}",
         "a{2,}", "a{", "a{x}", "a{2", "]", "a**", "a+?", "a??", "a{1,3}?", ".+?b", "(a|ab)(c|bcd)", "x|", "x*", "[[:punct:]]+",
         "[[:^digit:]]+", "[[:space:]]+", "[[:xdigit:]]+", "[[:word:]]+", r"\x41", r"\x{1F600}+", r"\u0041", r"\t|\n|\r|\f|\v|\a|\e",
         r"\.", r"\-\/\<", "(?#c)a", "(?<n>a)b", "(?i-i:A)", r"\p{^L}+", r"\P{L}+", r"\p{Letter}+", r"\p{lu}", r"\p{ L u }",
         r"\p{Latin}+", r"\p{Hiragana}+", r"\p{Cyrillic}+", r"\p{Greek}+", r"\p{Any}", r"\p{LC}+", r"\p{M}+", r"\p{Sc}", r"\p{C}",
         "[\U0001F600-\U0001F64F]", "\u00e9|e", r"[^\x{0}-\x{7F}]+", r"(?:a{1,3}){1,3}b", "(?:(?:a+)+)+b", r"(?:(?:b|\d|[ab]??))*", r"(?:\w|(?:(?:[^a]{0,2})*?)+|)*", "(?:(?:|a)+)*?b", "[^\\s]++\\s?+"]
TEXTS = ["", " ", "Hello, world! It's 12345 o'clock; I'LL see you'Re all.", "  leading and trailing  ", "tabs\t\tand\nnew\r\n\r\nlines \n x",
         "'\u017f 'S 's 'D don't WE'VE", "caf\u00e9 cafe\u0301 na\u00efve \u00dcBER Stra\u00dfe \u01c5a \u0130I\u0131i",
         "\u4e2d\u6587\u5b57\u7b26\uff0c\u6df7\u5408English\u548c123\u6570\u5b57\u3002\u3072\u3089\u304c\u306a\u30ab\u30bf\u30ab\u30ca",
         "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0661\u0662\u0663\u0664 \u06f1\u06f2", "\u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22 \ud55c\uad6d\uc5b4",
         "\U0001F600\U0001F1E9\U0001F1EA\U0001F468\u200d\U0001F469\u200d\U0001F467 \U0001FAE8x", "a\u00a0b\u2003c\u180ed\u200be\u3000f\u0085g",
         "def f(x):\n    return x**2 + 1  # comment\n\n\n", "x_1=y[0]; //path/to/file.txt\r\n{\"k\": [1, 2.5e10]}", "1234567 12 1\u00b2 \u00bd \u2167 \u0967\u0968",
         "!!!???...,,,--- ($100) \u20ac5 <tag/> a+b=c ^_~`|", "aaab aabab abc abcd acbcc ab\nab  \ncd foo food", "A\u030a\u0301\u0323 \u1100\u1161\u11a8 \ufb01 \uff21\uff22",
         "HTTPServer iPhone XMLHttpRequest SHOUTING'S camelCase'll", "\u0416\u0438\u0437\u043d\u044c \u0395\u03bb\u03bb\u03ac\u03c2 \u03a3\u03a3 kK\u212a",
         "line one\nline two\n", "\n", "\n\n \n", "   x", "a" * 40 + "c", "\u00df ss \u1e9e", "_\u2581_ \u2581a \u2581", "a\x00b\x07\x0b\x0c\x1b\x7f\ufeff\ufffd"]


def texts(rng, n):
    pools = [list("abcABC'sStTlLdD"), list("0123456789\u0663\u00b2"), list("  \t\n\r\u00a0\u3000"), list(".,!?-_/\\()[]{}'\"$+=<>"),
             list("\u00e9\u00df\u0130\u01c5\u0301\u0323\u017f\u212a"), list("\u4e2d\u6587\u3042\u30ab\ud55c\u0e17\u093f"), list("\U0001F600\u200d\U0001FAE8\u2581")]
    for _ in range(n):
        yield "".join(rng.choice(rng.choice(pools)) * rng.choice([1, 1, 1, 2, 3]) for _ in range(rng.randint(1, 14)))


def spans(pattern, text):
    isolated = [s for _, s in Split(Regex(pattern), "isolated").pre_tokenize_str(text)]
    between = {s for _, s in Split(Regex(pattern), "removed").pre_tokenize_str(text)}
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [[at[a], at[b]] for a, b in isolated if (a, b) not in between]


def random_pattern(rng, depth):
    kind = rng.randint(0, 9 if depth else 3)
    if kind <= 3:
        return rng.choice(["a", "b", "c", "[ab]", "[^a]", ".", r"\w", r"\s", " ", r"\p{L}", "1", r"\d", "\u00e9"])
    if kind == 4:
        return "(?:" + "|".join(random_pattern(rng, depth - 1) for _ in range(rng.randint(1, 3))) + rng.choice(["", "", "", "|"]) + ")"
    if kind <= 7:
        inner = random_pattern(rng, depth - 1)
        inner = inner if len(inner) == 1 or inner[0] in "[\\" and inner.count("(") == 0 and len(inner) < 7 else "(?:" + inner + ")"
        return inner + rng.choice(["*", "+", "?", "*?", "+?", "??", "{1,2}", "{2}", "{0,2}", "{1,}", "{1,3}?"])
    if kind == 8:
        return rng.choice([r"\b", "^", "$", "(?=a)", r"(?!\s)", "(?<=b)", r"(?<!\w)", "(?=ab)", "(?!b+c)", r"\B"])
    return random_pattern(rng, depth - 1) + random_pattern(rng, depth - 1)


def regex_cases(rng):
    out = []
    for p in KNOWN + SMALL:
        some = TEXTS + list(texts(rng, 12 if p in KNOWN else 0))
        cases = [{"text": t, "spans": spans(p, t)} for t in some]
        if p in SMALL:  # those that say most
            cases.sort(key=lambda c: -len(c["spans"]))
            cases = cases[:4] + cases[-1:]
        out.append({"pattern": p, "cases": cases})
    while len(out) < len(KNOWN + SMALL) + 150:
        p = random_pattern(rng, 4)
        if "{" in p and ("}?" in p or "}{" in p or "}*" in p or "}+" in p) and len(p) > 60:
            continue
        some = ["".join(rng.choice("aabbc1 \n\u00e9") for _ in range(rng.randint(0, 12))) for _ in range(4)]
        try:
            out.append({"pattern": p, "cases": [{"text": t, "spans": spans(p, t)} for t in some]})
        except Exception:  # the oracle refuses it
            continue
    return out


def tokenizer(**parts):
    doc = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
           "post_processor": None, "decoder": None, "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    doc.update(parts)
    return Tokenizer.from_str(json.dumps(doc))


def seq(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def split(pattern, behavior, kind="Regex", invert=False):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix, use_regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


def metaspace(scheme, do_split=True):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": do_split}


BEHAVIOURS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
DIGITS = [{"type": "Digits", "individual_digits": x} for x in (True, False)]
PRETOKS = ([seq(split(P1, "Isolated"), byte_level(False, False)), seq(*[split(p, "Isolated") for p in P5], byte_level(False, False)),
            byte_level(False), byte_level(True), byte_level(True, False), seq(DIGITS[0], byte_level(False)), *DIGITS,
            seq({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(False), DIGITS[1], split("[0-9][0-9][0-9]", "Isolated")),
            seq({"type": "WhitespaceSplit"}, metaspace("always")), seq({"type": "WhitespaceSplit"}, metaspace("first")), seq(),
            {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}, {"type": "CharDelimiterSplit", "delimiter": "-"},
            seq(metaspace("first"), split("a", "MergedWithPrevious", "String")), seq({"type": "WhitespaceSplit"}, byte_level(True))]
           + [metaspace(s, d) for s in ("always", "first", "never") for d in (True, False)]
           + [{"type": "Punctuation", "behavior": b} for b in BEHAVIOURS]
           + [split(p, b, k, i) for b in BEHAVIOURS for p, k in ((r"\s+|\d", "Regex"), (" ", "String"), ("a*", "Regex"), (".", "String"), ("", "String"))
              for i in (False, True)])

NORMS = [None, *[{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")],
         *[{"type": "Strip", "strip_left": a, "strip_right": b} for a in (True, False) for b in (True, False)],
         {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
         {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Replace", "pattern": {"String": "ab"}, "content": ""},
         {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "-"}, {"type": "Replace", "pattern": {"String": ""}, "content": "+"},
         {"type": "Replace", "pattern": {"String": "``"}, "content": "\""},
         {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
         {"type": "Sequence", "normalizers": []}, {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}]},
         *[{"type": "BertNormalizer", "clean_text": c, "handle_chinese_chars": h, "strip_accents": s, "lowercase": l}
           for c, h, s, l in ((True, True, None, True), (True, True, None, False), (False, False, True, False), (True, False, False, True), (False, True, None, True))]]
CHARSMAP = {"\uff21": "A", "\ufb01": "fi", "\u00bd": "1\u20442", "e\u0301": "\u00e9", "\r\n": "\n", "\r": " ", "\u3000": " ", "\u200b": "", "ab": "X", "abc": "Y",
            "\uff22\u0301": "B'", "\u0939\u093f": "H"}


def charsmap(table):
    """A darts-clone double array over the keys, and the replacements."""
    text, trie = b"", {}
    for key, to in sorted(table.items()):
        node = trie
        for b in key.encode():
            node = node.setdefault(b, {})
        node[0] = len(text)
        text += to.encode() + b"\0"
    used, unit = {0: True}, {}
    todo = [(0, 0, trie)]
    while todo:
        at, label, node = todo.pop()
        base = next(b for b in range(1, 1 << 20) if b not in used and all(b ^ c not in used for c in node))
        leaf = 0 in node
        unit[at] = label | (0x100 if leaf else 0) | (at ^ base) << 10
        assert (at ^ base) < 1 << 21
        for c, child in node.items():
            used[base ^ c] = True
            if c:
                todo.append((base ^ c, c, child))
            else:
                unit[base] = child | 1 << 31
    units = [unit.get(i, 0) for i in range((max(unit) | 255) + 1)]
    return struct.pack("<I", 4 * len(units)) + struct.pack("<%dI" % len(units), *units) + text


def write(name, rows):
    with open(os.path.join(HERE, name), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")
    print(name, sum(len(r["cases"]) for r in rows), "cases")


def main():
    rng = random.Random(20261130)
    write("regex.json", regex_cases(rng))
    some = TEXTS + ["a-b--c", "ab aab  .a. 1a2"] + list(texts(rng, 10))
    rows = []
    for p in PRETOKS:
        t = tokenizer(pre_tokenizer=p)
        few = some[::3] if p["type"] == "Split" else some
        rows.append({"pre_tokenizer": p, "cases": [{"text": s, "pieces": [x for x, _ in t.pre_tokenizer.pre_tokenize_str(s) if x]} for s in few]})
    write("pretok.json", rows)
    some += [" x ", "``q''", "axb", "\uff21\u0301 \ufb01\u0301x\r\ny\rz e\u0301 abcab \uff22\u0301 \u0939\u093f \u0939\u093f\u0902 \u200ba\u0301\u0323 \u0600\u00bd"]
    precompiled = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap(CHARSMAP)).decode()}
    rows = []
    for n in [*NORMS, precompiled]:
        t = tokenizer(normalizer=n)
        rows.append({"normalizer": n, "cases": [{"text": s, "out": t.normalizer.normalize_str(s) if n else s} for s in some]})
    write("normalize.json", rows)


main()
