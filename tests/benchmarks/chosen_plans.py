#!/usr/bin/env python3
"""Compares the plans that two builds choose, by their simulated iteration times.

    chosen_plans.py run PLANNER OUT.csv [GROUP...]    plans every case and writes the simulated times
    chosen_plans.py diff OLD.csv NEW.csv              how much faster the new plans are, by group

The groups of cases:

  shipped   every shipped topology with gpipe, 1f1b, interleaved and zb-h1, and batches of 512 to 4,096
  uplinks   sites that share their uplinks, with speeds that differ by 0, 10 and 40 %
  random    small networks of different GPUs, half of them with shared uplinks, everything automatic

An estimate that misjudges a plan shows only if the plan that it leads to is slower.
"""
import argparse
import concurrent.futures
import csv
import math
import os
import pathlib
import random
import statistics
import sys
import time

from random_cases import planned, random_topology

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zb-h1"]


def job_text(schedule: str, batch: int, micro_batch: object = 1, layers: int = 24, hidden: int = 2048, recompute: str = "full") -> str:
    chunks = ", chunks: 2" if schedule == "interleaved" else ""
    return (
        f"version: 1\nname: case\nmodel: {{kind: transformer, layers: {layers}, hidden: {hidden}, heads: 16, sequence: 2048, "
        f"vocabulary: 50257}}\ntraining: {{global_batch: {batch}, micro_batch: {micro_batch}, precision: fp16, recompute: {recompute}}}\n"
        f"parallelism: {{schedule: {schedule}{chunks}, gradient_sync: sharded-ps}}\n"
    )


def shipped() -> dict[str, tuple[str, str]]:
    return {
        f"shipped/{topology.stem}/{schedule}/{batch}": (topology.read_text(), job_text(schedule, batch))
        for topology in sorted((ROOT / "topologies").glob("*.yaml"))
        for schedule in SCHEDULES
        for batch in (512, 1024, 4096)
    }


def uplink_topology(sites: int, devices: int, gbps: float, spread: float, seed: int) -> str:
    rng = random.Random(seed)
    lines = ["version: 1\nname: uplinks\nsites:"]
    lines += [f"  - {{name: s{site}, uplink: {gbps} Gbps, downlink: {gbps} Gbps}}" for site in range(sites)]
    lines.append("devices:")
    for site in range(sites):
        for _ in range(devices):
            speed = 1 + spread * (rng.random() - 0.5)
            lines.append(f"  - {{site: s{site}, count: 1, gpu: V100-16GB, speed: {speed:.4f}}}")
    lines.append("links:\n  - {within: '*', latency: 0.2 ms, bandwidth: 10 Gbps}")
    lines.append("  - {between: ['*', '*'], latency: 20 ms, bandwidth: 2 Gbps}")
    return "\n".join(lines) + "\n"


def uplinks() -> dict[str, tuple[str, str]]:
    return {
        f"uplinks/{sites}x{devices}/{gbps}/{spread:.0%}/{schedule}/{batch}": (
            uplink_topology(sites, devices, gbps, spread, sites), job_text(schedule, batch))
        for sites, devices, gbps in ((4, 6, 2), (3, 8, 0.5), (6, 8, 4))
        for spread in (0, 0.1, 0.4)
        for schedule in SCHEDULES
        for batch in (96, 512)
    }


def random_cases() -> dict[str, tuple[str, str]]:
    cases = {}
    for number in range(40):
        rng = random.Random(number)
        text, _ = random_topology(rng, "random", 5, 3, [1, 1, 2, 4], may_share_uplinks=True)
        layers, hidden, batch = rng.choice([8, 16, 24]), rng.choice([1024, 2048]), rng.choice([32, 64, 128])
        job = job_text(rng.choice(SCHEDULES), batch, "auto", layers, hidden, "auto")
        cases[f"random/{number}"] = (text, job)
    return cases


GROUPS = {"shipped": shipped, "uplinks": uplinks, "random": random_cases}


def row_of(planner: pathlib.Path, name: str, topology: str, job: str) -> dict:
    before = time.monotonic()
    run, plan = planned([str(planner), "--threads", "1"], topology, job, [])
    row = {"case": name, "simulated": "", "estimated": "", "evaluations": "", "wall": f"{time.monotonic() - before:.1f}"}
    if run.returncode not in (0, 2, 3) or "unexpected" in run.stderr or "YAML" in run.stderr:
        sys.exit(f"{name}: exit code {run.returncode}: {run.stderr}")
    if plan:
        finalists = plan["finalists"]
        row["simulated"] = f"{finalists[0]['simulated']['nominal']['mean_s']:.9g}" if finalists else ""
        row["estimated"] = f"{plan['estimate']['iteration_time_s']:.9g}"
        row["evaluations"] = plan["search"]["evaluations"]
    else:
        row["estimated"] = run.stderr.strip().splitlines()[-1][:100] if run.stderr.strip() else f"exit {run.returncode}"
    return row


def run_cases(arguments: argparse.Namespace) -> None:
    cases = {}
    for group in arguments.groups or GROUPS:
        cases.update(GROUPS[group]())
    planner = arguments.planner.resolve()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool, arguments.out.open("w", newline="") as out:
        writer = csv.DictWriter(out, ["case", "simulated", "estimated", "evaluations", "wall"])
        writer.writeheader()
        for row in pool.map(lambda item: row_of(planner, item[0], *item[1]), cases.items()):
            writer.writerow(row)
            out.flush()


def read(path: pathlib.Path) -> dict[str, float]:
    with path.open() as file:
        return {row["case"]: float(row["simulated"]) for row in csv.DictReader(file) if row["simulated"]}


def diff(arguments: argparse.Namespace) -> None:
    old, new = read(arguments.old), read(arguments.new)
    ratios: dict[str, list[tuple[float, str]]] = {}
    for case in sorted(old.keys() & new.keys()):
        ratios.setdefault(case.split("/")[0], []).append((new[case] / old[case] - 1, case))
    print("| cases | number | median | mean | best | worst | over 0.5 % | where |\n|---|--:|--:|--:|--:|--:|--:|---|")
    for group, values in ratios.items():
        changes = [change for change, _ in values]
        worst, where = max(values)
        mean = math.expm1(statistics.fmean(math.log1p(change) for change in changes))
        print(
            f"| {group} | {len(values)} | {statistics.median(changes):+.2%} | {mean:+.2%} | {min(changes):+.2%} | {worst:+.2%} "
            f"| {sum(change > 0.005 for change in changes)} | {where} |"
        )
    for name, only in (("old", old.keys() - new.keys()), ("new", new.keys() - old.keys())):
        if only:
            print(f"a plan in the {name} build alone: {', '.join(sorted(only))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("planner", type=pathlib.Path)
    run.add_argument("out", type=pathlib.Path)
    run.add_argument("groups", nargs="*", choices=[*GROUPS, []])
    run.add_argument("--jobs", type=int, default=os.cpu_count())
    compare = commands.add_parser("diff")
    compare.add_argument("old", type=pathlib.Path)
    compare.add_argument("new", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.command == "run":
        run_cases(arguments)
    else:
        diff(arguments)


if __name__ == "__main__":
    main()
