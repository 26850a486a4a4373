"""Layers of a user for custom_model.py: a classifier of random vectors, with dropout and a layer without parameters."""
import torch
from torch import nn

from dtfm_runtime.model import LayerInput, Model, stable_seed

WIDTH, CLASSES = 12, 5


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner = nn.Sequential(nn.Linear(WIDTH, 20), nn.Tanh(), nn.Dropout(0.2), nn.Linear(20, WIDTH, bias=False))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x + self.scale * self.inner(self.norm(x))


def batch(samples):
    numbers = []
    for sample in samples:
        generator = torch.Generator().manual_seed(stable_seed(7, sample))
        numbers.append(torch.randn(WIDTH, generator=generator))
    inputs = torch.stack(numbers)
    return inputs, inputs[:, :CLASSES].argmax(1)


def make():
    """Functions that make layers: a rank makes only its own."""
    layers = [lambda **_: nn.Linear(WIDTH, WIDTH), lambda **_: Residual(), lambda **_: nn.Tanh(), lambda **_: Residual(),
              lambda **_: nn.Linear(WIDTH, CLASSES)]
    return Model(make=layers, inputs=[LayerInput((WIDTH,))] * 5, batch=batch, name="classifier")


def rows():
    """The short form, for tokens: modules with the shape and type of their inputs."""
    torch.manual_seed(0)
    return [(nn.Embedding(32, 8), (6,), torch.int64), (nn.Linear(8, 8), (6, 8), None), (nn.Linear(8, 32), (6, 8), None)]
