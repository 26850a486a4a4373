# shellcheck shell=bash
# Sourced by scripts/*.sh: prints their first lines for --help, installs packages, builds a preset and runs its tests.
set -euo pipefail
case ${1-} in -h | --help) sed -n '/^# shellcheck/q; s/^#\( \|$\)//p' "$0" && exit ;; esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
# One more than cores, because some tests mostly wait: for signals, for ranks to end, and for a network.
export CTEST_PARALLEL_LEVEL="${CTEST_PARALLEL_LEVEL:-$((CMAKE_BUILD_PARALLEL_LEVEL + 1))}"

# With ccache, clones in different folders share their compilation results.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}" CCACHE_NOHASHDIR="${CCACHE_NOHASHDIR:-1}"

# These packages have the same names in Debian 12 and Ubuntu 24.04.
build_packages=(g++ cmake ninja-build libeigen3-dev libcli11-dev nlohmann-json3-dev libyaml-cpp-dev libfmt-dev libmimalloc-dev catch2)
# shellcheck disable=SC2034 # used by scripts that source this file
test_packages=("${build_packages[@]}" python3 mold)

# Without these packages, the tests that need them are reported as skipped. .ci/run tries to install them.
# shellcheck disable=SC2034 # used by scripts that source this file
extra_test_packages=(
  munge openmpi-bin slurm-client slurmctld slurmd # launchers
  iproute2 iperf3 iputils-ping libopenmpi-dev     # networks: emulated, measured, used by MPI
  chromium fonts-dejavu-core                      # the report in a browser
  groff-base mandoc                               # manual pages
  python3-jsonschema python3-yaml                 # schemas of the files
  python3-torch                                   # the PyTorch runtime
  python3-venv python3-dev                        # the trainers, the Python package
  dpkg-dev file debootstrap                       # packages, and a clean system to install them on
  shellcheck                                      # scripts
)

missing_packages() { # PACKAGE...
  local package installed
  # shellcheck disable=SC2016 # dpkg-query's own variables
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$installed" || echo "$package"
  done
}

cannot_install() { # WHY PACKAGE...
  printf 'Cannot install missing packages: %s. Install these packages and run this again:\n  %s\n' "$1" "${*:2}" >&2
  exit 2
}

install_missing() { # PACKAGE...
  local missing as_root=()
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || cannot_install "there is no apt-get on this machine" "${missing[@]}"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || cannot_install "you are not root, and there is no sudo" "${missing[@]}"
    as_root=(sudo)
    [ -t 0 ] || as_root+=(-n) # without a terminal nobody can type a password
  fi
  echo "Installing from the distribution's packages: ${missing[*]}" >&2
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update </dev/null >&2 || echo "apt-get update failed; using the existing package lists." >&2
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >&2 ||
    cannot_install "apt-get install failed" "${missing[@]}"
}

# Like install_missing, but continues without packages that cannot be installed. If they cannot be installed together, it
# tries them one by one.
install_if_possible() { # PACKAGE...
  local package
  (install_missing "$@" 2>/dev/null) && return
  for package in "$@"; do
    (install_missing "$package" >/dev/null 2>&1) || echo "Continuing without $package, which cannot be installed." >&2
  done
}

# npm builds the page of --report. The distribution's npm is installed unless there is another one.
install_npm() {
  command -v npm >/dev/null || install_if_possible npm
}

# Makes build/NAME, a Python environment with the packages of python/requirements-NAME.txt, and keeps it while that file is
# the same. Returns 1 if they cannot be installed.
install_environment() { # NAME
  local folder=$root/build/$1 list=$root/python/requirements-$1.txt
  cmp -s "$list" "$folder/installed.txt" && return
  rm -rf "$folder"
  if python3 -m venv "$folder" >/dev/null 2>&1 &&
    "$folder/bin/pip" install -q --no-cache-dir --disable-pip-version-check -r "$list" >&2; then
    cp "$list" "$folder/installed.txt"
  else
    rm -rf "$folder"
    return 1
  fi
}

continuing_without() { # NAME
  echo "Continuing without the packages of python/requirements-$1.txt, which cannot be installed." >&2
}

# Makes build/trainers (6 GB) unless DTFM_TRAINERS_PYTHON names another Python. Without both, tests/trainers is reported as
# skipped. Returns 1 if it cannot be installed.
install_trainers() {
  [ -n "${DTFM_TRAINERS_PYTHON-}" ] || install_environment trainers
}

# Makes build/package and has `build release` build the Python package with it. Returns 1 if that is not possible.
install_package_builder() {
  local python=$root/build/package/bin/python
  install_environment package || return 1
  "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || {
    echo "python3 has no headers (python3-dev)." >&2
    return 1
  }
  export DTFM_PACKAGE_PYTHON=$python
}

# Without nvcc on PATH, makes build/cuda, and sets PATH to its nvcc and its CMake. Returns 1 if there is no nvcc then.
install_cuda() {
  local toolkit program
  command -v nvcc >/dev/null && return
  install_environment cuda || {
    echo "The packages of python/requirements-cuda.txt cannot be installed." >&2
    return 1
  }
  toolkit=$(echo "$root"/build/cuda/lib/python3*/site-packages/nvidia/cu13)
  # nvcc looks for lib64, and CMake for libcudart.so, which the packages lack.
  ln -sfn lib "$toolkit/lib64"
  ln -sf libcudart.so.13 "$toolkit/lib/libcudart.so"
  for program in cmake ctest; do ln -sf "$root/build/cuda/bin/$program" "$toolkit/bin/$program"; done
  export PATH=$toolkit/bin:$PATH
}

# Warnings are errors only on request (DTFM_WERROR=ON), because newer compilers may warn about more. Scripts mostly build
# from scratch, so libraries are unity builds (DTFM_UNITY=OFF compiles file by file) and headers are precompiled
# (DTFM_PRECOMPILE=OFF does not). mold links if it is installed.
build() { # PRESET TARGET...
  local linker=() package=()
  [ "$1" != release ] || [ -z "${DTFM_PACKAGE_PYTHON-}" ] ||
    package=(-DDTFM_PYTHON=ON "-DPython_EXECUTABLE=$DTFM_PACKAGE_PYTHON")
  command -v mold >/dev/null && linker=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold)
  (
    cd "$root"
    cmake --preset "$1" "-DDTFM_WERROR=${DTFM_WERROR:-OFF}" "-DDTFM_UNITY=${DTFM_UNITY:-ON}" \
      "-DDTFM_PRECOMPILE=${DTFM_PRECOMPILE:-ON}" "${linker[@]}" "${package[@]}"
    cmake --build --preset "$1" --target "${@:2}"
  ) >&2
}

run_tests() { # PRESET [CTEST ARGUMENT...]
  (cd "$root" && ctest --preset "$@")
}
