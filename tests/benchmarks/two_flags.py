#!/usr/bin/env python3
"""Does a user beat the planner with two flags?

    two_flags.py PLANNER [--clusters 0-39] [--evaluations 20000] [--csv FILE] [--scenarios] [--longer]

On random clusters (2 to 4 sites, 8 to 24 devices of two or three kinds) everything that a job can leave open is `auto`. The
plan is compared with those of 21 variants of the request: pairs of `--pipeline P --data D`, and each schedule. With
--scenarios, each of ten clusters has two scenarios in which devices leave. A cluster is lost if a variant is over 0.3 %
faster, simulated. With --longer N, clusters of 12 to 16 devices are planned without a limit on evaluations; the only
variant has N times as many. A cluster is lost if the variant is over 0.5 % faster. Each row is printed as it is done; at the
end the lost ones, the worst first.
"""
import argparse
import concurrent.futures
import csv
import os
import pathlib
import random
import tempfile

from random_cases import planned

GPUS = ["T4", "V100-16GB", "RTX-3090", "RTX-4090", "L4", "L40S", "A10", "A100-40GB", "A100-80GB", "H100"]
MODELS = ["{preset: gpt3-xl}", "{preset: llama-3-8b, sequence: 4096}", "{preset: qwen-2.5-14b, sequence: 4096}",
          "{kind: transformer, layers: 16, hidden: 2048, heads: 32, kv_heads: 8, sequence: 2048, vocabulary: 32000, norm: rms, "
          "gated: true, positions: rotary, biases: false}"]
SCHEDULES = ["gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-greedy", "interleaved, chunks: 2", "interleaved, chunks: 4"]
BAR, BAR_LONGER = 0.003, 0.005


def cluster(rng: random.Random, name: str) -> tuple[str, list[str]]:
    """A topology and the ids of its hosts' first devices."""
    kinds = rng.sample(GPUS, rng.randint(2, 3))
    while True:
        sites = [(rng.randint(1, 3), rng.choice([1, 2, 4, 8]), kinds[i] if i < len(kinds) else rng.choice(kinds))
                 for i in range(rng.randint(2, 4))]
        if 8 <= sum(hosts * gpus for hosts, gpus, _ in sites) <= 24 and len({kind for *_, kind in sites}) >= 2:
            break
    lines = [f"version: 1\nname: {name}"]
    if rng.random() < 0.4:
        lines.append("sites:")
        lines += [f"  - {{name: s{i}, uplink: {rate} Gbps, downlink: {rate} Gbps}}"
                  for i, rate in enumerate(round(rng.uniform(0.5, 10), 2) for _ in sites)]
    lines.append("devices:")
    lines += [f"  - {{site: s{i}, hosts: {hosts}, gpus_per_host: {gpus}, gpu: {kind}}}" for i, (hosts, gpus, kind) in enumerate(sites)]
    lines.append(f"links:\n  - {{within: host, latency: 6 us, bandwidth: {rng.choice([100, 200, 1200])} Gbps}}")
    lines.append(f"  - {{within: '*', latency: 0.1 ms, bandwidth: {rng.choice([1, 10, 25])} Gbps}}")
    lines += [f"  - {{between: [s{a}, s{b}], latency: {rng.randint(2, 80)} ms, bandwidth: {rng.choice([0.2, 0.5, 1, 2, 5])} Gbps}}"
              for a in range(len(sites)) for b in range(a + 1, len(sites))]
    devices = [f"s{i}/{host}:{gpu}" if gpus > 1 else f"s{i}/{host}" for i, (hosts, gpus, _) in enumerate(sites)
               for host in range(hosts) for gpu in range(gpus)]
    return "\n".join(lines) + "\n", devices


def job(model: str, batch: int, schedule: str = "auto") -> str:
    return (f"version: 1\nname: case\nmodel: {model}\n"
            f"training: {{global_batch: {batch}, micro_batch: auto, precision: bf16, optimizer: adam-18, recompute: auto}}\n"
            f"parallelism: {{pipeline: auto, data: auto, tensor: auto, schedule: {schedule}, gradient_sync: auto, optimizer_sharding: auto}}\n")


def scenario(rng: random.Random, devices: list[str]) -> str:
    leaving = rng.sample(devices, rng.randint(1, 2))
    events = [f"{{at: {rng.randint(50, 200)} s, device: \"{it}\", leave: true}}, {{at: {rng.randint(400, 900)} s, device: \"{it}\", join: true}}"
              for it in leaving]
    events.sort(key=lambda it: int(it.split()[1]))
    policy = rng.choice(["restart-without-pipeline, detection: 10 s", "restart-without-pipeline, detection: 30 s"])
    return f"version: 1\nname: leaves\nhorizon: 30 min\nevents: [{', '.join(events)}]\nrecovery: {{policy: {policy}}}\n"


def seconds(plan: dict, names: list[str]) -> float:
    if not plan:
        return float("inf")
    times = plan["finalists"][0].get("simulated", {})
    means = [times.get(name, {}).get("mean_s") for name in names]
    return sum(float("inf") if it is None else it for it in means) / len(means)


def compared(planner: str, seed: int, options: argparse.Namespace) -> dict:
    rng = random.Random(seed)
    topology, devices = cluster(rng, f"cluster-{seed}")
    model, batch = rng.choice(MODELS), rng.choice([32, 64, 128])
    with tempfile.TemporaryDirectory() as name:
        flags, names = [], ["nominal"]
        if options.scenarios:
            names = []
            for i in range(2):
                path = pathlib.Path(name) / f"scenario-{i}.yaml"
                path.write_text(scenario(rng, devices).replace("name: leaves", f"name: leaves-{i}"))
                flags += ["--scenario", str(path)]
                names.append(f"leaves-{i}")
        count = len(devices)
        shapes = [(p, d) for p in (1, 2, 3, 4, 5, 6, 8) for d in (1, 2, 3, 4, 6, 8) if p * d <= count]
        variants = [(f"--pipeline {p} --data {d}", ["--pipeline", str(p), "--data", str(d)], "auto")
                    for p, d in rng.sample(shapes, min(len(shapes), 14))]
        variants += [(schedule, [], schedule) for schedule in SCHEDULES]
        run, plan = planned([planner, "--threads", "1"], topology, job(model, batch), flags)
        evaluations = options.evaluations
        if options.longer:  # without a plan there is no number of evaluations to compare with
            evaluations = options.longer * plan["search"]["evaluations"] if plan else 0
            variants = [(f"{options.longer} x the evaluations", [], "auto")] if plan else []
        row = {"seed": seed, "devices": count, "model": model[:24], "status": run.returncode, "planned_s": seconds(plan, names)}
        best, by = float("inf"), ""
        for text, more, schedule in variants:
            _, other = planned([planner, "--threads", "1"], topology, job(model, batch, schedule),
                               [*flags, *more, "--evaluations", str(evaluations)])
            if (its := seconds(other, names)) < best:
                best, by = its, text
        loss = row["planned_s"] / best - 1 if best < float("inf") else 0.0
        return {**row, "best_variant_s": best, "variant": by, "loss": round(loss, 5)}


def formatted(row: dict) -> str:
    return "{seed:4} {devices:3} devices  {planned_s:10.4f} s  {best_variant_s:10.4f} s  {loss:+.2%}  {variant}  {model}".format(**row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planner")
    parser.add_argument("--clusters", default="0-39", help="first and last seed [%(default)s]")
    parser.add_argument("--evaluations", type=int, default=20_000, help="of each variant [%(default)s]")
    parser.add_argument("--scenarios", action="store_true", help="with two scenarios in which devices leave")
    parser.add_argument("--longer", type=int, metavar="N", help="compares with searches of N times as many evaluations, instead of variants")
    parser.add_argument("--csv", metavar="FILE", help="writes the rows")
    options = parser.parse_args()
    first, last = map(int, options.clusters.split("-"))
    planner = str(pathlib.Path(options.planner).resolve())
    rows = []
    seeds = [seed for seed in range(first, last + 1)
             if not options.longer or 12 <= len(cluster(random.Random(seed), "")[1]) <= 16]
    bar = BAR_LONGER if options.longer else BAR
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for row in pool.map(lambda seed: compared(planner, seed, options), seeds):
            print(formatted(row), flush=True)
            rows.append(row)
    rows.sort(key=lambda it: -it["loss"])
    if options.longer:
        print(f"{sum(it['planned_s'] == float('inf') for it in rows)} without a plan are not compared")
    lost, failed = [it for it in rows if it["loss"] > bar], sum(it["status"] not in (0, 3) for it in rows)
    print(f"{len(rows)} clusters: {len(lost)} lost by over {bar:.1%}, {failed} failed")
    for row in lost:
        print(formatted(row))
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
