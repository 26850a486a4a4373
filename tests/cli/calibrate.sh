#!/usr/bin/env bash
# dtfm-calibrate: printed and written results, dtfm-sim with the fitted constants, rejected input.
# shellcheck disable=SC2016 # messages contain back quotes
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "$@"
sim=$(realpath "$2")
help='(see dtfm-calibrate --help)'

run --version
expect_status 0 --version
grep -qE '^dtfm-calibrate [0-9]+\.[0-9]+\.[0-9]+$' "$out" || fail "--version says $(cat "$out")"
run --help
expect_status 0 --help
expect_no_stderr --help
for word in TOPOLOGY RUNS.csv --job --threads --output --format --quiet micro_batch seconds Examples 'Exit codes'; do expect_in "$out" "$word"; done

# A table as a user would have it: iterations on machines whose constants differ from the shipped ones, each
# with an error of a few per cent.
sed 's/count: 4}/count: 4, gpu: V100-16GB}/' net.yaml >gpus.yaml
cat >model.json <<'END'
{"version": 1, "name": "small", "model": {"kind": "transformer", "layers": 12, "hidden": 1024, "heads": 4, "sequence": 512,
 "vocabulary": 1000}, "training": {"global_batch": 24}, "parallelism": {"pipeline": 3}}
END
cat >truth.yaml <<'END'
version: 1
compute_scale: 1.4
message_overhead: 4 ms
network_efficiency: 0.8
iteration_overhead: 0.3 s
micro_batch_overhead: 5 ms
sync_efficiency: 0.7
END
cat >make_runs.py <<'END'
import json, subprocess, sys
sim, rows = sys.argv[1], ["# measured in one night", "pipeline,data,micro_batch,global_batch,plan,seconds"]
off = [0.02, -0.03, 0.01, 0.04, -0.02, -0.01, 0.03, 0, -0.04, 0.02, -0.01, 0.01, 0.03, -0.02]
job = json.loads(sys.stdin.read())
shapes = [(1, 1, 1, 16), (1, 1, 8, 64), (1, 1, 16, 256), (2, 1, 1, 32), (4, 1, 1, 32), (4, 1, 4, 64), (4, 1, 16, 128), (1, 2, 1, 8),
          (1, 4, 1, 16), (2, 2, 1, 16), (4, 2, 1, 64), (2, 1, 16, 64), (12, 1, 1, 48), (1, 1, 1, 64)]
for (stages, replicas, micro, batch), share in zip(shapes, off):
    job["training"].update(global_batch=batch, micro_batch=micro)
    names = [f"{site}/{i}" for site in ("oregon", "ohio", "tokyo") for i in range(4)]
    pipelines = [{"stages": [{"layers": [s * 12 // stages, (s + 1) * 12 // stages], "devices": [names[r * stages + s]]}
                             for s in range(stages)]} for r in range(replicas)]
    json.dump({"job": job, "pipelines": pipelines}, open("plan.json", "w"))
    done = subprocess.run([sim, "gpus.yaml", "plan.json", "--calibration", "truth.yaml", "--format", "json"],
                          capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    seconds = json.loads(done.stdout)["iteration_time_s"]["mean"]
    rows.append(f"{stages},{replicas},{micro},{batch},,{seconds * (1 + share):.5f}")
rows.append(f",,,,plan.json,{seconds * 2:.5f}")
open("runs.csv", "w").write("\n".join(rows) + "\n")
END
python3 make_runs.py "$sim" <model.json

run gpus.yaml runs.csv --job model.json -o fitted.json
expect_status 0 'a calibration'
expect_no_warning 'a calibration'
for words in 'three-sites: 15 measured iterations, 1 outlier not fitted' 'constant  ' '95 % interval' 'compute_scale  ' 'sync_efficiency  ' \
  'Mean absolute error ' 'Runs whose simulated time changes by 5 % or more when a constant' \
  'Outliers, and runs with an error of 10 % or more.' '  line 17  -78 %  tensor 1, pipeline 1, data 1, micro-batch 1; not fitted' 'outlier: not fitted' 'plan.json' '4 × 2, batch 64 by 1'; do expect_in "$out" "$words"; done
python3 - fitted.json <<'END' || fail 'the calibration is not what it should be'
import json, sys
result = json.load(open(sys.argv[1]))
assert result["schema"] == "dtfm-calibration/1", result
runs = result["fit"]["runs"]
assert [run["line"] for run in runs if run["outlier"]] == [17], runs
assert [run["line"] for run in runs] == list(range(3, 18)), runs
truth = {"compute_scale": 1.4, "message_overhead": 0.004, "network_efficiency": 0.8, "iteration_overhead": 0.3,
         "micro_batch_overhead": 0.005, "sync_efficiency": 0.7}
for name, value in truth.items():
    interval = result["fit"]["intervals"][name]
    assert interval["low"] <= value <= interval["high"], (name, interval)
errors = result["fit"]["mean_absolute_error"]
assert errors["fitted"] < errors["leave_one_out"] < errors["prior"] and errors["fitted"] < 0.04, errors
END
run gpus.yaml runs.csv --job model.json --format json
cmp "$out" fitted.json || fail '--format json prints something else than -o writes'
for threads in 1 2 3 8; do
  run gpus.yaml runs.csv --job model.json -o - --threads $threads
  cmp "$out" fitted.json || fail "$threads threads give something else"
done

# If no constants explain the runs, a warning comes first.
awk -F, 'NR < 3 {print; next} {OFS = ","; $6 *= 1000; print}' runs.csv >milliseconds.csv
run gpus.yaml milliseconds.csv --job model.json
expect_status 0 'times in milliseconds'
expect_in "$out" 'note: no constants explain these runs: the residual is '

# A note says which values are used for settings that the job leaves open. The plan of line 17 decides them.
sed 's/"pipeline": 3/"pipeline": 3, "schedule": ["gpipe", "1f1b"], "gradient_sync": "auto"/' model.json >open.json
run gpus.yaml runs.csv --job open.json
expect_status 0 'a job with open settings'
expect_in "$out" 'note: lines 3-16: neither the run nor its plan decides what job small leaves open; used: schedule 1f1b, gradient_sync sharded-ps'

# dtfm-sim accepts the file, as it accepts the format of configs/calibrations, and prints the uncertainty.
"$sim" gpus.yaml plan.json --calibration fitted.json >"$out" || [[ $? == 3 ]] || fail 'dtfm-sim does not read the constants'
grep -qE '^interval +[0-9.]+ … [0-9.]+ s +95 % for measured times, from calibration$' "$out" || fail "no interval: $(grep iteration "$out")"
"$sim" gpus.yaml plan.json --calibration fitted.json --format json >"$out" || [[ $? == 3 ]]
python3 - "$out" <<'END' || fail 'the interval is not about the time'
import json, math, sys
result = json.load(open(sys.argv[1]))
interval, mean = result["iteration_time_interval_s"], result["iteration_time_s"]["mean"]
assert interval["level"] == 0.95 and interval["low"] < mean < interval["high"], interval
assert math.isclose(interval["low"] * interval["high"], mean * mean, rel_tol=1e-9), interval
END
"$sim" gpus.yaml plan.json --calibration truth.yaml --format json >"$out" || [[ $? == 3 ]]
grep -q '"source": "published runs, ' "$out" || fail 'no interval by published runs for constants without a known spread'
"$sim" --graph none.txt --calibration fitted.json 2>"$err" && fail '--calibration is accepted with --graph'
expect_in "$err" 'dtfm-sim: --calibration: cannot be combined with --graph'
sed 's/"compute_scale": 1/"compute_scale": -1/' fitted.json >negative.json
"$sim" gpus.yaml plan.json --calibration negative.json 2>"$err" && fail 'a negative scale is taken'
expect_in "$err" 'dtfm-sim: negative.json:3:'

# process_memory is fitted to measured peaks, and rows may name other topologies.
cp gpus.yaml again.yaml
awk -F, 'NR == 1 {print; next} NR == 2 {print $0 ",topology,peak_memory_bytes"; next}
  {print $0 "," (NR % 2 ? "again.yaml" : "") "," (NR == 3 ? "10e9" : NR == 6 ? "8.9e9" : NR == 7 ? "6e9" : "")}' runs.csv >peaks.csv
run gpus.yaml peaks.csv --job model.json -o peaks.json
expect_status 0 'a calibration with peaks'
for words in 'three-sites: 15 measured iterations' 'process_memory  ' 'peak memory  predicted' '8.9 GB'; do expect_in "$out" "$words"; done
python3 - peaks.json <<'END' || fail 'the memory of a process is not fitted'
import json, sys
result = json.load(open(sys.argv[1]))
size = float(result["process_memory"].split()[0])
interval = result["fit"]["intervals"]["process_memory"]
assert interval["low"] < size < interval["high"] and 2.9e9 < size < 3.1e9, (size, interval)
peaks = [run.get("measured_peak_memory_bytes") for run in result["fit"]["runs"]]
assert peaks[:5] == [10e9, None, None, 8.9e9, 6e9] and not any(peaks[5:]), peaks
for run in result["fit"]["runs"]:
    if "measured_peak_memory_bytes" in run:
        assert abs(run["predicted_peak_memory_bytes"] / run["measured_peak_memory_bytes"] - 1) < 0.03, run
END

# Errors are reported with their position, and nothing is written.
table=(--job model.json -o never.json)
expect_refused "TOPOLOGY is missing $help"
expect_refused "RUNS.csv is missing $help" gpus.yaml
expect_refused "unexpected argument \`--jobs\`; did you mean \`--job\`? $help" gpus.yaml runs.csv --jobs model.json
expect_refused 'missing.csv: cannot be opened: No such file or directory' gpus.yaml missing.csv
expect_refused 'missing.yaml: cannot be opened: No such file or directory' missing.yaml runs.csv
expect_refused './runs.csv: cannot write: it is an input' gpus.yaml runs.csv -o ./runs.csv
expect_refused 'none/a.json: cannot write: No such file or directory' gpus.yaml runs.csv -o none/a.json
expect_refused '--format: expected text or json; found `yaml`' gpus.yaml runs.csv --format yaml
expect_refused '--threads: expected a whole number from 1 to 1024; found `0`' gpus.yaml runs.csv --threads 0
head -2 runs.csv >none.csv
expect_refused 'none.csv: has no runs; fitting the constants requires at least one' gpus.yaml none.csv "${table[@]}"
sed 's/seconds/time/' runs.csv >column.csv
expect_refused 'column.csv:2:45: unknown column `time`; known: `name`, `topology`, `plan`, `job`, `pipeline`, `data`, `micro_batch`, `global_batch`, `seconds`, `log`, `peak_memory_bytes`' gpus.yaml column.csv "${table[@]}"
sed '5s/^1/one/' runs.csv >word.csv
expect_refused 'word.csv:5:1: `pipeline`: expected a whole number from 1 to 1000000; found `one`' gpus.yaml word.csv "${table[@]}"
sed '17s/plan.json/plans.json/' runs.csv >gone.csv
expect_refused 'gone.csv:17:5: plans.json: cannot be opened: No such file or directory' gpus.yaml gone.csv "${table[@]}"
sed '6s/^2,1/20,1/' runs.csv >devices.csv
expect_refused 'devices.csv:6:1: 20 stages × 1 pipelines are 20 devices; the topology has 12' gpus.yaml devices.csv "${table[@]}"
: >empty.csv
expect_refused 'empty.csv:1:1: expected a line with the names of the columns, such as `plan,seconds`' gpus.yaml empty.csv "${table[@]}"
expect_refused 'runs.csv:3:1: the speed of device oregon/0 is unknown: it has no `gpu` in the topology' net.yaml runs.csv "${table[@]}"
finish
