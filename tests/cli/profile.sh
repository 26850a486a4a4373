#!/usr/bin/env bash
# dtfm-profile: usage, estimates, imports, checks, and written files.
# shellcheck disable=SC2016 # messages contain back quotes
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "$@"
help='(see dtfm-profile --help)'

run --version
expect_status 0 --version
grep -qE '^dtfm-profile [0-9]+\.[0-9]+\.[0-9]+ \(CUDA: (yes|no)\)$' "$out" || fail "--version says $(cat "$out")"
cuda=$(grep -c 'CUDA: yes' "$out" || true)
run --help
expect_status 0 --help
expect_no_stderr --help
for word in --estimate --import --check --list-gpus --job --gpu --micro-batch --tensor Examples 'Exit codes'; do expect_in "$out" "$word"; done

run --list-gpus
expect_status 0 --list-gpus
expect_in "$out" 'V100-16GB'
run --list-gpus --format json
expect_json "$out"
expect_in "$out" '"memory_bytes"'
expect_in "$out" '"peak_fp4_flops_per_s"'
expect_in "$out" '"host_link_bytes_per_s"'

# An estimate prints a table or the profile to stdout, and writes the same profile to the file.
expect_refused '--estimate: unknown GPU `V10`; known: `V100-16GB`, `V100-32GB`, `V100-PCIe-16GB`, `V100-PCIe-32GB` (see --list-gpus)' --estimate V10
expect_refused '--estimate: unknown GPU `V200-16GB`; did you mean `V100-16GB`? (see --list-gpus)' --estimate V200-16GB
run --estimate V100-16GB --job job.yaml --micro-batch 4,1 --tensor 1,2 -o v100.json
expect_status 0 --estimate
expect_no_stderr --estimate
expect_in "$out" 'V100-16GB: layers of small in fp16, estimated'
for words in 'kind ' 'forward ms' 'TFLOP/s' 'of peak' 'block ' 'head '; do expect_in "$out" "$words"; done
python3 - v100.json <<'END' || fail 'the estimated profile is not what it should be'
import json, sys
profile = json.load(open(sys.argv[1]))
assert profile["schema"] == "dtfm-profile/1" and profile["source"] == "estimated" and profile["gpu"] == "V100-16GB"
sizes = [(row["kind"], row["tensor"], row["micro_batch"]) for row in profile["layers"]]
assert sizes == [(kind, t, m) for kind in ("embedding", "block", "head") for t in (1, 2) for m in (1, 4)], sizes
assert all(row["forward_s"] > 0 and row["backward_s"] > 0 for row in profile["layers"])
END
# A job may name the profile that is estimated for it.
{ cat job.yaml && echo 'profile: own.json'; } >own.yaml
for time in first again; do
  run --estimate V100-16GB --job own.yaml -o own.json
  expect_status 0 "--estimate of a job that names its profile, $time"
done
run --estimate V100-16GB --job job.yaml --micro-batch 1,4 --tensor 2,1 --format json
cmp "$out" v100.json || fail '--format json prints something else than -o writes'
run --estimate V100-16GB --job job.yaml --micro-batch 1,4 --tensor 2,1 -o -
cmp "$out" v100.json || fail '-o - prints something else than the profile'

# A model can be given by name.
run --estimate V100-16GB --model gpt2 --precision fp32 --micro-batch 1
expect_status 0 --model
expect_in "$out" 'V100-16GB: layers of gpt2 in fp32, estimated'
run --estimate V100-16GB --model gpt22
expect_status 2 'an unknown model'
expect_in "$err" 'dtfm-profile: --model: '
expect_in "$err" 'did you mean `gpt2`?'
expect_refused '--model: cannot be combined with --job' --estimate V100-16GB --model gpt2 --job job.yaml
cat >chain.yaml <<'END'
version: 1
name: chain
model: {kind: layers, layers: [{name: conv, parameters: 1e6, forward_flops: 1 GFLOP, output: 1 MB, activation_memory: 2 MB}]}
training: {global_batch: 24}
END
run --estimate V100-16GB --job chain.yaml --micro-batch 1
expect_status 0 'layers that are no transformer'
expect_in "$out" 'conv '
sed 's/\[{name: conv.*}\]/[{name: conv, parameters: 1, forward_flops: 1 FLOP, output: 1 B, activation_memory: 1 B}, {name: conv, parameters: 2, forward_flops: 1 FLOP, output: 1 B, activation_memory: 1 B}]/' chain.yaml >twins.yaml
expect_refused 'job chain: different layers have the same name, `conv`, which profiles cannot distinguish; give them different names' \
  --estimate V100-16GB --job twins.yaml
expect_refused '--precision: cannot override the job, which gives layer sizes in its own precision; change it in the job' \
  --estimate V100-16GB --job chain.yaml --precision fp32

# A profile without options is checked; errors are reported with their position.
run v100.json
expect_status 0 'a profile'
run --check v100.json --format json
cmp "$out" v100.json || fail 'a profile that is read is written otherwise'
sed '0,/"forward_s": /s//"forward_s": -/' v100.json >negative.json
place=$(grep -n -m1 -bo 'forward_s": -' negative.json | head -1 | cut -d: -f1)
run negative.json
expect_status 2 'a negative time'
expect_in "$err" "dtfm-profile: negative.json:$place:"
expect_in "$err" '`forward_s`: '
head -c 300 v100.json >half.json
run half.json
expect_status 2 'half a profile'
expect_in "$err" 'dtfm-profile: half.json:'
expect_refused 'missing.json: cannot be opened: No such file or directory' missing.json

# Imports.
layers='"0": [0.5, 0, 9]'
for i in {1..12}; do layers+=", \"$i\": [1, 2, 9]"; done
printf '{"1": {"1": {%s, "13": [0.25, 0.75, 9]}}}' "$layers" >sailor.json
import=(--gpu V100-16GB --job job.yaml)
run --import sailor sailor.json "${import[@]}" --precision fp32 -o imported.json
expect_status 0 --import
expect_in imported.json '"source": "imported"'
expect_in imported.json '"precision": "fp32"'
expect_in imported.json 'Sailor format, `sailor.json`'
run --import sailor sailor.json --gpu lab-card --job job.yaml
expect_status 0 'a GPU that is not in the catalogue'
expect_in "$out" 'note: GPU `lab-card` is not in the catalogue'
sed 's/"13": .*/"13": [1e-12, 1e-12, 9]}}}/' sailor.json >fast.json
run --import sailor fast.json "${import[@]}"
expect_in "$out" 'note: `head` would be computed faster than the peak of the GPU'
rm -f broken.json
printf '{"1": {"1": {%s}}}' "$layers" >short.json
expect_refused 'short.json: /1/1: expected 14 layers, including embedding and head; found 13' \
  --import sailor short.json "${import[@]}" -o broken.json
head -c 200 sailor.json >cut.json
run --import sailor cut.json "${import[@]}" -o broken.json
expect_status 2 'a file cut short'
expect_in "$err" 'cut.json:1:'
[[ ! -e broken.json ]] || fail 'a broken import wrote a profile'
printf '{"execution_time": {"layer_compute_total_ms": [1, 3,3,3,3,3,3,3,3,3,3,3,3, 2]}}' >DeviceType.V100_tp1_bs2.json
cp DeviceType.V100_tp1_bs2.json DeviceType.V100_tp1_bs4.json
run --import metis DeviceType.V100_tp1_bs2.json DeviceType.V100_tp1_bs4.json "${import[@]}" -o metis.json
expect_status 0 '--import metis'
expect_in metis.json 'assumed to be split 1 : 2'
expect_refused '--import: unknown format `metiss`; did you mean `metis`?' --import metiss sailor.json "${import[@]}"
expect_refused '--micro-batch: is required, because kineto files do not contain it' --import kineto sailor.json "${import[@]}" --tensor 1
expect_refused '--micro-batch: expected one number, with which the files were measured' \
  --import kineto sailor.json "${import[@]}" --tensor 1 --micro-batch 1,2
expect_refused 'sailor.json: /: missing key `traceEvents`' --import kineto sailor.json "${import[@]}" --tensor 1 --micro-batch 1

# Usage.
expect_refused "FILE is missing: name the files to import $help" --import sailor "${import[@]}"
expect_refused "--gpu is missing: name the GPU that was measured $help" --import sailor sailor.json --job job.yaml
expect_refused "--model or --job is missing: name the model that was measured $help" --import sailor sailor.json --gpu A100-40GB
expect_refused "--check takes one FILE $help" v100.json v100.json
expect_refused "--check takes one FILE $help" --check
expect_refused '--list-gpus: cannot be combined with --estimate' --estimate T4 --list-gpus
expect_refused '--gpu: requires --import or measuring' --estimate T4 --gpu T4
expect_refused '--output: cannot be used when only printing' v100.json -o copy.json
expect_refused "unexpected argument \`--estimat\`; did you mean \`--estimate\`? $help" --estimat T4
expect_refused '--precision: unknown precision `fp8`; known: `fp16`, `bf16`, `tf32`, `fp32`' --estimate T4 --precision fp8
expect_refused '--format: expected text or json; found `xml`' --estimate T4 --format xml
for list in 0 -1 '' '1,' ',1' '1,x' 1000001; do
  run --estimate T4 --micro-batch "$list"
  expect_status 2 "--micro-batch $list"
  expect_in "$err" 'dtfm-profile: --micro-batch: expected a whole number from 1 to 1000000; found'
done
expect_refused '--tensor: 2 is given twice' --estimate T4 --tensor 2,4,2
expect_refused 'missing/a.json: cannot write: No such file or directory' --estimate V100-16GB -o missing/a.json
expect_refused './job.yaml: cannot write: it is an input' --estimate V100-16GB --job job.yaml -o ./job.yaml
expect_refused 'sailor.json: cannot write: it is an input' --import sailor sailor.json "${import[@]}" -o sailor.json

# Without a GPU, the message says what to do instead.
if [[ ! -e /dev/nvidia0 && ! -e /dev/dxg ]]; then
  why='this machine has no GPU, or no driver for it'
  ((cuda)) || why='this program was built without CUDA'
  expect_refused "nothing can be measured: $why; estimate its times (--estimate GPU) or import them (--import FORMAT FILE)" \
    -o measured.json
fi
finish
