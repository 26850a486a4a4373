"""Parameters in flat buffers, and their updates: AdamW and SGD, of all elements or, with ZeRO-1, of a rank's share."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Iterator, Sequence

import torch
from torch import nn

from .errors import UserError
from .sync import Range


@dataclass(frozen=True)
class Entry:
    layer: int
    name: str
    parameter: nn.Parameter
    first: int  # in the flat buffers

    @property
    def end(self) -> int:
        return self.first + self.parameter.numel()


class ParameterGroup:
    """The parameters that a rank synchronizes with the same ranks, flat and contiguous, so that messages are parts of
    the buffers. `fp32_gradients`: gradients are summed in fp32 whatever the parameters are."""

    def __init__(self, parameters: Sequence[tuple[int, str, nn.Parameter]], dtype: torch.dtype, fp32_gradients: bool,
                 device):
        self.entries: list[Entry] = []
        total = 0
        for layer, name, parameter in parameters:
            self.entries.append(Entry(layer, name, parameter, total))
            total = self.entries[-1].end
        self.length = total
        self.flat = torch.zeros(total, dtype=dtype, device=device)
        gradient_type = torch.promote_types(dtype, torch.float32) if fp32_gradients else dtype
        self.gradients = torch.zeros(total, dtype=gradient_type, device=device)
        for entry in self.entries:
            self._attach(entry)
        self.owned: Range = (0, total)
        self.states: dict[str, torch.Tensor] = {}
        self.steps = 0

    def _attach(self, entry: Entry) -> None:
        parameter = entry.parameter
        if parameter.is_meta:  # of an emulated rank, which computes nothing
            return
        values = self.flat[entry.first:entry.end].view(parameter.shape)
        values.copy_(parameter.data)
        parameter.data = values
        gradient = self.gradients[entry.first:entry.end].view(parameter.shape)
        if gradient.dtype == parameter.dtype:
            parameter.grad = gradient
        else:
            parameter.main_grad = gradient

    def make_states(self, owned: Range, optimizer) -> None:
        """Allocates, for the owned range, the optimizer state and, for 16-bit parameters, an fp32 master copy."""
        self.owned = owned
        values = self.flat[slice(*owned)]
        self.master = values if values.dtype in (torch.float32, torch.float64) else values.float()
        self.states = {name: torch.zeros_like(self.master) for name in optimizer.states}

    def update(self, optimizer, scale: float = 1.0) -> None:
        """`scale`: what the gradients were multiplied by."""
        self.steps += 1
        gradient = self.gradients[slice(*self.owned)].to(self.master.dtype)
        optimizer.step(self.master, gradient / scale if scale != 1.0 else gradient, self.states, self.steps)
        if self.master.dtype != self.flat.dtype:
            self.flat[slice(*self.owned)] = self.master

    def pieces(self, whole: Range) -> Iterator[tuple[Entry, Range]]:
        """The entries that overlap the range, each with its part of it, in positions of the flat buffers."""
        for entry in self.entries:
            first, end = max(entry.first, whole[0]), min(entry.end, whole[1])
            if first < end:
                yield entry, (first, end)


@dataclass(frozen=True)
class AdamW:
    """Loshchilov and Hutter, arXiv 1711.05101."""

    lr: float
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    states = ("exp_avg", "exp_avg_sq")

    def step(self, values: torch.Tensor, gradient: torch.Tensor, states: dict[str, torch.Tensor], steps: int) -> None:
        mean, square = states["exp_avg"], states["exp_avg_sq"]
        first, second = self.betas
        values.mul_(1 - self.lr * self.weight_decay)
        mean.mul_(first).add_(gradient, alpha=1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        width = (square.sqrt() / math.sqrt(1 - second ** steps)).add_(self.epsilon)
        values.addcdiv_(mean, width, value=-self.lr / (1 - first ** steps))


@dataclass(frozen=True)
class SGD:
    """Without momentum: the optimizer that the planner calls sgd keeps no state."""

    lr: float
    weight_decay: float = 0.0
    states = ()

    def step(self, values: torch.Tensor, gradient: torch.Tensor, states: dict[str, torch.Tensor], steps: int) -> None:
        values.mul_(1 - self.lr * self.weight_decay).add_(gradient, alpha=-self.lr)


def make_optimizer(name: str, lr: float, epsilon: float, weight_decay: float):
    return AdamW(lr, epsilon, weight_decay) if name == "adamw" else SGD(lr, weight_decay)


def default_optimizer(planned: str) -> str:
    """What --optimizer is if it is not given, from the name in the plan."""
    if planned.startswith("adam"):
        return "adamw"
    if planned.startswith("sgd"):
        return "sgd"
    raise UserError(f"the plan's optimizer {planned} may be AdamW or SGD: choose one with --optimizer (this runtime "
                    "keeps its state on the device)")


def accumulates_in_fp32(planned: str) -> bool:
    """Whether gradients are summed and sent in fp32 (core/model/optimizer.cpp)."""
    return planned in ("adam-18", "sgd-12")


class LossScale:
    """Dynamic loss scaling of fp16 (Micikevicius et al., arXiv 1710.03740): halved after an overflow, doubled after
    `patience` steps without one."""

    def __init__(self, enabled: bool, patience: int = 2000):
        self.value, self.patience, self.good_steps = (2.0 ** 16 if enabled else 1.0), patience, 0
        self.enabled = enabled

    def after(self, overflow: bool) -> None:
        if not self.enabled:
            return
        self.good_steps = 0 if overflow else self.good_steps + 1
        if overflow:
            self.value = max(1.0, self.value / 2)
        elif self.good_steps == self.patience:
            self.value, self.good_steps = self.value * 2, 0
