#!/usr/bin/env python3
"""Checks the habits a script can see: format, file length, ASCII, the public header's size, getenv in one place."""
import pathlib
import re
import shutil
import subprocess
import sys

TABLES = {"src/text/unicode_tables.c"}  # generated


def main(root):
    root = pathlib.Path(root)
    files = sorted(p for d in ("src", "include", "tests", "examples", "bench") for p in (root / d).rglob("*")
                   if p.suffix in (".c", ".h", ".inc"))
    bad = []
    for path in files:
        name = path.relative_to(root).as_posix()
        data = path.read_bytes()
        lines = data.count(b"\n")
        if name not in TABLES and lines > 800:
            bad.append(f"{name}: {lines} lines, the limit is 800")
        if name == "include/gyre.h" and lines >= 400:
            bad.append(f"{name}: {lines} lines, the limit is 400")
        if any(b > 126 for b in data):
            bad.append(f"{name}: holds bytes that are not ASCII")
        if name.startswith("src/") and name != "src/base/env.c" and not name.startswith("src/cli/"):
            if re.search(rb"\bgetenv\s*\(", data):
                bad.append(f"{name}: only src/base/env.c reads the environment")
    tool = shutil.which("clang-format") or shutil.which("clang-format-14")
    if tool:
        source = [str(p) for p in files if p.relative_to(root).as_posix() not in TABLES and p.suffix != ".inc"]
        done = subprocess.run([tool, "--dry-run", "-Werror", *source], capture_output=True, text=True)
        if done.returncode:
            bad += sorted({line.split(":")[0] + ": not as clang-format writes it"
                           for line in done.stderr.splitlines() if "error:" in line})
    else:
        print("notice: clang-format is not installed, format not checked")
    print("\n".join(bad) or f"tree: {len(files)} files keep the habits")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
