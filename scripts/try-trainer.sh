#!/usr/bin/env bash
# Plans for a trainer on four hosts, exports the plan, and trains it for some steps on this machine, which emulates the
# hosts: each is another loopback address, and all compute on CPUs. From a fresh clone it first installs missing packages and
# the trainers of python/requirements-trainers.txt (6 GB, build/trainers), and builds the programs. Everything of the run is
# kept in build/try-TRAINER.
#
# usage: scripts/try-trainer.sh TRAINER [STEPS]      TRAINER: deepspeed, pytorch-pipelining or pytorch; STEPS: [20]
#
# The losses are compared with those of one process. The times mean nothing: all hosts share this machine's cores and memory.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

trainer=${1-} steps=${2-20}
if ! [[ $# -le 2 && $trainer =~ ^(deepspeed|pytorch-pipelining|pytorch)$ && $steps =~ ^[1-9][0-9]{0,3}$ ]]; then
  echo "usage: try-trainer.sh deepspeed|pytorch-pipelining|pytorch [STEPS] (see --help)" >&2
  exit 2
fi
install_missing "${build_packages[@]}" python3-venv
install_trainers || true
python=${DTFM_TRAINERS_PYTHON:-$root/build/trainers/bin/python}
if [ ! -x "$python" ]; then
  echo "try-trainer.sh: there is no $python: install the packages of python/requirements-trainers.txt, and set" \
    "DTFM_TRAINERS_PYTHON to the Python that has them" >&2
  exit 1
fi
build release dtfm-plan dtfm-export
folder=$root/build/try-$trainer
rm -rf "$folder"
mkdir "$folder"
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$root/tests/trainers/four_hosts.py" "$root"/build/release/dtfm-{plan,export} "$trainer" "$folder" "$steps"
