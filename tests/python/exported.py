#!/usr/bin/env python3
"""dtfm-export --to pytorch writes the programs of tests/python/programs.py, which are made without it, and a plan
that it exports trains like one process.

usage: exported.py DTFM_EXPORT
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from itertools import accumulate
from pathlib import Path

import ranks
from dtfm_runtime.program import parse_program
from programs import LAYERS_BY_STAGE, SCHEDULES, SYNCS, cuts, layers_by_stage, make_program

EXPORT = None
MODEL = {"kind": "transformer", "layers": 0, "hidden": 16, "heads": 4, "sequence": 8, "vocabulary": 32}


def random_case(seed):
    """The arguments of make_program, and the number of layers of every chunk of every stage in a plan."""
    random_ = random.Random(seed)
    schedule = SCHEDULES[seed % len(SCHEDULES)]
    sync = SYNCS[seed // len(SCHEDULES) % len(SYNCS)]
    chunks = random_.choice((2, 3)) if schedule.startswith("interleaved") else 1
    depths = [random_.randint(1, 3) for _ in range(random_.randint(1, 4))]
    layers = max(depths) * chunks * random_.randint(1, 2) + (random_.randint(0, 2) if chunks == 1 else 0)
    pipelines, stages = [], []
    for depth in depths:
        parts = cuts(random_, layers, depth * chunks)
        pipelines.append((depth * random_.randint(1, 3), parts))
        stages.append([[last - first for first, last in parts[stage::depth]] for stage in range(depth)])
    sites = [random_.choice("ab") for it in stages for _ in it]
    options = {"schedule": schedule, "gradient_sync": sync, "chunks": chunks, "micro_batch": random_.randint(1, 2),
               "flush": random_.choice((0, 0, 2)) if chunks == 1 else 0, "overlap": random_.random() < 0.5,
               "zero1": sync in ("ring", "sharded-ps") and random_.random() < 0.5,
               "recompute": random_.choice(("none", "full", "as-needed") + (() if schedule.startswith("zb") else ("offload",))),
               "compress": random_.choice((None, "8-bit")), "sites": sites}
    return dict(MODEL, layers=layers, tied=random_.random() < 0.5), pipelines, stages, options


def write_plan(folder, model, pipelines, stages, options):
    names = [f"m{i}" for i in range(len(options["sites"]))]
    devices = ", ".join(f"{{name: {name}, site: {site}, gpu: A100-40GB}}" for name, site in zip(names, options["sites"]))
    (folder / "net.yaml").write_text(f"version: 1\ndevices: [{devices}]\n"
                                     'links: [{between: ["*", "*"], latency: 1 ms, bandwidth: 1 Gbps}]\n', encoding="utf-8")
    parallelism = {"schedule": options["schedule"], "gradient_sync": options["gradient_sync"], "overlap": options["overlap"],
                   "tied_embedding_sync": True}
    if options["chunks"] > 1:
        parallelism["chunks"] = options["chunks"]
    if options["flush"]:
        parallelism["flush"] = options["flush"]
    if options["zero1"]:
        parallelism["optimizer_sharding"] = "zero1"
    job = {"version": 1, "name": "random", "model": model, "parallelism": parallelism,
           "training": {"global_batch": options["micro_batch"] * sum(count for count, _ in pipelines), "precision": "fp32",
                        "micro_batch": options["micro_batch"], "recompute": options["recompute"]}}
    if options["compress"]:
        job["compression"] = {"activations": "8-bit", "gradients": "8-bit"}
    device = iter(names)
    plan = {"schema": "dtfm-plan/1", "job": job, "pipelines": []}
    for number, ((count, _), of_pipeline) in enumerate(zip(pipelines, stages)):
        ends = list(accumulate(map(sum, of_pipeline), initial=0))
        plan["pipelines"].append({"micro_batches": count, "stages": [
            {"layers": [begin, end], "devices": [next(device)]} | ({"virtual_layers": counts} if options["chunks"] > 1 else {})
            | ({LAYERS_BY_STAGE[options["recompute"]]: layers_by_stage(number, stage, end - begin)}
               if options["recompute"] in LAYERS_BY_STAGE else {})
            for stage, (begin, end, counts) in enumerate(zip(ends, ends[1:], of_pipeline))]})
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")


def comparable(program):
    """Without what the two write differently: names of machines, orders of concurrent messages, defaults."""
    program = json.loads(json.dumps(program))
    for key in ("version", "topology"):
        program.pop(key, None)
    for number, rank in enumerate(program["ranks"]):
        for chunk in rank["chunks"]:  # what stays on a device is not compressed
            for side, neighbour in (("compress_input", "input_from"), ("compress_output", "output_to")):
                chunk[side] = chunk[side] if chunk[neighbour] != number else None
        del rank["device"], rank["host"]
    for collective in program["collectives"]:  # messages of a step are concurrent
        collective["steps"] = [[sorted(step.split()) for step in steps.split(", ")] for steps in collective["steps"]]
    execution = program["execution"]
    execution["blocking_sends"] = execution["blocking_sends"] or execution["schedule"].endswith("-blocking")
    execution["tied_embedding_sync"] = bool(program["tied_groups"])
    program["model"].setdefault("tied", True)
    return program


def exported(folder):
    done = subprocess.run([EXPORT, "plan.json", "--to", "pytorch", "--order", "pipeline-major", "--topology", "net.yaml", "-o", "run",
                           "--quiet", "--force"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "run/program.json").read_text(encoding="utf-8"))


class Exported(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="dtfm-exported-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)

    def test_programs(self):
        for seed in range(2 * len(SCHEDULES) * len(SYNCS)):
            with self.subTest(seed=seed):
                case = random_case(seed)
                write_plan(self.folder, *case)
                model, pipelines, _, options = case
                self.assertEqual(comparable(exported(self.folder)), comparable(make_program(model, pipelines, **options)))

    def test_equal_layers(self):
        """They are one entry of the model."""
        layer = {"name": "same", "parameters": 1000, "forward_flops": "1 MFLOP", "output": "4 kB", "activation_memory": "4 kB"}
        model = {"kind": "layers", "layers": [dict(layer, name="first", parameters=2000), *[layer] * 4]}
        pipelines, stages = [(2, [(0, 2), (2, 5)])], [[[2], [3]]]
        write_plan(self.folder, model, pipelines, stages, dict(random_case(0)[3], chunks=1, flush=0, schedule="gpipe", zero1=False,
                                                               sites=["a", "b"]))
        program = exported(self.folder)
        self.assertEqual(len(program["model"]["layers"]), 2)
        self.assertEqual(parse_program(program).layers, 5)

    def test_training(self):
        """Uncompressed, so that only the order of additions differs from one process."""
        model, pipelines, stages, options = next(
            it for it in map(random_case, range(100)) if it[3]["schedule"] == "1f1b" and len(it[3]["sites"]) == 4)
        write_plan(self.folder, model, pipelines, stages, dict(options, compress=None))
        exported(self.folder)
        run = [sys.executable, str(self.folder / "run/train.py"), "--steps", "4", "--optimizer", "sgd", "--seed", "3"]
        port = ranks.free_port()
        started = [subprocess.Popen([*run, "--log", str(self.folder / "log")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    env=dict(os.environ, RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)))
                   for rank in range(4)]
        for process in started:
            output, _ = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, output)
        alone = subprocess.run([*run, "--single", "--log", str(self.folder / "alone")], capture_output=True, text=True, check=False)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        losses = [[json.loads(line)["loss"] for line in (self.folder / name).read_text(encoding="utf-8").splitlines()]
                  for name in ("log", "alone")]
        self.assertEqual(len(losses[0]), 4)
        for own, other in zip(*losses):
            self.assertAlmostEqual(own, other, delta=1e-5)

    def test_refused(self):
        case = random_case(1)
        write_plan(self.folder, *case)
        plan = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        plan["job"]["model"]["encoder"] = True
        (self.folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        done = subprocess.run([EXPORT, "plan.json", "--to", "pytorch", "-o", "none"], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("the model is an encoder", done.stderr)
        self.assertFalse((self.folder / "none").exists())


if __name__ == "__main__":
    ranks.require_torch()
    EXPORT = os.path.abspath(sys.argv.pop(1))
    unittest.main()
