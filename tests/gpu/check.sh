#!/usr/bin/env bash
# check.sh [DEVICE]: checks Wisp on a GPU of this machine, which CI does not have. DEVICE is `cuda` (the default),
# `vulkan`, `metal` or `dx12`, with `:INDEX` for another than the first. tests/gpu/README.md explains the steps.
#
# MODEL=FILE measures that model rather than the built-in one. FULL=1 runs all kernels under compute-sanitizer rather than
# every eighth, which takes hours. Every step runs; those that failed are listed at the end, and the status is 1. Everything
# that is printed also goes to a file in the target folder, to be sent in. Without such a device it prints one line,
# "skipped: …".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly DEVICE=${1:-cuda}
TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly TARGET_DIR WISP=$TARGET_DIR/release/wisp LOG=$TARGET_DIR/gpu-check-step.log
readonly REPORT=$TARGET_DIR/gpu-check-${DEVICE/:/-}.txt
readonly BUILT=(--locked --workspace --features "wisp-tests/cuda,wisp-llm/cuda,wisp-engine/faults")
export WISP_TEST_DEVICE=$DEVICE
# So that each kernel of the suite is compiled once, and not again under each of compute-sanitizer's tools.
export WISP_TEST_CACHE=$TARGET_DIR/gpu-check-cache

# The kernels that run under compute-sanitizer: every eighth, or all.
SAMPLE=8:0
if [ "${FULL:-}" = 1 ]; then SAMPLE=1:0; fi

failed=()

# Runs a command under a heading. If it fails, that is noted and the next step runs.
step() {
  printf '\n== %s\n' "$1"
  "${@:2}" || failed+=("$1")
}

# Runs a command and prints the end of its output, more of it if the command fails.
brief() {
  local status=0 lines=40
  "$@" >"$LOG" 2>&1 || { status=$?; lines=400; }
  { grep -vE '^running|^$' "$LOG" || true; } | tail -n "$lines"
  return "$status"
}

# Runs the tests of one name on the device.
tests() { brief cargo test "${BUILT[@]}" --no-fail-fast --test "$1" -- --nocapture; }

# The kernel suite under one of the tools of NVIDIA's compute-sanitizer.
sanitized() {
  local binary
  # naga-cuda has tests of this name too.
  binary=$(cargo test "${BUILT[@]}" --test kernels --no-run --message-format=json 2>/dev/null |
    grep -E '"package_id":"[^"]*wisp-tests[@ ]' | grep -o '"executable":"[^"]*"' | tail -n 1 | cut -d'"' -f4) || true
  if [ -z "$binary" ]; then
    echo "cargo has not built the kernel suite"
    return 1
  fi
  brief env WISP_TEST_SAMPLE="$SAMPLE" compute-sanitizer --tool "$1" --error-exitcode 1 "$binary" --test-threads 1
}

check() {
  step "devices" "$WISP" devices
  step "kernels against their twins on the host" tests kernels
  step "the programs that the tests run" brief cargo build "${BUILT[@]}" --bins --examples
  step "models against their references: engine" tests engine
  step "models against their references: program" tests program
  if [[ $DEVICE == cuda* ]] && command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck initcheck; do
      step "compute-sanitizer $tool" sanitized "$tool"
    done
  elif [[ $DEVICE == cuda* ]]; then
    echo "skipped: no compute-sanitizer on PATH, which is part of the CUDA toolkit"
  fi
  step "speed" "$WISP" bench --device "$DEVICE" ${MODEL:+--model "$MODEL"}
  step "speed at two precisions" "$WISP" bench --device "$DEVICE" ${MODEL:+--model "$MODEL"} --compare
  step "tuning" "$WISP" tune --device "$DEVICE" ${MODEL:+--model "$MODEL"}
  if [ -n "${MODEL:-}" ] && command -v llama-bench >/dev/null; then
    step "llama.cpp, the same model" llama-bench -m "$MODEL"
  else
    echo "skipped: no comparison with llama.cpp, which needs MODEL=FILE.gguf and llama-bench on PATH"
  fi
  if [ ${#failed[@]} -gt 0 ]; then
    printf '\n%s failed:\n' "${#failed[@]}"
    printf '  %s\n' "${failed[@]}"
    return 1
  fi
}

cargo build --release --locked -p wisp-llm --features cuda
devices=$("$WISP" devices --json)
if ! grep -q "\"device\": *\"${DEVICE%%:*}" <<<"$devices"; then
  echo "skipped: this machine has no $DEVICE device"
  exit 0
fi
status=0
check 2>&1 | tee "$REPORT" || status=1
echo "the report is $REPORT"
exit "$status"
