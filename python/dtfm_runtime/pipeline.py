"""Executes the order of a rank: receives what an operation needs, computes it and sends the result."""
from __future__ import annotations

import threading
import time
from collections import Counter, deque
from typing import Callable, Optional, Sequence

import torch

from .compression import compress, compressed_bytes, decompress
from .program import Operation, Program
from .transport import ACTIVATIONS, GRADIENTS, SYNC_TAG

# Receives are posted ahead up to these bytes per sender and kind, but at least two.
AHEAD_BYTES = 64 << 20
KINDS = {"F": ACTIVATIONS, "B": GRADIENTS}
ACTIVITIES = {"F": "forward", "B": "backward", "W": "weight_gradient"}


def element_bytes(dtype: torch.dtype) -> int:
    return torch.empty(0, dtype=dtype).element_size()


class Boundary:
    """What is sent between two chunks: activations of a micro-batch, or their gradients."""

    def __init__(self, shape: Sequence[int], dtype: torch.dtype, compressed: bool, device):
        self.shape, self.dtype, self.compressed, self.device = tuple(shape), dtype, compressed, device
        self.values = 1
        for size in shape:
            self.values *= size
        self.bytes = compressed_bytes(self.values) if compressed else self.values * element_bytes(dtype)

    def buffer(self) -> torch.Tensor:
        if self.compressed:
            return torch.empty(self.bytes, dtype=torch.uint8, device=self.device)
        return torch.empty(self.shape, dtype=self.dtype, device=self.device)

    def encode(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach().to(self.dtype)
        return compress(tensor) if self.compressed else tensor.contiguous()

    def decode(self, message: torch.Tensor) -> torch.Tensor:
        return decompress(message, self.values, self.dtype).view(self.shape) if self.compressed else message


class Incoming:
    """The messages of one kind from one sender, in the order in which it sends them. Receives are posted ahead, because
    Gloo's sender otherwise waits an extra round trip. The first of an iteration are posted in the one before."""

    def __init__(self, transport, sender: int, kind: str, keys: Sequence[tuple[int, int]],
                 boundaries: dict[int, Boundary], tag_of: Callable[[str, int, int], int],
                 iterations: int, post_all: bool,
                 arrived: Optional[Callable[[int, int, float, float], None]]):
        self.arrived = arrived  # called with chunk, micro-batch and times, if they are recorded
        self.transport, self.sender, self.kind, self.keys, self.boundaries = transport, sender, kind, keys, boundaries
        self.tag_of, self.left = tag_of, len(keys) * iterations
        largest = max(boundaries[chunk].bytes for chunk, _ in keys)
        self.ahead = len(keys) if post_all else min(len(keys), max(2, AHEAD_BYTES // max(1, largest)))
        self.next = 0  # of `keys`
        self.posted: deque = deque()

    def post_ahead(self) -> None:
        while self.left > 0 and len(self.posted) < self.ahead:
            self._post()

    def _post(self) -> None:
        chunk, micro_batch = self.keys[self.next]
        self.next = (self.next + 1) % len(self.keys)
        self.left -= 1
        buffer = self.boundaries[chunk].buffer()
        work = self.transport.receive(buffer, self.sender, self.tag_of(self.kind, chunk, micro_batch), KINDS[self.kind])
        if self.arrived is not None and not self.transport.groups_messages:
            work = Arrival(self, work, buffer, chunk, micro_batch)
        self.posted.append(((chunk, micro_batch), work, buffer))

    def take(self, chunk: int, micro_batch: int) -> torch.Tensor:
        while all(key != (chunk, micro_batch) for key, _, _ in self.posted):
            self._post()
        index = next(i for i, (key, _, _) in enumerate(self.posted) if key == (chunk, micro_batch))
        _, work, buffer = self.posted[index]
        work.wait()
        del self.posted[index]
        self.post_ahead()
        return self.boundaries[chunk].decode(buffer)


class Arrival:
    """A message whose arrival a thread records; `wait` returns once it has arrived."""

    def __init__(self, incoming: Incoming, work, buffer: torch.Tensor, chunk: int, micro_batch: int):
        self.transport, self.event, posted = incoming.transport, threading.Event(), time.monotonic()

        def then() -> None:
            incoming.arrived(chunk, micro_batch, posted, time.monotonic())
            self.event.set()

        self.transport.notice_arrival(work, buffer, incoming.sender, KINDS[incoming.kind], then)

    def wait(self) -> None:
        self.event.wait()
        self.transport.check()


class Pipeline:
    """What a rank does with the micro-batches of an iteration. `computes` and `boundaries` are by chunk; `iterations`
    will be run in all."""

    def __init__(self, program: Program, rank: int, transport, computes: Sequence, inputs: dict[int, Boundary],
                 outputs: dict[int, Boundary], recorder, iterations: int):
        self.program, self.rank, self.transport, self.computes = program, rank, transport, computes
        self.inputs, self.outputs, self.recorder = inputs, outputs, recorder
        self.order = program.order_of(rank)
        self.stages = stage_numbers(program, rank)
        self.pipeline = program.ranks[rank].pipeline
        self.micro_batches = max(it.micro_batches for it in program.pipelines)
        self.chunks = max(len(it.chunks) for it in program.ranks)
        self.incoming: dict[tuple[int, str], Incoming] = {}
        for sender in sorted({program.sender(rank, it) for it in self.order} - {None, rank}):
            for kind, boundaries in (("F", inputs), ("B", outputs)):
                keys = messages_between(program, sender, rank, kind)
                if keys:
                    arrived = self.recorded_arrival(sender, kind) if recorder.enabled else None
                    self.incoming[(sender, kind)] = Incoming(transport, sender, kind, keys, boundaries, self.tag_of,
                                                             iterations, program.blocking_sends, arrived)

    def tag_of(self, kind: str, chunk: int, micro_batch: int) -> int:
        """`chunk` is that of the receiver."""
        return (("FB".index(kind) * self.chunks + chunk) * self.micro_batches + micro_batch) % SYNC_TAG

    def post_receives(self) -> None:
        for incoming in self.incoming.values():
            incoming.post_ahead()

    def run(self, batch: Callable[[int], tuple], seed_of: Callable[[int], tuple],
            layer_done: Callable[[int], None]) -> list:
        """`batch`: inputs and targets of a micro-batch. `layer_done` is called, in this or another thread, with every
        layer whose gradients are complete. Returns the losses of the micro-batches of a last stage."""
        self.local: dict[tuple[str, int, int], torch.Tensor] = {}  # between chunks of this rank
        self.losses: list = []
        kind = "W" if self.program.splits_backward else "B"
        left = Counter(it.chunk for it in self.order if it.kind == kind)
        for operation in self.order:
            left[operation.chunk] -= operation.kind == kind
            completes = operation.kind == kind and left[operation.chunk] == 0
            self.run_operation(operation, batch, seed_of, layer_done if completes else None)
        return self.losses

    def run_operation(self, it: Operation, batch, seed_of, layer_done) -> None:
        completed: list[int] = []
        done = completed.append if layer_done is None or not self.program.overlap else layer_done
        received = self.receive(it)
        compute = self.computes[it.chunk]
        target = None
        if it.kind == "F" and (received is None or self.program.receiver(self.rank, it) is None):
            inputs, target = batch(it.micro_batch)
            received = inputs if received is None else received
        with self.recorder.span(ACTIVITIES[it.kind], pipeline=self.pipeline, stage=self.stages[it.chunk],
                                micro_batch=it.micro_batch):
            if it.kind == "F":
                result = compute.forward(it.micro_batch, received, seed_of(it.micro_batch), target)
            elif it.kind == "B":
                result = compute.backward(it.micro_batch, received, done)
            else:
                result = compute.weight_gradients(it.micro_batch, done)
        if layer_done is None or self.program.overlap:
            self.send(it, result)
        else:  # the synchronization begins when the last gradients of the stage have been sent
            self.send(it, result, lambda: [layer_done(layer) for layer in completed])

    def receive(self, it: Operation) -> Optional[torch.Tensor]:
        sender = self.program.sender(self.rank, it)
        if sender is None:
            return None
        if sender == self.rank:
            return self.local.pop((it.kind, it.chunk, it.micro_batch))
        return self.incoming[(sender, it.kind)].take(it.chunk, it.micro_batch)

    def recorded_arrival(self, sender: int, kind: str) -> Callable[[int, int, float, float], None]:
        """Records messages. A receiver does not know when they were sent, only when it began to wait for them."""
        def record(chunk: int, micro_batch: int, start: float, end: float) -> None:
            activity, step = ("send_activations", -1) if kind == "F" else ("send_gradients", 1)
            self.recorder.add(activity, start, end, is_received=True, pipeline=self.pipeline,
                              stage=self.stages[chunk] + step,
                              micro_batch=micro_batch, peer=sender)
        return record

    def send(self, it: Operation, result: Optional[torch.Tensor], then: Callable[[], object] = lambda: None) -> None:
        receiver = self.program.receiver(self.rank, it)
        if receiver is None:
            if it.kind == "F":
                self.losses.append(result)
            return void(then())
        chunk = self.program.receiving_chunk(self.rank, it)
        if receiver == self.rank:
            self.local[(it.kind, chunk, it.micro_batch)] = result
            return void(then())
        message = (self.outputs if it.kind == "F" else self.inputs)[it.chunk].encode(result)
        start = time.monotonic()
        work = self.transport.send(message, receiver, self.tag_of(it.kind, chunk, it.micro_batch), KINDS[it.kind])

        def sent() -> None:
            kind = "send_activations" if it.kind == "F" else "send_gradients"
            if self.recorder.enabled:
                self.recorder.add(kind, start, time.monotonic(), pipeline=self.pipeline, stage=self.stages[it.chunk],
                                  micro_batch=it.micro_batch, peer=receiver)
            then()

        if self.program.blocking_sends:
            work.wait()
            sent()
        else:
            self.transport.keep_until_sent(work, message, receiver, sent)


def void(_) -> None:
    return None


def stage_numbers(program: Program, rank: int) -> list[int]:
    """The stage of each chunk, counted along the pipeline as dtfm-sim does."""
    firsts = sorted(chunk.layers[0] for it in program.ranks if it.pipeline == program.ranks[rank].pipeline
                    for chunk in it.chunks)
    return [firsts.index(chunk.layers[0]) for chunk in program.ranks[rank].chunks]


def messages_between(program: Program, sender: int, receiver: int, kind: str) -> list[tuple[int, int]]:
    """Chunk of the receiver and micro-batch of all messages of an iteration, in the order of sending."""
    return [(program.receiving_chunk(sender, it), it.micro_batch) for it in program.order_of(sender)
            if it.kind == kind and program.receiver(sender, it) == receiver]


def channels(program: Program) -> set[tuple[int, int, str]]:
    """Sender, receiver and kind of all messages between stages."""
    return {(rank, receiver, KINDS[it.kind]) for rank in range(len(program.ranks)) for it in program.order_of(rank)
            for receiver in [program.receiver(rank, it)] if receiver not in (None, rank)}
