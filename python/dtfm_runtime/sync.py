"""The gradient synchronization of a group of ranks, message by message as dtfm-sim lowers it.

An algorithm is a list of steps for one rank: pure data, in positions of the group and ranges of a flat buffer.
`Collective` executes steps. In the reduce phase, received elements are added. In the gather phase, they are final and
overwrite the receiver's. Each element is summed on one rank and copied from there, so all replicas are bit-identical.
"""
from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Callable, Iterator, Optional, Sequence

import torch

from .compression import compress, compressed_bytes, decompress
from .transport import SYNC

Range = tuple[int, int]
# Called with peer, start, end, whether it was received, and the number of the step.
Record = Callable[[int, float, float, bool, int], None]
ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = "all-reduce", "reduce-scatter", "all-gather"
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


@dataclass
class Step:
    """Messages at the same time. The next step begins when those of this one have been received."""

    adds: bool
    sends: list[Message] = field(default_factory=list)
    receives: list[Message] = field(default_factory=list)


@dataclass(frozen=True)
class Group:
    """What an algorithm needs to know: `sites` names the site of each position."""

    sites: tuple[str, ...]
    position: int
    length: int
    shards: int = 0  # hierarchical: per site; 0: as many as the smallest site has ranks

    @property
    def ranks(self) -> int:
        return len(self.sites)


def split(whole: Range, parts: int) -> list[Range]:
    first, end = whole
    cuts = [first + (end - first) * i // parts for i in range(parts + 1)]
    return list(zip(cuts, cuts[1:]))


def ring_steps(members: Sequence[int], own: int, whole: Range, collective: str) -> list[Step]:
    """Reduce-scatter and all-gather around the ring of `members`. `own` is an index in it."""
    n = len(members)
    chunks, after, before = split(whole, n), members[(own + 1) % n], members[(own - 1) % n]
    steps = []
    if collective != ALL_GATHER:
        for k in range(n - 1):
            steps.append(Step(True, [Message(after, (chunks[(own - k) % n],))],
                              [Message(before, (chunks[(own - k - 1) % n],))]))
    if collective != REDUCE_SCATTER:
        for k in range(n - 1):
            steps.append(Step(False, [Message(after, (chunks[(own + 1 - k) % n],))],
                              [Message(before, (chunks[(own - k) % n],))]))
    return steps


def ring(group: Group, collective: str) -> list[Step]:
    return ring_steps(range(group.ranks), group.position, (0, group.length), collective)


def sharded_ps(group: Group, collective: str) -> list[Step]:
    """Every rank sums a shard of all, then sends it to all."""
    own, n = group.position, group.ranks
    shards = split((0, group.length), n)
    others = [(own + step) % n for step in range(1, n)]
    steps = []
    if collective != ALL_GATHER:
        steps.append(Step(True, [Message(to, (shards[to],)) for to in others],
                          [Message(of, (shards[own],)) for of in sorted(others)]))
    if collective != REDUCE_SCATTER:
        steps.append(Step(False, [Message(to, (shards[own],)) for to in others],
                          [Message(of, (shards[of],)) for of in others]))
    return steps


def central_ps(group: Group, collective: str) -> list[Step]:
    """The first rank sums everything, then sends the sum to all."""
    whole = ((0, group.length),)
    if group.position > 0:
        return [Step(True, [Message(0, whole)]), Step(False, [], [Message(0, whole)])]
    others = [Message(peer, whole) for peer in range(1, group.ranks)]
    return [Step(True, [], others), Step(False, others)]


def tree(group: Group, collective: str) -> list[Step]:
    """Reduction to the first rank and broadcast from it over a binomial tree."""
    own, n, whole = group.position, group.ranks, ((0, group.length),)
    steps = []
    reach = 1
    while reach < n:
        if own % (2 * reach) == reach:
            steps.append(Step(True, [Message(own - reach, whole)]))
        elif own % (2 * reach) == 0 and own + reach < n:
            steps.append(Step(True, [], [Message(own + reach, whole)]))
        reach *= 2
    while reach > 1:
        reach //= 2
        if own % (2 * reach) == 0 and own + reach < n:
            steps.append(Step(False, [Message(own + reach, whole)]))
        elif own % (2 * reach) == reach:
            steps.append(Step(False, [], [Message(own - reach, whole)]))
    return steps


def sites_of(group: Group) -> list[list[int]]:
    """The positions in every site, in the order in which sites come."""
    sites: dict[str, list[int]] = {}
    for position, site in enumerate(group.sites):
        sites.setdefault(site, []).append(position)
    return list(sites.values())


def shard_count(group: Group) -> int:
    return group.shards or min(len(site) for site in sites_of(group))


def hierarchical(group: Group, collective: str) -> list[Step]:
    """In every site one rank per shard sums it, those of the same shard form a ring across the sites, and then each
    sends its shard to all of its site."""
    sites, own = sites_of(group), group.position
    shards = split((0, group.length), shard_count(group))
    site = next(it for it in sites if own in it)
    number = site.index(own)
    owned = shards[number] if number < len(shards) else None
    others = [peer for peer in site if peer != own]
    steps = []
    if collective != ALL_GATHER:
        steps.append(Step(True, [Message(site[k], (shard,)) for k, shard in enumerate(shards) if k != number],
                          [Message(peer, (owned,)) for peer in others] if owned else []))
        if owned:
            steps += ring_steps([it[number] for it in sites], sites.index(site), owned, ALL_REDUCE)
    if collective != REDUCE_SCATTER:
        # A shard is compressed in the chunks of its ring, so that every rank has the same elements.
        pieces = [tuple(split(shard, len(sites))) for shard in shards]
        steps.append(Step(False, [Message(peer, pieces[number]) for peer in others] if owned else [],
                          [Message(site[k], pieces[k]) for k in range(len(shards)) if k != number]))
    return steps


ALGORITHMS: dict[str, Callable[[Group, str], list[Step]]] = {
    "ring": ring, "sharded-ps": sharded_ps, "central-ps": central_ps, "tree": tree, "hierarchical": hierarchical}


def owned_range(algorithm: str, group: Group) -> Range:
    """What a rank of the group has the sum of after a reduce-scatter."""
    if algorithm == "hierarchical":
        site = next(it for it in sites_of(group) if group.position in it)
        number, shards = site.index(group.position), shard_count(group)
        return split((0, group.length), shards)[number] if number < shards else (0, 0)
    shards = split((0, group.length), group.ranks)
    return shards[(group.position + 1) % group.ranks] if algorithm == "ring" else shards[group.position]


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
        for number, step in enumerate(self.steps):
            self.run_step(step, number)
        for work, _ in self.sent:
            work.wait()
        for _ in range(self.recorded_count):
            self.recorded.acquire()
        self.final.clear()

    def run_step(self, step: Step, number: int) -> None:
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
            self.send(tensor, peer, number)
        for message in receives:
            if not self.posted:
                self.post(next(self.unposted))
            buffer, work = self.posted.popleft()
            start = time.monotonic()
            work.wait()
            if self.record is not None:
                self.record(self.peers[message.peer], start, time.monotonic(), True, number)
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
