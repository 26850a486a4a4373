#!/usr/bin/env bash
# --explain: the bottleneck, what-ifs, and when a plan is compute-bound, in text and JSON, for a search
# and a score.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "$@"
sed 's/count: 4/count: 4, gpu: V100-16GB/' net.yaml >gpus.yaml
small=(gpus.yaml --job job.yaml --quiet)

run "${small[@]}" --evaluations 40 --explain -o plan.json
expect_status 0 --explain
for words in 'Bottleneck' 'critical path of the slowest pipeline: ' 'uses the largest share of its memory, ' \
  'What if, one change at a time' 'activations compressed × 2' 'micro-batch 2 instead of 1' \
  'Is the plan compute-bound?' 'hidden size × 2' 'a plan is compute-bound if exposed communication, between stages and of gradients, takes less than 5 %' \
  'where the time goes: ' 'activations there and gradients back take' 'Messages between stages of the slowest pipeline' 'exposed '; do
  expect_in "$out" "$words"
done
python3 - plan.json <<'END_OF_PYTHON' || fail 'the explanation in the plan file'
import json, math, sys
plan = json.load(open(sys.argv[1]))
now = plan["estimate"]["iteration_time_s"]
explanation = plan["explanation"]
assert math.isclose(sum(explanation["parts"].values()), now, rel_tol=1e-9)
assert math.isclose(sum(explanation["shares"].values()), now, rel_tol=1e-9)
bottleneck = explanation["bottleneck"]
assert explanation["savings"][bottleneck["kind"]] == max(explanation["savings"].values()) == bottleneck["seconds"]
assert len(explanation["messages"]["hops"]) == len(plan["pipelines"][0]["stages"]) - 1, explanation["messages"]
assert len(explanation["devices"]["stages"]) == len(plan["pipelines"][0]["stages"])
assert math.isclose(bottleneck["share"], bottleneck["seconds"] / now) and 0 < bottleneck["share"] <= 1.01 and bottleneck["kind"] != "overhead"
resource = explanation["resource"]
assert resource["kind"] in ("stage", "hop") and 0 <= resource["pipeline"] < len(plan["pipelines"]), resource
assert explanation["now"]["iteration_time_s"] == now
assert explanation["peak_memory"] == {"state_bytes": explanation["peak_memory"]["state_bytes"]} | max(
    plan["estimate"]["memory"], key=lambda it: it["needed_bytes"] / it["capacity_bytes"])
possible = [change for change in explanation["changes"] if "impossible" not in change]
assert {"link_doubled", "activations_halved", "gradients_quartered"} <= {change["change"] for change in possible}
for change in possible:
    assert math.isclose(change["gain"], 1 - change["iteration_time_s"] / now, abs_tol=1e-12), change
gains = [change["gain"] for change in possible if change["fits"]]
assert gains == sorted(gains, reverse=True)
assert set(explanation["compute_bound"]) == {"compression", "width"}
assert len(explanation["summary"]) >= 3 and len(explanation["scaling"]) >= 1
END_OF_PYTHON

run "${small[@]}" --evaluations 40 --explain --calibration v100 -o overhead.json
python3 -c 'import json; assert json.load(open("overhead.json"))["explanation"]["bottleneck"]["kind"] == "overhead"' ||
  fail 'an iteration overhead of 0.97 s is not the bottleneck of short iterations'

# The what-if of a change to the job equals the estimate of the changed job.
sed 's/^comm_cost.*/compression: {activations: 0.5}/' job.yaml >compressed.yaml
sed '/^comm_cost/d' job.yaml >plain.yaml
run gpus.yaml --job plain.yaml --quiet --score plan.json --explain --threads 1 --format json
expect_status 0 '--score --explain'
cp "$out" scored.json
run gpus.yaml --job plain.yaml --quiet --score plan.json --explain --threads 2 --format json
cmp -s "$out" scored.json || fail 'the explanation depends on the number of threads'
run gpus.yaml --job compressed.yaml --quiet --score plan.json
expect_status 2 'a job that contradicts the plan'
expect_in "$err" "compression.activations 1, but the job's compression.activations is 0.5; set the job's to 1 or auto, or use the job that the plan was made for"
# A plan of pipelines alone takes the settings of the job.
python3 -c 'import json; print(json.dumps({"pipelines": json.load(open("plan.json"))["pipelines"]}))' >pipelines.json
run gpus.yaml --job compressed.yaml --quiet --score pipelines.json --format json
cp "$out" compressed.json
python3 - scored.json compressed.json <<'END_OF_PYTHON' || fail 'a what-if is not what the changed job gives'
import json, math, sys
scored, compressed = (json.load(open(name)) for name in sys.argv[1:])
said = next(it for it in scored["explanation"]["changes"] if it["change"] == "activations_halved")
assert math.isclose(said["iteration_time_s"], compressed["estimate"]["iteration_time_s"], rel_tol=1e-12)
assert "explanation" not in compressed
END_OF_PYTHON

expect_refused '--explain: cannot be combined with --objective comm-cost' \
  "${small[@]}" --objective comm-cost --explain
finish
