"""The model that is trained: the job's transformer, or layers of your own (`--model module:function`)."""
from __future__ import annotations

import contextlib
import hashlib
import importlib
import math
from dataclasses import dataclass
from functools import partial
from typing import Callable, Iterable, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import nn

from .context import TokenRing
from .errors import UserError, computing

MAX_SIZE, MAX_LAYERS = 1_000_000_000, 100_000  # of any size in a job
# Keys of a job's `model` that Transformer has, or that do not change what is trained.
PLAIN_KEYS = {"kind", "layers", "hidden", "heads", "sequence", "vocabulary", "kv_heads", "head_dim", "feed_forward", "positions",
              "gated", "biases", "norm", "qk_norm", "tied", "attention", "dropout", "attention_dropout", "kernels",
              "encoder", "pooler", "experts"}


def stable_seed(*numbers: int) -> int:
    """The same 63-bit number in every process, whatever the plan."""
    digest = hashlib.sha256(",".join(map(str, numbers)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


@contextlib.contextmanager
def seeded(*numbers: int):
    """Random numbers that depend on `numbers` only; the state from before is restored."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(stable_seed(*numbers))
        yield


@dataclass(frozen=True)
class Experts:
    """What every block has instead of an MLP. A token visits the experts with the highest scores of a router."""

    count: int
    per_token: int
    width: int
    shared_width: int  # of an MLP that all tokens visit; 0: none

    @staticmethod
    def read(model: dict) -> "Experts":
        experts = model["experts"]
        if not isinstance(experts, dict):
            raise UserError(f"model.experts must be an object, not {experts!r:.40}")
        beyond = [key for key in experts if experts[key] and key not in ("count", "per_token", "width", "shared_width")]
        if beyond:
            raise UserError(f"model.experts.{beyond[0]:.40} describes modules that are not built here: give the layers of the model "
                            "with --model module:function")
        it = Experts(*(size(experts, "model.experts.", key) for key in ("count", "per_token", "width")),
                     size(experts, "model.experts.", "shared_width", 0, least=0))
        if it.per_token > it.count:
            raise UserError(f"model.experts.per_token must be at most model.experts.count, {it.count}, not {it.per_token}")
        return it


def size(values: dict, where: str, key: str, default: Optional[int] = None, most: int = MAX_SIZE, least: int = 1) -> int:
    value = values.get(key, default)
    if type(value) is not int or not least <= value <= most:
        raise UserError(f"{where}{key} must be a whole number from {least} to {most}, not {value!r:.40}")
    return value


@dataclass(frozen=True)
class Transformer:
    """Sizes of a transformer, with the keys and defaults of a job's `model`."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    positions: int  # rows of the position table; 0: rotary
    gated: bool = False
    biases: bool = True
    rms_norm: bool = False
    qk_norm: bool = False
    tied: bool = True
    flash_attention: bool = False
    experts: Optional[Experts] = None

    @staticmethod
    def read(model: dict) -> "Transformer":
        """Checks a job's `model` object. Dropout is left out: the runtime trains without it."""
        sized = partial(size, model, "model.")

        def flag(key: str, default: bool) -> bool:
            value = model.get(key, default)
            if type(value) is not bool:
                raise UserError(f"model.{key} must be true or false, not {value!r}")
            return value

        if model.get("kind", "transformer") != "transformer":
            raise UserError(f"model.kind is {model.get('kind')!r}: give its layers with --model module:function")
        if flag("encoder", False):
            raise UserError("model.encoder is true: give the layers of an encoder with --model module:function")
        beyond = [key for key in model if key not in PLAIN_KEYS]
        beyond += ["biases"] * isinstance(model.get("biases"), list) + ["qk_norm"] * (model.get("qk_norm") == "all-heads")
        if beyond:
            raise UserError(f"model.{beyond[0]:.40} describes modules that are not built here: give the layers of the model with "
                            "--model module:function")
        if model.get("norm", "layer") not in ("layer", "rms"):
            raise UserError(f"model.norm must be layer or rms, not {model['norm']!r}")
        hidden, heads, sequence = sized("hidden"), sized("heads"), sized("sequence")
        positions = 0 if model.get("positions") == "rotary" else sized("positions", sequence)
        it = Transformer(sized("layers", most=MAX_LAYERS), hidden, heads, sequence, sized("vocabulary"),
                         sized("kv_heads", heads), sized("head_dim", max(1, hidden // heads)),
                         sized("feed_forward", min(MAX_SIZE, 4 * hidden)), positions, flag("gated", False),
                         flag("biases", True), model.get("norm") == "rms", flag("qk_norm", False), flag("tied", True),
                         model.get("attention") == "flash", Experts.read(model) if "experts" in model else None)
        if ("head_dim" not in model and hidden % heads != 0) or heads % it.kv_heads != 0:
            raise UserError("model.heads must divide model.hidden unless model.head_dim is given, and model.kv_heads "
                            "must divide model.heads")
        if it.positions == 0 and it.head_dim % 2 != 0:
            raise UserError("rotary positions require an even number of values per head (head_dim, or hidden / heads)")
        if 0 < it.positions < sequence:
            raise UserError(f"model.positions must be at least model.sequence, {sequence}, not {positions}")
        return it


class RMSNorm(nn.Module):
    def __init__(self, hidden: int, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden, device=device, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        upcast = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        return (upcast * torch.rsqrt(upcast.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


def make_norm(it: Transformer, width: Optional[int] = None, **where) -> nn.Module:
    return (RMSNorm if it.rms_norm else nn.LayerNorm)(width or it.hidden, **where)


class OfTokens(nn.Module):
    """A module that depends on the positions of tokens."""

    ring: Optional[TokenRing] = None  # of the ranks with other tokens of the same sequences

    def places(self, count: int, device: torch.device) -> torch.Tensor:
        """The positions of the tokens of this rank."""
        return torch.arange(count, device=device) if self.ring is None else self.ring.positions(count * self.ring.size, device)


class Embedding(OfTokens):
    """Token ids to activations."""

    def __init__(self, it: Transformer, **where):
        super().__init__()
        self.tokens = nn.Embedding(it.vocabulary, it.hidden, **where)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.positions = nn.Embedding(it.positions, it.hidden, **where) if it.positions else None
        if self.positions is not None:
            nn.init.normal_(self.positions.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        return x if self.positions is None else x + self.positions(self.places(ids.shape[1], ids.device))


class Attention(OfTokens):
    """Causal, with grouped queries and optionally norms of queries and keys, and rotary positions."""

    def __init__(self, it: Transformer, **where):
        super().__init__()
        self.heads, self.kv_heads, self.width = it.heads, it.kv_heads, it.head_dim
        self.is_rotary, self.is_flash = it.positions == 0, it.flash_attention
        self.query = nn.Linear(it.hidden, self.heads * self.width, bias=it.biases, **where)
        self.key = nn.Linear(it.hidden, self.kv_heads * self.width, bias=it.biases, **where)
        self.value = nn.Linear(it.hidden, self.kv_heads * self.width, bias=it.biases, **where)
        self.output = nn.Linear(self.heads * self.width, it.hidden, bias=it.biases, **where)
        self.query_norm = make_norm(it, self.width, **where) if it.qk_norm else None
        self.key_norm = make_norm(it, self.width, **where) if it.qk_norm else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, self.heads, self.width).transpose(1, 2)
        key = self.key(x).view(batch, length, self.kv_heads, self.width).transpose(1, 2)
        value = self.value(x).view(batch, length, self.kv_heads, self.width).transpose(1, 2)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        if self.is_rotary:
            places = self.places(length, x.device)
            query, key = rotate(query, places), rotate(key, places)
        if self.ring is not None:
            return self.output(self.ring.attend(query, key, value).transpose(1, 2).flatten(2))
        if self.kv_heads != self.heads:
            key = key.repeat_interleave(self.heads // self.kv_heads, dim=1)
            value = value.repeat_interleave(self.heads // self.kv_heads, dim=1)
        return self.output(self.attend(query, key, value).transpose(1, 2).flatten(2))

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if self.is_flash and hasattr(F, "scaled_dot_product_attention"):  # from PyTorch 2.0
            return F.scaled_dot_product_attention(query, key, value, is_causal=True)
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.width)
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
        dtype = torch.promote_types(scores.dtype, torch.float32)
        return torch.softmax(scores, dim=-1, dtype=dtype).to(value.dtype) @ value


def rotate(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Rotary positions (Su et al., arXiv 2104.09864), with the halves of a head as pairs."""
    width = x.shape[-1]
    rates = 10000.0 ** (-torch.arange(0, width, 2, device=x.device, dtype=torch.float32) / width)
    angles = places.to(torch.float32)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class FeedForward(nn.Module):
    def __init__(self, it: Transformer, width: int, **where):
        super().__init__()
        self.up = nn.Linear(it.hidden, width, bias=it.biases, **where)
        self.gate = nn.Linear(it.hidden, width, bias=it.biases, **where) if it.gated else None
        self.down = nn.Linear(width, it.hidden, bias=it.biases, **where)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x))


class ExpertLayer(nn.Module):
    """As Mixtral's (Jiang et al., arXiv 2401.04088): softmax over the scores of the chosen experts; no token is dropped. The
    matrices of all experts are one parameter."""

    def __init__(self, it: Transformer, sizes: Experts, **where):
        super().__init__()
        self.per_token = sizes.per_token
        self.router = nn.Linear(it.hidden, sizes.count, bias=False, **where)
        self.up = nn.Parameter(torch.empty(sizes.count, sizes.width, it.hidden, **where))
        self.gate = nn.Parameter(torch.empty(sizes.count, sizes.width, it.hidden, **where)) if it.gated else None
        self.down = nn.Parameter(torch.empty(sizes.count, it.hidden, sizes.width, **where))
        self.shared = FeedForward(it, sizes.shared_width, **where) if sizes.shared_width else None
        for matrices in self.matrices():
            nn.init.normal_(matrices, std=0.02)

    def matrices(self) -> list[nn.Parameter]:
        return [it for it in (self.up, self.down, self.gate) if it is not None]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, 1)
        weights, chosen = self.router(tokens).float().topk(self.per_token, dim=-1)
        weights = torch.softmax(weights, dim=-1).to(x.dtype)
        output = torch.zeros_like(tokens)
        for number, (up, down, *gate) in enumerate(zip(*(it.unbind() for it in self.matrices()))):
            rows, choice = (chosen == number).nonzero(as_tuple=True)
            visiting = tokens[rows]
            inner = F.silu(visiting @ gate[0].T) * (visiting @ up.T) if gate else F.gelu(visiting @ up.T)
            output = output.index_add(0, rows, inner @ down.T * weights[rows, choice, None])
        output = output.view_as(x)
        return output if self.shared is None else output + self.shared(x)


class Block(nn.Module):
    """Attention and MLP, each after a norm and beside a residual connection."""

    def __init__(self, it: Transformer, **where):
        super().__init__()
        self.attention_norm = make_norm(it, **where)
        self.attention = Attention(it, **where)
        self.mlp_norm = make_norm(it, **where)
        self.mlp = FeedForward(it, it.feed_forward, **where) if it.experts is None else ExpertLayer(it, it.experts, **where)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for residual in (self.attention.output.weight, self.mlp.down if it.experts else self.mlp.down.weight):
            nn.init.normal_(residual, std=0.02 / math.sqrt(2 * it.layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Head(nn.Module):
    """Final norm and logits. The loss is `cross_entropy`."""

    def __init__(self, it: Transformer, **where):
        super().__init__()
        self.norm = make_norm(it, **where)
        self.output = nn.Linear(it.hidden, it.vocabulary, bias=False, **where)
        nn.init.normal_(self.output.weight, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.norm(x))


class TransformerLayer(nn.Module):
    """A layer of the plan: the first one also holds the embedding, the last one the head."""

    def __init__(self, it: Transformer, layer: int, **where):
        super().__init__()
        self.embedding = Embedding(it, **where) if layer == 0 else None
        self.block = Block(it, **where)
        self.head = Head(it, **where) if layer == it.layers - 1 else None

    def segments(self) -> list[nn.Module]:
        return [part for part in (self.embedding, self.block, self.head) if part is not None]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.segments():
            x = part(x)
        return x


def cross_entropy(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean over all predictions, computed in fp32 or more. Of logits (…, classes) and classes (…)."""
    logits = output.to(torch.promote_types(output.dtype, torch.float32))
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


@dataclass(frozen=True)
class LayerInput:
    """What a layer receives: the shape of one sample, and the type; None is that of the activations."""

    shape: Sequence[int]
    dtype: Optional[torch.dtype] = None


@dataclass(frozen=True)
class Model:
    """Layers that can be built one at a time, so that a rank holds only its own."""

    make: Sequence[Callable[..., nn.Module]]  # by layer: called with `device` and `dtype`
    inputs: Sequence[LayerInput]  # by layer
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = cross_entropy
    # Returns inputs and targets of these samples. None: tokens of --data.
    batch: Optional[Callable[[Sequence[int]], tuple[torch.Tensor, torch.Tensor]]] = None
    # Names of the parameters that the first and the last layer share.
    tied: Optional[tuple[str, str]] = None
    transformer: Optional[Transformer] = None
    name: str = "model"  # tells models apart in checkpoints

    @property
    def layers(self) -> int:
        return len(self.make)

    def output_shape(self, layer: int) -> Optional[Sequence[int]]:
        """The shape of one sample that the next layer expects; None for the last layer, whose output is the loss's."""
        return self.inputs[layer + 1].shape if layer + 1 < self.layers else None

    def build(self, layer: int, seed: int, device="cpu", dtype: torch.dtype = torch.float32) -> nn.Module:
        """The layer with its initial parameters, which depend on the seed and the layer only."""
        with seeded(seed, layer), computing(f"building layer {layer}"):
            module = self.make[layer](device="cpu", dtype=torch.float32)
        if not isinstance(module, nn.Module):
            raise UserError(f"the function for layer {layer} returned {type(module).__name__}: it must return a torch.nn.Module")
        if self.tied is not None and layer in (0, self.layers - 1):
            for name in (self.tied[0],) * (layer == 0) + (self.tied[1],) * (layer == self.layers - 1):
                with seeded(seed, -1), torch.no_grad():
                    module.get_parameter(name).normal_(std=0.02)
        if next(module.buffers(), None) is not None:
            raise UserError(f"layer {layer} has buffers, which are neither synchronized nor saved: use modules "
                            "without buffers (for example, group norm instead of batch norm)")
        return module.to(device=device, dtype=dtype)


def transformer_model(it: Transformer) -> Model:
    def maker(layer: int) -> Callable[..., nn.Module]:
        return lambda **where: TransformerLayer(it, layer, **where)

    activations = LayerInput((it.sequence, it.hidden))
    return Model(make=[maker(layer) for layer in range(it.layers)],
                 inputs=[LayerInput((it.sequence,), torch.int64)] + [activations] * (it.layers - 1),
                 tied=("embedding.tokens.weight", "head.output.weight") if it.tied else None,
                 transformer=it, name=f"transformer {describe(it)}")


def describe(it: Transformer) -> str:
    return ", ".join(f"{key} {value}" for key, value in vars(it).items() if value is not None)


def custom_model(reference: str, layers: int) -> Model:
    """Calls `module:function`. It returns a Model, or a list with a tuple (layer, input shape, input dtype) per layer.
    A layer is a module or a function that makes it. The shape has no dimension for the samples. A dtype of None is that
    of the activations."""
    module_name, _, function_name = reference.partition(":")
    if not module_name or not function_name:
        raise UserError(f"--model must be module:function, not {reference!r}")
    with computing(f"--model {reference}"):
        try:
            function = getattr(importlib.import_module(module_name), function_name)
        except (ImportError, AttributeError) as error:
            raise UserError(f"--model {reference} cannot be loaded ({error}): check the name and PYTHONPATH") from None
        with seeded(0):
            made = function()
    try:
        model = made if isinstance(made, Model) else model_of(made, reference)
    except (TypeError, ValueError) as error:
        raise UserError(f"--model {reference} does not return a list of (module, input shape, input dtype) or a Model: "
                        f"{error}") from None
    if model.layers != layers:
        raise UserError(f"--model {reference} has {model.layers} layers, but the plan has {layers}: make a plan for "
                        "this model")
    return model


def model_of(rows: Iterable, reference: str) -> Model:
    make, inputs = [], []
    for number, row in enumerate(rows):
        if not isinstance(row, (tuple, list)) or len(row) != 3:
            raise UserError(f"--model {reference}: layer {number} must be (module, input shape, input dtype)")
        layer, shape, dtype = row
        make.append(maker_of(layer))
        inputs.append(LayerInput(tuple(shape), dtype))
    return Model(make=make, inputs=inputs, name=f"custom {reference}")


def maker_of(layer) -> Callable[..., nn.Module]:
    """Modules are made before the seed is known, so their parameters are drawn again where modules can do so."""
    if not isinstance(layer, nn.Module):
        return lambda **where: layer()

    def make(**where) -> nn.Module:
        for module in layer.modules():
            if callable(getattr(module, "reset_parameters", None)):
                module.reset_parameters()
        return layer

    return make


def require_tensor(value, what: str, samples: int = 0, sample_shape: Optional[Sequence[int]] = None) -> torch.Tensor:
    """Returns `value` if it is a tensor, of shape (samples, *sample_shape) if `sample_shape` is given."""
    if not isinstance(value, torch.Tensor):
        raise UserError(f"{what} returned {type(value).__name__}: it must return a tensor")
    if sample_shape is not None and tuple(value.shape) != (samples, *sample_shape):
        raise UserError(f"{what} returned shape {tuple(value.shape)}, but the next layer expects "
                        f"{(samples, *sample_shape)}: correct the layer, or the input shape of the next one")
    return value


def require_loss(value) -> torch.Tensor:
    """Returns `value` if it is a tensor of one number."""
    loss = require_tensor(value, "the loss function")
    if loss.numel() != 1:
        raise UserError(f"the loss function returned shape {tuple(loss.shape)}: it must return one number, the mean over all "
                        "predictions")
    return loss


def segments_of(layer: nn.Module) -> list[nn.Module]:
    """The parts of a layer that are computed one after another."""
    return layer.segments() if isinstance(layer, TransformerLayer) else [layer]
