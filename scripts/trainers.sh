#!/usr/bin/env bash
# Installs the trainers of python/requirements-trainers.txt into build/trainers (6 GB), for the tests in tests/trainers.
# .ci/run does it by itself.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing python3 python3-venv
install_environment trainers || {
  echo "trainers.sh: the packages of python/requirements-trainers.txt cannot be installed" >&2
  exit 1
}
