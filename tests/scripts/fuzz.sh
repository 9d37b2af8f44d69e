#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET…]: runs the fuzz targets with libFuzzer, each for so many seconds, beginning with the seeds in
# tests/fuzz/corpus. Prints a line for each: inputs executed, edges covered, inputs that reached something new. The
# first finding stops the run, with the path of the input.
#
# It needs a C++ compiler, which builds libFuzzer, and no nightly toolchain: stable has the instrumentation but not the
# sanitizers, which parsers without `unsafe` do not need. Inputs that reached something new stay in the target folder,
# for the next run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../fuzz"

readonly SECONDS_EACH=${1:?say for how many seconds each target runs}
shift
TARGETS=("$@")
if [ ${#TARGETS[@]} = 0 ]; then
  mapfile -t TARGETS < <(sed -n 's/^path = "fuzz_targets\/\(.*\)\.rs"$/\1/p' Cargo.toml)
fi
TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
HOST=$(rustc -vV | sed -n 's/^host: //p')
readonly TARGET_DIR HOST

FLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
FLAGS+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
FLAGS+=" -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
# With a target named, the flags do not apply to build scripts.
RUSTFLAGS=$FLAGS cargo build --quiet --locked --release --target "$HOST"

printf '%-16s %12s %8s %8s %8s\n' target executions edges new seconds
for target in "${TARGETS[@]}"; do
  found=$TARGET_DIR/corpus/$target log=$TARGET_DIR/$target.log
  mkdir -p "$found" "$TARGET_DIR/artifacts"
  options=(-max_total_time="$SECONDS_EACH" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
    -artifact_prefix="$TARGET_DIR/artifacts/$target-")
  if ! "$TARGET_DIR/$HOST/release/$target" "${options[@]}" "$found" "corpus/$target" >"$log" 2>&1; then
    tail -40 "$log"
    echo "fuzz.sh: $target found an input that fails; it lies under $TARGET_DIR/artifacts" >&2
    exit 1
  fi
  stat() { sed -n "s/^stat::$1: *//p" "$log"; }
  edges=$(grep -oE 'cov: [0-9]+' "$log" | tail -1 | cut -d' ' -f2)
  printf '%-16s %12s %8s %8s %8s\n' "$target" "$(stat number_of_executed_units)" "$edges" \
    "$(stat new_units_added)" "$SECONDS_EACH"
done
