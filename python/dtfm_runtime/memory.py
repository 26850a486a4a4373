"""Rejects what cannot fit into the memory of this machine, before the operating system ends the process without a
message. GPUs need no such check: PyTorch raises an error."""
from __future__ import annotations

from pathlib import Path
from typing import Iterator

from .errors import UserError
from .model import Transformer


def require_memory(needed_bytes: int, what: str, advice: str) -> None:
    """`needed_bytes` is a lower bound."""
    available = min(_limits(), default=None)
    if available is not None and needed_bytes > available:
        raise UserError(f"{what} needs at least {needed_bytes / 1e9:.4g} GB of memory, but this machine has "
                        f"{available / 1e9:.4g} GB available: {advice}")


def _limits() -> Iterator[int]:
    """The memory that is free or can be freed, and the limit of the container, where the system tells them."""
    try:
        rows = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        yield sum(int(rows[key].split()[0]) * 1024 for key in ("MemAvailable", "SwapFree"))
    except (OSError, ValueError, KeyError):
        pass
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            yield int(Path(path).read_text(encoding="ascii"))
        except (OSError, ValueError):  # absent, or without a limit
            pass


def block_parameters(it: Transformer) -> int:
    """Without biases and norms, which are small."""
    attention = 2 * (it.heads + it.kv_heads) * it.head_dim
    width = it.feed_forward if it.experts is None else it.experts.count * it.experts.width + it.experts.shared_width
    return it.hidden * attention + (3 if it.gated else 2) * it.hidden * width


def embedding_parameters(it: Transformer) -> int:
    return (it.vocabulary + it.positions) * it.hidden


def head_parameters(it: Transformer) -> int:
    return it.vocabulary * it.hidden


def block_activations(it: Transformer) -> int:
    """Elements that a block keeps of a sample for the backward pass, at least."""
    scores = 0 if it.flash_attention else it.heads * it.sequence ** 2
    width = it.feed_forward if it.experts is None else it.experts.per_token * it.experts.width + it.experts.shared_width
    return it.sequence * (4 * it.hidden + 2 * it.heads * it.head_dim + width) + scores


def training_bytes(it: Transformer, layers: list[int], micro_batch: int, element_bytes: int) -> int:
    """Parameters and gradients of the layers, and the activations of one block."""
    parameters = len(layers) * block_parameters(it) + (embedding_parameters(it) if 0 in layers else 0)
    if it.layers - 1 in layers and not (it.tied and 0 in layers):
        parameters += head_parameters(it)
    return element_bytes * (2 * parameters + micro_batch * block_activations(it))


def measuring_bytes(it: Transformer, kind: str, micro_batch: int, element_bytes: int, states: int, copies: int) -> int:
    """Copies of a layer with gradients, `states` states of the optimizer, inputs and outputs; and the activations of
    one of them."""
    width = it.sequence * it.hidden
    parameters, kept, activations = {
        "embedding": (embedding_parameters(it), width, 0),
        "block": (block_parameters(it), 3 * width, block_activations(it)),
        "head": (head_parameters(it), 2 * width, it.sequence * it.vocabulary)}[kind]
    of_copy = parameters * (2 * element_bytes + 4 * states) + micro_batch * kept * element_bytes
    return copies * of_copy + micro_batch * activations * element_bytes
