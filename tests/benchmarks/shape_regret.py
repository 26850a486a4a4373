#!/usr/bin/env python3
"""How much a default plan loses against the best of plans whose shape is given.

Few devices of unlike GPUs in a few sites, drawn by a seed; a small and a large model. For each topology, the plan by
default and one for every number of stages and replicas that the devices allow, all by their estimates: what the
search by itself should have found.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

GPUS = ["T4", "V100-16GB", "RTX-3090", "L4", "A10", "A100-40GB"]


def topology(rng: random.Random, name: str) -> tuple[str, int]:
    sites = rng.randint(1, 4)
    lines = [f"version: 1\nname: {name}\ndevices:"]
    count = 0
    for site in range(sites):
        for _ in range(rng.randint(1, 2)):
            hosts, gpus = rng.randint(1, 4), rng.choice([1, 1, 2])
            lines.append(f"  - {{site: s{site}, hosts: {hosts}, gpus_per_host: {gpus}, gpu: {rng.choice(GPUS)}}}")
            count += hosts * gpus
    lines.append("links:\n  - {within: host, latency: 5 us, bandwidth: 100 Gbps}")
    lines.append(f"  - {{within: '*', latency: 0.3 ms, bandwidth: {rng.choice([1, 5, 10])} Gbps}}")
    for a in range(sites):
        for b in range(a + 1, sites):
            milliseconds, gbps = rng.randint(10, 150), round(rng.uniform(0.2, 2), 2)
            lines.append(f"  - {{between: [s{a}, s{b}], latency: {milliseconds} ms, bandwidth: {gbps} Gbps}}")
    return "\n".join(lines) + "\n", count


def job(layers: int, hidden: int, batch: int) -> str:
    return (
        f"version: 1\nname: l{layers}\nmodel: {{kind: transformer, layers: {layers}, hidden: {hidden}, heads: 16, sequence: 1024, "
        f"vocabulary: 50257}}\ntraining: {{global_batch: {batch}, micro_batch: 1, precision: fp16, recompute: full}}\n"
    )


def planned(planner: str, folder: pathlib.Path, options: list[str]) -> dict | None:
    command = [planner, "topology.yaml", "--job", "job.yaml", "--quiet", "--finalists", "1", "-o", "plan.json", *options]
    run = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if run.returncode in (2, 3):  # no such shape, or no plan that fits
        return None
    if run.returncode != 0:
        sys.exit(f"{command} ended with {run.returncode}: {run.stderr}")
    plan = json.loads((folder / "plan.json").read_text())
    stages, replicas = len(plan["pipelines"][0]["stages"]), len(plan["pipelines"])
    return {"seconds": plan["estimate"]["iteration_time_s"], "shape": f"{stages} × {replicas}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("planner")
    parser.add_argument("--topologies", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--options", nargs="*", default=[], help="of every run by default, as --options=--evaluations=100000")
    arguments = parser.parse_args()
    arguments.planner = str(pathlib.Path(arguments.planner).resolve())
    print("| topology | devices | default | best of all given shapes | lost |\n|---|--:|---|---|--:|")
    lost_all = []
    for number in range(arguments.seed, arguments.seed + arguments.topologies):
        rng = random.Random(number)
        text, devices = topology(rng, f"unlike-{number}")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "topology.yaml").write_text(text)
            (folder / "job.yaml").write_text(job(rng.choice([8, 16, 24]), rng.choice([1024, 2048]), rng.choice([32, 64, 128])))
            default = planned(arguments.planner, folder, arguments.options)
            shapes = [(p, d) for p in range(1, min(devices, 8) + 1) for d in range(1, devices // p + 1) if p * d >= devices / 2]
            given = [planned(arguments.planner, folder, [f"--pipeline={p}", f"--data={d}"]) for p, d in shapes]
        found = [it for it in given if it]
        if not default or not found:
            print(f"| {number} | {devices} | {default} | {len(found)} shapes | |", flush=True)
            continue
        best = min(found, key=lambda it: it["seconds"])
        lost = default["seconds"] / best["seconds"] - 1
        lost_all.append(max(0.0, lost))
        print(
            f"| {number} | {devices} | {default['seconds']:.4g} s, {default['shape']} | {best['seconds']:.4g} s, {best['shape']} "
            f"| {100 * lost:+.2f} % |",
            flush=True,
        )
    print(f"\nlost: mean {100 * sum(lost_all) / len(lost_all):.2f} %, most {100 * max(lost_all):.2f} %")


if __name__ == "__main__":
    main()
