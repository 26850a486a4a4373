#!/usr/bin/env python3
"""What a run writes about itself: the merged trace of all ranks is that of dtfm-sim if the ranks do what was simulated,
whatever their clocks say; dtfm-calibrate reads the table of runs.

usage: timeline.py [DTFM-PLAN DTFM-SIM DTFM-CALIBRATE]
Without the programs, what needs them is left out.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest.mock
from collections import Counter, defaultdict
from pathlib import Path

from ranks import ROOT, error_of, require_torch, train_forked, train_ranks

require_torch()

import torch

from dtfm_runtime import compute, runs, timeline
from dtfm_runtime.failure import Clock
from programs import make_program

TOPOLOGY = """\
version: 1
name: lab
gpus:
  - {name: EMU, memory: 8 GB, peak: 10 GFLOP/s, peak_fp32: 10 GFLOP/s}
devices:
  - {site: a, count: 2, gpu: EMU}
  - {site: b, count: 2, gpu: EMU}
links:
  - {within: "*", latency: 1 ms, bandwidth: 1 Gbps}
  - {between: ["*", "*"], latency: 10 ms, bandwidth: 100 Mbps}
"""
JOB = """\
version: 1
name: tiny
model: {kind: transformer, layers: 4, hidden: 64, heads: 4, sequence: 64, vocabulary: 256}
training: {global_batch: 8, micro_batch: 1, precision: fp32}
parallelism: {pipeline: 2, data: 2, schedule: SCHEDULE, gradient_sync: SYNC, OTHER}
profile: {analytic: true, efficiency: 0.5}
"""
MODEL = {"kind": "transformer", "layers": 4, "hidden": 16, "heads": 4, "sequence": 8, "vocabulary": 32}
DEVICES = ["a/0", "a/1", "b/0", "b/1"]


def write_job(schedule, sync, other="", batch=8):
    text = JOB.replace("SCHEDULE", schedule).replace("SYNC", sync).replace("batch: 8", f"batch: {batch}")
    Path("job.yaml").write_text(text.replace(", OTHER", f", {other}" if other else ""))


def slices(trace):
    """(process, row, name, begin, end) of all slices, in microseconds, and the names of processes."""
    events = json.loads(Path(trace).read_text(encoding="utf-8"))["traceEvents"]
    rows = {(it["pid"], it["tid"]): it["args"]["name"] for it in events if it["ph"] == "M" and it["name"] == "thread_name"}
    names = {it["pid"]: it["args"]["name"] for it in events if it["ph"] == "M" and it["name"] == "process_name"}
    found = [(it["pid"], rows[it["pid"], it["tid"]], it["name"], it["ts"], it["ts"] + it["dur"]) for it in events if it["ph"] == "X"]
    return found, names


def recorded(simulated, offsets):
    """The recorders of ranks that did what was simulated, each by a clock of its own."""
    kinds = {letter: kind for kind, letter in timeline.LETTERS.items()}
    keys = {"p": "pipeline", "s": "stage", "m": "micro_batch", "l": "layer", "k": "phase"}
    recorders = [timeline.Recorder(rank, True) for rank in range(len(DEVICES))]
    found = list(simulated)
    random.Random(1).shuffle(found)
    for process, row, name, begin, end in found:
        if process == 0:
            for recorder in recorders:
                recorder.iteration(int(name.split()[1]), begin / 1e6 - offsets[recorder.rank], end / 1e6 - offsets[recorder.rank])
            continue
        letter, *parts = name.split()
        numbers = {keys[part[0]]: int(part[1:]) for part in parts if part[0] in keys}
        ends = re.search(r"d(\d+)>d(\d+)", name)
        is_received = row.startswith("receive")
        if ends:
            numbers["peer"] = int(ends[1 if is_received else 2])
        offset = offsets[process - 1]
        recorders[process - 1].add(kinds[letter], begin / 1e6 - offset, end / 1e6 - offset, is_received=is_received, **numbers)
    return recorders


def merged_traces_are_those_of_the_simulator(folder, plan, sim):
    Path("net.yaml").write_text(TOPOLOGY)
    for schedule, sync, other in (("1f1b", "ring", ""), ("zb-h1", "sharded-ps", ""), ("1f1b", "ring", "optimizer_sharding: zero1"),
                                  ("interleaved", "hierarchical", "chunks: 2"), ("gpipe", "ring", "overlap: true")):
        write_job(schedule, sync, other)
        subprocess.run([plan, "net.yaml", "--job", "job.yaml", "-o", "plan.json", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sim, "net.yaml", "plan.json", "--trace", "simulated.json", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        simulated, names = slices("simulated.json")
        offsets = [0.0, 1234.5, -3.25, 1e6]
        recorders = recorded(simulated, offsets)
        texts = [recorder.text(Clock(offsets[recorder.rank], 1e-6)) for recorder in reversed(recorders)]
        timeline.merge_texts(texts, "merged.json", DEVICES, "lab")
        merged, merged_names = slices("merged.json")
        assert merged_names == names == {0: "lab", 1: "a/0", 2: "a/1", 3: "b/0", 4: "b/1"}
        assert len(merged) == len(simulated) > 100
        for mine, theirs in zip(sorted(merged, key=order), sorted(simulated, key=order)):
            # Which of several free rows a message is in depends on rounded times.
            assert (mine[0], mine[1].split()[0], mine[2]) == (theirs[0], theirs[1].split()[0], theirs[2]), (mine, theirs)
            assert abs(mine[3] - theirs[3]) < 0.01 and abs(mine[4] - theirs[4]) < 0.01, (mine, theirs)


def order(it):
    process, row, name, begin, _ = it
    return process, row.split()[0], name, round(begin)


def rows_do_not_overlap(folder):
    recorders = [timeline.Recorder(rank, True) for rank in range(2)]
    for i in range(50):
        recorders[0].add("send_activations", i, i + 2.5, pipeline=0, stage=0, micro_batch=i, peer=1)
        recorders[1].add("send_activations", i, i + 2.5, pipeline=0, stage=0, micro_batch=i, peer=0, is_received=True)
    timeline.merge_texts([it.text() for it in reversed(recorders)], "rows.json")
    found, names = slices("rows.json")
    assert names == {0: "training", 1: "rank 0", 2: "rank 1"}
    assert {(process, row) for process, row, *_ in found} == {(1, "send"), (1, "send 2"), (1, "send 3"), (2, "receive"), (2, "receive 2"),
                                                              (2, "receive 3")}
    for row in {it[:2] for it in found}:
        times = sorted(it[3:] for it in found if it[:2] == row)
        assert all(before[1] <= after[0] for before, after in zip(times, times[1:]))


def messages_have_the_times_of_both_ends(folder):
    """Sent at 1 s, taken over by the network at 1.5 s, received at 3 s by a rank that has waited since 0.25 s; its clock is
    10 s ahead. The second message of that name is that of the next iteration; the third one's end is not recorded."""
    recorders = [timeline.Recorder(rank, True) for rank in range(2)]
    for recorder in recorders:
        recorder.iteration(0, 10.0 * recorder.rank, 10.0 * recorder.rank + 20)
    for start in (1, 6):
        recorders[0].add("gradient_sync", start, start + 0.5, layer=2, phase=0, peer=1)
        recorders[1].add("gradient_sync", start + 9.25, start + 12, is_received=True, layer=2, phase=0, peer=0)
    recorders[1].add("gradient_sync", 22, 23, layer=2, phase=0, peer=0)
    timeline.merge_texts([recorders[0].text(), recorders[1].text(Clock(-10.0, 0.0))], "ends.json")
    found, _ = slices("ends.json")
    messages = sorted((process, row, name, begin / 1e6, end / 1e6) for process, row, name, begin, end in found if process > 0)
    assert messages == [(1, "send", "X l2 k0 d0>d1", 1, 3), (1, "send", "X l2 k0 d0>d1", 6, 8), (2, "receive", "X l2 k0 d0>d1", 1, 3),
                        (2, "receive", "X l2 k0 d0>d1", 6, 8), (2, "send", "X l2 k0 d1>d0", 12, 13)], messages


def iterations(trace):
    """(process, name, begin in seconds, iteration) of all slices of ranks; iteration None: it has none."""
    return [(it["pid"], it["name"], it["ts"] / 1e6, it.get("args", {}).get("iteration"))
            for it in json.loads(Path(trace).read_text(encoding="utf-8"))["traceEvents"] if it["ph"] == "X" and it["pid"] > 0]


def activities_have_the_number_of_their_iteration(folder):
    """Rank 0 starts its iterations at 1 s and 11 s, rank 1 at 3 s and 13 s. What a rank does between two iterations belongs to
    the one before. A message belongs to the sender's iteration, even if its receiver has waited since the one before."""
    recorders = [timeline.Recorder(rank, True) for rank in range(2)]
    for recorder, start in zip(recorders, (1, 3)):
        recorder.iteration(7, start, start + 9)
        recorder.iteration(8, start + 10, start + 19)
    for start in (0, 2, 10.5, 11, 30):
        recorders[0].add("update", start, start + 0.25)
    recorders[0].add("gradient_sync", 12, 12.5, layer=0, phase=0, peer=1)
    recorders[1].add("gradient_sync", 11.5, 14, is_received=True, layer=0, phase=0, peer=0)
    recorders[1].add("gradient_sync", 12.75, 14, is_received=True, layer=1, phase=0, peer=0)  # its other end is not recorded
    assert timeline.merge_texts([it.text() for it in recorders], "numbers.json") == 0
    assert sorted(iterations("numbers.json")) == [
        (1, "X l0 k0 d0>d1", 12, 8), (1, "update d0", 0, None), (1, "update d0", 2, 7), (1, "update d0", 10.5, 7), (1, "update d0", 11, 8),
        (1, "update d0", 30, 8), (2, "X l0 k0 d0>d1", 12, 8), (2, "X l1 k0 d0>d1", 12.75, 7)], sorted(iterations("numbers.json"))
    assert all("args" not in it for it in json.loads(Path("numbers.json").read_text())["traceEvents"] if it["ph"] == "X" and it["pid"] == 0)


def incomplete_iterations_are_left_out(folder):
    """Rank 0 has room for 7 events. Of iteration 3 it records one; messages of iteration 2 could be among those that it dropped."""
    recorders = [timeline.Recorder(rank, True) for rank in range(2)]
    limit = timeline.MAX_EVENTS
    try:
        for recorder, timeline.MAX_EVENTS in zip(recorders, (7, limit)):
            for number in range(5):
                recorder.add("update", 10 * number + 1, 10 * number + 2)
                recorder.iteration(number, 10 * number, 10 * number + 9)
    finally:
        timeline.MAX_EVENTS = limit
    assert timeline.merge_texts([it.text() for it in recorders], "dropped.json") == 3
    expected = [(rank + 1, f"update d{rank}", 10 * number + 1, number) for rank in range(2) for number in range(2)]
    assert sorted(iterations("dropped.json")) == expected
    found, _ = slices("dropped.json")
    assert [name for process, _, name, *_ in found if process == 0] == ["iteration 0", "iteration 1"]
    timeline.MAX_EVENTS = 0
    nothing = timeline.Recorder(0, True)
    nothing.iteration(0, 0, 9)
    timeline.MAX_EVENTS = limit
    assert timeline.merge_texts([nothing.text(), recorders[1].text()], "dropped.json") == 1 and slices("dropped.json")[0] == []


def dropped_events_are_reported(folder):
    Path("program.json").write_text(json.dumps(make_program(MODEL, [(1, [(0, 2), (2, 4)])])))
    limit, timeline.MAX_EVENTS = timeline.MAX_EVENTS, 3  # the process of train_forked has it, too
    code, output, errors = train_forked("--program", "program.json", "--single", "--steps", 5, "--trace", "trace.json", "--device", "cpu")
    timeline.MAX_EVENTS = limit
    assert code == 0, errors
    assert "trace.json is incomplete: a rank exceeded 3 events and dropped later ones (2 in all), so the last iterations are left out: trace fewer --steps\n" in output, output
    assert [name for _, _, name, *_ in slices("trace.json")[0]] == ["iteration 0", "iteration 1"]


def spans_are_recorded(folder):
    off = timeline.Recorder(0, False)
    with off.span("forward", pipeline=0, stage=0, micro_batch=1):
        off.add("update", 0, 1)
    off.iteration(0, 0, 1)
    assert len(off.text().splitlines()) == 1
    recorder = timeline.Recorder(3, True)
    before = time.monotonic()
    with recorder.span("backward", pipeline=1, stage=2, micro_batch=0):
        pass
    with recorder.span("gradient_sync", layer=4, peer=5, phase=0):
        pass
    with recorder.span("update"):
        pass
    header, *events = map(json.loads, recorder.text(Clock(2.0, float("inf"))).splitlines())
    assert header == {"schema": timeline.SCHEMA, "rank": 3, "offset_s": 2.0, "error_s": None, "dropped": 0}
    assert [timeline.label(event, 3) for event in events] == ["B p1 s2 m0", "X l4 k0 d3>d5", "update d3"]
    assert all(before <= event["start_s"] <= event["end_s"] <= time.monotonic() for event in events)


def recording_is_bounded_and_safe_between_threads(folder):
    recorder = timeline.Recorder(0, True)
    threads = [threading.Thread(target=lambda: [recorder.add("update", i, i + 1) for i in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorder.text().splitlines()) == 8001
    limit, timeline.MAX_EVENTS = timeline.MAX_EVENTS, 8010
    for i in range(20):
        recorder.add("update", i, i + 1)
    timeline.MAX_EVENTS = limit
    assert json.loads(recorder.text().splitlines()[0])["dropped"] == 10


def damaged_timelines_are_explained(folder):
    for text in ("", "{}", "[]", "x", '{"schema": "dtfm-timeline/1", "rank": 0, "offset_s": 0}\n{"kind": "update"}\n', "[" * 100_000):
        assert "a timeline of a rank is damaged" in error_of(timeline.merge_texts, [text], "out.json")
    assert "missing/out.json: cannot be written" in error_of(timeline.merge_texts, [timeline.Recorder(0, True).text()], "missing/out.json")


def late_sleeps_do_not_add_up(folder):
    class Time:
        """Every sleep ends 3 ms late."""
        now = 0.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            assert seconds >= 0
            self.now += seconds + 0.003

    with unittest.mock.patch.object(compute, "time", Time()) as clock:
        sleeper = compute.Sleeper()
        for seconds in (0.01, 0.001, 0.02, 0.01):  # the second one is over before it begins
            sleeper.sleep(seconds)
        assert abs(clock.now - 0.044) < 1e-9, clock.now


def logs_are_read(folder):
    log = timeline.IterationLog("log.jsonl")
    for i in range(5):
        log.write(iteration=i, loss=4.0 - i, seconds=[9.0, 1.0, 1.2, 1.1, 1.3][i], tokens=1000, peak_memory_bytes=10**9 + i)
    first = json.loads(Path("log.jsonl").read_text().splitlines()[0])  # before it is closed
    assert first == {"iteration": 0, "loss": 4.0, "seconds": 9.0, "tokens_per_s": 1000 / 9, "peak_memory_bytes": 10**9}
    with open("log.jsonl", "a", encoding="utf-8") as file:
        file.write('{"iteration": 5, "sec')  # a killed run
    rows = runs.read_log("log.jsonl")
    assert len(rows) == 5 and runs.durations(rows, 1, False) == [1.15] and runs.durations(rows, 1, True) == [1.0, 1.2, 1.1, 1.3]
    assert "the log has 5 iterations, of which 5 are skipped" in error_of(runs.durations, rows, 5, False)
    for text in ("{}\n", "[]\n", "x\n", '{"seconds": "1"}\n', '{"seconds": -1}\n', '{"seconds": NaN}\n', "[" * 100_000 + "\n"):
        Path("bad.jsonl").write_text(text)
        assert error_of(runs.read_log, "bad.jsonl").startswith("bad.jsonl:1: not an iteration")
    assert "cannot be read: No such file" in error_of(runs.read_log, "missing.jsonl")
    assert timeline.peak_memory_bytes(torch.device("cpu")) > 10 << 20


def tables_grow(folder):
    Path("p").mkdir()
    Path("p/plan.json").write_text('{"pipelines": []}')
    runs.append("table.csv", plan="p/plan.json", seconds=[1.5, 1.25], peak_memory_bytes=2 << 30, name="first")
    runs.append("table.csv", plan=Path("p/plan.json").resolve(), seconds=[2.0])
    assert Path("table.csv").read_text() == ("name,plan,seconds,peak_memory_bytes\nfirst,p/plan.json,1.5,2147483648\n"
                                             "first,p/plan.json,1.25,\n,p/plan.json,2.0,\n")
    Path("plan.json").write_text('{"pipelines": []}')
    assert "is not in the folder of the table" in error_of(runs.append, "p/table.csv", plan="plan.json", seconds=[1.0])
    for text in ("", "3", "{}", "x", "[" * 100_000):
        Path("other.json").write_text(text)
        assert "other.json is not a plan" in error_of(runs.append, "table.csv", plan="other.json", seconds=[1.0])
    assert "missing.json: cannot be read" in error_of(runs.append, "table.csv", plan="missing.json", seconds=[1.0])
    assert "must not have commas" in error_of(runs.append, "table.csv", plan="p/plan.json", seconds=[1.0], name="a,b")
    assert "more than 200 rows" in error_of(runs.append, "table.csv", plan="p/plan.json", seconds=[1.0] * 198)
    Path("other.csv").write_text("plan,seconds\n")
    assert "does not have the columns" in error_of(runs.append, "other.csv", plan="p/plan.json", seconds=[1.0])
    assert "cannot be written" in error_of(runs.append, "p", plan="p/plan.json", seconds=[1.0])


def tables_are_calibrated_with(folder, plan, calibrate):
    """The command adds rows that dtfm-calibrate reads; iterations that take a fixed time longer are explained by it."""
    Path("net.yaml").write_text(TOPOLOGY)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    for batch in (8, 16, 24, 32, 64):
        write_job("1f1b", "ring", batch=batch)
        done = subprocess.run([plan, "net.yaml", "--job", "job.yaml", "-o", f"plan-{batch}.json", "--format", "json", "--quiet"], check=True,
                              capture_output=True, text=True)
        predicted = json.loads(done.stdout)["finalists"][0]["simulated"]["nominal"]["mean_s"]
        log = timeline.IterationLog("run.jsonl")
        for i in range(4):
            log.write(iteration=i, loss=1.0, seconds=predicted + 0.5 + 9 * (i == 0), tokens=1, peak_memory_bytes=10**9)
        log.close()
        subprocess.run([sys.executable, "-m", "dtfm_runtime.runs", "run.jsonl", "--plan", f"plan-{batch}.json", "-o", "runs.csv", "--name",
                        f"batch {batch}"], check=True, env=environment)
    done = subprocess.run([calibrate, "net.yaml", "runs.csv", "-o", "calibration.json"], capture_output=True, text=True)
    assert done.returncode == 0 and "lab: 5 measured iterations" in done.stdout, (done.stdout, done.stderr)
    overhead = json.loads(Path("calibration.json").read_text())["iteration_overhead"]
    assert overhead.endswith(" s") and 0.49 < float(overhead[:-2]) < 0.51, overhead
    missing = subprocess.run([sys.executable, "-m", "dtfm_runtime.runs", "no.jsonl", "--plan", "plan-8.json"], capture_output=True, text=True,
                             env=environment)
    assert (missing.returncode, missing.stderr) == (2, "runs: no.jsonl: cannot be read: No such file or directory\n")


def training_is_recorded(folder):
    """Four ranks write one trace with the names of the simulator, in an order that their messages allow, and a log that
    becomes a row of the table."""
    document = make_program(MODEL, [(2, [(0, 2), (2, 4)]), (1, [(0, 1), (1, 4)])], gradient_sync="ring")
    Path("program.json").write_text(json.dumps(document))
    Path("plan.json").write_text('{"pipelines": []}')
    results = train_ranks(4, "--program", "program.json", "--steps", 3, "--trace", "trace.json", "--log", "log.jsonl", "--device", "cpu")
    assert [code for code, _, _ in results] == [0] * 4, results
    found, names = slices("trace.json")
    assert names == {0: "test", 1: "here:0", 2: "here:1", 3: "here:2", 4: "here:3"}
    check_names(found)
    check_causality(found)
    check_iterations(iterations("trace.json"))
    log = runs.read_log("log.jsonl")
    assert [row["iteration"] for row in log] == [0, 1, 2] and all(row["peak_memory_bytes"] > 10 << 20 for row in log)
    assert all(row["loss"] > 0 and abs(row["tokens_per_s"] * row["seconds"] - 3 * 8) < 1e-6 for row in log)
    runs.append("runs.csv", plan="plan.json", seconds=runs.durations(log, 1, True))
    assert len(Path("runs.csv").read_text().splitlines()) == 3


def check_names(found):
    """Every activity of every iteration, on both ends of messages."""
    expected = {}
    for pipeline, count in ((0, 2), (1, 1)):
        for micro_batch in range(count):
            sender, receiver = 2 * pipeline + 1, 2 * pipeline + 2
            suffix = f"m{micro_batch}"
            for stage in (0, 1):
                for kind in "FB":
                    expected[2 * pipeline + 1 + stage, "compute", f"{kind} p{pipeline} s{stage} {suffix}"] = 3
            expected[sender, "send", f"SA p{pipeline} s0 {suffix}"] = expected[receiver, "receive", f"SA p{pipeline} s0 {suffix}"] = 3
            expected[receiver, "send", f"SG p{pipeline} s1 {suffix}"] = expected[sender, "receive", f"SG p{pipeline} s1 {suffix}"] = 3
    counts = Counter((process, row.split()[0], name) for process, row, name, *_ in found)
    assert {key: counts[key] for key in expected} == expected, counts
    others = {name for process, row, name, *_ in found if (process, row.split()[0], name) not in expected}
    patterns = r"iteration [012]|update d[0-3]|X l\d k\d d[0-3]>d[0-3]"
    assert all(re.fullmatch(patterns, name) for name in others), others
    syncs = [(process, row.split()[0], name) for process, row, name, *_ in found if name.startswith("X ")]
    own_rank = [int(name[-4 if row == "send" else -1]) for _, row, name in syncs]
    assert all(process == rank + 1 for (process, _, _), rank in zip(syncs, own_rank))
    assert {(row, rank) for (_, row, _), rank in zip(syncs, own_rank)} == {(row, rank) for row in ("send", "receive") for rank in range(4)}


def check_iterations(found):
    """Every activity is in each iteration equally often, and in none otherwise."""
    counts = defaultdict(Counter)
    for process, name, _, iteration in found:
        counts[process, name][iteration] += 1
    for key, of_iteration in counts.items():
        assert of_iteration.keys() == {0, 1, 2} and len(set(of_iteration.values())) == 1, (key, of_iteration)


def check_causality(found):
    """What a rank receives, it computes with afterwards; a message arrives after it was sent. The clocks of this machine
    are one, so differences are what the alignment adds."""
    slack = 2000  # microseconds
    starts, ends = defaultdict(list), defaultdict(list)
    for _, row, name, start, end in sorted(found, key=lambda it: it[3]):
        starts[row.split()[0], name].append(start)
        ends[row.split()[0], name].append(end)
    for pipeline, count in ((0, 2), (1, 1)):
        for m in range(count):
            for i in range(3):
                steps = [ends["compute", f"F p{pipeline} s0 m{m}"][i], ends["receive", f"SA p{pipeline} s0 m{m}"][i],
                         starts["compute", f"F p{pipeline} s1 m{m}"][i], ends["compute", f"B p{pipeline} s1 m{m}"][i],
                         ends["receive", f"SG p{pipeline} s1 m{m}"][i], starts["compute", f"B p{pipeline} s0 m{m}"][i]]
                assert all(before <= after + slack for before, after in zip(steps, steps[1:])), (pipeline, m, i, steps)


def main(programs):
    plan, sim, calibrate = (str(Path(it).resolve()) for it in programs) if programs else (None, None, None)
    tests = [(rows_do_not_overlap,), (messages_have_the_times_of_both_ends,),
             (activities_have_the_number_of_their_iteration,), (incomplete_iterations_are_left_out,), (dropped_events_are_reported,),
             (spans_are_recorded,),
             (recording_is_bounded_and_safe_between_threads,), (damaged_timelines_are_explained,), (late_sleeps_do_not_add_up,), (logs_are_read,), (tables_grow,),
             (training_is_recorded,)]
    if plan:
        tests += [(merged_traces_are_those_of_the_simulator, plan, sim), (tables_are_calibrated_with, plan, calibrate)]
    for test, *arguments in tests:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            test(scratch, *arguments)
            os.chdir(ROOT)
        print(f"{test.__name__.replace('_', ' ')}: {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
