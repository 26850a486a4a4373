#!/usr/bin/env bash
# eslint finds no errors in the page's script, and the script inserts no text as markup.
#
# usage: lint.sh PAGE PACKAGES    (exit 77 without node, npm or the built page)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

[[ -s $1 ]] || skip 'built without the page, which takes npm'
page=$(realpath "$1")
need_packages "$2"
cd "$2"
cp "$here/eslint.config.js" .
# Our script is the last one of the page.
awk 'sub(/^<script>/, "") { text = ""; is_in = 1 } /^<\/script>/ { is_in = 0 } is_in { text = text $0 "\n" } END { printf "%s", text }' \
  "$page" >page.js
[[ $(wc -l <page.js) -gt 500 ]] || { echo "page.js has $(wc -l <page.js) lines"; exit 1; }
node node_modules/eslint/bin/eslint.js --max-warnings 0 page.js
echo 'no fault'
