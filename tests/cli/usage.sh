#!/usr/bin/env bash
# Bad usage and bad input: exit code 2, one line that says what to do, nothing written.
# shellcheck disable=SC2016 # messages contain back quotes
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "$@"
help='(see dtfm-plan --help)'

expect_refused "TOPOLOGY or --gpus is missing $help"
expect_refused "unexpected argument \`--sede\`; did you mean \`--seed\`? $help" net.yaml --sede 3
expect_refused "--alike was renamed to --uniform-pipelines $help" net.yaml --alike
expect_refused "unexpected argument \`second.yaml\` $help" net.yaml second.yaml
run net.yaml --seed
expect_status 2 'an option without its value'
run net.yaml --seed 1 --seed 2
expect_status 2 'an option twice'
expect_refused 'missing.yaml: cannot be opened: No such file or directory' missing.yaml
expect_refused 'missing.yaml: cannot be opened: No such file or directory' net.yaml --job missing.yaml
expect_refused 'missing.json: cannot be opened: No such file or directory' net.yaml --job job.yaml --score missing.json

for option in --pipeline --data --tensor; do
  for number in 0 -3 3x 0x3 +3 '' 99999999999; do
    expect_refused "$option: expected a whole number from 1 to 1000000; found \`$number\`" net.yaml "$option" "$number"
  done
done
for number in 0 -3 3x 1000000001; do
  expect_refused "--batch: expected a whole number from 1 to 1000000000; found \`$number\`" net.yaml --batch "$number"
done
sed 's/global_batch: 24/global_batch: 24, micro_batch: 2/' job.yaml >pairs.yaml
expect_refused '--batch: 25 is not a multiple of the micro-batch, 2' net.yaml --job pairs.yaml --batch 25
for number in -1 18446744073709551616; do
  expect_refused "--seed: expected a whole number from 0 to 18446744073709551615; found \`$number\`" net.yaml --seed $number
done
expect_refused '--threads: expected a whole number from 1 to 1024; found `1025`' net.yaml --threads 1025
expect_refused '--evaluations: expected a whole number from 1 to 1000000000000; found `1e3`' net.yaml --evaluations 1e3
for seconds in 0 -1 nan inf +inf 1e999 1e300 1000000001 2h; do
  expect_refused "--time-limit: expected a number of seconds above zero, at most 1000000000; found \`$seconds\`" net.yaml --time-limit $seconds
done
expect_refused '--format: expected text or json; found `xml`' net.yaml --format xml
expect_refused '--objective: unknown `com-cost`; did you mean `comm-cost`?' net.yaml --objective com-cost
for strategy in genetic kernighan-lin random exhaustive identity megatron; do
  expect_refused "--strategy $strategy requires --objective comm-cost" net.yaml --strategy $strategy
  for objective in iteration-time cost-per-token device-efficiency; do
    expect_refused "--strategy $strategy requires --objective comm-cost" net.yaml --objective $objective --strategy $strategy
  done
done
expect_refused '--strategy genetic requires --objective comm-cost' net.yaml --prove --strategy genetic
expect_refused '--prove: requires --objective comm-cost or iteration-time' net.yaml --objective cost-per-token --prove
expect_refused '--robust: unknown `bets`; known: `mean`, `p95`, `worst`' net.yaml --robust bets
expect_refused '--robust: unknown `p59`; did you mean `p95`?' net.yaml --robust p59
expect_refused '--finalists: expected a whole number from 1 to 1000; found `0`' net.yaml --finalists 0

by_cost=(--objective comm-cost)
small=(net.yaml --job job.yaml "${by_cost[@]}")
divisors='divisors of 12: 1, 2, 3, 4, 6, 12'
expect_refused "--pipeline: 5 stages do not divide 12 devices; $divisors" "${small[@]}" --pipeline 5
expect_refused "--data: 7 replicas do not divide 12 devices; $divisors" "${small[@]}" --data 7
expect_refused '--pipeline: 3 stages × 3 replicas are 9 devices; the topology has 12' "${small[@]}" --pipeline 3 --data 3
expect_refused "job gpt3-xl: 8 stages do not divide 12 devices; $divisors" net.yaml "${by_cost[@]}"
sed 's/pipeline: 3/pipeline: auto/' job.yaml >open.yaml
expect_refused "--pipeline: comm-cost requires a number of stages, but job small has none; $divisors" net.yaml --job open.yaml "${by_cost[@]}"
sed 's/pipeline: 3/tensor: 2/' job.yaml >tensor.yaml
expect_refused 'job small: tensor 2, but comm-cost supports only one device per stage' net.yaml --job tensor.yaml "${by_cost[@]}"
expect_refused 'job small: tensor 2, but comm-cost supports only one device per stage' "${small[@]}" --tensor 2
for option in '--scenario job.yaml' '--finalists 8' '--robust mean'; do
  # shellcheck disable=SC2086 # an option and its value
  expect_refused "${option% *}: cannot be combined with --objective comm-cost" "${small[@]}" $option
done
sed 's/global_batch/globl_batch/' job.yaml >typo.yaml
expect_refused 'typo.yaml:4:12: unknown key `globl_batch`; did you mean `global_batch`?' net.yaml --job typo.yaml

expect_refused 'missing/plan.json: cannot write: No such file or directory' "${small[@]}" -o missing/plan.json
mkdir there
expect_refused 'there: cannot write: it is a folder' "${small[@]}" -o there
expect_refused '/dev/full: cannot write: No space left on device' "${small[@]}" -o /dev/full
expect_refused 'net.yaml: cannot write: it is an input' "${small[@]}" -o net.yaml
expect_refused './job.yaml: cannot write: it is an input' "${small[@]}" -o ./job.yaml

run "${small[@]}" --strategy nonesuch -o plan.json
expect_status 2 --strategy nonesuch
expect_in "$err" nonesuch
[[ ! -e plan.json ]] || fail 'an unknown strategy wrote a plan'

# An option that decides the objective says so.
run net.yaml --job job.yaml --prove --time-limit 1
expect_in "$err" 'dtfm-plan: --prove implies --objective comm-cost'
for said in '--prove --time-limit 1 --objective comm-cost' '--prove --time-limit 1 --quiet' '--strategy identity --objective comm-cost'; do
  # shellcheck disable=SC2086
  run net.yaml --job job.yaml $said
  expect_status 0 "$said"
  ! grep -q implies "$err" || fail "$said: $(cat "$err")"
done
finish
