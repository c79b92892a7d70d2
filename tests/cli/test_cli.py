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
TINY = str(DATA / "models" / "llama")
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


    def test_json_config_and_file_from_the_environment(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            f.write('{"max-tokens": 3, "temp": 0, "json": true, "stop": [], "n_depth": "0"}')
            f.flush()
            base = ["generate", TINY, "--ids", "1,2,3"]
            self.assertEqual(len(json.loads(gyre(*base, "--config", f.name).stdout)["ids"]), 3)
            self.assertEqual(len(json.loads(gyre(*base, GYRE_CONFIG=f.name).stdout)["ids"]), 3)
        for text in ('{"max-tokens": 3', '{"bogus": 1}', '{"temp": {}}', '{"temp": "warm"}', '{"config": "x"}'):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
                f.write(text)
                f.flush()
                self.assertEqual(gyre(*base, "--config", f.name).returncode, 2, text)

    def test_stray_arguments(self):
        for args in (["ls", "x"], ["inspect", TINY, "x"], ["explain", TINY, "x"], ["generate", TINY, "--ids", "1", "x"], ["bench", TINY, "x"],
                     ["convert", "a", "b", "-o", "c"], ["get", "a/b", "c"], ["gc", "x"], ["devices", "x"]):
            done = gyre(*args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn("unexpected argument 'x'" if "x" in args else "unexpected argument", done.stderr, args)

    def test_errors_follow_json(self):
        for args, code in ((["generate", "--json"], 2), (["inspect", "/nowhere", "--json"], 3), (["bench", TINY, "-r", "0", "--json"], 2),
                           (["generate", TINY, "--bogus", "--json"], 2), (["generate", TINY, "-n", "x", "--json"], 2)):
            done = gyre(*args)
            self.assertEqual((done.returncode, done.stderr), (code, ""), args)
            self.assertIn("message", json.loads(done.stdout)["error"])

    @unittest.skipUnless(os.path.exists("/dev/full"), "notice: no /dev/full")
    def test_full_disk(self):
        for args in (["generate", TINY, "--ids", "1", "-n", "3", "--json"], ["inspect", TINY], ["explain", TINY], ["--help"], ["--version"],
                     ["devices"], ["logits", TINY, "--ids", "1", "--out", "/dev/full"], ["bench", TINY, "-p", "4", "-n", "0", "-r", "1"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([GYRE, *args], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, args)
            self.assertIn("No space left", done.stderr, args)

    def test_fit(self):
        model = str(DATA / "models" / "gemma3")  # heads of 32 values, one layer with a window
        self.assertEqual(gyre("fit", TINY, "--json").returncode, 0)
        out = json.loads(gyre("fit", model, "--json", "--budget", "1G").stdout)
        kv = {c["kv"]: c for c in out["codecs"]}
        self.assertEqual(kv["f16"]["limited_by"], "model")
        self.assertEqual(kv["f16"]["largest_context"], out["model_context"])
        self.assertNotIn("turbo-k8v3", kv)  # heads of 32 values
        self.assertGreater(kv["f16"]["kv_bytes"], 1.7 * kv["q8.32"]["kv_bytes"])
        for c in out["codecs"]:
            self.assertEqual(c["total"], c["weights"] + c["prefix_bytes"] + c["kv_bytes"] + c["scratch"])
            self.assertEqual(c["prefix_bytes"], 10**9 // 8)
        for memory, want in (("0", 0), ("2M", 2000000)):
            out = json.loads(gyre("fit", model, "--json", "--kv", "f16", "--budget", "1G", "--prefix-memory", memory).stdout)
            self.assertEqual(out["codecs"][0]["prefix_bytes"], want)
        self.assertIn("shared prefixes 2.0 MB", gyre("fit", model, "--prefix-memory", "2M").stdout)
        fixed = ["--kv", "f16", "--prefix-memory", "2M"]
        tight = str(out["codecs"][0]["total"] - kv["f16"]["kv_bytes"] // 2)
        out = json.loads(gyre("fit", model, "--json", *fixed, "--budget", tight).stdout)
        self.assertEqual(out["codecs"][0]["limited_by"], "memory")
        self.assertEqual(out["codecs"][0]["largest_context"] % 64, 0)
        self.assertEqual(gyre("fit", model, "--ctx", "4096", *fixed, "--budget", tight).returncode, 4)
        # What fit says run takes: it runs with exactly that, and says what it lacks with a byte less.
        exact = json.loads(gyre("fit", model, "--json", "--ctx", "4096", *fixed, "--budget", "1G").stdout)["codecs"][0]["total"]
        self.assertIn("shared prefixes 2000000", gyre("generate", model, "--ids", "1", "-n", "1", "--ctx", "4096", *fixed,
                                                      "--memory-budget", str(exact - 1)).stderr)
        self.assertEqual(gyre("generate", model, "--ids", "1", "-n", "1", "--ctx", "4096", *fixed,
                              "--memory-budget", str(exact)).returncode, 0)
        self.assertEqual(gyre("generate", model, "--ids", "1", "-n", "1", "--memory-budget", "100K").returncode, 4)
        for args in (["fit", model, "--budget", "much"], ["fit", model, "--prefix-memory", "-1"],
                     ["generate", model, "--ids", "1", "--cache-dir", "/tmp", "--prefix-memory", "0"], ["fit", model, "--batch", "0"], ["fit", model, "--kv", "q9"],
                     ["fit", model, "--kv", "turbo"], ["generate", model, "--ids", "1", "--kv", "./none.json"]):
            self.assertEqual(gyre(*args).returncode, 2, args)

    def test_fit_of_every_family(self):
        for config in sorted((DATA / "models").glob("*/config.json")):
            done = gyre("fit", str(config.parent), "--json", "--budget", "1G")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("f16", [c["kv"] for c in json.loads(done.stdout)["codecs"]], config)

    def test_devices(self):
        self.assertEqual(json.loads(gyre("devices", "--json").stdout)["devices"][0]["backend"], "cpu")
        self.assertTrue(gyre("devices").stdout.startswith("cpu"))


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
        rows = json.loads(gyre("bench", TINY, "-p", "0", "-n", "0", "-pg", "8,4,6,2", "-r", "1", "--json").stdout)
        self.assertEqual([(r["test"], r["n_prompt"], r["n_gen"]) for r in rows], [("pp8+tg4", 8, 4), ("pp6+tg2", 6, 2)])
        self.assertEqual(gyre("bench", TINY, "-pg", "8").returncode, 2)
        self.assertEqual(gyre("bench", TINY, "-p", "0", "-n", "0").returncode, 2)

    def test_wrong_codec_is_a_usage_error(self):
        for flags in (["--kv", "nonsense"], ["--kv", "f16.x"], ["-ctk", "q2_k"], ["--kv", "f16", "-ctv", "f32"], ["--threads", "2x"],
                      ["--threads", "0"]):
            self.assertEqual(gyre("generate", TINY, "--ids", "1", "-n", "1", *flags).returncode, 2, flags)

    def test_paths_are_escaped(self):
        with tempfile.TemporaryDirectory() as d:
            out = d + '/a"b\\c.bin'
            done = gyre("logits", TINY, "--ids", "1", "--out", out, "--json")
            self.assertEqual(json.loads(done.stdout)["file"], out)


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

    def test_stream(self):
        for command in (["generate", str(CHAT), "-p", "Hello"], ["run", str(CHAT), "Hello"]):
            done = gyre(*command, "-n", "6", "--temp", "0", "--json", "--stream", "--ignore-eos")
            *tokens, whole = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual("".join(t["text"] for t in tokens), whole["text"])
            self.assertEqual(len([t for t in tokens if "id" in t]), 6)
            self.assertEqual(whole["usage"]["completion_tokens"], 6)

    def test_prompts(self):
        whole = gyre("generate", str(CHAT), "-p", "say hello", "-n", "5", "--temp", "0").stdout
        self.assertEqual(gyre("generate", str(CHAT), "say", "hello", "-n", "5").stdout, whole)
        self.assertEqual(gyre("generate", str(CHAT), "--prompt", "-", "-n", "5", stdin="say hello").stdout, whole)
        self.assertEqual(gyre("run", str(CHAT), "say", "hello", "-n", "5", "--temp", "0").stdout, whole)
        self.assertEqual(gyre("run", str(CHAT), "-p", "-", "-n", "5", "--temp", "0", stdin="say hello\n").stdout, whole)
        for flags, code in ((["-f", "/nowhere"], 1), (["-f", "/tmp"], 1), (["-p", "x", "-f", "/dev/null"], 2), (["-p", "x", "y"], 2),
                            (["-p", "x", "-c", "4"], 4), (["-p", "x" * 100000, "-c", "64"], 4), (["-p", "x", "-n", "-5"], 2),
                            (["-p", "x", "-n", "99999999999"], 2), (["-p", "x", "--chat-template-kwargs", "{"], 2)):
            self.assertEqual(gyre("generate", str(CHAT), *flags, "--temp", "0").returncode, code, flags)
        with tempfile.NamedTemporaryFile("wb") as f:
            f.write(b"a\0b\xff\xfe")
            f.flush()
            self.assertEqual(gyre("generate", str(CHAT), "-f", f.name, "-n", "1", "--json").returncode, 0)

    def test_sampling_defaults(self):
        """run takes generation_config.json (temperature 0.7, top_p 0.9, top_k 20 here); generate is greedy."""
        same = ["-n", "12", "--ignore-eos", "--seed", "5", "--json"]
        own = json.loads(gyre("run", str(CHAT), "Hello", *same).stdout)["text"]
        said = ["--temp", "0.7", "--top-p", "0.9", "--top-k", "20", "--min-p", "0", "--repeat-penalty", "1"]
        self.assertEqual(json.loads(gyre("run", str(CHAT), "Hello", *same, *said).stdout)["text"], own)
        greedy = json.loads(gyre("generate", str(CHAT), "-p", "Hello", *same).stdout)["text"]
        self.assertEqual(json.loads(gyre("run", str(CHAT), "Hello", "--temp", "0", *same).stdout)["text"], greedy)
        self.assertNotEqual(own, greedy)

    def test_kl(self):
        with tempfile.TemporaryDirectory() as d:
            text, kept = pathlib.Path(d) / "text.txt", d + "/kept.kl"
            text.write_text("The quick brown fox jumps over the lazy dog. " * 10)
            base = ["perplexity", str(CHAT), "-f", str(text), "-c", "32", "--json", "--kl-base", kept]
            first = json.loads(gyre(*base, "--arith", "exact").stdout)
            self.assertNotIn("kl", first)
            again = json.loads(gyre(*base, "--arith", "exact", "--kl").stdout)
            self.assertLess(again["kl"], 1e-4)
            self.assertEqual(again["same_top"], 1)
            self.assertAlmostEqual(again["base_perplexity"], first["perplexity"], delta=1e-3 * first["perplexity"])
            other = json.loads(gyre(*base, "--arith", "fast", "--kl").stdout)
            self.assertGreater(other["kl"], again["kl"])
            for flags in (["-c", "16"], ["-c", "64"]):
                self.assertEqual(gyre(*base, *flags, "--kl").returncode, 2, flags)
            pathlib.Path(kept).write_bytes(pathlib.Path(kept).read_bytes()[:100])
            self.assertEqual(gyre(*base, "--kl").returncode, 2)
            self.assertEqual(gyre("perplexity", str(CHAT), "-f", str(text), "--kl").returncode, 2)

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
