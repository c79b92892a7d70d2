#!/usr/bin/env python3
"""The installed library as another program sees it: headers, pkg-config, the example, what is exported."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

GYRE = pathlib.Path(os.environ["GYRE_BIN"])
BUILD = GYRE.parent
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHARED = pathlib.Path(os.environ.get("GYRE_SHARED") or os.environ["GYRE_TEST_SHARED"])
CHAT = SHARED / "fixtures/models/llama"
CACHE = (BUILD / "CMakeCache.txt").read_text()
SANITIZED = re.search(r"^GY_SANITIZE:\w+=.+$", CACHE, re.M)


@unittest.skipUnless((BUILD / "libgyre.so").exists() and not SANITIZED, "notice: no libgyre.so, or one with sanitizers")
class Install(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.prefix = pathlib.Path(self.dir.name) / "prefix"
        subprocess.run(["cmake", "--install", str(BUILD), "--prefix", str(self.prefix)], check=True, capture_output=True)
        self.env = {**os.environ, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig"), "LD_LIBRARY_PATH": str(self.prefix / "lib"),
                    "GYRE_HOME": self.dir.name + "/home", "GYRE_CACHE": self.dir.name + "/cache"}

    def tearDown(self):
        self.dir.cleanup()

    def build_example(self, *flags):
        found = subprocess.run(["pkg-config", "--cflags", "--libs", "libgyre"], env=self.env, capture_output=True, text=True, check=True)
        hello = self.dir.name + "/hello"
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-std=c17", "-Wall", "-Wextra", "-Werror", *flags, str(ROOT / "examples/hello.c"),
                        *found.stdout.split(), "-o", hello], check=True)
        return hello

    def test_example(self):
        hello = self.build_example()
        done = subprocess.run([hello], env=self.env, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, "usage: hello MODEL QUESTION\n"))
        done = subprocess.run([hello, "/nowhere", "Hi"], env=self.env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere", done.stdout)

    @unittest.skipUnless((CHAT / "tokenizer.json").exists(), "notice: needs ../shared")
    def test_example_answers_as_the_program_does(self):
        hello = self.build_example()
        for question in ("Hello", 'say "hi"\\\n\tnow'):
            one = subprocess.run([hello, str(CHAT), question], env=self.env, capture_output=True, timeout=120)
            two = subprocess.run([str(self.prefix / "bin/gyre"), "generate", str(CHAT), "-p", question, "-n", "200", "--temp", "0"],
                                 env=self.env, capture_output=True, timeout=120)
            self.assertEqual((one.returncode, two.returncode), (0, 0), one.stdout)
            self.assertEqual(one.stdout, two.stdout)
            self.assertGreater(len(one.stdout), 1)

    def test_only_the_public_header_is_exported(self):
        names = subprocess.run(["nm", "-D", "--defined-only", str(self.prefix / "lib/libgyre.so")], capture_output=True, text=True, check=True)
        exported = {line.split()[-1].split("@")[0] for line in names.stdout.splitlines()}
        declared = set(re.findall(r"GY_API [^;]*?\b(gy_\w+)\(", "".join(h.read_text() for h in (ROOT / "include").iterdir())))
        self.assertEqual({n for n in exported if n.startswith("gy_")} - declared, set())
        self.assertEqual(declared - exported, set(), "declared and not there")

    def test_header_alone_and_in_cplusplus(self):
        source = '#include <gyre.h>\n#include <gyre_measure.h>\nint main(void) { return gy_version()[0] == 0; }\n'
        for compiler, suffix, flags in (("cc", "c", ["-std=c11"]), ("c++", "cc", [])):
            if not shutil.which(compiler):
                continue
            path = pathlib.Path(self.dir.name) / f"alone.{suffix}"
            path.write_text(source)
            subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", f"-I{self.prefix}/include", str(path)],
                           check=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
