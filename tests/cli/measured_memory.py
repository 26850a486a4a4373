#!/usr/bin/env python3
"""The memory of a plan is that which PyTorch's allocator measured for Megatron-LM on B200s, stage by stage
(shared/data/measured/simumax-dense.csv), within 5 %. The process itself, which the allocator does not see,
does not count.

usage: measured_memory.py DTFM-PLAN DATA

Skipped (77) without the data.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PLAN, RUNS = sys.argv[1], Path(sys.argv[2]) / "measured/simumax-dense.csv"
LIMIT = 0.05
TOPOLOGY = """version: 1
devices:
  - {site: a, gpus_per_host: 8, hosts: 1, gpu: B200}
links:
  - {within: host, latency: 5 us, bandwidth: 900 GB/s}
"""
JOB = """version: 1
name: run
model: {{kind: transformer, layers: {layers}, hidden: {hidden}, heads: {heads}, kv_heads: {kv_heads}, sequence: {sequence},
  feed_forward: {feed_forward}, vocabulary: {padded}, gated: true, biases: false, norm: rms, positions: rotary, tied: false,
  attention: flash}}
training: {{global_batch: {global_batch}, micro_batch: {micro_batch}, precision: bf16, optimizer: adam-18}}
parallelism: {{tensor: {tensor}, schedule: 1f1b, gradient_sync: ring, optimizer_sharding: zero1, messages: megatron}}
"""


def plan_of(run):
    """Ranks go tensor, then data, then pipeline; the layers are cut evenly."""
    tensor, data, stages, layers = (int(run[key]) for key in ("tensor", "data", "pipeline", "layers"))

    def devices(stage, replica):
        first = (stage * data + replica) * tensor
        return [f"a/0:{rank}" for rank in range(first, first + tensor)]

    return {"pipelines": [{"micro_batches": int(run["micro_batches"]),
                           "stages": [{"layers": [layers * stage // stages, layers * (stage + 1) // stages],
                                       "devices": devices(stage, replica)} for stage in range(stages)]}
                          for replica in range(data)]}


def errors_of(run):
    """By stage: (estimated − measured) ÷ measured."""
    multiple = 128 * int(run["tensor"])  # to which Megatron-LM pads the vocabulary
    padded = -(-int(run["vocabulary"]) // multiple) * multiple
    Path("net.yaml").write_text(TOPOLOGY, encoding="utf-8")
    Path("job.yaml").write_text(JOB.format(**run, padded=padded), encoding="utf-8")
    Path("plan.json").write_text(json.dumps(plan_of(run)), encoding="utf-8")
    done = subprocess.run([PLAN, "net.yaml", "--job", "job.yaml", "--score", "plan.json", "--format", "json", "--quiet"],
                          capture_output=True, text=True, check=True)
    plan = json.loads(done.stdout)
    memory = {it["device"]: it["needed_bytes"] - it["process_bytes"] for it in plan["estimate"]["memory"]}
    measured = [float(gib) * 2**30 for gib in run["allocated_by_stage_gib"].split()]
    stages = plan["pipelines"][0]["stages"]
    return [memory[stage["devices"][0]] / bytes_ - 1 for stage, bytes_ in zip(stages, measured, strict=True)]


def main():
    if not RUNS.exists():
        print("skipped: no data of measured runs")
        return 77
    lines = [line for line in RUNS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for run in csv.DictReader(lines):
            errors = errors_of(run)
            print(run["case"], " ".join(f"{error:+.1%}" for error in errors))
            worst = max(worst, *map(abs, errors))
        os.chdir("/")
    print(f"worst: {worst:.1%}")
    return 1 if worst > LIMIT or worst == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
