#!/usr/bin/env python3
"""Make unicode.txt beside this file: normal forms and case mappings to test text/unicode with.

usage: make_unicode.py        (needs unicodedata2 16.0.0 and an interpreter with Unicode 13 or later)

Lines: "D what digest": FNV-1a 64 of a mapping of every code point, each followed by a newline (surrogates left out);
"N text nfc nfd nfkc nfkd" and "C text upper lower title" in code points.
"""
import os
import random
import unicodedata

import unicodedata2 as ud

FORMS = ["NFC", "NFD", "NFKC", "NFKD"]
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def fnv(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return "%016x" % h


def hexes(s):
    return ".".join("%x" % ord(c) for c in s) or "-"


def normal_texts(rng):
    marks = [c for c in ALL if ud.combining(chr(c))]
    odd = [c for c in ALL if ud.normalize("NFKD", chr(c)) != chr(c)] + list(range(0x1100, 0x1200)) * 4
    seconds = [int(ud.decomposition(chr(c)).split()[1], 16) for c in ALL
               if len(ud.decomposition(chr(c)).split()) == 2 and ud.decomposition(chr(c))[0] != "<"]
    firsts = [int(ud.decomposition(chr(c)).split()[0], 16) for c in ALL
              if len(ud.decomposition(chr(c)).split()) == 2 and ud.decomposition(chr(c))[0] != "<"]
    pools = [marks, odd, seconds, firsts, list(range(0x20, 0x180))]
    for _ in range(300):
        yield "".join(chr(rng.choice(rng.choice(pools))) for _ in range(rng.randint(1, 8)))
    for n in (20, 40, 90, 300):
        yield "a" + "".join(chr(rng.choice(marks)) for _ in range(n)) + "b\u0301"


def main():
    rng = random.Random(20261130)
    out = ["D %s %s" % (f, fnv("".join(ud.normalize(f, chr(c)) + "\n" for c in ALL).encode())) for f in FORMS]
    for s in normal_texts(rng):
        out.append("N " + " ".join([hexes(s)] + [hexes(ud.normalize(f, s)) for f in FORMS]))
    # str's own tables may be older than 16: code points that this interpreter does not know are left out.
    cased = [c for c in ALL if unicodedata.category(chr(c)) != "Cn"
             and len({chr(c).upper(), chr(c).lower(), chr(c).title()}) > 1]
    context = [0x3A3, 0x3A3, 0x27, 0x2E, 0x20, 0x61, 0x41, 0x301, 0xAD, 0x2B0, 0x31, 0x1C5, 0xDF, 0x130, 0xFB03]
    texts = [" ".join(chr(c) for c in cased[i : i + 40]) for i in range(0, len(cased), 40)]
    texts += ["".join(chr(rng.choice(context)) for _ in range(rng.randint(1, 9))) for _ in range(250)]
    for s in texts:
        out.append("C " + " ".join(map(hexes, (s, s.upper(), s.lower(), s.title()))))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "unicode.txt"), "w") as f:
        f.write("\n".join(out) + "\n")


main()
