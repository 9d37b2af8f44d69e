#!/usr/bin/env bash
# run.sh: installs what Wisp's tests need, then runs every check that a change must pass. CI runs exactly this.
#
# One line a step, with its seconds; the first failure stops the run and shows the end of that step's output, which is
# kept whole in the target folder, under test-logs. A run without arguments takes one of `aarch64`, `fuzz`, `deny` and the
# tests of candle's models, by the commit; one that fuzzes leaves out `cuda`. One run in four tests the page as it ships,
# the others a quick build. `tests/run.sh STEP…`
# runs only the steps named: `vulkan`, `fmt`, `package`, `notices`, `deny`, `clippy`, `build`, `tests`, `aarch64`, `cuda`,
# `web`, `doctests`, `docs`, `gpu-statistics`, `fuzz`, `browser`; or `wasm32`, a quick look at whether wasm32 compiles, which
# the browser's step finds out by itself; `msrv`, whether the oldest supported Rust compiles everything, if rustup has
# it; `faults`, the whole fault list with the faults that take minutes; or `classes`, all tests of models and of the
# browser with the kernels for GPUs on every adapter, and again with those for software adapters, where an ordinary run
# takes each test on the host and half of them on one of the others; or `cuda-all`, every kernel on the emulated CUDA
# device in three orders of threads, and all tests of models on it, which takes hours, where an ordinary run takes a
# sample; or `barriers`, whether the emulated CUDA device notices each single barrier that a kernel lacks; or `kernels`,
# every kernel in every case, where an ordinary run takes a sixth of the products and of attention.
set -euo pipefail
exec </dev/null
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly STEPS="vulkan fmt package notices deny clippy build tests aarch64 cuda web doctests docs gpu-statistics fuzz browser"
readonly MORE="wasm32 msrv faults classes kernels cuda-all barriers"
readonly FAILURE_LINES=150

command -v cargo >/dev/null || { echo "run.sh: cargo is not on PATH: install Rust from https://rustup.rs" >&2; exit 1; }
TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly TARGET_DIR LOGS=$TARGET_DIR/test-logs
mkdir -p "$LOGS"
export CARGO_TERM_COLOR=never

# The same property tests in every run, so that a failure can be had again. Another seed makes other cases:
# PROPTEST_RNG_SEED=7 bash tests/run.sh tests
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-20261}

# Vulkan's loader wants a private folder, and complains in every test when there is none.
if [ -z "${XDG_RUNTIME_DIR:-}" ]; then
  XDG_RUNTIME_DIR=$(mktemp -d)
  export XDG_RUNTIME_DIR
  own_runtime_dir=$XDG_RUNTIME_DIR
fi

end() {
  if [ -n "${own_runtime_dir:-}" ]; then rm -rf "$own_runtime_dir"; fi
  # A failure of another step leaves the page's build running.
  if [ -e "$LOGS/web-build.pid" ]; then kill -- "-$(<"$LOGS/web-build.pid")" 2>/dev/null || true; fi
}
rm -f "$LOGS/web-build.pid"
trap end EXIT

# What decides whose turn it is, where an ordinary run takes a part of what is tested: the commit's last two digits. A
# failure can be had again with its turn: WISP_TEST_TURN=7 bash tests/run.sh tests
if [ -z "${WISP_TEST_TURN:-}" ]; then
  commit=$(git rev-parse HEAD 2>/dev/null || echo 03)
  WISP_TEST_TURN=$((16#${commit: -2}))
fi
export WISP_TEST_TURN
echo "turn $WISP_TEST_TURN"

# A step is a function of this name. What it prints is its log; lines that it writes to descriptor 3 are shown to the
# user below its status line.
step_vulkan() {
  local outcome
  outcome=$(bash tests/scripts/vulkan-driver.sh)
  echo "  $outcome" >&3
}

step_fmt() { cargo fmt --all --check; }

# Packs the crates as for the registry and checks what their archives hold.
step_package() { bash tests/scripts/package.sh | sed 's/^/  /' >&3; }

# Whether the notices that Wisp ships name all dependencies.
step_notices() {
  # The fuzz targets are a workspace of their own, whose lock file a new dependency leaves behind.
  cargo metadata --format-version 1 --locked --manifest-path tests/fuzz/Cargo.toml >/dev/null
  # Those of all targets: a build fetches its own only.
  cargo fetch --locked || { echo "  skipped: cargo cannot fetch the dependencies of all targets" >&3; return; }
  bash tests/scripts/notices.sh --check | sed 's/^/  /' >&3
}

# Licences, sources and duplicate versions of all dependencies.
step_deny() {
  local outcome
  cargo fetch --locked || { echo "  skipped: cargo cannot fetch the dependencies of all targets" >&3; return; }
  # --debug: it compiles in half the time, and runs for seconds anyway.
  outcome=$(bash tests/scripts/cargo-tool.sh cargo-deny@0.20.2 --debug)
  echo "  $outcome" >&3
  case $outcome in skipped:*) return ;; esac
  "${outcome#*: }" --offline --locked --all-features --config tests/deny.toml check --deny warnings bans licenses sources
}

# Slow parts that change least take turns in runs without arguments, by the commit. Each entry is what one turn leaves
# out; that of fuzzing, which takes longest, leaves out more. Where candle is left out, its code is not even compiled; where
# shipped-page is, the browser tests a quick build.
readonly LEFT_OUT=("fuzz deny candle shipped-page" "aarch64 cuda deny candle shipped-page" "aarch64 fuzz candle"
  "aarch64 fuzz deny shipped-page")
left_out=
if [ $# = 0 ]; then left_out=${LEFT_OUT[WISP_TEST_TURN % ${#LEFT_OUT[@]}]}; fi
readonly left_out

# Everything that is run is built with the optional CUDA and OpenTelemetry, with the device that fails on demand and, when it
# is its turn, with candle, so that one build serves all tests.
# Scripts that build for themselves have to build the same, or half of it is built twice.
export WISP_TEST_FEATURES=wisp-llm/cuda,wisp-llm/otel,wisp-tests/cuda,wisp-engine/faults
case $left_out in *candle*) ;; *) WISP_TEST_FEATURES=candle,$WISP_TEST_FEATURES ;; esac
case $left_out in *shipped-page*) export WISP_TEST_PAGE=dev ;; esac
readonly BUILT=(--locked --workspace --features "$WISP_TEST_FEATURES")

step_clippy() { cargo clippy "${BUILT[@]}" --all-targets -- -D warnings; }

# Tests run the real programs, which cargo builds by itself only for tests of that same package.
step_build() { cargo build "${BUILT[@]}" --bins --examples; }

# Runs the tests that the given flags of cargo select. They print why they were skipped ("skipped: no Vulkan adapter"); a
# run that tests less must not look like one that tests all.
run_tests() {
  local status=0
  if cargo nextest --version >/dev/null 2>&1; then
    if [ "${WISP_TEST_ALL:-}" = 1 ]; then export NEXTEST_PROFILE=${NEXTEST_PROFILE:-all}; fi
    # More tests at a time than cores: many wait for programs, servers and disks. All tests take three quarters of the time.
    NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$(($(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) * 3 / 2))} \
      cargo nextest run "${BUILT[@]}" --no-fail-fast "$@" --success-output final \
      --failure-output immediate-final >"$LOGS/cargo-test" 2>&1 || status=$?
  else
    cargo test "${BUILT[@]}" --no-fail-fast "$@" -- --show-output >"$LOGS/cargo-test" 2>&1 || status=$?
  fi
  cat "$LOGS/cargo-test"
  { grep -E '^ *Summary |^test result: .* [1-9][0-9]* (passed|failed)' "$LOGS/cargo-test" || true
    grep -oE 'skipped: .*' "$LOGS/cargo-test" | sort | uniq -c || true
  } | sed 's/^ */  /' >&3
  return "$status"
}

step_tests() {
  local outcome
  # The tests of naga-cuda compile kernels with it.
  outcome=$(bash tests/scripts/nvrtc.sh)
  echo "  $outcome" >&3
  case $outcome in skipped:*) ;; *) export NVRTC_LIBRARY=${outcome#*: } ;; esac
  run_tests --lib --bins --tests
}

step_kernels() { WISP_TEST_ALL=1 run_tests --test kernels; }

# The host's kernels on emulated ARM processors.
step_aarch64() {
  local outcome filters=(blocks int8 products)
  if [ "${WISP_TEST_ALL:-}" = 1 ]; then filters=(); fi
  outcome=$(bash tests/scripts/aarch64.sh "${filters[@]}") || { echo "$outcome"; return 1; }
  sed 's/^/  /' <<<"$outcome" >&3
}

# The kernels on the emulated CUDA device, a sample of them in each order of threads, and some models in one of the orders,
# by the commit.
step_cuda() {
  local models=('test(/^goldens_gguf.*vulkan_gpu/)'
    'test(/^stories::(f32|q8_0).*vulkan_gpu/) or test(/^lifecycle::models_in_turn.*vulkan$/)'
    'test(/^batching::cancelled.*vulkan_gpu/)')
  local turn=$((WISP_TEST_TURN % 3)) of_order=("" "" "")
  of_order[turn]=${models[turn]}
  on_emulator 48 "${of_order[@]}"
}

# All kernels and what runs whole models, in each order; then, forward, everything else that the device can run.
step_cuda-all() {
  local models='(binary(program) and test(/^(goldens|stories|int8)/)) or (binary(engine) and test(/^batching/))'
  WISP_TEST_ALL=1 on_emulator 1 "$models" "$models" "$models" 'binary(engine) and not test(/^batching/)'
}

step_barriers() {
  cargo test "${BUILT[@]}" --test kernels -- --ignored --nocapture kernels_without_a_barrier_fail | tee "$LOGS/barriers-test"
  grep -E '^[0-9]+ barriers of|^skipped: ' "$LOGS/barriers-test" | sed 's/^/  /' >&3 || true
}

# Runs every Nth kernel in each order of threads, each time others, and the tests of models that a filter for each order
# selects; then those of a last filter, if there is one.
on_emulator() {
  local outcome every=$1 models=("${@:2}") order at=0
  cargo nextest --version >/dev/null 2>&1 || { echo "  skipped: no cargo-nextest, which selects the tests" >&3; return; }
  outcome=$(bash tests/scripts/cuda-emulator.sh --test) || { echo "$outcome"; return 1; }
  case $outcome in skipped:*) echo "  $outcome" >&3; return ;; esac
  export LD_LIBRARY_PATH WISP_TEST_DEVICE=cuda WISP_TEST_SAMPLE CUDA_EMULATOR_ORDER
  LD_LIBRARY_PATH=$(bash tests/scripts/cuda-emulator.sh)
  for order in forward backward random:1; do
    CUDA_EMULATOR_ORDER=$order WISP_TEST_SAMPLE=$every:$(((3 * WISP_TEST_TURN + at) % every))
    run_tests --test kernels -E 'package(wisp-tests)'
    if [ -n "${models[at]}" ]; then
      # Each of the tests that were selected, not only those that an ordinary run takes.
      WISP_TEST_ALL=1 run_tests --test program --test engine -E "${models[at]}"
    fi
    at=$((at + 1))
  done
  CUDA_EMULATOR_ORDER=forward
  if [ -n "${models[at]:-}" ]; then run_tests --test program --test engine -E "${models[at]}"; fi
}

# Every test that runs models, on adapters that all run kernels of one class and then of the other.
step_classes() {
  local class
  cargo build "${BUILT[@]}" --bins --examples
  for class in gpu software; do
    echo "  class $class:" >&3
    export WISP_TEST_CLASS=$class WISP_TEST_ALL=1
    run_tests --test engine --test program
    step_browser
  done
}

# The fault list, with the faults that an ordinary run ignores because they take minutes.
step_faults() {
  local status=0
  cargo build "${BUILT[@]}" --bins --examples
  WISP_TEST_ALL=1 cargo test "${BUILT[@]}" --test faults -- --include-ignored >"$LOGS/faults-test" 2>&1 || status=$?
  cat "$LOGS/faults-test"
  { grep -E '^test result: ' "$LOGS/faults-test" || true
    grep -oE 'skipped: .*' "$LOGS/faults-test" | sort | uniq -c || true
  } | sed 's/^ */  /' >&3
  return "$status"
}

step_doctests() { cargo test "${BUILT[@]}" --doc; }

# Of all libraries with the features of this run, so that what clippy knows of the dependencies serves here too.
step_docs() { RUSTDOCFLAGS="-D warnings" cargo doc "${BUILT[@]}" --no-deps --lib; }

# What GPUs' own compilers make of the kernels, against the recorded tables; a line for AMD's and one for NVIDIA's.
step_gpu-statistics() {
  local outcome status=0
  outcome=$(bash tests/scripts/gpu-statistics.sh) || status=$?
  echo "$outcome"
  grep -E '^skipped: | rows with |^the compiler got ' <<<"$outcome" | sed 's/^/  /' >&3 || true
  return "$status"
}

# Every parser with fuzzed input for some seconds; tests/scripts/fuzz.sh does it for longer.
step_fuzz() {
  if ! command -v c++ >/dev/null; then
    echo "  skipped: no C++ compiler, which libFuzzer needs" >&3
    return
  fi
  bash tests/scripts/fuzz.sh 3 | sed 's/^/  /' >&3
}

# Another compiler gets a target folder of its own: in a shared one each would undo the other's work.
step_wasm32() {
  local rustc folder=$TARGET_DIR
  rustc=$(bash tests/scripts/wasm-toolchain.sh)
  if [ "$("$rustc" -vV)" != "$("${RUSTC:-rustc}" -vV)" ]; then folder=$TARGET_DIR/wasm-toolchain; fi
  echo "  $("$rustc" -V)" >&3
  RUSTC=$rustc RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+simd128" cargo check --locked --target wasm32-unknown-unknown --target-dir "$folder" \
    -p wisp-shaders -p wisp-engine -p wisp-web
}

# Without candle, which needs a newer Rust. What Wisp itself uses of the standard library, clippy checks in every run.
step_msrv() {
  local rust
  rust=$(sed -n 's/^rust-version = "\(.*\)"/\1.0/p' Cargo.toml)
  if ! cargo "+$rust" --version; then
    echo "  skipped: no Rust $rust: rustup toolchain install $rust" >&3
    return
  fi
  cargo "+$rust" check --locked --workspace --target-dir "$TARGET_DIR/msrv"
}

# Finds or installs what the browser's tests need, and starts to build the package and the page: half of its time the build
# runs on one core, beside the steps that follow. Its output and its status are left in files for the browser's step.
step_web() {
  local outcome log
  outcome=$(bash tests/scripts/chromium.sh)
  if [[ $outcome != skipped:* ]] && ! log=$(cd tests/browser && npm ci --no-fund --no-audit 2>&1); then
    echo "$log"
    # A wrong lock file is a failure; only a registry that is not there is none.
    [[ $log != *EUSAGE* && $log != *EINTEGRITY* ]]
    outcome="skipped: npm cannot fetch what the tests are written with"
  fi
  echo "  chromium: $outcome" >&3
  echo "$outcome" >"$LOGS/chromium"
  rm -f "$LOGS/web-build.status"
  case $outcome in skipped:*) return ;; esac
  set -m # a process group of its own, which can be ended as a whole
  (
    status=0
    bash web-demo/build.sh ${WISP_TEST_PAGE:-} >"$LOGS/web-build" 2>"$LOGS/web-build.log" 3>&- || status=$?
    echo "$status" >"$LOGS/web-build.status"
  ) &
  echo $! >"$LOGS/web-build.pid"
}

# Waits for the page's build, if there is one, and returns its status.
wait_for_web() {
  [ -e "$LOGS/web-build.pid" ] || return 0
  while kill -0 "$(<"$LOGS/web-build.pid")" 2>/dev/null; do sleep 1; done
  rm "$LOGS/web-build.pid"
  cat "$LOGS/web-build.log"
  # A build that was killed leaves no status.
  [ "$(<"$LOGS/web-build.status")" = 0 ]
}

# Tests the package and the page in headless Chromium on its software adapter. The kernel tests' cases and an encoder are
# written down once with what the host makes of them; the browser runs them over its own adapter.
step_browser() {
  local outcome records=$TARGET_DIR/kernel-records
  case " $done_steps " in *" web "*) ;; *) step_web ;; esac
  outcome=$(<"$LOGS/chromium")
  case $outcome in skipped:*) step_wasm32; return ;; esac
  rm -rf "$records"
  mkdir -p "$records"
  # naga-cuda has a target `kernels` too, whose slow tests write no records.
  WISP_KERNEL_RECORDS=$records cargo test --quiet "${BUILT[@]}" --test kernels --test browser \
    -- --skip every_kernel_has_a_translation --skip kernels_compile_and_stay
  wait_for_web
  sed 's/^/  /' "$LOGS/web-build" >&3
  cd tests/browser
  # Those that test what ships are one of four turns, whose cases would always be the same.
  if [ -z "${WISP_TEST_PAGE:-}" ]; then WISP_TEST_TURN=$((WISP_TEST_TURN / 4)); fi
  CHROMIUM=${outcome#*: } WISP_KERNEL_RECORDS=$records npm test | tee "$LOGS/browser-tests"
  { grep -E '^ℹ (pass|fail|skipped) |runs of .* kernels|of wasm, compressed|to the first token' "$LOGS/browser-tests" || true
    grep -oE '﹣ .*' "$LOGS/browser-tests" | sort | uniq -c || true
  } | sed 's/^/  /' >&3
}

run_step() {
  local log=$LOGS/$1.log began=$SECONDS status
  printf '%-14s ' "$1"
  # Not `( … ) || status=$?`, which would switch `set -e` off inside.
  set +e
  (set -e; "step_$1") >"$log" 2>&1 3>"$LOGS/notes"
  status=$?
  set -e
  if [ "$status" = 0 ]; then printf 'ok    '; else printf 'FAILED'; fi
  printf ' %4d s\n' $((SECONDS - began))
  cat "$LOGS/notes"
  done_steps+=" $1"
  [ "$status" = 0 ] && return
  tail -n "$FAILURE_LINES" "$log"
  echo "run.sh: step '$1' failed with status $status after $SECONDS s in all; its whole output is in $log" >&2
  exit 1
}

for name in "$@"; do
  case " $STEPS $MORE " in
    *" $name "*) ;;
    *) echo "run.sh: no step '$name'; there are: $STEPS $MORE" >&2; exit 2 ;;
  esac
done
done_steps=
# shellcheck disable=SC2086 # the list is split into words on purpose
for name in ${*:-$STEPS}; do
  case " $left_out " in
    *" $name "*) printf '%-14s left to the runs of other commits: bash tests/run.sh %s\n' "$name" "$name" ;;
    *) run_step "$name" ;;
  esac
done
# `web` without `browser`: nothing else has waited for it.
wait_for_web
printf '%-14s ok     %4d s\n' total "$SECONDS"
