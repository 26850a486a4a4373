#!/usr/bin/env bash
# dtfm-topology: checks, imports that dtfm-plan accepts, rejected input.
# shellcheck disable=SC2016 # messages contain back quotes
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "$@"
planner=$(realpath "$2")

run --version
expect_status 0 --version
grep -qE '^dtfm-topology [0-9]+\.[0-9]+\.[0-9]+$' "$out" || fail "--version says $(cat "$out")"
for words in "" detect import check show; do
  # shellcheck disable=SC2086 # none, or one
  run $words --help
  expect_status 0 $words --help
  expect_no_stderr $words --help
  for word in Examples 'Exit codes' dtfm-topology; do expect_in "$out" "$word"; done
done

# check: twelve devices at three sites, and only notes on missing values.
run check net.yaml
expect_status 0 check net.yaml
expect_no_stderr check net.yaml
expect_in "$out" 'three-sites: 12 devices in 3 sites, fingerprint '
expect_in "$out" 'between sites  latency 49 ms … 156 ms, bandwidth 400 Mbps … 1.1 Gbps'
expect_in "$out" 'warning: no GPU, which planning by iteration time or cost requires: 12 of 12 devices, first `oregon/0`'
[[ $(grep -c warning "$out") == 1 ]] || fail "other warnings: $(cat "$out")"
run check net.yaml --format json
expect_json "$out"
expect_in "$out" '"between_sites": {"latency_s": [0.049, 0.156], "bandwidth_bps": [400000000.0, 1100000000.0]}'

# A transport is shown.
sed 's/^name: /transport: {library: mpi, window: 4 MB}\nname: /' net.yaml >mpi.yaml
run check mpi.yaml
expect_in "$out" 'transport      mpi, window 4 MB'
run check mpi.yaml --format json
expect_in "$out" '"transport": {"library": "mpi", "window_bytes": 4000000.0}'
sed 's/^name: /transport: [mpi]\nname: /' net.yaml >list.yaml
run check list.yaml
expect_status 2 'a list of transports'
expect_in "$err" '`transport`: expected a name (known: `tcp`, `mpi`, `gloo`); found a list'

# Known hosts bring their links along.
cat >hosts.yaml <<'END'
version: 1
devices:
  - {site: oregon, hosts: 4, host: dgx-h100}
  - {site: ohio, hosts: 4, host: dgx-h100}
links:
  - {between: ["*", "*"], rtt: 50 ms, bandwidth: 10 Gbps}
END
run check hosts.yaml
expect_status 0 check hosts.yaml
expect_in "$out" 'hosts: 64 devices in 2 sites, fingerprint '
expect_in "$out" '64 × H100'
expect_in "$out" 'links          3 rules'
expect_in "$out" 'between sites  latency 25 ms … 25 ms, bandwidth 10 Gbps … 10 Gbps'
[[ $(grep -c warning "$out") == 0 ]] || fail "warnings: $(cat "$out")"
sed 's/ohio, hosts: 4, host: dgx-h100/ohio, host: dgx-h10/' hosts.yaml >unknown.yaml
run check unknown.yaml
expect_status 2 check unknown.yaml
expect_in "$err" 'unknown.yaml:4:24: unknown host `dgx-h10`; did you mean `dgx-h100`?'

# One of each suspicious setting.
cat >odd.yaml <<'END'
version: 1
name: odd
devices:
  - {site: a, gpu: T4, price: 1 USD/h}
  - {site: b, gpu: RTX-8000}
  - {site: c, gpu: T4}
links:
  - {within: "*", latency: 1 ms, bandwidth: 1 Gbps}
  - {from: a, to: b, latency: 10 ms, bandwidth: 1 Gbps}
  - {from: b, to: a, latency: 200 ms, bandwidth: 10 Mbps}
  - {between: [a, c], latency: 700 ms, bandwidth: 1 Gbps, capacity: 500 Mbps}
  - {between: [b, c], latency: 0 ms, bandwidth: 1 Gbps}
END
cat >expected <<'END'
warning: latency from `a/0` to `b/0` is 10 ms, back 200 ms
warning: bandwidth from `a/0` to `b/0` is 1 Gbps, back 10 Mbps
warning: one-way latency from `a/0` to `c/0` is 700 ms, longer than via satellite; is the unit right?; 2 such pairs of devices
warning: latency from `b/0` to `c/0` is 0, between sites; 2 such pairs of devices
warning: bandwidth of one flow from `a/0` to `c/0` is 1 Gbps, above the capacity for all flows, 500 Mbps; 2 such pairs of devices
warning: entry 1 of `links` matches no pair of devices
warning: no price, although other devices have one: 1 of 3 devices, first `b/0`
END
run check odd.yaml --quiet
expect_status 0 check odd.yaml --quiet
diff "$out" expected || fail "the warnings are others"

# show
run show net.yaml --site tokyo --site ohio
expect_status 0 show net.yaml
expect_in "$out" 'tokyo/0 … tokyo/3'
for line in 'latency  tokyo   ohio' 'tokyo    5 ms    156 ms' 'ohio     156 ms  5 ms' \
  'bandwidth  tokyo     ohio' 'tokyo      2 Gbps    400 Mbps' 'ohio       400 Mbps  2 Gbps'; do
  grep -qxF -- "$line" "$out" || fail "no line \"$line\": $(cat "$out")"
done
run show net.yaml --format json
expect_json "$out"
expect_in "$out" '{"from": "ohio", "to": "tokyo", "latency_s": [0.156, 0.156], "bandwidth_bps": [400000000.0, 400000000.0]}'

# import: a matrix that dtfm-plan accepts.
printf ',x,y\nx,0,20\ny,20,0\n' >rtt.csv
printf 'x,y\n0,800\n400,0\n' >rates.csv
import=(import --format csv rtt.csv rates.csv --rtt --latency-unit ms --bandwidth-unit Mbps)
run "${import[@]}" --gpu T4 --count 2 --count y=1 --within-site 0.1ms,10Gbps -o two.yaml
expect_status 0 import
expect_no_stderr import
expect_in "$out" 'two: 3 devices in 2 sites'
expect_in two.yaml '{from: "y", to: "x", latency: 10 ms, bandwidth: 400 Mbps}'
expect_in two.yaml '{site: "x", count: 2, gpu: "T4"}'
run "${import[@]}" --gpu T4 --count 2 --count y=1 --within-site 0.1ms,10Gbps --topology-name two
diff "$out" two.yaml || fail 'another topology on stdout than in the file'
run "${import[@]}" --gpu T4 --count 2 --count y=1 --within-site 0.1ms,10Gbps --quiet -o two.yaml
expect_no_stdout import --quiet
run "${import[@]}" --gpu T4 --summary json -o json.yaml
expect_json "$out"
expect_in "$out" '"gpus": {"T4": 2}'
"$planner" two.yaml --pipeline 3 --data 1 --quiet >plan.txt 2>&1 || fail "dtfm-plan: $(cat plan.txt)"

# An error is a single line, and nothing is written.
expect_refused 'expected detect, import, check or show (see dtfm-topology --help)'
expect_refused 'unexpected argument `shw`; did you mean `show`? (see dtfm-topology --help)' shw
expect_refused 'unexpected argument `--formt`; did you mean `--format`? (see dtfm-topology check --help)' check --formt json
expect_refused 'expected one TOPOLOGY; found 0 (see dtfm-topology check --help)' check
expect_refused 'none.yaml: cannot be opened: No such file or directory' show none.yaml
expect_refused '--site: no site `tokio`; did you mean `tokyo`?' show net.yaml --site tokio
expect_refused '--format is missing: name the format of the files (see dtfm-topology import --help)' import rtt.csv
expect_refused 'FILE is missing: name the files to import (see dtfm-topology import --help)' import --format csv
expect_refused '--format: no format `iperf`; did you mean `iperf3`?' import --format iperf rtt.csv -o new.yaml
expect_refused '--format: csv reads a matrix of latencies, then one of bandwidths; found 1 files' import --format csv rtt.csv -o new.yaml
expect_refused 'rtt.csv: cannot write: it is an input' "${import[@]}" -o rtt.csv
expect_refused 'expected: cannot write: it exists and is not a topology' "${import[@]}" -o expected
expect_refused '--gpu: unknown GPU `T5`; did you mean `T4`?' "${import[@]}" --gpu T5 -o new.yaml
expect_refused '--count: no site `z` was measured; known: `x`, `y`' "${import[@]}" --count z=2 -o new.yaml
expect_refused '--count: expected a whole number from 1 to 8192; found `9e9`' "${import[@]}" --count 9e9 -o new.yaml
expect_refused '--within-site: is required, because it was not measured (LATENCY,BANDWIDTH, such as 5us,300Gbps)' "${import[@]}" --count 2 -o new.yaml
printf '{"start": {}, "error": "the server is busy"}' >busy.json
expect_refused '--latency: must not be negative; found `-5ms`' import --format iperf3 busy.json --latency=-5ms -o new.yaml
expect_refused '--collective: requires --format nccl-tests' "${import[@]}" --collective sendrecv -o new.yaml
expect_refused '--between: requires --format iperf3 or nccl-tests' "${import[@]}" --between a b -o new.yaml
expect_refused '--name: host `z` is not in the files or is named by --between' "${import[@]}" --name z=a -o new.yaml
expect_refused '--topology-name: `a\x0ab: c` cannot be the name of a topology' "${import[@]}" --topology-name $'a\nb: c' -o new.yaml
expect_refused '--within-site: expected LATENCY,BANDWIDTH such as 5us,300Gbps; found `5us`' "${import[@]}" --within-site 5us -o new.yaml
sed 's/49 ms/49/' net.yaml >bare.yaml
run check bare.yaml
expect_status 2 check bare.yaml
expect_in "$err" 'bare.yaml:9:'
expect_refused 'busy.json: /: iperf3 failed: `the server is busy`' import --format iperf3 busy.json -o new.yaml

finish
