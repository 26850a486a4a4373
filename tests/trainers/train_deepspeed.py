#!/usr/bin/env python3
"""Plans for DeepSpeed train in its pipeline engine like one process.

usage: train_deepspeed.py DTFM_PLAN DTFM_EXPORT SOURCE
"""
import json
import subprocess

import exported
from four_hosts import Run


class DeepSpeed(exported.Exported):
    target = "deepspeed"

    def test_training(self):
        folder = self.export(2, 2)
        losses, _ = self.hosts.start(folder)
        self.assert_falling(losses)

        recomputed = self.export(4, 1, training={"recompute": "full"})
        zero1 = self.export(2, 2, optimizer_sharding="zero1")
        self.assertEqual(json.loads((zero1 / "ds_config.json").read_text())["zero_optimization"]["stage"], 1)
        in_bf16 = self.export(2, 2, optimizer_sharding="zero1", training={"precision": "bf16"})
        in_fp32_sums = self.export(2, 2, optimizer_sharding="zero1", training={"precision": "bf16", "optimizer": "sgd-12"})
        llama = self.export(2, 2, exported.LLAMA, {"optimizer": "sgd-8"}, optimizer_sharding="zero1")
        folders = [recomputed, zero1, in_bf16, in_fp32_sums, llama]
        alone, llama_alone, *others, bf16, _, of_llama = self.hosts.train(
            self.hosts.alone(folder), self.hosts.alone(llama, exported.STEPS), *(Run(it, exported.STEPS) for it in folders))
        self.assert_equal(losses, alone)
        for other in others:
            self.assert_equal(other, losses[:exported.STEPS])
        self.assert_equal(bf16, losses[:exported.STEPS], delta=0.02)
        self.assertNotEqual(bf16, losses[:exported.STEPS])
        self.assert_equal(of_llama, llama_alone)

    def test_errors(self):
        folder = self.export(2, 2)
        done = subprocess.run(["python", folder / "train.py"], env={**self.hosts.environment, "WORLD_SIZE": "3"}, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("train.py: WORLD_SIZE is 3, but the plan has 4 ranks", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    exported.main()
