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
import xml.etree.ElementTree

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


def stored(model):
    """Bytes of every matrix as the plan counts them: planes as stored, a bias as f32."""
    data = pathlib.Path(model, "model.safetensors").read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        module, plane = name.rsplit(".", 1)
        count = 1
        for n in t["shape"]:
            count *= n
        size = 4 * count if plane == "bias" else t["data_offsets"][1] - t["data_offsets"][0]
        out[module] = out.get(module, 0) + size
    return out


class Ops(unittest.TestCase):
    """gyre bench --ops: names, counts, bytes and operations; times only as shares of themselves."""

    def profile(self, model, *args):
        done = gyre("bench", model, "-r", "1", "-t", "1", "--ops", "--json", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = json.loads(done.stdout)
        for row in rows:
            self.assertGreater(min(row["roof"]["read_gbs"], row["roof"]["f32_gops"]), 0)
            self.assertAlmostEqual(sum(op["share"] for op in row["ops"]), 1, delta=1e-3)
            self.assertAlmostEqual(sum(op["seconds"] for op in row["ops"]), row["ops_seconds"], delta=1e-6)
            self.assertEqual(row["ops"][-1]["name"], "step")
            self.assertGreaterEqual(min(op["seconds"] for op in row["ops"]), 0)
            self.assertGreater(min(op["runs"] for op in row["ops"]), 0)
        return [{op["name"]: op for op in row["ops"]} for row in rows]

    def linears(self, model, ops, rows, steps, fast):
        """Every product of the plan is counted, and no byte more or less; rows: of one step."""
        plan, sizes = json.loads(gyre("explain", model, "--json").stdout), stored(model)
        want = {}
        for op in plan["ops"]:
            if op["op"] != "linear":
                continue
            name = "linear " + "+".join(w["name"].removesuffix(".weight").rsplit(".", 1)[-1] for w in op["weights"])
            runs, bytes_, count = want.get(name, (0, 0, 0))
            cols = op["weights"][0]["cols"]
            bytes_ += rows * cols * 4
            for w in op["weights"]:
                bytes_ += sizes[w["name"].removesuffix(".weight")] + rows * w["rows"] * 4
                count += 2 * rows * w["rows"] * cols
            want[name] = runs + 1, bytes_, count
        got = {name: (op["runs"], op["bytes"], op["ops"]) for name, op in ops.items() if name.startswith("linear")}
        self.assertEqual(got, {name: tuple(steps * n for n in v) for name, v in want.items()})
        if fast is not None:
            for name in want:
                self.assertEqual(ops[name]["int8_ops"], ops[name]["ops"] if fast else 0, name)
        return plan

    def test_products_of_a_known_model(self):
        shapes = [(8, 1, 1), (9, 1, 1), (1, 4, 1), (1, 3, 1)]
        found = list(zip(self.profile(TINY, "-p", "8,9", "-n", "4,3", "-d", "20"), shapes))
        found += zip(self.profile(TINY, "-p", "0", "-n", "3", "-b", "5"), [(5, 3, 5)])
        for ops, (rows, steps, outs) in found:
            self.linears(TINY, ops, rows, steps, True)
            self.assertEqual(ops["step"]["runs"], steps)
            logits = stored(TINY)["model.embed_tokens"] + outs * 4 * (96 + 320)
            self.assertEqual((ops["logits"]["bytes"], ops["logits"]["ops"]), (steps * logits, steps * outs * 2 * 96 * 320))
        [ops] = self.profile(TINY, "-p", "8", "-n", "0", "--arith", "exact")
        self.linears(TINY, ops, 8, 1, False)

    def test_repetitions_add_up(self):
        once, = self.profile(TINY, "-p", "0", "-n", "4")
        done = gyre("bench", TINY, "-r", "3", "-t", "1", "--ops", "--json", "-p", "0", "-n", "4")
        for op in json.loads(done.stdout)[0]["ops"]:
            for key in ("runs", "bytes", "ops"):
                self.assertEqual(op[key], 3 * once[op["name"]][key], (op["name"], key))

    def test_attention_reads_what_is_seen(self):
        def want(plan, first, n, batch):
            """Steps of one row, f16: bytes and operations of all layers."""
            bytes_ = ops = 0
            for op in plan["ops"]:
                if op["op"] != "attn":
                    continue
                a, window = op["params"], op["params"].get("window", 0)
                for pos in range(first, first + n):
                    seen = min(pos + 1, window or pos + 1)
                    bytes_ += batch * (seen * a["kv_heads"] + 2 * a["heads"]) * (a["kdim"] + a["vdim"]) * 2
                    ops += batch * 2 * seen * a["heads"] * (a["kdim"] + a["vdim"])
            return bytes_, ops
        windows = set()
        for name in ("llama", "gpt_oss"):
            model = TINY[:-len("llama")] + name
            plan = json.loads(gyre("explain", model, "--json").stdout)
            windows |= {op["params"].get("window", 0) for op in plan["ops"] if op["op"] == "attn"}
            rows = self.profile(model, "-p", "0", "-n", "5,3", "-d", "0,40", "-b", "1,3")
            for ops, (batch, depth, n) in zip(rows, [(b, d, n) for b in (1, 3) for d in (0, 40) for n in (5, 3)], strict=True):
                self.assertEqual((ops["attn"]["bytes"], ops["attn"]["ops"]), want(plan, depth, n, batch), (name, depth, n, batch))
            # A prompt does the same operations as its tokens one after the other, and reads fewer bytes.
            whole, steps = self.profile(model, "-p", "30", "-n", "30")
            self.assertEqual(whole["attn"]["ops"], steps["attn"]["ops"])
            self.assertLess(whole["attn"]["bytes"], steps["attn"]["bytes"])
        self.assertEqual(len(windows), 2)

    def test_experts_that_were_chosen(self):
        model = TINY[:-len("llama")] + "gpt_oss"
        many, one = self.profile(model, "-p", "40", "-n", "6")
        plan = self.linears(model, one, 1, 6, None)
        sizes, whole, macs, width = stored(model), 0, 0, plan["slots"][0]
        for op in plan["ops"]:
            if op["op"] == "experts":
                whole += sum(sizes[op["params"][part].removesuffix(".weight")] for part in ("gate", "up", "down"))
                macs += 3 * op["params"]["width"] * width * 2  # of two experts
                self.assertEqual(op["params"]["experts"], 4)
        layers = sum(op["op"] == "experts" for op in plan["ops"])
        self.assertEqual(one["experts"]["ops"], 6 * 2 * macs)
        self.assertEqual(one["experts"]["bytes"], 6 * (whole // 2 + layers * (2 * width + 2 * 2) * 4))
        # Of a prompt, every expert at most once.
        self.assertLessEqual(many["experts"]["bytes"], whole + layers * 40 * (2 * width + 2 * 2) * 4)

    def test_every_family(self):
        for path in sorted(p for p in pathlib.Path(TINY).parent.iterdir() if p.is_dir()):
            prompt, answer = self.profile(path, "-p", "70", "-n", "2")
            self.assertEqual(set(prompt), set(answer))
            self.assertEqual(answer["step"]["runs"], 2)

    def test_table_and_refusal(self):
        done = gyre("bench", TINY, "-r", "1", "--ops", "-p", "8", "-n", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        for test in ("pp8", "tg2"):
            self.assertRegex(done.stdout, rf"\n{test}, threads \d+: \d+ steps of [\d.]+ ms\. Roof: read [\d.]+ GB/s, f32 \d+ GOP/s")
        self.assertEqual(done.stdout.count("| operator | runs | ms | share |"), 2)
        self.assertEqual(gyre("bench", TINY, "--ops", "-o", "csv").returncode, 2)
        plain = json.loads(gyre("bench", TINY, "-r", "1", "-p", "8", "-n", "0", "--json").stdout)[0]
        self.assertFalse({"ops", "roof"} & set(plain))


class Plot(unittest.TestCase):
    """bench/plot.py: bars as long as the ratios say, in a file that is XML; what is wrong with a bad one."""

    ROW = {"model": "a<b>.gguf", "threads": 2, "test": "pp512", "arith": "fast", "gyre": 30.0, "llama.cpp": 20.0}

    def plot(self, *files, **flags):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for i, content in enumerate(files):
                paths.append(f"{folder}/{i}.json")
                pathlib.Path(paths[-1]).write_text(content if isinstance(content, str) else json.dumps(content))
            out = pathlib.Path(folder, "out.svg")
            done = subprocess.run([sys.executable, ROOT / "bench/plot.py", *paths, "-o", out, *sum(([f"--{k}", str(v)] for k, v in flags.items()), [])],
                                  capture_output=True, text=True)
            return done, xml.etree.ElementTree.parse(out).getroot() if done.returncode == 0 else None

    def test_bars(self):
        slow = {**self.ROW, "test": "tg128 @ d4096", "gyre": 10.0}
        one = {**self.ROW, "threads": 1, "gyre": 2000.0}
        done, svg = self.plot([self.ROW, one], [slow, {**self.ROW, "arith": "exact"}, {**self.ROW, "gyre": 40.0}])
        self.assertEqual(done.returncode, 0, done.stderr)
        name = "{http://www.w3.org/2000/svg}"
        bars = [float(r.get("width")) for r in svg.iter(name + "rect")][1:]  # the first is the paper
        texts = [t.text for t in svg.iter(name + "text")]
        # The later 40 over 20 replaces 30 over 20; then 10 over 20 and exact's 30 over 20. One thread is left out.
        self.assertEqual([round(b / bars[0], 3) for b in bars], [1, .25, .75])
        self.assertEqual(texts.count("a<b>.gguf"), 1)
        self.assertIn("pp512 exact", texts)
        self.assertEqual([t for t in texts if " / 20.0" in t], ["2.00   40.0 / 20.0", "0.50   10.0 / 20.0", "1.50   30.0 / 20.0"])
        height = float(svg.get("height"))
        self.assertTrue(all(0 <= float(t.get("y")) <= height for t in svg.iter(name + "text")))
        done, svg = self.plot([self.ROW, one], threads=1)
        self.assertEqual(len(list(svg.iter(name + "rect"))), 2)

    def test_bad_files_are_named(self):
        cases = [("{", "0.json: "), ("{}", "expected the array"), ("[1]", "[0].model: expected"), ("[]", "no lines")]
        cases += [([self.ROW, {**self.ROW, key: value}], f"[1].{key}: expected") for key in self.ROW
                  for value in (None, [], True, 0, -1, float("inf"), float("nan"))]
        for content, message in cases:
            done, _ = self.plot(content)
            self.assertEqual(done.returncode, 1, content)
            self.assertIn(message, done.stderr, content)
            self.assertNotIn("Traceback", done.stderr)


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
