# shellcheck shell=bash
# Sourced by the scripts beside it: apt as unattended scripts need it. What apt says goes to stderr.

# apt collides with other runs of itself, and mirrors have bad moments: three tries.
apt_retry() {
  local try
  for try in 1 2 3; do
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >&2 && return 0
    sleep $((try * 5))
  done
  return 1
}

apt_install() { apt_retry install -y --no-install-recommends "$@"; }
