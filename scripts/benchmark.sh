#!/usr/bin/env bash
# Measures the quality and the speed of the searches and of the swarm simulation. Installs missing packages and builds the
# release preset first.
#
# usage: scripts/benchmark.sh [quality] [speed] [plans] [sizes] [warm] [regret] [swarm] [ranks] [--time-limit S] [--threads N]
#
#   quality  comm-cost on irregular graphs of 64 devices: the default strategy, the published search and its baseline,
#            for S seconds of wall time each [5]
#   speed    comm-cost of the five published cases: evaluations per second, and wall time of the default run
#   plans    the five published cases with 24, 32 and 40 layers and four batches: plans by iteration time and other plans,
#            all simulated; then 32 to 512 GPUs of two kinds against the best uniform split (6 minutes)
#   sizes    wall time of planning by iteration time for 64 to 1,024 devices with everything auto; for twelve regions with
#            32 devices each also with a time limit of 0.3 s
#   warm     the worldwide case after a change, planned from scratch and by --warm-start
#   regret   24 small topologies of heterogeneous GPUs: the default plan against the best with a given shape or
#            micro-batch (10 minutes)
#   swarm    a swarm of 400 peers for 32 hours on one core, without shared links, and with an uplink and a downlink for each
#            peer (3 minutes)
#   ranks    planning of 64, 256 and 512 devices, all links different, on one process with N threads and on N ranks of this
#            machine with one thread each: wall and CPU time, and what the ranks exchange
#
# The default is `quality speed`. Tables (Markdown) go to stdout, progress to stderr. --threads N [2] applies to every run.
# shellcheck source=scripts/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

# The options of scripts/generate-topology.py for each graph. The settings of the search were chosen on other seeds.
graphs=(
  "--sites 5 --seed 11 --noise 0.1"
  "--sites 7 --seed 12 --noise 0.2"
  "--sites 10 --seed 13 --noise 0.3"
  "--sites 5 --seed 14 --noise 0.1 --directed --uneven"
  "--sites 9 --seed 15 --noise 0.2 --directed --uneven"
  "--sites 16 --seed 16 --noise 0.3 --directed --uneven"
)
cases=(datacenter spot universities regional worldwide)
time_limit=5 threads=2 parts=()

bad_usage() {
  printf 'benchmark.sh: %s (see --help)\n' "$1" >&2
  exit 2
}

read_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      quality | speed | plans | sizes | warm | regret | swarm | ranks) parts+=("$1") ;;
      --time-limit | --threads)
        [[ ${2-} =~ ^[1-9][0-9]*$ ]] || bad_usage "$1 requires a positive whole number"
        if [ "$1" = --threads ]; then threads=$2; else time_limit=$2; fi
        shift
        ;;
      *) bad_usage "unexpected argument $1" ;;
    esac
    shift
  done
  [ ${#parts[@]} -gt 0 ] || parts=(quality speed)
}

# field PLAN PATH: prints a value of the plan, as in `field plan.json search evaluations`.
field() {
  python3 -c 'import functools, json, sys
step = lambda value, key: value[int(key) if isinstance(value, list) else key]
print(functools.reduce(step, sys.argv[2:], json.load(open(sys.argv[1]))))' "$@"
}

calculate() { python3 -c "print($1)"; }

rounded() { calculate "f'{$2:.$1f}'"; } # DIGITS VALUE

cost_of() { # TOPOLOGY STRATEGY
  "$planner" "$1" --objective comm-cost --strategy "$2" --time-limit "$time_limit" --threads "$threads" --quiet -o "$scratch/$2.json" >/dev/null
  field "$scratch/$2.json" estimate comm_cost total_s
}

quality() {
  local options topology number=0 genetic baseline ours bound
  printf '| graph | genetic | kernighan-lin | evolutionary | lower than genetic | lower bound |\n|---|--:|--:|--:|--:|--:|\n'
  for options in "${graphs[@]}"; do
    topology=$scratch/graph-$((++number)).yaml
    # shellcheck disable=SC2086 # the options are words
    "$root/scripts/generate-topology.py" --devices 64 $options -o "$topology" >&2
    genetic=$(cost_of "$topology" genetic)
    baseline=$(cost_of "$topology" kernighan-lin)
    ours=$(cost_of "$topology" evolutionary)
    bound=$(field "$scratch/evolutionary.json" lower_bound value)
    # shellcheck disable=SC2016 # back quotes of Markdown
    printf '| `%s` | %s s | %s s | %s s | %s %% | %s s |\n' "$options" "$(rounded 2 "$genetic")" "$(rounded 2 "$baseline")" \
      "$(rounded 2 "$ours")" "$(calculate "round(100 * (1 - $ours / $genetic), 1)")" "$(rounded 2 "$bound")"
  done
}

# Prints the wall time of a command in seconds: the mean of ten runs if hyperfine is installed, otherwise of one run.
wall_time_of() {
  if command -v hyperfine >/dev/null; then
    hyperfine --shell none --warmup 1 --runs 10 --export-json "$scratch/wall.json" "$(printf '%q ' "$@")" >&2
    field "$scratch/wall.json" results 0 mean
  else
    local begin=$EPOCHREALTIME
    "$@" >/dev/null
    calculate "$EPOCHREALTIME - $begin"
  fi
}

speed() {
  local name plan wall evaluations best
  printf '| case | cost | lower bound | stopped by | evaluations | best after | wall time | evaluations/s |\n'
  printf '|---|--:|--:|---|--:|--:|--:|--:|\n'
  for name in "${cases[@]}"; do
    plan=$scratch/$name.json
    wall=$(wall_time_of "$planner" "$root/topologies/$name.yaml" --objective comm-cost --threads "$threads" --quiet -o "$plan")
    evaluations=$(field "$plan" search evaluations)
    best=$(field "$plan" search convergence -1 0)
    printf '| %s | %s s | %s s | %s | %s | %s | %s s | %s |\n' "$name" \
      "$(rounded 4 "$(field "$plan" estimate comm_cost total_s)")" \
      "$(rounded 4 "$(field "$plan" lower_bound value)")" "$(field "$plan" search stopped)" "$evaluations" "$best" "$(rounded 3 "$wall")" \
      "$(calculate "round($evaluations / $wall)")"
  done
}

plans() {
  "$root/build/release/tests/dtfm_placement_comparison" "$root/topologies" "$threads"
  printf '\n'
  "$root/build/release/tests/dtfm_mixed_gpu_plans" "$threads"
}

# The job of most rows of `sizes`.
everything_auto='version: 1
name: everything-auto
model: {preset: gpt3-xl}
training: {global_batch: 1024, micro_batch: auto, precision: fp16, recompute: auto}
parallelism: {schedule: auto, gradient_sync: auto, tensor: auto}
compression: {activations: auto, gradients: auto}'

# size_row NAME TOPOLOGY OPTION...
size_row() {
  local plan=$scratch/plan.json begin=$EPOCHREALTIME
  "$planner" "$2" --threads "$threads" --quiet "${@:3}" -o "$plan" >/dev/null
  local wall
  wall=$(calculate "$EPOCHREALTIME - $begin")
  local options=${*:3}
  printf '| %s | %s | %s s | %s s |\n' "$1" "${options//$scratch\//}" "$(rounded 4 "$(field "$plan" estimate iteration_time_s)")" "$(rounded 1 "$wall")"
}

sizes() {
  local name options
  printf '%s\n' "$everything_auto" >"$scratch/auto.yaml"
  printf '| devices | options | iteration | wall time |\n|---|---|--:|--:|\n'
  for name in "${cases[@]}"; do
    size_row "64, $name" "$root/topologies/$name.yaml" --job "$scratch/auto.yaml"
  done
  for options in "--devices 256 --sites 12 --seed 3" "--devices 384 --sites 12 --seed 5 --noise 0.1" "--devices 1024 --sites 16 --seed 3"; do
    # shellcheck disable=SC2086 # the options are words
    "$root/scripts/generate-topology.py" $options -o "$scratch/sized.yaml" >&2
    size_row "\`$options\`" "$scratch/sized.yaml" --job "$scratch/auto.yaml"
    [[ $options == *384* ]] || continue
    size_row "the same" "$scratch/sized.yaml"
    size_row "the same" "$scratch/sized.yaml" --time-limit 0.3 --finalists 1
  done
}

# reached_after PLAN: prints the evaluations until the search was within 1 % of its final plan.
reached_after() {
  python3 -c 'import json, sys
points = json.load(open(sys.argv[1]))["search"]["convergence"]
print(next(count for count, value in points if value <= 1.01 * points[-1][1]))' "$1"
}

# warm_row WHAT BEFORE AFTER: sed commands turn worldwide.yaml into the topologies before and after the change.
warm_row() {
  sed "$2" "$root/topologies/worldwide.yaml" >"$scratch/before.yaml"
  sed "$3" "$root/topologies/worldwide.yaml" >"$scratch/after.yaml"
  "$planner" "$scratch/before.yaml" --threads "$threads" --quiet -o "$scratch/running.json" >/dev/null
  "$planner" "$scratch/after.yaml" --threads "$threads" --quiet -o "$scratch/cold.json" >/dev/null
  "$planner" "$scratch/after.yaml" --warm-start "$scratch/running.json" --threads "$threads" --quiet -o "$scratch/warm.json" >/dev/null
  local name
  printf '| %s ' "$1"
  for name in cold warm; do
    printf '| %s | %s s ' "$(reached_after "$scratch/$name.json")" "$(rounded 2 "$(field "$scratch/$name.json" estimate iteration_time_s)")"
  done
  printf '| %s GB, %s s |\n' "$(calculate "round($(field "$scratch/warm.json" warm_start migration bytes) / 1e9)")" \
    "$(rounded 0 "$(field "$scratch/warm.json" warm_start migration seconds)")"
}

warm() {
  printf '| change | cold: evaluations | iteration | warm: evaluations | iteration | migration |\n|---|--:|--:|--:|--:|---|\n'
  warm_row "a host of 64 fails" "" "s/ireland, count: 8/ireland, count: 7/"
  warm_row "the slowest link, Seoul to Ireland, is half as fast" "" "s/0.335 Gbps/0.1675 Gbps/"
  warm_row "Virginia to London is half as fast" "" "s/1.16 Gbps/0.58 Gbps/"
  warm_row "Ireland's 8 hosts join 56" "/site: ireland/d; /, ireland\]/d" ""
}

regret() {
  "$root/tests/benchmarks/search_regret.py" "$planner" shapes --threads "$threads"
  printf '\n'
  "$root/tests/benchmarks/search_regret.py" "$planner" micro-batches --threads "$threads"
}

swarm() {
  printf '| hours | stages | transport | links | visits | CPU | per visit | events per visit | memory |\n|--:|--:|---|---|--:|--:|--:|--:|--:|\n'
  local links
  for links in apart shared; do
    "$root/build/release/tests/benchmarks/benchmark_swarm" 32 4 peer "$links"
  done
}

# ranks_row DEVICES RANKS THREADS
ranks_row() {
  local plan=$scratch/ranks-$2-$3.json launcher=()
  [ "$2" = 0 ] || launcher=(mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$2")
  local times
  times=$({ TIMEFORMAT='%R %U %S' && time "${launcher[@]}" "$planner" "$scratch/sized.yaml" --threads "$3" -o "$plan" \
    >/dev/null 2>"$scratch/messages"; } 2>&1)
  cmp "$scratch/ranks-0-$threads.json" "$plan"
  read -r wall user system <<<"$times"
  printf '| %s | %s | %s | %s s | %s s | %s |\n' "$1" "${2/#0/no MPI}" "$3" "$(rounded 1 "$wall")" \
    "$(rounded 1 "$user + $system")" "$(grep -o '[0-9.]* MB in [0-9]* rounds' "$scratch/messages" || echo —)"
}

ranks() {
  local devices count
  printf '| devices | ranks | threads of each | wall time | CPU time | exchanged |\n|--:|--:|--:|--:|--:|---|\n'
  for devices in 64 256 512; do
    "$root/scripts/generate-topology.py" --devices "$devices" --sites 12 --seed 5 --noise 0.1 -o "$scratch/sized.yaml" >&2
    ranks_row "$devices" 0 "$threads"
    ranks_row "$devices" 0 1
    for count in 1 2 4; do ranks_row "$devices" "$count" 1; done
  done
}

read_arguments "$@"
install_missing "${build_packages[@]}" python3
build release dtfm-plan dtfm_placement_comparison dtfm_mixed_gpu_plans benchmark_swarm
planner=$root/build/release/dtfm-plan
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for part in "${parts[@]}"; do
  "$part"
  echo
done
