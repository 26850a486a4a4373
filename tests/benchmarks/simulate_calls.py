#!/usr/bin/env python3
"""How much longer simulate takes in Python than in C++, for a plan of 64 devices.

usage: simulate_calls.py BUILD [CALLS]    (a release build with DTFM_PYTHON and benchmark_simulate_calls)

In every call, Python interprets its arguments and the parsed plan, which the C++ program does once. Both run by turns,
on one thread; the fastest round of each is compared, because other work on the machine only ever adds time.
"""

import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 20
build = Path(sys.argv[1])
calls = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
sys.path.insert(0, str(build / "python"))

import dtfm

path = Path(__file__).parents[2] / "topologies" / "universities.yaml"
topology = dtfm.Topology(path)
plan = dtfm.plan(topology, evaluations=2000, seed=1)
assert len(topology) == 64, len(topology)
file = build / "simulate_calls.json"
plan.save(file)
program = build / "tests" / "benchmarks" / "benchmark_simulate_calls"
cpp, python = [], []
for _ in range(ROUNDS):
    done = subprocess.run([program, path, file, str(calls // ROUNDS)], check=True, capture_output=True, text=True)
    cpp.append(float(done.stdout.split()[0]))
    begin = time.perf_counter()
    for _ in range(calls // ROUNDS):
        dtfm.simulate(topology, plan, threads=1)
    python.append((time.perf_counter() - begin) / (calls // ROUNDS))
a, b = min(cpp), min(python)
print(f"C++ {1e3 * a:.3f} ms, Python {1e3 * b:.3f} ms per call: {100 * (b / a - 1):+.1f} %")
print("each round:", ", ".join(f"{100 * (y / x - 1):+.1f} %" for x, y in zip(cpp, python)))
