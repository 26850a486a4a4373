#!/usr/bin/env python3
"""Plans for the runtime (--to pytorch) train under torchrun, with the trainers' PyTorch, like one process. tests/python
trains many more with the distribution's PyTorch.

usage: train_pytorch.py DTFM_PLAN DTFM_EXPORT SOURCE
"""
import exported
from four_hosts import Run


class Pytorch(exported.Exported):
    target = "pytorch"

    def test_training(self):
        folder = self.export(2, 2, schedule="1f1b", gradient_sync="ring")
        losses, output = self.hosts.start(folder)
        self.assert_falling(losses)
        self.assertNotIn("Warning", output)

        overlapped = self.export(2, 2, schedule="zb-h1", gradient_sync="tree", overlap=True)
        zero1 = self.export(2, 2, schedule="interleaved", chunks=2, gradient_sync="sharded-ps", optimizer_sharding="zero1")
        recomputed = self.export(4, 1, schedule="gpipe", training={"recompute": "full"})
        llama = self.export(2, 2, exported.LLAMA, {"optimizer": "sgd-8"}, gradient_sync="hierarchical")
        alone_run, folders = self.hosts.alone(folder), [overlapped, zero1, recomputed, llama]
        alone, llama_alone, *others, of_llama = self.hosts.train(
            alone_run, self.hosts.alone(llama, exported.STEPS), *(Run(it, exported.STEPS) for it in folders))
        self.assert_equal(losses, alone)
        self.assertNotIn("Warning", (alone_run.folder / "rank-0.log").read_text())
        for other in others:
            self.assert_equal(other, losses[:exported.STEPS])
        self.assert_equal(of_llama, llama_alone)


if __name__ == "__main__":
    exported.main()
