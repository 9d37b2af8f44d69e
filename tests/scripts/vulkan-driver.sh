#!/usr/bin/env bash
# vulkan-driver.sh: makes sure that there is a Vulkan driver to test on. Machines without a GPU get lavapipe,
# Mesa's software implementation. Prints one line saying what it did; never fails for a system that it does not know,
# because the tests themselves say when they are skipped for want of an adapter.
set -euo pipefail
# shellcheck source=apt.sh
. "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

# Prints the manifests of the installed Vulkan drivers, one a line.
drivers() {
  local folder
  if [ -n "${VK_DRIVER_FILES:-${VK_ICD_FILENAMES:-}}" ]; then
    printf '%s\n' "${VK_DRIVER_FILES:-$VK_ICD_FILENAMES}" | tr ':' '\n'
    return
  fi
  for folder in /etc /usr/share /usr/local/share /usr/local/etc "${XDG_DATA_HOME:-$HOME/.local/share}"; do
    [ -d "$folder/vulkan/icd.d" ] && find "$folder/vulkan/icd.d" -name '*.json'
  done
  return 0
}

loader() { PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1'; }

if [ "$(uname -s)" != Linux ]; then
  echo "not needed: $(uname -s) brings its own graphics API"
elif loader && [ -n "$(drivers)" ]; then
  echo "found: $(drivers | sed 's|.*/||; s|\.json$||' | sort | tr '\n' ' ')"
elif ! command -v apt-get >/dev/null; then
  echo "skipped: no Vulkan driver, and no apt-get to install one: install Mesa's software driver (lavapipe) by hand"
elif [ "$(id -u)" != 0 ]; then
  echo "skipped: no Vulkan driver, and not root: run 'sudo apt-get install mesa-vulkan-drivers libvulkan1'"
else
  apt_retry update
  apt_install mesa-vulkan-drivers libvulkan1
  echo "installed: mesa-vulkan-drivers libvulkan1"
fi
