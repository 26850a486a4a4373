#!/usr/bin/env python3
"""Measures how much slower a default plan is than the best of plans for which one decision is given.

Topologies have a few devices of different GPUs at a few sites, drawn by a seed; models are small
and large. For each topology, the default plan is compared, with `shapes`, with one plan for each
number of stages up to eight and as many replicas as use at least half of the devices; with
`micro-batches`, where these and recomputation are automatic, with one plan for each micro-batch
from 1 to 16. All comparisons use estimates: the search should have found the best by itself.
"""
import argparse
import pathlib
import random
import sys

from random_cases import planned, random_topology


def job(rng: random.Random) -> str:
    layers, hidden, batch = rng.choice([8, 16, 24]), rng.choice([1024, 2048]), rng.choice([32, 64, 128])
    return (
        f"version: 1\nname: l{layers}\nmodel: {{kind: transformer, layers: {layers}, hidden: {hidden}, heads: 16, sequence: 1024, "
        f"vocabulary: 50257}}\ntraining: {{global_batch: {batch}, micro_batch: 1, precision: fp16, recompute: full}}\n"
    )


def with_choice(job_text: str, micro_batch: int | str) -> str:
    return job_text.replace("micro_batch: 1", f"micro_batch: {micro_batch}").replace("recompute: full", "recompute: auto")


def plan_of(planner: list[str], topology: str, job_text: str, options: list[str]) -> dict | None:
    run, plan = planned([*planner, "--finalists", "1"], topology, job_text, options)
    is_no_such_shape = run.returncode == 2 and any("--pipeline" in it for it in options)
    if is_no_such_shape or run.returncode == 3:  # 3: no plan fits
        return None
    if run.returncode != 0:
        sys.exit(f"{run.args} ended with {run.returncode}: {run.stderr}")
    stages, replicas = len(plan["pipelines"][0]["stages"]), len(plan["pipelines"])
    return {"seconds": plan["estimate"]["iteration_time_s"], "shape": f"{stages} × {replicas}"}


def by_shape(planner: list[str], topology: str, job_text: str, devices: int) -> tuple[dict | None, list]:
    shapes = [(p, d) for p in range(1, min(devices, 8) + 1) for d in range(1, devices // p + 1) if p * d >= devices / 2]
    default = plan_of(planner, topology, job_text, [])
    return default, [plan_of(planner, topology, job_text, [f"--pipeline={p}", f"--data={d}"]) for p, d in shapes]


def by_micro_batch(planner: list[str], topology: str, job_text: str, _: int) -> tuple[dict | None, list]:
    default = plan_of(planner, topology, with_choice(job_text, "auto"), [])
    return default, [plan_of(planner, topology, with_choice(job_text, size), []) for size in (1, 2, 4, 8, 16)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planner")
    parser.add_argument("what", choices=["shapes", "micro-batches"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--topologies", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    arguments = parser.parse_args()
    planner = [str(pathlib.Path(arguments.planner).resolve()), "--threads", str(arguments.threads)]
    plans = by_shape if arguments.what == "shapes" else by_micro_batch
    print(f"| topology | devices | default | best of given {arguments.what} | lost |\n|---|--:|---|---|--:|")
    lost_all = []
    for number in range(arguments.seed, arguments.seed + arguments.topologies):
        rng = random.Random(number)
        text, devices = random_topology(rng, f"heterogeneous-{number}", 4, 2, [1, 1, 2], may_share_uplinks=False)
        default, given = plans(planner, text, job(rng), devices)
        found = [it for it in given if it]
        if not default:
            if found:
                sys.exit(f"topology {number}: no plan by default, but one with a decision given")
            print(f"| {number} | {devices} | nothing fits | nothing fits | |", flush=True)
            continue
        best = min(found, key=lambda it: it["seconds"], default=default)
        lost = default["seconds"] / best["seconds"] - 1
        lost_all.append(max(0.0, lost))
        print(
            f"| {number} | {devices} | {default['seconds']:.4g} s, {default['shape']} | {best['seconds']:.4g} s, {best['shape']} "
            f"| {100 * lost:+.2f} % |",
            flush=True,
        )
    if not lost_all:
        sys.exit("nothing fits on any of the topologies")
    print(f"\nlost: mean {100 * sum(lost_all) / len(lost_all):.2f} %, most {100 * max(lost_all):.2f} %")


if __name__ == "__main__":
    main()
