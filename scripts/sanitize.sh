#!/usr/bin/env bash
# Runs tests under sanitizers, built with clang++: AddressSanitizer and UndefinedBehaviorSanitizer for tests labelled `unit`
# (tests/CMakeLists.txt), programs that read odd files, and a short run of every fuzzer; ThreadSanitizer for parallel work
# and one search. With --threads it runs only ThreadSanitizer, for all tests that use threads. Installs missing packages.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${test_packages[@]}" clang libomp-dev
install_npm
# The package of the sanitizer runtime is named after the version of the compiler.
install_missing "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"

if [ "${1-}" = --threads ]; then
  build tsan thread_tests
  run_tests tsan -L threads
else
  build asan all
  run_tests asan
  build tsan test_core test_search
  run_tests tsan -R '^(core/|search/determinism)'
fi
