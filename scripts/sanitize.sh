#!/usr/bin/env bash
# Runs tests under sanitizers, built with clang++: AddressSanitizer and UndefinedBehaviorSanitizer for tests labelled `unit`
# (tests/CMakeLists.txt), programs that read odd files, and a short run of every fuzzer; ThreadSanitizer for parallel work
# and one search. With --threads it runs only ThreadSanitizer, for all tests that use threads; with --python only the Python
# package's tests of fuzzed input and of interrupts, with AddressSanitizer. Installs missing packages.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${test_packages[@]}" clang libomp-dev
install_npm
# The package of the sanitizer runtime is named after the version of the compiler.
install_missing "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"

if [ "${1-}" = --threads ]; then
  build tsan thread_tests
  run_tests tsan -L threads
elif [ "${1-}" = --python ]; then
  install_package_builder
  folder=$root/build/asan-python
  (cd "$root" && cmake --preset asan -B "$folder" -DDTFM_PYTHON=ON "-DPython_EXECUTABLE=$DTFM_PACKAGE_PYTHON" \
    -DDTFM_UNITY=ON -DDTFM_PRECOMPILE=OFF) >&2
  cmake --build "$folder" --target dtfm_python >&2
  ctest --test-dir "$folder" --output-on-failure -R '^package_python/'
else
  build asan all
  run_tests asan
  build tsan test_core test_search
  run_tests tsan -R '^(core/|search/determinism)'
fi
