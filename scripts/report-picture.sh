#!/usr/bin/env bash
if [[ ${1-} == -h || ${1-} == --help || $# -lt 2 ]]; then
  sed -n '/^# /{/shellcheck/q;s/^# //p}' "$0"
  [[ ${1-} == -h || ${1-} == --help ]] && exit 0
  exit 2
fi
# Writes a picture of the first PIXELS rows [2500] of a report on a wide screen. Needs chromium and pngquant:
#   scripts/report-picture.sh REPORT.html PICTURE.png [PIXELS]
set -euo pipefail

profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
  --disable-component-update --disable-sync --user-data-dir="$profile" --hide-scrollbars --virtual-time-budget=5000 \
  --window-size="1240,${3:-2500}" --screenshot="$profile/picture.png" "file://$(realpath "$1")" 2>"$profile/log" ||
  { tail -n 1 "$profile/log" >&2; exit 1; }
pngquant --force --speed 1 --strip --output "$2" 128 "$profile/picture.png"
