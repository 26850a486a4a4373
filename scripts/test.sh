#!/usr/bin/env bash
# Installs missing packages, builds the release preset with its tests, and runs them, except those that only
# scripts/nightly.sh runs. With arguments, it passes these to ctest instead:
#   scripts/test.sh -R comm_cost
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${test_packages[@]}"
install_npm
build release all
if [ $# -eq 0 ]; then set -- -LE nightly; fi
run_tests release "$@"
