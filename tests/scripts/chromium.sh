#!/usr/bin/env bash
# chromium.sh: makes sure that there is a Chromium for the browser tests. Prints one line: "found: PATH" or
# "installed: PATH", or "skipped: WHY" where there can be none.
set -euo pipefail
# shellcheck source=apt.sh
. "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

find_browser() { command -v "${CHROMIUM:-chromium}" || command -v chromium-browser || command -v google-chrome; }

# What Vite runs on; and node's own test runner takes the options that it is given here.
new_enough() { node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'; }

if ! command -v npm >/dev/null; then
  echo "skipped: no Node: install Node 20.19 or later with npm"
elif ! new_enough; then
  echo "skipped: Node $(node --version) is too old: install Node 20.19 or later"
elif path=$(find_browser); then
  echo "found: $path"
elif ! command -v apt-get >/dev/null; then
  echo "skipped: no Chromium, and no apt-get to install one: install Chromium or Chrome by hand"
elif [ "$(id -u)" != 0 ]; then
  echo "skipped: no Chromium, and not root: run 'sudo apt-get install chromium'"
elif apt_retry update && apt_install chromium >&2 && path=$(find_browser); then
  echo "installed: $path"
else
  echo "skipped: no Chromium, and apt-get cannot install one"
fi
