# shellcheck shell=bash
# Sourced by tests that need a clean Debian: provides skip, fail, make_clean, and in_clean. A clean Debian requires root,
# debootstrap, and a mirror.
set -euo pipefail

skip() {
  echo "skipped: $*"
  exit 77
}

fail() {
  echo "FAILED: $*"
  exit 1
}

# shellcheck source=/dev/null
. /etc/os-release
[[ $ID == debian ]] || skip "this is $ID, and the clean system would be Debian"
[[ $(id -u) == 0 ]] || skip "only root can change the root folder"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
# shellcheck disable=SC2016 # apt's own variables
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' |
  # reads to the end to avoid a broken pipe
  awk -v release="$VERSION_CODENAME" '$2 == release && $3 == "main" && !seen++ {print $1}')
[[ -n $mirror ]] || skip "apt knows no mirror of $VERSION_CODENAME"

scratch=$(mktemp -d)
clean=$scratch/clean
trap 'umount -q "$clean/proc" "$clean/sys" 2>/dev/null || true; rm -rf --one-file-system "$scratch"' EXIT

# Makes the root folder $clean with only these packages and those that they depend on.
make_clean() { # PACKAGE,PACKAGE…
  timeout 900 debootstrap --variant=minbase --include="$1" "$VERSION_CODENAME" "$clean" "$mirror" >"$scratch/log" 2>&1 ||
    skip "debootstrap: $(tail -1 "$scratch/log")"
}

# Lets programs in $clean reach the network as on this machine.
connect_clean() {
  local path
  for path in /etc/resolv.conf /etc/pip.conf /usr/local/share/ca-certificates; do
    [[ ! -e $path ]] || cp -RL --parents "$path" "$clean"
  done
}

in_clean() { # COMMAND…
  chroot "$clean" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin DEBIAN_FRONTEND=noninteractive \
    ${https_proxy+"https_proxy=$https_proxy"} "$@"
}
