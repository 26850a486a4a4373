#!/usr/bin/env bash
# Measures the network between your machines and writes it as a topology for dtfm-plan: FOLDER/topology.yaml.
#
# usage: scripts/measure.sh (--hosts FILE | --netns NAMES) -o FOLDER [OPTION]... [-- IMPORT-OPTION...]
#
#   --hosts FILE   one line per machine; `-` or nothing means the default; # begins a comment:
#                    NAME [DESTINATION [ADDRESS [GPU [COUNT]]]]
#                    NAME         name of its site, or SITE/MACHINE if a site has several machines
#                    DESTINATION  for ssh without a password [NAME]; `local`: this machine; netns:N: its network namespace N
#                    ADDRESS      at which the other machines reach it [the host in DESTINATION]
#                    GPU          its name in configs/gpus.yaml
#                    COUNT        GPUs in the machine [1]; several require `-- --within-host LATENCY,BANDWIDTH`
#   --netns NAMES  instead of FILE, network namespaces of this machine: a,b,c, or a=ADDRESS,b=ADDRESS,… (root only)
#   -o FOLDER      output folder; raw/ has a file per pair and direction, and what has a file is not measured again
#   --seconds N    length of a bandwidth test in seconds [5]
#   --omit N       seconds before each test that do not count, because of TCP's slow start [1]
#   --flows N      concurrent flows of a capacity test; 1: no such test [4]
#   --pings N      pings per direction [10]
#   --parallel N   maximum pairs at a time, each machine in one pair [all]; use 1 if machines share an uplink
#   --port N       first of 16 TCP ports at which machines accept connections from each other [5201]
#   --quiet        no progress
#
# Latency is half the median ping. Bandwidth is the received rate of one TCP flow of iperf3, capacity that of several flows
# together. Comments in the topology say how much the bandwidth varied from second to second, and when it was measured.
# Every machine needs iperf3, ping and timeout. Options after `--` are passed to `dtfm-topology import`; the program is
# looked up in $DTFM_TOPOLOGY, build/release and PATH.
#
# Examples:
#   scripts/measure.sh --hosts hosts.txt -o lab
#   scripts/measure.sh --hosts hosts.txt -o lab --seconds 10 --parallel 1 -- --gpu A100-80GB
#
# Exit codes: 0 done, 1 some pairs could not be measured (the same command retries them), 2 bad usage, or a machine cannot be
# reached or lacks a program, 130 interrupted.

set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Allowed forms of words that ssh, ip and remote shells see: they contain no character that is special to these.
readonly name_form='^[A-Za-z0-9][A-Za-z0-9._-]{0,62}(/[A-Za-z0-9][A-Za-z0-9._-]{0,62})?$'
readonly destination_form='^((netns:)?[A-Za-z0-9][A-Za-z0-9._-]{0,62}|[A-Za-z0-9_][A-Za-z0-9._-]{0,31}@[A-Za-z0-9][A-Za-z0-9._-]{0,252})$'
readonly address_form='^[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}$'
readonly gpu_form='^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$'
readonly max_hosts=128 ports=16

hosts_file='' namespaces='' folder='' seconds=5 omit=1 flows=4 pings=10 parallel=$max_hosts port=5201 quiet=''
import_options=() names=() destinations=() addresses=() gpus=() counts=()

usage() { sed -n '2,/^$/{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }

say() { [ -n "$quiet" ] || printf 'measure.sh: %s\n' "$*" >&2; }

complain() { printf 'measure.sh: %s\n' "$*" >&2; }

refuse() {
  complain "$*"
  exit 2
}

# Prints a text from another machine on one line, without control characters.
tame() { # TEXT
  local text=${1//[$'\n\r\t']/ }
  text=${text//[^[:print:]]/?}
  text=${text%"${text##*[! ]}"}
  printf '%s' "${text:0:300}"
}

number() { # OPTION VALUE LEAST MOST
  [[ $2 =~ ^(0|[1-9][0-9]{0,4})$ ]] || refuse "$1: expected a whole number; found \`$(tame "$2")\` (see --help)"
  (($2 >= $3 && $2 <= $4)) || refuse "$1: expected a number from $3 to $4; found $2 (see --help)"
}

read_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) usage && exit ;;
      --quiet) quiet=yes && shift && continue ;;
      --) import_options=("${@:2}") && break ;;
      --hosts | --netns | -o | --seconds | --omit | --flows | --pings | --parallel | --port)
        [ $# -gt 1 ] || refuse "$1 requires a value (see --help)"
        ;;
      *) refuse "unexpected argument \`$(tame "$1")\` (see --help)" ;;
    esac
    case $1 in
      --hosts) hosts_file=$2 ;;
      --netns) namespaces=$2 ;;
      -o) folder=$2 ;;
      --seconds) number "$1" "$2" 1 3600 && seconds=$2 ;;
      --omit) number "$1" "$2" 0 60 && omit=$2 ;;
      --flows) number "$1" "$2" 1 128 && flows=$2 ;;
      --pings) number "$1" "$2" 1 1000 && pings=$2 ;;
      --parallel) number "$1" "$2" 1 "$max_hosts" && parallel=$2 ;;
      --port) number "$1" "$2" 1024 65519 && port=$2 ;;
    esac
    shift 2
  done
  [ -n "$hosts_file$namespaces" ] || refuse '--hosts FILE or --netns NAMES is missing (see --help)'
  [ -z "$hosts_file" ] || [ -z "$namespaces" ] || refuse '--hosts cannot be combined with --netns'
  [ -n "$folder" ] || refuse '-o FOLDER is missing (see --help)'
  [[ $folder != -* ]] || folder=./$folder
}

# add_host WHERE NAME [DESTINATION [ADDRESS [GPU [COUNT]]]]
add_host() {
  local where=$1 name=$2 destination=${3--} address=${4--} gpu=${5--} count=${6--} other
  [ $# -le 6 ] || refuse "$where: expected at most 5 words, NAME DESTINATION ADDRESS GPU COUNT; found $(($# - 1))"
  [ "$destination" != - ] || destination=${name##*/}
  if [ "$address" = - ]; then address=${destination#*@}; fi
  check_word "$where" 'a name such as oregon or oregon/node-1' "$name" "$name_form"
  check_word "$where" 'a destination of ssh such as me@node-1, local or netns:NAME' "$destination" "$destination_form"
  check_word "$where" 'an address such as 10.0.0.1 (required with netns: and local)' "$address" "$address_form"
  [[ $address != local && $address != netns:* ]] || refuse "$where: $destination needs an address"
  [ "$gpu" = - ] || check_word "$where" 'a GPU such as A100-80GB' "$gpu" "$gpu_form"
  [ "$count" != - ] || count=1
  check_word "$where" 'a number of GPUs from 1 to 999' "$count" '^[1-9][0-9]{0,2}$'
  for other in "${names[@]}"; do
    [ "${other##*/}" != "${name##*/}" ] || refuse "$where: ${name##*/} is given twice"
    if [ "${other%/*}" = "$name" ] || [ "$other" = "${name%/*}" ]; then refuse "$where: $name and $other: a name cannot be both a machine and a site with machines"; fi
  done
  names+=("$name") destinations+=("$destination") addresses+=("$address") gpus+=("${gpu#-}") counts+=("$count")
}

check_word() { # WHERE EXPECTED WORD FORM
  [[ $3 =~ $4 ]] || refuse "$1: expected $2; found \`$(tame "$3")\`"
}

read_hosts_file() {
  local line words number=0
  if [ ! -r "$hosts_file" ] || [ -d "$hosts_file" ]; then refuse "$hosts_file: cannot be read"; fi
  while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    line=${line%$'\r'}
    read -r -a words <<<"${line%%#*}"
    [ ${#words[@]} -eq 0 ] || add_host "$hosts_file:$number" "${words[@]}"
    [ ${#names[@]} -le $max_hosts ] || refuse "$hosts_file:$number: more than $max_hosts machines"
  done < <(head -c 1048576 -- "$hosts_file" | tr '\000' '?')
}

# Prints the address of a namespace that has exactly one.
address_in() { # NAMESPACE
  local found
  found=$(ip -n "$1" -4 -o address show scope global 2>/dev/null | awk '{sub("/.*", "", $4); print $4}')
  [[ $found =~ $address_form ]] || refuse "--netns: the address of $1 is not known: give $1=ADDRESS"
  printf '%s\n' "$found"
}

read_namespaces() {
  local item name items address
  IFS=, read -r -a items <<<"$namespaces"
  for item in "${items[@]}"; do
    name=${item%%=*} address=${item#*=}
    check_word --netns 'names such as a,b,c' "$name" "$name_form"
    if [ "$address" = "$item" ]; then address=$(address_in "$name"); fi
    add_host --netns "$name" "netns:$name" "$address"
  done
}

on() { # HOST COMMAND...
  local destination=${destinations[$1]}
  case $destination in
    local) "${@:2}" ;;
    netns:*) ip netns exec "${destination#netns:}" "${@:2}" ;;
    *) ssh "${ssh_options[@]}" -- "$destination" "$(printf '%q ' "${@:2}")" ;;
  esac </dev/null
}

# Reports all unusable machines before it exits.
check_hosts() {
  local host lacks failed=0
  for host in "${!names[@]}"; do
    # shellcheck disable=SC2016 # the remote shell expands it
    if ! lacks=$(on "$host" sh -c 'for p in ping iperf3 timeout; do command -v $p >/dev/null || echo $p; done' 2>"$scratch/error"); then
      complain "${names[$host]}: cannot be reached by ${destinations[$host]}: $(tame "$(tail -n 1 "$scratch/error")")"
      failed=1
    elif [ -n "$lacks" ]; then
      complain "${names[$host]} lacks $(tame "$lacks"): apt-get install iperf3 iputils-ping coreutils (or dnf install iperf3 iputils coreutils) there"
      failed=1
    fi
  done
  [ $failed = 0 ] || exit 2
}

place_json() { # HOST
  printf '{"name": "%s"' "${names[$1]}"
  [ -z "${gpus[$1]}" ] || printf ', "gpu": "%s"' "${gpus[$1]}"
  printf ', "count": %d}' "${counts[$1]}"
}

# measurement_head FROM TO TIME ROUND-TRIPS: prints what precedes iperf3's JSON of one flow.
measurement_head() {
  printf '{"schema": "dtfm-measurement/1", "from": %s, "to": %s, "time": "%s", "rtt_ms": [%s],\n"one_flow": ' \
    "$(place_json "$1")" "$(place_json "$2")" "$3" "$4"
}

raw_file() { # FROM TO
  local file="${names[$1]},${names[$2]}"
  printf '%s/%s.json\n' "$raw" "${file//\//+}"
}

# Prints the round trips in ms, separated by commas.
ping_times() { # FROM TO
  local text
  text=$(on "$1" env LC_ALL=C timeout --foreground $((pings + 10)) ping -n -c "$pings" -i 0.2 -W 5 "${addresses[$2]}" 2>&1) || true
  sed -n 's/.* time=\([0-9]\{1,7\}\(\.[0-9]\{1,6\}\)\{0,1\}\) ms.*/\1/p' <<<"$text" | paste -s -d ,
}

# iperf3_test FROM TO FLOWS PORT OUTPUT: runs a server for one test as a background job; the client retries until the
# server listens. Writes iperf3's JSON to OUTPUT, and prints an error, if any, to stdout.
iperf3_test() {
  local from=$1 to=$2 output=$5 server error attempt limit=$((seconds + omit + 30))
  local interval=$((seconds > 600 ? 60 : seconds > 20 ? seconds / 10 : 1)) # between reported rates; iperf3 reports at most 60
  on "$to" timeout --foreground "$limit" iperf3 -s -1 -J -p "$4" >/dev/null 2>&1 &
  server=$!
  for ((attempt = 0; attempt < 50; ++attempt)); do
    sleep 0.2
    on "$from" timeout --foreground "$limit" iperf3 -c "${addresses[$to]}" -p "$4" -t "$seconds" -O "$omit" -P "$3" -J --get-server-output -i "$interval" \
      --connect-timeout 5000 >"$output" 2>"$output.error" || true
    error=$(sed -n 's/^[[:space:]]*"error":[[:space:]]*"\(.*\)"[[:space:]]*$/\1/p' "$output" | head -n 1)
    [[ $error == *"Connection refused"* ]] || break
  done
  [ -n "$error" ] || grep -q '"sum_received"' "$output" || error="no result: $(tail -n 1 "$output.error")"
  [ -z "$error" ] || kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  [ -z "$error" ] || tame "$error"
}

rate_of() { # FILE
  awk '/"sum_received"/ {found = 1} found && /"bits_per_second"/ {gsub("[^0-9.e+]", "", $2); printf "%.4g Mbps", $2 / 1e6; exit}' "$1"
}

# measure FROM TO PORT: writes a raw file, completely or not at all.
measure() {
  local from=$1 to=$2 file work="$scratch/$1-$2" times problem time
  file=$(raw_file "$from" "$to")
  local what="${names[$from]} -> ${names[$to]}"
  [ ! -e "$file" ] || return 0
  time=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  times=$(ping_times "$from" "$to")
  [ -n "$times" ] || { complain "$what: ${addresses[$to]} does not answer to ping" && return 1; }
  problem=$(iperf3_test "$from" "$to" 1 "$3" "$work.one")
  [ -n "$problem" ] || [ "$flows" = 1 ] || problem=$(iperf3_test "$from" "$to" "$flows" $(($3 + 1)) "$work.several")
  [ -z "$problem" ] || { complain "$what: iperf3: $problem (are TCP ports $port to $((port + ports - 1)) of ${addresses[$to]} open?)" && return 1; }
  {
    measurement_head "$from" "$to" "$time" "$times"
    cat "$work.one"
    [ "$flows" = 1 ] || printf ',\n"several_flows": '
    [ "$flows" = 1 ] || cat "$work.several"
    printf '}\n'
  } >"$file.part"
  # The import of this file alone must succeed, so that an unreadable file is not taken for a measurement later.
  if ! problem=$("$importer" import --format measurements "$file.part" --symmetric --gpus-per-host 1 --quiet -o /dev/null 2>&1 >/dev/null); then
    rm -f "$file.part"
    complain "$what: $(tame "$problem")" && return 1
  fi
  mv "$file.part" "$file"
  say "$what: ping ${times%%,*} ms, $(rate_of "$work.one"); $(find "$raw" -name '*.json' | wc -l) of $((${#names[@]} * (${#names[@]} - 1)))"
}

measure_pair() { # A B PORT
  local failed=0
  measure "$1" "$2" "$3" || failed=1
  measure "$2" "$1" $(($3 + 2)) || failed=1
  return $failed
}

# Prints the pairs of a round, one per line, by the circle method of round-robin tournaments: the last machine is fixed, the
# others rotate by one position per round, and opposite positions form pairs.
round_pairs() { # ROUND
  local n=$((${#names[@]} + ${#names[@]} % 2)) i a b
  for ((i = 0; i < n / 2; ++i)); do
    a=$((($1 + i) % (n - 1)))
    b=$(((n - 1 + $1 - i) % (n - 1)))
    [ $i -gt 0 ] || b=$((n - 1))
    # With an odd number of machines, one is in no pair.
    [ $a -ge ${#names[@]} ] || [ $b -ge ${#names[@]} ] || printf '%d %d\n' $((a < b ? a : b)) $((a < b ? b : a))
  done
}

is_measured() { # A B
  [ -e "$(raw_file "$1" "$2")" ] && [ -e "$(raw_file "$2" "$1")" ]
}

failures=0
wait_for_pairs() {
  local job
  for job in "${running[@]}"; do wait "$job" || failures=$((failures + 1)); done
  running=()
}

measure_all() {
  local round a b rounds=$((${#names[@]} - 1 + ${#names[@]} % 2))
  for ((round = 0; round < rounds; ++round)); do
    while read -r a b; do
      ! is_measured "$a" "$b" || continue
      # The job has its own process group, so that its children end with it. A pair has four tests, each with its own port.
      set -m
      measure_pair "$a" "$b" $((port + 4 * (round % 4))) &
      running+=($!)
      set +m
      [ ${#running[@]} -lt "$parallel" ] || wait_for_pairs
    done < <(round_pairs $round)
    wait_for_pairs
  done
}

finish() {
  local status=$? job destination
  trap '' INT TERM
  for job in "${running[@]}"; do kill -TERM -- "-$job" 2>/dev/null || true; done
  for destination in "${destinations[@]}"; do
    [[ $destination == netns:* || $destination == local ]] || ssh "${ssh_options[@]}" -O exit -- "$destination" </dev/null >/dev/null 2>&1 || true
  done
  rm -rf -- "$scratch"
  exit $status
}

# Imports dummy measurements, so that an unknown GPU or a bad option is rejected before anything is measured.
rehearse() {
  local from to files=() file
  for from in "${!names[@]}"; do
    for ((to = 0; to < from; ++to)); do
      file=$scratch/rehearsal-$from-$to.json
      {
        measurement_head "$from" "$to" 2000-01-01T00:00:00Z 1
        printf '{"start": {"connected": [{"local_host": "", "remote_host": ""}], "test_start": {"num_streams": 1}}, '
        printf '"end": {"sum_received": {"bits_per_second": 1000}}}}\n'
      } >"$file"
      files+=("$file")
    done
  done
  "$importer" import --format measurements -o /dev/null --symmetric "${import_options[@]}" -- "${files[@]}" >/dev/null || exit 2
}

write_topology() {
  local files=() named=() from to
  local name
  name=$(basename -- "$(realpath -- "$folder")")
  [[ " ${import_options[*]} " == *' --topology-name'* || ! $name =~ $name_form ]] || named=(--topology-name "$name")
  for from in "${!names[@]}"; do
    for to in "${!names[@]}"; do
      [ "$from" = "$to" ] || files+=("$(raw_file "$from" "$to")")
    done
  done
  "$importer" import --format measurements -o "$folder/topology.yaml" "${named[@]}" "${import_options[@]}" -- "${files[@]}"
}

find_importer() {
  for importer in "${DTFM_TOPOLOGY-}" "$root/build/release/dtfm-topology" "$(command -v dtfm-topology || true)"; do
    [ ! -x "$importer" ] || return 0
  done
  refuse 'dtfm-topology was not found; build it: cmake --preset release && cmake --build --preset release --target dtfm-topology'
}

read_arguments "$@"
find_importer
if [ -n "$hosts_file" ]; then read_hosts_file; else read_namespaces; fi
[ ${#names[@]} -ge 2 ] || refuse "${hosts_file:---netns}: expected at least two machines; found ${#names[@]}"
raw=$folder/raw running=()
scratch=$(mktemp -d)
ssh_options=(-n -o BatchMode=yes -o ConnectTimeout=10 -o ControlMaster=auto -o "ControlPath=$scratch/%C" -o ControlPersist=60)
trap finish EXIT
trap 'exit 130' INT TERM
rehearse
mkdir -p -- "$raw" || refuse "$raw: cannot be created"
check_hosts
say "${#names[@]} machines, $((${#names[@]} * (${#names[@]} - 1))) directions of pairs; each takes about $((pings / 5 + (flows > 1 ? 2 : 1) * (seconds + omit + 1))) s"
measure_all
if [ $failures -gt 0 ]; then
  complain "$failures pairs could not be measured; the same command retries them"
  exit 1
fi
write_topology
