#!/usr/bin/env bash
# The same input, settings and seed give the same bytes for any number of threads.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "$@"

for threads in 1 2 3 8; do
  run net.yaml --job job.yaml --objective comm-cost --evaluations 300 --seed 5 --threads $threads -o plan-$threads.json
  expect_status 0 --threads $threads
  mv "$out" summary-$threads
  cmp plan-1.json plan-$threads.json || fail "another plan file with $threads threads"
  cmp summary-1 summary-$threads || fail "another summary with $threads threads"
done
run net.yaml --job job.yaml --objective comm-cost --evaluations 300 --seed 5 -o plan.json
cmp plan-1.json plan.json || fail 'another plan file without --threads'
finish
