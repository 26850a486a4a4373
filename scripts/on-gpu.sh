#!/usr/bin/env bash
# Builds kernels/ for the GPU of this machine, runs all their tests and the benchmark, measures profiles, and compares
# benchmark and profiles with PyTorch if python3 has it. Needs g++ and CMake; without nvcc, it installs that of
# python/requirements-cuda.txt from PyPI (build/cuda). If compute-sanitizer is installed, tests also run under it.
#
# usage: scripts/on-gpu.sh [OPTION or MODEL of kernels_bench]…
#
# The table goes to stdout and to build/gpu/benchmark.txt, and a profile of each model (GPT-3 XL, GPT-3 6.7B and LLaMA-3-8B by
# default) to build/gpu/profiles. The comparison goes to stdout and to build/gpu/pytorch.txt. --gpu NAME sets the GPU's name in
# profiles [the driver's]. A failed build ends the script; after failed tests or missed targets the other steps still run. Exit
# code: that of the first of build, tests, benchmark and comparison that fails; 1 also if a target is missed, in which case the
# profiles are written.
set -euo pipefail
case ${1-} in -h | --help) sed -n '2,/^$/{/^#/s/^# \{0,1\}//p}' "$0" && exit ;; esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/gpu
cores=$(nproc)
PATH=$PATH:/usr/local/cuda/bin # the default location of the toolkit

# If the toolkit lacks cuBLAS, use that of Python's packages.
if command -v nvcc >/dev/null && ! nvcc -E -x cu -include cublas_v2.h /dev/null >/dev/null 2>&1; then
  while read -r folder; do
    [ -f "$folder/include/cublas_v2.h" ] || continue
    export CPATH=$folder/include${CPATH:+:$CPATH} LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    break
  done < <(python3 -c 'import nvidia
for path in nvidia.__path__: print(path + "/cu13", path + "/cublas", sep="\n")' 2>/dev/null)
fi

architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .) || architecture=
if ! [[ $architecture =~ ^[0-9]+$ ]]; then # containers may lack nvidia-smi, and old versions have no compute_cap
  if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
    echo "on-gpu.sh: no GPU found: nvidia-smi lists none, and there is no /dev/nvidia0" >&2
    exit 2
  fi
  architecture=native # nvcc asks the driver
fi
if ! command -v nvcc >/dev/null; then
  # shellcheck source=scripts/lib/setup.sh
  . "$root/scripts/lib/setup.sh"
  install_cuda
fi
if [ "$architecture" = 90 ]; then architecture=90a; fi # warpgroup products exist only in its code
cmake -S "$root/kernels" -B "$build" -DCMAKE_BUILD_TYPE=Release -DDTFM_CUDA=ON -DDTFM_WERROR=OFF \
  -DCMAKE_CUDA_ARCHITECTURES="$architecture"
cmake --build "$build" -j "$cores"
code=0
ctest --test-dir "$build" --output-on-failure -j "$cores" || code=$?
measured=0
"$build/kernels_bench" --rows "$build/benchmark.tsv" --profile "$build/profiles" "$@" | tee "$build/benchmark.txt" || measured=$?
if ((code == 0)); then code=$measured; fi
if ((measured < 2)) && command -v python3 >/dev/null; then # 2: bad usage, or nothing to compare
  compared=0
  PYTHONWARNINGS=ignore python3 "$root/scripts/compare-with-pytorch.py" "$build" | tee "$build/pytorch.txt" || compared=$?
  if ((compared != 77 && code == 0)); then code=$compared; fi # 77: skipped; it has said why
fi
exit "$code"
