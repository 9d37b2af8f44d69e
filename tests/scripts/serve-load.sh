#!/usr/bin/env bash
# serve-load.sh [SECONDS] [CLIENTS]: runs `serve::load` of the program's tests for longer and with more clients than CI does, by
# default for five minutes with 200: each stream must be what its request gets alone, memory must not grow, and the counters
# must add up.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly BUILT=(--locked --workspace --features candle,wisp-llm/cuda,wisp-llm/otel,wisp-tests/cuda,wisp-engine/faults)
export WISP_LOAD_SECONDS=${1:-300} WISP_LOAD_CLIENTS=${2:-200} WISP_LOAD_ROUNDS=4
cargo build "${BUILT[@]}" --bins
cargo test "${BUILT[@]}" --test program -- serve::load --nocapture
