"""The gradient synchronization of a group of ranks, message by message as the program lists it and dtfm-sim lowers it.

The steps of a rank are pure data, in positions of the group and ranges of a flat buffer. `Collective` executes them. In
the reduce phase, received elements are added. In the gather phase, they are final and overwrite the receiver's. Each
element is summed on one rank and copied from there, so all replicas are bit-identical.
"""
from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Callable, Iterator, Optional, Sequence

import torch

from .compression import compress, compressed_bytes, decompress
from .program import Messages, Part
from .transport import SYNC

Range = tuple[int, int]
# Called with peer, start, end, whether it was received, and the number of the step.
Record = Callable[[int, float, float, bool, int], None]
ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = "all_reduce", "reduce_scatter", "all_gather"
# Receives are posted ahead, because Gloo's sender otherwise waits an extra round trip. At most these bytes are ahead.
AHEAD_BYTES = 64 << 20


@dataclass(frozen=True)
class Message:
    peer: int  # position in the group
    pieces: tuple[Range, ...]  # consecutive; what is compressed separately

    @property
    def range(self) -> Range:
        return self.pieces[0][0], self.pieces[-1][1]

    @property
    def size(self) -> int:
        return self.range[1] - self.range[0]


@dataclass(frozen=True)
class Step:
    """Messages at the same time. The next step begins when those of this one have been received."""

    number: int
    adds: bool
    sends: list[Message]
    receives: list[Message]


def split(whole: Range, parts: int) -> list[Range]:
    first, end = whole
    cuts = [first + (end - first) * i // parts for i in range(parts + 1)]
    return list(zip(cuts, cuts[1:]))


def make_steps(messages: Messages, position: int, length: int) -> list[Step]:
    """The steps of a rank of the group on a buffer of `length` elements."""
    shards = split((0, length), messages.shards)
    chunks = [split(shard, messages.chunks) for shard in shards]

    def pieces(part: Part, adds: bool) -> tuple[Range, ...]:
        if part.chunk is not None:
            return (chunks[part.shard][part.chunk],)
        # A shard is compressed in the chunks in which it has been summed, so that every rank has the same elements.
        return (shards[part.shard],) if adds else tuple(chunks[part.shard])

    return [Step(it.number, it.adds, *([Message(peer, pieces(part, it.adds)) for peer, part in listed]
                                       for listed in (it.sends, it.receives)))
            for it in messages.steps[position]]


def owned_range(messages: Messages, position: int, length: int) -> Range:
    """What a rank of the group has the sum of after a reduce-scatter."""
    part = messages.owned[position]
    if part is None:
        return 0, 0
    shard = split((0, length), messages.shards)[part.shard]
    return shard if part.chunk is None else split(shard, messages.chunks)[part.chunk]


class Collective:
    """Executes the steps of one rank on a flat buffer. `peers`: ranks by position; `tag` tells groups apart."""

    def __init__(self, transport, steps: Sequence[Step], peers: Sequence[int], tag: int, compressed: bool = False,
                 record: Optional[Record] = None):
        self.transport, self.steps, self.peers, self.tag = transport, steps, peers, tag
        self.compressed, self.record = compressed, record

    def run(self, flat: torch.Tensor, ready: Optional[threading.Event] = None) -> None:
        """`ready`: set when `flat` may be read. Receives are posted before. Final elements come only after all others
        have received this rank's own, so they may be received in place at any time."""
        self.flat, self.final = flat, {}
        self.sent: list = []
        self.recorded, self.recorded_count = threading.Semaphore(0), 0
        self.unposted = iter([(step, message) for step in self.steps for message in step.receives if message.size])
        self.posted: deque = deque()
        self.bytes_ahead = 0
        if not self.transport.groups_messages:
            self.post_ahead()
        if ready is not None:
            ready.wait()
        for step in self.steps:
            self.run_step(step)
        for work, _ in self.sent:
            work.wait()
        for _ in range(self.recorded_count):
            self.recorded.acquire()
        self.final.clear()

    def run_step(self, step: Step) -> None:
        sends = [(self.encode(message, step.adds), self.peers[message.peer]) for message in step.sends if message.size]
        receives = [message for message in step.receives if message.size]
        if self.transport.groups_messages:
            buffers = [self.buffer(step, message) for message in receives]
            self.transport.send_and_receive(
                sends, [(buffer, self.peers[it.peer]) for buffer, it in zip(buffers, receives)])
            for message, buffer in zip(receives, buffers):
                self.decode(message, buffer, step.adds)
            return
        for tensor, peer in sends:
            self.send(tensor, peer, step.number)
        for message in receives:
            if not self.posted:
                self.post(next(self.unposted))
            buffer, work = self.posted.popleft()
            start = time.monotonic()
            work.wait()
            if self.record is not None:
                self.record(self.peers[message.peer], start, time.monotonic(), True, step.number)
            self.bytes_ahead -= buffer.numel() * buffer.element_size()
            self.decode(message, buffer, step.adds)
            self.post_ahead()

    def send(self, tensor: torch.Tensor, peer: int, number: int) -> None:
        start = time.monotonic()
        work = self.transport.send(tensor, peer, self.tag)
        if self.record is None:
            self.sent.append((work, tensor))
            return
        self.recorded_count += 1

        def sent() -> None:
            self.record(peer, start, time.monotonic(), False, number)
            self.recorded.release()

        self.transport.keep_until_sent(work, tensor, peer, sent, SYNC)

    def post_ahead(self) -> None:
        while self.bytes_ahead < AHEAD_BYTES:
            following = next(self.unposted, None)
            if following is None:
                return
            self.post(following)

    def post(self, following: tuple[Step, Message]) -> None:
        step, message = following
        buffer = self.buffer(step, message)
        self.bytes_ahead += buffer.numel() * buffer.element_size()
        self.posted.append((buffer, self.transport.receive(buffer, self.peers[message.peer], self.tag)))

    def buffer(self, step: Step, message: Message) -> torch.Tensor:
        if self.compressed:
            size = sum(compressed_bytes(end - first) for first, end in message.pieces)
            return torch.empty(size, dtype=torch.uint8, device=self.flat.device)
        first, end = message.range
        return torch.empty_like(self.flat[first:end]) if step.adds else self.flat[first:end]

    def encode(self, message: Message, adds: bool) -> torch.Tensor:
        first, end = message.range
        if not self.compressed:
            return self.flat[first:end]
        if adds:
            return torch.cat([compress(self.flat[first:end]) for first, end in message.pieces])
        return torch.cat([self.final_bytes(piece) for piece in message.pieces])

    def final_bytes(self, piece: Range) -> torch.Tensor:
        """Final elements are compressed once, by the rank that has summed them, which then uses what others receive."""
        if piece not in self.final:
            first, end = piece
            self.final[piece] = compress(self.flat[first:end])
            self.flat[first:end] = decompress(self.final[piece], end - first, self.flat.dtype)
        return self.final[piece]

    def decode(self, message: Message, buffer: torch.Tensor, adds: bool) -> None:
        if not self.compressed:
            if adds:
                self.flat[slice(*message.range)] += buffer
            return
        for (first, end), part in zip(message.pieces, parts_of(buffer, message.pieces)):
            elements = decompress(part, end - first, self.flat.dtype)
            if adds:
                self.flat[first:end] += elements
            else:
                self.flat[first:end] = elements
                self.final[(first, end)] = part


def parts_of(buffer: torch.Tensor, pieces: Sequence[Range]) -> Iterator[torch.Tensor]:
    first = 0
    for begin, end in pieces:
        size = compressed_bytes(end - begin)
        yield buffer[first:first + size]
        first += size
