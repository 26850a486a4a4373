"""Samples by their number: the same sample in every plan and every process."""
from __future__ import annotations

import mmap
import os
from typing import Sequence

import torch

from .errors import UserError, computing
from .model import LayerInput, Transformer, stable_seed


class SyntheticTokens:
    """Arithmetic progressions of token ids, which a model can learn."""

    def __init__(self, model: Transformer, seed: int):
        self.length, self.vocabulary, self.seed = model.sequence + 1, model.vocabulary, seed

    def tokens(self, sample: int) -> torch.Tensor:
        number = stable_seed(self.seed, sample)
        step = 1 + (number >> 32) % max(1, min(7, self.vocabulary - 1))
        return (torch.arange(self.length) * step + number % self.vocabulary) % self.vocabulary


class TextFile:
    """The bytes of a file as token ids; a sample begins at a random place."""

    def __init__(self, path: str, model: Transformer, seed: int):
        self.length, self.seed = model.sequence + 1, seed
        if os.path.exists(path) and not os.path.isfile(path):
            raise UserError(f"--data {path} is not a regular file: give a text file, or `synthetic`")
        try:
            with open(path, "rb") as file:
                self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read --data {path} ({error}): give a text file, or `synthetic`") from None
        if model.vocabulary < 256:
            raise UserError(f"--data {path} can contain 256 different byte values, but model.vocabulary is "
                            f"{model.vocabulary}: plan for a vocabulary of at least 256")
        if len(self.bytes) < self.length:
            raise UserError(f"--data {path} has {len(self.bytes)} bytes, fewer than a sequence of {self.length}: "
                            "give a longer file")

    def tokens(self, sample: int) -> torch.Tensor:
        first = stable_seed(self.seed, sample) % (len(self.bytes) - self.length + 1)
        return torch.tensor(list(self.bytes[first:first + self.length]), dtype=torch.int64)


class TokenBatches:
    """Inputs, and as targets the tokens that follow them."""

    def __init__(self, source):
        self.source = source

    def __call__(self, samples: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.stack([self.source.tokens(sample) for sample in samples])
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


class CheckedBatches:
    """Calls `batch` of --model, and checks the types and the input shape of what it returns."""

    def __init__(self, batch, expected: LayerInput):
        self.batch, self.expected = batch, expected

    def __call__(self, samples: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        with computing("`batch` of --model"):
            made = self.batch(samples)
        is_pair = isinstance(made, (tuple, list)) and len(made) == 2
        if not is_pair or not all(isinstance(it, torch.Tensor) for it in made):
            raise UserError(f"`batch` of --model returned {type(made).__name__}: it must return two tensors, (inputs, "
                            "targets)")
        shape = (len(samples), *self.expected.shape)
        if tuple(made[0].shape) != shape:
            raise UserError(f"`batch` of --model returned inputs of shape {tuple(made[0].shape)} instead of {shape} (the "
                            "number of samples and the input shape of layer 0): correct `batch` or that shape")
        return made[0], made[1]


def open_data(data: str, model, seed: int):
    """Returns a function from sample numbers to inputs and targets. `data`: synthetic, or the path of a file."""
    if model.batch is not None:
        return CheckedBatches(model.batch, model.inputs[0])
    sizes = model.transformer
    if sizes is None:
        raise UserError("--model has no training data: return a dtfm_runtime.model.Model with `batch`")
    return TokenBatches(SyntheticTokens(sizes, seed) if data == "synthetic" else TextFile(data, sizes, seed))
