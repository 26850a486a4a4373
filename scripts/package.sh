#!/usr/bin/env bash
# Installs missing packages, builds the release preset, and writes Debian packages to build/packages: dtfm_*.deb (programs,
# manual pages, completions, topologies) and libdtfm-dev_*.deb. Arguments are passed to cpack:
#   scripts/package.sh -D CPACK_PACKAGE_CONTACT='Ada <ada@example.org>'
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${build_packages[@]}" dpkg-dev file
install_npm
build release packed
rm -f "$root"/build/packages/*.deb # packages of older builds may have other names
cpack --config "$root/build/release/CPackConfig.cmake" -B "$root/build/packages" "$@" >&2
rm -rf "$root/build/packages/_CPack_Packages"
ls "$root"/build/packages/*.deb
[ -s "$root/build/release/planner/report_page.html" ] ||
  echo "warning: the programs in these packages reject --report, because they were built without npm; install it and run this again" >&2
