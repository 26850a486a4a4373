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
        return self.set_rate(self.export(2, 2, training={"precision": "bf16", "optimizer": "sgd-12"}, schedule=schedule))

    def set_rate(self, folder):
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
        eager = self.export(4, 1, schedule="eager-1f1b")
        self.assertTrue((eager / "schedule.csv").read_text().startswith("0F0,0F1,0F2,0F3,"))
        greedy = self.export(4, 1, schedule="zb-greedy")
        self.assertRegex((greedy / "schedule.csv").read_text(), r"^0F0,.*0I0,.*0W0")
        recomputed = self.export(2, 2, schedule="1f1b", training={"recompute": "full"})
        split = self.export(2, 2, schedule="zb-h1")
        self.assertIn("W", (split / "schedule.csv").read_text())
        interleaved = self.export(2, 2, schedule="interleaved", chunks=2, training={"recompute": "full", "recompute_layers": 1})
        as_needed = self.export(2, 2, schedule="1f1b", training={"recompute": "as-needed"})
        options = json.loads((as_needed / "pipeline.json").read_text())
        self.assertEqual(options["recompute_layers"], [0, 0])  # there is memory for everything
        options["recompute_layers"] = [1, 0]
        (as_needed / "pipeline.json").write_text(json.dumps(options))
        in_bf16 = [self.export_in_bf16(schedule) for schedule in ("1f1b", "zb-h1")]
        llama = self.export(2, 2, exported.LLAMA, {"optimizer": "sgd-8"}, schedule="zb-h1")
        folders = [in_flushes, blocking, eager, greedy, recomputed, split, interleaved, as_needed, *in_bf16, llama]
        alone, sgd_alone, llama_alone, *others, bf16, split_bf16, of_llama = self.hosts.train(
            self.hosts.alone(folder), self.hosts.alone(in_bf16[0], exported.STEPS, "--lr", str(exported.RATE)),
            self.hosts.alone(llama, exported.STEPS), *(Run(it, exported.STEPS) for it in folders))
        self.assert_equal(losses, alone)
        for other in others:
            self.assert_equal(other, losses[:exported.STEPS])
        self.assert_equal_in_bf16(bf16, sgd_alone)
        self.assert_equal(split_bf16, bf16)
        self.assert_equal(of_llama, llama_alone)

    def test_sharding(self):
        """FSDP2 in pipelines, also of experts, and a ring of tokens, train like one process. SGD with RATE, whose steps depend on
        the scale of the gradients."""
        mixture = {key: value for key, value in exported.LLAMA.items() if key != "qk_norm"}
        mixture["experts"] = {"count": 4, "per_token": 2, "width": 24, "shared_width": 16}
        sgd = {"optimizer": "sgd-8"}
        dense = self.export(2, 2, training=sgd, schedule="1f1b")
        of_mixture = self.export(2, 2, mixture, sgd, schedule="1f1b-blocking", optimizer_sharding="zero1")
        like_dense = [
            self.export(2, 2, training=sgd, schedule="gpipe", flush=2, optimizer_sharding="zero1"),
            self.export(2, 2, training=sgd, schedule="zb-h1", optimizer_sharding="zero1"),
            self.export(2, 2, training=sgd, schedule="interleaved", chunks=2, optimizer_sharding="zero1"),
            self.export(2, 1, training={**sgd, "recompute": "full"}, schedule="1f1b", context=2),
            self.export(2, 1, training=sgd, schedule="zb-h1", context=2, optimizer_sharding="zero1"),
        ]
        # Two sites of two ranks: two instances of two shards; of one replica of each stage; of a replica of two token parts.
        like_dense += [self.export(*degrees, training=sgd, optimizer_sharding="zero1", gradient_sync="hierarchical-ring", **options)
                       for degrees, options in (((1, 4), {}), ((2, 2), {"schedule": "1f1b"}), ((1, 2), {"context": 2}))]
        of_instances = like_dense[-3:]
        instances = [json.loads((it / "pipeline.json").read_text())["instances"] for it in of_instances]
        self.assertEqual((instances[0], instances[2]), (2, 2))
        ring_of_mixture = self.export(2, 1, mixture, {**sgd, "recompute": "mlp"}, schedule="gpipe", context=2, optimizer_sharding="zero1")
        in_bf16 = [self.export(2, 2, training={"precision": "bf16", "optimizer": "sgd-12"}, schedule="1f1b", optimizer_sharding=sharding)
                   for sharding in ("none", "zero1")]
        folders = [*like_dense, of_mixture, ring_of_mixture, *in_bf16]
        for folder in [dense, *folders]:
            self.set_rate(folder)
        runs = self.hosts.train(*(self.hosts.alone(it, exported.STEPS, "--lr", str(exported.RATE)) for it in (dense, of_mixture)),
                                *(Run(it, exported.STEPS) for it in folders))
        alone, mixture_alone, *like_alone = runs[:2 + len(like_dense)]
        *like_mixture, bf16, sharded_bf16 = runs[2 + len(like_dense):]
        for losses in like_alone:
            self.assert_equal(losses, alone)
        for losses in like_mixture:
            self.assert_equal(losses, mixture_alone)
        self.assert_equal_in_bf16(sharded_bf16, alone)
        self.assert_equal(sharded_bf16, bf16, delta=0.002)

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
