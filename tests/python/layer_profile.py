#!/usr/bin/env python3
"""Profiles that the runtime measures: they agree with the schema, dtfm-plan reads them, and emulated ranks sleep for
their times.

usage: layer_profile.py [DTFM-PLAN]
Without the program or python3-jsonschema, what needs them is left out. No assertion depends on how long anything took.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from ranks import ROOT, error_of, require_torch

require_torch()

import torch
try:
    warnings.simplefilter("ignore", DeprecationWarning)  # from RefResolver, which all distributions have
    from jsonschema import Draft202012Validator, RefResolver
except ImportError:
    Draft202012Validator = None

from torch import nn

from dtfm_runtime import profile
from dtfm_runtime.model import Transformer, model_of, transformer_model
from dtfm_runtime.optimizer import SGD

SIZES = {"layers": 4, "hidden": 16, "heads": 4, "sequence": 8, "vocabulary": 50}
MODELS = {"gpt": SIZES,
          "llama": {**SIZES, "kv_heads": 2, "feed_forward": 24, "gated": True, "biases": False, "norm": "rms", "positions": "rotary",
                    "tied": False, "attention": "flash"},
          "wide heads": {**SIZES, "hidden": 15, "head_dim": 6, "qk_norm": True, "norm": "rms"},
          "positions": {**SIZES, "positions": 10}}
CPU = torch.device("cpu")


def transformer(sizes):
    return transformer_model(Transformer.read({"kind": "transformer", **sizes}))


def faults(document):
    if Draft202012Validator is None:
        return []
    path = ROOT / "configs/schemas/profile.schema.json"
    schema = json.loads(path.read_text())
    errors = Draft202012Validator(schema, resolver=RefResolver(path.as_uri(), schema)).iter_errors(document)
    return [error.message[:300] for error in errors]


def every_kind_and_size_has_a_row(plan):
    for name, sizes in MODELS.items():
        measured = profile.measure(transformer(sizes), [2, 1, 2], CPU, "fp32", runs=3, gpu="EMU", min_seconds=0)
        profile.write(measured, f"{name}.json")
        document = json.loads(Path(f"{name}.json").read_text())
        assert document == measured and faults(document) == [], faults(document)
        assert [(row["kind"], row["micro_batch"]) for row in document["layers"]] == [
            (kind, size) for kind in ("embedding", "block", "head") for size in (1, 2)]
        assert all(row[key] > 0 for row in document["layers"] for key in ("forward_s", "backward_s", "update_s", "activation_bytes"))
        assert (document["source"], document["gpu"], document["precision"]) == ("measured", "EMU", "fp32")
        if plan:
            plans_use(plan, name, sizes)


def heads_have_their_own_width(_):
    # Hidden 15, four heads of 6: queries, keys, values, output 4 * 15 * 24 + 3 * 24 + 15, MLP 2 * 15 * 60 + 60 + 15, two
    # norms of 15 and two of 6, without biases.
    block = transformer(MODELS["wide heads"]).build(1, seed=1)
    assert sum(it.numel() for it in block.parameters()) == 1440 + 87 + 1875 + 30 + 12


def plans_use(plan, name, sizes):
    """The prediction changes as the profile does, and nothing is said about it."""
    Path("net.yaml").write_text("""\
version: 1
name: one
gpus: [{name: EMU, memory: 8 GB, peak: 10 GFLOP/s}]
devices: [{site: a, count: 2, gpu: EMU}]
links: [{within: "*", latency: 1 ms, bandwidth: 1 Gbps}]
""")
    seconds = []
    document = json.loads(Path(f"{name}.json").read_text())
    for factor in (1, 1000):
        for row in document["layers"]:
            row["forward_s"] = row["backward_s"] = row["update_s"] = 0.01 * factor
        Path("used.json").write_text(json.dumps(document))
        job = {"version": 1, "name": name, "model": {"kind": "transformer", **sizes}, "profile": "used.json",
               "training": {"global_batch": 8, "micro_batch": 2, "precision": "fp32"}, "parallelism": {"pipeline": 1, "data": 2}}
        Path("job.json").write_text(json.dumps(job))
        done = subprocess.run([plan, "net.yaml", "--job", "job.json", "--format", "json", "--quiet"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "EMU" not in done.stderr, done.stderr
        seconds.append(json.loads(done.stdout)["finalists"][0]["iteration_time_s"])
    # Forward and backward of embedding, four blocks and head for two micro-batches, and their updates; of a tied matrix once.
    assert 0.95 * 999 * 6 * 5 * 0.01 < seconds[1] - seconds[0] < 1.001 * 999 * 6 * 5 * 0.01, seconds


def layers_of_custom_models_are_kinds(plan):
    layers = [nn.Embedding(20, 8), nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Linear(8, 20)]
    inputs = [((5,), torch.int64), ((5, 8), None), ((5, 8), None)]
    model = model_of([(layer, shape, dtype) for layer, (shape, dtype) in zip(layers, inputs)], "mine:layers")
    measured = profile.measure(model, [2], CPU, "fp32", runs=2, optimizer=SGD(lr=0.1), min_seconds=0)
    assert faults(measured) == [] and "shape" not in measured and measured["gpu"] == "CPU"
    assert [row["kind"] for row in measured["layers"]] == ["layer 0", "layer 1", "layer 2"]
    profile.write(measured, "custom.json")
    assert profile.Emulation("custom.json", model).update_s([0, 1, 2]) > 0


def activations_are_counted_without_parameters(plan):
    """Of y = W x: x is kept, W is not; of a ReLU after it, its output."""
    model = model_of([(nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU()), (8,), None), (nn.Identity(), (16,), None)], "mine:layers")
    first, last = profile.measure(model, [4], CPU, "fp32", runs=1, min_seconds=0)["layers"]
    assert first["activation_bytes"] == 4 * 8 * 4 + 4 * 16 * 4
    assert last["kind"] == "layer 1"


def write_rows(path, rows):
    """Rows (kind, micro-batch, seconds); backward takes twice as long as forward, the update 1 s."""
    layers = [{"kind": kind, "micro_batch": size, "forward_s": seconds, "backward_s": 2 * seconds, "update_s": 1.0} for kind, size, seconds in rows]
    layers.append({"kind": "block", "micro_batch": 1, "tensor": 2, "forward_s": 99, "backward_s": 99})
    Path(path).write_text(json.dumps({"schema": profile.SCHEMA, "layers": layers}))


def emulation_interpolates(plan):
    write_rows("e.json", [("embedding", 1, 0.5), ("block", 2, 1.0), ("block", 4, 3.0), ("block", 8, 4.0), ("head", 4, 8.0), ("head", 8, 8.0)])
    emulation = profile.Emulation("e.json", transformer(SIZES))
    expected = {1: 0.5, 2: 1.0, 3: 2.0, 4: 3.0, 6: 3.5, 8: 4.0, 16: 6.0}
    for size, seconds in expected.items():
        assert abs(emulation.forward_s([1], size) - seconds) < 1e-12, size
        assert abs(emulation.backward_s([1, 2], size) - 4 * seconds) < 1e-12, size
    assert emulation.forward_s([0], 4) == 0.5 * 4 + 3.0 and emulation.forward_s([3], 16) == 6.0 + 8.0
    assert emulation.update_s(range(4)) == 6.0
    write_rows("falling.json", [("embedding", 1, 1.0), ("head", 1, 1.0), ("block", 1, 2.0), ("block", 2, 1.0)])
    assert profile.Emulation("falling.json", transformer(SIZES)).forward_s([1], 9) == 0.0


def bad_profiles_are_explained(plan):
    model = transformer(SIZES)
    assert "cannot be read: No such file" in error_of(profile.Emulation, "missing.json", model)
    profile.write(profile.measure(transformer({**SIZES, "hidden": 32}), [1], CPU, "fp32", runs=1, min_seconds=0), "wide.json")
    assert "wide.json is of another model: `feed_forward` is 128 there and 64 in this plan" in error_of(profile.Emulation, "wide.json", model)
    row = {"kind": "block", "micro_batch": 1, "forward_s": 1, "backward_s": 1}
    layers = ([], [None], [{}], [{**row, "micro_batch": 0}], [{**row, "micro_batch": True}], [{**row, "forward_s": -1}],
              [{**row, "forward_s": "x"}], [{**row, "backward_s": float("nan")}], [{"kind": "block", "micro_batch": 1, "forward_s": 1}], {}, 7)
    texts = ["", "[]", "7", "{}", '{"schema": "dtfm-profile/1"}', "[" * 100_000, '{"schema": "other", "layers": [{}]}']
    texts += [json.dumps({"schema": profile.SCHEMA, "layers": value}) for value in layers]
    for text in texts:
        Path("bad.json").write_text(text)
        assert error_of(profile.Emulation, "bad.json", model).startswith("bad.json is not a profile (dtfm-profile/1): write one with"), text
    Path("bad.json").write_text(json.dumps({"schema": profile.SCHEMA, "layers": [row]}))
    assert "bad.json has no times for `embedding`: profile this model" in error_of(profile.Emulation, "bad.json", model)
    assert "--profile missing/p.json cannot be written" in error_of(profile.write, {"layers": []}, "missing/p.json")


TESTS = (every_kind_and_size_has_a_row, heads_have_their_own_width, layers_of_custom_models_are_kinds,
         activations_are_counted_without_parameters, emulation_interpolates, bad_profiles_are_explained)

if __name__ == "__main__":
    torch.set_num_threads(1)
    program = str(Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else None
    for test in TESTS:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            test(program)
            os.chdir(ROOT)
        print(f"{test.__name__.replace('_', ' ')}: {time.monotonic() - begin:.1f} s", flush=True)
