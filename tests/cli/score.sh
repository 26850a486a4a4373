#!/usr/bin/env bash
# --score checks and evaluates a plan from any source.
# shellcheck disable=SC2016 # messages contain back quotes
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "$@"
by_cost=(--objective comm-cost)
small=(net.yaml --job job.yaml "${by_cost[@]}")

run "${small[@]}" --evaluations 40 -o plan.json
expect_status 0 plan
run "${small[@]}" --score plan.json -o scored.json
expect_status 0 --score
expect_no_stderr --score
expect_in "$out" 'scored as given'
expect_in "$out" 'the same groups, ordered and matched best'
python3 - plan.json scored.json <<'END' || fail 'the score is not the cost that the search gave'
import json, sys
plan, scored = (json.load(open(name)) for name in sys.argv[1:])
assert scored["estimate"] == plan["estimate"] and scored["pipelines"] == plan["pipelines"]
assert "search" not in scored
END

# A plan changed by the given Python code is rejected with this message.
expect_refused_plan() {
  python3 - "$2" <<'END'
import json, sys
plan = json.load(open("plan.json"))
pipelines = plan["pipelines"]
stages = pipelines[1]["stages"]
exec(sys.argv[1])
json.dump(plan, open("changed.json", "w"))
END
  expect_refused "changed.json: $1" "${small[@]}" --score changed.json
}
expect_refused_plan '/pipelines/1/stages/2/devices/0: topology three-sites has no device `ohoi/3`; did you mean `ohio/3`?' \
  'stages[2]["devices"] = ["ohoi/3"]'
first=$(python3 -c 'import json; print(json.load(open("plan.json"))["pipelines"][0]["stages"][0]["devices"][0])')
expect_refused_plan "/pipelines/1/stages/0/devices/0: device $first is used twice, first at /pipelines/0/stages/0/devices/0" \
  "stages[0]['devices'] = ['$first']"
expect_refused_plan '/pipelines/1/stages/1/layers: layer 4 is in no stage' 'stages[1]["layers"] = [5, 8]'
expect_refused_plan "/groups/0: device $first is missing, although it is in stage 0 of the pipelines" \
  'plan["groups"][0][0] = plan["groups"][1][0]'
second=$(python3 -c 'import json; print(json.load(open("plan.json"))["groups"][0][1])')
expect_refused_plan "/ranks/stage_major/0: $second, but the pipelines make it $first" \
  'ranks = plan["ranks"]["stage_major"]; ranks[0], ranks[1] = ranks[1], ranks[0]'
expect_refused_plan '/parallelism/pipeline: 2, but the pipelines make it 3' 'plan["parallelism"]["pipeline"] = 2'
alone='for key in "parallelism", "groups", "ranks": del plan[key]'
expect_refused_plan '/pipelines/1: 2 stages where /pipelines/0 has 3; comm-cost requires equally many stages in all pipelines' \
  "$alone"'
stages.pop(); stages[1]["layers"] = [4, 12]'
expect_refused_plan '/pipelines: comm-cost requires every device, but 9 of 12 are in no pipeline: oregon/1, oregon/2, oregon/3, ohio/1, ohio/2, …' \
  "$alone"'
del pipelines[1:]
for stage, device in zip(pipelines[0]["stages"], ["tokyo/0", "oregon/0", "ohio/0"]): stage["devices"] = [device]'

expect_refused '--pipeline: 4, but the plan has 3 stages' "${small[@]}" --score plan.json --pipeline 4
expect_refused '--data: 3, but the plan has 4 pipelines' "${small[@]}" --score plan.json --data 3
for option in '--strategy random' '--seed 0' '--evaluations 5' '--time-limit 5' --prove '--finalists 3' '--robust p95'; do
  # shellcheck disable=SC2086 # an option and its value
  expect_refused "${option% *}: cannot be combined with --score without --advise" "${small[@]}" --score plan.json $option
done
run "${small[@]}" --score plan.json --threads 2 --quiet --format json
expect_status 0 '--score with options that are not of the search'
printf '{"pipelines":\n [}' >changed.json
expect_refused "changed.json:2:3: syntax error while parsing value - unexpected '}'; expected '[', '{', or a literal" \
  "${small[@]}" --score changed.json
sed 's/ohio/iowa/g' net.yaml >other.yaml
run other.yaml --job job.yaml "${by_cost[@]}" --score plan.json
expect_status 2 'another topology'
expect_in "$err" 'plan.json: /topology/fingerprint: the plan is for topology `three-sites` with fingerprint '

# A different batch size of the job is not an error.
sed 's/global_batch: 24/global_batch: 48/' job.yaml >batch.yaml
run net.yaml --job batch.yaml "${by_cost[@]}" --score plan.json
expect_status 0 'another batch'
expect_in "$out" 'warning: the pipelines compute 24 micro-batches, but job small has 48'

# The batch of an option must be that of the plan.
run "${small[@]}" --score plan.json --batch 24
expect_status 0 'the batch of the plan'
expect_refused '--batch: 48 needs 48 micro-batches of 1, but the pipelines of plan.json compute 24; plan with --batch 48, or remove micro_batches from the plan' \
  "${small[@]}" --score plan.json --batch 48

# A job that fixes another setting than the plan is refused, and one that leaves it to the planner is not.
sed 's/pipeline: 3/pipeline: 3, schedule: auto/' job.yaml >auto.yaml
run net.yaml --job auto.yaml "${by_cost[@]}" --score plan.json
expect_status 0 'a job that leaves the schedule to the planner'
sed 's/pipeline: 3/pipeline: 3, schedule: 1f1b/' job.yaml >1f1b.yaml
run net.yaml --job 1f1b.yaml "${by_cost[@]}" --score plan.json
expect_status 2 'a job with another schedule'
expect_in "$err" "schedule gpipe, but the job's parallelism.schedule is 1f1b; set the job's to gpipe or auto, or use the job that the plan was made for"
finish
