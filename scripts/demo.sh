#!/usr/bin/env bash
# From a network to a training that survives the loss of a machine, on one machine without a GPU, in minutes:
#
#   1. emulates machines in five regions (network namespaces, with the latency and rate of every link)
#   2. measures the network (scripts/measure.sh)
#   3. profiles the layers of a small GPT on this processor (train.py --profile)
#   4. plans the training (dtfm-plan), and exports the plan to PyTorch (dtfm-export)
#   5. trains on the texts of docs/ over the emulated network; messages, computing and learning are real
#   6. kills a rank; the others end, and name it
#   7. plans again without its machine, and resumes from the last checkpoint
#   8. calibrates the simulator on the iterations (dtfm-calibrate)
#
# At the end it prints predicted and measured seconds per iteration side by side. Everything is kept in the output folder.
#
# usage: scripts/demo.sh [OPTION]...
#
#   -o FOLDER        output folder, which must be empty or not exist [a new one in the folder for temporary files]
#   --programs DIR   folder with dtfm-plan and the other programs [build/release]
#   --python FILE    Python with PyTorch 1.13 or later [python3, or else /usr/bin/python3]
#   --steps N        iterations before the failure, and again after it [10]
#   --seconds N      length of a bandwidth test in seconds [2]
#
# Needs root (network namespaces), /dev/net/tun, ip, iperf3, ping, g++ and PyTorch.
#
# Exit codes: 0 done, 1 a step failed, 2 bad usage or something is missing, 130 interrupted.

set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

regions=(virginia oregon ireland frankfurt tokyo)
# One-way latency in ms and Mbit/s between regions, the same in both directions.
links='virginia oregon 30 80
virginia ireland 35 80
virginia frankfurt 45 60
virginia tokyo 75 40
oregon ireland 60 60
oregon frankfurt 70 40
oregon tokyo 45 60
ireland frankfurt 12 100
ireland tokyo 105 30
frankfurt tokyo 110 30'
shape='"layers": 6, "hidden": 128, "heads": 4, "sequence": 128, "vocabulary": 256, "tied": false'
port=29500
# Of a plan, for `field`.
describe='"\n".join("  pipeline %d, %d micro-batches: %s" % (p, q["micro_batches"], ", ".join("layers %d to %d on %s" % (s["layers"][0], s["layers"][1] - 1, s["devices"][0]) for s in q["stages"])) for p, q in enumerate(it["pipelines"]))'

folder='' programs=$root/build/release python='' steps=10 seconds=2
processes=() namespaces=() emulator='' running=''

usage() { sed -n '2,/^$/{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }

refuse() {
  printf 'demo.sh: %s\n' "$*" >&2
  exit 2
}

fail() {
  printf 'demo.sh: %s\n' "$*" >&2
  exit 1
}

number() { # OPTION VALUE
  [[ $2 =~ ^[1-9][0-9]{0,3}$ ]] || refuse "$1: expected a whole number from 1 to 9999; found $2 (see --help)"
}

read_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) usage && exit ;;
      -o | --programs | --python | --steps | --seconds) [ $# -gt 1 ] || refuse "$1 requires a value (see --help)" ;;
      *) refuse "unexpected argument $1 (see --help)" ;;
    esac
    case $1 in
      -o) folder=$2 ;;
      --programs) programs=$2 ;;
      --python) python=$2 ;;
      --steps) number "$1" "$2" && steps=$2 ;;
      --seconds) number "$1" "$2" && seconds=$2 ;;
    esac
    shift 2
  done
}

find_python() {
  local candidate
  for candidate in ${python:+"$python"} python3 /usr/bin/python3; do
    if "$candidate" -c 'import torch' 2>/dev/null; then python=$candidate && return; fi
  done
  missing+=('PyTorch (pip install torch, or apt-get install python3-torch)')
}

check_requirements() {
  local missing=() program
  [ "$(id -u)" -eq 0 ] || missing+=('root, for network namespaces (sudo scripts/demo.sh)')
  [ -c /dev/net/tun ] || missing+=('/dev/net/tun (modprobe tun)')
  for program in ip iperf3 ping g++; do
    command -v $program >/dev/null || missing+=("$program (apt-get install iproute2 iperf3 iputils-ping g++)")
  done
  for program in topology plan sim export calibrate; do
    [ -x "$programs/dtfm-$program" ] || missing+=("$programs/dtfm-$program (cmake --preset release && cmake --build --preset release)")
  done
  find_python
  [ ${#missing[@]} -eq 0 ] || refuse "missing: $(printf '%s; ' "${missing[@]}" | sed 's/; $//')"
}

make_folder() {
  [ -n "$folder" ] || folder=$(mktemp -d)
  mkdir -p -- "$folder" || refuse "$folder cannot be created"
  [ -z "$(ls -A -- "$folder")" ] || refuse "$folder is not empty: give -o another folder"
  folder=$(cd -- "$folder" && pwd)
}

# Runs a program so that an interruption of this script ends it at once.
run() { # COMMAND...
  local status=0
  "$@" &
  running=$!
  wait "$running" || status=$?
  running=''
  return $status
}

step() { printf '\n== %s\n' "$*"; }

namespace_of() { printf 'dtfm%s%s' "$$" "$1"; } # REGION

address_of() { # REGION
  local i
  for i in "${!regions[@]}"; do
    [ "${regions[$i]}" != "$1" ] || printf '10.79.1.%d' $((i + 1))
  done
}

clean_up() {
  local status=$? it
  trap '' INT TERM
  [ -z "$running" ] || kill "$running" 2>/dev/null || true
  for it in "${processes[@]}"; do kill -KILL "$it" 2>/dev/null || true; done
  [ -z "$emulator" ] || kill "$emulator" 2>/dev/null || true
  wait 2>/dev/null || true
  for it in "${namespaces[@]}"; do ip netns del "$it" 2>/dev/null || true; done
  [ -z "$folder" ] || printf '\nThe files of this run are in %s\n' "$folder"
  exit $status
}

emulate() {
  local region a b latency rate ready
  run g++ -O2 -std=c++20 "$root/tests/network/emulate_network.cpp" -o "$folder/emulate_network"
  for region in "${regions[@]}"; do
    ip netns add "$(namespace_of "$region")" || fail 'no network namespace can be made here'
    namespaces+=("$(namespace_of "$region")")
    ip -n "$(namespace_of "$region")" link set lo up
    echo "machine $(namespace_of "$region") $(address_of "$region")"
  done >"$folder/links.txt"
  # The redirection above is no subshell, so that the names are kept for the cleaning.
  while read -r a b latency rate; do
    # Queues hold a round trip, but at least 50 ms.
    echo "link $(namespace_of "$a") $(namespace_of "$b") $latency $rate $((latency > 25 ? 2 * latency : 50))"
    echo "link $(namespace_of "$b") $(namespace_of "$a") $latency $rate $((latency > 25 ? 2 * latency : 50))"
  done <<<"$links" >>"$folder/links.txt"
  mkfifo "$folder/ready"
  "$folder/emulate_network" "$folder/links.txt" >"$folder/ready" &
  emulator=$!
  read -r ready <"$folder/ready" || fail 'the emulator did not start'
  rm "$folder/ready"
  [ "$ready" = ready ] || fail 'the emulator did not start'
  for region in "${regions[@]}"; do tune "$region"; done
}

# Some kernels have another congestion control than CUBIC, which the simulator models.
tune() { # REGION
  ip -n "$(namespace_of "$1")" route replace 10.79.1.0/24 dev wan0 proto kernel scope link src "$(address_of "$1")" congctl cubic 2>/dev/null || true
}

# measure FOLDER REGION...: what has been measured there is not measured again.
measure() {
  local names region
  for region in "${@:2}"; do names+=("$region netns:$(namespace_of "$region") $(address_of "$region") -"); done
  printf '%s\n' "${names[@]}" >"$1.hosts"
  run env DTFM_TOPOLOGY="$programs/dtfm-topology" "$root/scripts/measure.sh" --hosts "$1.hosts" -o "$1" --seconds "$seconds" --omit 2 --pings 5 --flows 1 --quiet \
    >"$1.txt" 2>&1 || fail "the network could not be measured: $(tail -n 1 "$1.txt")"
  # The processor of this machine is the `GPU`. Messages are those of TCP.
  sed -i -e 's/^  - {site: \("[a-z]*"\)}/  - {site: \1, gpu: CPU}/' -e '/^devices:/i gpus:\n  - {name: CPU, memory: 4 GB}\ntransport: tcp' "$1/topology.yaml"
}

profile() {
  run env OMP_NUM_THREADS=1 "$python" "$root/python/train.py" --profile "$folder/profile.json" --shape "{$shape}" --gpu CPU --device cpu --micro-batches 1,2
  cat >"$folder/job.yaml" <<END
version: 1
name: demo
target: pytorch
model: {kind: transformer, $shape}
training: {global_batch: 16, micro_batch: 1, precision: fp32}
parallelism: {pipeline: auto, data: 2, schedule: 1f1b, gradient_sync: ring}
profile: profile.json
END
}

# plan NAME TOPOLOGY OPTION...: plans, shows the plan and exports it.
plan() {
  local region
  run "$programs/dtfm-plan" "$2" --job "$folder/job.yaml" --quiet -o "$folder/$1.json" "${@:3}" >"$folder/$1.txt"
  field "$folder/$1.json" "$describe"
  for region in "${regions[@]}"; do
    if grep -q "\"$region/0\"" "$folder/$1.json"; then echo "$region/0 $(address_of "$region")"; fi
  done >"$folder/$1.machines"
  run "$programs/dtfm-export" "$folder/$1.json" --to pytorch --topology "$2" --hosts "$folder/$1.machines" -o "$folder/$1" --quiet
}

field() { # FILE EXPRESSION: a value of a JSON file
  "$python" -c 'import json, sys; it = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"
}

# start NAME OPTION...: starts the ranks of an exported plan in the background, and fills `processes`.
start() {
  local name=$1 rank address region world master
  world=$(field "$folder/$name/program.json" 'len(it["ranks"])')
  master=$(field "$folder/$name/program.json" 'it["ranks"][0]["host"]')
  processes=()
  for ((rank = 0; rank < world; ++rank)); do
    address=$(field "$folder/$name/program.json" "it['ranks'][$rank]['host']")
    region=${regions[${address##*.} - 1]}
    RANK=$rank WORLD_SIZE=$world MASTER_ADDR=$master MASTER_PORT=$port OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 \
      ip netns exec "$(namespace_of "$region")" "$python" "$folder/$name/train.py" --device cpu --data "$folder/text.txt" --timeout 20 \
      --checkpoint-dir "$folder/checkpoints" --checkpoint-every 5 --log "$folder/$name/log.jsonl" --trace "$folder/$name/trace.json" \
      "${@:2}" >"$folder/$name/rank-$rank.txt" 2>&1 &
    processes+=($!)
  done
}

# Waits for all ranks and prints how each of them ended. Returns whether all have succeeded.
wait_for_ranks() { # NAME
  local rank status failed=0
  for rank in "${!processes[@]}"; do
    status=0
    { wait "${processes[$rank]}" || status=$?; } 2>/dev/null # without the shell's message about one that was killed
    [ $status -eq 0 ] || failed=1
    [ $status -eq 0 ] || printf '  rank %d: exit code %d. %s\n' "$rank" $status "$(grep '^train.py:' "$folder/$1/rank-$rank.txt" | tail -n 1)"
  done
  processes=()
  return $failed
}

iterations() { # NAME: so many have ended
  if [ -e "$folder/$1/log.jsonl" ]; then wc -l <"$folder/$1/log.jsonl"; else echo 0; fi
}

wait_for_iteration() { # NAME NUMBER
  local until=$((SECONDS + 300))
  while [ "$(iterations "$1")" -lt "$2" ]; do
    if [ $SECONDS -ge $until ] || ! kill -0 "${processes[0]}" 2>/dev/null; then fail "the training did not come to iteration $2: see $folder/$1"; fi
    sleep 0.1
  done
}

show_training() { # NAME
  sed -n 's/^iteration/  iteration/p' "$folder/$1/rank-0.txt" | sed -n '1,3p;$p'
}

simulate() { # TOPOLOGY PLAN OPTION...: seconds per iteration
  "$programs/dtfm-sim" "$1" "$2" --quiet --format json "${@:3}" >"$folder/simulated.json"
  field "$folder/simulated.json" '"%.3f" % it["iterations"][-1]["duration_s"]'
}

measured() { # NAME: median of the iterations but the first two
  "$python" -c 'import json, statistics, sys
print("%.3f" % statistics.median([json.loads(line)["seconds"] for line in open(sys.argv[1])][2:]))' "$folder/$1/log.jsonl"
}

# add_runs NAME NETWORK: rows of the table for dtfm-calibrate, of the iterations but the first two. The second plan has
# another topology than the first.
add_runs() {
  [ -e "$folder/runs.csv" ] || echo 'name,topology,plan,seconds' >"$folder/runs.csv"
  "$python" -c 'import json, sys
for line in list(open(sys.argv[1]))[2:]:
    print(sys.argv[2], sys.argv[3] + "/topology.yaml", sys.argv[2] + ".json", json.loads(line)["seconds"], sep=",")' \
    "$folder/$1/log.jsonl" "$1" "$2" >>"$folder/runs.csv"
}

read_arguments "$@"
check_requirements
make_folder
trap clean_up EXIT
trap 'exit 130' INT TERM

step "1. Emulating ${#regions[@]} regions"
emulate
# shellcheck disable=SC2086 # words
printf '  %s - %s: %s ms, %s Mbps\n' $links

step '2. Measuring the network'
measure "$folder/network" "${regions[@]}"
grep -o 'from: .*bandwidth: [0-9.]* Mbps' "$folder/network/topology.yaml" | sed -n '1,4p;$p' | sed 's/^/  /'

step '3. Profiling the layers on this processor'
profile
field "$folder/profile.json" '"\n".join("  %s: forward %.2f ms, backward %.2f ms" % (row["kind"], row["forward_s"] * 1e3, row["backward_s"] * 1e3) for row in it["layers"] if row["micro_batch"] == 1)'

step '4. Planning'
cat "$root"/docs/*.md >"$folder/text.txt"
plan first "$folder/network/topology.yaml"

step "5. Training $steps iterations"
start first --steps 100000
wait_for_iteration first "$steps"
show_training first

last=$((${#processes[@]} - 1))
lost=$(field "$folder/first/program.json" "it['ranks'][$last]['device'].split('/')[0]")
step "6. Killing rank $last, in $lost"
kill -KILL "${processes[$last]}"
if wait_for_ranks first; then fail 'the other ranks did not notice it'; fi

step "7. Planning again without $lost, and resuming"
left=()
for region in "${regions[@]}"; do [ "$region" = "$lost" ] || left+=("$region"); done
mkdir -p "$folder/network-without-$lost"
cp -r "$folder/network/raw" "$folder/network-without-$lost/"
measure "$folder/network-without-$lost" "${left[@]}"
plan second "$folder/network-without-$lost/topology.yaml" --warm-start "$folder/first.json"
resumed=$(tr -dc 0-9 <"$folder/checkpoints/latest")
start second --steps $((10#$resumed + steps)) --resume
wait_for_ranks second || fail "the resumed training failed: see $folder/second"
sed -n 's/^resuming/  resuming/p' "$folder/second/rank-0.txt"
show_training second

step '8. Calibrating'
add_runs first network
add_runs second "network-without-$lost"
run "$programs/dtfm-calibrate" "$folder/network/topology.yaml" "$folder/runs.csv" --quiet -o "$folder/calibration.json" >"$folder/calibration.txt"

printf '\n%-32s %10s %10s %12s\n' 'seconds per iteration' predicted measured calibrated
for name in first second; do
  topology=$folder/network/topology.yaml
  [ $name = first ] || topology=$folder/network-without-$lost/topology.yaml
  printf '%-32s %10s %10s %12s\n' "$name plan" "$(simulate "$topology" "$folder/$name.json" --calibration neutral)" "$(measured $name)" \
    "$(simulate "$topology" "$folder/$name.json" --calibration "$folder/calibration.json")"
done
if [ "$(nproc)" -lt ${#regions[@]} ]; then
  printf 'The profile is that of one rank alone; here, the ranks share %d cores, which only the calibration sees.\n' "$(nproc)"
fi
