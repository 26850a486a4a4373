#!/usr/bin/env bash
# Prints the accuracy tables of docs/validation.md. Installs missing packages and builds the release preset first.
#
# - Simulated against measured iterations (tests/validation): all rows, the constants in use (configs/calibrations/v100.yaml),
#   those fitted to all rows and to all but one network, and the V100 profile (configs/profiles/v100.json) by that fit.
# - The same for published iterations of other trainers, with neutral constants and with those fitted to a third.
# - Estimated against measured layer times: the roofline's constants in use (configs/roofline.yaml), those fitted to all
#   profiles, and those fitted without one GPU or model; and the errors for the profiles measured on an H100 and an H200.
# - Estimated (planner/cost) against simulated iteration times, on random plans.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${test_packages[@]}"
build release dtfm_validate
exec "$root/build/release/tests/dtfm_validate" "$root/tests/validation" "$root/configs" "$root/../shared/data" \
  "$root/topologies"
