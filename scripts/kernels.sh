#!/usr/bin/env bash
# Compiles kernels/ with tests and benchmark for every GPU generation, or for those of CUDAARCHS, and runs the tests. Without
# nvcc on PATH, it installs the compiler of python/requirements-cuda.txt from PyPI (build/cuda). Without a GPU, the tests that
# need one are skipped: scripts/on-gpu.sh is for machines with one. Installs missing packages. Exit code 77: no nvcc can be
# installed.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing g++ cmake ninja-build python3-venv
install_cuda || exit 77
cmake -S "$root/kernels" -B "$root/build/kernels" -G Ninja -DDTFM_CUDA=ON
cmake --build "$root/build/kernels"
ctest --test-dir "$root/build/kernels" --output-on-failure -L gpu
