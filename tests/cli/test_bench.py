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
TINY = str(pathlib.Path(__file__).resolve().parent.parent / "data/models/llama")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def numpy_python():
    """An interpreter with numpy, or None: GYRE_NUMPY names one that ctest's does not have."""
    for python in (os.environ.get("GYRE_NUMPY"), sys.executable):
        if python and subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    return None


def gyre(*args, stdin=None):
    return subprocess.run([GYRE, *map(str, args)], input=stdin, capture_output=True, text=True, timeout=120)


class Compare(unittest.TestCase):
    """gyre bench --compare: the same lines of an earlier file, and what is wrong in a bad one."""

    SHAPE = ["bench", TINY, "-p", "8", "-n", "4", "-r", "1", "-t", "1"]

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.old = self.folder.name + "/old.json"
        done = gyre(*self.SHAPE, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.rows = json.loads(done.stdout)

    def tearDown(self):
        self.folder.cleanup()

    def compare(self, rows, *args):
        pathlib.Path(self.old).write_text(rows if isinstance(rows, str) else json.dumps(rows))
        return gyre(*self.SHAPE, "--compare", self.old, *args)

    def scaled(self, factor):
        return [{**row, "avg_ts": row["avg_ts"] * factor} for row in self.rows]

    def test_faster_slower_and_the_threshold(self):
        # A thousand times away in either direction is no matter of noise.
        done = self.compare(self.scaled(1e-3), "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for row, was in zip(json.loads(done.stdout), self.scaled(1e-3)):
            self.assertAlmostEqual(row["old_ts"], was["avg_ts"], delta=6e-4)
            self.assertAlmostEqual(row["ratio"], row["avg_ts"] / was["avg_ts"], delta=1e-4 * row["ratio"])
        done = self.compare(self.scaled(1e3))
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 of 2 lines slower by more than 5 %", done.stderr)
        self.assertIn("| old t/s | ratio |", done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), 4)
        one = self.scaled(1e-3)[:1] + self.scaled(1e3)[1:]
        self.assertIn("1 of 2 lines", self.compare(one).stderr)
        # 1000 times slower is within 99.99 %, not within 99 %.
        self.assertEqual(self.compare(self.scaled(1e3), "--threshold", "99.999").returncode, 0)
        self.assertEqual(self.compare(self.scaled(1e3), "--threshold", "99").returncode, 1)
        header, *lines = self.compare(self.scaled(1e3), "-o", "csv").stdout.splitlines()
        self.assertTrue(header.endswith(",old_ts,ratio"))
        self.assertEqual({len(line.split(",")) for line in lines}, {len(header.split(","))})

    def test_lines_of_one_side_only(self):
        done = self.compare(self.scaled(1e-3) + [{**self.rows[0], "n_prompt": 77, "quant": "odd\u001b[1m"}])
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"not measured now: llama odd\?\[1m .*pp77\n")
        done = self.compare(self.scaled(1e-3)[:1])
        self.assertEqual(done.returncode, 0)
        self.assertIn("| - | - |", done.stdout)
        for other in ({"threads": 2}, {"arith": "other"}, {"kv": "q8"}, {"weight_bytes": 1}, {"batch": 3}, {"n_depth": 1}):
            done = self.compare([{**row, **other} for row in self.rows])
            self.assertEqual(done.returncode, 1, other)
            self.assertIn("no line of it was measured now", done.stderr)

    def test_bad_files_are_named(self):
        row = self.rows[0]
        cases = [("", ""), ("{", ""), ("[1", ""), ("\0\0", ""), ("[" * 100000, ""), ("{}", "expected the array"), ("[]", "expected the array"),
                 ("null", "expected the array"), ("[1]", "[0]: expected an object"), (json.dumps([row, []]), "[1]: expected an object"),
                 (json.dumps([row] + [{}]), "[1].model: expected a string")]
        for key in ("model", "quant", "arith", "kv", "threads", "n_depth", "batch", "n_prompt", "n_gen", "weight_bytes", "avg_ts"):
            values = [None, [], {}, True, -1, 1.5, 1e400, 10 ** 30] + ([] if key in ("model", "quant", "arith", "kv") else ["8"])
            if key == "avg_ts":
                values = [None, [], {}, True, -1, 0, 1e400, float("nan"), "8"]
            cases += [(json.dumps([row, {**row, key: v}]), f"[1].{key}: expected") for v in values]
            cases.append((json.dumps([row, {k: v for k, v in row.items() if k != key}]), f"[1].{key}: expected"))
        for text, message in cases:
            done = self.compare(text)
            self.assertEqual(done.returncode, 2, (text[:200], done.stderr))
            self.assertIn(self.old + ": " + message, done.stderr, text[:200])
            self.assertEqual(done.stdout, "")
        whole = json.dumps(self.rows)
        for cut in range(0, len(whole), 7):
            self.assertEqual(self.compare(whole[:cut]).returncode, 2, cut)
        done = gyre(*self.SHAPE, "--compare", "/nowhere/old.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/old.json", done.stderr)
        for percent in ("-1", "100", "x", "nan"):
            self.assertEqual(self.compare(self.rows, "--threshold", percent).returncode, 2, percent)


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
