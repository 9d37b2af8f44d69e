#!/usr/bin/env bash
# serve-clients.sh: runs clients that others wrote against a live `wisp serve`: Python's `openai` (tests/scripts/serve_clients.py)
# and, with Node, npm's `openai` (tests/scripts/serve_clients.mjs). They are installed into the target folder.
#
#   serve-clients.sh [ENCODER]     ENCODER: a folder or repository with an encoder, for embeddings
#
# Without pip or the registry, it prints `skipped: …`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly TARGET_DIR CLIENTS=$TARGET_DIR/serve-clients WISP=$TARGET_DIR/debug/wisp
[ -x "$WISP" ] || cargo build --locked -p wisp-llm
mkdir -p "$CLIENTS"

# Starts a server in the background; its address is the first line that it prints.
start() {
  export WISP_API_KEY=test-key
  "$WISP" serve --port 0 --device host --model "tiny=native-demo/model/wisp-tiny.gguf" "$@" >"$CLIENTS/address" 2>"$CLIENTS/log" &
  SERVER=$!
  trap 'kill "$SERVER" 2>/dev/null || true' EXIT
  for _ in $(seq 600); do
    ADDRESS=$(head -n 1 "$CLIENTS/address")
    if [ -n "$ADDRESS" ] && curl -sf "$ADDRESS/health" >/dev/null; then return; fi
    kill -0 "$SERVER" 2>/dev/null || break
    sleep 0.1
  done
  cat "$CLIENTS/log" >&2
  return 1
}

run_python() {
  local python=$CLIENTS/venv/bin/python
  [ -x "$python" ] || python3 -m venv "$CLIENTS/venv" || { echo "skipped: no Python with venv"; return; }
  if ! "$python" -c 'import openai' 2>/dev/null; then
    "$python" -m pip install --quiet --disable-pip-version-check openai || { echo "skipped: pip cannot install openai"; return; }
  fi
  "$python" tests/scripts/serve_clients.py "$ADDRESS" "$@"
}

run_node() {
  command -v npm >/dev/null || { echo "skipped: no npm"; return; }
  if [ ! -d "$CLIENTS/node_modules/openai" ]; then
    npm install --silent --no-fund --no-audit --prefix "$CLIENTS" openai || { echo "skipped: npm cannot install openai"; return; }
  fi
  # Modules are found from the folder of the file.
  cp tests/scripts/serve_clients.mjs "$CLIENTS"
  node "$CLIENTS/serve_clients.mjs" "$ADDRESS"
}

if [ $# -gt 0 ]; then start --model "encoder=$1"; else start; fi
run_python "${1:+encoder}"
run_node
