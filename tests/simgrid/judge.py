#!/usr/bin/env python3
"""dtfm-sim and SimGrid replay the same graphs to the same times: every task within 1e-6, every state
equal. Rings with contention are compared by their makespan, within 2e-3, because rounding errors
grow from step to step: SimGrid itself gives other times with other tolerances, and any value
between them is right.

usage: judge.py DTFM-SIM SIMGRID-REPLAY|none    (77: no SimGrid)
"""
import csv
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

RANDOM_GRAPHS = 240
GENERATOR = Path(__file__).resolve().parents[1] / "benchmarks" / "task_graph.py"
# KIND HOSTS STAGES PLACEMENT START MICRO_BATCHES of task_graph.py
SCENARIOS = [f"{kind} {hosts} 8 {placement} apart 8" for hosts in (64, 256) for placement in ("aligned", "random")
             for kind in ("allpairs", "gpipe")]
RINGS = [f"ring {hosts} 8 {placement} apart" for hosts in (64, 256) for placement in ("aligned", "random")]


def trace(rng, base):
    """Returns "T V …" of a few steps, sometimes periodic."""
    dates = sorted(rng.uniform(0, 30) for _ in range(rng.randint(1, 5)))
    steps = " ".join(f"{date!r} {base * rng.uniform(0.05, 3)!r}" for date in dates)
    period = dates[-1] - dates[0] + rng.uniform(1, 10)
    return steps + (f" period {period!r}" if rng.random() < 0.3 else "")


def random_graph(seed):
    """Returns a graph with hosts of both kinds, routes with common links, traces, failures, rate caps,
    queues and priorities."""
    rng, text = random.Random(seed), []
    hosts, links = rng.randint(3, 10), rng.randint(3, 14)
    for h in range(hosts):
        text.append(f"host h{h} {rng.uniform(0.5, 4)!r} {rng.choice(['fifo', 'ps'])}")
    for k in range(links):
        bandwidth, kind = rng.uniform(0.2e6, 4e6), rng.choice(["shared", "shared", "shared", "fatpipe"])
        text.append(f"link l{k} {bandwidth!r} {rng.choice([0, rng.uniform(0, 0.5)])!r} {kind}")
        if kind == "shared" and rng.random() < 0.3:
            text.append(f"profile l{k} bw {trace(rng, bandwidth)}")
        if rng.random() < 0.1:
            text.append(f"profile l{k} lat {trace(rng, 0.2)}")
        if rng.random() < 0.08:
            down = rng.uniform(0, 20)
            text.append(f"fail link l{k} {down!r} {down + rng.uniform(0.5, 10)!r}")
    text += (f"fail host h{h} {rng.uniform(5, 40)!r}" for h in range(hosts) if rng.random() < 0.05)
    for a in range(hosts):
        for b in range(hosts):
            if a != b:
                route = rng.sample(range(links), rng.randint(1, min(4, links)))
                text.append(f"route h{a} h{b} " + " ".join(f"l{k}" for k in route))
    for i in range(rng.randint(5, 120)):
        before = rng.sample(range(max(0, i - 12), i), min(i, rng.choice([0, 0, 1, 1, 2, 3]), 12))
        options = " after " + ",".join(f"t{b}" for b in before) if before else ""
        options += f" queue q{rng.randint(0, 3)}" if rng.random() < 0.2 else ""
        options += f" prio {rng.uniform(-1, 1)!r}" if rng.random() < 0.2 else ""
        kind = rng.random()
        if kind < 0.25:
            text.append(f"compute t{i} h{rng.randrange(hosts)} {rng.uniform(0.1, 10)!r}{options}")
        elif kind < 0.35:
            text.append(f"delay t{i} {rng.uniform(0.01, 5)!r}{options}")
        else:
            source, target = rng.sample(range(hosts), 2)
            options += f" rate {rng.uniform(0.05e6, 2e6)!r}" if rng.random() < 0.2 else ""
            text.append(f"flow t{i} h{source} h{target} {rng.randint(1000, 8000000)}{options}")
    return "\n".join(text) + "\n"


def rows(command):
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return {row["id"]: row for row in csv.DictReader(run.stdout.splitlines())}


def farthest(ours, theirs):
    """Returns the largest relative difference of two times, or infinity if states differ."""
    worst = 0.0
    for name, row in ours.items():
        if row["state"] != theirs[name]["state"]:
            return math.inf
        if row["finish"]:
            a, b = float(row["finish"]), float(theirs[name]["finish"])
            worst = max(worst, abs(a - b) / max(a, b, 1e-2))
    return worst


def last(table):
    return max(float(row["finish"]) for row in table.values() if row["finish"])


def both(programs, folder, text):
    graph = Path(folder, "graph.txt")
    graph.write_text(text, encoding="utf-8")
    return rows([programs[0], "--graph", graph, "--tasks", "-"]), rows([programs[1], graph, "exact"])


def generated(scenario):
    return subprocess.run([sys.executable, GENERATOR, *scenario.split()], capture_output=True, text=True, check=True).stdout


def main(*programs):
    if programs[1] == "none":
        print("skipped: no SimGrid (Debian: libsimgrid-dev) when this was configured")
        return 77
    faults, worst, states = [], 0.0, set()
    with tempfile.TemporaryDirectory() as folder:
        cases = [(f"random graph {seed}", random_graph(seed)) for seed in range(RANDOM_GRAPHS)]
        cases += [(scenario, generated(scenario)) for scenario in SCENARIOS]
        for name, text in cases:
            ours, theirs = both(programs, folder, text)
            distance = farthest(ours, theirs)
            worst = max(worst, distance)
            states |= {row["state"] for row in ours.values()}
            if distance > 1e-6:
                faults.append(f"{name}: {distance:.3g}")
        for ring in RINGS:
            ours, exact = both(programs, folder, generated(ring))
            plain = rows([programs[1], Path(folder, "graph.txt")])
            low, high = sorted([last(exact), last(plain)])
            distance = max(low - last(ours), last(ours) - high, 0) / low
            print(f"{ring}: the last date is {distance:.2g} off; SimGrid's own spread {high / low - 1:.2g}")
            if distance > 2e-3:
                faults.append(f"{ring}: {distance:.3g}")
    print(f"{len(cases)} graphs, the largest distance {worst:.2g}; states {', '.join(sorted(states))}")
    print(*faults, sep="\n")
    return 1 if faults or states != {"DONE", "FAILED", "BLOCKED"} else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
