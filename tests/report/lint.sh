#!/usr/bin/env bash
# The page's script has no fault that eslint finds, and puts no text into the page as markup.
#
# usage: lint.sh PAGE PACKAGES    (exit 77 where node or npm is not there, or the page was not built)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

[[ -s $1 ]] || skip 'built without the page, which takes npm'
page=$(realpath "$1")
need_packages "$2"
cd "$2"
cp "$here/eslint.config.js" .
# Ours is the last script of the page.
awk 'sub(/^<script>/, "") { text = ""; is_in = 1 } /^<\/script>/ { is_in = 0 } is_in { text = text $0 "\n" } END { printf "%s", text }' \
  "$page" >page.js
[[ $(wc -l <page.js) -gt 500 ]] || { echo "page.js has $(wc -l <page.js) lines"; exit 1; }
node node_modules/eslint/bin/eslint.js --max-warnings 0 page.js
echo 'no fault'
