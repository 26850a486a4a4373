"""Computes the layers of a chunk, one part after another, forward and backward."""
from __future__ import annotations

import contextlib
import time
import weakref
from dataclasses import dataclass
from typing import Callable, Mapping, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import nn

from .errors import UserError, computing
from .model import Head, require_tensor, stable_seed

LayerDone = Callable[[int], None]  # called with a layer whose gradients of this micro-batch are complete


class WeightGradients:
    """The products that a backward pass leaves for later (ZB-H1's W): of every nn.Linear its input and the gradient of
    its output. Other parameters are small or, like an embedding, cheap: their gradients come with the backward pass."""

    def __init__(self):
        self.products: list[tuple[nn.Parameter, torch.Tensor, torch.Tensor]] = []

    def take(self):
        taken, self.products = self.products, []
        return taken


class DeferredLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, store):
        ctx.save_for_backward(x, weight)
        ctx.weight, ctx.store, ctx.has_bias = weight, store, bias is not None
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        ctx.store.products.append((ctx.weight, x.detach().reshape(-1, x.shape[-1]), rows))
        return gradient @ weight, None, rows.sum(0) if ctx.has_bias else None, None


def defer_weight_gradients(module: nn.Module, store: WeightGradients) -> None:
    def forward_of(linear: nn.Linear):
        return lambda x: DeferredLinear.apply(x, linear.weight, linear.bias, store)

    for part in module.modules():
        if type(part) is nn.Linear:
            part.forward = forward_of(part)


def accumulate_fp32(parameters) -> None:
    """Adds 16-bit gradients to `main_grad` in fp32, for optimizers that sum in fp32."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.main_grad += parameter.grad
            parameter.grad = None


class HostCopy:
    """A tensor in host memory, which autograd may have saved several times."""

    def __init__(self, tensor: torch.Tensor, device: torch.device, copied: Optional[torch.cuda.Event]):
        self.tensor, self.device = tensor, device
        self.copied = copied  # None on a CPU
        self.returned: Optional[weakref.ref[torch.Tensor]] = None


def storage_of(tensor: torch.Tensor) -> int:
    return (tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()).data_ptr()


class HostMemory:
    """What autograd saves in a forward pass waits in host memory until the backward pass. On a GPU, each direction has its
    own stream, so copies overlap with computation as long as the CPU enqueues them ahead of time."""

    def __init__(self) -> None:
        self._streams: Optional[tuple[torch.cuda.Stream, torch.cuda.Stream]] = None  # to the host, from it

    def wait(self) -> None:
        """Waits, before the next pass, until the activations of the previous one have left the device."""
        if self._streams:
            self._streams[0].synchronize()

    @contextlib.contextmanager
    def saving(self, module: nn.Module, x: torch.Tensor):
        """A context for the forward pass of `module` with input `x`, which stays on the device, as parameters do."""
        kept = {storage_of(it) for it in (x, *module.parameters())}
        copies: dict[tuple, tuple[torch.Tensor, HostCopy]] = {}  # with the tensors, so that their memory is not used again

        def pack(tensor: torch.Tensor):
            if storage_of(tensor) in kept:
                return tensor
            key = (tensor.data_ptr(), tensor.size(), tensor.stride(), tensor.dtype, tensor._version)
            if key not in copies:
                copies[key] = tensor, self._to_host(tensor)
            return copies[key][1]

        def unpack(packed):
            return self._from_host(packed) if isinstance(packed, HostCopy) else packed

        try:
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                yield
        finally:
            copies.clear()

    def _to_host(self, tensor: torch.Tensor) -> HostCopy:
        if not tensor.is_cuda:
            return HostCopy(tensor.detach().clone(), tensor.device, None)
        if self._streams is None:
            self._streams = torch.cuda.Stream(tensor.device), torch.cuda.Stream(tensor.device)
        out = self._streams[0]
        host = torch.empty(tensor.size(), dtype=tensor.dtype, pin_memory=True)
        out.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(out):
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(out)  # keeps the allocator from reusing the memory before the copy completes
        return HostCopy(host, tensor.device, out.record_event())

    def _from_host(self, copy: HostCopy) -> torch.Tensor:
        if copy.copied is None:
            return copy.tensor
        tensor = copy.returned() if copy.returned else None
        if tensor is None:
            back, now = self._streams[1], torch.cuda.current_stream(copy.device)
            back.wait_event(copy.copied)
            with torch.cuda.stream(back):
                tensor = copy.tensor.to(copy.device, non_blocking=True)
            now.wait_stream(back)
            tensor.record_stream(now)
            copy.returned = weakref.ref(tensor)
        return tensor


class Segment:
    """A module that is computed at once, and the layer that it belongs to. `sample_shape`: the required shape of its
    output without the dimension of samples; None: any."""

    def __init__(self, module: nn.Module, layer: int, is_last: bool, recompute: bool, offload: bool = False,
                 sample_shape: Optional[Sequence[int]] = None):
        self.module, self.layer, self.completes_layer, self.sample_shape = module, layer, is_last, sample_shape
        self.offload = offload
        self.recompute = recompute and not isinstance(module, Head)  # the planner never recomputes the head
        self.is_random = any(isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0
                             for part in module.modules())
        self.store = WeightGradients()
        self.fp32_gradients = [it for it in module.parameters() if hasattr(it, "main_grad")]

    def run(self, x: torch.Tensor, seed: tuple[int, ...]) -> torch.Tensor:
        if self.is_random:  # the same dropout in every plan, and when it is recomputed
            torch.manual_seed(stable_seed(*seed, self.layer))
        with computing(f"layer {self.layer}, forward pass"):
            return require_tensor(self.module(x), f"layer {self.layer}", len(x), self.sample_shape)


class ChunkCompute:
    """`segments` in the order of the forward pass. With `loss`, the output of the last segment goes into it."""

    def __init__(self, segments: list[Segment], splits_backward: bool, loss: Optional[Callable] = None,
                 host: Optional[HostMemory] = None):
        self.segments, self.splits_backward, self.loss = segments, splits_backward, loss
        self._kept: dict[int, list] = {}  # by micro-batch: input and output of each segment
        self._host = host or HostMemory()
        self._products: dict[int, list] = {}
        if splits_backward:
            for segment in segments:
                defer_weight_gradients(segment.module, segment.store)

    def forward(self, micro_batch: int, x: torch.Tensor, seed: tuple[int, ...], target=None) -> torch.Tensor:
        kept = []
        self._host.wait()
        for number, segment in enumerate(self.segments):
            x = x.detach().requires_grad_(x.is_floating_point())
            is_loss = self.loss is not None and number == len(self.segments) - 1
            recompute = segment.recompute and not is_loss
            with torch.set_grad_enabled(not recompute):
                with self._host.saving(segment.module, x) if segment.offload else contextlib.nullcontext():
                    y = segment.run(x, seed)
                    if is_loss:
                        with computing("the loss"):
                            y = self.loss(y, target)
            kept.append((x, None if recompute else y, seed))
            x = y
        self._kept[micro_batch] = kept
        return x.detach()

    def backward(self, micro_batch: int, gradient: Optional[torch.Tensor], done: LayerDone) -> Optional[torch.Tensor]:
        """Returns the gradient of the input, or None if the input has none (token ids). `gradient` is None where the
        chunk ends in the loss. With a split backward pass, `weight_gradients` completes the layers."""
        kept = self._kept.pop(micro_batch)
        self._host.wait()
        for segment in reversed(self.segments):
            x, y, seed = kept.pop()
            if y is None:
                with torch.enable_grad():
                    y = segment.run(x, seed)
            with computing(f"layer {segment.layer}, backward pass"):
                torch.autograd.backward(y, gradient)
            gradient, x.grad = x.grad, None
            if gradient is None and x.requires_grad and (kept or segment.layer > 0):
                raise UserError(f"layer {segment.layer} passes no gradient to its input: its output must depend on the input, "
                                "and not be detached from it")
            accumulate_fp32(segment.fp32_gradients)
            if self.splits_backward:
                self._products.setdefault(micro_batch, []).append((segment, segment.store.take()))
            elif segment.completes_layer:
                done(segment.layer)
        return gradient

    def weight_gradients(self, micro_batch: int, done: LayerDone) -> None:
        for segment, products in self._products.pop(micro_batch):
            for weight, x, gradient in products:
                if hasattr(weight, "main_grad"):
                    weight.main_grad += gradient.t() @ x
                else:
                    weight.grad.addmm_(gradient.t(), x)
            if segment.completes_layer:
                done(segment.layer)


@dataclass(frozen=True)
class EmulatedLayer:
    """Seconds of a layer on this device, from a profile. `weight_share` of the backward pass computes the gradients of
    parameters; `recompute` repeats what full recomputation repeats, all but the head."""

    forward: float
    backward: float
    update: float
    recompute: float
    weight_share: float


class Sleeper:
    """Sleeps instead of computing. A sleep ends late, on a busy machine by milliseconds; the next one is shorter by as
    much, so that the device computes for as long as it should in all."""

    def __init__(self) -> None:
        self.late_s = 0.0

    def sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds - self.late_s
        time.sleep(max(0.0, end - time.monotonic()))
        self.late_s = time.monotonic() - end


class EmulatedChunk:
    """Sleeps for the time of the profile instead of computing. What it returns has the real size. The first `recomputed`
    layers are recomputed."""

    def __init__(self, layers: Sequence[int], times: Mapping[int, EmulatedLayer], sleeper: Sleeper,
                 splits_backward: bool, recomputed: int, make_output: Callable[[], Optional[torch.Tensor]],
                 make_gradient: Callable[[], Optional[torch.Tensor]]):
        self.layers, self.times, self.splits_backward, self.recomputed = layers, times, splits_backward, layers[:recomputed]
        self.sleeper, self.make_output, self.make_gradient = sleeper, make_output, make_gradient

    def forward(self, micro_batch: int, x, seed, target=None) -> Optional[torch.Tensor]:
        self.sleeper.sleep(sum(self.times[layer].forward for layer in self.layers))
        return self.make_output()

    def backward(self, micro_batch: int, gradient, done: LayerDone) -> Optional[torch.Tensor]:
        for layer in reversed(self.layers):
            it = self.times[layer]
            share = 1 - it.weight_share if self.splits_backward else 1
            self.sleeper.sleep(it.backward * share + it.recompute * (layer in self.recomputed))
            if not self.splits_backward:
                done(layer)
        return self.make_gradient()

    def weight_gradients(self, micro_batch: int, done: LayerDone) -> None:
        for layer in reversed(self.layers):
            self.sleeper.sleep(self.times[layer].backward * self.times[layer].weight_share)
            done(layer)
