#!/usr/bin/env bash
# The packages install on a clean Debian, work there, and leave nothing behind: deb.sh BUILD_FOLDER. Skipped
# (77) if a clean Debian cannot be set up.
# shellcheck source=tests/package/clean_debian.sh
. "$(dirname "${BASH_SOURCE[0]}")/clean_debian.sh"

build=$(realpath "$1")
for program in dpkg-deb dpkg-shlibdeps file; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
cpack --config "$build/CPackConfig.cmake" -B "$scratch/packages" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
package=$(ls "$scratch"/packages/dtfm_*_"$(dpkg --print-architecture)".deb)
development=$(ls "$scratch"/packages/libdtfm-dev_*.deb)

# The package's dependencies are installed with the system, as by apt: the first of each alternative.
needs() { dpkg-deb -f "$1" Depends | tr ',' '\n' | sed 's/^ *//; s/[ (|].*//' | paste -sd,; }
dpkg-deb -f "$package" Depends | grep -q libyaml-cpp || fail "does not depend on the libraries it is linked with"
dpkg-deb -f "$development" Depends | grep -q libeigen3-dev || fail "libdtfm-dev does not depend on the headers it includes"
make_clean "$(needs "$package")"
find "$clean" -xdev | sort >"$scratch/before"

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
