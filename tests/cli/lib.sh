#!/usr/bin/env bash
# Shared code of the program tests. A test sources it with the path of the program.
set -euo pipefail

program=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/folder"
cd "$scratch/folder"
out=$scratch/out err=$scratch/err
failures=0

fail() {
  printf 'FAILED: %s\n' "$*"
  failures=$((failures + 1))
}

# Runs the program; sets `status` to its exit status and writes its output to the files $out and $err.
run() {
  status=0
  "$program" "$@" >"$out" 2>"$err" || status=$?
}

expect_status() { [[ $status == "$1" ]] || fail "${*:2}: exit status $status instead of $1: $(cat "$err")"; }
expect_no_stdout() { [[ ! -s $out ]] || fail "$*: something on stdout"; }
expect_no_stderr() { [[ ! -s $err ]] || fail "$*: on stderr: $(cat "$err")"; }
# Unlike an empty stderr, this permits progress, which slow machines print.
expect_no_warning() { ! grep -qE 'note:|warning:' "$err" || fail "$*: on stderr: $(cat "$err")"; }
expect_in() { grep -qF -- "$2" "$1" || fail "${1##*/} lacks \"$2\": $(head -c 2000 "$1")"; }
expect_json() { python3 -m json.tool "$1" >/dev/null || fail "$1 is not JSON"; }

# expect_refused MESSAGE ARGUMENT...: exit code 2, this one line on stderr, nothing on stdout, no file
# written.
expect_refused() {
  local message="${program##*/}: $1" before after
  shift
  before=$(ls -lA --time-style=full-iso)
  run "$@"
  after=$(ls -lA --time-style=full-iso)
  expect_status 2 "$@"
  expect_no_stdout "$@"
  [[ $(cat "$err") == "$message" ]] || fail "$*: said \"$(cat "$err")\" instead of \"$message\""
  [[ $before == "$after" ]] || fail "$*: wrote a file"
}

finish() {
  if ((failures)); then exit 1; fi
  echo 'all passed'
}

# Twelve devices at three sites, and twelve layers, so that any number of stages has work.
cat >net.yaml <<'END'
version: 1
name: three-sites
devices:
  - {site: oregon, count: 4}
  - {site: ohio, count: 4}
  - {site: tokyo, count: 4}
links:
  - {within: "*", latency: 5 ms, bandwidth: 2 Gbps}
  - {between: [oregon, ohio], latency: 49 ms, bandwidth: 1.10 Gbps}
  - {between: [oregon, tokyo], latency: 96 ms, bandwidth: 0.523 Gbps}
  - {between: [ohio, tokyo], latency: 156 ms, bandwidth: 0.4 Gbps}
END
cat >job.yaml <<'END'
version: 1
name: small
model: {kind: transformer, layers: 12, hidden: 64, heads: 4, sequence: 128, vocabulary: 1000}
training: {global_batch: 24}
parallelism: {pipeline: 3}
comm_cost: {gradient: 100 MB, activation: 20 MB}
END
