#!/usr/bin/env python3
"""Prompts and prefixes kept in files: the same answers, less computed, clear errors."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

GYRE = os.environ["GYRE_BIN"]
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
LLAMA = str(DATA / "models/llama")  # has a tokenizer and no template
SHARED = pathlib.Path(os.environ.get("GYRE_SHARED") or os.environ["GYRE_TEST_SHARED"])
CHAT = SHARED / "fixtures/models/llama"  # has a tokenizer and a template
LONG = "The quick brown fox jumps over the lazy dog. " * 12


class Cache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = self.folder.name + "/prompt.kv"

    def tearDown(self):
        self.folder.cleanup()

    def gyre(self, *args, stdin=""):
        env = {**os.environ, "GYRE_HOME": self.folder.name, "GYRE_CACHE": self.folder.name + "/c"}
        return subprocess.run([GYRE, *args], input=stdin, capture_output=True, text=True, env=env, timeout=120)

    def answer(self, model, *args, command="generate"):
        done = self.gyre(command, model, *args, "--temp", "0", "-n", "8", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = json.loads(done.stdout)
        usage = whole["usage"]
        return whole.get("ids", whole["text"]), usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    def test_a_cached_prompt_goes_on(self):
        done = self.gyre("cache-prompt", LLAMA, "--raw", "-p", LONG, "--prompt-cache-file", self.file, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        self.assertEqual(made["bytes"], os.path.getsize(self.file))
        before = pathlib.Path(self.file).read_bytes()
        ids, tokens, cached = self.answer(LLAMA, "--raw", "-p", "(0) {1}", "--prompt-cache-file", self.file)
        self.assertEqual(cached, made["tokens"])
        self.assertGreater(tokens, cached)
        # The same ids without a file: those of both halves, one after the other.
        halves = []
        for text, flag in ((LONG, []), ("(0) {1}", ["--no-special"])):
            done = self.gyre("tokenize", LLAMA, text, "--json", *flag)
            halves += json.loads(done.stdout)["ids"]
        self.assertEqual(len(halves), tokens)
        done = self.gyre("generate", LLAMA, "--ids", ",".join(map(str, halves)), "--temp", "0", "-n", "8", "--json")
        self.assertEqual(json.loads(done.stdout)["ids"][:len(ids)], ids)
        self.assertEqual(pathlib.Path(self.file).read_bytes(), before)

    @unittest.skipUnless(CHAT.exists(), "needs the shared fixtures")
    def test_with_a_template(self):
        model = str(CHAT)
        done = self.gyre("cache-prompt", model, "-p", "Some text to ask about. ", "--prompt-cache-file", self.file)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertRegex(done.stderr, r"prompt.kv: \d+ tokens")
        ids, tokens, cached = self.answer(model, "-p", "What is it?", "--prompt-cache-file", self.file)
        whole, all_tokens, none = self.answer(model, "-p", "Some text to ask about. What is it?")
        self.assertEqual((ids, tokens, none), (whole, all_tokens, 0))
        self.assertTrue(0 < cached < tokens)

    @unittest.skipUnless(CHAT.exists(), "needs the shared fixtures")
    def test_run_keeps_its_session(self):
        args = ["Some question", "--prompt-cache-file", self.file]
        first, tokens, none = self.answer(str(CHAT), *args, command="run")
        again, _, cached = self.answer(str(CHAT), *args, command="run")
        self.assertEqual((first, none, cached), (again, 0, tokens - 1))

    def test_a_folder_of_prefixes(self):
        folder = self.folder.name + "/prefixes"
        plain, tokens, _ = self.answer(LLAMA, "--raw", "-p", LONG)
        self.assertGreater(tokens, 65)
        for turn in range(2):
            ids, _, cached = self.answer(LLAMA, "--raw", "-p", LONG, "--cache-dir", folder)
            self.assertEqual((ids, cached), (plain, (tokens - 1) // 64 * 64 if turn else 0))
        for page in pathlib.Path(folder).glob("*.kv"):  # damage is no error, and is put aside
            page.write_bytes(page.read_bytes()[:-1] + b"\xff")
        ids, _, cached = self.answer(LLAMA, "--raw", "-p", LONG, "--cache-dir", folder)
        self.assertEqual((ids, cached), (plain, 0))
        self.assertTrue(list(pathlib.Path(folder, "quarantine").glob("*.kv")))
        ids, _, cached = self.answer(LLAMA, "--raw", "-p", LONG, "--cache-dir", folder)
        self.assertEqual((ids, cached), (plain, (tokens - 1) // 64 * 64))

    def test_errors(self):
        done = self.gyre("cache-prompt", LLAMA, "--raw", "-p", LONG, "--prompt-cache-file", self.file)
        self.assertEqual(done.returncode, 0, done.stderr)
        other = str(DATA / "models/olmo2")
        cases = [(["generate", other, "--ids", "1,2", "--prompt-cache-file", self.file], 2, "another model"),
                 (["generate", LLAMA, "-p", "x", "--kv", "f32", "--prompt-cache-file", self.file], 2, "KV codec f16"),
                 (["generate", LLAMA, "-p", "x", "--prompt-cache-file", self.file + "no"], 1, "No such file"),
                 (["generate", LLAMA, "-p", "x", "--prompt-cache-file", LLAMA + "/config.json"], 1, "not a gyre page file"),
                 (["cache-prompt", LLAMA, "-p", "x"], 2, "--prompt-cache-file FILE is missing"),
                 (["cache-prompt", LLAMA, "-p", "x", "--prompt-cache-file", "/nonexistent/x"], 1, "/nonexistent/x"),
                 (["generate", LLAMA, "-p", "x", "--cache-dir", "/nonexistent/x/y"], 1, "/nonexistent/x/y")]
        for args, code, text in cases:
            done = self.gyre(*args)
            self.assertEqual(done.returncode, code, (args, done.stderr))
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stdout, "")
        with open(self.file, "r+b") as f:
            f.seek(300)
            f.write(b"\x55")
        done = self.gyre("generate", LLAMA, "-p", "x", "--prompt-cache-file", self.file)
        self.assertEqual(done.returncode, 6, done.stderr)


if __name__ == "__main__":
    unittest.main()
