#!/usr/bin/env python3
"""gyre bench and the tools in bench/. Times are never asserted."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

GYRE = os.environ["GYRE_BIN"]
ROOT = pathlib.Path(__file__).resolve().parents[2]


def numpy_python():
    """An interpreter with numpy, or None: GYRE_NUMPY names one that ctest's does not have."""
    for python in (os.environ.get("GYRE_NUMPY"), sys.executable):
        if python and subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    return None


class Made(unittest.TestCase):
    """bench/make_gguf.py: formats that hold the same values give the same logits."""

    TOKENS = [71, 371, 556, 220, 960]  # h el lo, a space, abc

    def test_formats_are_one_model(self):
        python = numpy_python()
        if not python:
            self.skipTest("no numpy; GYRE_NUMPY may name an interpreter that has it")
        formats = ["q4_0", "q4_1", "q4_k", "q8_0", "affine4-g32", "affine4-g64", "affine8-g32", "affine8-g64", "mxfp4"]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([python, ROOT / "bench/make_gguf.py", "tiny", *formats, "-o", folder], check=True, capture_output=True)
            digest = {}
            for fmt in formats:
                path = f"{folder}/tiny-{fmt}" + (".gguf" if fmt.startswith("q") else "")
                done = subprocess.run([GYRE, "logits", path, "--ids", "1000,5,300,700", "--arith", "exact", "--out", folder + "/out"],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                digest[fmt] = hashlib.sha256(pathlib.Path(folder, "out").read_bytes()).hexdigest()
                done = subprocess.run([GYRE, "tokenize", path, "hello abc", "--json", "--no-special"], capture_output=True, text=True)
                self.assertEqual(json.loads(done.stdout)["ids"], self.TOKENS, done.stderr)
        # GGUF's llama keeps the columns of q and k in another order, so its sums differ from MLX's.
        for same in (["q4_0", "q4_1", "q4_k"], ["affine4-g32", "affine4-g64"], ["affine8-g32", "affine8-g64"]):
            self.assertEqual(len({digest[f] for f in same}), 1, same)
        self.assertEqual(len(set(digest.values())), 5)


if __name__ == "__main__":
    unittest.main()
