#!/usr/bin/env python3
"""Plans for pytorch-pipelining train in torch.distributed.pipelining like one process.

usage: train_pipelining.py DTFM_PLAN DTFM_EXPORT SOURCE
"""
import json
import subprocess

import exported
from four_hosts import Run


class Pipelining(exported.Exported):
    target = "pytorch-pipelining"

    def export_in_bf16(self, schedule):
        folder = self.export(2, 2, training={"precision": "bf16", "optimizer": "sgd-12"}, schedule=schedule)
        path = folder / "pipeline.json"
        pipeline = json.loads(path.read_text())
        pipeline["optimizer"]["lr"] = exported.RATE
        path.write_text(json.dumps(pipeline))
        return folder

    def test_training(self):
        folder = self.export(2, 2, schedule="1f1b", gradient_sync="ring")
        self.assertTrue((folder / "schedule.csv").exists())
        losses, _ = self.hosts.start(folder)
        self.assert_falling(losses)

        in_flushes = self.export(4, 1, schedule="gpipe", flush=4)
        blocking = self.export(4, 1, schedule="1f1b-blocking")
        for it in (in_flushes, blocking):
            self.assertFalse((it / "schedule.csv").exists())
        recomputed = self.export(2, 2, schedule="zb-h1", training={"recompute": "full"})
        self.assertIn("W", (recomputed / "schedule.csv").read_text())
        interleaved = self.export(2, 2, schedule="interleaved", chunks=2)
        in_bf16 = [self.export_in_bf16(schedule) for schedule in ("1f1b", "zb-h1")]
        llama = self.export(2, 2, exported.LLAMA, {"optimizer": "sgd-8"}, schedule="zb-h1")
        folders = [in_flushes, blocking, recomputed, interleaved, *in_bf16, llama]
        alone, sgd_alone, llama_alone, *others, bf16, split_bf16, of_llama = self.hosts.train(
            self.hosts.alone(folder), self.hosts.alone(in_bf16[0], exported.STEPS, "--lr", str(exported.RATE)),
            self.hosts.alone(llama, exported.STEPS), *(Run(it, exported.STEPS) for it in folders))
        self.assert_equal(losses, alone)
        for other in others:
            self.assert_equal(other, losses[:exported.STEPS])
        self.assert_equal_in_bf16(bf16, sgd_alone)
        self.assert_equal(split_bf16, bf16)
        self.assert_equal(of_llama, llama_alone)

    def test_errors(self):
        folder = self.export(2, 2, schedule="1f1b")

        def run(**more):
            return subprocess.run(["python", folder / "train.py"], env={**self.hosts.environment, **more}, capture_output=True, text=True,
                                  check=False)

        done = run()
        self.assertEqual((done.returncode, done.stderr), (
            2, "train.py: WORLD_SIZE is not set, but the plan has 4 ranks: start every rank, with start.sh or a launcher\n"))
        pipeline = json.loads((folder / "pipeline.json").read_text())
        pipeline["layers"][0] += 1
        (folder / "pipeline.json").write_text(json.dumps(pipeline))
        done = run(WORLD_SIZE="4")
        self.assertEqual(done.returncode, 2)
        self.assertIn("the stages of pipeline.json have 5 layers, but the model has 4", done.stderr)
        (folder / "pipeline.json").write_text("{")
        done = run()
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)


if __name__ == "__main__":
    exported.main()
