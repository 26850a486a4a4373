"""Times of the layers on this device: measured for `dtfm-plan`, or read back to emulate computing by sleeping.

A layer is measured as it is trained: forward with gradients, backward into gradients that exist already, the step of
the optimizer. Copies of the layer take copies, so that the cache does not hold what the previous run left.
"""
from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import time
from dataclasses import dataclass
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .compute import accumulate_fp32
from .errors import UserError
from .memory import (block_parameters, embedding_parameters, head_parameters, measuring_bytes,
                     require_memory)
from .model import Block, Embedding, Head, Model, Transformer
from .optimizer import AdamW, ParameterGroup

SCHEMA = "dtfm-profile/1"
MAX_BYTES, MAX_ROWS, MAX_MICRO_BATCH = 64 << 20, 100_000, 1_000_000_000
WARM_UP_RUNS, MAX_RUNS = 2, 10_000
MIN_COPIES, MAX_COPIES = 2, 16
CACHE_BYTES = 64 << 20  # of the last level, generously
BLOCKS = "block"


@dataclass(frozen=True)
class Kind:
    """Layers that take equally long. A transformer has three; of other models each layer is one."""

    name: str
    make: Callable[[], nn.Module]
    make_input: Callable[[int], Tensor]  # of a micro-batch
    needs_input_gradient: bool
    loss: Optional[Callable[[Tensor], Tensor]] = None  # of the last layer's output


def kinds_of(model: Model, device: torch.device, dtype: torch.dtype) -> List[Kind]:
    where = {"device": device, "dtype": dtype}
    it = model.transformer
    if it is None:
        return [_kind_of_layer(model, layer, device, dtype) for layer in range(model.layers)]

    def ids(samples: int) -> Tensor:
        return torch.randint(it.vocabulary, (samples, it.sequence), device=device)

    def activations(samples: int) -> Tensor:
        return torch.randn(samples, it.sequence, it.hidden, **where)

    return [Kind("embedding", lambda: Embedding(it, **where), ids, False),
            Kind(BLOCKS, lambda: Block(it, **where), activations, True),
            Kind("head", lambda: Head(it, **where), activations, True,
                 lambda output: model.loss(output, torch.zeros(output.shape[:2], dtype=torch.int64, device=device)))]


def _kind_of_layer(model: Model, layer: int, device: torch.device, dtype: torch.dtype) -> Kind:
    """Inputs of the first layer and targets of the last one are those of real samples, if the model has them."""
    expected = model.inputs[layer]

    def make_input(samples: int) -> Tensor:
        if layer == 0 and model.batch is not None:
            return model.batch(range(samples))[0].to(device)
        if expected.dtype is not None and not expected.dtype.is_floating_point:
            return torch.zeros(samples, *expected.shape, dtype=expected.dtype, device=device)
        return torch.randn(samples, *expected.shape, dtype=expected.dtype or dtype, device=device)

    def loss(output: Tensor) -> Tensor:
        if model.batch is None:
            return output.float().square().mean()
        return model.loss(output, model.batch(range(len(output)))[1].to(device))

    return Kind(f"layer {layer}", lambda: model.build(layer, 0, device, dtype), make_input, layer > 0,
                loss if layer == model.layers - 1 else None)


# -------------------------------------------------------------------------------------------------- measuring

def measure(model: Model, micro_batches: Sequence[int], device: torch.device, precision: str, runs: int = 30,
            gpu: Optional[str] = None, dtype: Optional[torch.dtype] = None, optimizer=AdamW(lr=1e-4),
            accumulates_in_fp32: bool = False, min_seconds: float = 0.5) -> dict:
    """A profile of this device with all kinds of layers at all sizes of a micro-batch. `gpu` is the device's name in
    the topology, `precision` the job's. `dtype` overrides the type that `precision` implies. `accumulates_in_fp32`:
    gradients are summed in fp32. Every row is measured `runs` times or more, to take `min_seconds`."""
    device = torch.device(device)
    dtype = dtype or _dtype_of(precision, device)
    rows = []
    if model.transformer is not None and device.type == "cpu":
        _require_memory(model.transformer, max(micro_batches), dtype, optimizer)
    for kind in kinds_of(model, device, dtype):
        for micro_batch in sorted(set(micro_batches)):
            with _enough_memory(kind.name, micro_batch), _tf32(precision):
                rows.append({"kind": kind.name, "micro_batch": micro_batch,
                             **_row(_copies(kind, micro_batch, lambda layer: _Parameters(
                                 layer, dtype, accumulates_in_fp32, device, optimizer)), device, runs, min_seconds)})
    profile = {"schema": SCHEMA, "gpu": gpu or _name_of(device), "source": "measured",
               "derivation": _derivation(device, dtype, runs), "precision": precision, "model": model.name[:256]}
    if model.transformer is not None:
        profile["model"] = "transformer"
        profile["shape"] = _shape(model.transformer)
    return {**profile, "software": _software(device), "layers": rows}


def _require_memory(it: Transformer, micro_batch: int, dtype: torch.dtype, optimizer) -> None:
    element_bytes = torch.finfo(dtype).bits // 8
    for kind, count in (("embedding", embedding_parameters), (BLOCKS, block_parameters), ("head", head_parameters)):
        needed = measuring_bytes(it, kind, micro_batch, element_bytes, len(optimizer.states),
                                 _copies_of(count(it) * element_bytes))
        require_memory(needed, f"measuring `{kind}` with micro-batches of {micro_batch}",
                       "measure a smaller model or smaller --micro-batches")


def _copies_of(parameter_bytes: int) -> int:
    """So many copies of a layer that all together are several times as large as the cache."""
    return max(MIN_COPIES, min(MAX_COPIES, 3 * CACHE_BYTES // max(1, parameter_bytes)))


def write(profile: Mapping, path: os.PathLike) -> None:
    rows = ",\n".join("    " + json.dumps(row) for row in profile["layers"])
    others = {key: value for key, value in profile.items() if key != "layers"}
    fields = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in others.items())
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write("{\n" + fields + '  "layers": [\n' + rows + "\n  ]\n}\n")
    except OSError as error:
        raise UserError(f"--profile {path} cannot be written: {error.strerror}") from None


def _dtype_of(precision: str, device: torch.device) -> torch.dtype:
    """CPUs train in fp32, whatever the job's precision."""
    if device.type == "cpu":
        return torch.float32
    return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)


@contextlib.contextmanager
def _tf32(precision: str) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@contextlib.contextmanager
def _enough_memory(kind: str, micro_batch: int) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not any(word in str(error) for word in ("memory", "overflow")):
            raise
        raise UserError(f"not enough memory to measure {kind} with micro-batches of {micro_batch}: measure smaller "
                        "ones") from None


def _copies(kind: Kind, micro_batch: int, make_parameters: Callable[[nn.Module], _Parameters]) -> List[_LayerCopy]:
    first = _LayerCopy(kind, micro_batch, make_parameters)
    others = range(_copies_of(first.parameter_bytes()) - 1)
    return [first] + [_LayerCopy(kind, micro_batch, make_parameters) for _ in others]


def _row(copies: Sequence[_LayerCopy], device: torch.device, runs: int, min_seconds: float) -> Dict[str, float]:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    row: Dict[str, float] = {"activation_bytes": copies[0].activation_bytes()}
    clock = _EventClock() if device.type == "cuda" else _Clock()
    _repeat(copies, clock, max(WARM_UP_RUNS, len(copies)), 0.4 * min_seconds)
    samples = _repeat(copies, clock, max(1, runs), min_seconds)
    for step, values in zip(("forward", "backward", "update"), zip(*samples)):
        row[f"{step}_s"] = statistics.median(values)
        row[f"{step}_spread_s"] = _spread(values)
    if device.type == "cuda":
        row["peak_bytes"] = torch.cuda.max_memory_allocated(device)
    return row


def _repeat(copies: Sequence[_LayerCopy], clock, runs: int, min_seconds: float) -> List[List[float]]:
    """Durations of forward, backward and update in each run."""
    marks, begin = [], time.monotonic()
    while len(marks) < runs or (time.monotonic() - begin < min_seconds and len(marks) < MAX_RUNS):
        marks.append(copies[len(marks) % len(copies)].run(clock))
    clock.wait()
    return [[clock.seconds(before, after) for before, after in zip(run, run[1:])] for run in marks]


def _spread(values: Sequence[float]) -> float:
    """90th − 10th percentile."""
    ordered = sorted(values)
    return ordered[int(0.9 * (len(ordered) - 1))] - ordered[int(0.1 * (len(ordered) - 1))]


class _Clock:
    def mark(self) -> float:
        return time.perf_counter()

    def wait(self) -> None:
        pass

    def seconds(self, before: float, after: float) -> float:
        return after - before


class _EventClock:
    """The clock of a GPU, whose queue never runs empty between the runs, as in training."""

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def wait(self) -> None:
        torch.cuda.synchronize()

    def seconds(self, before: torch.cuda.Event, after: torch.cuda.Event) -> float:
        return before.elapsed_time(after) / 1e3


class _Parameters:
    """The parameters of a layer as they are trained: flat, with gradients in place and the states of the optimizer."""

    def __init__(self, layer: nn.Module, dtype: torch.dtype, accumulates_in_fp32: bool, device: torch.device,
                 optimizer) -> None:
        named = [(0, name, parameter) for name, parameter in layer.named_parameters()]
        self._group, self._optimizer = ParameterGroup(named, dtype, accumulates_in_fp32, device), optimizer
        self._group.make_states((0, self._group.length), optimizer)
        self._fp32_gradients = [it for it in layer.parameters() if hasattr(it, "main_grad")]

    def accumulate(self) -> None:
        accumulate_fp32(self._fp32_gradients)

    def update(self) -> None:
        self._group.update(self._optimizer)
        self._group.gradients.zero_()


class _LayerCopy:
    """A copy of a layer with its input."""

    def __init__(self, kind: Kind, micro_batch: int, make_parameters: Callable[[nn.Module], _Parameters]) -> None:
        self._kind, self._layer = kind, kind.make()
        self._parameters = make_parameters(self._layer)
        self._input = kind.make_input(micro_batch)
        self._input.requires_grad_(kind.needs_input_gradient and self._input.is_floating_point())
        self._gradient: Optional[Tensor] = None  # of the output

    def run(self, clock) -> list:
        """Marks of the clock before and after forward, backward and update."""
        self._input.grad = None
        marks = [clock.mark()]
        output = self._forward()
        marks.append(clock.mark())
        if output.requires_grad:
            output.backward(self._gradient_of(output))
        self._parameters.accumulate()
        marks.append(clock.mark())
        self._parameters.update()
        marks.append(clock.mark())
        return marks

    def _gradient_of(self, output: Tensor) -> Optional[Tensor]:
        """Made in the first run, which is warm-up."""
        if self._gradient is None and output.dim() > 0:
            self._gradient = torch.randn_like(output)
        return self._gradient

    def parameter_bytes(self) -> int:
        return sum(p.numel() * p.element_size() for p in self._layer.parameters())

    def _forward(self) -> Tensor:
        output = self._layer(self._input)
        return output if self._kind.loss is None else self._kind.loss(output)

    def activation_bytes(self) -> int:
        """What the forward pass keeps for the backward pass, without the parameters."""
        parameters = {p.data_ptr() for p in self._layer.parameters()}
        kept: Dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
            if storage.data_ptr() not in parameters:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            output = self._forward()
        del output
        return sum(kept.values())


def _name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def _derivation(device: torch.device, dtype: torch.dtype, runs: int) -> str:
    is_gpu = device.type == "cuda"
    where = torch.cuda.get_device_name(device) if is_gpu else f"a CPU ({torch.get_num_threads()} threads)"
    return (f"medians of at least {max(1, runs)} runs on {where} after warm-up, computed by PyTorch in "
            f"{str(dtype).split('.')[-1]}, with copies of each layer in rotation")


def _software(device: torch.device) -> Dict[str, str]:
    software = {"pytorch": torch.__version__, "python": platform.python_version()}
    if device.type == "cuda" and torch.version.cuda:
        software["cuda"] = torch.version.cuda
    return software


def _shape(it: Transformer) -> dict:
    """The sizes with the keys of a job's `model`, without those that have their defaults."""
    shape: dict = {"hidden": it.hidden, "heads": it.heads, "sequence": it.sequence, "vocabulary": it.vocabulary,
                   "kv_heads": it.kv_heads, "head_dim": it.head_dim}
    if it.experts is None:
        shape["feed_forward"] = it.feed_forward
    else:
        shape["experts"] = {key: value for key, value in vars(it.experts).items() if value}
    if it.gated:
        shape["gated"] = True
    if not it.biases:
        shape["biases"] = False
    if not it.tied:
        shape["tied"] = False
    if it.rms_norm:
        shape["norm"] = "rms"
    if it.qk_norm:
        shape["qk_norm"] = True
    if it.flash_attention:
        shape["attention"] = "flash"
    if it.positions != it.sequence:
        shape["positions"] = it.positions or "rotary"
    return shape


# -------------------------------------------------------------------------------------------------- emulating

class Emulation:
    """Reads how long the layers of a model take, for a run that sleeps instead of computing."""

    def __init__(self, path: os.PathLike, model: Model) -> None:
        self._path = path
        self._rows, shape = _read_profile(path)
        _require_shape(path, shape, model)
        self._kinds = [_kinds_of_layer(model, layer) for layer in range(model.layers)]
        missing = {kind for kinds in self._kinds for kind in kinds} - self._rows.keys()
        if missing:
            raise UserError(f"{path} has no times for `{min(missing)}`: profile this model with train.py --profile")

    def forward_s(self, layers: Iterable[int], micro_batch: int) -> float:
        return self._seconds("forward_s", layers, micro_batch)

    def backward_s(self, layers: Iterable[int], micro_batch: int) -> float:
        """Without recomputation."""
        return self._seconds("backward_s", layers, micro_batch)

    def update_s(self, layers: Iterable[int]) -> float:
        return sum(next(iter(rows.values())).get("update_s", 0.0) for rows in self._rows_of(layers))

    def _seconds(self, what: str, layers: Iterable[int], micro_batch: int) -> float:
        return sum(_interpolated(rows, what, micro_batch) for rows in self._rows_of(layers))

    def _rows_of(self, layers: Iterable[int]) -> Iterator[Dict[int, Dict[str, float]]]:
        return (self._rows[kind] for layer in layers for kind in self._kinds[layer])


def _kinds_of_layer(model: Model, layer: int) -> List[str]:
    if model.transformer is None:
        return [f"layer {layer}"]
    return ["embedding"] * (layer == 0) + [BLOCKS] + ["head"] * (layer == model.layers - 1)


def _interpolated(rows: Mapping[int, Mapping[str, float]], what: str, micro_batch: int) -> float:
    """On the line through the sizes next to this one, as dtfm-plan; below the smallest in proportion."""
    sizes = sorted(rows)
    if len(sizes) == 1 or micro_batch < sizes[0]:
        return rows[sizes[0]][what] * micro_batch / sizes[0]
    upper = next((i for i, size in enumerate(sizes) if size >= micro_batch and i > 0), len(sizes) - 1)
    low, high = sizes[upper - 1], sizes[upper]
    slope = (rows[high][what] - rows[low][what]) / (high - low)
    return max(0.0, rows[low][what] + slope * (micro_batch - low))


def _require_shape(path: os.PathLike, theirs: object, model: Model) -> None:
    """Layers of other sizes take another time. Profiles of custom models do not say their sizes."""
    ours = _shape(model.transformer) if model.transformer else {}
    for key in sorted(ours.keys() & theirs.keys()) if isinstance(theirs, dict) else ():
        if theirs[key] != ours[key]:
            raise UserError(f"{path} is of another model: `{key}` is {str(theirs[key])[:20]} there and {ours[key]} in "
                            "this plan; profile this model with train.py --profile")


def _read_profile(path: os.PathLike) -> Tuple[Dict[str, Dict[int, Dict[str, float]]], object]:
    """Times by kind and size of the micro-batch, and the sizes of the model."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
        profile = json.loads(text)
        if len(text) > MAX_BYTES or profile["schema"] != SCHEMA or not 0 < len(profile["layers"]) <= MAX_ROWS:
            raise ValueError
        rows: Dict[str, Dict[int, Dict[str, float]]] = {}
        for row in profile["layers"]:
            if row.get("tensor", 1) == 1:
                rows.setdefault(str(row["kind"]), {})[_size(row["micro_batch"])] = _row_times(row)
        return rows, profile.get("shape")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise UserError(f"{path} is not a profile ({SCHEMA}): write one with train.py --profile") from None


def _size(value: object) -> int:
    if type(value) is not int or not 1 <= value <= MAX_MICRO_BATCH:
        raise ValueError
    return value


def _row_times(row: Mapping) -> Dict[str, float]:
    times = {key: float(row[key]) for key in ("forward_s", "backward_s", "update_s") if key in row}
    if not {"forward_s", "backward_s"} <= times.keys() or not all(0 <= seconds <= 1e6 for seconds in times.values()):
        raise ValueError
    return times
