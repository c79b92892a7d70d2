#!/usr/bin/env bash
# Builds for arm64 and runs tests under qemu-user: tools/aarch64.sh [FOLDER [CTEST ARGUMENT...]]
#
# Debian packages: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user. The arm64 libraries are fetched by apt with a
# state of its own and unpacked below FOLDER (default build/aarch64): no root, and the system keeps its packages and
# architectures. Without ctest arguments the tests of the kernels run, and of whole models against committed logits.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/aarch64}
[ $# = 0 ] || shift
[ $# -gt 0 ] || set -- -j2 -R '^(lanes|linear|rows|math|attn|scan|moe|kvdec|codec|numerics|bits)$'
for p in aarch64-linux-gnu-gcc qemu-aarch64 cmake ninja; do
    command -v "$p" >/dev/null || { echo "$0: needs $p" >&2; exit 1; }
done
mkdir -p "$out"
out=$(cd "$out" && pwd)

if [ ! -e "$out/sysroot/done" ]; then
    apt=$out/apt
    mkdir -p "$apt"/{state/lists/partial,cache/archives/partial} "$out/sysroot"
    : >"$apt/state/status"
    options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$apt/state" -o "Dir::Cache=$apt/cache"
        -o "Dir::State::status=$apt/state/status" -o APT::Sandbox::User=)
    apt-get "${options[@]}" update
    apt-get "${options[@]}" install -y --download-only --no-install-recommends \
        libcurl4-openssl-dev libssl-dev libcmocka-dev >/dev/null
    for deb in "$apt"/cache/archives/*.deb; do dpkg -x "$deb" "$out/sysroot"; done
    rm -r "$apt"
    touch "$out/sysroot/done"
fi

cmake -S . -B "$out/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGY_WERROR=ON --toolchain "$PWD/cmake/aarch64.cmake" \
    -DGY_SYSROOT="$out/sysroot" >/dev/null
ninja -C "$out/build" --quiet
ctest --test-dir "$out/build" --output-on-failure "$@"
