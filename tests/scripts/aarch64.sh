#!/usr/bin/env bash
# aarch64.sh: runs the tests of the host's kernels and of the encodings as a 64-bit ARM processor runs them, emulated by
# qemu: with all that it emulates, and those of products of bytes once each as processors without the newer instructions
# for them. Prints a line for each, or "skipped: WHY" where there is no compiler, linker or emulator. FILTER selects tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=apt.sh
. tests/scripts/apt.sh

readonly TARGET=aarch64-unknown-linux-gnu
# The newest processor, one without I8MM, one without DotProd.
readonly PROCESSORS="max neoverse-n1 cortex-a72"

skip() { echo "skipped: $*"; exit 0; }

[ "$(uname -sm)" = "Linux x86_64" ] || skip "aarch64 is emulated on Linux on x86-64 only"
if ! [ -d "$(rustc --print target-libdir --target "$TARGET")" ]; then
  rustup target add "$TARGET" >&2 || skip "rustup cannot fetch the standard library for $TARGET"
fi
if ! command -v qemu-aarch64-static >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
  apt_install qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross ||
    skip "no qemu-aarch64-static and aarch64-linux-gnu-gcc: install qemu-user-static and gcc-aarch64-linux-gnu"
fi

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
for QEMU_CPU in $PROCESSORS; do
  export QEMU_CPU
  filters=("$@")
  [ "$QEMU_CPU" = max ] || filters=(int8 instruction_set)
  outcome=$(cargo test --locked --target "$TARGET" -p wisp-weights -p wisp-host --lib --test twins -- "${filters[@]}" 2>&1) || { echo "$outcome"; exit 1; }
  passed=$(awk '/^test result: ok/ { sum += $4 } END { print sum }' <<<"$outcome")
  echo "$QEMU_CPU: $passed passed"
done
