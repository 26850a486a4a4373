#!/usr/bin/env python3
"""dtfm-sim TOPOLOGY PLAN with unusual numbers, scenarios, plans and output files.

usage: odd_inputs.py DTFM-PLAN DTFM-SIM
"""
import json
import os
import subprocess
import sys
from pathlib import Path

from simulate import BY_COST, JOB, PLAN, SIM, TOPOLOGY, check, main, refused, run, small


def edited_plan(name, counts):
    plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    for pipeline, count in zip(plan["pipelines"], counts):
        pipeline["micro_batches"] = count
    Path(name).write_text(json.dumps(plan), encoding="utf-8")


def test_notes():
    """Contradictions between inputs are noted in the summary and in the result."""
    check(json.loads(run(*small("--format", "json")).stdout)["notes"] == [], "notes on a plan as it was made")
    edited_plan("odd.json", (5, 0))
    Path("double.yaml").write_text(JOB.replace("24", "48"), encoding="utf-8")
    Path("estimate.yaml").write_text(JOB.replace("profile: {analytic: true, efficiency: 0.327}\n", ""), encoding="utf-8")
    for arguments, expected in (
            (("net.yaml", "odd.json"), ["the pipelines compute 5 micro-batches, but job small has 24",
                                        "the micro-batches are not distributed evenly: pipelines compute from 0 to 5 each"]),
            (small("--job", "double.yaml"), ["the pipelines compute 24 micro-batches, but job small has 48"]),
            (small("--job", "estimate.yaml"), ["times on GPU card are estimates: the job has no profile of it"]),
            (small("--samples", 9), ["nothing in the scenario is random (there is no jitter): all samples are equal, and 1 of "
                                     "9 was run"])):
        done = run(*arguments, "-o", "noted.json")
        notes = json.loads(Path("noted.json").read_text(encoding="utf-8"))["notes"]
        check(notes == expected, "notes", notes)
        for note in expected:
            check(f"\nnote: {note}\n" in done.stdout, "the summary lacks", note)
    check(json.loads(run(*small("--samples", 9, "--format", "json")).stdout)["samples"]["runs"] == 1, "equal samples")


def test_no_iteration():
    """Statistics of iterations are omitted if there are none; runs that cannot have any exit with code
    3."""
    wait = "events: [{at: 0.1 s, device: ohio/1, leave: true}]\nrecovery: {policy: wait}\n"
    Path("zero.csv").write_text("0,0\n", encoding="utf-8")
    blocked = 'bandwidth: [{between: ["*", "*"], trace: {file: zero.csv, kind: relative}}]\n'
    for text, status, words in (
            ("horizon: 1 ms\n", 0, "no iteration was completed: the horizon, 0.001 s, came before the end of the first"),
            (wait, 3, "under policy `wait` no pipeline can run without ohio/1 (left at 0.1 s)"),
            ("horizon: 100 s\n" + wait, 3, "no iteration was completed, and none can be"),
            ("horizon: 100 s\n" + blocked, 3, "the iteration is deadlocked: no task ends after")):
        Path("none.yaml").write_text("version: 1\n" + text, encoding="utf-8")
        done = run(*small("--scenario", "none.yaml", "-o", "none.json"), status=status)
        check(words in done.stdout and "no iteration was completed" in done.stdout, "the summary is", done.stdout)
        result = json.loads(Path("none.json").read_text(encoding="utf-8"))
        check(all(result[key] is None for key in ("iteration_time_s", "tokens_per_s", "model_flops_per_s")), result)
        check("no iteration was completed" in result["notes"][0], result["notes"])
        check(bool(result["stopped"]) == (status == 3), "stopped", result["stopped"])
        check(all(device["peak_memory_bytes"] > 0 for device in result["devices"]), "memory", result["devices"])


def test_idle_device_in_memory():
    """Devices of a pipeline without micro-batches still hold weights, gradients and optimizer state."""
    edited_plan("idle.json", (24, 0))
    result = json.loads(run("net.yaml", "idle.json", "--format", "json").stdout)
    # The middle has four blocks of 12 h² + 13 h parameters, 16 bytes each.
    middle = next(device for device in result["devices"] if device["device"] == idle_middle())
    check(middle["peak_memory_bytes"] == 4 * (12 * 512**2 + 13 * 512) * 16, middle)
    check(middle["compute_s"] == 0, middle)


def idle_middle():
    plan = json.loads(Path("idle.json").read_text(encoding="utf-8"))
    return plan["pipelines"][1]["stages"][1]["devices"][0]


def test_slow():
    """Small token rates are printed with three digits."""
    Path("slow.yaml").write_text(TOPOLOGY.replace("0.5 Gbps", "0.5 Mbps"), encoding="utf-8")
    run("slow.yaml", "--job", "job.yaml", "-o", "slow.json", *BY_COST, program=PLAN)
    done = run("slow.yaml", "slow.json", "-o", "slow-result.json")
    tokens = json.loads(Path("slow-result.json").read_text(encoding="utf-8"))["tokens_per_s"]
    check(1 < tokens < 99 and f"{tokens:#.3g} tokens/s" in done.stdout, tokens, done.stdout)


def test_absurd_numbers():
    """Extreme numbers are rejected with their position, and accepted ones give a result or an error."""
    edits = [("net.yaml", old, new, "1e300") for old, new in (
        ("peak: 10 TFLOP/s", "peak: 1e300 FLOP/s"), ("memory: 16 GB", "memory: 1e300 B"),
        ("latency: 5 ms", "latency: 1e300 s"), ("bandwidth: 2 Gbps", "bandwidth: 1e300 bps"),
        ("count: 2, gpu", "count: 2, speed: 1e300, gpu"), ("count: 2, gpu", "count: 2, uplink: 1e300 bps, gpu"))]
    edits += [(file, old, new.replace("1e300", "1e-300"), "1e-300") for file, old, new, _ in edits]
    edits += [("net.yaml", "latency: 5 ms", "latency: 1e12 s", "1e12"),
              ("job.yaml", "parallelism:", "compression: {activations: 1e300}\nparallelism:", "1e300")]
    for file, old, new, number in edits:
        text = Path(file).read_text(encoding="utf-8")
        changed = text.replace(old, new, 1)
        Path("absurd.yaml").write_text(changed, encoding="utf-8")
        line = changed[: changed.index(number)].count("\n") + 1
        what = ("absurd.yaml", "plan.json") if file == "net.yaml" else small("--job", "absurd.yaml")
        done = run(*what, status=2)
        check(f"dtfm-sim: absurd.yaml:{line}:" in done.stderr and number in done.stderr, new, "says", done.stderr)
    # At the limits themselves: a message of this length exceeds any run.
    Path("far.yaml").write_text(TOPOLOGY.replace("0.5 Gbps", "0.001 bps").replace("peak: 10 TFLOP/s", "peak: 1 FLOP/s"),
                                encoding="utf-8")
    run("far.yaml", "--job", "job.yaml", "-o", "far.json", *BY_COST, program=PLAN)
    done = run("far.yaml", "far.json", status=2)
    check("s of simulated time; the maximum is 2e+09 s" in done.stderr, done.stderr)
    Path("fast.yaml").write_text(TOPOLOGY.replace("0.5 Gbps", "1e18 bps").replace("peak: 10 TFLOP/s", "peak: 1e24 FLOP/s")
                                 .replace("5 ms", "0 s").replace("50 ms", "0 s"), encoding="utf-8")
    run("fast.yaml", "--job", "job.yaml", "-o", "fast.json", *BY_COST, program=PLAN)
    json.loads(run("fast.yaml", "fast.json", "--format", "json").stdout)


def test_outputs_in_place():
    """Results can go to stdout, pipes and devices; a file that exceeds the size limit leaves nothing
    behind."""
    run(*small("-o", "result.json", "--trace", "trace.json", "--tasks", "tasks.csv"))
    for option, name in (("-o", "result.json"), ("--trace", "trace.json"), ("--tasks", "tasks.csv")):
        expected = Path(name).read_text(encoding="utf-8")
        for stdout in ("-", "/dev/stdout"):
            check(run(*small(option, stdout)).stdout == expected, option, stdout, "prints something else")
        check("iteration" in run(*small(option, "/dev/null")).stdout, option, "/dev/null")
    check(Path("/dev/null").is_char_device(), "/dev/null is gone")
    run(*small("-o", "/dev/null", "--trace", "/dev/null", "--tasks", "/dev/null"))
    refused("-: cannot write: it is given for two outputs", *small("-o", "-", "--tasks", "-"))
    with open("same.json", "w", encoding="utf-8") as file:
        subprocess.run([SIM, *small("-o", "same.json")], stdout=file, check=True)
    check(Path("same.json").read_bytes() == Path("result.json").read_bytes(), "stdout by its name")
    for option in ("-o", "--trace", "--tasks"):
        done = subprocess.run(["bash", "-c", 'ulimit -f 1 && exec "$@"', "_", SIM, *small(option, "large")],
                              capture_output=True, text=True, check=False)
        check(done.returncode == 2 and done.stderr == "dtfm-sim: large: cannot write: File too large\n", option, done)
        check(not Path("large").exists() and not list(Path().glob(".dtfm-*")), option, "leaves files")
        done = run(*small(option, "/dev/full"), status=2)
        check(done.stderr == "dtfm-sim: /dev/full: cannot write: No space left on device\n", option, done.stderr)


def test_inputs_from_pipes():
    command = 'exec "$0" <(cat net.yaml) <(cat plan.json) --format json'
    done = subprocess.run(["bash", "-c", command, SIM], capture_output=True, text=True, check=False)
    check(done.stdout == run(*small("--format", "json")).stdout, "inputs from pipes:", done.stderr)


def test_closed_pipe():
    with subprocess.Popen([SIM, *small("--iterations", "300", "--tasks", "-", "--trace", "left.json", "--quiet")],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.stdout.close()
        check(process.wait(60) == 2, "exit", process.returncode, "where nobody reads")
        check(process.stderr.read() == "dtfm-sim: stdout: cannot write: Broken pipe\n", "says something else")
    check(not Path("left.json").exists() and not list(Path().glob(".dtfm-*")), "files are left over")


def test_pipe_as_trace():
    """A scenario's file that is not a regular file is rejected; a column name requires a header."""
    os.mkfifo("pipe.csv")
    Path("flat.csv").write_text("0,1\n", encoding="utf-8")
    for entry, message in (("file: pipe.csv", "pipe.yaml:2:47: `file`: `pipe.csv` is not a regular file"),
                           ("file: flat.csv, column: down",
                            "flat.csv:1:1: there is no column `down`; the file has no header")):
        Path("pipe.yaml").write_text(f"version: 1\nlatency: [{{from: ohio, to: \"*\", trace: {{{entry}, kind: relative}}}}]\n",
                                     encoding="utf-8")
        refused(message, *small("--scenario", "pipe.yaml"))


def test_site_events():
    both = "\n".join(f"  - {{at: 1 s, device: ohio/{i}, speed: 0.5}}" for i in range(2))
    outputs = []
    for text in ("  - {at: 1 s, site: ohio, speed: 0.5}", both):
        Path("site.yaml").write_text(f"version: 1\nname: s\nevents:\n{text}\n", encoding="utf-8")
        outputs.append(run(*small("--scenario", "site.yaml", "--format", "json")).stdout)
    check(outputs[0] == outputs[1] and outputs[0] != run(*small("--format", "json")).stdout, "a site is not its devices")


if __name__ == "__main__":
    sys.exit(main(globals()))
