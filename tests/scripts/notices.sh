#!/usr/bin/env bash
# notices.sh: writes the licences of the libraries inside the program (`wisp licenses`) and inside the browser's module
# into the files called THIRD-PARTY-NOTICES. Run it after a change of dependencies; it needs cargo-about, which it
# installs, and the network.
#
# `notices.sh --check` writes nothing and needs neither: it fails if a library is missing there or no longer used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# What is shipped: the crate's folder, the file of notices, and the targets.
readonly SHIPPED=(
  "native-demo native-demo/THIRD-PARTY-NOTICES x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-pc-windows-msvc aarch64-apple-darwin"
  "web-demo web-demo/package/THIRD-PARTY-NOTICES wasm32-unknown-unknown"
)

# The libraries in a package on the targets given, one "NAME VERSION" a line, without Wisp's own crates.
libraries() {
  local manifest=$1 target
  shift
  for target in "$@"; do
    cargo tree --quiet --locked --manifest-path "$manifest" --edges normal,no-proc-macro --target "$target" --prefix none --format '{p}'
  done | sed -nE 's/^([^ ]+) v([^ ]+)( \(proc-macro\))?( \(\*\))?$/\1 \2/p' | grep -v '^wisp-' | sort -u
}

# The libraries that a file of notices names, in the same form.
named() { sed -nE 's/^  ([a-zA-Z0-9_-]+ [0-9][^ ]*)(  .*)?$/\1/p' "$1" | sort -u; }

# In Cargo.lock, in the same form.
locked() { awk '/^name = / { name = $3 } /^version = / { print name, $3 }' Cargo.lock | tr -d '"' | sort -u; }

check() {
  local notices=$2 missing stale failed=0
  missing=$(comm -23 <(libraries "$1/Cargo.toml" "${@:3}") <(named "$notices"))
  stale=$(comm -13 <(locked) <(named "$notices"))
  [ -z "$missing" ] || { echo "$notices lacks: ${missing//$'\n'/, }" >&2; failed=1; }
  [ -z "$stale" ] || { echo "$notices names what Cargo.lock no longer has: ${stale//$'\n'/, }" >&2; failed=1; }
  [ "$failed" = 0 ] || { echo "run 'bash tests/scripts/notices.sh'" >&2; return 1; }
  echo "$notices: $(named "$notices" | wc -l) libraries"
}

generate() {
  local notices=$2 target flags=()
  for target in "${@:3}"; do flags+=(--target "$target"); done
  "$ABOUT" generate --locked --fail --config tests/about.toml --manifest-path "$1/Cargo.toml" "${flags[@]}" \
    --output-file "$notices.unfinished" tests/about.hbs
  # Some licence texts have Windows' line ends, others spaces at the ends of lines.
  { echo "Wisp contains the following libraries, under these licences."; echo; cat "$notices.unfinished"; } |
    sed -e 's/\r$//' -e 's/[[:space:]]*$//' >"$notices"
  rm "$notices.unfinished"
}

if [ "${1:-}" = --check ]; then
  for shipped in "${SHIPPED[@]}"; do
    # shellcheck disable=SC2086 # the line is split into words on purpose
    check $shipped
  done
  exit
fi
outcome=$(bash tests/scripts/cargo-tool.sh cargo-about@0.9.3 --features cli)
case $outcome in skipped:*) echo "notices.sh: $outcome" >&2; exit 1 ;; esac
readonly ABOUT=${outcome#*: }
for shipped in "${SHIPPED[@]}"; do
  # shellcheck disable=SC2086
  generate $shipped
  # shellcheck disable=SC2086
  check $shipped
done
