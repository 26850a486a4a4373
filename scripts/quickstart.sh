#!/usr/bin/env bash
# Installs missing packages (Debian 12, Ubuntu 24.04), builds all programs, and plans the 64 devices of
# topologies/worldwide.yaml: the plan is build/worldwide-plan.json, and a page with charts build/worldwide.html.
# Arguments are passed to dtfm-plan:
#   scripts/quickstart.sh --seed 3
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_missing "${build_packages[@]}"
install_npm
build release programs
[[ " $* " == *" -o "* ]] || set -- -o "$root/build/worldwide-plan.json" "$@"
page=$root/build/worldwide.html
# Without npm there is no page, and some options cannot be combined with --report.
if [ -s "$root/build/release/planner/report_page.html" ] && ! [[ " $* " =~ " --"(report|pareto|diff|help|version|list)[^\ ]*" " ]]; then
  "$root/build/release/dtfm-plan" "$root/topologies/worldwide.yaml" --report "$page" "$@"
  echo "Open $page in a browser." >&2
else
  exec "$root/build/release/dtfm-plan" "$root/topologies/worldwide.yaml" "$@"
fi
