#!/usr/bin/env bash
# What goes to stdout, to stderr and into the plan file.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "$@"
by_cost=(net.yaml --objective comm-cost)
small=("${by_cost[@]}" --job job.yaml --evaluations 40)

run --version
expect_status 0 --version
grep -qE '^dtfm-plan [0-9]+\.[0-9]+\.[0-9]+ \(CUDA: (yes|no)\)$' "$out" || fail "--version says $(cat "$out")"
run --help
expect_status 0 --help
expect_no_stderr --help
for word in TOPOLOGY --objective --pipeline --score --time-limit Examples 'Exit codes'; do expect_in "$out" "$word"; done
run --list-strategies
expect_status 0 --list-strategies
expect_in "$out" '(default)'

run "${small[@]}" -o plan.json
expect_status 0 plan
expect_no_warning 'a short run'
for words in 'three-sites: 12 devices in 3 sites, job small' '3 stages × 4 replicas' 'lower bound' oregon \
  'Slowest gradient synchronization: stage' 'Slowest hop: stage'; do
  expect_in "$out" "$words"
done
expect_json plan.json
[[ $(ls -A) == $'job.yaml\nnet.yaml\nplan.json' ]] || fail "files left behind: $(ls -A)"

run "${small[@]}" --format json --quiet
expect_status 0 --format json
expect_no_stderr --quiet
cmp "$out" plan.json || fail '--format json prints something else than -o writes'

run "${small[@]}" -o - --quiet
expect_status 0 '-o -'
cmp "$out" plan.json || fail '-o - prints something else than the plan'
run "${small[@]}" -o /dev/null
expect_status 0 '-o /dev/null'
expect_in "$out" 'lower bound'
[[ -c /dev/null ]] || fail '/dev/null is gone'
mkfifo pipe
cat pipe >through.json &
run "${small[@]}" -o pipe
wait $!
expect_status 0 '-o to a pipe'
cmp through.json plan.json || fail 'something else came through the pipe'
rm pipe through.json

# If the file size is limited, the program reports an error and leaves nothing behind.
status=0
(ulimit -f 1 && exec "$program" "${small[@]}" -o large.json >/dev/null 2>"$err") || status=$?
expect_status 2 'ulimit -f'
expect_in "$err" 'large.json: cannot write: File too large'
[[ $(ls -A) == $'job.yaml\nnet.yaml\nplan.json' ]] || fail "files left behind: $(ls -A)"

python3 - plan.json <<'END' || fail 'the plan file is not what the contract says'
import json, sys
plan = json.load(open(sys.argv[1]))
assert plan["schema"] == "dtfm-plan/1" and plan["objective"] == "comm-cost", plan
assert (plan["parallelism"]["pipeline"], plan["parallelism"]["data"]) == (3, 4)
assert (plan["job"]["parallelism"]["pipeline"], plan["job"]["parallelism"]["data"]) == (3, 4)
assert [len(p["stages"]) for p in plan["pipelines"]] == [3] * 4
assert [s["layers"] for s in plan["pipelines"][0]["stages"]] == [[0, 4], [4, 8], [8, 12]]
devices = sorted(d for p in plan["pipelines"] for s in p["stages"] for d in s["devices"])
assert len(devices) == len(set(devices)) == 12
assert plan["groups"] == [[p["stages"][s]["devices"][0] for p in plan["pipelines"]] for s in range(3)]
assert plan["ranks"]["stage_major"] == sum(plan["groups"], [])
assert plan["unused"] == [] and plan["finalists"] == [] and "warnings" not in plan
cost = plan["estimate"]["comm_cost"]
assert cost["total_s"] == cost["data_parallel_s"] + cost["pipeline_parallel_s"]
bound = plan["lower_bound"]
assert bound["unit"] == "s" and 0 <= bound["value"] <= cost["total_s"] * (1 + 1e-12) and 0 <= bound["gap"] <= 1
assert plan["search"]["seed"] == 0 and plan["search"]["convergence"][-1][1] == cost["total_s"]
END

# Unusual but valid input causes a warning.
sed 's/layers: 12/layers: 2/; s/global_batch: 24/global_batch: 3/' job.yaml >tiny.yaml
run "${by_cost[@]}" --job tiny.yaml --evaluations 5 -o tiny.json
expect_status 0 'more stages than layers'
expect_in "$out" 'warning: 3 stages for 2 layers: some stages compute nothing'
expect_in "$out" 'warning: 4 pipelines for 3 micro-batches: some pipelines compute nothing'
expect_in tiny.json '"warnings": ['

# --data without --pipeline sets the number of stages; auto means as in the job.
run "${by_cost[@]}" --job job.yaml --data 2 --evaluations 5
expect_in "$out" '6 stages × 2 replicas'
run "${by_cost[@]}" --job job.yaml --pipeline auto --data auto --tensor auto --evaluations 5
expect_in "$out" '3 stages × 4 replicas'
for shape in '1 12' '12 1'; do
  run "${by_cost[@]}" --job job.yaml --pipeline "${shape% *}" --data "${shape#* }" --evaluations 5
  expect_status 0 "$shape"
done

# A file that is not a plan, such as a matrix that the topology reads, is not overwritten; a plan is.
echo '0,1' >latency.csv
run "${small[@]}" -o latency.csv
expect_status 2 '-o over a matrix'
expect_in "$err" 'latency.csv: cannot write: it exists and is not a plan'
[[ $(<latency.csv) == 0,1 ]] || fail 'the matrix was overwritten'
run "${small[@]}" -o again.json
run "${small[@]}" -o again.json
expect_status 0 '-o over a plan'

# If stdout cannot be written, the program fails, but the plan file exists.
status=0
"$program" "${small[@]}" -o full.json >/dev/full 2>"$err" || status=$?
expect_status 2 '>/dev/full'
expect_json full.json
finish
