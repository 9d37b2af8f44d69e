#!/usr/bin/env bash
# serve-schema.sh [SECONDS]: runs schemathesis, which makes requests from /openapi.json, against a live `wisp serve` with the
# built-in model: no request may be answered with a status that the description does not allow, with a body of another form,
# or with an internal error.
#
# Without pip or its registry, it prints `skipped: …`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SECONDS_TO_RUN=${1:-60}
TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly VENV=$TARGET_DIR/serve-clients/venv

mkdir -p "${VENV%/*}"
[ -x "$VENV/bin/python" ] || python3 -m venv "$VENV" || { echo "skipped: no Python with venv"; exit 0; }
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check schemathesis ||
  { echo "skipped: pip cannot install schemathesis"; exit 0; }

cargo build --locked --workspace --features candle,wisp-llm/cuda,wisp-llm/otel,wisp-tests/cuda,wisp-engine/faults --bins
FOLDER=$(mktemp -d)
mkdir "$FOLDER/adapters"
"$TARGET_DIR/debug/wisp" serve --port 0 --device host --max-length 256 --allow-adapter-loading "$FOLDER/adapters" >"$FOLDER/address" &
SERVER=$!
trap 'kill "$SERVER" 2>/dev/null || true; rm -rf "$FOLDER"' EXIT
until [ -s "$FOLDER/address" ]; do sleep 0.1; done
ADDRESS=$(head -1 "$FOLDER/address")
until curl --silent --fail "$ADDRESS/health" >"$FOLDER/health"; do sleep 0.1; done

# It leaves a folder of its own where it runs.
cd "$FOLDER"
"$VENV/bin/st" run "$ADDRESS/openapi.json" --workers 2 --max-examples 20 --max-time "$SECONDS_TO_RUN" \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance
curl --silent --fail "$ADDRESS/health"
