#!/usr/bin/env python3
"""dtfm-sim TOPOLOGY PLAN: printed and written results, exit codes, rejected input.

usage: simulate.py DTFM-PLAN DTFM-SIM
"""
import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

TOPOLOGY = """\
version: 1
name: three-sites
gpus: [{name: card, memory: 16 GB, peak: 10 TFLOP/s, memory_bandwidth: 500 GB/s}]
devices:
  - {site: oregon, count: 2, gpu: card}
  - {site: ohio, count: 2, gpu: card}
  - {site: tokyo, count: 2, gpu: card}
links:
  - {within: "*", latency: 5 ms, bandwidth: 2 Gbps}
  - {between: ["*", "*"], latency: 50 ms, bandwidth: 0.5 Gbps}
"""
JOB = """\
version: 1
name: small
model: {kind: transformer, layers: 12, hidden: 512, heads: 8, sequence: 512, vocabulary: 1000}
training: {global_batch: 24}
parallelism: {pipeline: 3}
profile: {analytic: true, efficiency: 0.327}
"""
JITTER = """\
version: 1
name: jitter
seed: 3
compute_jitter: {kind: lognormal, cv: 0.2}
"""
CONTRACT_KEYS = {"schema", "iterations", "iteration_time_s", "tokens_per_s", "model_flops_per_s", "devices", "links",
                 "events", "lost_work_s", "critical_path", "simulator"}
DEVICE_KEYS = {"device", "compute_s", "waiting_s", "sending_s", "down_s", "peak_memory_bytes"}
# This search uses every device: the small plan has two pipelines of three stages.
BY_COST = ("--objective", "comm-cost")
PLAN, SIM = (Path(name).resolve() for name in sys.argv[1:3])
failures = []


def check(holds, *what):
    if not holds:
        failures.append(" ".join(str(part) for part in what))


def run(*arguments, status=0, program=SIM):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=240, check=False)
    check(done.returncode == status, f"{arguments}: exit {done.returncode} instead of {status}: {done.stderr}")
    return done


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def small(*more):
    return ("net.yaml", "plan.json", *more)


def prepare():
    for name, text in (("net.yaml", TOPOLOGY), ("job.yaml", JOB), ("jitter.yaml", JITTER)):
        Path(name).write_text(text, encoding="utf-8")
    run("net.yaml", "--job", "job.yaml", "-o", "plan.json", *BY_COST, program=PLAN)


def test_help():
    text = run("--help").stdout
    for word in ("TOPOLOGY", "PLAN", "--job", "--scenario", "--iterations", "--seed", "--samples", "--threads", "--output",
                 "--trace", "--tasks", "--report", "--format", "--stats", "--quiet", "--graph", "Examples", "Exit codes"):
        check(word in text, "--help lacks", word)


def test_summary():
    done = run(*small())
    check(done.stderr == "", "a short run says", done.stderr)
    for words in ("three-sites: 6 devices in 3 sites, job small", "2 pipelines of 3 stages, gpipe, sharded-ps; 3 iterations",
                  "tokens/s", "of the peak, 60 TFLOP/s", "bubble", "where the time goes", "ohio/1", "Critical path",
                  "busiest links", "the first "):
        check(words in done.stdout, "the summary lacks", words, "in", done.stdout)
    check(all(line == line.rstrip() and not line.endswith("…") for line in done.stdout.splitlines()), "untidy lines", done.stdout)


def test_result():
    done = run(*small("-o", "result.json", "--format", "json", "--quiet"))
    check(done.stdout == Path("result.json").read_text(encoding="utf-8"), "--format json is not what -o writes")
    result = json.loads(done.stdout)
    check(CONTRACT_KEYS <= result.keys(), "result lacks", CONTRACT_KEYS - result.keys())
    check(result["schema"] == "dtfm-sim/1" and len(result["iterations"]) == 3, result["schema"], result["iterations"])
    length = result["iterations"][-1]["end_s"]
    times = [it["duration_s"] for it in result["iterations"][1:]]
    check(close(result["iteration_time_s"]["mean"], sum(times) / 2), "mean of", times)
    # 24 sequences of 512 tokens per iteration.
    check(close(result["tokens_per_s"], 24 * 512 / result["iteration_time_s"]["mean"]), "tokens/s", result["tokens_per_s"])
    for device in result["devices"]:
        check(DEVICE_KEYS <= device.keys(), "device lacks", DEVICE_KEYS - device.keys())
        check(close(device["compute_s"] + device["waiting_s"] + device["down_s"], length), "times of", device)
        check(close(device["waiting_s"], device["waiting_network_s"] + device["waiting_others_s"]), "waiting of", device)
        check(0 < device["compute_s"] < length and 0 < device["peak_memory_bytes"] < 16e9, device)
    expected = [f"{site}/{number}" for site in ("oregon", "ohio", "tokyo") for number in range(2)]
    check([it["device"] for it in result["devices"]] == expected, "devices are not in their order")
    path = result["critical_path"]
    check(close(path[-1]["end_s"], length) and close(path[0]["start_s"], result["iterations"][-1]["start_s"]),
          "the critical path does not reach from the begin to the end of the last iteration")
    check(all(a["end_s"] == b["start_s"] for a, b in zip(path, path[1:])), "the critical path has gaps")
    one = json.loads(run(*small("--iterations", 1, "--format", "json")).stdout)
    check(len(one["iterations"]) == 1 and close(one["iteration_time_s"]["mean"], one["iterations"][0]["duration_s"]), "one")


def test_horizon():
    """The last iteration is aborted: shares refer to the run rather than to its complete iterations."""
    length = json.loads(run(*small("--iterations", 1, "--format", "json")).stdout)["iterations"][0]["end_s"]
    Path("horizon.yaml").write_text(f"version: 1\nname: horizon\nhorizon: {1.9 * length:.9f} s\n", encoding="utf-8")
    done = run(*small("--scenario", "horizon.yaml", "-o", "horizon.json"))
    result = json.loads(Path("horizon.json").read_text(encoding="utf-8"))
    check(len(result["iterations"]) == 1 and abs(result["length_s"] - 1.9 * length) < 1e-8, "length", result["length_s"])
    check(f"1 iteration in {result['length_s']:.6g} s" in done.stdout, "the summary has another length", done.stdout)
    busiest = result["links"][0]
    row = next(line for line in done.stdout.splitlines() if f"{busiest['from']} → {busiest['to']}" in line)
    check(f"{100 * busiest['busy_s'] / result['length_s']:.1f} %" in row, "busy share in", row)
    for device in result["devices"]:
        check(close(device["compute_s"] + device["waiting_s"] + device["down_s"], result["length_s"]), "times of", device)


def test_job_replaces():
    Path("batch.yaml").write_text(JOB.replace("small", "half").replace("hidden: 512", "hidden: 1024"), encoding="utf-8")
    other = json.loads(run(*small("--job", "batch.yaml", "--format", "json")).stdout)
    own = json.loads(run(*small("--format", "json")).stdout)
    check(other["job"] == "half" and own["job"] == "small", "--job does not replace the job of the plan")
    check(other["iteration_time_s"]["mean"] > own["iteration_time_s"]["mean"], "twice as wide is not slower")


def test_batch():
    """--batch changes the job's global batch, which the micro-batches of a plan must add up to."""
    own = run(*small("--format", "json")).stdout
    check(run(*small("--batch", 24, "--format", "json")).stdout == own, "the batch of the plan changes the result")
    refused("--batch: 48 needs 48 micro-batches of 1, but the pipelines of plan.json compute 24; plan with --batch 48, "
            "or remove micro_batches from the plan", *small("--batch", 48))
    plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    for pipeline in plan["pipelines"]:
        del pipeline["micro_batches"]
    Path("open.json").write_text(json.dumps(plan), encoding="utf-8")
    Path("double.yaml").write_text(JOB.replace("global_batch: 24", "global_batch: 48"), encoding="utf-8")
    by_job = run("net.yaml", "open.json", "--job", "double.yaml", "--format", "json").stdout
    check(run("net.yaml", "open.json", "--batch", 48, "--format", "json").stdout == by_job, "--batch differs from the job's batch")
    result = json.loads(by_job)
    check(result["notes"] == [] and close(result["tokens_per_s"], 48 * 512 / result["iteration_time_s"]["mean"]), result)
    by_job = run("net.yaml", "--scheme", "megatron", "--job", "double.yaml", "--format", "json").stdout
    by_option = run("net.yaml", "--scheme", "megatron", "--job", "job.yaml", "--batch", 48, "--format", "json").stdout
    check(by_option == by_job, "--batch of a scheme differs from the job's batch")
    for text in ("0", "2x", "1000000001"):
        refused(f"--batch: expected a whole number from 1 to 1000000000; found `{text}`", *small("--batch", text))
    Path("pairs.yaml").write_text(JOB.replace("global_batch: 24", "global_batch: 24, micro_batch: 2"), encoding="utf-8")
    refused("--batch: 25 is not a multiple of the micro-batch, 2", *small("--job", "pairs.yaml", "--batch", 25))
    refused("--batch: cannot be combined with --graph", "--graph", "net.yaml", "--batch", 24)


def test_trace_and_tasks():
    run(*small("--trace", "trace.json", "--tasks", "tasks.csv", "-o", "result.json"))
    result = json.loads(Path("result.json").read_text(encoding="utf-8"))
    events = json.loads(Path("trace.json").read_text(encoding="utf-8"))["traceEvents"]
    check({event["ph"] for event in events} == {"M", "X", "C"}, "kinds of events")
    timed = [event for event in events if event["ph"] != "M"]
    check(all(a["ts"] <= b["ts"] for a, b in zip(timed, timed[1:])), "the trace is not in order of time")
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    computed, until = defaultdict(float), defaultdict(float)
    for event in timed:
        if event["ph"] != "X":
            continue
        check(event["dur"] >= 0, "negative duration", event)
        row = (event["pid"], event["tid"])
        check(row in rows, "a row without a name", event)
        check(event["ts"] >= until[row] - 1e-3, "slices of one row overlap", event)
        until[row] = event["ts"] + event["dur"]
        if rows[row] == "compute":
            computed[names[event["pid"]]] += event["dur"] / 1e6
    for device in result["devices"]:
        # A slice is rounded to a nanosecond at both ends.
        check(abs(computed[device["device"]] - device["compute_s"]) < 1e-6, "computing of", device["device"])
    kinds = defaultdict(list)
    for (process, _), name in rows.items():
        kinds[process].append(name)
    for process, name in names.items():
        if process > 0:
            check({"compute"} < set(kinds[process]), name, "has rows", kinds[process])
            check(len(kinds[process]) == len(set(kinds[process])), "a row twice", kinds[process])
    counters = {event["name"] for event in timed if event["ph"] == "C"}
    check("memory" in counters and any("→" in name for name in counters), "counters", counters)
    with open("tasks.csv", encoding="utf-8", newline="") as file:
        tasks = list(csv.DictReader(file))
    check(tasks[0].keys() == {"id", "state", "ready", "start", "finish"}, tasks[0])
    check(len(tasks) == result["simulator"]["tasks"], len(tasks), "tasks instead of", result["simulator"]["tasks"])
    check(len({task["id"] for task in tasks}) == len(tasks), "ids come twice")
    check(all(task["state"] == "DONE" for task in tasks), "tasks that were not done")
    check(close(max(float(task["finish"]) for task in tasks), result["iterations"][-1]["end_s"]), "the end of the tasks")
    printed = run(*small("--tasks", "-")).stdout
    check(printed == Path("tasks.csv").read_text(encoding="utf-8"), "--tasks - prints something else")


def test_measured():
    """The timeline of the same simulation is the simulated one. Where iterations overlap, it has the same activities, but
    of another iteration, which devices begin in another order."""
    Path("free.yaml").write_text(JOB.replace("pipeline: 3", "pipeline: 3, iteration_barrier: false"), encoding="utf-8")
    run("net.yaml", "--job", "free.yaml", "-o", "free.json", *BY_COST, program=PLAN)
    for plan in ("free.json", "plan.json"):
        run("net.yaml", plan, "--trace", "measured.json")
        measured = ("net.yaml", plan, "--measured", "measured.json")
        done = run(*measured, "--report", "measured.html")
        check(re.search(r"Measured: iteration [0-9]+ takes [0-9.]+ s, 0.0 % (less|longer) than the simulated one", done.stdout), done.stdout)
        check(plan == "free.json" or "no computation starts more than 5 % of the iteration earlier or later" in done.stdout, done.stdout)
        check('"measured_timeline":' in Path("measured.html").read_text(encoding="utf-8"), "the page has no measured timeline")
        found = json.loads(run(*measured, "--format", "json").stdout)["measured"]
        # Traces are exact to the nanosecond.
        close_to_ns = lambda it: math.isclose(it["measured_s"], it["simulated_s"], rel_tol=1e-6, abs_tol=2e-9)
        check(plan == "free.json" or found["diverges_at"] is None, found)
        check(found["unmatched"] == 0 and close_to_ns(found), found)
        check({it["kind"] for it in found["kinds"]} >= {"forward", "backward"}, found["kinds"])
        check(all(it["count"] > 0 and close_to_ns(it) for it in found["kinds"]), found["kinds"])
    refused("no.json: cannot be opened: No such file or directory", *small("--measured", "no.json"))
    refused("--measured: cannot be combined with --samples", *small("--samples", 2, "--measured", "measured.json"))
    other = Path("measured.json").read_text(encoding="utf-8").replace(' m', ' m9')
    Path("other.json").write_text(re.sub(r'"(X|update|G) ', '"? ', other), encoding="utf-8")
    refused("other.json: no activity of the measured iteration is in the simulated one: give the timeline of a training with this plan",
            *small("--measured", "other.json"))
    Path("other.json").write_text('{"traceEvents": []}', encoding="utf-8")
    refused("other.json: has no iterations; expected a file written by train.py --trace", *small("--measured", "other.json"))


def test_threads_and_seeds():
    outputs = {}
    for threads in (1, 2, 3, 8):
        name = f"samples-{threads}.json"
        done = run(*small("--scenario", "jitter.yaml", "--samples", 6, "--threads", threads, "-o", name))
        outputs[threads] = (done.stdout, Path(name).read_text(encoding="utf-8"))
    check(len(set(outputs.values())) == 1, "other bytes for other threads")
    samples = json.loads(outputs[1][1])["samples"]
    check(samples["runs"] == 6 and len(set(samples["mean_iteration_time_s"])) == 6, "samples", samples)
    check({"mean", "p50", "p95", "p99", "min", "max"} == samples["iteration_time_s"].keys(), samples)
    check("samples" in outputs[1][0] and "6 runs" in outputs[1][0], "the summary does not tell of samples")
    by_seed = [run(*small("--scenario", "jitter.yaml", "--seed", seed, "--format", "json", "--trace", f"{i}.json",
                          "--tasks", f"{i}.csv")).stdout for i, seed in enumerate((1, 1, 2))]
    check(by_seed[0] == by_seed[1] and by_seed[0] != by_seed[2], "the seed decides nothing, or not all")
    for kind in ("json", "csv"):
        check(Path(f"0.{kind}").read_bytes() == Path(f"1.{kind}").read_bytes(), "another", kind, "for the same seed")
        check(Path(f"0.{kind}").read_bytes() != Path(f"2.{kind}").read_bytes(), "the same", kind, "for another seed")


def test_stats_and_quiet():
    done = run(*small("--stats", "--quiet"))
    stats = json.loads(done.stderr)
    check(stats.keys() == {"tasks", "flows", "events", "read_cpu_s", "run_cpu_s", "peak_rss_bytes"}, done.stderr)
    check(stats["tasks"] > stats["flows"] > 0 and done.stderr.count("\n") == 1, done.stderr)
    # Jitter changes times but not the number of tasks: five runs have five times as many.
    five = json.loads(run(*small("--stats", "--quiet", "--samples", 5, "--scenario", "jitter.yaml")).stderr)
    check([five[key] for key in ("tasks", "flows")] == [5 * stats[key] for key in ("tasks", "flows")], stats, five)


def test_memory():
    Path("tight.yaml").write_text(TOPOLOGY.replace("16 GB", "0.1 GB"), encoding="utf-8")
    run("tight.yaml", "--job", "job.yaml", "-o", "tight.json", *BY_COST, program=PLAN)
    done = run("tight.yaml", "tight.json", "-o", "over.json", status=3)
    check(re.search(r"exceeds memory: oregon/0 needs .* and has 100 MB", done.stdout), "the summary names no device", done.stdout)
    result = json.loads(Path("over.json").read_text(encoding="utf-8"))
    check("oregon/0" in result["out_of_memory"], result["out_of_memory"])


def test_device_failures():
    away = "events: [{at: 4 s, device: oregon/0, leave: true}, {at: 60 s, device: oregon/0, join: true}]\n"
    for policy in ("restart", "drop-pipeline", "redundant", "replan"):
        Path("away.yaml").write_text(f"version: 1\n{away}recovery: {{policy: {policy}, detection: 1 s, checkpoint: "
                                     "{period: 10 s, bandwidth: 1 Gbps}}\n", encoding="utf-8")
        more = ("--scenario", "away.yaml", "--iterations", "20")
        done = run(*small(*more, "-o", "away.json", "--trace", "away-trace.json", "--tasks", "away.csv"))
        check(re.search(r"^useful +[0-9.]+ samples/s +[0-9.]+ % of the ideal: the undisturbed plan", done.stdout, re.M), policy, done.stdout)
        text = Path("away.json").read_text(encoding="utf-8")
        result = json.loads(text)
        useful = result["useful_work"]
        check(close(useful["samples"], 24 * 20) and close(useful["samples_per_s"], 480 / result["length_s"]), policy, useful)
        check(useful["usd"] is None, "a card without a price costs", useful["usd"])
        json.loads(Path("away-trace.json").read_text(encoding="utf-8"))
        ids = [row["id"] for row in csv.DictReader(Path("away.csv").open(encoding="utf-8"))]
        check(len(set(ids)) == len(ids), policy, "two tasks of one name")
        check(run(*small(*more, "-o", "-")).stdout == text, policy, "another run, other bytes")
    events = [event["text"] for event in result["events"]]
    check(any(text.startswith("a new plan: ") for text in events), events)


def test_checkpoint_period():
    """`period: auto` is the plan's period, or Young and Daly's for a plan without one."""
    # Every site fails, so that no plan avoids all failures.
    fails = ", ".join(f"{{at: {60 * i + 20 * s + 7} s, site: {site}, leave: true}}, {{at: {60 * i + 20 * s + 9} s, site: {site}, join: true}}"
                      for i in range(10) for s, site in enumerate(("oregon", "ohio", "tokyo")))
    Path("often.yaml").write_text(f"version: 1\nhorizon: 10 min\nevents: [{fails}]\nrecovery: {{policy: restart, checkpoint: "
                                  "{period: auto, bandwidth: 1 Gbps}}\n", encoding="utf-8")
    often = ("--scenario", "often.yaml")
    done = run("net.yaml", "--job", "job.yaml", *often, "--evaluations", 500, "-o", "often.json", "--quiet", program=PLAN)
    check(re.search(r"^checkpoint period [0-9.]+ (s|min), chosen by simulation$", done.stdout, re.M), done.stdout)
    plan = json.loads(Path("often.json").read_text(encoding="utf-8"))
    period = plan["recovery"]["checkpoint_period_s"]
    done = run("net.yaml", "often.json", *often, "-o", "run.json")
    check(re.search(r"checkpoint period [0-9.]+ (s|min), from the plan file", done.stdout), done.stdout)
    Path("same.yaml").write_text(Path("often.yaml").read_text(encoding="utf-8").replace("auto", f"{period} s"), encoding="utf-8")
    run("net.yaml", "often.json", "--scenario", "same.yaml", "-o", "same.json")
    one, other = (json.loads(Path(name).read_text(encoding="utf-8")) for name in ("run.json", "same.json"))
    check(one["useful_work"] == other["useful_work"] and one["useful_work"]["checkpoints"] > 0, one["useful_work"], other["useful_work"])
    done = run("net.yaml", "--score", "often.json", *often, "-o", "scored.json", program=PLAN)
    check(re.search(r"^checkpoint period .*, from the plan file$", done.stdout, re.M), done.stdout)
    check(json.loads(Path("scored.json").read_text(encoding="utf-8"))["recovery"] == plan["recovery"], "a score changes the period")
    del plan["recovery"]
    Path("none.json").write_text(json.dumps(plan), encoding="utf-8")
    done = run("net.yaml", "none.json", *often)
    check(re.search(r"checkpoint period [0-9.]+ (s|min), by Young and Daly's formula", done.stdout), done.stdout)
    for value in (0, -1, "1 h", None):
        plan["recovery"] = {"checkpoint_period_s": value}
        Path("bad.json").write_text(json.dumps(plan), encoding="utf-8")
        done = run("net.yaml", "bad.json", *often, status=2)
        check(done.stderr.startswith("dtfm-sim: bad.json: /recovery/checkpoint_period_s: "), done.stderr)
    Path("bad.json").write_text(json.dumps(plan).replace('"checkpoint_period_s": null', '"checkpoint_period_s": NaN'), encoding="utf-8")
    check(run("net.yaml", "bad.json", status=2).stderr.startswith("dtfm-sim: bad.json:1:"), "NaN is accepted")
    Path("calm.yaml").write_text("version: 1\nhorizon: 1 min\nrecovery: {checkpoint: {period: auto, bandwidth: 1 Gbps}}\n", encoding="utf-8")
    check("no checkpoint is written" in run("net.yaml", "none.json", "--scenario", "calm.yaml").stdout, "a checkpoint without failures")
    done = run("net.yaml", "--job", "job.yaml", "--scenario", "calm.yaml", "--evaluations", 500, "-o", "calm.json", "--quiet", program=PLAN)
    check("no checkpoint is written: no device of the plan leaves" in done.stdout, done.stdout)
    check("recovery" not in json.loads(Path("calm.json").read_text(encoding="utf-8")), "a period without failures")


def refused(message, *arguments):
    before = sorted((path.name, path.stat().st_mtime_ns) for path in Path().iterdir())
    done = run(*arguments, status=2)
    check(done.stderr == f"dtfm-sim: {message}\n", arguments, "says", repr(done.stderr), "instead of", repr(message))
    check(done.stdout == "", arguments, "prints", done.stdout)
    after = sorted((path.name, path.stat().st_mtime_ns) for path in Path().iterdir())
    check(before == after, arguments, "writes a file")


def test_rejected_input():
    help_ = "(see dtfm-sim --help)"
    refused(f"TOPOLOGY PLAN or --graph FILE is missing {help_}")
    refused(f"PLAN is missing {help_}", "net.yaml")
    refused(f"unexpected argument `--scenaro`; did you mean `--scenario`? {help_}", *small("--scenaro", "x"))
    refused("missing.json: cannot be opened: No such file or directory", "net.yaml", "missing.json")
    for name in ("--job", "--scenario"):
        refused("missing.yaml: cannot be opened: No such file or directory", *small(name, "missing.yaml"))
    for option, least, most in (("--iterations", 1, 10**6), ("--samples", 1, 10**6), ("--threads", 1, 1024),
                                ("--seed", 0, 2**64 - 1)):
        for text in ("-1", "2x", "", str(most + 1)):
            refused(f"{option}: expected a whole number from {least} to {most}; found `{text}`", *small(option, text))
    refused("--format: expected text or json; found `xml`", *small("--format", "xml"))
    refused("--trace: cannot be combined with --samples", *small("--samples", 2, "--trace", "t.json"))
    refused("--tasks: cannot be combined with --samples", *small("--samples", 2, "--tasks", "t.csv"))
    refused("--seed: cannot be combined with --graph", "--graph", "net.yaml", "--seed", 1)
    for name in ("-o", "--trace", "--tasks"):
        refused("net.yaml: cannot write: it is an input", *small(name, "net.yaml"))
        refused("no/such: cannot write: No such file or directory", *small(name, "no/such"))
    refused("same: cannot write: it is given for two outputs", *small("-o", "same", "--trace", "same"))
    refused("./same: cannot write: it is given for two outputs", *small("-o", "same", "--tasks", "./same"))
    Path("other.yaml").write_text(TOPOLOGY.replace("0.5 Gbps", "0.4 Gbps"), encoding="utf-8")
    Path("other_schedule.yaml").write_text(JOB.replace("pipeline: 3", "pipeline: 3, schedule: 1f1b"), encoding="utf-8")
    done = run("net.yaml", "plan.json", "--job", "other_schedule.yaml", status=2)
    check("schedule gpipe, but the job's parallelism.schedule is 1f1b; set the job's to gpipe or auto, or use the job that the plan was made for" in done.stderr, done.stderr)
    done = run("other.yaml", "plan.json", status=2)
    check("plan.json: /topology/fingerprint: the plan is for topology `three-sites`" in done.stderr, done.stderr)
    text = Path("plan.json").read_text(encoding="utf-8")
    Path("typo.json").write_text(text.replace('"global_batch"', '"globl_batch"'), encoding="utf-8")
    refused("typo.json: /job/training/globl_batch: unknown key `globl_batch`; did you mean `global_batch`?", "net.yaml", "typo.json")
    plan = json.loads(text)
    del plan["job"]
    Path("bare.json").write_text(json.dumps(plan), encoding="utf-8")
    done = run("net.yaml", "bare.json", status=2)
    check("bare.json: contains no job; give one with --job" in done.stderr, done.stderr)
    run("net.yaml", "bare.json", "--job", "job.yaml")


def test_unwritable_stdout():
    with open("/dev/full", "w", encoding="utf-8") as full:
        for more in ((), ("--tasks", "-")):
            done = subprocess.run([SIM, *small(*more)], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            check(done.returncode == 2 and "dtfm-sim: stdout: cannot " in done.stderr, more, done)


def test_interrupt():
    for kind in (signal.SIGINT, signal.SIGTERM):
        command = [SIM, *small("--iterations", "1000000", "-o", "cut.json", "--tasks", "cut.csv")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = process.stderr.readline()  # a line of progress: the run has begun
        check("iteration" in line, "no progress:", line)
        process.send_signal(kind)
        out, _ = process.communicate(timeout=60)
        check(process.returncode == 130, "exit", process.returncode, "after", kind)
        result = json.loads(Path("cut.json").read_text(encoding="utf-8"))
        check(0 < len(result["iterations"]) < 1000000, "iterations", len(result["iterations"]))
        check(result["fairness"]["undisturbed_iteration_s"] is None, "an interrupted run continues comparing")
        check(result["stopped"] and result["stopped"] in out, "the result does not say that it was interrupted")
        last = Path("cut.csv").read_text(encoding="utf-8").splitlines()[-1]
        check(last.startswith(f"i{len(result['iterations']) - 1} "), "the last task is", last)
        check(not list(Path().glob(".dtfm-*")), "files are left over")


def test_interrupted_samples():
    """Aborted runs do not count as samples."""
    for wait_s in (0.25, 0.5, 1, 2, 4, 8, 16):
        command = [SIM, *small("--scenario", "jitter.yaml", "--iterations", "200", "--samples", "10000", "--threads", "1", "-o", "cut.json")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(wait_s)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        check(process.returncode == 130, "exit", process.returncode, err)
        if not Path("cut.json").exists():
            continue
        result = json.loads(Path("cut.json").read_text(encoding="utf-8"))
        if "samples" not in result:  # interrupted before the first of them
            check(result["stopped"], "the result does not say that it was interrupted")
            continue
        runs = result["samples"]["runs"]
        check(result["stopped"] == f"interrupted after {runs} of 10000 runs", result["stopped"])
        check(("mean iteration of" in out) == (runs > 0), runs, "runs:", out)
        if runs > 0:
            break
    check(0 < runs < 10000, runs)


def test_closed_stderr():
    """Losing stderr affects neither the result nor the exit code."""
    reader, writer = os.pipe()
    os.close(reader)
    for arguments, status in ((small("--iterations", "3", "-o", "kept.json", "--stats"), 0), (("missing.yaml", "plan.json"), 2)):
        done = subprocess.run([SIM, *arguments], stdout=subprocess.PIPE, stderr=writer, check=False)
        check(done.returncode == status, arguments, "exit", done.returncode)
    os.close(writer)
    check(len(json.loads(Path("kept.json").read_text(encoding="utf-8"))["iterations"]) == 3, "the result is not whole")


def handles_interrupts(process):
    """Whether the program has installed its handler of SIGINT (signal 2), by /proc/PID/status."""
    with open(f"/proc/{process.pid}/status") as status:
        caught = next(line.split()[1] for line in status if line.startswith("SigCgt:"))
    return int(caught, 16) >> (signal.SIGINT - 1) & 1 == 1


def test_pipe_without_reader():
    """Two signals end a program that waits for the reader of a pipe."""
    os.mkfifo("pipe")
    for option in ("-o", "--trace"):
        process = subprocess.Popen([SIM, *small(option, "pipe")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if process.poll() is not None:
                break
            if handles_interrupts(process):
                process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        check(process.poll() == 130, option, "exit", process.poll())
        process.kill()


def main(tests):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare()
        for name, test in list(tests.items()):
            if name.startswith("test_"):
                begin, count = time.monotonic(), len(failures)
                test()
                print("ok" if len(failures) == count else "FAILED", name, f"{time.monotonic() - begin:.1f} s")
        os.chdir("/")
    print(*failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(globals()))
