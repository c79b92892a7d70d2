#!/usr/bin/env python3
"""Resident memory against `gyre fit`: how much a KV cache really takes, per codec.

For every codec the peak RSS of `gyre bench` is measured at two depths. Between them only the KV memory differs, so their
difference is compared with the projected one; the whole is shown beside the projected total and what any run of the program
takes. Fails when a difference is off by more than --percent.
"""
import argparse
import json
import os
import subprocess


def peak(cmd):
    """Peak RSS of a command, in bytes."""
    pid = os.posix_spawnp(cmd[0], cmd, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(cmd)}")
    return usage.ru_maxrss * 1024


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("model")
    a.add_argument("--gyre", default="build/release/gyre")
    a.add_argument("--kv", default="f32,f16,q8,q4,turbo-k8v3")
    a.add_argument("--depths", default="512,4096", help="two, ascending")
    a.add_argument("--percent", type=float, default=3)
    a.add_argument("-t", default="2")
    o = a.parse_args()
    low, high = (int(d) for d in o.depths.split(","))
    base = peak([o.gyre, "tokenize", o.model, "x"])
    off = 0
    print(f"| kv | bytes/token | projected, {low} to {high} | measured | off | whole, measured | projected + program |")
    print("|---|---|---|---|---|---|---|")
    for kv in o.kv.split(","):
        rss, need = [], []
        for depth in (low, high):
            rss.append(peak([o.gyre, "bench", o.model, "-p", "0", "-n", "4", "-d", str(depth), "-r", "1", "-t", o.t, "--kv", kv]))
            fit = subprocess.run([o.gyre, "fit", o.model, "--json", "--kv", kv, "--ctx", str(depth + 4), "-t", o.t], check=True,
                                 capture_output=True, text=True)
            need.append(json.loads(fit.stdout)["codecs"][0])
        want, got = need[1]["total"] - need[0]["total"], rss[1] - rss[0]
        percent = 100 * (got - want) / want
        off = max(off, abs(percent))
        print(f"| {kv} | {need[1]['kv_bytes_token']} | {want} | {got} | {percent:+.2f} % | {rss[1] / 1e6:.1f} MB | "
              f"{(need[1]['total'] + base) / 1e6:.1f} MB |", flush=True)
    if off > o.percent:
        raise SystemExit(f"off by {off:.2f} %, allowed {o.percent} %")


if __name__ == "__main__":
    main()
