#!/usr/bin/env bash
# deploy-files.sh [--image]: checks the files of native-demo/deploy: the manifests against the schemas of Kubernetes (PyPI's
# kubernetes-validate) and of the Gateway API (npm's @kubernetes-models/gateway-api), which objects they name of each other, the
# unit with systemd, and the container file with --image, which builds the image and runs it (podman, buildah or docker; a release build).
#
# What is not installed and cannot be is a line `skipped: …`. No package carries the schema of InferencePool.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly DEPLOY=$PWD/native-demo/deploy
TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly FOLDER=$TARGET_DIR/deploy-files
mkdir -p "$FOLDER"

check_manifests() {
  local python=$FOLDER/venv/bin/python
  [ -x "$python" ] || python3 -m venv "$FOLDER/venv" || { echo "skipped: no Python with venv"; return; }
  "$python" -m pip install --quiet --disable-pip-version-check kubernetes-validate pyyaml ||
    { echo "skipped: pip cannot install kubernetes-validate"; return; }
  "$FOLDER/venv/bin/kubernetes-validate" --strict "$DEPLOY/kubernetes.yaml"
  "$python" tests/scripts/deploy_files.py "$DEPLOY" >"$FOLDER/routes.json"
}

check_routes() {
  [ -s "$FOLDER/routes.json" ] || return 0
  command -v npm >/dev/null || { echo "skipped: no npm"; return; }
  npm install --silent --no-fund --no-audit --prefix "$FOLDER" @kubernetes-models/gateway-api@2 ||
    { echo "skipped: npm cannot install @kubernetes-models/gateway-api"; return; }
  cat >"$FOLDER/routes.mjs" <<'SCRIPT'
import { readFileSync } from "node:fs";
import { HTTPRoute } from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute";
for (const route of JSON.parse(readFileSync(process.argv[2]))) {
  new HTTPRoute(route).validate();
  console.log(`HTTPRoute ${route.metadata.name} is valid`);
}
SCRIPT
  node "$FOLDER/routes.mjs" "$FOLDER/routes.json"
}

check_unit() {
  command -v systemd-analyze >/dev/null || { echo "skipped: no systemd-analyze"; return; }
  # The program need not be installed.
  sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' "$DEPLOY/wisp.service" >"$FOLDER/wisp.service"
  systemd-analyze verify --man=no "$FOLDER/wisp.service"
  echo "wisp.service is valid; $(systemd-analyze security --offline=true "$FOLDER/wisp.service" 2>/dev/null | tail -1 || true)"
}

check_image() {
  local tool
  tool=$(command -v podman || command -v buildah || command -v docker) ||
    { echo "skipped: no podman, buildah or docker"; return; }
  "$tool" build -f "$DEPLOY/Containerfile" -t wisp .
  # The model inside, and whether its user may write where downloads go.
  local check='wisp generate --device host --max-new-tokens 8 "Once upon a time" && touch /models/file && id --user'
  case $tool in
    *buildah)
      local container
      container=$(buildah from --pull-never wisp)
      buildah run "$container" -- sh -c "$check"
      buildah rm "$container" >/dev/null ;;
    *) "$tool" run --rm --entrypoint sh wisp -c "$check" ;;
  esac
}

check_manifests
check_routes
check_unit
if [ "${1:-}" = --image ]; then check_image; fi
