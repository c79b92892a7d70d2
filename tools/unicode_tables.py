#!/usr/bin/env python3
"""Generate src/text/unicode_tables.c from Unicode 16 data.

usage: unicode_tables.py UNICODETYPE_DB_H OUT.c

Needs two packages of one Unicode version: unicodedata2 16.0.0 (categories, combining classes, normal forms) and
unicodedataplus 16.0.0 (scripts), and the latter's source (pip download --no-binary :all: unicodedataplus==16.0.0),
whose unicodedataplus/unicodetype_db.h holds the case mappings.
"""
import re
import sys

import unicodedata2 as ud
import unicodedataplus

BLOCK = 128
LAST = 0x110000
CATS = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()
CASED, IGNORABLE, SPECIAL, NOT_C, NOT_D, NOT_KC, NOT_KD = 1, 2, 4, 8, 16, 32, 64


def numbers(text, start):
    """The integers of the C initialiser that follows start."""
    body = text[text.index("{", text.index(start)) + 1 :]
    return body[: body.index("};")]


class Case:
    """CPython's character type records: full mappings with the simple ones beside them."""

    def __init__(self, path):
        text = open(path).read()
        shift = int(re.search(r"#define SHIFT (\d+)", text).group(1))
        rows = re.findall(r"\{([-\d, ]+)\}", numbers(text, "TypeRecords[]"))
        records = [tuple(map(int, r.split(","))) for r in rows]
        self.extended = [int(x) for x in re.findall(r"\d+", numbers(text, "ExtendedCase[]"))]
        index1 = [int(x) for x in re.findall(r"\d+", numbers(text, "index1[]"))]
        index2 = [int(x) for x in re.findall(r"\d+", numbers(text, "index2[]"))]
        mask = (1 << shift) - 1
        self.record = [records[index2[(index1[c >> shift] << shift) + (c & mask)]] for c in range(LAST)]

    def full(self, cp, field):
        """field: 0 upper, 1 lower, 2 title."""
        record = self.record[cp]
        if record[5] & 0x4000:
            at, n = record[field] & 0xFFFF, record[field] >> 24
            return self.extended[at : at + n]
        return [cp + record[field]]

    def fold(self, cp):
        """Simple folding: CaseFolding.txt statuses C and S."""
        record = self.record[cp]
        # These have only a full folding in the records; their simple one joins two canonical equivalents.
        special = {0x1FD3: 0x390, 0x1FE3: 0x3B0, 0xFB05: 0xFB06}
        if cp in special:
            return special[cp]
        if record[5] & 0x4000 and record[1] >> 20 & 7:
            at, n = (record[1] & 0xFFFF) + (record[1] >> 24), record[1] >> 20 & 7
            if n == 1:
                return self.extended[at]
            lower = self.full(cp, 1)
            return lower[0] if len(lower) == 1 else cp
        lower = self.full(cp, 1)
        return lower[0] if len(lower) == 1 else cp


def points(text):
    return [ord(c) for c in text]


def composition_pairs():
    pairs = []
    for cp in range(LAST):
        parts = ud.decomposition(chr(cp)).split()
        if len(parts) != 2 or parts[0].startswith("<") or 0xD800 <= cp < 0xE000:
            continue
        first, second = int(parts[0], 16), int(parts[1], 16)
        if ud.normalize("NFC", chr(first) + chr(second)) == chr(cp):
            pairs.append((first, second, cp))
    return sorted(pairs)


def normal_flags(cp, seconds):
    """A flag says that the character may change, reorder or compose with what is before it."""
    flags, c = 0, chr(cp)
    if 0xD800 <= cp < 0xE000:
        return 0
    for form, bit in (("NFC", NOT_C), ("NFD", NOT_D), ("NFKC", NOT_KC), ("NFKD", NOT_KD)):
        parts = ud.normalize(form.replace("C", "D"), c)
        joins = form.endswith("C") and ord(parts[0]) in seconds
        if ud.normalize(form, c) != c or ud.combining(c) or ud.combining(parts[0]) or joins:
            flags |= bit
    return flags


def wrap(out, items, width=110):
    line = "    "
    for item in items:
        if len(line) + len(item) + 1 > width:
            out.append(line.rstrip())
            line = "    "
        line += item + ","
    out.append(line.rstrip())


def records_and_specials(case, seconds):
    records, index, specials = {}, [], []
    for cp in range(LAST):
        up, lo, ti = (case.full(cp, f) for f in range(3))
        flags = normal_flags(cp, seconds)
        flags |= CASED if case.record[cp][5] & 0x2000 else 0
        flags |= IGNORABLE if case.record[cp][5] & 0x1000 else 0
        if max(len(up), len(lo), len(ti)) > 1:
            flags |= SPECIAL
            specials.append((cp, up, lo, ti))
        simple = [x[0] - cp if len(x) == 1 else 0 for x in (up, lo, ti)]
        cat = "Cs" if 0xD800 <= cp < 0xE000 else ud.category(chr(cp))
        key = (*simple, case.fold(cp) - cp, CATS.index(cat), ud.combining(chr(cp)), flags)
        index.append(records.setdefault(key, len(records)))
    return records, index, specials


def two_stage(index):
    blocks, stage1, stage2 = {}, [], []
    for i in range(0, LAST, BLOCK):
        block = tuple(index[i : i + BLOCK])
        if block not in blocks:
            blocks[block] = len(blocks)
            stage2.extend(block)
        stage1.append(blocks[block])
    return stage1, stage2


def decompositions(form, other):
    """cp -> full decomposition, where it differs from the code point and from the other form's; Hangul is computed."""
    table = []
    for cp in range(LAST):
        if 0xD800 <= cp < 0xE000 or 0xAC00 <= cp < 0xD7A4:
            continue
        c = chr(cp)
        d = ud.normalize(form, c)
        if d != c and (not other or d != ud.normalize(other, c)):
            table.append((cp, points(d)))
    return table


def scripts():
    names, ranges = [], []
    for cp in range(LAST):
        name = "unknown" if 0xD800 <= cp < 0xE000 else unicodedataplus.script(chr(cp)).lower().replace("_", "")
        if name == "unknown":
            continue
        if name not in names:
            names.append(name)
        i = names.index(name)
        if ranges and ranges[-1][1] == cp - 1 and ranges[-1][2] == i:
            ranges[-1][1] = cp
        else:
            ranges.append([cp, cp, i])
    return names, ranges


def folds(case):
    return [(cp, case.fold(cp)) for cp in range(LAST) if case.fold(cp) != cp]


def graphemes():
    """What decides where a grapheme cluster ends, for clusters without conjoining jamo, flags and emoji sequences."""
    kinds, ranges = {"Extend": 0, "ZWJ": 0, "SpacingMark": 1, "Prepend": 2, "Control": 3, "CR": 3, "LF": 3}, []
    for cp in range(LAST):
        kind = kinds.get(unicodedataplus.grapheme_cluster_break(chr(cp))) if not 0xD800 <= cp < 0xE000 else None
        if kind is None:
            continue
        if ranges and ranges[-1][1] == cp - 1 and ranges[-1][2] == kind:
            ranges[-1][1] = cp
        else:
            ranges.append([cp, cp, kind])
    return ranges


class Pool:
    def __init__(self):
        self.items, self.seen = [], {}

    def add(self, seq):
        key = tuple(seq)
        if key not in self.seen:
            self.seen[key] = len(self.items)
            self.items.extend(seq)
        return self.seen[key]


def main(source, target):
    assert ud.unidata_version == "16.0.0", ud.unidata_version
    case, pairs = Case(source), composition_pairs()
    seconds = {p[1] for p in pairs} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    records, index, specials = records_and_specials(case, seconds)
    stage1, stage2 = two_stage(index)
    pool, out = Pool(), []
    out.append("/* Generated by tools/unicode_tables.py from Unicode %s. Do not edit. */" % ud.unidata_version)
    out += ["// clang-format off", '#include "text/unicode_tables.h"', ""]
    out.append("const gy_uc_record gy_uc_records[] = {")
    wrap(out, ["{%d,%d,%d,%d,%d,%d,%d}" % k for k in records])
    out += ["};", "const uint16_t gy_uc_stage1[] = {"]
    wrap(out, map(str, stage1))
    out += ["};", "const uint16_t gy_uc_stage2[] = {"]
    wrap(out, map(str, stage2))
    out += ["};", "const gy_uc_special gy_uc_specials[] = {"]
    pad = lambda x: "{" + ",".join(map(str, x)) + "}"
    wrap(out, ["{%d,%s,%s,%s}" % (cp, pad(u), pad(l), pad(t)) for cp, u, l, t in specials])
    out += ["};", "const int gy_uc_n_specials = %d;" % len(specials)]
    for name, form, other in (("canon", "NFD", None), ("compat", "NFKD", "NFD")):
        table = decompositions(form, other)
        out.append("const gy_uc_decomp gy_uc_%s[] = {" % name)
        wrap(out, ["{%d,%d}" % (cp, pool.add(seq) << 5 | len(seq)) for cp, seq in table])
        out += ["};", "const int gy_uc_n_%s = %d;" % (name, len(table))]
    out.append("const uint32_t gy_uc_pool[] = {")
    wrap(out, map(str, pool.items))
    out += ["};", "const gy_uc_pair gy_uc_pairs[] = {"]
    wrap(out, ["{%d,%d,%d}" % p for p in pairs])
    out += ["};", "const int gy_uc_n_pairs = %d;" % len(pairs)]
    names, ranges = scripts()
    out.append("const char *const gy_uc_script_name[] = {")
    wrap(out, ['"%s"' % n for n in names] + ["0"])
    out += ["};", "const gy_uc_script_range gy_uc_scripts[] = {"]
    wrap(out, ["{%d,%d,%d}" % tuple(r) for r in ranges])
    out += ["};", "const int gy_uc_n_scripts = %d;" % len(ranges)]
    table = folds(case)
    out.append("const gy_uc_folding gy_uc_folds[] = {")
    wrap(out, ["{%d,%d}" % f for f in table])
    out += ["};", "const int gy_uc_n_folds = %d;" % len(table)]
    ranges = graphemes()
    out.append("const gy_uc_grapheme_range gy_uc_graphemes[] = {")
    wrap(out, ["{%d,%d,%d}" % tuple(r) for r in ranges])
    out += ["};", "const int gy_uc_n_graphemes = %d;" % len(ranges)]
    with open(target, "w") as f:
        f.write("\n".join(out) + "\n")
    print("%d records, %d blocks, %d specials, %d pool, %d pairs" % (len(records), len(stage2) // BLOCK,
          len(specials), len(pool.items), len(pairs)))


main(*sys.argv[1:])
