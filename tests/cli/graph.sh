#!/usr/bin/env bash
# dtfm-sim --graph: printed and written results, rejected input.
# shellcheck disable=SC2016 # messages contain back quotes
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh" "$@"
help='(see dtfm-sim --help)'

cat >graph.txt <<'END'
host a
host b
link wan 1e6 0.25
route a b wan
fail host b 3 4
compute c a 1
flow f a b 1e6 after c
flow g a b 2e6 after f
delay d 1 after g
END

run --help
expect_status 0 --help
for words in '--graph' '--tasks' '--stats' 'Exit codes' 'dtfm-sim --graph ring.txt'; do expect_in "$out" "$words"; done
# The example of --help is a valid graph.
sed -n '/^  host a$/,/^$/p' "$out" >help.txt
run --graph help.txt
expect_status 0 'the graph of --help'
expect_in "$out" '2 done, 0 failed, 0 blocked'
rm help.txt
run --version
expect_status 0 --version
[[ $(cat "$out") =~ ^dtfm-sim\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "--version: $(cat "$out")"

# c ends at 1; f takes 0.25 s and 1 s; g starts at 2.25, and its destination fails at 3.
expected='id,state,ready,start,finish
c,DONE,0,0,1
f,DONE,1,1,2.25
g,FAILED,2.25,2.25,3
d,BLOCKED,,,'
run --graph graph.txt --tasks -
expect_status 0 --tasks -
expect_no_stderr --tasks -
[[ $(cat "$out") == "$expected" ]] || fail "--tasks -: $(cat "$out")"
run --graph graph.txt --tasks tasks.csv -o result.json
expect_status 0 'two outputs'
[[ $(cat tasks.csv) == "$expected" ]] || fail "tasks.csv: $(cat tasks.csv)"
expect_in "$out" 'makespan  3 s'
expect_in "$out" '2 done, 1 failed, 1 blocked'
expect_json result.json
expect_in result.json '"schema": "dtfm-sim-graph/1"'
expect_in result.json '"makespan_s": 3,'
expect_in result.json '"done": 2, "failed": 1, "blocked": 1'
run --graph graph.txt --quiet --stats
expect_status 0 --stats
expect_no_stdout --quiet
expect_json "$err"
for key in '"tasks": 4' '"flows": 2' '"events": ' '"read_cpu_s": ' '"run_cpu_s": ' '"peak_rss_bytes": '; do
  expect_in "$err" "$key"
done
cp tasks.csv first.csv
run --graph graph.txt --tasks tasks.csv --quiet
cmp -s tasks.csv first.csv || fail 'the same graph twice gives other bytes'

run --graph graph.txt -o -
expect_status 0 '-o -'
cmp -s "$out" result.json || fail '-o - prints something else than the result'
run --graph graph.txt -o /dev/null --tasks /dev/null
expect_status 0 'outputs to /dev/null'
expect_in "$out" 'makespan  3 s'
# A deadlocked flow is reported, too: the bandwidth stays 0.
printf 'host a\nhost b\nlink l 1e6 0\nroute a b l\nprofile l bw 1 0\ncompute c a 1\nflow f a b 2e6\n' >stands.txt
run --graph stands.txt
expect_status 0 'a deadlocked flow'
expect_in "$out" '1 done, 0 failed, 1 blocked'

expect_refused "TOPOLOGY PLAN or --graph FILE is missing $help"
expect_refused "unexpected argument \`--grap\`; did you mean \`--graph\`? $help" --grap graph.txt
expect_refused 'TOPOLOGY: cannot be combined with --graph' --graph graph.txt graph.txt
run --graph
expect_status 2 'an option without its value'
expect_refused 'missing.txt: cannot be opened: No such file or directory' --graph missing.txt
printf 'host a 1e300\n' >far.txt
printf 'host a\nhost b\nlink l 1 0\nprofile l bw 0 1 period 1e-20\n' >fast.txt
expect_refused 'fast.txt:4:25: expected a period of at least 1e-09 s; found `1e-20`' --graph fast.txt
expect_refused 'far.txt:1:8: SPEED: `1e300` is out of range: numbers are 0, or from 1e-24 to 1e+24' --graph far.txt
mkdir there
expect_refused 'there: cannot write: it is a folder' --graph graph.txt --tasks there
expect_refused 'missing/x.csv: cannot write: No such file or directory' --graph graph.txt --tasks missing/x.csv
expect_refused '/dev/full: cannot write: No space left on device' --graph graph.txt -o /dev/full
expect_refused '-: cannot write: it is given for two outputs' --graph graph.txt -o - --tasks -
expect_refused './graph.txt: cannot write: it is an input' --graph graph.txt -o ./graph.txt
expect_refused './both: cannot write: it is given for two outputs' --graph graph.txt -o both --tasks ./both

# If a graph cannot be read, nothing is written and existing outputs are kept.
sed 's/^flow/flwo/' graph.txt >bad.txt
expect_refused 'bad.txt:7:1: unknown statement `flwo`; did you mean `flow`?' --graph bad.txt --tasks tasks.csv -o result.json
cmp -s tasks.csv first.csv || fail 'a bad graph changed an output that was there'

# A computation that takes practically forever, because the speed of its host changes all the time.
cat >endless.txt <<'END'
host a
host b
profile a speed 0 1 0.5e-6 2 period 1e-6
compute long a 1e9
compute short b 0.001
delay last 1 after long
END
for signal in INT TERM; do
  rm -f result.json
  "$program" --graph endless.txt -o result.json --tasks tasks.csv >"$out" 2>"$err" &
  replay=$!
  # After 0.2 s of CPU time (fields 14 and 15, in ticks) the few lines have been read and the replay has
  # begun.
  while read -ra fields <"/proc/$replay/stat" && ((fields[13] + fields[14] < 20)); do sleep 0.02; done
  kill -s $signal $replay || fail "the replay has ended before SIG$signal"
  status=0
  wait $replay || status=$?
  expect_status 130 "--graph, SIG$signal"
  expect_json result.json
  expect_in result.json '"stopped": "interrupted"'
  expect_in result.json '"done": 1, "failed": 0, "blocked": 1, "cut": 1'
  expect_in "$out" 'stopped early: interrupted at '
  expect_in "$out" '1 done, 0 failed, 1 blocked, 1 cut'
  expect_in tasks.csv 'long,CUT,0,0,'
  expect_in tasks.csv 'last,BLOCKED,,,'
done
run --graph graph.txt -o result.json
expect_in result.json '"stopped": null'

finish
