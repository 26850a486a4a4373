#!/usr/bin/env python3
"""The all-to-alls of random expert groups end when SimGrid says, within 1e-6.

usage: expert_groups.py DTFM-SIM SIMGRID-REPLAY|none    (77: no SimGrid)

For each of 50 random stages, on hosts with NVLink ports and network cards in several sites, this writes the files
of a plan, and a task graph of its own: computations, after each of which every device sends to all others of its
expert group. They share only the durations of the computations, which are those of the simulator.
"""
import csv
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

PROBLEMS = 50
SEQUENCE, HIDDEN, EXPERTS, ELEMENT = 128, 64, 8, 2
MODEL = {"model_type": "mixtral", "vocab_size": 1000, "hidden_size": HIDDEN, "intermediate_size": 128,
         "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": SEQUENCE,
         "num_local_experts": EXPERTS, "tie_word_embeddings": False}


def random_problem(rng):
    """Rates in bytes/s, latencies in s."""
    hosts, gpus = rng.choice([(1, 4), (1, 8), (2, 2), (2, 4), (4, 2)])
    devices = hosts * gpus
    return {
        "hosts": hosts, "gpus": gpus, "sites": rng.randint(1, hosts), "devices": devices,
        "expert": rng.choice([e for e in (2, 4, 8) if devices % e == 0]), "layers": rng.randint(1, 3),
        "micro_batches": rng.randint(1, 3), "micro_batch": devices * rng.randint(1, 2), "top": rng.randint(1, 2),
        "port": rng.uniform(1e9, 4e9), "inside": rng.uniform(1e-6, 1e-4),
        "lan": rng.uniform(1e8, 1e9), "local": rng.uniform(1e-5, 1e-3),
        "card": rng.uniform(5e7, 2e8), "cards": rng.uniform(5e7, 4e8),
        "pipe": rng.uniform(1e7, 1e8), "far": rng.uniform(1e-3, 5e-2),
    }


def site_of(it, device):
    return device // it["gpus"] * it["sites"] // it["hosts"]


def write_plan(it, folder):
    bits = {key: f"{8 * it[key]!r} bps" for key in ("port", "lan", "card", "cards", "pipe")}
    hosts = [host * it["sites"] // it["hosts"] for host in range(it["hosts"])]
    devices = [f"  - {{site: s{site}, hosts: {hosts.count(site)}, gpus_per_host: {it['gpus']}, gpu: H100, "
               f"uplink: {bits['card']}, downlink: {bits['card']}, host_uplink: {bits['cards']}, "
               f"host_downlink: {bits['cards']}}}" for site in range(it["sites"])]
    Path(folder, "topology.yaml").write_text("\n".join([
        "version: 1", "devices:", *devices, "links:",
        f"  - {{within: host, bandwidth: {bits['port']}, shared: sender, latency: {it['inside']!r} s}}",
        f"  - {{within: '*', bandwidth: {bits['lan']}, latency: {it['local']!r} s}}",
        f"  - {{between: ['*', '*'], bandwidth: {bits['lan']}, capacity: {bits['pipe']}, latency: {it['far']!r} s}}",
        ""]))
    model = dict(MODEL, num_hidden_layers=it["layers"], num_experts_per_tok=it["top"])
    Path(folder, "config.json").write_text(json.dumps(model))
    Path(folder, "job.yaml").write_text(
        "version: 1\nname: experts\nmodel: {hf: config.json, sequence: 128}\n"
        f"training: {{global_batch: {it['micro_batch'] * it['micro_batches']}, micro_batch: {it['micro_batch']}, "
        "precision: bf16, optimizer: adam-18, recompute: none}\n"
        f"parallelism: {{pipeline: 1, data: 1, tensor: 1, stage_data: {it['devices']}, expert: {it['expert']}, "
        "schedule: 1f1b, gradient_sync: ring}\n")
    names, left = [], {}
    for host, site in enumerate(hosts):
        number = left[site] = left.get(site, -1) + 1
        names += [f"s{site}/{number}:{gpu}" for gpu in range(it["gpus"])]
    stage = {"layers": [0, it["layers"]], "devices": names}
    Path(folder, "plan.json").write_text(json.dumps(
        {"schema": "dtfm-plan/1", "pipelines": [{"micro_batches": it["micro_batches"], "stages": [stage]}]}))


def links_between(it, a, b):
    """Returns names of the links from a to b, and their latency."""
    if a // it["gpus"] == b // it["gpus"]:
        return [f"port{a}"], it["inside"]
    cards = [f"up{a}", f"hostup{a // it['gpus']}", f"down{b}", f"hostdown{b // it['gpus']}", f"lan{a}_{b}"]
    if site_of(it, a) == site_of(it, b):
        return cards, it["local"]
    return cards + [f"pipe{site_of(it, a)}_{site_of(it, b)}"], it["far"]


def graph_of(it, seconds):
    """`seconds`: of the computation of a pass, by its letter."""
    n = it["devices"]
    text = [f"host h{d} 1 fifo" for d in range(n)]
    text += [f"link port{d} {it['port']!r} 0 shared" for d in range(n)]
    for way in ("up", "down"):
        text += [f"link {way}{d} {it['card']!r} 0 shared" for d in range(n)]
        text += [f"link host{way}{h} {it['cards']!r} 0 shared" for h in range(it["hosts"])]
    text += [f"link pipe{s}_{t} {it['pipe']!r} 0 shared" for s in range(it["sites"]) for t in range(it["sites"])]
    text += [f"link lan{a}_{b} {it['lan']!r} 0 shared" for a in range(n) for b in range(n)]
    text += [f"route h{a} h{b} {' '.join(links_between(it, a, b)[0])}" for a in range(n) for b in range(n) if a != b]
    messages = 2 * it["layers"]  # to the experts and back, in each layer
    tokens = it["micro_batch"] * SEQUENCE * it["top"] * HIDDEN * ELEMENT
    size = messages * tokens / n / it["expert"]
    before = []
    for m in range(it["micro_batches"]):
        for number, letter in enumerate("FB"):
            after = f" after {','.join(before)}" if before else ""
            computed = [f"{letter}{m}_{d}" for d in range(n)]
            text += [f"compute {name} h{d} {seconds[letter]!r}{after}" for d, name in enumerate(computed)]
            before = []
            for a in range(n):
                for b in range(a // it["expert"] * it["expert"], (a // it["expert"] + 1) * it["expert"]):
                    if a == b:
                        continue
                    name = f"AA_m{m}_r{a}_k{2 * b + number}"
                    text.append(f"delay wait_{name} {messages * links_between(it, a, b)[1]!r} after {','.join(computed)}")
                    text.append(f"flow {name} h{a} h{b} {size!r} after wait_{name}")
                    before.append(name)
    return "\n".join(text) + "\n"


def rows(command, folder):
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if run.returncode != 0:
        raise SystemExit(f"{command}: {run.stderr}")
    return {row["id"]: row for row in csv.DictReader(run.stdout.splitlines())}


def main(simulator, replay):
    if replay == "none":
        print("skipped: no SimGrid (Debian: libsimgrid-dev) when this was configured")
        return 77
    worst, compared, faults = 0.0, 0, []
    for seed in range(PROBLEMS):
        it = random_problem(random.Random(seed))
        with tempfile.TemporaryDirectory() as folder:
            write_plan(it, folder)
            ours = rows([simulator, "topology.yaml", "plan.json", "--job", "job.yaml", "--iterations", "1",
                         "--tasks", "-"], folder)
            tasks = {name: row for name, row in ours.items() if " AA " in name}
            first = {letter: ours[f"i0 {letter} p0 s0 m0 r0"] for letter in "FB"}
            seconds = {letter: float(row["finish"]) - float(row["start"]) for letter, row in first.items()}
            Path(folder, "graph.txt").write_text(graph_of(it, seconds))
            theirs = {name: row for name, row in rows([replay, "graph.txt", "exact"], folder).items()
                      if name.startswith("AA")}
            if len(tasks) != len(theirs):
                faults.append(f"problem {seed}: {len(tasks)} messages, expected {len(theirs)}")
            for name, row in tasks.items():
                m, r, k = name.split()[-3:]
                a, b = float(row["finish"]), float(theirs[f"AA_{m}_{r}_{k}"]["finish"])
                worst = max(worst, abs(a - b) / b)
                compared += 1
                if abs(a - b) > 1e-6 * b:
                    faults.append(f"problem {seed}, {name}: {a} s, but SimGrid says {b} s")
    print(f"{PROBLEMS} problems, {compared} messages, the largest distance {worst:.2g}")
    print(*faults[:10], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
