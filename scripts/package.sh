#!/usr/bin/env bash
if [[ ${1-} == -h || ${1-} == --help ]]; then
  sed -n '/^# /{/shellcheck/!s/^# //p}' "$0"
  exit
fi
# Installs what is missing, builds the release preset and packs it: dtfm_*.deb (programs, manual pages, completions,
# topologies) and libdtfm-dev_*.deb, in build/packages. Arguments go on to cpack:
#   scripts/package.sh -D CPACK_PACKAGE_CONTACT='Ada <ada@example.org>'
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${build_packages[@]}" dpkg-dev file
install_npm
build release packed
rm -f "$root"/build/packages/*.deb # of older builds, and perhaps of other versions
cpack --config "$root/build/release/CPackConfig.cmake" -B "$root/build/packages" "$@" >&2
rm -rf "$root/build/packages/_CPack_Packages"
ls "$root"/build/packages/*.deb
[ -s "$root/build/release/cli/report_page.html" ] ||
  echo "warning: the programs in these packages refuse --report: they were built without its page, which takes npm and d3" >&2
