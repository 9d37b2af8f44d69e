#!/usr/bin/env bash
# cargo-deny.sh: makes sure that there is a cargo-deny, which checks dependencies. Prints one line: "found: PATH" or
# "installed: PATH", or "skipped: WHY" where it cannot be installed.
#
# It is compiled from the registry, once, into a cache folder: some minutes.
set -euo pipefail

readonly VERSION=0.20.2
readonly ROOT="${XDG_CACHE_HOME:-$HOME/.cache}/wisp/cargo-deny-$VERSION"

if path=$(command -v cargo-deny); then
  echo "found: $path"
elif [ -x "$ROOT/bin/cargo-deny" ]; then
  echo "found: $ROOT/bin/cargo-deny"
# --debug: it compiles in half the time, and runs for seconds anyway.
elif cargo install --locked --debug --root "$ROOT" "cargo-deny@$VERSION" >&2; then
  echo "installed: $ROOT/bin/cargo-deny"
else
  echo "skipped: no cargo-deny, and cargo cannot install it: run 'cargo install --locked cargo-deny'"
fi
