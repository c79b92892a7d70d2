#!/usr/bin/env python3
"""Checks who includes whom: each folder of src may include only itself and the folders above it (docs/design.md 4)."""
import pathlib
import re
import sys

MAY = {
    "base": [],
    "file": ["base"],
    "codec": ["base"],
    "text": ["base"],
    "op": ["base", "codec"],
    "kv": ["base", "codec", "op"],
    "cpu": ["base", "codec", "op", "kv"],
    "model": ["base", "file", "codec", "text", "op", "kv"],
    "run": ["base", "codec", "text", "op", "kv", "model", "file"],
    "cli": ["base"],
}
# The engine reaches a device through one constructor; no other file sees a backend's headers.
EXTRA = {("run/engine.c", "cpu/cpu.h")}


def main(root):
    src = pathlib.Path(root) / "src"
    bad = []
    for path in sorted(src.rglob("*.[ch]*")) + sorted(src.rglob("*.inc")):
        name = path.relative_to(src).as_posix()
        part = name.split("/")[0]
        if part not in MAY:
            bad.append(f"{name}: folder {part} has no row in tools/check_includes.py")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not found or found[1] in ("gyre.h", "gyre_measure.h"):
                continue
            target = found[1]
            to = target.split("/")[0]
            if "/" not in target:
                bad.append(f"{name}:{number}: \"{target}\" must be named from src, as folder/file.h")
            elif to != part and to not in MAY[part] and (name, target) not in EXTRA:
                bad.append(f"{name}:{number}: {part} may not include {to} (\"{target}\")")
    print("\n".join(bad) or f"includes: {len(MAY)} folders keep the order")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
