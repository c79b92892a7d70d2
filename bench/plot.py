#!/usr/bin/env python3
"""docs/bench.svg from the results of compare.py --json: a bar for the ratio of every line, plain SVG, no dependencies.

    bench/plot.py results.json [more.json ...] [-o docs/bench.svg] [--threads 2] [--title TEXT]

Lines of the same model, test, arithmetic and threads: the last one counts. The mark at 1 is llama.cpp.
"""
import argparse
import json
import math
import pathlib
import sys
from xml.sax.saxutils import escape

FIELDS = {"model": str, "threads": int, "test": str, "arith": str, "gyre": (int, float), "llama.cpp": (int, float)}
LABEL, BAR, ROW, HEAD, GAP = 130, 420, 20, 26, 12  # pixels: test names, the longest bar, a line, a model's name, between models
COLOURS = {"pp": "#2f6f9f", "tg": "#c2703d"}


def read(paths):
    """Lines of all files, checked; SystemExit names the file, line and field."""
    lines = {}
    for path in paths:
        try:
            rows = json.loads(pathlib.Path(path).read_text())
        except (OSError, ValueError) as e:
            raise SystemExit(f"{path}: {e}")
        if not isinstance(rows, list):
            raise SystemExit(f"{path}: expected the array that compare.py --json writes")
        for i, row in enumerate(rows):
            for field, kind in FIELDS.items():
                value = row.get(field) if isinstance(row, dict) else None
                if not isinstance(value, kind) or isinstance(value, bool) or (kind is not str and not 0 < value < math.inf):
                    raise SystemExit(f"{path}: [{i}].{field}: expected {'a text' if kind is str else 'a number above 0'}")
            lines[row["model"], row["test"], row["arith"], row["threads"]] = row
    return list(lines.values())


def nice(most):
    """Where the axis ends and how far its marks are apart."""
    step = next(s for s in (.25, .5, 1, 2, 5, 10, 20, 50, 100, 1e9) if most / s <= 8)
    return max(math.ceil(most / step) * step, 2 * step), step


def draw(rows, title):
    models = list(dict.fromkeys(r["model"] for r in rows))
    end, step = nice(max(r["gyre"] / r["llama.cpp"] for r in rows))
    x = lambda ratio: LABEL + BAR * ratio / end
    width, y, body = LABEL + BAR + 190, 50, []

    def text(at, base, s, more=""):
        body.append(f'<text x="{at:.1f}" y="{base:.1f}"{more}>{escape(s)}</text>')

    for model in models:
        mine = [r for r in rows if r["model"] == model]
        text(8, y + 16, model, ' font-weight="bold"')
        y += HEAD
        for r in mine:
            ratio = r["gyre"] / r["llama.cpp"]
            name = r["test"] + (" exact" if r["arith"] == "exact" else "")
            text(LABEL - 6, y + 13, name, ' text-anchor="end"')
            body.append(f'<rect x="{LABEL}" y="{y + 3}" width="{x(ratio) - LABEL:.1f}" height="{ROW - 6}" fill="{COLOURS.get(r["test"][:2], "#777")}"/>')
            text(x(ratio) + 5, y + 13, f'{ratio:.2f}   {r["gyre"]:.1f} / {r["llama.cpp"]:.1f}', ' fill="#444"')
            y += ROW
        y += GAP
    grid = []
    for k in range(round(end / step) + 1):
        at, bold = x(k * step), abs(k * step - 1) < 1e-9
        grid.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="44" y2="{y}" stroke="{"#000" if bold else "#ddd"}"/>')
        grid.append(f'<text x="{at:.1f}" y="{y + 14}" text-anchor="middle" fill="#444">{k * step:g}</text>')
    if not any("#000" in g for g in grid):
        grid.append(f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="44" y2="{y}" stroke="#000"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + 26}" viewBox="0 0 {width} {y + 26}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, f'<rect width="{width}" height="{y + 26}" fill="#fff"/>',
                      f'<text x="8" y="20" font-size="15">{escape(title)}</text>',
                      '<text x="8" y="37" fill="#444">gyre / llama.cpp, then both in tokens a second; pp: prompt, tg: generated</text>',
                      *grid, *body, "</svg>"]) + "\n"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("results", nargs="+")
    a.add_argument("-o", default=pathlib.Path(__file__).resolve().parent.parent / "docs/bench.svg", type=pathlib.Path)
    a.add_argument("--threads", type=int, help="only these lines; default the most threads there are")
    a.add_argument("--title", default="")
    o = a.parse_args()
    rows = read(o.results)
    threads = o.threads or max((r["threads"] for r in rows), default=0)
    rows = [r for r in rows if r["threads"] == threads]
    if not rows:
        raise SystemExit(f"{' '.join(o.results)}: no lines" + (f" of {threads} threads" if threads else ""))
    o.o.write_text(draw(rows, o.title or f"Speed beside llama.cpp, {threads} thread{'s' if threads > 1 else ''}"))
    print(f"{o.o}: {len(rows)} lines", file=sys.stderr)


if __name__ == "__main__":
    main()
