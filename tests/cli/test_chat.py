#!/usr/bin/env python3
"""The interactive chat, driven through a pseudo terminal: keys, history, /commands, Ctrl-C, paste, streaming."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

GYRE = os.environ["GYRE_BIN"]
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
SHARED = pathlib.Path(os.environ.get("GYRE_SHARED") or os.environ["GYRE_TEST_SHARED"])
SLOW = 5 if "asan" in GYRE else 1  # sanitizer builds


def chat_model(folder):
    """A folder that holds a tiny model gyre can chat with: weights, tokenizer and template."""
    return (folder / "tokenizer.json").exists() and (folder / "config.json").exists() and "chat_template" in "".join(
        p.read_text() for p in [folder / "tokenizer_config.json", folder / "chat_template.jinja"] if p.exists())


OWN = [p.parent for p in sorted((DATA / "models").glob("*/config.json")) if chat_model(p.parent)]
MODELS = OWN + [p for p in (SHARED / "fixtures/models/llama", SHARED / "fixtures/models/qwen3") if p.exists() and chat_model(p)]
PROMPT = "\033[?2004h\r\033[J>>> "  # as drawn first for an entry; the keys that follow draw without the mode switch
MORE = "\033[?2004h\r\033[J... "


class Terminal:
    """A gyre process on a pseudo terminal; seen: everything it has shown."""

    def __init__(self, *args, home, cols=80, rows=24, program=GYRE, **env):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.before = termios.tcgetattr(slave)
        full = {**os.environ, "GYRE_HOME": home, "GYRE_CACHE": home + "/cache", "TERM": "xterm", "NO_COLOR": "1", **env}
        for name in [n for n, v in full.items() if v is None]:
            del full[name]
        self.process = subprocess.Popen([program, *args], stdin=slave, stdout=slave, stderr=slave, env=full,
                                        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.slave, self.seen, self.at = slave, "", 0

    def pump(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)

    def expect(self, text, seconds=30):
        """Waits for text after what was expected last; returns what lies between."""
        end = time.time() + seconds * SLOW
        while text not in self.seen[self.at:]:
            if time.time() > end:
                raise AssertionError(f"{text!r} did not come; since the last match: {self.seen[self.at:]!r}")
            self.pump(0.2)
        found = self.seen.index(text, self.at)
        between = self.seen[self.at:found]
        self.at = found + len(text)
        return between

    def send(self, text):
        os.write(self.master, text.encode())

    def line(self, text, then=PROMPT, wait=30):
        """Sends a line at the prompt and returns what came before the next prompt."""
        self.send(text + "\r")
        self.expect("\033[?2004l")
        return self.expect(then, wait)

    def leave(self):
        self.send("/quit\r")
        return self.wait()

    def prompt(self):
        self.expect(PROMPT)

    def wait(self, seconds=30):
        end = time.time() + seconds * SLOW
        while self.process.poll() is None:
            if time.time() > end:
                self.process.kill()
                raise AssertionError(f"did not end; it showed {self.seen!r}")
            self.pump(0.1)
        while self.pump(0.05):
            pass
        return self.process.returncode

    def sane(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@unittest.skipUnless(MODELS, "notice: no tiny model with tokenizer and template (needs ../shared)")
class Chat(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.home = self.dir.name + "/new/home"
        self.open = []

    def tearDown(self):
        for t in self.open:
            t.close()
        self.dir.cleanup()

    def start(self, *flags, model=MODELS[0] if MODELS else None, prompt=True, **env):
        sizes = {k: env.pop(k) for k in ("cols", "rows") if k in env}
        t = Terminal("run", str(model), "--seed", "1", "-n", "8", "--threads", "1", *flags, home=self.home, **sizes, **env)
        self.open.append(t)
        if prompt:
            t.prompt()
        return t

    def saved(self, t):
        path = self.dir.name + "/saved.json"
        t.line("/save " + path)
        return json.loads(pathlib.Path(path).read_text())["messages"]

    def questions(self, t):
        return [m["content"] for m in self.saved(t) if m["role"] == "user"]

    def test_every_model_answers(self):
        for model in MODELS:
            t = self.start(model=model)
            t.line("Hello")
            messages = self.saved(t)
            self.assertEqual([m["role"] for m in messages], ["user", "assistant"], model)
            self.assertEqual(t.seen.count("\033[31m"), 0)

    def test_editing_keys(self):
        keys = [("abc\033[D\033[DX", "aXbc"), ("bc\x01a\x05d", "abcd"), ("abc\033[H>\033[F<", ">abc<"), ("abcd\033[D\033[D\x7f", "acd"),
                ("abcd\x01\x04", "bcd"), ("abcd\033[D\033[3~", "abc"), ("one two\x17three", "one three"),
                ("one two\x15three", "three"), ("one two\033b\x0bX", "one X"), ("ab\x01\x0b\x19\x19", "abab"),
                ("one two\x01\033fX", "oneX two"), ("one two\x01\033[1;5CX", "oneX two"), ("h\u00e4\u4e16\x7fx", "h\u00e4x"),
                ("\u00e4b\033[D\033[Dc", "c\u00e4b"), ("a\033[99~b", "ab"), ("a\x02b\x06c", "bac")]
        t = self.start("-n", "1")
        for typed, _ in keys:
            t.line(typed)
        self.assertEqual(self.questions(t), [text for _, text in keys])

    def test_long_lines_and_narrow_screens(self):
        t = self.start("-n", "1", cols=20, rows=5)
        text = "".join(chr(97 + i % 26) for i in range(230))
        t.line(text + "\x01[\x05]")
        self.assertEqual(self.questions(t), ["[" + text + "]"])

    def test_history_across_sessions(self):
        t = self.start("-n", "1")
        for text in ("first question", "second \\\\ question", "third"):
            t.line(text)
        t.line("two\\", then=MORE)
        t.send("lines\r")
        t.prompt()
        self.assertEqual(t.leave(), 0)
        path = pathlib.Path(self.home) / "history"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        t = self.start("-n", "1")
        t.line("draft\033[A\033[A\033[A\033[A\033[A")  # /quit, two lines (two keys), third, second
        t.send("\x12first\r")  # Ctrl-R
        t.expect("search 'first': first question")
        t.prompt()
        t.send("draft\033[A\033[B\033[B!\r")
        t.prompt()
        asked = self.questions(t)
        self.assertEqual(asked, ["second \\\\ question", "first question", "draft!"])

    def test_several_lines(self):
        t = self.start("-n", "1")
        t.line("one\\", then=MORE)
        t.send("two\r")
        t.prompt()
        t.line('"""', then=MORE)
        t.send("three\r")
        t.expect(MORE)
        t.send("\r")
        t.expect(MORE)
        t.send('four"""\r')
        t.prompt()
        t.line('"""five"""')
        self.assertEqual(self.questions(t), ["one\ntwo", "three\n\nfour", "five"])

    def test_bracketed_paste(self):
        t = self.start("-n", "1")
        self.assertIn("\033[?2004h", t.seen)
        t.send("<\033[200~one\rtwo\tx\x03\x1b[Athree\r\033[201~>\r")
        t.prompt()
        self.assertIn("\033[?2004l", t.seen)
        self.assertEqual(self.questions(t), ["<one\ntwo\tx[Athree>"])

    def test_typed_ahead(self):
        t = self.start("-n", "1")
        t.send("one\rtwo\rthree\r")
        for _ in range(3):
            t.prompt()
        self.assertEqual(self.questions(t), ["one", "two", "three"])

    def test_commands(self):
        t = self.start()
        told = t.line("/help")
        for name in ("/clear", "/system", "/set", "/save", "/load", "/think", "/nothink", "/retry", "/undo", "/tokens", "/quit"):
            self.assertIn(name, told)
        self.assertIn("not a command", t.line("/fly"))
        self.assertIn("nothing to undo", t.line("/undo"))
        self.assertIn("nothing to answer", t.line("/retry"))
        self.assertIn("0 of ", t.line("/tokens"))
        t.line("Hello")
        used = int(re.search(r"(\d+) of \d+ positions", t.line("/tokens"))[1])
        self.assertGreater(used, 0)
        first = self.saved(t)
        t.line("Again")
        self.assertEqual(len(self.saved(t)), 4)
        t.line("/undo")
        self.assertEqual(self.saved(t), first)
        t.line("/retry")
        self.assertEqual(self.saved(t), first, "the seed is fixed, so the answer is the same")
        t.line("/set temp 0")
        t.line("/retry")
        greedy = self.saved(t)
        t.line("/retry")
        self.assertEqual(self.saved(t), greedy)
        self.assertIn("unknown flag", t.line("/set tempp 1"))
        self.assertIn("is not a number", t.line("/set temp hot"))
        self.assertIn("expected /set", t.line("/set temp"))
        t.line("/clear")
        self.assertEqual(self.saved(t), [])
        self.assertIn("0 of ", t.line("/tokens"))
        t.line("/system Be brief.")
        t.line("Hi")
        self.assertEqual([m["role"] for m in self.saved(t)], ["system", "user", "assistant"])
        t.line("/clear")
        self.assertEqual(self.saved(t), [{"role": "system", "content": "Be brief."}])
        self.assertEqual(t.leave(), 0)
        self.assertTrue(t.sane())

    def test_save_and_load(self):
        t = self.start()
        t.line("Hello")
        messages = self.saved(t)
        t.line("/clear")
        self.assertIn("loaded 2 messages", t.line("/load " + self.dir.name + "/saved.json"))
        self.assertEqual(self.saved(t), messages)
        bad = pathlib.Path(self.dir.name) / "bad.json"
        for text in ("{", "[]", '{"messages":[{"role":"user"}]}', '{"messages":[{"role":"x\\"y","content":"z"}]}'):
            bad.write_text(text)
            self.assertNotIn("loaded", t.line(f"/load {bad}"))
            self.assertEqual(self.saved(t), messages, text)
        self.assertIn("No such file", t.line("/load /nowhere/x.json"))
        self.assertIn("No such file", t.line("/save /nowhere/x.json"))

    def test_writes_behind_at_the_prompt(self):
        """A chat that is killed at its prompt has its prefixes in the folder, each page whole."""
        folder = self.dir.name + "/prefixes"
        question = "why " * 60
        for term in ("xterm", "dumb"):
            t = self.start("--cache-dir", folder, prompt=False, TERM=term)
            t.expect(">>> ")
            t.send(question + "\r")
            deadline = time.monotonic() + 30 * SLOW
            while len(list(pathlib.Path(folder).glob("*.kv"))) < 2 and time.monotonic() < deadline:
                t.pump(0.05)
            t.process.kill()
            t.process.wait()
            pages = list(pathlib.Path(folder).glob("*.kv"))
            self.assertGreaterEqual(len(pages), 2, term)
            for page in pages:
                self.assertEqual(int.from_bytes(page.read_bytes()[16:24], "little"), page.stat().st_size)
                page.unlink()

    def test_think_reaches_the_template(self):
        template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ 'T' * 40 if enable_thinking else 'N' }}"
        t = self.start("--chat-template", template)
        counts = []
        for command in ("/think", "/nothink"):
            t.line("/clear")
            t.line(command)
            t.line("Hello")
            counts.append(int(re.search(r"(\d+) of \d+ positions", t.line("/tokens"))[1]))
        self.assertGreater(counts[0], counts[1])

    def test_ctrl_c_stops_an_answer(self):
        t = self.start("-n", "20000", "--ignore-eos", "-c", "30000")
        t.send("Hello\r")
        t.expect("\r\n")
        for _ in range(50):
            t.pump(0.1)
            if len(t.seen) > t.at + 20:
                break
        t.send("\x03")
        t.expect("(stopped", 20)
        t.prompt()
        t.line("/set max-tokens 1")
        t.line("More")
        roles = [m["role"] for m in self.saved(t)]
        self.assertEqual(roles, ["user", "assistant", "user", "assistant"])
        self.assertGreater(len(self.saved(t)[1]["content"]), 0)
        t.send("\x04")
        self.assertEqual(t.wait(), 0)
        self.assertTrue(t.sane())

    def test_ctrl_c_at_the_prompt(self):
        t = self.start("-n", "1")
        t.send("half a line\x03")
        t.expect("Ctrl-C again")
        t.prompt()
        t.line("whole")
        self.assertEqual(self.questions(t), ["whole"])
        t.send("\x03")
        t.expect("Ctrl-C again")
        t.prompt()
        t.send("\x03")
        self.assertEqual(t.wait(), 130)
        self.assertTrue(t.sane())

    def test_ctrl_c_twice_leaves_an_answer(self):
        t = self.start("-n", "20000", "--ignore-eos", "-c", "30000")
        t.send("Hello\r")
        t.expect("\r\n")
        t.pump(5)
        t.send("\x03")
        t.expect("(stopped", 20)
        t.prompt()
        t.send("\x03")
        self.assertEqual(t.wait(), 130)
        self.assertTrue(t.sane())

    def test_signals(self):
        for number, code in ((signal.SIGTERM, 143),):
            t = self.start()
            os.kill(t.process.pid, number)
            self.assertEqual(t.wait(), code)
            self.assertTrue(t.sane())
        t = self.start("-n", "20000", "--ignore-eos", "-c", "30000")
        t.send("Hello\r")
        t.expect("\r\n")
        t.pump(5)
        os.kill(t.process.pid, signal.SIGTERM)
        self.assertEqual(t.wait(), 143)
        self.assertTrue(t.sane())

    def test_suspend(self):
        # A shell with job control above it, for a process whose group is orphaned cannot be stopped.
        t = Terminal("-mc", '"$@"; stty -a; echo stopped; fg', "sh", GYRE, "run", str(MODELS[0]), "-n", "1", home=self.home, program="sh")
        self.open.append(t)
        t.prompt()
        t.send("ab\x1a")
        settings = t.expect("stopped\r\n")
        for word in ("icanon", "echo", "isig", "icrnl"):
            self.assertRegex(settings, r"\s" + word)
        t.expect("\033[?2004h")
        t.line("c")
        self.assertEqual(self.questions(t), ["abc"])
        self.assertEqual(t.leave(), 0)

    def test_ctrl_d(self):
        t = self.start("-n", "1")
        t.send("ab\x01\x04\r")
        t.prompt()
        self.assertEqual(self.questions(t), ["b"])
        t.send("\x04")
        self.assertEqual(t.wait(), 0)
        self.assertTrue(t.sane())

    def test_streaming_comes_in_pieces(self):
        t = self.start("-n", "3000", "--ignore-eos", "--arith", "exact", "-c", "8000")
        t.send("Hello\r")
        t.expect("\r\n")
        pieces = 0
        while PROMPT not in t.seen[t.at:] and pieces < 20:
            pieces += t.pump(5)
        self.assertGreaterEqual(pieces, 20, "an answer of 3000 tokens is shown as it comes")
        t.send("\x03")

    def test_tab_completes_commands(self):
        t = self.start("-n", "1")
        t.send("/tok\t\r")
        t.expect("positions used")
        t.prompt()
        t.send("/s\t")
        t.expect("/system /set /save ")
        t.send("\x15\r")
        t.prompt()

    def test_context_full_keeps_the_chat(self):
        t = self.start("-c", "64", "-n", "4")
        self.assertIn("context", t.line("word " * 100))
        self.assertEqual(self.saved(t), [])
        t.line("Hi")
        self.assertEqual(len(self.saved(t)), 2)

    def test_dumb_terminal(self):
        t = self.start("-n", "2", TERM="dumb", prompt=False)
        t.expect(">>> ")
        for text in ("Hello", "/tokens"):
            t.send(text + "\r")
            t.expect("\r\n")
            t.expect(">>> ")
        self.assertNotIn("\033", t.seen)
        t.send("\x04")
        self.assertEqual(t.wait(), 0)

    def test_prefill_progress(self):
        t = self.start("--chunk", "8", "-n", "1", "-c", "4000")
        t.send("\033[200~" + "word and more " * 300 + "\033[201~\r")
        t.expect("\r\033[Kprompt: ", 60)
        t.expect("tokens/s")
        t.expect("\r\033[K")
        t.prompt()
        self.assertNotIn("\r\033[K", t.seen[t.seen.rindex("tokens/s") + 12:].replace("\r\033[K", "", 1), "the line is removed")


@unittest.skipUnless(MODELS, "notice: no tiny model with tokenizer and template (needs ../shared)")
class Reasoning(unittest.TestCase):
    """A model that always says the same: a template that opens the reasoning, and tokens forced by logit order, are
    not at hand, so the filter is shown on the state that the prompt leaves."""

    def run_gyre(self, template, *flags, **env):
        with tempfile.TemporaryDirectory() as home:
            t = Terminal("run", str(MODELS[0]), "Hello", "-n", "12", "--temp", "0", "--ignore-eos", "--chat-template", template, *flags,
                         home=home, **{"NO_COLOR": None, **env})
            code = t.wait()
            seen = t.seen
            t.close()
        self.assertEqual(code, 0, seen)
        return seen

    def test_open_reasoning_is_dim(self):
        body = "{% for m in messages %}{{ m.content }}{% endfor %}"
        inside, outside = body + "<think>\n", body + "<think>\n</think>\n"
        self.assertIn("\033[2m", self.run_gyre(inside))
        self.assertIn("\033[0m", self.run_gyre(inside))
        self.assertNotIn("\033[2m", self.run_gyre(outside))
        self.assertNotIn("\033[2m", self.run_gyre(inside, NO_COLOR="1"))
        self.assertEqual(self.run_gyre(inside, "--no-show-reasoning").strip(), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
