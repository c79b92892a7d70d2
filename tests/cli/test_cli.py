#!/usr/bin/env python3
"""What a user of the command line sees: output, streams, exit codes."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time
import unittest

GYRE = os.environ["GYRE_BIN"]
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
SHARED = pathlib.Path(os.environ.get("GYRE_SHARED") or os.environ["GYRE_TEST_SHARED"])
TINY = str(next(iter(sorted((DATA / "models").glob("*/config.json")))).parent)
CHAT = SHARED / "fixtures/models/llama"  # has a tokenizer and a template


def gyre(*args, stdin=None, **env):
    home = tempfile.gettempdir() + "/gyre-test-home"
    full = {**os.environ, "GYRE_HOME": home, "HF_HUB_CACHE": home + "/hub", "GYRE_CACHE": home + "/cache", **env}
    return subprocess.run([GYRE, *args], input=stdin, capture_output=True, text=True, env=full, timeout=120)


class Usage(unittest.TestCase):
    def test_help_and_version(self):
        for args in (["--help"], ["run", "--help"], ["--help-all"], ["help", "bench"]):
            done = gyre(*args)
            self.assertEqual((done.returncode, done.stderr), (0, ""), args)
            self.assertIn("usage: gyre", done.stdout)
        self.assertRegex(gyre("--version").stdout, r"^gyre \d+\.\d+\.\d+ \(cpu \w+, bits \d+\)\n$")

    def test_every_flag_of_help_is_in_completion(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertIn("top-k", gyre("completion", shell).stdout)
        self.assertEqual(gyre("completion", "tcsh").returncode, 2)

    def test_usage_errors(self):
        cases = [([], ""), (["fly"], "unknown command"), (["run", "--tempp", "1"], "did you mean --temp"),
                 (["generate", TINY, "--temp"], "needs a value"), (["generate", TINY, "--top-k", "x"], "not an integer"),
                 (["generate"], "MODEL is missing"), (["logits", TINY], "--ids and --out"), (["bench", TINY, "-p", "9-3"], "expected a list"),
                 (["generate", TINY, "--ids", "1", "--arith", "odd"], "exact or fast")]
        for args, text in cases:
            done = gyre(*args)
            self.assertEqual(done.returncode, 2, (args, done.stderr))
            self.assertIn(text, done.stderr, args)
            self.assertEqual(done.stdout, "", args)

    def test_missing_model(self):
        done = gyre("generate", "no/such-model", "-p", "x")
        self.assertEqual(done.returncode, 3, done.stderr)
        done = gyre("generate", "no/such-model", "-p", "x", "--json")
        self.assertEqual(done.returncode, 3)
        self.assertIn("message", json.loads(done.stdout)["error"])

    def test_env_and_config_and_flag(self):
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as f:
            f.write("# comment\nmax-tokens = 3\n")
            f.flush()
            base = ["generate", TINY, "--ids", "1,2,3", "--json", "--temp", "0", "--config", f.name]
            self.assertEqual(len(json.loads(gyre(*base).stdout)["ids"]), 3)
            self.assertEqual(len(json.loads(gyre(*base, GYRE_MAX_TOKENS="4").stdout)["ids"]), 4)
            self.assertEqual(len(json.loads(gyre(*base, "-n", "5", GYRE_MAX_TOKENS="4").stdout)["ids"]), 5)
            f.write("nonsense\n")
            f.flush()
            self.assertEqual(gyre(*base).returncode, 2)


class Model(unittest.TestCase):
    def logits(self, *args):
        with tempfile.TemporaryDirectory() as d:
            out = d + "/out.bin"
            done = gyre("logits", TINY, "--out", out, *args)
            self.assertEqual(done.returncode, 0, done.stderr)
            return pathlib.Path(out).read_bytes()

    def test_logits(self):
        ids = ",".join(str(i * 7 % 300) for i in range(30))
        vocab = json.loads(gyre("inspect", TINY, "--json").stdout)["vocab"]
        whole = self.logits("--ids", ids)
        self.assertEqual(len(whole), 30 * vocab * 4)
        self.assertEqual(self.logits("--ids", ids, "--positions", "last"), whole[-vocab * 4:])
        self.assertEqual(self.logits("--ids", ids, "--positions", "2,29,0"),
                         whole[:vocab * 4] + whole[2 * vocab * 4:3 * vocab * 4] + whole[-vocab * 4:])
        self.assertEqual(self.logits("--ids", ids, "--chunk", "7", "--threads", "2"), whole)
        self.assertEqual(self.logits("--ids", ids, "--chunk", "1", "--isa", "generic"), whole)

    def test_generate_is_greedy_over_logits(self):
        done = gyre("generate", TINY, "--ids", "5,6,7", "--max-tokens", "4", "--temp", "0", "--json")
        ids = json.loads(done.stdout)["ids"]
        self.assertEqual(len(ids), 4)
        history = [5, 6, 7]
        for token in ids:
            row = self.logits("--ids", ",".join(map(str, history)), "--positions", "last")
            values = struct.unpack(f"<{len(row) // 4}f", row)
            self.assertEqual(values.index(max(values)), token)
            history.append(token)

    def test_seed(self):
        base = ["generate", TINY, "--ids", "1,2", "-n", "12", "--temp", "1.5", "--json"]
        one, two, other = (json.loads(gyre(*base, "--seed", s).stdout)["ids"] for s in ("7", "7", "8"))
        self.assertEqual(one, two)
        self.assertNotEqual(one, other)

    def test_bad_ids(self):
        for ids in ("1,x", "-5", "999999999", ""):
            self.assertEqual(gyre("generate", TINY, "--ids", ids, "-n", "1").returncode, 2, ids)

    def test_explain(self):
        plan = gyre("explain", TINY)
        self.assertEqual(plan.returncode, 0, plan.stderr)
        for word in ("embed", "attn", "logits"):
            self.assertIn(word, plan.stdout)
        json.loads(gyre("explain", TINY, "--json").stdout)
        dump = gyre("explain", TINY, "--op", "0.attn", "--ids", "1,2,3", "--json")
        self.assertEqual(json.loads(dump.stdout)["rows"], 3)
        self.assertEqual(gyre("explain", TINY, "--op", "99.attn", "--ids", "1").returncode, 2)

    def test_inspect(self):
        info = json.loads(gyre("inspect", TINY, "--json").stdout)
        self.assertGreater(info["parameters"], 0)
        self.assertIn("tensors", info)
        self.assertEqual(gyre("inspect", TINY, "--tensors").returncode, 0)

    def test_bench(self):
        args = ["bench", TINY, "-p", "8,16", "-n", "4", "-d", "0,8", "-r", "2", "-t", "1,2"]
        rows = json.loads(gyre(*args, "-o", "json").stdout)
        self.assertEqual(len(rows), 2 * 2 * 3)
        self.assertTrue(all(row["avg_ts"] > 0 for row in rows))
        self.assertEqual(len(gyre(*args, "-o", "csv").stdout.splitlines()), 13)
        self.assertEqual(len(gyre(*args).stdout.splitlines()), 14)
        self.assertEqual(len(gyre(*args, "-o", "jsonl").stdout.splitlines()), 12)


@unittest.skipUnless((CHAT / "tokenizer.json").exists(), "needs ../shared")
class Chat(unittest.TestCase):
    def test_text_tools(self):
        text = "Hello, world! 123"
        ids = json.loads(gyre("tokenize", str(CHAT), "--json", "--no-special", stdin=text).stdout)["ids"]
        back = json.loads(gyre("detokenize", str(CHAT), "--json", "--ids", ",".join(map(str, ids))).stdout)["text"]
        self.assertEqual(back, text)
        body = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})
        rendered = json.loads(gyre("render", str(CHAT), "--json", stdin=body).stdout)["text"]
        self.assertIn("Hi", rendered)

    def test_run(self):
        done = gyre("run", str(CHAT), "Hello", "-n", "8", "--temp", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        piped = gyre("run", str(CHAT), "-n", "8", "--temp", "0", stdin="Hello\n")
        self.assertEqual(piped.stdout, done.stdout)
        whole = json.loads(gyre("run", str(CHAT), "Hello", "-n", "8", "--temp", "0", "--json").stdout)
        self.assertEqual(whole["text"] + "\n", done.stdout)
        self.assertLessEqual(whole["usage"]["completion_tokens"], 8)

    def test_logprobs(self):
        done = json.loads(gyre("generate", str(CHAT), "-p", "Hello", "-n", "3", "--temp", "0", "--json", "--logprobs", "2", "--ignore-eos").stdout)
        self.assertEqual(len(done["logprobs"]), 3)
        for entry in done["logprobs"]:
            self.assertEqual(entry["id"], entry["top"][0]["id"])
            self.assertGreaterEqual(entry["top"][0]["logprob"], entry["top"][1]["logprob"])

    def test_perplexity(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("The quick brown fox jumps over the lazy dog. " * 20)
            f.flush()
            one = json.loads(gyre("perplexity", str(CHAT), "-f", f.name, "-c", "64", "--json").stdout)
            two = json.loads(gyre("perplexity", str(CHAT), "-f", f.name, "-c", "64", "--json", "-t", "2", "--chunk", "5").stdout)
            self.assertEqual(one, two)
            self.assertGreater(one["perplexity"], 1)

    def test_broken_pipe_and_interrupt(self):
        command = [GYRE, "generate", str(CHAT), "-p", "Hello", "--ignore-eos", "--raw", "-c", "30000"]
        quiet = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        quiet.stdout.read(1)
        quiet.stdout.close()
        self.assertEqual(quiet.wait(60), 0)
        self.assertEqual(quiet.stderr.read(), b"")
        quiet.stderr.close()
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            running.stdout.read(1)
            running.send_signal(number)
            start = time.time()
            running.communicate(timeout=60)
            self.assertEqual(running.returncode, code)
            self.assertLess(time.time() - start, 30)


if __name__ == "__main__":
    unittest.main(verbosity=2)
