#!/usr/bin/env bash
# serve-ray.sh: runs native-demo/deploy/ray_serve.py on a Ray of its own with three replicas of `wisp serve`, kills servers and
# replicas under load, and lets the number of replicas follow the load. Takes about two minutes, most of them Ray's.
#
# Without pip or its registry, it prints `skipped: …`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly VENV=$TARGET_DIR/serve-clients/ray

mkdir -p "${VENV%/*}"
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" || { echo "skipped: no Python with venv"; exit 0; }
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check 'ray[serve]' httpx ||
  { echo "skipped: pip cannot install Ray"; exit 0; }
cargo build --locked --workspace --features candle,wisp-llm/cuda,wisp-llm/otel,wisp-tests/cuda,wisp-engine/faults --bins
"$VENV/bin/python" tests/scripts/serve_ray.py "$TARGET_DIR/debug/wisp"
