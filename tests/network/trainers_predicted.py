"""Predicted against measured seconds per iteration of trainers over emulated networks.

As predicted.py, but for the trainers of python/requirements-trainers.txt, each planned with its target and run from what
dtfm-export writes, in blocks that sleep (sleeping.py). Every third row is set aside: it was chosen before anything was
measured, and is not looked at while the model is changed (--aside measures them). With --order, six plans of one network
per trainer, of which those that differ by over 5 % must come out in the predicted order.

Needs root, /dev/net/tun, iperf3 and a quiet machine. See --help.
"""
import argparse
import itertools
import json
import os
import re
import signal
import statistics
import sys
import tempfile
from pathlib import Path

import emulation
import lab
from emulation import ROOT
from predicted import describe_pipelines, error, grouped, summary, uniform, write_csv

sys.path.append(str(ROOT / "tests/trainers"))
from processes import Failed, run_together  # noqa: E402

BAR_MEAN, BAR_WORST, DIFFERENT = 0.04, 0.10, 0.05
STEPS, SKIPPED, LIMIT_S = 6, 2, 600
# DeepSpeed and torch.distributed.pipelining wait for the receiver; the runtime posts its receives ahead.
TRANSPORT = {"deepspeed": "gloo", "pytorch-pipelining": "gloo", "pytorch": "tcp"}
MODEL = {"kind": "transformer", "hidden": 256, "heads": 4, "sequence": 256, "vocabulary": 256, "positions": "rotary", "norm": "rms",
         "gated": True, "biases": False, "feed_forward": 768}
MIXTURE = {**{key: value for key, value in MODEL.items() if key != "feed_forward"},
           "experts": {"count": 8, "per_token": 2, "width": 384}}
COLUMNS = ["number", "aside", "trainer", "network", "schedule", "pipelines", "options", "predicted_s", "measured_s", "steps_s"]
NETWORKS = {
    "metro": uniform(4, 5, 200),
    "region": uniform(4, 20, 100),
    "two-sites": grouped([2, 2], (2, 200), (30, 60), slow=1),
    "rural": uniform(4, 40, 30, slow=1),
    "sites": grouped([2, 2], (1, 200), (20, 100), separator="/"),
    "metros": grouped([2, 2], (3, 400), (10, 150), slow=2, separator="/"),
    "quads": grouped([4, 4], (2, 200), (20, 100), separator="/"),
    "mixed": ({"a0": 0, "a1": 0, "b0": 0, "b1": 1, "c0": 0, "c1": 1},
              {(a, b): (3, 150) if a[0] == b[0] else (15, 80) if {a[0], b[0]} == {"a", "b"} else (50, 40)
               for a in ("a0", "a1", "b0", "b1", "c0", "c1") for b in ("a0", "a1", "b0", "b1", "c0", "c1") if a != b}),
}
CONTEXTS = {"sites": 2, "metros": 2, "quads": 4}  # degrees: stages must be inside sites


def setting(trainer, network, schedule, pipeline, data, layers=8, batch=32, tied=False, model=None, **parallelism):
    if schedule == "interleaved":
        parallelism["chunks"] = 2
    return trainer, network, {
        "version": 1, "name": "trainers", "target": trainer, "model": {**(model or MODEL), "layers": layers, "tied": tied},
        "training": {"global_batch": batch, "micro_batch": 1, "precision": "fp32"},
        "parallelism": {"pipeline": pipeline, "data": data, "schedule": schedule, **parallelism}}


SETTINGS = [
    setting(trainer, network, schedule, pipeline, data, **more)
    for network in ("metro", "region", "two-sites", "rural", "mixed")
    for six in (6 if network == "mixed" else 4,)
    for trainer, schedule, pipeline, data, more in (
        ("deepspeed", "1f1b-blocking", six, 1, {"layers": 12 if six == 6 else 8, "batch": 16}),
        ("deepspeed", "1f1b-blocking", six // 2, 2, {"layers": 6 if six == 6 else 8, "optimizer_sharding": "zero1"}),
        ("pytorch-pipelining", "gpipe", 2, six // 2, {"batch": 24 if six == 6 else 16}),
        ("pytorch-pipelining", "1f1b-blocking", six, 1, {"layers": 12 if six == 6 else 8, "batch": 12}),
        ("pytorch-pipelining", "interleaved", 2, six // 2, {"batch": 24 if six == 6 else 16}),
        ("pytorch-pipelining", "1f1b", six // 2, 2, {"layers": 6 if six == 6 else 8, "tied": True}),
        ("pytorch-pipelining", "zb-h1", six, 1, {"layers": 12 if six == 6 else 8, "batch": 12}),
        ("pytorch", "1f1b", 2, six // 2, {"batch": 24 if six == 6 else 16, "gradient_sync": "tree", "overlap": True}),
    )] + [
    setting("pytorch-pipelining", network, schedule, 2, data, **more)
    for network in ("metro", "two-sites", "mixed", "sites", "metros", "quads")
    for data in (3 if network == "mixed" else 2,)
    for schedule, data, more in (
        ("1f1b", data, {"optimizer_sharding": "zero1", "batch": 24 if data == 3 else 16}),
        ("1f1b-blocking", data, {"optimizer_sharding": "zero1", "batch": 24 if data == 3 else 16, "model": MIXTURE}),
        *([("gpipe", 1, {"context": CONTEXTS[network], "batch": 12}),
           ("1f1b", 1, {"context": CONTEXTS[network], "batch": 12, "optimizer_sharding": "zero1"})] if network in CONTEXTS else []),
    )] + [
    setting("pytorch-pipelining", network, schedule, 4, 1, batch=24)
    for network in ("region", "two-sites", "rural") for schedule in ("1f1b", "zb-h1", "eager-1f1b", "zb-greedy")]


def is_aside(number):
    return number % 3 == 2


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", metavar="FOLDER", help="with dtfm-topology, dtfm-plan, dtfm-sim, dtfm-export")
    parser.add_argument("--python", metavar="FILE", default=str(ROOT / "build/trainers/bin/python"), help="[%(default)s]")
    parser.add_argument("-o", metavar="FOLDER", help="keeps plans and measurements there, and uses measurements there [none]")
    parser.add_argument("--csv", metavar="FILE", help="writes the rows")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="[%(default)s]")
    parser.add_argument("--settings", help="numbers of the settings to run, from 0 [all of the networks]")
    parser.add_argument("--aside", action="store_true", help="runs the rows set aside instead of the others")
    parser.add_argument("--order", action="store_true", help="compares the order of six plans per trainer instead")
    options = parser.parse_args()
    options.networks = options.networks.split(",")
    if unknown := [name for name in options.networks if name not in NETWORKS]:
        parser.error(f"there is no network {unknown[0]}: --networks must be of {','.join(NETWORKS)}")
    return options


def block_profiles(folder, model, python):
    """Profiles of a model on two kinds of GPU: what blocks sleep, and what was measured of the layers with blocks that sleep.
    (Embedding and head are computed, and gradients are accumulated.)"""
    slept = lab.profile_layers(folder, model, [1], python)
    measured = [lab.measure_layers(folder / f"measured-{kind}.json", model, [1], lab.GPUS[kind], python, ROOT / "tests/network/sleeping.py", path)
                for kind, path in enumerate(slept)]
    return slept, [lab.scaled_profile(path, path, lab.GPUS[kind], 1) for kind, path in enumerate(measured)]


def commands(it, folder, profiles, python, trainer, steps):
    """Of all ranks of an export, with their environments."""
    rows = json.loads((folder / "rank_table.json").read_text(encoding="utf-8"))
    machines = {address: machine for machine, address in it.network.addresses.items()}
    addresses = [row.get("address", row["host"]) for row in rows]
    made = []
    for rank, address in enumerate(addresses):
        machine = machines[address]
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(len(rows)), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1",
                           MASTER_ADDR=addresses[0], MASTER_PORT=str(lab.PORT), OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu",
                           CUDA_VISIBLE_DEVICES="", GLOO_SOCKET_IFNAME="wan0", PYTHONDONTWRITEBYTECODE="1")
        slept, profile = (of_kind[it.machines[machine]] for of_kind in profiles)
        command = it.on(machine, python, ROOT / "tests/network/sleeping.py", slept, folder / "train.py", "--steps", steps)
        if trainer == "pytorch":
            command = it.on(machine, python, folder / "train.py", "--device", "cpu", "--steps", steps, "--log", folder / "log.jsonl",
                            "--emulate-compute", profile)
        made.append((command, environment))
    return made


def train(it, folder, profiles, python, trainer):
    """Seconds of the steps after the first ones."""
    (folder / "log.jsonl").unlink(missing_ok=True)
    try:
        outputs = run_together(commands(it, folder, profiles, python, trainer, STEPS), LIMIT_S)
    except Failed as failure:
        sys.exit(str(failure))
    if trainer == "pytorch":
        seconds = [json.loads(line)["seconds"] for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    else:
        seconds = [float(it) for output in outputs for it in re.findall(r"^step \d+ .* seconds ([0-9.]+)$", output, re.MULTILINE)]
    return seconds[SKIPPED:]


def measure(it, name, job, profiles, python):
    """Plans a job and trains the plan. Returns the plan's file, predicted and measured seconds."""
    trainer = job["target"]
    transport = TRANSPORT[trainer]
    plan = it.plan(name, job, transport=transport)
    predicted = it.predict(plan, transport=transport)
    seconds = train(it, it.export(plan, transport=transport, target=trainer), profiles, python, trainer)
    return plan, predicted, seconds


def run_settings(options, base, programs, profiles):
    wanted = [int(number) for number in options.settings.split(",")] if options.settings else \
        [number for number in range(len(SETTINGS)) if is_aside(number) == options.aside]
    wanted = [number for number in wanted if SETTINGS[number][1] in options.networks]
    if not wanted:
        sys.exit("trainers_predicted.py: none of --settings is of --networks")
    rows = []
    for network in dict.fromkeys(SETTINGS[number][1] for number in wanted):
        with lab.Lab(programs, base / network, *NETWORKS[network]) as it:
            it.measure()
            for number in wanted:
                trainer, of_network, job = SETTINGS[number]
                if of_network != network:
                    continue
                of_model = profiles["experts" in job["model"]]
                job = {**job, "profile": [json.loads(path.read_text(encoding="utf-8")) for path in of_model[1]]}
                plan, predicted, seconds = measure(it, f"setting-{number}", job, of_model, options.python)
                parallelism = job["parallelism"]
                rows.append({"number": number, "aside": int(is_aside(number)), "trainer": trainer, "network": network,
                             "schedule": parallelism["schedule"], "pipelines": describe_pipelines(json.loads(plan.read_text(encoding="utf-8"))),
                             "options": " ".join(key for key in ("optimizer_sharding", "overlap", "context") if key in parallelism)
                             + " experts" * ("experts" in job["model"]),
                             "predicted_s": f"{predicted:.4f}", "measured_s": f"{statistics.median(seconds):.4f}",
                             "steps_s": " ".join(f"{value:.3f}" for value in seconds)})
                print(f"{number:3} {trainer:18} {network:9} {parallelism['schedule']:13} {rows[-1]['pipelines']:24} predicted {predicted:7.3f} s, "
                      f"measured {statistics.median(seconds):7.3f} s: {error(rows[-1]):+6.1%}", flush=True)
                write_csv(options.csv, rows, COLUMNS)
    passed = True
    for trainer in TRANSPORT:
        errors = [error(row) for row in rows if row["trainer"] == trainer]
        if errors:
            print(f"{trainer}: {len(errors)} rows, {summary(errors)}")
            passed = passed and statistics.mean(map(abs, errors)) <= BAR_MEAN and max(map(abs, errors)) <= BAR_WORST
    return passed


SHAPES = [(6, 1), (3, 2), (2, 3)]  # stages, replicas
VARIANTS = {  # of a trainer: schedule and more
    "deepspeed": [("1f1b-blocking", {}), ("1f1b-blocking", {"recompute": "full"})],
    "pytorch-pipelining": [("gpipe", {}), ("1f1b", {})],
    "pytorch": [("gpipe", {}), ("1f1b", {})],
}


def run_order(options, base, programs, profiles):
    """Six plans per trainer: given degrees, each with two schedules or recomputations."""
    wrong = 0
    with lab.Lab(programs, base / "order", *NETWORKS["mixed"]) as it:
        it.measure()
        for trainer, variants in VARIANTS.items():
            predicted, measured = {}, {}
            for (pipeline, data), (schedule, training) in itertools.product(SHAPES, variants):
                job = setting(trainer, "mixed", schedule, pipeline, data, layers=12, batch=24)[2]
                job["training"].update(training)
                job["profile"] = [json.loads(path.read_text(encoding="utf-8")) for path in profiles[False][1]]
                name = " ".join([trainer, f"{pipeline}x{data}", schedule, *training])
                _, predicted[name], seconds = measure(it, name.replace(" ", "-"), job, profiles[False], options.python)
                measured[name] = statistics.median(seconds)
                print(f"{name:36} predicted {predicted[name]:7.3f} s, measured {measured[name]:7.3f} s", flush=True)
            for a, b in itertools.combinations(sorted(predicted, key=predicted.get), 2):
                if predicted[b] > predicted[a] * (1 + DIFFERENT) and measured[b] <= measured[a]:
                    print(f"wrong order: {a} is predicted to be faster than {b}")
                    wrong += 1
    return wrong == 0


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that namespaces are deleted
    emulation.need(["ip", "g++", "ping", "iperf3", lab.PYTHON])
    emulation.need_torch(lab.PYTHON)
    emulation.need_torch(options.python)
    base = Path(options.o or tempfile.mkdtemp(prefix="dtfm-trainers-")).resolve()
    base.mkdir(parents=True, exist_ok=True)
    profiles = {"experts" in model: block_profiles(base / name, model, options.python)
                for name, model in (("blocks", MODEL), ("mixtures", MIXTURE))}
    passed = (run_order if options.order else run_settings)(options, base, lab.Programs(options.programs), profiles)
    if not options.o:
        lab.remove(base)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
