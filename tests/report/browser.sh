#!/usr/bin/env bash
# Writes reports of every kind and opens them in a browser (browser.mjs, comparison.mjs).
#
# usage: browser.sh DTFM-PLAN DTFM-SIM DTFM-COMPARE PACKAGES    (exit 77 without the page, node, npm or
# chromium)
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

plan=$(realpath "$1") sim=$(realpath "$2") compare=$(realpath "$3") packages=$4
chromium=$(command -v chromium) || skip 'there is no chromium'
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
message=$("$sim" a b --report r.html 2>&1) || true # these files do not exist
[[ $message != *'built without the page'* ]] || skip 'built without the page, which needs npm'
need_packages "$packages"

network() { # NAME SITE
  cat <<END
version: 1
name: '$1'
gpus: [{name: card, memory: 16 GB, peak: 10 TFLOP/s, memory_bandwidth: 500 GB/s, price: 1 USD/h}]
devices:
  - {site: '$2', hosts: 1, gpus_per_host: 2, gpu: card}
  - {site: ohio, count: 2, gpu: card}
  - {site: tokyo, count: 2, gpu: card}
links:
  - {within: host, latency: 5 us, bandwidth: 300 Gbps}
  - {within: "*", latency: 5 ms, bandwidth: 2 Gbps}
  - {between: ["*", "*"], latency: 50 ms, bandwidth: 0.5 Gbps}
END
}

job() { # NAME BATCH
  cat <<END
version: 1
name: '$1'
model: {kind: transformer, layers: 12, hidden: 512, heads: 8, sequence: 512, vocabulary: 1000}
training: {global_batch: $2, micro_batch: 1, precision: fp16}
profile: {analytic: true, efficiency: 0.327}
END
}

scenario() { # NAME EVENTS
  printf "version: 1\nname: '%s'\nseed: 3\ncompute_jitter: {kind: lognormal, cv: 0.2}\n%s\n" "$@"
}

network three-sites oregon >net.yaml
job small 24 >job.yaml
scenario jitter '' >jitter.yaml
# Searches are short, because the program may be a slow sanitizer build.
"$plan" net.yaml --job job.yaml --scenario jitter.yaml --pipeline 3 --explain --evaluations 3000 --quiet -o plan.json --report plan.html >log

# A pipeline of two stages, the first on both GPUs of a host, and one of a single stage.
fingerprint=$(sed -n 's/.*"fingerprint": "\([0-9a-f]*\)".*/\1/p' plan.json)
cat >uneven-plan.json <<END
{"schema": "dtfm-plan/1", "topology": {"name": "three-sites", "fingerprint": "$fingerprint"}, "objective": "iteration-time",
 "parallelism": {"pipeline": 2, "data": 2, "tensor": 2, "schedule": "gpipe", "gradient_sync": "sharded-ps"},
 "pipelines": [{"micro_batches": 16, "stages": [{"layers": [0, 8], "devices": ["oregon/0:0", "oregon/0:1"]},
                                                {"layers": [8, 12], "devices": ["ohio/0"]}]},
               {"micro_batches": 8, "stages": [{"layers": [0, 12], "devices": ["tokyo/0"]}]}]}
END
"$plan" net.yaml --job job.yaml --score uneven-plan.json --quiet --report uneven.html >log

scenario departure 'events: [{at: 0.5 s, device: ohio/0, speed: 0.5}]' >events.yaml
"$sim" net.yaml uneven-plan.json --job job.yaml --scenario events.yaml --iterations 6 --quiet -o run.json --report run.html >log
"$sim" net.yaml plan.json --scenario jitter.yaml --samples 5 --calibration "$here/../fuzz/corpus/calibration/fitted.json" --quiet \
  -o samples.json --report samples.html >log
"$sim" net.yaml plan.json --quiet --trace measured.json >log
"$sim" net.yaml plan.json --quiet --iterations 1 --measured measured.json --report measured.html >log

sed 's/memory: 16 GB/memory: 100 MB/' net.yaml >tiny.yaml
"$plan" tiny.yaml --job job.yaml --evaluations 3000 --quiet --report tiny.html >log || [[ $? == 3 ]] # nothing fits

sed 's/, gpu: card//' net.yaml >bare.yaml
"$plan" bare.yaml --job job.yaml --objective comm-cost --pipeline 3 --quiet -o comm.json --report comm.html >log

network '</script><script>window.hacked=1</script>' '<img src=x onerror=window.hacked=1>' >odd.yaml
job '<b>job</b>' 24 >odd-job.yaml
scenario '<svg onload=window.hacked=1>' '' >odd-scenario.yaml
"$plan" odd.yaml --job odd-job.yaml --scenario odd-scenario.yaml --evaluations 3000 --quiet --report hostile.html >log

schemes=(--scheme megatron --scheme zero3 --scheme data-parallel --scheme swarm)
printf 'version: 1\nname: leaves\nevents: [{at: 0.5 s, device: ohio/0, leave: true}]\nhorizon: 20 s\n' >leaves.yaml
little() { sed 's/memory: 16 GB/memory: 3.9 GB/'; } # too little for a replica on one device
network three-sites oregon | little >little.yaml
"$compare" little.yaml --job job.yaml --scenario events.yaml --scenario leaves.yaml "${schemes[@]}" --quiet \
  -o table.json --report table.html >log
# shellcheck disable=SC2016
network '$(touch pwned) "quoted"' '<script>window.hacked=1' | little | sed 's/: card/: "<b>card<\/b>"/g' >odd-little.yaml
scenario "<svg onload=window.hacked=1>$(printf 'long%.0s' {1..24})" '' >long-scenario.yaml
"$compare" odd-little.yaml --job odd-job.yaml --scenario long-scenario.yaml "${schemes[@]}" --quiet \
  -o odd-table.json --report odd-table.html >log
"$compare" tiny.yaml --job job.yaml --scheme planned --scheme zero3 --quiet --report none.html >log || [[ $? == 3 ]] # nothing fits

"$plan" "$here/../../topologies/multicloud-20.yaml" --evaluations 300 --quiet --report cities.html >log # names are long

python3 "$here/../../scripts/generate-topology.py" --devices 256 --sites 8 -o many.yaml >log
job many 8192 >many-job.yaml
"$plan" many.yaml --job many-job.yaml --evaluations 2000 --pipeline 4 --data 64 --quiet --report many.html >log

node "$here/browser.mjs" "$packages" "$chromium" "$scratch"
