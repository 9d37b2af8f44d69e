#!/usr/bin/env bash
# nvrtc.sh: makes sure that there is NVIDIA's runtime compiler for the tests of naga-cuda; it needs no GPU. Prints one
# line: "found: PATH" or "installed: PATH" of the library, for the environment variable NVRTC_LIBRARY, or "skipped: WHY"
# where there can be none.
#
# It is the package nvidia-cuda-nvrtc of PyPI, of the version below, in the target folder: 64 MB, under NVIDIA's licence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly VERSION=13.5.37
TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly TARGET_DIR FOLDER=$TARGET_DIR/nvrtc-$VERSION

find_library() { find "$FOLDER" -name 'libnvrtc.so.*' 2>/dev/null | grep -m 1 .; }

if path=$(find_library); then
  echo "found: $path"
elif ! [ "$(uname -sm)" = "Linux x86_64" ]; then
  echo "skipped: NVRTC is fetched for Linux on x86-64 only"
elif ! command -v python3 >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
  echo "skipped: no pip to fetch NVRTC with: install Python 3 with pip"
elif python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$FOLDER.part" \
  "nvidia-cuda-nvrtc==$VERSION" >&2 && mv "$FOLDER.part" "$FOLDER" && path=$(find_library); then
  echo "installed: $path"
else
  rm -rf "$FOLDER.part"
  echo "skipped: no NVRTC, and pip cannot fetch nvidia-cuda-nvrtc $VERSION"
fi
