#!/usr/bin/env python3
"""Logits of the small models on this machine, by every instruction set, have the committed bits: tests/data/models/
logits.sha256, one file for every processor. `test_bits.py --write` makes it anew, after a deliberate change of GY_BITS."""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

RUN = os.environ.get("GYRE_EMULATOR", "").split() + [os.environ["GYRE_BIN"]]
MODELS = pathlib.Path(__file__).resolve().parent.parent / "data" / "models"
LIST = MODELS / "logits.sha256"
WAYS = [("fast", "f16"), ("exact", "f32"), ("fast", "q8"), ("fast", "turbo-k8v3")]
IDS = ",".join(str(i * 7 % 200) for i in range(40))


def digest(folder, model, arith, kv, isa):
    """None: the model refuses the KV codec (a head that it does not divide). Raises on any other failure."""
    out = folder + "/logits"
    done = subprocess.run([*RUN, "logits", str(MODELS / model), "--ids", IDS, "--out", out, "--arith", arith, "--kv", kv,
                           "--threads", "1", *(["--isa", isa] if isa else [])], capture_output=True, text=True)
    if done.returncode == 0:
        return hashlib.sha256(pathlib.Path(out).read_bytes()).hexdigest()
    if kv not in ("f16", "f32"):
        return None
    raise SystemExit(f"{model} {arith} {kv} {isa}: {done.stderr}")


def usable(folder, isa):
    done = subprocess.run([*RUN, "logits", str(MODELS / "llama"), "--ids", "1", "--out", folder + "/x", "--isa", isa],
                          capture_output=True, text=True)
    if done.returncode and "instruction set" not in done.stderr:
        raise SystemExit(done.stderr)
    return done.returncode == 0


def main():
    with tempfile.TemporaryDirectory() as folder:
        sets = [isa for isa in ("generic", "avx2", "avx512", "neon", "neon_i8mm") if usable(folder, isa)]
        if "--write" in sys.argv:
            lines = []
            for model in sorted(p.name for p in MODELS.iterdir() if p.is_dir()):
                for arith, kv in WAYS:
                    d = digest(folder, model, arith, kv, "generic")
                    lines += [f"{d} {model} {arith} {kv}\n"] if d else []
            LIST.write_text("".join(lines))
        wrong = compared = 0
        want = [line.split() for line in LIST.read_text().splitlines()]
        for d, model, arith, kv in want:
            for isa in sets:
                compared += 1
                if digest(folder, model, arith, kv, isa) != d:
                    wrong += 1
                    print(f"{model} {arith} {kv} {isa}: not the committed bits")
        print(f"{compared} runs of {len(want)} cases, by {', '.join(sets)}: {wrong} differ")
        assert len({model for _, model, _, _ in want}) == sum(p.is_dir() for p in MODELS.iterdir()) and len(sets) > 0
        return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
