#!/usr/bin/env python3
"""gyre beside llama.cpp on the same file: interleaved runs, medians, ratios as a Markdown table.

    bench/compare.py --gyre build/release/gyre --peer VENV/bin/python MODEL.gguf ... [-t 1,2] [-p 512] [-n 128] [-d 0] [--rounds 5]
"""
import argparse
import json
import pathlib
import statistics
import subprocess


def run(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("models", nargs="+")
    a.add_argument("--gyre", default="build/release/gyre")
    a.add_argument("--peer", required=True, help="python with llama-cpp-python")
    a.add_argument("-t", default="1,2")
    a.add_argument("-p", type=int, default=512)
    a.add_argument("-n", type=int, default=128)
    a.add_argument("-d", default="0")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--arith", default="fast")
    o = a.parse_args()
    peer = [o.peer, str(pathlib.Path(__file__).with_name("peer_llama.py"))]
    print("| model | threads | test | gyre t/s | llama.cpp t/s | ratio |\n| --- | ---: | --- | ---: | ---: | ---: |")
    for model in o.models:
        for threads in o.t.split(","):
            for depth in o.d.split(","):
                ours, theirs = {"pp": [], "tg": []}, {"pp": [], "tg": []}
                for _ in range(o.rounds):
                    shape = ["-t", threads, "-p", str(o.p), "-n", str(o.n), "-d", depth]
                    for row in run([o.gyre, "bench", model, *shape, "-r", "1", "-o", "json", "--arith", o.arith]):
                        ours["pp" if row["n_prompt"] else "tg"].append(row["avg_ts"])
                    rates = run([*peer, model, *shape])
                    for name in theirs:
                        if name in rates:
                            theirs[name].append(rates[name])
                for name, count in (("pp", o.p), ("tg", o.n)):
                    if not ours[name] or not theirs[name]:
                        continue
                    mine, other = statistics.median(ours[name]), statistics.median(theirs[name])
                    test = f"{name}{count}" + (f" @ d{depth}" if depth != "0" else "")
                    print(f"| {pathlib.Path(model).name} | {threads} | {test} | {mine:.1f} | {other:.1f} | {mine / other:.2f} |", flush=True)


if __name__ == "__main__":
    main()
