#!/usr/bin/env python3
"""Writes tests/data/codec/vectors.json: small synthetic rows of every codec and their values, and of values
and their codes.

An implementation of kv.md 2.1-2.6 and 3.3 of its own, in plain Python: exact rational arithmetic with one rounding to f32 per
operation of the specification, so that it shares nothing with the C code but the text it was written from.

    python3 tools/gen_codec.py            # rewrites the file; the seed is fixed
"""
import json
import math
import random
import re
import struct
from fractions import Fraction
from pathlib import Path

from gen_turbo import lloyd_max, threefry

E2M1 = [0.0, .5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]


def f32(x):
    """Double to f32, nearest even. Operands are f32, so the double operation before it rounds innocuously."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")


def f16(b):
    return struct.unpack("<e", b)[0]


def bf16(b):
    return struct.unpack("<f", b"\0\0" + b)[0]


def mul(a, b):
    return f32(a * b)


def add(a, b):
    return f32(a + b)


REAL = {"f32": (4, lambda b: struct.unpack("<f", b)[0]), "f16": (2, f16), "bf16": (2, bf16)}


def bits_at(data, i, width):
    n = int.from_bytes(data, "little")
    return n >> i * width & (1 << width) - 1


def affine(planes, cols, bits, group, stype):
    size, read = REAL[stype]
    out = []
    for i in range(cols):
        j = i // group
        s, z = (read(planes[p][j * size:(j + 1) * size]) for p in (1, 2))
        out.append(add(mul(float(bits_at(planes[0], i, bits)), s), z))
    return out


def e4m3(c):
    sign, e, m = -1.0 if c & 128 else 1.0, c >> 3 & 15, c & 7
    if c & 127 == 127:
        return float("nan")
    return sign * (m * 2.0 ** -9 if e == 0 else (8 + m) * 2.0 ** (e - 10))


def e2m1(c):
    return -E2M1[c & 7] if c & 8 else E2M1[c]


def mxfp(planes, cols, kind, factor):
    out = []
    group = 16 if kind == "nvfp4" else 32
    for i in range(cols):
        byte = planes[1][i // group]
        s = e4m3(byte) if kind == "nvfp4" else 2.0 ** (byte - 127)
        v = e4m3(planes[0][i]) if kind == "mxfp8" else e2m1(bits_at(planes[0], i, 4))
        w = mul(v, s)
        out.append(mul(w, factor) if factor != 1 else w)
    return out


def nibbles(qs):
    return [b & 15 for b in qs] + [b >> 4 for b in qs]


def fifth(qs, qh):
    h = int.from_bytes(qh, "little")
    return [q | (h >> j & 1) << 4 for j, q in enumerate(nibbles(qs))]


def k4(s):
    out = []
    for i in range(8):
        if i < 4:
            out.append((s[i] & 63, s[i + 4] & 63))
        else:
            out.append(((s[i + 4] & 15) | (s[i - 4] >> 6) << 4, (s[i + 4] >> 4) | (s[i] >> 6) << 4))
    return out


def k3(s):
    low = [s[i] & 15 for i in range(8)] + [s[i] >> 4 for i in range(8)]
    return [(low[4 * k + i] | (s[8 + i] >> 2 * k & 3) << 4) - 32 for k in range(4) for i in range(4)]


def block(kind, b):
    if kind == "Q4_0":
        return [mul(f16(b[:2]), q - 8) for q in nibbles(b[2:])]
    if kind == "Q4_1":
        return [add(mul(f16(b[:2]), q), f16(b[2:4])) for q in nibbles(b[4:])]
    if kind == "Q5_0":
        return [mul(f16(b[:2]), q - 16) for q in fifth(b[6:], b[2:6])]
    if kind == "Q5_1":
        return [add(mul(f16(b[:2]), q), f16(b[2:4])) for q in fifth(b[8:], b[4:8])]
    if kind == "Q8_0":
        return [mul(f16(b[:2]), q - 256 if q > 127 else q) for q in b[2:]]
    if kind == "IQ4_NL":
        return [mul(f16(b[:2]), IQ4[q]) for q in nibbles(b[2:])]
    if kind == "MXFP4":
        return [f32(float(Fraction(2) ** (b[0] - 127) * Fraction(-E2M1[q & 7] if q & 8 else E2M1[q])))
                for q in nibbles(b[1:])]
    if kind == "Q2_K":
        d, dmin, out = f16(b[80:82]), f16(b[82:84]), []
        for v in range(256):
            half, j, l = v // 128, v % 128 // 32, v % 32
            q, sc = b[16 + 32 * half + l] >> 2 * j & 3, b[v // 16]
            out.append(add(mul(mul(d, sc & 15), q), -mul(dmin, sc >> 4)))
        return out
    if kind == "Q3_K":
        d, sc, out = f16(b[108:110]), k3(b[96:108]), []
        for v in range(256):
            half, j, l = v // 128, v % 128 // 32, v % 32
            q = (b[32 + 32 * half + l] >> 2 * j & 3) - (0 if b[l] >> 4 * half + j & 1 else 4)
            out.append(mul(mul(d, sc[v // 16]), q))
        return out
    if kind in ("Q4_K", "Q5_K"):
        d, dmin, sc, out = f16(b[:2]), f16(b[2:4]), k4(b[4:16]), []
        for v in range(256):
            s, l = v // 32, v % 32
            q = b[(16 if kind == "Q4_K" else 48) + 32 * (v // 64) + l] >> 4 * (s % 2) & 15
            if kind == "Q5_K":
                q |= (b[16 + l] >> s & 1) << 4
            out.append(add(mul(mul(d, sc[s][0]), q), -mul(dmin, sc[s][1])))
        return out
    if kind == "Q6_K":
        d, out = f16(b[208:210]), []
        for v in range(256):
            half, r, l = v // 128, v % 128 // 32, v % 32
            low = b[64 * half + 32 * (r % 2) + l] >> 4 * (r // 2) & 15
            high = b[128 + 32 * half + l] >> 2 * r & 3
            sc = b[192 + v // 16]
            out.append(mul(mul(d, sc - 256 if sc > 127 else sc), (low | high << 4) - 32))
        return out
    raise ValueError(kind)


# bytes of a block, values, offsets of its f16 fields
BLOCKS = {"Q4_0": (18, 32, [0]), "Q4_1": (20, 32, [0, 2]), "Q5_0": (22, 32, [0]), "Q5_1": (24, 32, [0, 2]),
          "Q8_0": (34, 32, [0]), "IQ4_NL": (18, 32, [0]), "MXFP4": (17, 32, []), "Q2_K": (84, 256, [80, 82]),
          "Q3_K": (110, 256, [108]), "Q4_K": (144, 256, [0, 2]), "Q5_K": (176, 256, [0, 2]), "Q6_K": (210, 256, [208])}


def rint(x):
    return float(round(Fraction(x)))  # Python rounds halves to even


def to_real(x, stype):
    if stype == "f32":
        return struct.pack("<f", x)
    if stype == "f16":
        return struct.pack("<e", x)
    n = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.pack("<H", (n + 0x7FFF + (n >> 16 & 1)) >> 16)


def affine_encode(x, bits, group, stype):
    """kv.md 2.2.2, one f32 rounding per operation."""
    top, stream, scales, biases = 2 ** bits - 1, 0, b"", b""
    for at in range(0, len(x), group):
        w = x[at:at + group]
        lo, hi = min(w), max(w)
        neg = abs(lo) > abs(hi)
        s = max(f32(f32(hi - lo) / top), f32(1e-7))
        if not neg:
            s = -s
        edge = lo if neg else hi
        q0 = rint(f32(edge / s))
        scale, bias = (f32(edge / q0), edge) if q0 else (s, 0.0)
        for i, v in enumerate(w):
            q = int(min(max(rint(f32(f32(v - bias) / scale)), 0), top))
            stream |= q << (at + i) * bits
        scales, biases = scales + to_real(scale, stype), biases + to_real(bias, stype)
    return [stream.to_bytes(len(x) * bits // 8, "little"), scales, biases]


def fp4_encode(x):
    """Nearest, ties to the even code; what rounds to zero is code 0."""
    best = min(range(8), key=lambda c: (abs(Fraction(abs(x)) - Fraction(E2M1[c])), c % 2))
    return best | 8 if best and x < 0 else best


def e4m3_encode(x):
    values = [e4m3(c) for c in range(127)]
    best = min(range(127), key=lambda c: (abs(Fraction(abs(x)) - Fraction(values[c])), c % 2))
    return best | (128 if x < 0 else 0)


def mxfp_encode(x, kind):
    """kv.md 2.3.2 as gyre does it, values of type f32."""
    group, most = (16 if kind == "nvfp4" else 32), (448 if kind == "mxfp8" else 6)
    codes, scales = [], []
    for at in range(0, len(x), group):
        a = f32(max(abs(v) for v in x[at:at + group]) / most)
        if kind == "nvfp4":
            scales.append(e4m3_encode(a))
            s = e4m3(scales[-1])
        else:
            e = 0
            if a:
                e = -127
                while Fraction(2) ** e < Fraction(a):
                    e += 1
            scales.append(e + 127)
            s = 2.0 ** e
        quotients = [f32(v / s) if s else 0.0 for v in x[at:at + group]]
        codes += [e4m3_encode(q) if kind == "mxfp8" else fp4_encode(q) for q in quotients]
    packed = bytes(codes) if kind == "mxfp8" else bytes(a | b << 4 for a, b in zip(codes[::2], codes[1::2]))
    return [packed, bytes(scales)]


def half(x):
    """f32 to the bits of f16, saturating."""
    return struct.pack("<e", max(-65504.0, min(65504.0, x)))


def pack(codes, bits):
    n = sum((c & (1 << bits) - 1) << i * bits for i, c in enumerate(codes))
    return n.to_bytes(len(codes) * bits // 8, "little")


def turbo_key(x, bits):
    """kv.md 3.3.1 and the guard of 3.3.6. Planes and values."""
    codes, scales, zeros, values = [], b"", b"", []
    low, high = (-127, 127) if bits == 8 else (0, (1 << bits) - 1)
    for at in range(0, len(x), 32):
        g = x[at:at + 32]
        lo, hi = min(g), max(g)
        s = f32(f32(hi - lo) / (high - low))
        d = add(s, f32(1e-8))
        z = float(round(f32(add(hi, lo) / mul(2.0, d)) if bits == 8 else f32(lo / d)))
        q = [max(low, min(high, round(add(f32(v / d), -z)))) for v in g]
        if abs(z) >= 65520 or f16(half(s)) == 0:
            a, step, q = mul(add(hi, lo), 0.5), 1.0, [0] * 32
            while step < 32768 and abs(a) / step > 65504:
                step *= 2
            s, z = abs(a) / step, math.copysign(step, a) if a else 0.0
        codes += q
        scales, zeros = scales + half(s), zeros + half(z)
        values += [mul(add(float(c), f16(half(z))), f16(half(s))) for c in q]
    return [pack(codes, bits), scales, zeros], values


def turned(x):
    """Signs, then Sylvester's transform by stages, then one product."""
    n = len(x)
    y = [-v if w >> 31 else v for v, w in zip(x, threefry(n))]
    h = 1
    while h < n:
        for i in range(n):
            if i & h == 0:
                a, b = y[i], y[i + h]
                y[i], y[i + h] = add(a, b), add(a, -b)
        h *= 2
    return [mul(v, f32(1 / math.sqrt(n))) for v in y]


def turbo_level(kind, bits):
    if kind == "turbox v":
        top = [f32(v) for v in lloyd_max(bits)]
        return [-v for v in reversed(top)] + top
    text = (Path(__file__).resolve().parent.parent / "src/codec/turbo_tables.c").read_text()
    body = re.search(r"turbo_level%d\[\d+\] = {(.*?)}" % bits, text, re.S).group(1)
    return [f32(float(w)) for w in re.findall(r"[-\d.e+]+(?=f)", body)]


def turbo_value(x, kind, bits):
    """kv.md 3.3.2. Planes and values, still turned."""
    level = turbo_level(kind, bits)
    edge = [mul(add(a, b), 0.5) for a, b in zip(level, level[1:])]
    if (kind, bits) == ("turbo v", 3):
        edge = [f32(v) for v in (-1.74793, -1.04996, -.50055, 0.0, .50055, 1.04996, 1.74793)]
    codes, scales, values = [], b"", []
    y = turned(x)
    for at in range(0, len(x), 32):
        t = [mul(v, v) for v in y[at:at + 32]]
        while len(t) > 1:
            t = [add(a, b) for a, b in zip(t, t[len(t) // 2:])]
        s = f32(math.sqrt(mul(t[0], 0.03125)))
        q = [sum(e < f32(v / add(s, f32(1e-8))) for e in edge) for v in y[at:at + 32]]
        codes += q
        scales += half(s)
        values += [mul(level[c], f16(half(s))) for c in q]
    return [pack(codes, bits), scales], values


def inputs(rnd, n):
    """Rows that are hard in different ways."""
    yield [f32(rnd.gauss(0, 1)) for _ in range(n)]
    yield [f32(rnd.gauss(0, 1) * 0.02 - 3) for _ in range(n)]
    yield [0.0] * (n // 2) + [f32(1.5)] * (n // 2)
    yield [float(i % 31 - 15) for i in range(n)]
    yield [(i % 13 - 6) * 0.25 for i in range(n)]
    yield [f32(4e-8)] * (n // 2) + [f32(-2.25)] * (n // 2)


def main():
    rnd = random.Random(20261130)
    cases = []

    def real(stype):
        x = rnd.uniform(-1, 1) * 2.0 ** rnd.randint(-12, 2)
        if stype == "f32":
            return struct.pack("<f", x)
        return struct.pack("<e", x) if stype == "f16" else struct.pack("<f", x)[2:]

    def emit(kind, cols, planes, values, **more):
        raw = b"".join(struct.pack("<f", v) if v == v else b"\0\0\xc0\x7f" for v in values)
        cases.append(dict(kind=kind, cols=cols, planes=[p.hex() for p in planes], values=raw.hex(), **more))

    def encoded(kind, x, planes, **more):
        raw = b"".join(struct.pack("<f", v) for v in x)
        cases.append(dict(kind=kind, cols=len(x), planes=[p.hex() for p in planes], input=raw.hex(), **more))

    for kind, (size, read) in REAL.items():
        p = b"".join(real(kind) for _ in range(24))
        emit(kind, 24, [p], [read(p[i:i + size]) for i in range(0, len(p), size)])
    for bits in (2, 3, 4, 5, 6, 8):
        for group, stype in ((32, "f16"), (64, "bf16"), (128, "f32")):
            cols = 128
            planes = [rnd.randbytes(cols * bits // 8)]
            planes += [b"".join(real(stype) for _ in range(cols // group)) for _ in range(2)]
            emit("affine", cols, planes, affine(planes, cols, bits, group, stype), bits=bits, group=group, stype=stype)
    for kind in ("mxfp4", "mxfp8", "nvfp4"):
        for factor in (1.0, 0.0625) if kind == "nvfp4" else (1.0,):
            cols = 96
            planes = [rnd.randbytes(cols if kind == "mxfp8" else cols // 2)]
            planes.append(bytes(rnd.choice([0, 1, 60, 100, 119, 126]) for _ in range(cols // (16 if kind == "nvfp4" else 32))))
            emit(kind, cols, planes, mxfp(planes, cols, kind, factor), factor=factor)
    for kind, (size, n, reals) in BLOCKS.items():
        raw, values = b"", []
        for _ in range(2):
            b = bytearray(rnd.randbytes(size))
            for at in reals:
                b[at:at + 2] = real("f16")
            raw += bytes(b)
            values += block(kind, bytes(b))
        emit(kind, 2 * n, [raw], values)
    for bits in (2, 3, 4, 5, 6, 8):
        for group, stype in ((32, "bf16"), (64, "f32"), (128, "f16")):
            for x in inputs(rnd, 128):
                planes = affine_encode(x, bits, group, stype)
                encoded("affine", x, planes, bits=bits, group=group, stype=stype)
    for kind in ("mxfp4", "mxfp8", "nvfp4"):
        for x in inputs(rnd, 64):
            encoded(kind, x, mxfp_encode(x, kind))
    for kind, widths in (("turbo k", (2, 4, 5, 8)), ("turbo v", (2, 3, 4, 5, 8)), ("turbox v", (4, 5, 8))):
        for i, bits in enumerate(widths):
            for k, x in enumerate(inputs(rnd, (64, 128, 64, 256, 64)[i])):
                if k == 4 and i:
                    continue
                if k == 5:
                    x = [f32(v * 1e5) for v in x]
                planes, values = turbo_key(x, bits) if kind == "turbo k" else turbo_value(x, kind, bits)
                encoded(kind, x, planes, bits=bits)
                emit(kind, len(x), planes, values, bits=bits)
    x = next(inputs(rnd, 512))
    planes, values = turbo_value(x, "turbo v", 3)
    encoded("turbo v", x, planes, bits=3)
    emit("turbo v", 512, planes, values, bits=3)
    path = Path(__file__).resolve().parent.parent / "tests/data/codec/vectors.json"
    path.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(path, path.stat().st_size, "bytes,", len(cases), "cases")


main()
