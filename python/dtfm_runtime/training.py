"""Trains a program: the iterations of one rank."""
from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable, Optional, Sequence

import torch

from . import checkpoint
from .compute import ChunkCompute, EmulatedChunk, EmulatedLayer, HostMemory, Segment, Sleeper
from .errors import UserError
from .model import Model, require_loss, segments_of
from .optimizer import LossScale, ParameterGroup, make_optimizer, accumulates_in_fp32
from .pipeline import Boundary, Pipeline, channels
from .program import Messages, Program
from .sync import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Collective, Range, make_steps, owned_range
from .timeline import peak_memory_bytes
from .transport import REPORT, STATES, SYNC_TAG

TIED = -1  # stands for the sum of the tied gradients among the layers that a group waits for


@dataclass(frozen=True)
class Options:
    optimizer: str = "adamw"  # or sgd
    lr: float = 1e-3
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    seed: int = 1
    device: str = "cpu"
    steps: int = 1  # iterations in all, with those before a checkpoint
    first_step: int = 0


@dataclass(frozen=True)
class Report:
    iteration: int
    loss: Optional[float]
    peak_memory_bytes: int  # of the rank that needs most


def compute_type(precision: str, device: torch.device) -> torch.dtype:
    """CPUs compute in fp32, whatever the plan says."""
    if device.type == "cpu":
        return torch.float32
    return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)


def message_type(precision: str) -> torch.dtype:
    """The type of a message of the size that the planner counts."""
    return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)


class GradientBucket:
    """The parameters of layers and the ranks that have them, too. `number` is that of the program's group, None if
    there is none; `sources` are the layers whose backward pass adds to the gradients."""

    def __init__(self, parameters: ParameterGroup, ranks: Sequence[int], compress: bool,
                 messages: dict[str, Messages], layers: Sequence[int], sources: set[int], number: Optional[int]):
        self.parameters, self.ranks, self.compress, self.messages = parameters, tuple(ranks), compress, messages
        self.layers, self.sources, self.number = tuple(layers), sources, number
        self.ready = threading.Event()  # the gradients are complete
        self.missing: set[int] = set()

    def start(self, waits_for_tied: bool) -> None:
        self.ready.clear()
        self.missing = set(self.sources) | ({TIED} if waits_for_tied else set())


class Trainer:
    """One rank. `emulated` are the layers' times if it sleeps instead of computing."""

    def __init__(self, program: Program, rank: int, model: Model, batches, options: Options, transport, recorder,
                 emulated: Optional[dict[int, EmulatedLayer]] = None):
        self.program, self.rank, self.model, self.batches, self.options = program, rank, model, batches, options
        self.transport, self.recorder, self.emulated, self.sleeper = transport, recorder, emulated, Sleeper()
        self.device = torch.device(options.device)
        self.dtype = message_type(program.precision) if emulated else compute_type(program.precision, self.device)
        self.optimizer = make_optimizer(options.optimizer, options.lr, options.epsilon, options.weight_decay)
        self.scale = LossScale(self.dtype == torch.float16 and not emulated)
        self.held = program.ranks[rank].layers()
        self.tied = self._tied_ranks()
        self.modules = self._build_layers()
        self.buckets = self._make_buckets()
        self.lock = threading.Lock()
        self.tied_ready = threading.Event()
        # Without the threads, messages of NCCL would still overlap, on a stream of their own.
        has_threads = transport is not None and not transport.groups_messages
        self.pool = ThreadPoolExecutor(len(self.buckets) * 2 + 1) if has_threads else None
        self.side_stream = torch.cuda.Stream() if self.device.type == "cuda" else None
        self.pipeline = self._make_pipeline()
        self.iteration = options.first_step
        self.awaited_reports: list = []
        if transport is not None:
            transport.warm_up(channels(program))
        self.pipeline.post_receives()

    # ---------------------------------------------------------------------------------------------- construction

    def _tied_ranks(self) -> dict[int, tuple[int, int]]:
        """By pipeline, the ranks with the embedding and with the head, if they share a matrix that some pipeline has on
        two ranks. Then every rank keeps two copies, whose gradients are summed. Otherwise the matrix is kept once."""
        if self.model.tied is None:
            return {}
        ends: dict[int, list[int]] = {}
        for wanted in (0, self.model.layers - 1):
            for number, it in enumerate(self.program.ranks):
                if wanted in it.layers():
                    ends.setdefault(it.pipeline, []).append(number)
        pairs = {pipeline: (first, last) for pipeline, (first, last) in ends.items()}
        return pairs if any(first != last for first, last in pairs.values()) else {}

    def _build_layers(self) -> dict[int, torch.nn.Module]:
        if self.emulated:
            return {layer: self.model.make[layer](device="meta", dtype=self.dtype) for layer in self.held}
        modules = {layer: self.model.build(layer, self.options.seed, self.device, self.dtype) for layer in self.held}
        if self._shares_tied():
            first, last = self.model.tied
            owner, _, name = last.rpartition(".")
            setattr(modules[self.model.layers - 1].get_submodule(owner), name, modules[0].get_parameter(first))
        return modules

    def _shares_tied(self) -> bool:
        """Whether the matrix is kept once, on this rank."""
        return self.model.tied is not None and not self.tied and {0, self.model.layers - 1} <= set(self.held)

    def _parameters(self, layers: Sequence[int]) -> list[tuple[int, str, torch.nn.Parameter]]:
        return [(layer, name, parameter) for layer in layers
                for name, parameter in self.modules[layer].named_parameters()
                if not (self._shares_tied() and self._is_tied_head(layer, name))]

    def _is_tied_head(self, layer: int, name: str) -> bool:
        return self.model.tied is not None and layer == self.model.layers - 1 and name == self.model.tied[1]

    def _make_buckets(self) -> list[GradientBucket]:
        """One per group of the program that this rank is in, in the order of the program, and one per other layer."""
        buckets, left = [], set(self.held)
        for number, group in enumerate(self.program.sync_groups):
            if self.rank in group.ranks:
                buckets.append(self._make_bucket(range(*group.layers), group.ranks, group.compress, group.messages,
                                                 number))
                left -= set(range(*group.layers))
        buckets += [self._make_bucket([layer], [self.rank], False, {}, None) for layer in sorted(left, reverse=True)]
        return buckets

    def _make_bucket(self, layers: Sequence[int], ranks: Sequence[int], compress: bool,
                     messages: dict[str, Messages], number: Optional[int]) -> GradientBucket:
        fp32_gradients = accumulates_in_fp32(self.program.optimizer)
        parameters = ParameterGroup(list(self._parameters(layers)), self.dtype, fp32_gradients, self.device)
        sources = set(layers)
        if self._shares_tied() and 0 in sources:
            sources.add(self.model.layers - 1)
        bucket = GradientBucket(parameters, ranks, compress, messages, layers, sources, number)
        if not self.emulated:
            owned = (0, parameters.length)
            if self._is_sharded(bucket):
                owned = self._owned_range(bucket, self.rank)
            parameters.make_states(owned, self.optimizer)
        return bucket

    def _is_sharded(self, bucket: GradientBucket) -> bool:
        return self.program.zero1 and len(bucket.ranks) > 1

    def _owned_range(self, bucket: GradientBucket, rank: int) -> Range:
        return owned_range(bucket.messages[REDUCE_SCATTER], bucket.ranks.index(rank), bucket.parameters.length)

    def _make_pipeline(self) -> Pipeline:
        chunks = self.program.ranks[self.rank].chunks
        inputs = {number: self._boundary(it.layers[0], it.compress_input) for number, it in enumerate(chunks)
                  if it.input_from is not None}
        outputs = {number: self._boundary(it.layers[1], it.compress_output) for number, it in enumerate(chunks)
                   if it.output_to is not None}
        self.host_memory = HostMemory()  # one for all chunks, which share the host link
        computes = [self._make_compute(number, inputs, outputs) for number in range(len(chunks))]
        iterations = self.options.steps - self.options.first_step
        return Pipeline(self.program, self.rank, self.transport, computes, inputs, outputs, self.recorder, iterations)

    def _boundary(self, layer: int, compressed: bool) -> Boundary:
        it = self.model.inputs[layer]
        return Boundary((self.program.micro_batch, *it.shape), it.dtype or self.dtype, compressed, self.device)

    def _make_compute(self, number: int, inputs: dict[int, Boundary], outputs: dict[int, Boundary]):
        chunk = self.program.ranks[self.rank].chunks[number]
        layers = list(range(*chunk.layers))
        if self.emulated:
            if chunk.offloaded:
                raise UserError("`--emulate-compute` cannot emulate `recompute: offload`: profiles have no times of host "
                                "links; plan with another `recompute`, such as as-needed")

            def zeros(boundaries: dict[int, Boundary]) -> Callable[[], Optional[torch.Tensor]]:
                it = boundaries.get(number)
                return lambda: None if it is None else torch.zeros(it.shape, dtype=it.dtype)

            return EmulatedChunk(layers, self.emulated, self.sleeper, self.program.splits_backward,
                                 chunk.recomputed, zeros(outputs), zeros(inputs))
        segments = []
        for layer in layers:
            parts = segments_of(self.modules[layer])
            segments += [Segment(part, layer, part is parts[0], layer < layers[0] + chunk.recomputed,
                                 layer < layers[0] + chunk.offloaded,
                                 self.model.output_shape(layer) if part is parts[-1] else None) for part in parts]
        has_loss = layers[-1] == self.model.layers - 1
        return ChunkCompute(segments, self.program.splits_backward, self._loss if has_loss else None,
                            self.host_memory)

    def _loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss = require_loss(self.model.loss(output, target))
        return loss * (self.scale.value / self.program.micro_batches)

    # -------------------------------------------------------------------------------------------------- iterations

    def run_iteration(self) -> None:
        """Computes, synchronizes and updates."""
        scale = self.scale.value  # of the losses of this iteration
        for bucket in self.buckets:
            bucket.parameters.gradients.zero_()
            bucket.start(self.program.zero1 and self._ties(bucket))
        self.issued = 0
        running = [self._submit(self._synchronize, bucket) for bucket in self.buckets] if self.pool else []
        self.tied_ready.clear()
        if self.pool and self.program.zero1 and self._tied_pair():
            running.append(self._submit(self._sum_tied_early))
        losses = self.pipeline.run(self._batch, self._seed_of, self._layer_done)
        if self.pool is None:
            self._synchronize_in_order()
        for future in running:
            future.result()
        if self._tied_pair() and not self.program.zero1:
            self._sum_tied()
        self._update()
        if self.program.zero1:
            self._gather_parameters()
        if self.transport is not None:
            self.transport.check()
        self._report(losses, scale)
        self.iteration += 1

    def _submit(self, function, *arguments) -> Future:
        return self.pool.submit(function, *arguments)

    def _samples(self, micro_batch: int) -> range:
        first_micro_batch = self.program.pipelines[self.program.ranks[self.rank].pipeline].first_micro_batch
        first = self.iteration * self.program.global_batch
        first += (first_micro_batch + micro_batch) * self.program.micro_batch
        return range(first, first + self.program.micro_batch)

    def _batch(self, micro_batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.emulated:
            return torch.zeros(0), torch.zeros(0)
        inputs, targets = self.batches(self._samples(micro_batch))
        inputs = inputs.to(self.dtype) if inputs.is_floating_point() and self.model.inputs[0].dtype is None else inputs
        return inputs.to(self.device), targets.to(self.device)

    def _seed_of(self, micro_batch: int) -> tuple[int, int]:
        return self.options.seed, self._samples(micro_batch)[0]

    def _layer_done(self, layer: int) -> None:
        with self.lock:
            for bucket in self.buckets:
                bucket.missing.discard(layer)
                if not bucket.missing:
                    self._set_ready(bucket)
            if all(bucket.missing <= {TIED} for bucket in self.buckets if self._ties(bucket)):
                self.tied_ready.set()

    def _set_ready(self, bucket: GradientBucket) -> None:
        if bucket.ready.is_set():
            return
        bucket.ready.set()
        if self.pool is None and self.transport is not None and self.program.overlap:
            self._synchronize_ready()

    def _synchronize_ready(self) -> None:
        """Of NCCL, which needs the same order of messages at both ends: in the order of the program, which all ranks
        have. With ZeRO-1, the groups with the tied matrix must wait for its sum, which is made after all computations.
        A rank that has such a group would reach the sum after fewer groups than another one, so all ranks synchronize
        all groups after the sum."""
        if self.program.zero1 and self.tied:
            return
        while self.issued < len(self.buckets) and self.buckets[self.issued].ready.is_set():
            bucket = self.buckets[self.issued]
            self._on_side_stream(lambda: self._synchronize(bucket))
            self.issued += 1

    def _on_side_stream(self, function: Callable[[], None]) -> None:
        if self.side_stream is None:
            return function()
        self.side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side_stream):
            function()

    def _synchronize_in_order(self) -> None:
        """Of NCCL: the groups that have not been synchronized while computing."""
        if self.transport is None:
            return
        if self.program.zero1 and self._tied_pair():
            self._sum_tied()
        for bucket in self.buckets[self.issued:]:
            self._synchronize(bucket)
        if self.side_stream is not None:
            torch.cuda.current_stream().wait_stream(self.side_stream)

    def _synchronize(self, bucket: GradientBucket) -> None:
        if len(bucket.ranks) == 1:
            return
        kind = REDUCE_SCATTER if self._is_sharded(bucket) else ALL_REDUCE
        collective = self._collective(bucket, kind, bucket.compress)
        collective.run(bucket.parameters.gradients, bucket.ready if self.pool else None)

    def _collective(self, bucket: GradientBucket, kind: str, compressed: bool) -> Collective:
        steps = make_steps(bucket.messages[kind], bucket.ranks.index(self.rank), bucket.parameters.length)
        recorder, layer = self.recorder, min(bucket.layers)
        activity = "all_gather" if kind == ALL_GATHER else "gradient_sync"

        def record(peer: int, start: float, end: float, is_received: bool, phase: int) -> None:
            recorder.add(activity, start, end, is_received=is_received, layer=layer, phase=phase, peer=peer)

        return Collective(self.transport, steps, bucket.ranks, self._tag(bucket, kind), compressed,
                          record if recorder.enabled else None)

    def _tag(self, bucket: GradientBucket, kind: str) -> int:
        """The same on all ranks of the group, and another one for every group."""
        return SYNC_TAG + 2 * bucket.number + 1 + (kind == ALL_GATHER)

    # ---------------------------------------------------------------------------------------------- tied embeddings

    def _tied_pair(self) -> Optional[tuple[int, int]]:
        """The ranks of this rank's pipeline with the two copies of the tied matrix, if it is one of them."""
        pair = self.tied.get(self.program.ranks[self.rank].pipeline)
        return pair if pair is not None and self.rank in pair else None

    def _ties(self, bucket: GradientBucket) -> bool:
        return any(self._tied_slice(bucket, end) is not None for end in (0, 1)) if self._tied_pair() else False

    def _tied_slice(self, bucket: GradientBucket, end: int) -> Optional[torch.Tensor]:
        """Gradients of the tied matrix in this group: of the embedding (end 0) or the head (end 1)."""
        layer = (0, self.model.layers - 1)[end]
        for entry in bucket.parameters.entries:
            if entry.layer == layer and entry.name == self.model.tied[end]:
                return bucket.parameters.gradients[entry.first:entry.end]
        return None

    def _tied_gradients(self, end: int) -> torch.Tensor:
        return next(it for it in (self._tied_slice(bucket, end) for bucket in self.buckets) if it is not None)

    def _sum_tied(self, ready: Optional[threading.Event] = None) -> None:
        """Sums the gradients of embedding and head. ZeRO-1 does so before the reduce-scatter, whose shards would not
        match otherwise; a sum of sums is the same in any order."""
        first, last = self._tied_pair()
        if first == last:
            if ready is not None:
                ready.wait()
            embedding, head = self._tied_gradients(0), self._tied_gradients(1)
            embedding += head
            head.copy_(embedding)
            return
        end = 0 if self.rank == first else 1
        gradients = self._tied_gradients(end)
        steps = make_steps(self.program.pair_all_reduce, end, gradients.numel())
        Collective(self.transport, steps, (first, last), SYNC_TAG).run(gradients, ready)

    def _sum_tied_early(self) -> None:
        """In a thread: the groups with the tied matrix wait for it."""
        self._sum_tied(self.tied_ready)
        self._layer_done(TIED)

    # ----------------------------------------------------------------------------------------------------- updates

    def _update(self) -> None:
        with self.recorder.span("update"):
            if self.emulated:
                shares = [len(bucket.ranks) if self._is_sharded(bucket) else 1 for bucket in self.buckets]
                for bucket in self.buckets:
                    bucket.parameters.steps += 1
                self.sleeper.sleep(sum(self.emulated[layer].update / share
                                       for bucket, share in zip(self.buckets, shares)
                                       for layer in {it.layer for it in bucket.parameters.entries}))
                return
            overflow = self._overflows()
            for bucket in self.buckets:
                if not overflow:
                    bucket.parameters.update(self.optimizer, self.scale.value)
            self.scale.after(overflow)

    def _overflows(self) -> bool:
        """Whether some rank has gradients that are not finite, in which case none updates."""
        if not self.scale.enabled:
            return False
        finite = all(bool(torch.isfinite(bucket.parameters.gradients[slice(*bucket.parameters.owned)]).all())
                     for bucket in self.buckets)
        flag = torch.tensor([0.0 if finite else 1.0])
        if self.transport is not None:
            self.transport.maximum(flag)
        return bool(flag.item() > 0)

    def _gather_parameters(self) -> None:
        buckets = [bucket for bucket in self.buckets if self._is_sharded(bucket)]

        def gather(bucket: GradientBucket) -> None:
            self._collective(bucket, ALL_GATHER, False).run(bucket.parameters.flat)

        if self.pool is None:
            for bucket in buckets:
                gather(bucket)
            return
        for future in [self._submit(gather, bucket) for bucket in buckets]:
            future.result()

    # ------------------------------------------------------------------------------------------------------- losses

    def _last_ranks(self) -> list[int]:
        return [rank for rank, it in enumerate(self.program.ranks) if self.model.layers - 1 in it.layers()]

    def _report(self, losses: list, scale: float) -> None:
        """Rank 0 learns about an iteration in the next one, so that nobody waits for it."""
        own = torch.zeros(2, dtype=torch.float64)
        if not self.emulated:
            own[0] = sum(float(it) for it in losses) / scale
        own[1] = peak_memory_bytes(self.device)
        if self.rank > 0:
            return self.transport.keep_until_sent(self.transport.control_send(own, 0, REPORT), own, 0)
        received = [(own, None)]
        for peer in range(1, len(self.program.ranks)):
            tensor = torch.zeros(2, dtype=torch.float64)
            received.append((tensor, self.transport.control_receive(tensor, peer, REPORT)))
        self.awaited_reports.append((self.iteration, received))

    def take_reports(self, leave: int = 0) -> list[Report]:
        """On rank 0: iterations that were not taken before, except the last `leave`, which may be on the way."""
        taken = []
        while len(self.awaited_reports) > leave:
            iteration, received = self.awaited_reports.pop(0)
            for _, work in received:
                if work is not None:
                    work.wait()
            loss = None if self.emulated else sum(tensor[0].item() for tensor, _ in received)
            taken.append(Report(iteration, loss, int(max(tensor[1].item() for tensor, _ in received))))
        return taken

    # -------------------------------------------------------------------------------------------------- checkpoints

    def save(self, folder: str, meta: dict) -> None:
        """Writes a checkpoint of the iterations so far. Every layer, also one without parameters, is written by the
        first rank of its group."""
        for bucket in self.buckets:
            states = self._gather_states(bucket)
            if bucket.ranks[0] == self.rank:
                for layer in bucket.layers:
                    checkpoint.write_layer(folder, self.iteration, layer, self._layer_state(bucket, states, layer))
        if self.transport is not None:
            self.transport.barrier(len(self.program.ranks))
        if self.rank == 0:
            checkpoint.commit(folder, self.iteration, {**meta, "loss_scale": self.scale.value}, self.model.layers)
        if self.transport is not None:  # nobody continues before the checkpoint is complete
            self.transport.barrier(len(self.program.ranks))

    def _gather_states(self, bucket: GradientBucket) -> dict[str, torch.Tensor]:
        """Parameters and states of the optimizer in full on the first rank of the group, on the CPU."""
        mine = {"": bucket.parameters.master, **bucket.parameters.states}
        whole = {name: torch.zeros(bucket.parameters.length, dtype=it.dtype) for name, it in mine.items()}
        for name, values in mine.items():
            whole[name][slice(*bucket.parameters.owned)] = values.cpu()
        if not self._is_sharded(bucket):
            return whole
        tag = STATES + bucket.number
        ranges = {}  # the first rank that has each
        for rank in bucket.ranks:
            ranges.setdefault(self._owned_range(bucket, rank), rank)
        for owned, rank in ranges.items():
            if owned[0] == owned[1] or rank == bucket.ranks[0]:
                continue
            for values in whole.values():
                if self.rank == rank:
                    self.transport.control_send(values[slice(*owned)], bucket.ranks[0], tag).wait()
                elif self.rank == bucket.ranks[0]:
                    self.transport.control_receive(values[slice(*owned)], rank, tag).wait()
        return whole

    def _layer_state(self, bucket: GradientBucket, states: dict[str, torch.Tensor],
                     layer: int) -> checkpoint.LayerState:
        """A tied head is stored with the first layer only."""
        parameters, optimizer = {}, {}
        for entry in bucket.parameters.entries:
            if entry.layer == layer and not self._is_tied_head(layer, entry.name):
                shape = entry.parameter.shape
                parts = {name: values[entry.first:entry.end].view(shape) for name, values in states.items()}
                parameters[entry.name] = parts.pop("")
                optimizer[entry.name] = parts
        return checkpoint.LayerState(parameters, optimizer, bucket.parameters.steps)

    def load(self, folder: str, step: int, meta: dict) -> None:
        """Resumes from a checkpoint of any plan of the same model."""
        for bucket in self.buckets:
            bucket.parameters.steps = min(self._load_layer(bucket, layer, folder, step) for layer in bucket.layers)
        scale = meta.get("loss_scale")
        if self.scale.enabled and isinstance(scale, (int, float)) and 1 <= scale <= 2.0 ** 64:
            self.scale.value = float(scale)

    def _load_layer(self, bucket: GradientBucket, layer: int, folder: str, step: int) -> int:
        """Returns the steps that the optimizer has made with its states: 0 if it starts with new ones."""
        entries = [it for it in bucket.parameters.entries if it.layer == layer]
        shapes = {name: list(it.shape) for name, it in self.modules[layer].named_parameters()
                  if not self._is_tied_head(layer, name)}
        state = checkpoint.read_layer(folder, step, layer, shapes)
        steps = state.steps
        for entry in entries:
            name, found = entry.name, state
            if self._is_tied_head(layer, name):
                name, found = self.model.tied[0], checkpoint.read_layer(folder, step, 0)
            if not load_entry(bucket.parameters, entry, found, name):
                steps = 0
        return steps

    def parameters(self) -> dict[tuple[int, str], torch.Tensor]:
        """What this rank has now."""
        return {(entry.layer, entry.name): entry.parameter.detach().clone() for bucket in self.buckets
                for entry in bucket.parameters.entries}

    def close(self) -> None:
        """After the last iteration: waits for what is still being sent."""
        if self.transport is not None:
            self.transport.wait_until_sent()
            self.transport.close()
        if self.pool is not None:
            self.pool.shutdown()


def load_entry(group: ParameterGroup, entry, state: checkpoint.LayerState, name: str) -> bool:
    """Takes a parameter, and this rank's share of its optimizer state. State of a different optimizer is ignored.
    Returns whether the file has all states of this optimizer, whatever this rank's share is."""
    values = state.parameters[name].reshape(-1)
    group.flat[entry.first:entry.end] = values.to(group.flat.dtype).to(group.flat.device)
    kept = state.optimizer.get(name, {})
    is_complete = all(key in kept and kept[key].numel() == values.numel() for key in group.states)
    first, end = max(entry.first, group.owned[0]), min(entry.end, group.owned[1])
    if first >= end:
        return is_complete
    here, there = slice(first - group.owned[0], end - group.owned[0]), slice(first - entry.first, end - entry.first)
    group.master[here] = values[there].to(group.master.dtype).to(group.flat.device)
    for key, mine in group.states.items() if is_complete else ():
        mine[here] = kept[key].reshape(-1)[there].to(mine.dtype).to(mine.device)
    return is_complete
