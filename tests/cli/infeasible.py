#!/usr/bin/env python3
"""Jobs that do not fit in memory are answered with few evaluations, with the reason, and every change that is advised
makes a plan fit.

usage: infeasible.py DTFM-PLAN DTFM-SIM
"""
import json
import re
import subprocess
import sys
from pathlib import Path

from simulate import PLAN, check, main

# Where a shortage is proven: the largest number of any case. Otherwise the limit of a search,
# max_unfit_evaluations in planner/search/iteration_time/search_effort.cpp, of up to 12 devices.
MAX_EVALUATIONS = {True: 159, False: 50_000}
LINKS = """\
links:
  - {within: host, latency: 10 us, bandwidth: 400 Gbps}
  - {within: "*", latency: 0.1 ms, bandwidth: 25 Gbps}
  - {between: ["*", "*"], rtt: 30 ms, bandwidth: 1 Gbps}
"""


def topology(hosts):
    """`hosts`: (site, number of hosts, GPUs per host, GPU)."""
    devices = "".join(f"  - {{site: {site}, hosts: {count}, gpus_per_host: {gpus}, gpu: {gpu}}}\n" for site, count, gpus, gpu in hosts)
    return f"version: 1\nname: cluster\ndevices:\n{devices}{LINKS}"


def job(model, training="", parallelism="", batch=64):
    """Everything is open, unless `training` or `parallelism` fix it."""
    train = {"micro_batch": "auto", "recompute": "auto", "precision": "bf16", "optimizer": "adam-18", "global_batch": str(batch)}
    parallel = {"pipeline": "auto", "data": "auto", "tensor": "auto", "schedule": "auto", "gradient_sync": "auto", "optimizer_sharding": "auto"}
    for given, keys in ((training, train), (parallelism, parallel)):
        keys.update(re.findall(r"(\w+): ([^,]+)", given))
    text = [", ".join(f"{key}: {value}" for key, value in keys.items()) for keys in (train, parallel)]
    return f"version: 1\nname: job\nmodel: {{preset: {model}}}\ntraining: {{{text[0]}}}\nparallelism: {{{text[1]}}}\n"


MIXED = (("lab", 2, 4, "RTX-4090"), ("cloud", 1, 8, "A100-80GB"), ("home", 2, 1, "RTX-3090"))
# Name: hosts, model, training, parallelism, more options, the reason.
CASES = {
    "405 B parameters": (MIXED, "llama-3.1-405b", "", "", (), "the state of 405.9 B parameters needs 7.305 TB at 18 bytes"),
    "70 B parameters": (MIXED, "llama-3-70b", "", "", (), "the state of 70.55 B parameters needs 1.27 TB at 18 bytes"),
    "many small devices": ((("lab", 60, 1, "V100-16GB"),), "llama-3.1-405b", "", "", (), "the state of"),
    "one host only": ((("lab", 1, 8, "A100-40GB"),), "llama-3-70b", "", "", (), "all 8 devices have"),
    "one stage": ((("lab", 4, 8, "A100-40GB"),), "llama-3-8b", "", "optimizer_sharding: none, tensor: 1", ("--pipeline", 1), "the state of 8.03 B parameters needs"),
    "many replicas": ((("lab", 2, 8, "A100-40GB"),), "llama-3-8b", "", "optimizer_sharding: none", ("--data", 8), "in 8 replicas"),
    "a large micro-batch": ((("lab", 2, 8, "A100-40GB"),), "llama-3-8b", "micro_batch: 64, recompute: none", "", (), ""),
    "no recomputation": ((("lab", 1, 4, "A100-40GB"),), "llama-3-8b", "micro_batch: 8, recompute: none", "", (), ""),
    "one device per stage": ((("lab", 8, 1, "V100-16GB"),), "llama-3-8b", "", "tensor: 1", (), ""),
    "the last layer": ((("lab", 2, 8, "A100-40GB"),), "llama-3-8b", "micro_batch: 8", "schedule: gpipe, flush: 8, tensor: 1", (), "layer 31, with the head, alone needs 55.57 GB"),
    "zero1 of every replica": ((("lab", 2, 8, "V100-16GB"),), "llama-3-8b", "", "optimizer_sharding: zero1, pipeline: 1, tensor: 1", (), ""),
    "a target": ((("lab", 1, 8, "A100-40GB"),), "llama-3-8b", "", "data: 8", ("--target", "megatron"), ""),
    "heterogeneous devices": ((("lab", 4, 1, "RTX-3090"), ("cloud", 1, 2, "A100-40GB")), "llama-3-8b", "", "", (), ""),
}


def planned(name, hosts, text, options=()):
    """The exit code, the plan and the messages of the search."""
    Path(f"{name}.yaml").write_text(topology(hosts), encoding="utf-8")
    Path(f"{name}-job.yaml").write_text(text, encoding="utf-8")
    done = subprocess.run([PLAN, f"{name}.yaml", "--job", f"{name}-job.yaml", "--threads", "1", "--quiet", "-o", f"{name}.json", *map(str, options)],
                          capture_output=True, text=True, check=False)
    plan = json.loads(Path(f"{name}.json").read_text(encoding="utf-8")) if done.returncode in (0, 3) else {}
    return done.returncode, plan, done.stderr


def changed(change, hosts, training, parallelism, options):
    """The same job and cluster with an advised change."""
    hosts = list(hosts)
    options = list(options)
    for key, value in change.get("settings", {}).items():
        if key in ("pipeline", "data") and f"--{key}" in options:
            options[options.index(f"--{key}") + 1] = value
            continue
        if key in ("micro_batch", "recompute", "recompute_layers", "optimizer"):
            training += f", {key}: {value}"
        else:
            parallelism += f", {key}: {value}"
    if "target" in change:
        at = options.index("--target")
        del options[at:at + 2]
    if "more_hosts" in change:
        site = change["like"].split("/")[0]
        hosts = [(name, count + (change["more_hosts"] if name == site else 0), gpus, gpu) for name, count, gpus, gpu in hosts]
    return hosts, training, parallelism, options


def test_infeasible_jobs():
    for name, (hosts, model, training, parallelism, options, reason) in CASES.items():
        code, plan, err = planned("case", hosts, job(model, training, parallelism), options)
        check(code == 3, name, code, err)
        if code != 3:
            continue
        first = next(it for it in plan["warnings"] if it.startswith("no plan"))
        changes = plan["out_of_memory"]["changes"]
        evaluations, is_proven = plan["search"]["evaluations"], "shortage" in plan["out_of_memory"]
        check(re.search(reason, first), name, first)
        check(is_proven or not reason, name, "is not proven")
        check(changes, name, "has no advice")
        check(plan["search"]["stopped"] == "no-fit", name, plan["search"]["stopped"])
        check(evaluations <= MAX_EVALUATIONS[is_proven], name, evaluations)
        for change in changes:
            if "gpu_memory_bytes" in change:
                continue
            new_hosts, new_training, new_parallelism, new_options = changed(change, hosts, training, parallelism, options)
            code, _, err = planned("changed", new_hosts, job(model, new_training, new_parallelism), [*new_options, "--evaluations", 1000])
            check(code == 0, name, change, code, err)


if __name__ == "__main__":
    sys.exit(main(globals()))
