#!/usr/bin/env bash
# check.sh [DEVICE]: checks Wisp on a GPU of this machine, which CI does not have. DEVICE is `cuda` (the default),
# `vulkan`, `metal` or `dx12`, with `:INDEX` for another than the first. tests/gpu/README.md explains the steps.
#
# MODEL=FILE measures that model rather than the built-in one. Everything that is printed also goes to a file in the
# target folder, to be sent in. Without such a device it prints one line, "skipped: …".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly DEVICE=${1:-cuda}
TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly TARGET_DIR WISP=$TARGET_DIR/release/wisp
readonly REPORT=$TARGET_DIR/gpu-check-${DEVICE/:/-}.txt
readonly BUILT=(--locked --workspace --features "wisp-tests/cuda,wisp-llm/cuda,wisp-engine/faults")
export WISP_TEST_DEVICE=$DEVICE

step() { printf '\n== %s\n' "$*"; }

# Runs one test binary on the device.
tests() { cargo test "${BUILT[@]}" --test "$1" -- --nocapture "${@:2}" 2>&1 | grep -vE '^running|^$' | tail -n 40; }

# The kernel suite under one of the tools of NVIDIA's compute-sanitizer.
sanitized() {
  local binary
  binary=$(cargo test "${BUILT[@]}" --test kernels --no-run --message-format=json 2>/dev/null |
    grep -o '"executable":"[^"]*"' | tail -n 1 | cut -d'"' -f4)
  compute-sanitizer --tool "$1" --error-exitcode 1 "$binary" --test-threads 1 2>&1 | tail -n 15
}

check() {
  step "devices"
  cargo build --release --locked -p wisp-llm --features cuda
  "$WISP" devices
  step "kernels against their twins on the host"
  tests kernels
  step "models against their references"
  cargo build "${BUILT[@]}" --bins --examples
  tests engine
  tests program
  if [[ $DEVICE == cuda* ]] && command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck initcheck; do
      step "compute-sanitizer $tool"
      sanitized "$tool"
    done
  elif [[ $DEVICE == cuda* ]]; then
    echo "skipped: no compute-sanitizer on PATH, which is part of the CUDA toolkit"
  fi
  step "speed"
  "$WISP" bench --device "$DEVICE" ${MODEL:+--model "$MODEL"}
  "$WISP" bench --device "$DEVICE" ${MODEL:+--model "$MODEL"} --compare
  "$WISP" tune --device "$DEVICE" ${MODEL:+--model "$MODEL"}
  if [ -n "${MODEL:-}" ] && command -v llama-bench >/dev/null; then
    step "llama.cpp, the same model"
    llama-bench -m "$MODEL"
  else
    echo "skipped: no comparison with llama.cpp, which needs MODEL=FILE.gguf and llama-bench on PATH"
  fi
}

if ! cargo run --quiet --release --locked -p wisp-llm --features cuda -- devices --json |
  grep -q "\"device\": *\"${DEVICE%%:*}"; then
  echo "skipped: this machine has no $DEVICE device"
  exit 0
fi
check 2>&1 | tee "$REPORT"
echo "the report is $REPORT"
