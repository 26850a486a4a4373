"""Runs an exported train.py with blocks that sleep instead of computing, so that more ranks than cores have true times.
Parameters, gradients and messages have their real sizes.

usage: sleeping.py PROFILE TRAIN.PY [ARGUMENT...]
"""
import json
import runpy
import sys
import time
from pathlib import Path

import torch


class Sleeper:
    """A sleep ends late; the next one is shorter by as much."""

    def __init__(self):
        self.late_s = 0.0

    def __call__(self, seconds):
        end = time.monotonic() + seconds - self.late_s
        time.sleep(max(0.0, end - time.monotonic()))
        self.late_s = time.monotonic() - end


sleep = Sleeper()


class Weights(torch.autograd.Function):
    """Zero, whose backward takes as long as the gradients of parameters."""

    @staticmethod
    def forward(ctx, seconds, *parameters):
        ctx.seconds, ctx.like = seconds, parameters
        return parameters[0].new_zeros(())

    @staticmethod
    def backward(ctx, _):
        sleep(ctx.seconds)
        return None, *(torch.zeros_like(it) for it in ctx.like)


class Activations(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, forward_s, backward_s):
        ctx.seconds = backward_s
        sleep(forward_s)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        sleep(ctx.seconds)
        return gradient, None, None


class SteppingAttention(torch.autograd.Function):
    """As RingAttention: a step for the keys and values of each rank, which arrive during the step before; in the backward their
    gradients follow them."""

    @staticmethod
    def forward(ctx, x, attention, forward_s, backward_s):
        ctx.ring, ctx.seconds = attention.ring, backward_s
        ctx.like = x.new_zeros(x.shape[0], attention.kv_heads, x.shape[1], attention.width)
        for _ in ctx.ring.blocks(ctx.like, ctx.like):
            sleep(forward_s)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        works = []
        for of, _, _ in ctx.ring.blocks(ctx.like, ctx.like):
            sleep(ctx.seconds)
            if of != ctx.ring.rank:
                for work in works:
                    work.wait()
                _, works = ctx.ring.exchange(ctx.like, ctx.like)
        for work in works:
            work.wait()
        return gradient, None, None, None


def main():
    profile, program = Path(sys.argv[1]), Path(sys.argv[2])
    rows = json.loads(profile.read_text(encoding="utf-8"))["layers"]
    row = next(it for it in rows if it["kind"] == "block")
    weight_s = row.get("weight_gradient_s", row["backward_s"] / 2)
    sys.path.insert(0, str(program.parent))
    from dtfm_runtime import model

    def forward(self, x):
        if self.attention.ring is None:
            y = Activations.apply(x, row["forward_s"], row["backward_s"] - weight_s)
            return y + Weights.apply(weight_s, *self.parameters())
        # Of a rank with part of the tokens. Scores are what attention computes without matrices of parameters.
        ring, attention = self.attention.ring, self.attention
        tokens = x.shape[1] * ring.size
        scores = 4 * tokens * attention.heads * attention.width
        share = scores / (scores + 2 * sum(it.numel() for it in self.parameters() if it.dim() > 1))
        others, steps = [of * (1 - share) / ring.size for of in (row["forward_s"], row["backward_s"] - weight_s)], [
            of * share / ring.size**2 for of in (row["forward_s"], row["backward_s"] - weight_s)]
        y = SteppingAttention.apply(Activations.apply(x, *others), attention, *steps)
        return y + Weights.apply(weight_s / ring.size, *self.parameters())

    model.Block.forward = forward
    sys.argv = [str(program), *sys.argv[3:]]
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
