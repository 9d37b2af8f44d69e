#!/usr/bin/env bash
# gpu-statistics.sh [COMMAND…]: compiles kernels with Mesa's compiler for AMD GPUs and with NVIDIA's, which need no GPU, and
# compares what becomes of them with the recorded tables; tests/gpu-statistics/README.md explains both and names the
# commands.
#
# The numbers depend on the compiler. Mesa's is the version that AMD's table names, from Debian's backports, unpacked into
# the target folder; NVIDIA's is the one that nvrtc.sh fetches. Nothing is installed. Where one of them cannot be had, its
# part prints one line, "skipped: …" with the reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=apt.sh
. tests/scripts/apt.sh

readonly TABLE=tests/gpu-statistics/table.tsv
# What the driver calls its version is that of the package.
VERSION=$(sed -n '1s/^# Mesa //p' "$TABLE")
TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly VERSION FOLDER=$TARGET_DIR/gpu-statistics/mesa-$VERSION
readonly LIBRARIES=$FOLDER/usr/lib/x86_64-linux-gnu

skip() { echo "skipped: $*"; exit 0; }

# Downloads the packages of Mesa into a folder, with lists and sources of their own: those of the system stay as they are.
download() {
  local apt=$1
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/packages"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-backports main" \
    >"$apt/sources.list"
  local own=(-o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=)
  apt_retry "${own[@]}" -o APT::Update::Error-Mode=any update || skip "Debian's backports cannot be reached"
  local packages=("mesa-vulkan-drivers=$VERSION" libdrm-amdgpu1/bookworm-backports libdrm2/bookworm-backports)
  apt-get "${own[@]}" -qq download --print-uris "${packages[@]}" >&2 ||
    skip "Debian's backports no longer have Mesa $VERSION, with which $TABLE was recorded: record it with another"
  (cd "$apt/packages" && apt_retry "${own[@]}" download "${packages[@]}") || skip "Mesa $VERSION cannot be downloaded"
}

amd() {
  if [ ! -f "$FOLDER/radeon.json" ]; then
    [ "$(uname -sm)" = "Linux x86_64" ] || skip "Mesa $VERSION is fetched for Linux on x86-64 only"
    grep -q '^VERSION_CODENAME=bookworm' /etc/os-release 2>/dev/null || skip "Mesa $VERSION is fetched for Debian 12 only"
    rm -rf "$FOLDER"
    download "$FOLDER/apt"
    for package in "$FOLDER"/apt/packages/*.deb; do dpkg -x "$package" "$FOLDER"; done
    rm -r "$FOLDER/apt"
    cat >"$FOLDER/radeon.json" <<JSON
{"file_format_version": "1.0.0", "ICD": {"api_version": "1.3.0", "library_path": "$LIBRARIES/libvulkan_radeon.so"}}
JSON
  fi
  export LD_LIBRARY_PATH=$LIBRARIES VK_DRIVER_FILES=$FOLDER/radeon.json
  local missing
  missing=$(ldd "$LIBRARIES/libvulkan_radeon.so" | awk '/not found/ { print $1 }')
  # shellcheck disable=SC2086 # the names are to stand on one line
  [ -z "$missing" ] || skip "Mesa $VERSION needs" $missing: install the system\'s mesa-vulkan-drivers
  "$TARGET_DIR/debug/gpu-statistics" amd "$@"
}

nvidia() {
  local outcome
  outcome=$(bash tests/scripts/nvrtc.sh nvrtc)
  case $outcome in skipped:*) skip "${outcome#skipped: }" ;; esac
  export NVRTC_LIBRARY=${outcome#*: }
  outcome=$(bash tests/scripts/nvrtc.sh nvdisasm)
  case $outcome in skipped:*) skip "${outcome#skipped: }" ;; esac
  export NVDISASM=${outcome#*: }
  "$TARGET_DIR/debug/gpu-statistics" nvidia "$@"
}

cargo build --quiet --locked --workspace --features "${WISP_TEST_FEATURES:-candle,wisp-llm/cuda,wisp-llm/otel,wisp-tests/cuda,wisp-engine/faults}" \
  --bin gpu-statistics
# Each in a shell of its own, which may end by being skipped.
set +e
(set -e; amd "$@")
of_amd=$?
(set -e; nvidia "$@")
of_nvidia=$?
exit $((of_amd > of_nvidia ? of_amd : of_nvidia))
