# shellcheck shell=bash
# Sourced by the tests that need npm packages: installs them in the folder that CMake names, or skips the
# test.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() {
  echo "skipped: $*"
  exit 77
}

# Installs the packages of package-lock.json next to this file in FOLDER/node_modules, one process at a time.
# A test that waits long for another one, and then for npm, would exceed its time limit in ctest, so it is
# skipped.
need_packages() { # FOLDER
  local folder=$1 stamp
  command -v node >/dev/null || skip 'there is no node'
  command -v npm >/dev/null || skip 'there is no npm'
  mkdir -p "$folder"
  exec 9>"$folder/lock"
  flock -w 60 9 || skip 'another test is still getting the packages'
  stamp=$folder/$(sha256sum <"$here/package-lock.json" | cut -c1-64)
  if [[ ! -e $stamp ]]; then
    cp "$here/package.json" "$here/package-lock.json" "$folder"
    (cd "$folder" && timeout 200 npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=1 >npm.log 2>&1) ||
      skip "npm cannot get the packages: $(tail -n 1 "$folder/npm.log")"
    touch "$stamp"
  fi
  flock -u 9
}
