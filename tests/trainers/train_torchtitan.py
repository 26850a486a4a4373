#!/usr/bin/env python3
"""Plans for torchtitan train in torchtitan like one process: losses and gradient norms.

usage: train_torchtitan.py DTFM_PLAN DTFM_EXPORT SOURCE
"""
import json
from pathlib import Path

import exported

LLAMA = {key: value for key, value in exported.LLAMA.items() if key != "qk_norm"} | {"attention": "flash"}
BATCH, STEPS, RANKS = 8, 3, 4
LIMIT_S = 120  # of a run
MAX_DIFFERENCE = 1e-5  # relative: sums in another order in fp32


class Torchtitan(exported.Exported):
    target = "torchtitan"

    def export_plan(self, pipeline, data, training=None, **parallelism):
        """Every replica has the same batch."""
        return self.export(pipeline, data, LLAMA, {"global_batch": BATCH * data, **(training or {})}, **parallelism)

    def train(self, *runs):
        """Trains folders with so many ranks and overrides of the configuration. Returns what the ranks of each measure."""
        self.hosts.run("python", Path(__file__).with_name("torchtitan_on_cpus.py"),
                       json.dumps([[str(folder), ranks, STEPS, overrides] for folder, ranks, *overrides in runs]),
                       limit_s=LIMIT_S * len(runs))
        return [[json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(ranks)] for folder, ranks, *_ in runs]

    def assert_near(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            self.assertAlmostEqual(one, other, delta=MAX_DIFFERENCE * other)

    def test_training(self):
        alone = self.export_plan(1, 1)
        plans = {  # a folder and its replicas
            "1f1b-blocking": (self.export_plan(2, 2, schedule="1f1b-blocking"), 2),
            "zb-greedy": (self.export_plan(4, 1, schedule="zb-greedy"), 1),
            "eager-1f1b": (self.export_plan(4, 1, {"recompute": "full"}, schedule="eager-1f1b"), 1),
            "zb-h1": (self.export_plan(2, 2, schedule="zb-h1"), 2),
            "zb-greedy, zero1": (self.export_plan(2, 2, schedule="zb-greedy", optimizer_sharding="zero1"), 2),
            "zb-greedy, tensor": (self.export_plan(2, 1, schedule="zb-greedy"), 1, "--parallelism.tensor_parallel_degree=2"),
        }
        [expected], *found = self.train((alone, 1), *((folder, RANKS, *overrides) for folder, _, *overrides in plans.values()))
        self.assertLess(expected["losses"][-1], expected["losses"][0] - 0.1)
        for (name, (_, replicas, *_)), ranks in zip(plans.items(), found):
            with self.subTest(name):
                schedule = "Schedule1F1B" if name == "1f1b-blocking" else "_PipelineScheduleRuntime"
                losses = [it["losses"] for it in ranks if it["losses"] is not None]  # of the last stage: its part of the mean
                self.assertEqual({it["schedule"] for it in ranks}, {schedule})
                self.assertGreater(len(losses), 0)
                for it in losses:
                    self.assert_near([loss * replicas for loss in it], expected["losses"])
                for it in ranks:
                    self.assert_near(it["norms"], expected["norms"])


if __name__ == "__main__":
    exported.main()
