"""Of six plans for one emulated network, the measured order is the predicted one wherever predictions differ by more than 5 %.

The network has two groups of three machines with near links, and far links between the groups; the topology lists
machines of the groups in turn. Needs root, /dev/net/tun, iperf3 and a quiet machine. Takes about 5 minutes.

usage: planned_order.py FOLDER-WITH-PROGRAMS [OUTPUT-FOLDER]
"""
import json
import random
import signal
import sys
import tempfile
from itertools import combinations
from pathlib import Path

import emulation
import lab

DIFFERENT = 0.05
# The kind of each machine's GPU: 1 is the slower one.
KINDS = {"east1": 0, "west1": 0, "east2": 0, "west2": 0, "east3": 1, "west3": 1}
MACHINES = list(KINDS)
NEAR, FAR = (5, 100), (20, 100)  # one-way latency in ms, Mbit/s
LINKS = {(a, b): NEAR if a[0] == b[0] else FAR for a in MACHINES for b in MACHINES if a != b}
LAYERS, BATCH = 6, 32
MODEL = {"kind": "transformer", "hidden": 256, "heads": 4, "sequence": 256, "vocabulary": 256}


def job(profiles, pipeline, data):
    return {"version": 1, "name": "order", "target": "pytorch", "model": {**MODEL, "layers": LAYERS},
            "training": {"global_batch": BATCH, "micro_batch": 1, "precision": "fp32"},
            "parallelism": {"pipeline": pipeline, "data": data, "schedule": "1f1b", "gradient_sync": "ring"},
            "profile": [json.loads(path.read_text(encoding="utf-8")) for path in profiles]}


def even(order, stages):
    """Pipelines of so many equal stages over machines in an order."""
    count = len(order) // stages
    pipelines = [order[p * stages:(p + 1) * stages] for p in range(count)]
    return {"schema": "dtfm-plan/1", "pipelines": [
        {"micro_batches": BATCH * (p + 1) // count - BATCH * p // count,
         "stages": [{"layers": [LAYERS * s // stages, LAYERS * (s + 1) // stages], "devices": [f"{machine}/0"]}
                    for s, machine in enumerate(machines)]} for p, machines in enumerate(pipelines)]}


def given(it, profiles, name, plan):
    """Writes a plan as dtfm-plan does, without a search."""
    stages = len(plan["pipelines"][0]["stages"])
    file = it.folder / f"{name}-given.json"
    file.write_text(json.dumps(plan), encoding="utf-8")
    return it.plan(name, job(profiles, stages, len(plan["pipelines"])), "--score", file)


def reversed_plan(path):
    """The same plan with its machines in the opposite order."""
    plan = json.loads(path.read_text(encoding="utf-8"))
    stages = [stage for pipeline in plan["pipelines"] for stage in pipeline["stages"]]
    devices = [stage["devices"] for stage in stages]
    return {"schema": "dtfm-plan/1", "pipelines": [
        {"micro_batches": pipeline["micro_batches"], "stages": [{"layers": stage["layers"], "devices": devices.pop()} for stage in pipeline["stages"]]}
        for pipeline in plan["pipelines"]]}


def make_plans(it, profiles):
    shuffled = list(MACHINES)
    random.Random(1).shuffle(shuffled)
    planned = it.plan("planned", job(profiles, "auto", "auto"))
    return {"planned": planned, "file order": given(it, profiles, "file-order", even(MACHINES, 3)),
            "random": given(it, profiles, "random", even(shuffled, 3)), "reversed": given(it, profiles, "reversed", reversed_plan(planned)),
            "all replicas": given(it, profiles, "all-replicas", even(MACHINES, 1)),
            "one pipeline": given(it, profiles, "one-pipeline", even(MACHINES, 6))}


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that namespaces are deleted
    emulation.need(["ip", "g++", "ping", "iperf3", lab.PYTHON])
    emulation.need_torch(lab.PYTHON)
    programs = lab.Programs(sys.argv[1])
    base = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="dtfm-order-")).resolve()
    base.mkdir(parents=True, exist_ok=True)
    profiles = lab.profile_layers(base, MODEL, [1])
    predicted, measured = {}, {}
    with lab.Lab(programs, base / "network", KINDS, LINKS) as it:
        it.measure()
        for name, plan in make_plans(it, profiles).items():
            predicted[name] = it.predict(plan, "--trace", plan.with_suffix(".trace.json"))
            measured[name] = lab.median(it.train(it.export(plan), profiles, 6, 2, trace=True))
            print(f"{name:12} predicted {predicted[name]:7.3f} s, measured {measured[name]:7.3f} s: {predicted[name] / measured[name] - 1:+6.1%}",
                  flush=True)
    wrong = 0
    for a, b in combinations(sorted(predicted, key=predicted.get), 2):
        if predicted[b] > predicted[a] * (1 + DIFFERENT) and measured[b] <= measured[a]:
            print(f"wrong order: {a} is predicted to be faster than {b}")
            wrong += 1
    if len(sys.argv) <= 2:
        lab.remove(base)
    print("the measured order is the predicted one" if wrong == 0 else f"{wrong} pairs in the wrong order")
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
