#!/usr/bin/env bash
if [[ ${1-} == -h || ${1-} == --help ]]; then
  sed -n '/^# /{/shellcheck/!s/^# //p}' "$0"
  exit
fi
# Installs what is missing, builds the release preset with its tests and runs them. Arguments go on to ctest:
#   scripts/test.sh -R comm_cost
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${test_packages[@]}"
install_npm
build release all
run_tests release "$@"
