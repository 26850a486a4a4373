#!/usr/bin/env bash
if [[ ${1-} == -h || ${1-} == --help ]]; then
  sed -n '/^# /{/shellcheck/!s/^# //p}' "$0"
  exit
fi
# Compares the simulator with iterations measured on real machines (tests/validation): a table of all rows, the
# constants in use (configs/calibration.yaml), and those of a fit to all rows and to all but each network's; and what
# a V100's profile (configs/profiles/v100.json) should hold by that fit. Then estimated times of layers with measured
# ones, and the constants of the roofline in use (configs/roofline.yaml) and fitted, to all and to all but each GPU
# and model. Last, estimated iteration times (planner/cost) with simulated ones, on random plans. Installs what is
# missing and builds the release preset first.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${test_packages[@]}"
build release dtfm_validate
exec "$root/build/release/tests/dtfm_validate" "$root/tests/validation" "$root/configs" "$root/../shared/data" \
  "$root/topologies"
