#!/usr/bin/env python3
"""gyre get against a local server that speaks the hub's API: layout, digests, resume, ranges, errors."""
import fcntl
import hashlib
import http.server
import json
import os
import pathlib
import pty
import select
import subprocess
import tempfile
import termios
import threading
import time
import unittest
import urllib.parse

GYRE = os.environ["GYRE_BIN"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BIG = bytes(range(256)) * 4096  # 1 MiB
FILES = {"config.json": b'{"model_type": "llama"}', "model.safetensors": BIG, "notes/extra.txt": b"not fetched",
         "tokenizer.json": b"{}", "additional_chat_templates/tool use #1%.jinja": b"{{ tools }}",
         "consolidated.safetensors": b"the same weights again", "onnx/model.safetensors": b"and again"}


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wrong_bytes = break_after = None
    ranges_honoured = True
    evil_name = None
    slow = False
    log = []

    def log_message(self, *args):
        pass

    def listing(self):
        siblings = []
        for name, data in FILES.items():
            entry = {"rfilename": name, "size": len(data), "blobId": git_sha1(data)}
            if name.endswith(".safetensors"):
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            siblings.append(entry)
        if Hub.evil_name:
            siblings.append({"rfilename": Hub.evil_name, "size": 1, "blobId": "0" * 40})
        return json.dumps({"sha": COMMIT, "siblings": siblings}).encode()

    def do_GET(self):
        Hub.log.append((self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        start, name = 0, ""
        if self.path.startswith(("/api/models/org/tiny/revision/main?", "/api/models/org/tiny/revision/refs%2Fpr%2F1?")):
            data = self.listing()
        elif self.path.startswith(f"/org/tiny/resolve/{COMMIT}/"):
            name = urllib.parse.unquote(self.path.split(COMMIT + "/")[1])
            data = FILES.get(name)
            if data is None:
                return self.send_error(404)
            if Hub.wrong_bytes and name == "model.safetensors":
                data = data[:-1] + b"X"
        else:
            return self.send_error(404)
        if self.headers.get("Range") and Hub.ranges_honoured:
            start = int(self.headers["Range"].split("=")[1].split("-")[0])
            if start >= len(data):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        body = data[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if Hub.break_after and name == "model.safetensors" and start == 0:
            self.wfile.write(body[:Hub.break_after])
            self.close_connection = True
            self.connection.close()
            return
        while Hub.slow and body:
            try:
                self.wfile.write(body[:20000])
            except OSError:
                return
            body = body[20000:]
            time.sleep(0.02)
        self.wfile.write(body)


class GetTest(unittest.TestCase):
    def setUp(self):
        Hub.wrong_bytes = Hub.break_after = Hub.evil_name = None
        Hub.ranges_honoured, Hub.slow, Hub.log = True, False, []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        self.server.handle_error = lambda *args: None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.dir = tempfile.TemporaryDirectory()
        self.cache = pathlib.Path(self.dir.name) / "hub"
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.repo = self.cache / "models--org--tiny"

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.dir.cleanup()

    def get(self, *args, **env):
        full = {**os.environ, "HF_HUB_CACHE": str(self.cache), "HF_ENDPOINT": self.url, "GYRE_HOME": self.dir.name + "/home",
                "HF_HUB_OFFLINE": "", "HF_TOKEN": "", **env}
        return subprocess.run([GYRE, "get", *args], capture_output=True, text=True, env=full, timeout=60)

    def test_layout(self):
        done = self.get("org/tiny", HF_TOKEN="secret")
        self.assertEqual(done.returncode, 0, done.stderr)
        snapshot = self.repo / "snapshots" / COMMIT
        self.assertEqual(done.stdout.strip(), str(snapshot))
        self.assertEqual((self.repo / "refs" / "main").read_text(), COMMIT)
        for name in ("config.json", "model.safetensors", "tokenizer.json", "additional_chat_templates/tool use #1%.jinja"):
            self.assertEqual((snapshot / name).read_bytes(), FILES[name])
            self.assertTrue((snapshot / name).is_symlink())
        for name in ("notes", "consolidated.safetensors", "onnx"):
            self.assertFalse((snapshot / name).exists(), name)
        self.assertTrue((self.repo / "blobs" / hashlib.sha256(BIG).hexdigest()).exists())
        self.assertTrue((self.repo / "blobs" / git_sha1(FILES["config.json"])).exists())
        self.assertTrue(all(auth == "Bearer secret" for _, _, auth in Hub.log))
        before = len(Hub.log)
        self.assertEqual(self.get("org/tiny").returncode, 0)
        self.assertEqual(len(Hub.log), before + 1, "a second get asks only for the listing")
        offline = self.get("org/tiny", "--offline")
        self.assertEqual((offline.returncode, offline.stdout.strip()), (0, str(snapshot)))

    def test_revision_with_slashes(self):
        done = self.get("org/tiny", "--revision", "refs/pr/1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.repo / "refs" / "refs" / "pr" / "1").read_text(), COMMIT)

    def test_resume_of_partial_file(self):
        blobs = self.repo / "blobs"
        blobs.mkdir(parents=True)
        (blobs / (hashlib.sha256(BIG).hexdigest() + ".incomplete")).write_bytes(BIG[:300000])
        done = self.get("org/tiny")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("bytes=300000-", [r for p, r, _ in Hub.log if p.endswith("model.safetensors")])
        self.assertEqual((self.repo / "snapshots" / COMMIT / "model.safetensors").read_bytes(), BIG)

    def test_broken_transfer_is_resumed(self):
        Hub.break_after = 100000
        done = self.get("org/tiny")
        self.assertEqual(done.returncode, 0, done.stderr)
        ranges = [r for p, r, _ in Hub.log if p.endswith("model.safetensors")]
        self.assertEqual(ranges[0], None)
        self.assertTrue(ranges[1].startswith("bytes="), ranges)
        self.assertEqual((self.repo / "snapshots" / COMMIT / "model.safetensors").read_bytes(), BIG)

    def test_server_without_ranges(self):
        Hub.ranges_honoured = False
        blobs = self.repo / "blobs"
        blobs.mkdir(parents=True)
        (blobs / (hashlib.sha256(BIG).hexdigest() + ".incomplete")).write_bytes(b"?" * 5000)
        done = self.get("org/tiny")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.repo / "snapshots" / COMMIT / "model.safetensors").read_bytes(), BIG)

    def on_terminal(self, interrupt_at=None):
        """Runs get on a pseudo terminal; returns exit code, what it showed, and whether the settings are as before."""
        Hub.slow = True
        master, slave = pty.openpty()
        before = termios.tcgetattr(slave)
        env = {**os.environ, "HF_HUB_CACHE": str(self.cache), "HF_ENDPOINT": self.url, "GYRE_HOME": self.dir.name + "/home",
               "HF_HUB_OFFLINE": "", "HF_TOKEN": "", "TERM": "xterm"}
        process = subprocess.Popen([GYRE, "get", "org/tiny"], stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        shown, end = b"", time.time() + 60
        while time.time() < end and (process.poll() is None or select.select([master], [], [], 0.1)[0]):
            if select.select([master], [], [], 0.1)[0]:
                shown += os.read(master, 65536)
                if interrupt_at and interrupt_at in shown:
                    os.write(master, b"\x03")
                    interrupt_at = None
        code, sane = process.wait(1), termios.tcgetattr(slave) == before
        os.close(master)
        os.close(slave)
        return code, shown.decode(), sane

    def test_progress_on_a_terminal(self):
        start = time.time()
        code, shown, sane = self.on_terminal()
        took = time.time() - start
        self.assertEqual((code, sane), (0, True), shown)
        lines = shown.split("\r\x1b[K")
        self.assertGreater(len(lines), 5, "a line that is drawn again")
        self.assertLessEqual(len(lines), 10 * took + 2 * len(FILES) + 3, "at most ten a second, and the last of a file")
        self.assertTrue(any("model.safetensors" in line and "B/s, " in line and "left" in line for line in lines), lines)
        self.assertTrue(lines[-1].rstrip().endswith(COMMIT) and lines[-1].count("\n") == 1, "the line is gone, the path is shown")

    def test_interrupt_keeps_what_came(self):
        code, shown, sane = self.on_terminal(interrupt_at=b"model.safetensors")
        self.assertEqual((code, sane), (130, True), shown)
        part = self.repo / "blobs" / (hashlib.sha256(BIG).hexdigest() + ".incomplete")
        self.assertGreater(part.stat().st_size, 0)
        self.assertEqual(BIG[:part.stat().st_size], part.read_bytes())
        Hub.slow = False
        self.assertEqual(self.get("org/tiny").returncode, 0)
        self.assertEqual((self.repo / "snapshots" / COMMIT / "model.safetensors").read_bytes(), BIG)

    def test_plain_progress(self):
        done = self.get("org/tiny")
        self.assertNotIn("\r", done.stderr)
        self.assertNotIn("\x1b", done.stderr + done.stdout)

    def test_rm_and_gc(self):
        self.assertEqual(self.get("org/tiny").returncode, 0)
        stray = self.repo / "blobs" / "stray.incomplete"
        fresh = self.repo / "blobs" / "fresh.incomplete"
        for path in (stray, fresh):
            path.write_bytes(b"x" * 1000)
        for path in (self.repo / "blobs").iterdir():
            if path != fresh:
                os.utime(path, (1, 1))
        env = {**os.environ, "HF_HUB_CACHE": str(self.cache), "GYRE_HOME": self.dir.name + "/home"}

        def run(*args):
            return subprocess.run([GYRE, *args], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, timeout=60)
        self.assertEqual(run("gc").returncode, 2, "no terminal to ask on")
        self.assertTrue(stray.exists())
        done = run("gc", "--yes", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["deleted"]), (0, 1), done.stderr)
        self.assertEqual((stray.exists(), fresh.exists()), (False, True))
        self.assertEqual((self.repo / "snapshots" / COMMIT / "model.safetensors").read_bytes(), BIG)
        outside = pathlib.Path(self.dir.name) / "own"
        outside.mkdir()
        for name in ("config.json", "model.safetensors"):
            (outside / name).write_bytes(FILES[name])
        self.assertEqual(run("rm", str(outside), "--yes").returncode, 2, "a user's own folder is not deleted")
        self.assertTrue((outside / "config.json").exists())
        self.assertEqual(run("rm", "org/tiny").returncode, 2)
        self.assertEqual(run("rm", "org/absent", "--yes").returncode, 3)
        self.assertEqual(run("rm", "org/tiny", "--yes").returncode, 0)
        self.assertFalse(self.repo.exists())

    def test_run_pulls_only_when_told(self):
        env = {**os.environ, "HF_HUB_CACHE": str(self.cache), "HF_ENDPOINT": self.url, "GYRE_HOME": self.dir.name + "/home",
               "HF_HUB_OFFLINE": "", "HF_TOKEN": ""}

        def run(*args):
            return subprocess.run([GYRE, *args], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, timeout=60)
        for args in (["run", "org/tiny", "Hi"], ["inspect", "org/tiny"]):
            self.assertEqual(run(*args).returncode, 3)
        self.assertEqual(Hub.log, [], "nothing is asked of the network unless told")
        done = run("run", "org/tiny", "Hi", "--pull")
        self.assertIn("downloading org/tiny", done.stderr)
        self.assertEqual((self.repo / "snapshots" / COMMIT / "model.safetensors").read_bytes(), BIG)
        self.assertEqual(done.returncode, 3, "what was fetched is no model")
        self.assertEqual(run("run", "org/absent", "Hi", "--pull").returncode, 3)
        env["HF_ENDPOINT"] = "http://127.0.0.1:1"
        self.assertEqual(run("run", "org/other", "Hi", "--pull").returncode, 5)

    def test_wrong_bytes(self):
        Hub.wrong_bytes = True
        done = self.get("org/tiny")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("model.safetensors", done.stderr)
        self.assertFalse((self.repo / "snapshots" / COMMIT / "model.safetensors").exists())
        self.assertFalse((self.repo / "refs" / "main").exists())

    def test_verify_mends_a_damaged_blob(self):
        self.assertEqual(self.get("org/tiny").returncode, 0)
        blob = self.repo / "blobs" / hashlib.sha256(BIG).hexdigest()
        blob.write_bytes(b"Y" + BIG[1:])
        self.assertEqual(self.get("org/tiny", "--verify").returncode, 0)
        self.assertEqual(blob.read_bytes(), BIG)

    def test_names_outside_the_repository(self):
        for name in ("../evil.json", "/etc/evil.json", "a/../../evil.json"):
            Hub.evil_name = name
            done = self.get("org/tiny", "--include", "*")
            self.assertNotEqual(done.returncode, 0, name)
            self.assertFalse(list(pathlib.Path(self.dir.name).rglob("evil.json")), name)

    def test_errors(self):
        self.assertEqual(self.get("org/absent").returncode, 3)
        self.assertEqual(self.get("notarepo").returncode, 2)
        self.assertEqual(self.get("org/tiny", "--endpoint", "http://127.0.0.1:1").returncode, 5)
        self.assertEqual(self.get("org/tiny", "--offline").returncode, 3)

    def test_local_dir_and_url(self):
        target = pathlib.Path(self.dir.name) / "plain"
        done = self.get("org/tiny", "--local-dir", str(target), "--json")
        self.assertEqual(json.loads(done.stdout)["path"], str(target))
        self.assertEqual((target / "model.safetensors").read_bytes(), BIG)
        out = pathlib.Path(self.dir.name) / "one.bin"
        url = f"{self.url}/org/tiny/resolve/{COMMIT}/model.safetensors"
        digest = hashlib.sha256(BIG).hexdigest()
        self.assertEqual(self.get("--url", url, "--out", str(out), "--sha256", digest).returncode, 0)
        self.assertEqual(out.read_bytes(), BIG)
        out.unlink()
        self.assertEqual(self.get("--url", url, "--out", str(out), "--sha256", "0" * 64).returncode, 6)
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
