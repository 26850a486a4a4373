#!/usr/bin/env bash
# Runs what takes too long for every change: compiles the kernels for every GPU generation (scripts/kernels.sh), and runs all
# tests of the release preset, all tests that use threads under ThreadSanitizer, the Python module under AddressSanitizer, and
# every fuzzer for FUZZ_RUNS inputs [200000] with a new seed every day. Installs missing packages.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${test_packages[@]}" clang libomp-dev
install_if_possible "${extra_test_packages[@]}" podman runc
install_npm
install_package_builder || continuing_without package
install_trainers || continuing_without trainers
install_missing "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"

command -v nvcc >/dev/null || "$root/scripts/kernels.sh" || [ $? -eq 77 ] # else the release has them
DTFM_PRECOMPILE=OFF build release all # with the warnings that tests lack with precompiled headers
run_tests release
"$root/scripts/sanitize.sh" --threads
"$root/scripts/sanitize.sh" --python
DTFM_UNITY=OFF DTFM_PRECOMPILE=OFF build asan all
seed=$(date +%j)
while IFS= read -r fuzzer; do
  name=$(basename "$fuzzer")
  echo "$name, seed $seed" >&2
  "$fuzzer" -seed="$seed" -runs="${FUZZ_RUNS:-200000}" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -seed_inputs=@"$(dirname "$fuzzer")/${name#fuzz_}.seeds" -artifact_prefix="$root/build/$name-"
done < <(find "$root/build/asan/tests/fuzz" -maxdepth 1 -name 'fuzz_*' -type f -executable | sort)
