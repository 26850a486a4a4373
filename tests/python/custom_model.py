#!/usr/bin/env python3
"""Layers of your own train the same in any plan, also with dropout that is recomputed; ranks may sleep instead of computing.

usage: custom_model.py
"""
import json
import tempfile
from pathlib import Path

import ranks
from programs import make_program

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-5


def losses(path):
    return [json.loads(line)["loss"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_custom_layers(folder):
    pipelines = [(3, [(0, 2), (2, 5)]), (2, [(0, 4), (4, 5)])]
    model = {"kind": "layers", "layers": [{"name": str(i)} for i in range(5)], "tied": False}
    for schedule, recompute in (("zb-h1", "full"), ("gpipe", "full"), ("1f1b", "none")):
        document = make_program({**model, "layers": 5}, pipelines, schedule, "tree", micro_batch=4, recompute=recompute)
        document["model"] = model
        (folder / "program.json").write_text(json.dumps(document), encoding="utf-8")
        common = ("--program", folder / "program.json", "--model", "custom_layers:make", "--steps", 20, "--lr", 0.01, "--device", "cpu")
        code, _, errors = train(*common, "--single", "--threads", 1, "--log", folder / "single")
        assert code == 0, errors
        results = ranks.train_ranks(4, *common, "--log", folder / "ranks", PYTHONPATH=HERE)
        assert all(code == 0 for code, _, _ in results), results
        alone, together = losses(folder / "single"), losses(folder / "ranks")
        assert len(alone) == len(together) == 20
        assert max(abs(a - b) for a, b in zip(alone, together)) <= TOLERANCE, (schedule, alone, together)
        assert sum(alone[-5:]) < 0.9 * sum(alone[:5]), alone


def test_layers_without_parameters_are_saved(folder):
    """Alone in a group of ranks: with overlap, every layer has its own."""
    model = {"kind": "layers", "layers": [{"name": str(i)} for i in range(5)]}
    document = make_program({"layers": 5, "tied": False}, [(3, [(0, 2), (2, 5)]), (2, [(0, 4), (4, 5)])], "1f1b", "ring", micro_batch=4,
                            zero1=True, overlap=True)
    document["model"] = model
    (folder / "program.json").write_text(json.dumps(document), encoding="utf-8")
    common = ("--program", folder / "program.json", "--model", "custom_layers:make", "--device", "cpu")
    resumed = (*common, "--checkpoint-dir", folder / "custom-checkpoints", "--resume")
    results = ranks.train_ranks(4, *resumed, "--steps", 2, "--log", folder / "log", PYTHONPATH=HERE)
    assert all(code == 0 for code, _, _ in results), results
    code, output, errors = train(*resumed, "--steps", 4, "--single", "--threads", 1, "--log", folder / "log")
    assert code == 0 and "iteration 1" not in output, (output, errors)
    results = ranks.train_ranks(4, *resumed, "--steps", 6, "--log", folder / "log", PYTHONPATH=HERE)
    assert all(code == 0 for code, _, _ in results) and "resuming from step 4" in results[0][1], results
    code, _, errors = train(*common, "--steps", 6, "--single", "--threads", 1, "--log", folder / "single")
    assert code == 0, errors
    alone, together = losses(folder / "single"), losses(folder / "log")
    assert len(alone) == len(together) == 6
    assert max(abs(a - b) for a, b in zip(alone, together)) <= TOLERANCE, (alone, together)


def train(*arguments):
    return ranks.train_forked(*arguments, PYTHONPATH=str(HERE))


def test_rows_of_layers():
    """The short form of a model: parameters depend on the seed and the layer only."""
    import sys
    import torch
    from dtfm_runtime.model import custom_model
    sys.path.insert(0, str(HERE))
    first, second = custom_model("custom_layers:rows", 3), custom_model("custom_layers:rows", 3)
    for layer in (2, 0, 1):
        ours, theirs = first.build(layer, 5), second.build(layer, 5)
        assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters()))
    assert not torch.equal(first.build(1, 5).weight.clone(), second.build(1, 6).weight), "another seed, other parameters"


def test_emulated_computing(folder):
    """Iterations take the profile's time: the last of two stages computes its four micro-batches after one of the first
    stage, and the first one then the last backward pass, which ZB-H1 shortens."""
    model = {"kind": "transformer", "layers": 4, "hidden": 16, "heads": 4, "sequence": 8, "vocabulary": 32}
    for schedule in ("1f1b", "zb-h1"):
        document = make_program(model, [(4, [(0, 2), (2, 4)]), (2, [(0, 4)])], schedule, "ring", precision="fp16", zero1=True)
        (folder / "program.json").write_text(json.dumps(document), encoding="utf-8")
        rows = [{"kind": kind, "micro_batch": 1, "forward_s": seconds, "backward_s": 2 * seconds, "update_s": 0.0}
                for kind, seconds in (("embedding", 0.0), ("block", 0.01), ("head", 0.0))]
        profile = {"schema": "dtfm-profile/1", "gpu": "x", "source": "measured", "precision": "fp16", "model": "x", "layers": rows}
        (folder / "profile.json").write_text(json.dumps(profile), encoding="utf-8")
        results = ranks.train_ranks(3, "--program", folder / "program.json", "--emulate-compute", folder / "profile.json", "--steps", 4,
                                    "--log", folder / "log", "--trace", folder / "trace")
        assert all(code == 0 for code, _, _ in results), results
        lines = [json.loads(line) for line in (folder / "log").read_text(encoding="utf-8").splitlines()]
        least = 0.06 * 5 if schedule == "1f1b" else 0.06 * 4 + 0.02
        # The upper limit is of a busy machine.
        assert all(it["loss"] is None and least * 0.99 <= it["seconds"] <= least + 3 for it in lines[1:]), lines
        json.loads((folder / "trace").read_text(encoding="utf-8"))


def test():
    test_rows_of_layers()
    with tempfile.TemporaryDirectory() as name:
        test_custom_layers(Path(name))
        test_layers_without_parameters_are_saved(Path(name))
        test_emulated_computing(Path(name))
    print("ok")


if __name__ == "__main__":
    ranks.main(test)
