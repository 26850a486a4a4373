#!/usr/bin/env python3
"""Compares how fast dtfm-sim and SimGrid replay the same graphs: CPU seconds of the run phase, the
minimum of several alternating runs. SimGrid updates rates lazily (its default) in rings, but fully in
all-pairs, where this is faster.

usage: simgrid_table.py DTFM-SIM SIMGRID-REPLAY [RUNS]    (programs of a release build; RUNS: 5)

Gradient synchronizations of 200 MB within 8 stages (64 at 1,024 hosts all-pairs), whose first flows
start at different times. With traces, every access link changes its bandwidth every 5 s. SimGrid is
stopped after a minute: such rows count as 60 s.
"""
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

GENERATOR = Path(__file__).resolve().parent / "task_graph.py"
LIMIT_S = 60
CASES = [(kind, hosts, placement, start, traces)
         for hosts in (64, 256, 1024) for kind in ("allpairs", "ring") for placement in ("aligned", "random")
         for start, traces in (("together", False), ("apart", False), ("apart", True))]


def trace_lines(hosts):
    rng = random.Random(3)
    for h in range(hosts):
        steps = " ".join(f"{5 * i} {rng.uniform(100e6, 250e6):.0f}" for i in range(12))
        yield f"profile u{h} bw {steps} period 60"


def graph_text(kind, hosts, placement, start, traces):
    stages = hosts // 16 if hosts == 1024 else 8
    text = subprocess.run([sys.executable, GENERATOR, kind, str(hosts), str(stages), placement, start],
                          capture_output=True, text=True, check=True).stdout
    lines = text.splitlines()
    first_task = next(i for i, line in enumerate(lines) if line.startswith(("flow", "delay")))
    return "\n".join(lines[:first_task] + (list(trace_lines(hosts)) if traces else []) + lines[first_task:]) + "\n"


def seconds(command):
    """Returns the seconds of the run phase, or infinity after LIMIT_S."""
    try:
        run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return math.inf
    return max(json.loads(run.stderr)["run_cpu_s"], 1e-6)


def main(ours, theirs, runs="5"):
    ratios = []
    print("| hosts | gradient synchronization | placement | start | dtfm-sim s | SimGrid s | times as fast |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder, "graph.txt")
        for kind, hosts, placement, start, traces in CASES:
            graph.write_text(graph_text(kind, hosts, placement, start, traces), encoding="utf-8")
            a, b = math.inf, math.inf
            for _ in range(int(runs)):
                a = min(a, seconds([ours, "--graph", graph, "--quiet", "--stats"]))
                theirs_s = seconds([theirs, graph] + ["full"] * (kind == "allpairs"))
                b = min(b, theirs_s)
                if theirs_s == math.inf:
                    break
            how, more = start + (", traces" if traces else ""), "> " if b == math.inf else ""
            b = min(b, LIMIT_S)
            print(f"| {hosts} | {kind} | {placement} | {how} | {a:.4f} | {more}{b:.4f} | {more}{b / a:.1f} |", flush=True)
            ratios.append(b / a)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\ngeometric mean {mean:.1f}, least {min(ratios):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
