#!/usr/bin/env python3
"""Checks the compiler flags that equal bits depend on (design D8), in a build folder's compile_commands.json."""
import json
import pathlib
import shlex
import sys

FORBIDDEN = {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-fassociative-math", "-ffp-contract=fast",
             "-ffp-contract=on", "-freciprocal-math", "-fno-signed-zeros"}


def main(build):
    bad, seen = [], 0
    for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        name = entry["file"]
        if "/src/" not in name and "/tests/" not in name:
            continue
        seen += 1
        flags = shlex.split(entry["command"])
        if "-ffp-contract=off" not in flags:
            bad.append(f"{name}: -ffp-contract=off is missing")
        for flag in flags:
            if flag in FORBIDDEN or flag.startswith(("-march=", "-mcpu=", "-mtune=native")):
                bad.append(f"{name}: {flag} is forbidden")
            # A test may compile kernel bodies by itself; the library does so in one place.
            if flag.startswith("-m") and "/src/" in name and "/cpu/isa_" not in name and flag not in ("-m64",):
                bad.append(f"{name}: {flag} belongs only to src/cpu/isa_*.c")
    if not seen:
        bad.append(f"{build}: no source file in compile_commands.json")
    print("\n".join(bad) or f"flags: {seen} files keep the rules")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
