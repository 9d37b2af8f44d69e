#!/usr/bin/env bash
# build.sh [dev]: builds the package wisp-web and the page, into web-demo/dist/{wisp-web,page}. Needs Rust and Node; gets
# the rest itself: the standard library for wasm32, wasm-bindgen, and from npm TypeScript, Vite and wasm-opt. `dev` builds in
# a fraction of the time; the module is then several times as large, and slower. dist/profile says which of both it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=wasm32-unknown-unknown WEB=web-demo
# The profile, and the folder that cargo names after it.
case ${1:-} in
  dev) readonly PROFILE=dev FOLDER=debug ;;
  '') readonly PROFILE=web FOLDER=web ;;
  *) echo "build.sh: unknown argument '$1'; there is: dev" >&2; exit 2 ;;
esac
command -v node >/dev/null && command -v npm >/dev/null || { echo "build.sh: install Node 20.19 or later" >&2; exit 1; }

TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
RUSTC_WASM=$(bash tests/scripts/wasm-toolchain.sh)
# Another compiler gets a target folder of its own: in a shared one each would undo the other's work.
WASM_DIR=$TARGET_DIR
if [ "$("$RUSTC_WASM" -vV)" != "$("${RUSTC:-rustc}" -vV)" ]; then WASM_DIR=$TARGET_DIR/wasm-toolchain; fi

locked() { awk -v name="\"$1\"" '$1 == "name" { found = $3 == name } found && $1 == "version" { gsub(/"/, "", $3); print $3; exit }' "$2"; }

# wasm-bindgen's generator must be of exactly the version that the module was compiled with.
for lock in Cargo.lock:wasm-bindgen $WEB/bindgen/Cargo.lock:wasm-bindgen-shared; do
  versions="${versions:-} $(locked "${lock#*:}" "${lock%:*}")"
done
read -r module generator <<<"$versions"
if [ "$module" != "$generator" ]; then
  echo "build.sh: Cargo.lock has wasm-bindgen $module, $WEB/bindgen/Cargo.lock $generator: make them equal" >&2
  exit 1
fi
cargo build --quiet --locked --manifest-path $WEB/bindgen/Cargo.toml --target-dir "$TARGET_DIR/bindgen"

# Compiles a package to wasm and writes its JavaScript: PACKAGE MODULE FOLDER. Every browser of the last years has SIMD.
wasm() {
  RUSTC=$RUSTC_WASM RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+simd128" cargo build --locked --profile $PROFILE --target $TARGET --target-dir "$WASM_DIR" -p "$1" --lib
  "$TARGET_DIR/bindgen/debug/wisp-web-bindgen" "$WASM_DIR/$TARGET/$FOLDER/$2.wasm" "$3"
}

stamp=$WEB/node_modules/.package-lock.json
if [ ! "$stamp" -nt $WEB/package-lock.json ]; then (cd $WEB && npm ci --no-fund --no-audit >&2 && touch node_modules/.package-lock.json); fi
readonly BIN=$WEB/node_modules/.bin

wasm wisp-web wisp_web $WEB/package/src
optimised=$TARGET_DIR/wasm-opt/$(cksum <$WEB/package/src/wisp_web_bg.wasm | tr ' ' -).wasm
if [ "$PROFILE" = dev ]; then
  optimised=$WEB/package/src/wisp_web_bg.wasm
elif [ ! -e "$optimised" ]; then # it takes a minute
  rm -rf "$TARGET_DIR/wasm-opt"
  mkdir -p "$TARGET_DIR/wasm-opt"
  $BIN/wasm-opt -Oz $WEB/package/src/wisp_web_bg.wasm -o "$optimised.unfinished"
  mv "$optimised.unfinished" "$optimised"
fi
rm -rf $WEB/dist
mkdir -p $WEB/dist/wisp-web
echo "$PROFILE" >$WEB/dist/profile
cp "$optimised" $WEB/dist/wisp-web/wisp_web_bg.wasm
$BIN/tsc -p $WEB/package
cp $WEB/package/src/wisp_web.js $WEB/package/src/wisp_web.d.ts $WEB/package/script.js $WEB/package/package.json \
  $WEB/package/README.md $WEB/package/THIRD-PARTY-NOTICES LICENSE-* native-demo/model/wisp-tiny.gguf $WEB/dist/wisp-web/
$BIN/tsc -p $WEB/page
# Vite copies what stands in public as it is; as .txt, which every server calls text.
cp $WEB/package/THIRD-PARTY-NOTICES $WEB/page/public/THIRD-PARTY-NOTICES.txt
$BIN/vite build --logLevel warn $WEB/page

size() { stat -c %s "$1" 2>/dev/null || stat -f %z "$1"; }
module=$WEB/dist/wisp-web/wisp_web_bg.wasm
line="wasm: $(size $module) bytes"
# With the library that the test of the size has: the program gzip compresses by 1% more.
compressed() { node -e "const file = require('fs').readFileSync('$module'); process.stdout.write(String(require('zlib').$1.length))"; }
if [ "$PROFILE" = web ]; then # compressing takes half a minute where the module is large
  line+=", $(compressed "gzipSync(file, { level: 9 })") gzipped, $(compressed "brotliCompressSync(file)") as brotli"
fi
echo "$line"
