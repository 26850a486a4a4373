#!/usr/bin/env bash
# Ctrl-C and SIGTERM return the best plan so far with exit code 130; --time-limit returns it with a note.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "$@"

# All links differ, so that no proof ends the search before the signal.
python3 "$(dirname "$0")/../../scripts/generate-topology.py" --devices 64 --sites 8 --noise 0.3 -o big.yaml

for signal in INT TERM; do
  rm -f plan.json
  "$program" big.yaml --objective comm-cost --time-limit 100 --evaluations 1000000000 -o plan.json >"$out" 2>"$err" &
  search=$!
  # The first line of progress shows that the search has begun.
  for ((i = 0; i < 600; ++i)); do
    if grep -q evaluations "$err"; then break; fi
    sleep 0.1
  done
  grep -q evaluations "$err" || fail 'no progress within a minute'
  kill -s $signal $search || fail "the search has ended before SIG$signal"
  status=0
  wait $search || status=$?
  expect_status 130 "SIG$signal"
  expect_json plan.json
  expect_in plan.json '"stopped": "interrupted"'
  expect_in plan.json 'interrupted: this is the best plan so far'
  expect_in "$out" ': 64 devices in 8 sites'
  run big.yaml --objective comm-cost --score plan.json
  expect_status 0 "score what SIG$signal left"
done

# A topology that is never complete: the program waits for the rest of it.
mkfifo endless.yaml
for signal in INT TERM; do
  rm -f early.json
  "$program" endless.yaml -o early.json >"$out" 2>"$err" &
  search=$!
  exec 3>endless.yaml # opens when the program reads
  kill -s $signal $search
  status=0
  wait $search || status=$?
  exec 3>&-
  expect_status 130 "SIG$signal before there is a plan"
  expect_no_stdout "SIG$signal before there is a plan"
  expect_in "$err" 'interrupted before there was a plan'
  [[ ! -e early.json ]] || fail "SIG$signal before there is a plan: wrote a file"
done

# The score of a plan is available before the planner's advice.
printf '%s\n' 'version: 1' 'name: small' 'model: {kind: transformer, layers: 8, hidden: 256, heads: 4, sequence: 128, vocabulary: 1000}' \
  'training: {global_batch: 64, micro_batch: 1, precision: fp16}' >small.yaml
run big.yaml --job small.yaml --evaluations 100 -o given.json --quiet
expect_status 0 'a plan to score'
"$program" big.yaml --job small.yaml --score given.json --advise --evaluations 1000000000 -o scored.json >"$out" 2>"$err" &
search=$!
for ((i = 0; i < 600; ++i)); do
  if grep -q evaluations "$err"; then break; fi
  sleep 0.1
done
kill -s INT $search || fail 'the search for advice has ended before SIGINT'
status=0
wait $search || status=$?
expect_status 130 'SIGINT while a better plan is searched for'
expect_json scored.json
expect_in scored.json 'the advice is incomplete: the search was cut short'
expect_in scored.json '"advice"'

run big.yaml --objective comm-cost --time-limit 0.2 --evaluations 1000000000 -o timed.json
expect_status 0 --time-limit
expect_in timed.json 'stopped by --time-limit: another run may give another plan'
finish
