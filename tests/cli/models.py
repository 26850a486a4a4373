#!/usr/bin/env python3
"""dtfm-plan --describe-model: parameters, active parameters and operations of published models are those
that transformers counts (shared/data/models/README.md), per model and per kind of layer.

usage: models.py DTFM-PLAN DATA

Skipped (77) without the data.
"""
import csv
import json
import subprocess
import sys
from pathlib import Path

PLAN, DATA = sys.argv[1], Path(sys.argv[2]) / "models"


def rows(name):
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def described(file):
    done = subprocess.run([PLAN, "--describe-model", "--model", file, "--format", "json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{file}: {done.stderr}")
    return json.loads(done.stdout)


def check_model(row, kinds):
    model = described(DATA / row["file"])
    wanted = {"parameters": row["parameters"], "active_parameters": row["active_parameters"],
              "forward_flops_per_sequence": row["forward_flops"], "attention_core_flops": row["attention_core_flops"],
              "head_flops": row["head_flops"]}
    faults = [f"{key} {model[key]}, not {value}" for key, value in wanted.items() if model[key] != int(value)]
    found = {(kind["count"], kind["parameters"], kind["active_parameters"]) for kind in model["layer_kinds"]}
    for kind in kinds:
        if row["kind"] == "encoder-decoder":  # the last layer of the encoder has its final norm
            continue
        if (int(kind["count"]), int(kind["parameters"]), int(kind["active_parameters"])) not in found:
            faults.append(f"no {kind['count']} layers {kind['layer_type']} of {kind['parameters']} parameters in {sorted(found)}")
    return [f"{row['model']}: {fault}" for fault in faults]


def main():
    if not (DATA / "models.csv").exists():
        print("skipped: no data of published models")
        return 77
    models, layers = rows("models.csv"), rows("layers.csv")
    faults = [fault for row in models
              for fault in check_model(row, [kind for kind in layers if kind["model"] == row["model"]])]
    print("\n".join(faults) or f"{len(models)} models")
    return 1 if faults or not models else 0


if __name__ == "__main__":
    sys.exit(main())
