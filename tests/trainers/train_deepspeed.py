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

    def export_in_bf16(self, optimizer):
        folder = self.export(2, 2, training={"precision": "bf16", "optimizer": optimizer}, optimizer_sharding="zero1")
        path = folder / "ds_config.json"
        config = json.loads(path.read_text())
        config["optimizer"]["params"]["lr"] = exported.RATE
        path.write_text(json.dumps(config))
        return folder

    def test_training(self):
        folder = self.export(2, 2)
        losses, _ = self.hosts.start(folder)
        self.assert_falling(losses)

        recomputed = self.export(4, 1, training={"recompute": "full"})
        zero1 = self.export(2, 2, optimizer_sharding="zero1")
        self.assertEqual(json.loads((zero1 / "ds_config.json").read_text())["zero_optimization"]["stage"], 1)
        in_bf16, in_fp32_sums = self.export_in_bf16("sgd-8"), self.export_in_bf16("sgd-12")
        llama = self.export(2, 2, exported.LLAMA, {"optimizer": "sgd-8"}, optimizer_sharding="zero1")
        folders = [recomputed, zero1, in_bf16, in_fp32_sums, llama]
        alone, sgd_alone, llama_alone, *others, bf16, fp32_sums, of_llama = self.hosts.train(
            self.hosts.alone(folder), self.hosts.alone(in_bf16, exported.STEPS, "--lr", str(exported.RATE)),
            self.hosts.alone(llama, exported.STEPS), *(Run(it, exported.STEPS) for it in folders))
        self.assert_equal(losses, alone)
        for other in others:
            self.assert_equal(other, losses[:exported.STEPS])
        self.assert_equal_in_bf16(bf16, sgd_alone)
        self.assert_equal_in_bf16(fp32_sums, sgd_alone)
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
