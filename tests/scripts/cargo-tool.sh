#!/usr/bin/env bash
# cargo-tool.sh NAME@VERSION [FLAG…]: makes sure that there is such a subcommand of cargo. Prints one line:
# "found: PATH" or "installed: PATH", or "skipped: WHY" where it cannot be installed. FLAGS are for cargo install.
#
# It is compiled from the registry, once, into a cache folder: some minutes.
set -euo pipefail

readonly TOOL=${1:?name a tool, such as cargo-deny@0.20.2}
readonly NAME=${TOOL%@*}
readonly ROOT="${XDG_CACHE_HOME:-$HOME/.cache}/wisp/${TOOL/@/-}"
shift

if path=$(command -v "$NAME"); then
  echo "found: $path"
elif [ -x "$ROOT/bin/$NAME" ]; then
  echo "found: $ROOT/bin/$NAME"
elif cargo install --locked --root "$ROOT" "$@" "$TOOL" >&2; then
  echo "installed: $ROOT/bin/$NAME"
else
  echo "skipped: no $NAME, and cargo cannot install it: run 'cargo install --locked $*${*:+ }$NAME'"
fi
