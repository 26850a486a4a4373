#!/usr/bin/env python3
"""No program overwrites a file that its inputs refer to: the error names the file and the input.

usage: overwrite.py DTFM-PLAN DTFM-SIM DTFM-COMPARE DTFM-PROFILE DTFM-CALIBRATE DTFM-EXPORT
"""
import re
import sys
from pathlib import Path

from simulate import JOB, PLAN, SIM, check, main, run

COMPARE, PROFILE, CALIBRATE, EXPORT = (Path(name).resolve() for name in sys.argv[3:7])
NET = """\
version: 1
name: net
devices:
  - {site: oregon, count: 2, gpu: T4}
  - {site: ohio, count: 2, gpu: T4}
measured: {latency: {file: latency.csv, unit: ms}, bandwidth: {file: bandwidth.csv, unit: Gbps}}
"""
EVENING = """\
version: 1
name: evening
bandwidth: [{from: oregon, to: ohio, trace: {file: trace.csv, kind: relative}}]
"""
GRAPH = """\
version: 1
name: graph
model: {kind: graph, file: graph.json}
training: {global_batch: 8, precision: fp16}
"""
NAMED = ("graph.json", "latency.csv", "bandwidth.csv", "times.json", "trace.csv", "torchrun.sh", "plan.json")


def matrix(value):
    return "".join(",".join("0" if row == column else value for column in range(4)) + "\n" for row in range(4))


def files():
    for name, text in {"net.yaml": NET, "evening.yaml": EVENING, "latency.csv": matrix("20"), "bandwidth.csv": matrix("1"),
                       "trace.csv": "0,1\n10,0.5\n", "plain.yaml": JOB.replace("profile: {analytic: true, efficiency: 0.327}\n", ""),
                       "job.yaml": JOB.replace("{analytic: true, efficiency: 0.327}", "times.json").replace("pipeline: 3", "pipeline: 2"),
                       "scripted.yaml": NET.replace("latency.csv", "torchrun.sh"), "torchrun.sh": matrix("20"), "graph.yaml": GRAPH,
                       "graph.json": '{"nodes": [{"name": "a", "flops": 1e9, "parameters": 8, "output_bytes": 8}], "edges": []}'}.items():
        Path(name).write_text(text, encoding="utf-8")
    run("--estimate", "T4", "--job", "plain.yaml", "-o", "times.json", "--quiet", program=PROFILE)
    run("net.yaml", "--job", "job.yaml", "-o", "plan.json", "--quiet", "--evaluations", 1, program=PLAN)
    Path("runs.csv").write_text("plan,seconds\n" + "plan.json,3\n" * 5, encoding="utf-8")


def refused(output, namer, program, *arguments):
    before = {name: Path(name).read_bytes() for name in NAMED}
    done = run(*arguments, program=program, status=2)
    pattern = rf"dtfm-\w+: {re.escape(output)}: cannot write: it is an input, which {re.escape(namer)}:\d+:\d+ names\n"
    check(re.fullmatch(pattern, done.stderr) and done.stdout == "", program.name, arguments, "says", repr(done.stderr))
    check(before == {name: Path(name).read_bytes() for name in NAMED}, program.name, arguments, "writes over a file")


def test_plans():
    files()
    search = ("net.yaml", "--job", "job.yaml", "--quiet")
    refused("times.json", "job.yaml", PLAN, *search, "-o", "times.json")
    refused("./times.json", "job.yaml", PLAN, *search, "--score", "plan.json", "-o", "./times.json")
    refused("times.json", "job.yaml", PLAN, *search, "--pipeline", 2, "--objective", "comm-cost", "-o", "times.json")


def test_simulations():
    files()
    for output in ("-o", "--trace", "--tasks"):
        refused("latency.csv", "net.yaml", SIM, "net.yaml", "plan.json", output, "latency.csv")
        refused("trace.csv", "evening.yaml", SIM, "net.yaml", "plan.json", "--scenario", "evening.yaml", output, "trace.csv")
    for scheme in ("swarm", "megatron"):
        refused("times.json", "job.yaml", SIM, "net.yaml", "--scheme", scheme, "--job", "job.yaml", "-o", "times.json")
    run("net.yaml", "plan.json", "-o", "result.json", "--quiet", program=SIM)


def test_comparisons():
    files()
    refused("bandwidth.csv", "net.yaml", COMPARE, "net.yaml", "-o", "bandwidth.csv")
    refused("trace.csv", "evening.yaml", COMPARE, "net.yaml", "--scenario", "evening.yaml", "-o", "trace.csv")


def test_profiles():
    files()
    refused("graph.json", "graph.yaml", PROFILE, "--estimate", "T4", "--job", "graph.yaml", "-o", "graph.json")
    # A profile that the job names is not read to estimate it, so it may be overwritten.
    run("--estimate", "T4", "--job", "job.yaml", "-o", "times.json", "--quiet", program=PROFILE)


def test_calibrations():
    files()
    refused("plan.json", "runs.csv", CALIBRATE, "net.yaml", "runs.csv", "-o", "plan.json")


def test_differences():
    files()
    refused("latency.csv", "net.yaml", PLAN, "net.yaml", "--diff", "plan.json", "plan.json", "-o", "latency.csv")


def test_exports():
    files()
    refused("./torchrun.sh", "scripted.yaml", EXPORT, "plan.json", "--topology", "scripted.yaml", "--to", "torchrun", "-o", ".", "--force")


if __name__ == "__main__":
    sys.exit(main(globals()))
