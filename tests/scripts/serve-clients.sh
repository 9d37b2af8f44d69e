#!/usr/bin/env bash
# serve-clients.sh: runs clients that others wrote against a live `wisp serve`: OpenAI's for Python and for Node, and
# Anthropic's for Python. They
# are installed into the target folder, where the tests of the program find them from then on (`serve::clients`).
#
# Without pip or npm, or without their registries, it prints `skipped: …`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly CLIENTS=$TARGET_DIR/serve-clients
mkdir -p "$CLIENTS"

install_python() {
  [ -x "$CLIENTS/venv/bin/python" ] || python3 -m venv "$CLIENTS/venv" || { echo "skipped: no Python with venv"; return; }
  "$CLIENTS/venv/bin/python" -m pip install --quiet --disable-pip-version-check openai anthropic ||
    echo "skipped: pip cannot install openai and anthropic"
}

install_node() {
  command -v npm >/dev/null || { echo "skipped: no npm"; return; }
  npm install --silent --no-fund --no-audit --prefix "$CLIENTS" openai || echo "skipped: npm cannot install openai"
}

install_python
install_node
readonly BUILT=(--locked --workspace --features candle,wisp-engine/faults)
cargo build "${BUILT[@]}" --bins
cargo test "${BUILT[@]}" --test program -- serve::clients --nocapture --test-threads 1
