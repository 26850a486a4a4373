#!/usr/bin/env bash
# The packages install on a clean Debian, work there, and leave nothing behind: deb.sh BUILD_FOLDER. Skipped
# (77) if a clean Debian cannot be set up, which requires root, debootstrap and a mirror.
set -euo pipefail

build=$(realpath "$1")

skip() {
  echo "skipped: $*"
  exit 77
}

# shellcheck source=/dev/null
. /etc/os-release
[[ $ID == debian ]] || skip "this is $ID, and the clean system would be Debian"
[[ $(id -u) == 0 ]] || skip "only root can change the root folder"
for program in debootstrap dpkg-deb dpkg-shlibdeps file; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
# shellcheck disable=SC2016 # apt's own variables
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' |
  # reads to the end to avoid a broken pipe
  awk -v release="$VERSION_CODENAME" '$2 == release && $3 == "main" && !seen++ {print $1}')
[[ -n $mirror ]] || skip "apt knows no mirror of $VERSION_CODENAME"

scratch=$(mktemp -d)
clean=$scratch/clean
trap 'umount -q "$clean/proc" "$clean/sys" 2>/dev/null || true; rm -rf --one-file-system "$scratch"' EXIT
cpack --config "$build/CPackConfig.cmake" -B "$scratch/packages" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
package=$(ls "$scratch"/packages/dtfm_*_"$(dpkg --print-architecture)".deb)
development=$(ls "$scratch"/packages/libdtfm-dev_*.deb)

fail() {
  echo "FAILED: $*"
  exit 1
}

# The package's dependencies are installed with the system, as by apt: the first of each alternative.
needs() { dpkg-deb -f "$1" Depends | tr ',' '\n' | sed 's/^ *//; s/[ (|].*//' | paste -sd,; }
dpkg-deb -f "$package" Depends | grep -q libyaml-cpp || fail "does not depend on the libraries it is linked with"
dpkg-deb -f "$development" Depends | grep -q libeigen3-dev || fail "libdtfm-dev does not depend on the headers it includes"
timeout 300 debootstrap --variant=minbase --include="$(needs "$package")" "$VERSION_CODENAME" "$clean" "$mirror" >"$scratch/log" 2>&1 ||
  skip "debootstrap: $(tail -1 "$scratch/log")"
find "$clean" -xdev | sort >"$scratch/before"

in_clean() { chroot "$clean" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin "$@"; }
cp "$package" "$clean/dtfm.deb"
in_clean dpkg -i /dtfm.deb >"$scratch/log" 2>&1 || fail "dpkg -i: $(cat "$scratch/log")"
in_clean dtfm-plan /usr/share/dtfm/topologies/regional.yaml --evaluations 100 --quiet -o /tmp/plan.json >"$scratch/out"
grep -q '^regional: 64 devices' "$scratch/out" || fail "dtfm-plan printed $(head -3 "$scratch/out")"
in_clean dtfm-sim /usr/share/dtfm/topologies/regional.yaml /tmp/plan.json --quiet >/dev/null
for program in "$clean"/usr/bin/dtfm-*; do
  name=${program##*/}
  in_clean "$name" --version >/dev/null
  [[ -s $clean/usr/share/man/man1/$name.1 ]] || fail "no manual page of $name"
  [[ -s $clean/usr/share/bash-completion/completions/$name ]] || fail "no completion of $name"
done
[[ -z $(find "$clean/usr/include/dtfm" "$clean/usr/lib/cmake" 2>/dev/null) ]] || fail "the programs come with headers"

in_clean dpkg --purge dtfm >/dev/null
rm "$clean/dtfm.deb" "$clean/tmp/plan.json"
find "$clean" -xdev | sort >"$scratch/after"
left=$(comm -13 "$scratch/before" "$scratch/after" | grep -v '/var/lib/dpkg/\|/var/log/\|/var/cache/' || true)
[[ -z $left ]] || fail "left behind: $left"
echo "all passed: $(basename "$package"), $(basename "$development")"
