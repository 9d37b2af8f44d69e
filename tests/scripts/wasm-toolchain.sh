#!/usr/bin/env bash
# wasm-toolchain.sh: prints the path of a rustc that compiles and links for wasm32-unknown-unknown; for `RUSTC=… cargo`.
#
# The ordinary way is a rustup that can fetch the target. Where it cannot (an offline mirror, a distribution's own
# Rust), Debian has a compiler together with its library's source. Both are unpacked into a cache folder (only
# the LLVM library that the compiler needs is installed), and the library is compiled for wasm32 once, which takes two
# minutes.
#
# The folder gets its final name last, in one rename, so a half-finished one is never taken for a finished one.
set -euo pipefail
# shellcheck source=apt.sh
. "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

readonly TARGET=wasm32-unknown-unknown
readonly CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/wisp"

fail() { echo "wasm-toolchain: $*" >&2; exit 1; }

# Whether the given rustc runs and has the standard library for the target.
has_target() {
  local libraries
  libraries=$("$1" --print target-libdir --target "$TARGET" 2>/dev/null) || return 1
  compgen -G "$libraries/libstd-*.rlib" >/dev/null
}

# A rustc that is there already: the user's own, or one that an earlier run has made.
existing() {
  local rustc=${RUSTC:-rustc} made
  if has_target "$rustc"; then echo "$rustc"; return; fi
  for made in "$CACHE"/wasm-toolchain-*/bin/rustc; do
    if [ -x "$made" ] && has_target "$made"; then echo "$made"; return; fi
  done
  return 1
}

# Unpacks Debian's compiler, its library for this machine, and the library's source, into the current folder.
unpack() {
  local std=$1 package
  apt_retry download rustc-web libstd-rust-web-dev "$std" rust-web-src
  mkdir toolchain
  for package in rustc-web_*.deb libstd-rust-web-*.deb; do dpkg-deb -x "$package" toolchain; done
  dpkg-deb --fsys-tarfile rust-web-src_*.deb | tar -x --wildcards './usr/src/rustc-*/library'
  rm -rf ./*.deb toolchain/usr/share toolchain/usr/libexec
  mkdir toolchain/bin
  cat >toolchain/bin/rustc <<'WRAPPER'
#!/bin/sh
# The compiler was built for /usr/lib and finds its own libraries only when told where they are.
usr="$(dirname "$(dirname "$(readlink -f "$0")")")/usr"
for lib in "$usr"/lib/*-linux-gnu; do LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; done
export LD_LIBRARY_PATH
exec "$usr/bin/rustc" "$@"
WRAPPER
  chmod +x toolchain/bin/rustc
}

# LLVM's linker, which the compiler calls rust-lld: that of the Rust that is there, or Debian's.
add_linker() {
  local tools lld
  tools=toolchain/usr/lib/rustlib/$(toolchain/bin/rustc -vV | awk '/^host:/ { print $2 }')/bin
  [ -e "$tools/rust-lld" ] && return
  lld=$("${RUSTC:-rustc}" --print target-libdir)/../bin/rust-lld
  [ -x "$lld" ] || lld=$(command -v wasm-ld) ||
    fail "no linker for $TARGET: install 'lld'"
  mkdir -p "$tools"
  ln -sfn "$(realpath "$lld")" "$tools/rust-lld"
}

# Compiles the standard library for the target into the toolchain. Flags and profile are those with which rustc's own
# build system compiles it; the profile embeds bitcode, so that link-time optimisation works.
add_target() {
  local libraries=toolchain/usr/lib/rustlib/$TARGET/lib
  RUSTC="$PWD/toolchain/bin/rustc" RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zforce-unstable-if-unmarked \
    CARGO_PROFILE_DIST_DEBUG=0 \
    cargo build --quiet --locked --profile dist --target "$TARGET" --target-dir "$PWD/build" \
    --manifest-path "$(echo usr/src/rustc-*/library/sysroot/Cargo.toml)" >&2
  mkdir -p "$libraries"
  cp build/"$TARGET"/dist/deps/*.rlib "$libraries"
  rm "$libraries"/libsysroot-*
}

# Debian's toolchain, made from scratch. Prints its rustc.
from_debian() {
  local version std llvm work final
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    fail "rustup could not add $TARGET and this is not Debian: install Rust's standard library for $TARGET"
  # Only root can refresh the lists; what they held before may do for others.
  if [ "$(id -u)" = 0 ]; then apt_retry update; fi
  version=$(apt-cache policy rustc-web | awk '/Candidate:/ { print $2 }')
  std=$(apt-cache depends libstd-rust-web-dev | awk '/Depends: libstd-rust-web-/ { print $2; exit }')
  llvm=$(apt-cache depends "$std" | awk '/Depends: libllvm/ { print $2; exit }')
  [ -n "$version" ] && [ -n "$std" ] && [ -n "$llvm" ] ||
    fail "rustup could not add $TARGET and this Debian has no package rustc-web"
  if ! dpkg -s "$llvm" >/dev/null 2>&1; then
    [ "$(id -u)" = 0 ] || fail "the compiler needs a library: run 'sudo apt-get install $llvm'"
    apt_install "$llvm"
  fi

  final=$CACHE/wasm-toolchain-$version
  mkdir -p "$CACHE"
  find "$CACHE" -maxdepth 1 -name 'unfinished-*' -mtime +0 -exec rm -rf {} + # a killed run's
  work=$(mktemp -d "$CACHE/unfinished-XXXXXX")
  # shellcheck disable=SC2064 # the folder's name as it is now
  trap "rm -rf '$work'" EXIT
  chmod 755 "$work"
  cd "$work"
  unpack "$std"
  add_linker
  add_target
  echo 'fn main() {}' >probe.rs
  toolchain/bin/rustc --target "$TARGET" -o probe.wasm probe.rs ||
    fail "the toolchain that was just made does not compile an empty program"
  rm -rf "$final"
  mv toolchain "$final"
  echo "$final/bin/rustc"
}

# rustup says on stderr what it does, and why it cannot.
if existing; then exit; fi
if command -v rustup >/dev/null && rustup target add "$TARGET" >&2 && existing; then exit; fi
from_debian
