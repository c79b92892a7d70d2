#!/usr/bin/env bash
# Runs every fuzz target for SECONDS each (default 600), two at a time, in build/fuzz. Findings stay in build/fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -- --quiet
mkdir -p build/fuzz/findings build/fuzz/corpus
ls build/fuzz/tests/fuzz_* | grep -v '\.' | xargs -P 2 -I{} sh -c '
    name=$(basename {} | sed s/fuzz_//)
    mkdir -p build/fuzz/corpus/$name
    if {} -max_total_time='"$seconds"' -timeout=5 -rss_limit_mb=1024 -artifact_prefix=build/fuzz/findings/$name- \
        build/fuzz/corpus/$name tests/data/fuzz/$name >build/fuzz/findings/$name.log 2>&1; then
        echo "$name: clean, $(grep -o "stat::number_of_executed_units.*\|Done [0-9]* runs.*" build/fuzz/findings/$name.log | tail -1)"
    else
        echo "$name: FINDING, see build/fuzz/findings/$name.log"; exit 255
    fi'
