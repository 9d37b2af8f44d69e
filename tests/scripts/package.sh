#!/usr/bin/env bash
# package.sh: packs every crate as for the registry and checks what the archives hold: both licences, the
# sources, and nothing else. Takes seconds and needs no network.
#
# The archives are not compiled here: a crate's archive names its siblings by version, and they are in no registry
# before they are published. `cargo package --workspace` does compile them, against each other, from a cold target
# folder: ten minutes and more, which is for a release and not for every change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

METADATA=$(cargo metadata --format-version 1 --no-deps --locked)
TARGET_DIR=$(sed 's/.*"target_directory":"\([^"]*\)".*/\1/' <<<"$METADATA")
readonly METADATA TARGET_DIR

# What any crate's archive may hold, as an extended regular expression of paths.
readonly COMMON='Cargo\.toml|Cargo\.toml\.orig|\.cargo_vcs_info\.json|LICENSE-MIT|LICENSE-APACHE|src/.*\.rs'
# What that of one crate may hold besides.
own_paths() {
  case $1 in
    wisp-shaders) echo 'build/.*\.rs|src/.*\.wgsl' ;;
    naga-cuda) echo 'src/prelude/.*\.cuh' ;;
    wisp-weights) echo 'src/blocks/grids\.bin' ;;
    wisp-engine) echo 'README\.md|examples/.*\.(rs|wgsl|toml|json|py|safetensors)' ;;
    wisp-llm) echo 'src/serve/(page\.html|openapi\.json)|README\.md|THIRD-PARTY-NOTICES|model/(wisp-tiny\.gguf|MODEL_CARD\.md)' ;;
    wisp-web) echo 'package/README\.md' ;;
    *) echo 'nothing-else' ;;
  esac
}

# Names of the crates that are meant for the registry, one a line: `publish = false` becomes an empty list.
crates() {
  grep -oE '"(name":"(wisp|naga)-[a-z]+","version"|publish":(null|\[[^]]*\]))' <<<"$METADATA" |
    awk -F'"' '/name/ { name = $4 } /publish/ && !/\[\]/ { print name }'
}

failed=0
fail() { echo "package.sh: $*" >&2; failed=1; }

# Archives that earlier runs left are not this run's.
rm -f "$TARGET_DIR"/package/{wisp,naga}-*.crate
packages=()
for name in $(crates); do packages+=(-p "$name"); done
[ "${#packages[@]}" -gt 20 ] || { echo "package.sh: cargo metadata lists too few crates: ${packages[*]}" >&2; exit 1; }
# --exclude-lockfile: to write one cargo would look for the siblings in the registry.
warnings=$(cargo package --quiet --locked --offline --no-verify --allow-dirty --exclude-lockfile "${packages[@]}" 2>&1) ||
  { echo "$warnings" >&2; exit 1; }
# Such as a missing description.
[ -z "$warnings" ] || fail "$warnings"

count=0
for name in $(crates); do
  archive=$(echo "$TARGET_DIR/package/$name"-[0-9]*.crate)
  [ -f "$archive" ] || { fail "$name: cargo package wrote no archive"; continue; }
  count=$((count + 1))
  paths=$(tar -tzf "$archive" | sed 's|^[^/]*/||')
  for licence in LICENSE-MIT LICENSE-APACHE; do
    # A symbolic link that git checked out as a file of one line is no licence.
    lines=$(tar -xzOf "$archive" "$(basename "$archive" .crate)/$licence" 2>/dev/null | wc -l)
    [ "$lines" -gt 15 ] || fail "$name: the archive has no $licence: link it into the crate's folder"
  done
  foreign=$(grep -vxE "$COMMON|$(own_paths "$name")" <<<"$paths" || true)
  [ -z "$foreign" ] || fail "$name: the archive holds files that are not the crate's; see its include: $foreign"
  manifest=$(tar -xzOf "$archive" "$(basename "$archive" .crate)/Cargo.toml")
  for field in description license repository rust-version keywords categories; do
    grep -q "^$field = " <<<"$manifest" || fail "$name: Cargo.toml lacks $field"
  done
  # What is read when the library, the program or an example is compiled must be in the archive. Unit tests may read
  # what only the repository has: they are run there.
  folder=$TARGET_DIR/package/check
  rm -rf "$folder"
  mkdir -p "$folder"
  tar -xzf "$archive" -C "$folder" --strip-components=1
  while IFS=: read -r file path; do
    [ -f "$(dirname "$folder/$file")/$path" ] || fail "$name: $file includes $path, which is not in the archive"
  done < <(cd "$folder" && find . -name '*.rs' -exec awk '
    FNR == 1 { tests = FILENAME ~ /tests(\.rs$|\/)/ }
    /^#\[cfg\(test\)\]/ { tests = 1 }
    tests { next }
    { line = rest $0; rest = "" }
    line ~ /include_(str|bytes)!\($/ { rest = line; next } # the path stands on the next line
    match(line, /include_(str|bytes)!\([ ]*"[^"]*"/) {
      split(substr(line, RSTART, RLENGTH), quoted, "\"")
      print substr(FILENAME, 3) ":" quoted[2]
    }' {} +)
  # Nor may an example or a doctest reach for the repository at run time.
  outside=$(cd "$folder" && grep -rnE 'CARGO_MANIFEST_DIR"\), *"/\.\.' --include=*.rs . | grep -vE '^\./[^:]*tests?(\.rs|/)' || true)
  [ -z "$outside" ] || fail "$name: reads files outside the crate: $outside"
done
rm -rf "$TARGET_DIR/package/check"
echo "$count archives: $(du -ch "$TARGET_DIR"/package/wisp-*.crate | tail -1 | cut -f1)"
exit "$failed"
