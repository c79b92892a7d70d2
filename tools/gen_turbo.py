#!/usr/bin/env python3
"""Writes src/codec/turbo_tables.c: rotation signs and Lloyd-Max tables of the turbo codecs (kv.md 3.3.3, 3.3.4).

The signs are computed here (Threefry-2x32-20). The frozen tables of `turbo` are the outcome of somebody's sampling, not of
a formula, and are read from the shared vectors. The tables of `turbox` are the optimum for N(0,1): symmetric, found by
Newton's method on the conditions that every level is the mean of its cell and every boundary the midpoint of its levels.

    python3 tools/gen_turbo.py ../shared/vectors/turbo_tables.safetensors
"""
import json
import math
import struct
import sys
from pathlib import Path

DIMS = (64, 128, 256, 512)
WIDTHS = (2, 3, 4, 5, 8)
EXACT = (4, 5, 8)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def threefry(n):
    """Words 0..n-1 of key (0, 42): counters (i, i + n/2) give words i and i + n/2."""
    key = (0, 42, 0 ^ 42 ^ 0x1BD11BDA)
    mask = 0xFFFFFFFF
    low, high = [], []
    for i in range(n // 2):
        a, b = (i + key[0]) & mask, (i + n // 2 + key[1]) & mask
        for block in range(5):
            for r in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
                a = (a + b) & mask
                b = (b << r | b >> 32 - r) & mask
                b ^= a
            a = (a + key[(block + 1) % 3]) & mask
            b = (b + key[(block + 2) % 3] + block + 1) & mask
        low.append(a), high.append(b)
    return low + high


def density(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def mass(a, b):
    """Of [a, b], 0 <= a < b, from the tail's side: no digits are lost far out."""
    return (math.erfc(a / math.sqrt(2)) - (math.erfc(b / math.sqrt(2)) if b != math.inf else 0)) / 2


def quantile(p):
    lo, hi = 0.0, 40.0
    for _ in range(200):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if mass(0, mid) < p - .5 else (lo, mid)
    return lo


def residual(c):
    """F_i = c_i mass_i - moment_i and the three diagonals of its derivative, positive half of the levels."""
    n = len(c)
    edge = [0.0] + [(c[i] + c[i + 1]) / 2 for i in range(n - 1)] + [math.inf]
    d = [density(e) if e != math.inf else 0.0 for e in edge]
    F, below, diag, above = [], [0.0] * n, [0.0] * n, [0.0] * n
    for i in range(n):
        m = mass(edge[i], edge[i + 1])
        F.append(c[i] * m - (d[i] - d[i + 1]))
        diag[i] = m
        if i > 0:  # the lower edge moves by half of each neighbour
            below[i] = (edge[i] - c[i]) * d[i] / 2
            diag[i] += below[i]
        if i < n - 1:
            above[i] = (c[i] - edge[i + 1]) * d[i + 1] / 2
            diag[i] += above[i]
    return F, below, diag, above


def solve(below, diag, above, right):
    n, d, r = len(diag), list(diag), list(right)
    for i in range(1, n):
        w = below[i] / d[i - 1]
        d[i] -= w * above[i - 1]
        r[i] -= w * r[i - 1]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (r[i] - (above[i] * x[i + 1] if i < n - 1 else 0)) / d[i]
    return x


def lloyd_max(bits):
    """The positive levels. The start is the high-resolution optimum: density of levels as the cube root of N(0,1)."""
    n = 1 << bits - 1
    c = [math.sqrt(3) * quantile(.5 + (i + .5) / (2 * n)) for i in range(n)]
    for _ in range(20 * n):  # Lloyd's own step: slow, but it always gets nearer
        edge = [0.0] + [(a + b) / 2 for a, b in zip(c, c[1:])] + [math.inf]
        d = [density(e) if e != math.inf else 0.0 for e in edge]
        c = [(d[i] - d[i + 1]) / mass(edge[i], edge[i + 1]) for i in range(n)]
    for _ in range(50):
        F, below, diag, above = residual(c)
        step = solve(below, diag, above, F)
        t = 1.0
        while any(b <= a for a, b in zip([0.0] + [x - t * s for x, s in zip(c, step)],
                                         [x - t * s for x, s in zip(c, step)])):
            t /= 2
        c = [x - t * s for x, s in zip(c, step)]
        if max(map(abs, step)) < 1e-14:
            break
    assert max(map(abs, step)) < 1e-11
    return c


def frozen(path):
    raw = Path(path).read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    out = {}
    for name, t in head.items():
        if name != "__metadata__" and t["dtype"] == "F32":
            a, b = t["data_offsets"]
            out[name] = list(struct.unpack(f"<{(b - a) // 4}f", raw[8 + n + a:8 + n + b]))
    return out


def midpoints(c):
    return [f32(f32(a + b) * .5) for a, b in zip(c, c[1:])]


def floats(name, values):
    words = [f"{v:.9g}" for v in values]
    words = [w + ("f" if "." in w or "e" in w else ".0f") for w in words]
    lines, line = [], "   "
    for w in words:
        if len(line) + len(w) + 2 > 98:
            lines.append(line)
            line = "   "
        line += f" {w},"
    return f"static const float {name}[{len(values)}] = {{\n" + "\n".join(lines + [line.rstrip(",")]) + "};\n"


def main():
    given = frozen(sys.argv[1])
    text = ["/* codec/turbo_tables - rotation signs and Lloyd-Max tables. Written by tools/gen_turbo.py. */",
            '#include "codec/turbo.h"', "", "/* clang-format off */"]
    rows = []
    for family, widths in (("turbo", WIDTHS), ("turbox", EXACT)):
        for b in widths:
            if family == "turbo":
                c, edge = given[f"centroids_{b}"], given[f"boundaries_{b}"]
            else:
                half = [f32(x) for x in lloyd_max(b)]
                c = [-x for x in reversed(half)] + half
                edge = midpoints(c)
            text += [floats(f"{family}_level{b}", c), floats(f"{family}_edge{b}", edge)]
            rows.append((family, b))
    for family in ("turbo", "turbox"):
        text.append(f"const gy_turbo_table gy_{family}_tables[9] = {{")
        text += [f"    [{b}] = {{{f}_level{b}, {f}_edge{b}}}," for f, b in rows if f == family]
        text.append("};\n")
    words = []
    for d in DIMS:
        bits = [w >> 31 for w in threefry(d)]
        words += [sum(b << i for i, b in enumerate(bits[j:j + 32])) for j in range(0, d, 32)]
    text.append("/* Bit i % 32 of word i / 32 set: factor i is -1. The 2, 4, 8 and 16 words of 64, 128, 256 and 512. */")
    text.append(f"const uint32_t gy_turbo_signs[{len(words)}] = {{")
    text += ["    " + ", ".join(f"0x{w:08x}" for w in words[i:i + 8]) + "," for i in range(0, len(words), 8)]
    text.append("};")
    out = Path(__file__).resolve().parent.parent / "src/codec/turbo_tables.c"
    out.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
