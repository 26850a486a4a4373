#!/usr/bin/env python3
"""Compares the kernels and layer profiles measured on this machine's GPU with PyTorch on the same GPU.

usage: compare-with-pytorch.py [--models NAME…] [--layers N] [--compile] [--kernels-only] [--device NAME] [FOLDER]

FOLDER (default: build/gpu) is where scripts/on-gpu.sh wrote benchmark.tsv and profiles/. Prints
- matrix products and attention next to PyTorch's times for the same sizes (attention: the fastest of its backends);
- for each profile, the iteration time predicted from its rows, and the measured one of the same model in PyTorch:
  16-bit weights, gradients accumulated over four micro-batches, AdamW on an fp32 copy, no recomputation. --layers
  sets the number of blocks [as many as fit, at most 24]; --compile also compiles the blocks by torch.compile.

Exit codes: 0 all targets met; 1 a target missed; 2 bad usage, or nothing to compare; 77 no GPU or no PyTorch.
"""
import argparse
import contextlib
import csv
import json
import statistics
import sys
import time
from pathlib import Path

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    print("compare-with-pytorch.py: skipped: Python has no package torch", file=sys.stderr)
    sys.exit(77)

MICRO_BATCHES = 4  # of an iteration
LOSS_SCALE = 2.0**12  # keeps fp16 gradients from underflowing: products of zeros draw less power and so run faster
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Clock:
    """Times work with CUDA events, or on the CPU with the system clock."""

    def __init__(self, device):
        self.device = device

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def marks(self, run, count):
        """Seconds of each of `count` calls of `run`, which the host queues one after the other."""
        if self.device.type != "cuda":
            stamps = [time.perf_counter()]
            for _ in range(count):
                run()
                stamps.append(time.perf_counter())
            return [after - before for before, after in zip(stamps, stamps[1:])]
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        events[0].record()
        for event in events[1:]:
            run()
            event.record()
        torch.cuda.synchronize()
        return [before.elapsed_time(after) / 1e3 for before, after in zip(events, events[1:])]

    def median(self, run, count=15):
        """Median seconds of at least `count` runs and one second, after half a second of warm-up, as in kernels_bench."""
        run()
        self.synchronize()
        start, runs = time.perf_counter(), 0
        while runs == 0 or time.perf_counter() - start < 0.5:
            run()
            self.synchronize()
            runs += 1
        seconds_of_run = (time.perf_counter() - start) / runs
        return statistics.median(self.marks(run, max(count, min(10000, round(1 / seconds_of_run)))))


class Report:
    """Prints rows of a table and counts the missed targets."""

    def __init__(self):
        self.rows = self.missed = 0

    def title(self, text):
        print(f"\n{text}\n{'':34} {'dtfm':>11} {'PyTorch':>11}")

    def row(self, what, ours, theirs, verdict, met):
        self.rows += 1
        self.missed += met is False
        mark = {True: "  met", False: "  MISSED", None: ""}[met]
        print(f"{what:34} {ours * 1e3:8.4f} ms {theirs * 1e3:8.4f} ms  {verdict}{mark}", flush=True)

    def speed(self, what, ours, theirs, target):
        share = theirs / ours
        self.row(what, ours, theirs, f"{share:6.1%} of PyTorch's speed, target {target:.0%}", share >= target)

    def prediction(self, what, predicted, measured, target):
        error = predicted / measured - 1
        suffix = f", target ±{target:.0%}" if target else ""
        self.row(what, predicted, measured, f"{error:+6.1%}{suffix}", abs(error) <= target if target else None)


class Model:
    """The sizes of a profile's model."""

    def __init__(self, profile):
        shape = profile["shape"]
        self.name, self.dtype = profile["model"], DTYPES[profile["precision"]]
        self.hidden, self.heads, self.sequence = shape["hidden"], shape["heads"], shape["sequence"]
        self.kv_heads, self.ffn = shape["kv_heads"], shape["feed_forward"]
        self.vocabulary = shape["vocabulary"]
        self.padded_vocabulary = -(-self.vocabulary // 128) * 128  # as in kernels/transformer.cpp
        self.gated, self.rms = shape.get("gated", False), shape.get("norm") == "rms"
        self.rotary = shape.get("positions") == "rotary"
        self.head_size = shape.get("head_dim", self.hidden // self.heads)
        self.q, self.kv = self.heads * self.head_size, self.kv_heads * self.head_size

    def block_parameters(self):
        return self.hidden * (2 * self.q + 2 * self.kv + (3 if self.gated else 2) * self.ffn)


class Norm(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.size, self.rms = (model.hidden,), model.rms
        self.weight = nn.Parameter(torch.ones(model.hidden))
        self.bias = None if model.rms else nn.Parameter(torch.zeros(model.hidden))

    def forward(self, x):
        if self.rms:
            return functional.rms_norm(x, self.size, self.weight, 1e-5)
        return functional.layer_norm(x, self.size, self.weight, self.bias, 1e-5)


class Block(nn.Module):
    """A pre-norm block, as kernels/block_layer.cpp computes it."""

    def __init__(self, model):
        super().__init__()
        self.model = m = model
        self.norm1, self.norm2 = Norm(m), Norm(m)
        self.qkv = nn.Linear(m.hidden, m.q + 2 * m.kv, bias=not m.rms)
        self.out = nn.Linear(m.q, m.hidden, bias=not m.rms)
        self.up = nn.Linear(m.hidden, (2 if m.gated else 1) * m.ffn, bias=not m.rms)
        self.down = nn.Linear(m.ffn, m.hidden, bias=not m.rms)
        angles = torch.outer(torch.arange(m.sequence), 10000.0 ** (-torch.arange(0, m.head_size, 2) / m.head_size))
        both_halves = torch.cat((angles, angles), -1)
        self.register_buffer("cosine", both_halves.cos(), persistent=False)
        self.register_buffer("sine", both_halves.sin(), persistent=False)

    def rotated(self, x):
        left, right = x.chunk(2, -1)
        return x * self.cosine + torch.cat((-right, left), -1) * self.sine

    def forward(self, x):
        m = self.model
        q, k, v = self.qkv(self.norm1(x)).split((m.q, m.kv, m.kv), -1)
        q, k, v = (part.unflatten(-1, (-1, m.head_size)).transpose(1, 2) for part in (q, k, v))
        if m.rotary:
            q, k = self.rotated(q), self.rotated(k)
        x = x + self.out(attend(m, q, k, v).transpose(1, 2).flatten(2))
        h = self.up(self.norm2(x))
        if m.gated:
            gate, up = h.chunk(2, -1)
            h = functional.silu(gate) * up
        else:
            h = functional.gelu(h, approximate="tanh")
        return x + self.down(h)


def attend(model, q, k, v):
    grouped = {"enable_gqa": True} if model.kv_heads < model.heads else {}
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, **grouped)


class Transformer(nn.Module):
    def __init__(self, model, layers):
        super().__init__()
        self.tokens = nn.Embedding(model.padded_vocabulary, model.hidden)
        self.positions = None if model.rotary else nn.Embedding(model.sequence, model.hidden)
        self.blocks = nn.ModuleList(Block(model) for _ in range(layers))
        self.norm = Norm(model)
        self.head = nn.Linear(model.hidden, model.padded_vocabulary, bias=False)

    def forward(self, ids, labels):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


class MasterAdamW:
    """AdamW on fp32 copies of 16-bit parameters, 16 bytes per parameter as in mixed-precision training."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.masters = [p.detach().float() for p in self.parameters]
        on_gpu = self.masters[0].is_cuda
        self.optimizer = torch.optim.AdamW(self.masters, lr=1e-6, **({"fused": True} if on_gpu else {}))

    def step(self):
        for master, parameter in zip(self.masters, self.parameters):
            # The loss scale stays in, because the size of AdamW's step hardly depends on that of the gradient.
            master.grad = parameter.grad.float()
        self.optimizer.step()
        for master, parameter in zip(self.masters, self.parameters):
            parameter.detach().copy_(master)
            parameter.grad = master.grad = None


def initialized(model, layers, device):
    """A transformer with random weights, initialized on the device, which is much faster than on the host."""
    with device:
        transformer = Transformer(model, layers).to(dtype=model.dtype)
    for parameter in transformer.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    return transformer


def backends():
    """The implementations of attention that this PyTorch offers: name and a context that selects it."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return [("PyTorch's choice", contextlib.nullcontext)]
    names = [name for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION") if hasattr(SDPBackend, name)]
    return [(name, lambda name=name: sdpa_kernel(getattr(SDPBackend, name))) for name in names]


def attention_times(clock, model, sequences):
    """Seconds of the fastest forward and backward pass, each with the name of its backend."""
    device = clock.device
    width = model.q + 2 * model.kv
    qkv = torch.randn(sequences, model.sequence, width, device=device, dtype=model.dtype)
    q, k, v = (part.unflatten(-1, (-1, model.head_size)).transpose(1, 2).detach().requires_grad_()
               for part in qkv.split((model.q, model.kv, model.kv), -1))
    found = []
    for name, context in backends():
        try:
            with context():
                out = attend(model, q, k, v)
                gradient = torch.randn_like(out)
                found.append((name, clock.median(lambda: attend(model, q.detach(), k.detach(), v.detach())),
                              clock.median(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))))
        except RuntimeError as error:
            print(f"  {name}: does not run here: {str(error).splitlines()[0]}")
    for name, forward, backward in found:
        print(f"  {name}: {forward * 1e3:.4f} ms forward, {backward * 1e3:.4f} ms backward")
    forward, backward = min(found, key=lambda row: row[1]), min(found, key=lambda row: row[2])
    return (forward[1], forward[0]), (backward[2], backward[0])


def products(model, sequences):
    """The matrix products of a block that the benchmark measures: name, and the shapes of A and B in A · Bᵀ."""
    rows, up = sequences * model.sequence, (2 if model.gated else 1) * model.ffn
    return {
        "cuBLAS queries, keys, values": (rows, model.q + 2 * model.kv, model.hidden),
        "cuBLAS attention output": (rows, model.hidden, model.q),
        "cuBLAS up": (rows, up, model.hidden),
        "cuBLAS down": (rows, model.hidden, model.ffn),
    }


def product_time(clock, model, m, n, k, transposed):
    device, dtype = clock.device, model.dtype
    if transposed:  # a weight's gradient: both factors are stored with the summed dimension first
        a, b = torch.randn(k, m, device=device, dtype=dtype).t(), torch.randn(k, n, device=device, dtype=dtype)
    else:
        a, b = torch.randn(m, k, device=device, dtype=dtype), torch.randn(n, k, device=device, dtype=dtype).t()
    out = torch.empty(m, n, device=device, dtype=dtype)
    return clock.median(lambda: torch.mm(a, b, out=out))


def compare_kernels(report, clock, model, rows):
    sequences = int(rows[0]["sequences"])
    ours = {row["kernel"]: float(row["seconds"]) for row in rows}
    report.title(f"{model.name}: kernels at {sequences} × {model.sequence} tokens")
    for name, (m, n, k) in products(model, sequences).items():
        report.speed(name, ours[name], product_time(clock, model, m, n, k, False), 0.9)
    name = "cuBLAS down, weight gradient"
    tokens = sequences * model.sequence
    report.speed(name, ours[name], product_time(clock, model, model.hidden, model.ffn, tokens, True), 0.9)
    for what, (seconds, backend) in zip(("forward", "backward"), attention_times(clock, model, sequences)):
        report.speed(f"attention {what}", ours[f"attention {what}"], seconds, 0.6)
        print(f"  the fastest is {backend}")


def rows_at(profile, micro_batch):
    return {row["kind"]: row for row in profile["layers"] if row["micro_batch"] == micro_batch and row["tensor"] == 1}


def predicted_iteration(rows, layers):
    """Seconds of an iteration of one device: all micro-batches through all layers, and their optimizer steps."""
    counts = {"embedding": 1, "block": layers, "head": 1}
    return sum(count * (MICRO_BATCHES * (rows[kind]["forward_s"] + rows[kind]["backward_s"]) + rows[kind]["update_s"])
               for kind, count in counts.items())


def layers_that_fit(model, micro_batch, device):
    """Number of blocks, at most 24, that fit in three quarters of the memory: 24 bytes per parameter, including the
    optimizer's temporary copies, and about 50 bytes of activations per token and hidden dimension."""
    memory = 0.75 * torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 2e9
    ends = 2 * 24 * model.padded_vocabulary * model.hidden
    tokens = micro_batch * model.sequence
    ends += 3 * 4 * tokens * model.padded_vocabulary
    block = 24 * model.block_parameters() + tokens * model.hidden * 50
    return max(0, min(24, int((memory - ends) // block)))


def block_times(clock, model, block, micro_batch):
    """Seconds of one block's forward and backward pass, gradients of its parameters accumulated."""
    x = torch.randn(micro_batch, model.sequence, model.hidden, device=clock.device, dtype=model.dtype)
    x.requires_grad_()
    dy = torch.randn_like(x)
    block(x).backward(dy)  # the first gradients are not accumulated
    forward = clock.median(lambda: block(x))
    out = block(x)

    def back():
        x.grad = None  # the gradient of the input is not accumulated
        out.backward(dy, retain_graph=True)

    backward = clock.median(back)
    block.zero_grad(set_to_none=True)
    return forward, backward


def measured_iteration(clock, model, transformer, micro_batch):
    ids = torch.randint(model.vocabulary, (2, MICRO_BATCHES, micro_batch, model.sequence), device=clock.device)
    optimizer = MasterAdamW(transformer.parameters())

    def step():
        for inputs, labels in zip(*ids):
            (transformer(inputs, labels) * (LOSS_SCALE / MICRO_BATCHES)).backward()
        optimizer.step()

    return clock.median(step, 5)


def compare_iterations(report, clock, model, profile, options):
    micro_batches = sorted({row["micro_batch"] for row in profile["layers"] if row["kind"] == "head"})
    for micro_batch in micro_batches[:3:2]:  # the smallest, and the third if there is one
        layers = options.layers or layers_that_fit(model, micro_batch, clock.device)
        if layers == 0:
            print(f"\n{model.name} at micro-batch {micro_batch}: skipped: no block fits in memory")
            continue
        rows = rows_at(profile, micro_batch)
        report.title(f"{model.name}: {layers} blocks, {MICRO_BATCHES} micro-batches of {micro_batch} sequences")
        for compiled in (False, True) if options.compile else (False,):
            how = "compiled" if compiled else "eager"
            transformer = initialized(model, layers, clock.device)
            if compiled:
                for block in transformer.blocks:
                    block.compile()
            forward, backward = block_times(clock, model, transformer.blocks[0], micro_batch)
            report.prediction(f"{how}: block forward", rows["block"]["forward_s"], forward, 0)
            report.prediction(f"{how}: block backward", rows["block"]["backward_s"], backward, 0)
            measured = measured_iteration(clock, model, transformer, micro_batch)
            report.prediction(f"{how}: iteration", predicted_iteration(rows, layers), measured, 0.1)
            del transformer


def newest_profiles(folder):
    """The newest profile of each model, because earlier ones may be of another GPU."""
    files = sorted((folder / "profiles").glob("*.json"), key=lambda path: path.stat().st_mtime)
    profiles = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return {profile["model"]: profile for profile in profiles}


def compare(options, device):
    clock, report = Clock(device), Report()
    folder = Path(options.folder)
    with open(folder / "benchmark.tsv", encoding="utf-8") as file:
        benchmark = list(csv.DictReader(file, delimiter="\t"))
    failed = False
    for name, profile in newest_profiles(folder).items():
        rows = [row for row in benchmark if row["model"] == name]
        if not rows or (options.models and name not in options.models):
            continue  # the profile may be from an earlier run
        model = Model(profile)
        try:
            compare_kernels(report, clock, model, rows)
            if not options.kernels_only:
                compare_iterations(report, clock, model, profile, options)
        except (KeyError, ValueError, RuntimeError) as error:  # an incomplete benchmark; out of memory
            print(f"compare-with-pytorch.py: {name}: {type(error).__name__}: {error}", file=sys.stderr)
            failed = True
    if report.rows == 0 and not failed:
        print(f"compare-with-pytorch.py: {folder} has no model with a benchmark and a profile", file=sys.stderr)
        return 2
    print(f"\n{report.missed} of {report.rows} rows missed a target")
    return 2 if failed else int(report.missed > 0)


def main():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=Path(__file__).resolve().parent.parent / "build" / "gpu")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="names of the models to compare [all with a profile]")
    parser.add_argument("--layers", type=int, default=0, help="blocks of the trained model [as many as fit, at most 24]")
    parser.add_argument("--compile", action="store_true", help="also compile the blocks by torch.compile")
    parser.add_argument("--kernels-only", action="store_true", help="compare no iterations")
    parser.add_argument("--device", default="cuda", help="PyTorch's device; cpu checks this script [cuda]")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("compare-with-pytorch.py: skipped: PyTorch finds no GPU", file=sys.stderr)
        return 77
    try:
        return compare(options, torch.device(options.device))
    except (OSError, json.JSONDecodeError) as error:
        print(f"compare-with-pytorch.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
