#!/usr/bin/env python3
"""From exec to the first token, and memory beyond the mapped file: gyre beside llama.cpp.

    bench/start.py --gyre build/release/gyre --peer VENV/bin/python MODEL.gguf ... [-t 2] [-c 512] [--tokens 16] [--rounds 7]

Both get the same text of --tokens tokens and make one token, greedily, with the page cache warm (a run before, not counted). Time is from
the spawn to the first byte on stdout, or to its end when the token has no text. llama.cpp is bench/start_llama.c, built here against the wheel's libllama in a
folder that is removed: llama-cli without its warm-up run. Memory is from further runs: the most RssAnon seen by reading
/proc/PID/status without pause, of all of VmHWM; file pages, the mapped weights, are not in it.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time


def prompt_of(gyre, model, tokens):
    """A text that makes this many tokens, whatever the vocabulary."""
    for word in (" a", "a ", "\n", "~"):
        for n in range(1, 4 * tokens):
            done = subprocess.run([gyre, "tokenize", model, word * n, "--json"], check=True, capture_output=True, text=True)
            count = len(json.loads(done.stdout)["ids"])
            if count == tokens:
                return word * n
            if count > tokens:
                break
    raise SystemExit(f"{model}: no text of {tokens} tokens found")


def build(peer, folder):
    where = subprocess.run([peer, "-c", "import llama_cpp, pathlib; print(pathlib.Path(llama_cpp.__file__).parent)"], check=True,
                           capture_output=True, text=True).stdout.strip().splitlines()[-1]
    lib, include = pathlib.Path(where, "lib"), pathlib.Path(where).parent / "include"
    out = f"{folder}/start_llama"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", pathlib.Path(__file__).with_name("start_llama.c"), "-o", out, f"-I{include}", f"-L{lib}",
                    "-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{lib}"], check=True)
    return out


def seconds(command):
    read, write = os.pipe()
    start = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[
        (os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0), (os.POSIX_SPAWN_CLOSE, read)])
    os.close(write)
    os.read(read, 1)
    took = time.perf_counter() - start
    while os.read(read, 4096):
        pass
    os.close(read)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit(f"failed: {' '.join(command)}")
    return took


def memory(command):
    """Most RssAnon seen and VmHWM, bytes."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = {"RssAnon": 0, "VmHWM": 0}
    while child.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
        except OSError:
            continue
        for line in status.splitlines():
            name, _, value = line.partition(":")
            if name in most:
                most[name] = max(most[name], 1024 * int(value.split()[0]))
    return most["RssAnon"], most["VmHWM"]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("models", nargs="+")
    a.add_argument("--gyre", default="build/release/gyre")
    a.add_argument("--peer", required=True, help="python with llama-cpp-python")
    a.add_argument("-t", default="2")
    a.add_argument("-c", default="512", help="context of both")
    a.add_argument("--tokens", type=int, default=16)
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--json", metavar="FILE")
    o = a.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        llama = build(o.peer, folder)
        print("| model | | gyre | llama.cpp | ratio |\n| --- | --- | ---: | ---: | ---: |")
        for model in o.models:
            text = prompt_of(o.gyre, model, o.tokens)
            commands = ([o.gyre, "generate", model, "--raw", "-p", text, "-n", "1", "--temp", "0", "-t", o.t, "-c", o.c],
                        [llama, model, o.t, o.c, text])
            told = subprocess.run(commands[1], check=True, capture_output=True, text=True, errors="replace").stderr.split()
            if told[-1] != str(o.tokens):
                raise SystemExit(f"{model}: llama.cpp makes {told[-1]} tokens of it, not {o.tokens}")
            seconds(commands[0])
            times = [[], []]
            for _ in range(o.rounds):
                for command, to in zip(commands, times):
                    to.append(seconds(command))
            ours, theirs = map(statistics.median, times)
            name = pathlib.Path(model).name
            print(f"| {name} | first token, ms | {ours * 1e3:.0f} | {theirs * 1e3:.0f} | {ours / theirs:.2f} |")
            mine, other = ([max(v) for v in zip(*(memory(c) for _ in range(3)))] for c in commands)
            for k, what in enumerate(("RssAnon", "VmHWM")):
                print(f"| {name} | peak {what}, MB | {mine[k] / 1e6:.1f} | {other[k] / 1e6:.1f} | {mine[k] / other[k]:.2f} |", flush=True)
            results.append({"model": name, "threads": int(o.t), "tokens": o.tokens, "gyre_s": times[0], "llama.cpp_s": times[1],
                            "gyre_rss_anon": mine[0], "llama.cpp_rss_anon": other[0], "gyre_hwm": mine[1], "llama.cpp_hwm": other[1]})
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
