#!/usr/bin/env bash
if [[ ${1-} == -h || ${1-} == --help ]]; then
  sed -n '/^# /{/shellcheck/!s/^# //p}' "$0"
  exit
fi
# The tests but those of `numbers` (tests/CMakeLists.txt) under AddressSanitizer and UndefinedBehaviorSanitizer with a
# short run of every fuzzer, and those that make threads under ThreadSanitizer (all with clang++). Installs what is
# missing.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${test_packages[@]}" clang libomp-dev
install_npm
# The sanitizers' runtime comes in a package named for the compiler's version.
install_missing "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"

DTFM_UNITY=OFF build asan all # file by file: every file must include what it uses
run_tests asan -LE numbers
DTFM_UNITY=OFF build tsan thread_tests
run_tests tsan -L threads
