#!/usr/bin/env python3
"""gyre beside llama.cpp on the same file: interleaved runs, medians, ratios as a Markdown table.

    bench/compare.py --gyre build/release/gyre --peer VENV/bin/python MODEL.gguf ... [-t 1,2] [-p 512] [-n 128] [-d 0] [-b 1,8] [--rounds 5]
    bench/compare.py ... --twin MODEL.gguf=MLX_FOLDER --json results.json

With -b N a test is of N sequences at once and rates are of all of them together. --quiet CMD is put before every run, such as a
script that stops other jobs meanwhile. --twin: gyre runs the folder (see make_gguf.py) where llama.cpp runs the file.
--json appends every line's runs and medians to a file that bench/plot.py reads.
"""
import argparse
import itertools
import json
import pathlib
import statistics
import subprocess


def run(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def line(o, peer, model, threads, depth, batch):
    """Rates of one setting: {"pp": (ours, theirs), "tg": ...}, a value a round."""
    both = {"pp": ([], []), "tg": ([], [])}
    twin = dict(pair.split("=", 1) for pair in o.twin).get(model, model)
    for _ in range(o.rounds):
        shape = ["-t", threads, "-p", str(o.p), "-n", str(o.n), "-d", depth, "-b", batch]
        for row in run([*o.quiet, o.gyre, "bench", twin, *shape, "-r", "1", "-o", "json", "--arith", o.arith]):
            both["pp" if row["n_prompt"] else "tg"][0].append(row["avg_ts"])
        rates = run([*o.quiet, *peer, model, *shape])
        for name, (_, theirs) in both.items():
            if name in rates:
                theirs.append(rates[name])
    return twin, both


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("models", nargs="+")
    a.add_argument("--gyre", default="build/release/gyre")
    a.add_argument("--peer", required=True, help="python with llama-cpp-python")
    a.add_argument("-t", default="1,2", help="threads, a list")
    a.add_argument("-p", type=int, default=512, help="prompt; 0: none")
    a.add_argument("-n", type=int, default=128, help="tokens generated; 0: none")
    a.add_argument("-d", default="0", help="positions held before, a list")
    a.add_argument("-b", "--batch", default="1", help="sequences at once, a list")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--arith", default="fast")
    a.add_argument("--quiet", default="", type=str.split, metavar="CMD")
    a.add_argument("--twin", action="append", default=[], metavar="GGUF=MLX")
    a.add_argument("--json", metavar="FILE")
    o = a.parse_args()
    peer = [o.peer, str(pathlib.Path(__file__).with_name("peer_llama.py"))]
    results = json.loads(pathlib.Path(o.json).read_text()) if o.json and pathlib.Path(o.json).exists() else []
    print("| model | threads | test | gyre t/s | llama.cpp t/s | ratio |\n| --- | ---: | --- | ---: | ---: | ---: |")
    for model, threads, depth, batch in itertools.product(o.models, o.t.split(","), o.d.split(","), o.batch.split(",")):
        twin, both = line(o, peer, model, threads, depth, batch)
        for name, count in (("pp", o.p), ("tg", o.n)):
            ours, theirs = both[name]
            if not ours or not theirs:
                continue
            mine, other = statistics.median(ours), statistics.median(theirs)
            test = f"{name}{count}" + (f" x{batch}" if batch != "1" else "") + (f" @ d{depth}" if depth != "0" else "")
            label = pathlib.Path(twin).name
            print(f"| {label} | {threads} | {test} | {mine:.1f} | {other:.1f} | {mine / other:.2f} |", flush=True)
            results.append({"model": label, "peer_model": pathlib.Path(model).name, "threads": int(threads), "test": test,
                            "arith": o.arith, "gyre": mine, "llama.cpp": other, "gyre_runs": ours, "llama.cpp_runs": theirs})
        if o.json:  # after every line: a long run that is stopped keeps what it has
            pathlib.Path(o.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
