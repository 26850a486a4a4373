"""Predicted against measured seconds per iteration of training over emulated networks.

Every network is measured by scripts/measure.sh, layers are profiled by `train.py --profile`, dtfm-plan plans, and
the exported plan is trained in network namespaces. Messages are real. Computing is emulated by sleeping for the
profile's time, because ranks exceed cores. The prediction is that of dtfm-sim with neutral constants; nothing is
fitted. Afterwards, dtfm-calibrate fits constants to one half of the rows, which predict the other half.

Needs root, /dev/net/tun, iperf3 and a quiet machine. Takes about 15 minutes. See --help.
"""
import argparse
import csv
import json
import signal
import statistics
import sys
import tempfile
from pathlib import Path

import emulation
import lab

BAR_MEAN, BAR_WORST, BAR_CALIBRATED = 0.10, 0.20, 0.05
ITERATIONS, SKIPPED = 6, 2
COLUMNS = ["network", "latency_ms", "rate_mbps", "ranks", "schedule", "sync", "pipelines", "options", "none_s", "gloo_s",
           "predicted_s", "measured_s", "iterations_s"]

SMALL = {"kind": "transformer", "hidden": 256, "heads": 4, "sequence": 256, "vocabulary": 256, "tied": False}
WIDE = {"kind": "transformer", "hidden": 384, "heads": 6, "sequence": 128, "vocabulary": 256, "tied": False}
MODELS = {"small": SMALL, "wide": WIDE}


def uniform(count, latency_ms, rate_mbps, slow=0):
    """`slow`: the number of machines, the last ones, with the slower kind of GPU."""
    names = [f"site{i}" for i in range(count)]
    return {name: int(i >= count - slow) for i, name in enumerate(names)}, {
        (a, b): (latency_ms, rate_mbps) for a in names for b in names if a != b}


def grouped(sizes, near, far, slow=0, separator="-"):
    """Groups of machines with near links within a group and far ones between groups. With `/` as separator, groups are sites."""
    names = [f"group{g}{separator}m{g}{i}" for g, size in enumerate(sizes) for i in range(size)]
    return {name: int(i >= len(names) - slow) for i, name in enumerate(names)}, {
        (a, b): near if a.split(separator)[0] == b.split(separator)[0] else far for a in names for b in names if a != b}


NETWORKS = {
    "campus": uniform(4, 1, 200),
    "region": uniform(4, 10, 100, slow=1),
    "continent": grouped([3, 3], (5, 100), (30, 50), slow=2),
    "oceans": uniform(4, 100, 50, slow=2),
    "sites": grouped([2, 2, 2, 2], (1, 200), (40, 40), separator="/"),
    "rural": uniform(5, 50, 20, slow=1),
}


def setting(network, model, layers, batch, schedule, sync, pipeline, data, micro_batch=1, compression=None, tied=False,
            **parallelism):
    """A network and a job for it."""
    if schedule == "interleaved":
        parallelism["chunks"] = 2
    job = {"version": 1, "name": "predicted", "target": "pytorch", "model": {**MODELS[model], "layers": layers, "tied": tied},
           "training": {"global_batch": batch, "micro_batch": micro_batch, "precision": "fp32"},
           "parallelism": {"pipeline": pipeline, "data": data, "schedule": schedule, "gradient_sync": sync, **parallelism}}
    if compression:
        job["compression"] = compression
    return network, model, job


SETTINGS = [
    setting("campus", "wide", 8, 32, "gpipe", "ring", 2, 2),
    setting("campus", "wide", 8, 32, "1f1b", "sharded-ps", 2, 2),
    setting("campus", "small", 8, 16, "interleaved", "tree", 2, 2),
    setting("region", "small", 6, 24, "1f1b", "ring", 2, 2),
    setting("region", "wide", 6, 32, "zb-h1", "central-ps", 2, 2),
    setting("region", "small", 4, 16, "gpipe", "sharded-ps", 1, 4),
    setting("region", "small", 8, 16, "interleaved", "ring", 4, 1, micro_batch=2, tied=True),
    setting("continent", "small", 6, 24, "1f1b", "tree", 3, 2),
    setting("continent", "small", 6, 24, "zb-h1", "ring", 2, 3),
    setting("continent", "wide", 8, 32, "gpipe", "sharded-ps", "auto", "auto"),
    setting("oceans", "small", 4, 16, "1f1b", "ring", 2, 2),
    setting("oceans", "small", 4, 16, "gpipe", "tree", 2, 2),
    setting("oceans", "wide", 4, 24, "zb-h1", "sharded-ps", 2, 2),
    setting("oceans", "small", 4, 12, "interleaved", "central-ps", 2, 2),
    setting("sites", "small", 4, 32, "1f1b", "hierarchical", 2, 4),
    setting("sites", "small", 8, 32, "gpipe", "ring", 4, 2),
    setting("sites", "small", 4, 32, "zb-h1", "hierarchical", 2, 4, tied=True),
    setting("sites", "small", 4, 32, "1f1b", "ring", 2, 4, optimizer_sharding="zero1"),
    setting("rural", "small", 4, 16, "1f1b", "ring", "auto", "auto"),
    setting("rural", "small", 4, 16, "gpipe", "central-ps", 2, 2, compression={"activations": "8-bit", "gradients": "8-bit"}),
    setting("rural", "small", 4, 12, "zb-h1", "tree", 2, 2, overlap=True),
    setting("region", "small", 6, 24, "1f1b", "tree", 2, 2, overlap=True),
    setting("oceans", "small", 4, 16, "gpipe", "central-ps", 2, 2, overlap=True),
    setting("sites", "small", 8, 32, "1f1b", "hierarchical", 2, 4, overlap=True),
]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", metavar="FOLDER", help="with dtfm-topology, dtfm-plan, dtfm-sim, dtfm-export, dtfm-calibrate")
    parser.add_argument("-o", metavar="FOLDER", help="keeps plans, traces and measurements there, and uses measurements there [none]")
    parser.add_argument("--csv", metavar="FILE", help="writes the rows")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="[%(default)s]")
    parser.add_argument("--settings", help="numbers of the settings to run, from 0 [all of the networks]")
    parser.add_argument("--no-calibration", action="store_true")
    return parser.parse_args()


def spread(values):
    least, most = min(values), max(values)
    return f"{least}" if least == most else f"{least}..{most}"


def describe_pipelines(plan):
    """Layers of the stages and micro-batches of every pipeline: 3+3x12 3+3x12."""
    return " ".join("+".join(str(sum(last - first for first, last in layer_ranges(stage))) for stage in it["stages"]) + f"x{it['micro_batches']}"
                    for it in plan["pipelines"])


def layer_ranges(stage):
    layers = stage["layers"]
    return layers if layers and isinstance(layers[0], list) else [layers]


def run_setting(it, number, network, model, job, profiles):
    job = {**job, "profile": [json.loads(path.read_text(encoding="utf-8")) for path in profiles]}
    parallelism = job["parallelism"]
    plan = it.plan(f"setting-{number}", job)
    predicted = {transport: it.predict(plan, "--trace", plan.with_suffix(f".{transport}.trace.json"), transport=transport)
                 for transport in lab.TRANSPORTS}
    seconds = it.train(it.export(plan), profiles, ITERATIONS, SKIPPED, trace=True)
    links = NETWORKS[network][1].values()
    options = {"zero1": "optimizer_sharding" in parallelism, "overlap": "overlap" in parallelism, "8-bit": "compression" in job,
               "tied": job["model"]["tied"]}
    return plan, {"network": network, "latency_ms": spread([latency for latency, _ in links]), "rate_mbps": spread([rate for _, rate in links]),
                  "ranks": len(NETWORKS[network][0]), "schedule": parallelism["schedule"], "sync": parallelism["gradient_sync"],
                  "pipelines": describe_pipelines(json.loads(plan.read_text(encoding="utf-8"))), "options": " ".join(name for name, value in options.items() if value),
                  "none_s": f"{predicted['none']:.4f}", "gloo_s": f"{predicted['gloo']:.4f}",
                  "predicted_s": f"{predicted[lab.TRANSPORT]:.4f}", "measured_s": f"{statistics.median(seconds):.4f}",
                  "iterations_s": " ".join(f"{value:.3f}" for value in seconds)}


def write_csv(path, rows, columns=tuple(COLUMNS)):
    if path:
        with open(path, "w", encoding="ascii", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def error(row, column="predicted_s"):
    return float(row[column]) / float(row["measured_s"]) - 1


def summary(errors):
    return f"mean absolute error {statistics.mean(map(abs, errors)):.1%}, worst {max(errors, key=abs):+.1%}"


def calibrated_errors(programs, base, plans, rows, fitted):
    """Errors of the rows that were not fitted."""
    table = base / f"runs-{fitted}.csv"
    with open(table, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "topology", "plan", "seconds"])
        for number, (it, plan) in plans.items():
            if number % 2 == fitted:
                writer.writerow([f"setting {number}", it.topology(lab.TRANSPORT).relative_to(base), plan.relative_to(base), rows[number]["measured_s"]])
    some = next(iter(plans.values()))[0]
    lab.run(programs.calibrate, some.topology(lab.TRANSPORT), table, "--quiet", "-o", base / f"calibration-{fitted}.json")
    return {number: it.predict(plan, "--calibration", base / f"calibration-{fitted}.json") / float(rows[number]["measured_s"]) - 1
            for number, (it, plan) in plans.items() if number % 2 != fitted}


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that namespaces are deleted
    emulation.need(["ip", "g++", "ping", "iperf3", lab.PYTHON])
    emulation.need_torch(lab.PYTHON)
    base = Path(options.o or tempfile.mkdtemp(prefix="dtfm-predicted-")).resolve()
    base.mkdir(parents=True, exist_ok=True)
    programs = lab.Programs(options.programs)
    wanted = [int(number) for number in options.settings.split(",")] if options.settings else range(len(SETTINGS))
    wanted = [number for number in wanted if SETTINGS[number][0] in options.networks.split(",")]
    profiles = {name: lab.profile_layers(base / name, MODELS[name], [1, 2]) for name in sorted({SETTINGS[number][1] for number in wanted})}
    rows, plans = {}, {}
    for network in dict.fromkeys(SETTINGS[number][0] for number in wanted):
        with lab.Lab(programs, base / network, *NETWORKS[network]) as it:
            it.measure()
            for number in wanted:
                if SETTINGS[number][0] == network:
                    plan, row = run_setting(it, number, network, profiles=profiles[SETTINGS[number][1]], model=SETTINGS[number][1],
                                            job=SETTINGS[number][2])
                    rows[number], plans[number] = row, (it, plan)
                    write_csv(options.csv, rows.values())
                    print(f"{number:3} {row['network']:9} {row['latency_ms']:>6} ms {row['rate_mbps']:>7} Mbps {row['ranks']} ranks "
                          f"{row['schedule']:11} {row['sync']:12} {row['pipelines']:22} {row['options']:8} predicted {row['predicted_s']:>7} s, "
                          f"measured {row['measured_s']:>7} s: {error(row):+6.1%} (none {error(row, 'none_s'):+.1%}, gloo {error(row, 'gloo_s'):+.1%}); "
                          f"{row['iterations_s']}", flush=True)
    errors = [error(row) for row in rows.values()]
    print(f"{len(rows)} settings, nothing fitted: {summary(errors)}")
    for transport in ("none", "gloo"):
        print(f"with transport {transport}: {summary([error(row, f'{transport}_s') for row in rows.values()])}")
    passed = statistics.mean(map(abs, errors)) <= BAR_MEAN and max(map(abs, errors)) <= BAR_WORST
    if not options.no_calibration and len(rows) >= 10:
        halves = [list(calibrated_errors(programs, base, plans, rows, fitted).values()) for fitted in (0, 1)]
        for fitted, of_half in zip(("even", "odd"), halves):
            print(f"calibrated on the {fitted} settings, the others: {summary(of_half)}")
        passed = passed and all(statistics.mean(map(abs, of_half)) <= BAR_CALIBRATED for of_half in halves)
    if not options.o:
        lab.remove(base)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
