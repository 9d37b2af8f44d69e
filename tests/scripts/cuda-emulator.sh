#!/usr/bin/env bash
# cuda-emulator.sh [--test [NAME]]: builds the emulated CUDA driver and compiler of tests/cuda-emulator into the target folder
# and prints the folder; a program with that folder in LD_LIBRARY_PATH then finds a CUDA device. Prints "skipped: WHY"
# where it cannot be built. Does nothing if no source has changed. `--test` runs the emulator's own tests as well.
#
# A build lies in a folder that is named after its sources and gets its name last, in one rename; so builds may run side
# by side, and kernels in the cache beside the libraries belong to them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SOURCE=tests/cuda-emulator
readonly CXX=${CXX:-g++}
readonly FLAGS=(-std=c++17 -O2 -g1 -fPIC -fvisibility=hidden -Wall -Wextra -Wno-missing-field-initializers -pthread)

skip() { echo "skipped: $*"; exit 0; }

[ "$(uname -s)" = Linux ] || skip "the CUDA emulator is for Linux"
case $(uname -m) in x86_64 | aarch64) ;; *) skip "the CUDA emulator is for x86-64 and aarch64" ;; esac
command -v "$CXX" >/dev/null || skip "no C++ compiler: install g++"

TARGET_DIR=${CARGO_TARGET_DIR:-$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')}
VERSION=$("$CXX" --version | head -1)
BUILD=$({ echo "$VERSION" "${FLAGS[@]}"; find "$SOURCE" tests/scripts/cuda-emulator.sh -type f | sort | xargs cat; } | sha256sum | cut -c1-16)
readonly TARGET_DIR VERSION BUILD FOLDER=$TARGET_DIR/cuda-emulator/$BUILD

# Whether the compiler takes these flags for a kernel.
takes() { echo 'int x;' | "$CXX" -x c++ -std=c++17 -fsyntax-only "$@" - 2>/dev/null; }

build() {
  local to=$1 races=" -fsanitize=thread" kernels="" flag
  takes -fsanitize=thread -fsanitize=alignment || skip "$CXX has no -fsanitize=thread: install g++ 12 or later"
  echo '_Float16 x;' | "$CXX" -x c++ -std=c++17 -fsyntax-only - 2>/dev/null || skip "$CXX has no _Float16: install g++ 12 or later"
  # Options of GCC that clang does not have.
  for flag in tsan-distinguish-volatile=1 tsan-instrument-func-entry-exit=0; do
    if takes -fsanitize=thread --param "$flag"; then races+=" --param $flag"; fi
  done
  if takes -fno-gnu-unique; then kernels+=" -fno-gnu-unique"; fi
  local defines=(-DEMULATOR_BUILD="\"$BUILD\"" -DEMULATOR_CXX="\"$CXX\"" -DEMULATOR_RACE_FLAGS="\"$races\"" -DEMULATOR_COMPILER_FLAGS="\"$kernels\"")
  mkdir -p "$to/objects" "$to/cache"
  cp -r "$SOURCE/kernel" "$to/kernel"
  find "$SOURCE"/{driver,runtime,image,nvrtc} -name '*.cpp' -print0 |
    xargs -0 -P "$(nproc)" -I{} sh -c 'out=$1/$(echo "$2" | tr / _).o; shift 2; "$@" -o "$out"' sh "$to/objects" {} \
      "$CXX" "${FLAGS[@]}" "${defines[@]}" -c {} >&2
  local prefix=$to/objects/${SOURCE//\//_}
  "$CXX" -shared -pthread -Wl,-soname,libcuda.so.1 -Wl,-z,defs -o "$to/libcuda.so.1" "$prefix"_{driver,runtime,image}_*.o -ldl >&2
  "$CXX" -shared -pthread -Wl,-soname,libnvrtc.so.12 -Wl,-z,defs -o "$to/libnvrtc.so.12" "$prefix"_{nvrtc,image}_*.o -ldl >&2
  # cudarc looks for these names first, and would find a real driver's.
  ln -s libcuda.so.1 "$to/libcuda.so"
  ln -s libnvrtc.so.12 "$to/libnvrtc.so"
  "$CXX" "${FLAGS[@]}" -o "$to/test" "$SOURCE"/test/*.cpp -ldl >&2
  rm -r "$to/objects"
}

if [ ! -d "$FOLDER" ]; then
  mkdir -p "$TARGET_DIR/cuda-emulator"
  # Builds of other sources, that nothing uses any more.
  find "$TARGET_DIR/cuda-emulator" -mindepth 1 -maxdepth 1 -mtime +3 -exec rm -rf {} +
  unfinished=$(mktemp -d "$FOLDER.XXXXXX")
  trap 'rm -rf "$unfinished"' EXIT
  build "$unfinished"
  mv -T "$unfinished" "$FOLDER" 2>/dev/null || [ -d "$FOLDER" ]
fi
if [ "${1:-}" = --test ]; then
  LD_LIBRARY_PATH="$FOLDER" "$FOLDER/test" "${@:2}"
else
  echo "$FOLDER"
fi
