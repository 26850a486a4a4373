#!/usr/bin/env bash
# Runs tests under sanitizers, built with clang++: AddressSanitizer and UndefinedBehaviorSanitizer for all tests but those
# labelled `numbers` or `nightly` (tests/CMakeLists.txt), with a short run of every fuzzer, and ThreadSanitizer for tests
# that use threads. Installs missing packages.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${test_packages[@]}" clang libomp-dev
install_npm
# The package of the sanitizer runtime is named after the version of the compiler.
install_missing "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"

build asan all
run_tests asan -LE 'numbers|nightly'
build tsan thread_tests
run_tests tsan -L threads
