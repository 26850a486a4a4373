#!/usr/bin/env python3
"""Replays the published task graphs that have a closed-form solution: every state must be equal, and
every end within 1e-6 or 10 ns.

usage: closed_forms.py DTFM-SIM DATA    (DATA has sim-cases/NAME.txt and sim-cases/expected.tsv; 77:
it is missing)
"""
import csv
import math
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

CASES = 68


def replayed(program, graph):
    """Returns the rows of --tasks by their ids."""
    run = subprocess.run([program, "--graph", graph, "--tasks", "-"], capture_output=True, text=True, check=True)
    return {row["id"]: row for row in csv.DictReader(run.stdout.splitlines())}


def is_right(row, expected):
    return row is not None and row["state"] == expected["state"] and math.isclose(
        float(row["finish"]), float(expected["finish_s"]), rel_tol=1e-6, abs_tol=1e-8)


def main(program, data):
    folder = Path(data, "sim-cases")
    if not folder.is_dir():
        print(f"skipped: no {folder}")
        return 77
    cases, faults = defaultdict(list), 0
    with open(folder / "expected.tsv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            cases[row["case"]].append(row)
    for case, rows in cases.items():
        tasks = replayed(program, folder / f"{case}.txt")
        for row in rows:
            if not is_right(tasks.get(row["task"]), row):
                print(f"{case}: {row['task']} is {tasks.get(row['task'])}; expected {row}")
                faults += 1
    print(f"{len(cases)} cases, {faults} wrong dates or states")
    return 0 if faults == 0 and len(cases) == CASES else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
