"""Reads and checks program.json: what every rank computes, sends and synchronizes.

The file may come from a stranger. Whatever is wrong with it ends in one UserError; nothing in it is executed or
used as the name of a file.
"""
from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any, Optional

from .errors import UserError

SCHEMA = "dtfm-program/2"
MAX_BYTES, MAX_RANKS, MAX_OPERATIONS, MAX_LAYERS = 1 << 28, 100_000, 20_000_000, 100_000
MAX_HELD_LAYERS = 5_000_000  # of all pipelines together; checking them takes memory
MAX_SEQUENCE = 1_000_000_000
SCHEDULES = ("gpipe", "1f1b", "1f1b-blocking", "interleaved", "interleaved-blocking", "zb-h1", "zb-greedy", "eager-1f1b")
PRECISIONS = ("fp16", "bf16", "fp32", "tf32")
OPTIMIZERS = ("adam-16", "adam-18", "adam-20", "sgd-12", "sgd-8", "host-offload")
OPERATION = re.compile(r"([FBW])([0-9]{1,9})(?:/([0-9]{1,5}))?")
STEP = re.compile(r"([0-9]{1,6})([+=])((?: [<>][0-9]{1,6}:[0-9.]{1,13})+)")
PART = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,6}))?")
MAX_PARTS = 1_000_000  # into which the gradients of a group may be cut


@dataclass(frozen=True)
class Operation:
    kind: str  # F, B or W
    micro_batch: int
    chunk: int = 0


@dataclass(frozen=True)
class Chunk:
    """Consecutive layers that a rank computes one after another."""

    layers: tuple[int, int]
    input_from: Optional[int]  # the rank that computes the layers before; None: there are none
    output_to: Optional[int]
    compress_input: bool  # both activations and their gradients, at this boundary
    compress_output: bool
    recomputed: int  # the number of first layers that are recomputed
    offloaded: int  # the number of first layers whose activations wait in host memory


@dataclass(frozen=True)
class Rank:
    device: str
    host: str
    pipeline: int
    order: int
    chunks: tuple[Chunk, ...]

    def layers(self) -> list[int]:
        return [layer for chunk in self.chunks for layer in range(*chunk.layers)]


@dataclass(frozen=True)
class Pipeline:
    micro_batches: int
    first_micro_batch: int


@dataclass(frozen=True)
class Part:
    """Of the data of a collective, which are cut into equal shards, and every shard into equal chunks."""

    shard: int
    chunk: Optional[int]  # None: the whole shard


@dataclass(frozen=True)
class MessageStep:
    number: int
    adds: bool  # received elements are added; otherwise they are final
    sends: tuple[tuple[int, Part], ...]  # to positions in the group
    receives: tuple[tuple[int, Part], ...]


@dataclass(frozen=True)
class Messages:
    """Those of a collective."""

    shards: int
    chunks: int
    steps: tuple[tuple[MessageStep, ...], ...]  # [position in the group]
    owned: tuple[Optional[Part], ...]  # [position]: what it has the sum of after a reduce-scatter


@dataclass(frozen=True)
class SyncGroup:
    layers: tuple[int, int]
    ranks: tuple[int, ...]
    compress: bool
    messages: dict[str, Messages]  # of all_reduce, or of reduce_scatter and all_gather


@dataclass(frozen=True)
class Program:
    topology: str
    model: dict
    layers: int
    sequence: int  # tokens per sample; 1 if the model does not say
    global_batch: int
    micro_batch: int
    precision: str
    optimizer: str
    schedule: str
    gradient_sync: str
    zero1: bool
    overlap: bool
    tied_embedding_sync: bool
    blocking_sends: bool
    orders: tuple[tuple[Operation, ...], ...]
    pipelines: tuple[Pipeline, ...]
    ranks: tuple[Rank, ...]
    sync_groups: tuple[SyncGroup, ...]
    tied_groups: tuple[tuple[int, int], ...]
    pair_all_reduce: Messages  # between the two ranks of a tied group
    digest: str = field(compare=False, default="")  # tells whether all ranks run the same program

    @property
    def micro_batches(self) -> int:
        return sum(pipeline.micro_batches for pipeline in self.pipelines)

    @property
    def splits_backward(self) -> bool:
        return self.schedule in ("zb-h1", "zb-greedy")

    def order_of(self, rank: int) -> tuple[Operation, ...]:
        return self.orders[self.ranks[rank].order]

    def describe(self, rank: int) -> str:
        return f"rank {rank} ({self.ranks[rank].device} at {self.ranks[rank].host})"

    def sender(self, rank: int, operation: Operation) -> Optional[int]:
        """The rank that the operation waits for; None if it waits for no message and no other chunk."""
        chunk = self.ranks[rank].chunks[operation.chunk]
        return {"F": chunk.input_from, "B": chunk.output_to, "W": None}[operation.kind]

    def receiver(self, rank: int, operation: Operation) -> Optional[int]:
        chunk = self.ranks[rank].chunks[operation.chunk]
        return {"F": chunk.output_to, "B": chunk.input_from, "W": None}[operation.kind]

    def receiving_chunk(self, rank: int, operation: Operation) -> Optional[int]:
        """The chunk of the receiver that continues with what this operation computes."""
        receiver = self.receiver(rank, operation)
        if receiver is None:
            return None
        first, end = self.ranks[rank].chunks[operation.chunk].layers
        for number, chunk in enumerate(self.ranks[receiver].chunks):
            if chunk.layers[0] == end if operation.kind == "F" else chunk.layers[1] == first:
                return number
        raise UserError(f"program.json: rank {receiver} does not compute the layers next to [{first}, {end}) of rank "
                        f"{rank}")


class _Reader:
    """A value of the file and where it is, for error messages."""

    def __init__(self, value: Any, where: str):
        self.value, self.where = value, where

    def fail(self, what: str):
        raise UserError(f"program.json: {self.where or 'the file'} {what}; export the plan again")

    def get(self, key: str, *default: Any) -> "_Reader":
        if not isinstance(self.value, dict):
            self.fail("must be an object")
        where = f"{self.where}.{key}" if self.where else key
        if key not in self.value and not default:
            raise UserError(f"program.json: {where} is missing; export the plan again")
        value = self.value.get(key, default[0] if default else None)
        return _Reader(default[0] if value is None and default else value, where)

    def list(self, most: int, least: int = 0) -> list["_Reader"]:
        if not isinstance(self.value, list) or not least <= len(self.value) <= most:
            self.fail(f"must be a list of {least} to {most} values")
        return [_Reader(value, f"{self.where}[{i}]") for i, value in enumerate(self.value)]

    def int(self, least: int, most: int) -> int:
        if type(self.value) is not int or not least <= self.value <= most:
            self.fail(f"must be a whole number from {least} to {most}")
        return self.value

    def text(self) -> str:
        if not isinstance(self.value, str) or len(self.value) > 1000:
            self.fail("must be text of at most 1000 characters")
        return "".join(c if c.isprintable() else "?" for c in self.value)

    def flag(self) -> bool:
        if type(self.value) is not bool:
            self.fail("must be true or false")
        return self.value

    def one_of(self, names: tuple[str, ...]) -> str:
        if not isinstance(self.value, str) or self.value not in names:
            self.fail(f"must be one of {', '.join(names)}")
        return self.value

    def range(self, layers: int) -> tuple[int, int]:
        first, end = (it.int(0, layers) for it in self.list(2, 2))
        if first >= end:
            self.fail("must be a range of layers that is not empty")
        return first, end

    def compression(self) -> bool:
        if self.value not in (None, "8-bit"):
            self.fail("must be null or \"8-bit\"")
        return self.value is not None


def read_program(path: str) -> Program:
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}): run train.py in the folder that dtfm-export wrote, "
                        "or name the program with --program") from None
    if len(text) > MAX_BYTES:
        raise UserError(f"{path} is larger than {MAX_BYTES} bytes; export the plan again")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({str(error)[:200]}); export the plan again") from None
    return parse_program(document, hashlib.sha256(text).hexdigest())


def parse_program(document: Any, digest: str = "") -> Program:
    root = _Reader(document, "")
    if root.get("schema").value != SCHEMA:
        raise UserError(f"program.json: schema is not {SCHEMA}: export the plan again, and use the train.py of the "
                        "same export")
    layers = layer_count(root.get("model"))
    training, execution = root.get("training"), root.get("execution")
    recompute = training.get("recompute", "none").one_of(("none", "full", "as-needed", "offload"))
    ranks = root.get("ranks").list(MAX_RANKS, 1)
    orders = read_orders(root.get("orders"))
    collectives = read_collectives(root.get("collectives"))
    pipelines = tuple(Pipeline(it.get("micro_batches").int(1, MAX_OPERATIONS),
                               it.get("first_micro_batch").int(0, MAX_OPERATIONS))
                      for it in root.get("pipelines").list(MAX_RANKS, 1))
    program = Program(
        topology=root.get("topology").get("name", "").text(),
        model=root.get("model").value, layers=layers,
        sequence=root.get("model").get("sequence", 1).int(1, MAX_SEQUENCE),
        global_batch=training.get("global_batch").int(1, 10**9), micro_batch=training.get("micro_batch").int(1, 10**9),
        precision=training.get("precision").one_of(PRECISIONS), optimizer=training.get("optimizer").one_of(OPTIMIZERS),
        schedule=execution.get("schedule").one_of(SCHEDULES),
        gradient_sync=execution.get("gradient_sync").text(),
        zero1=execution.get("optimizer_sharding", "none").one_of(("none", "zero1")) == "zero1",
        overlap=execution.get("overlap", False).flag(),
        tied_embedding_sync=execution.get("tied_embedding_sync", False).flag(),
        blocking_sends=execution.get("blocking_sends", False).flag()
        or execution.get("schedule").value.endswith("-blocking"),
        orders=orders, pipelines=pipelines,
        ranks=tuple(read_rank(it, layers, recompute, len(ranks), len(pipelines), len(orders)) for it in ranks),
        sync_groups=tuple(read_group(it, layers, len(ranks), collectives) for it in root.get("sync_groups").list(MAX_LAYERS * 2)),
        tied_groups=tuple((it.list(2, 2)[0].int(0, len(ranks) - 1), it.list(2, 2)[1].int(0, len(ranks) - 1))
                          for it in root.get("tied_groups", []).list(MAX_RANKS)),
        pair_all_reduce=read_messages(root.get("pair_all_reduce"), collectives, 2),
        digest=digest)
    check(program)
    return program


def layer_count(model: _Reader) -> int:
    layers = model.get("layers")
    if not isinstance(layers.value, list):
        return layers.int(1, MAX_LAYERS)
    count = sum(it.get("repeat", 1).int(1, MAX_LAYERS) for it in layers.list(MAX_LAYERS, 1))  # equal ones are one entry
    if count > MAX_LAYERS:
        layers.fail(f"has more than {MAX_LAYERS} layers")
    return count


def read_orders(orders: _Reader) -> tuple[tuple[Operation, ...], ...]:
    result, total = [], 0
    for it in orders.list(MAX_RANKS, 1):
        if not isinstance(it.value, str):
            it.fail("must be text")
        words = it.value.split()
        total += len(words)
        if total > MAX_OPERATIONS:
            it.fail(f"exceeds {MAX_OPERATIONS} operations in total")
        result.append(tuple(read_operation(it, word) for word in words))
    return tuple(result)


def read_operation(order: _Reader, word: str) -> Operation:
    match = OPERATION.fullmatch(word)
    if match is None:
        order.fail(f"has an invalid operation {word[:20]!r}; expected, for example, F0, B12/1 or W3")
    return Operation(match[1], int(match[2]), int(match[3] or 0))


def read_rank(it: _Reader, layers: int, recompute: str, ranks: int, pipelines: int, orders: int) -> Rank:
    def neighbour(of: _Reader) -> Optional[int]:
        return None if of.value is None else of.int(0, ranks - 1)

    def not_kept(chunk: _Reader) -> tuple[int, int]:
        """Numbers of recomputed and of offloaded layers."""
        first, last = chunk.get("layers").range(layers)
        if recompute == "as-needed":
            return chunk.get("recompute_layers").int(0, last - first), 0
        if recompute == "offload":
            return 0, chunk.get("offload_layers").int(0, last - first)
        return last - first if recompute == "full" else 0, 0

    chunks = tuple(Chunk(chunk.get("layers").range(layers), neighbour(chunk.get("input_from", None)),
                         neighbour(chunk.get("output_to", None)), chunk.get("compress_input", None).compression(),
                         chunk.get("compress_output", None).compression(), *not_kept(chunk))
                   for chunk in it.get("chunks").list(MAX_LAYERS, 1))
    if sum(chunk.layers[1] - chunk.layers[0] for chunk in chunks) > layers:
        it.fail(f"has more layers than the model, which has {layers}")
    return Rank(it.get("device").text(), it.get("host", "").text(),
                it.get("pipeline").int(0, pipelines - 1), it.get("order").int(0, orders - 1), chunks)


def read_collectives(collectives: _Reader) -> tuple[Messages, ...]:
    result, total = [], 0
    for it in collectives.list(MAX_LAYERS):
        shards, chunks = (it.get(key).int(1, MAX_PARTS) for key in ("shards", "chunks"))
        if shards * chunks > MAX_PARTS:
            it.fail(f"has more than {MAX_PARTS} parts")
        members = it.get("steps").list(MAX_RANKS, 2)
        steps = []
        for member in members:
            steps.append(read_steps(member, len(members), shards, chunks))
            total += sum(len(step.sends) + len(step.receives) for step in steps[-1])
            if total > MAX_OPERATIONS:
                it.fail(f"exceeds {MAX_OPERATIONS} messages in total")
        owned = it.get("owned", []).list(len(members))
        if owned and len(owned) != len(members):
            it.fail("must have owned parts of every member")
        result.append(Messages(shards, chunks, tuple(steps),
                               tuple(None if part.value == "" else read_part(part, part.value, shards, chunks)
                                     for part in owned)))
        check_messages(it, result[-1])
    return tuple(result)


def parse_collectives(document: Any) -> tuple[Messages, ...]:
    return read_collectives(_Reader(document, "collectives"))


def read_part(of: _Reader, text: Any, shards: int, chunks: int) -> Part:
    match = PART.fullmatch(text) if isinstance(text, str) else None
    if match is None or int(match[1]) >= shards or match[2] is not None and int(match[2]) >= chunks:
        of.fail(f"has an invalid part {str(text)[:20]!r}; expected a shard below {shards}, and after a dot a chunk below "
                f"{chunks}")
    return Part(int(match[1]), None if match[2] is None else int(match[2]))


def read_steps(member: _Reader, members: int, shards: int, chunks: int) -> tuple[MessageStep, ...]:
    if not isinstance(member.value, str):
        member.fail("must be text")
    steps = []
    for text in member.value.split(", ") if member.value else ():
        match = STEP.fullmatch(text)
        if match is None:
            member.fail(f"has an invalid step {text[:20]!r}; expected, for example, 0+ >1:2 <3:0.1")
        number = int(match[1])
        if steps and number <= steps[-1].number:
            member.fail("must have steps with ascending numbers")
        listed: dict[str, list] = {">": [], "<": []}
        for word in match[3].split():
            peer, part = word[1:].split(":")
            if int(peer) >= members:
                member.fail(f"has a message to or from {peer}, but only {members} members")
            listed[word[0]].append((int(peer), read_part(member, part, shards, chunks)))
        steps.append(MessageStep(number, match[2] == "+", tuple(listed[">"]), tuple(listed["<"])))
    return tuple(steps)


def check_messages(it: _Reader, messages: Messages) -> None:
    """Every message is sent and received in the same step, so that no step waits forever."""
    sent: dict[tuple, list] = {}
    received: dict[tuple, list] = {}
    for position, steps in enumerate(messages.steps):
        for step in steps:
            for peer, part in step.sends:
                sent.setdefault((step.number, step.adds, position, peer), []).append(part)
            for peer, part in step.receives:
                received.setdefault((step.number, step.adds, peer, position), []).append(part)
    if sent != received or any(sender == receiver for _, _, sender, receiver in sent):
        it.fail("has messages that are not received as they are sent")


def read_messages(number: _Reader, collectives: tuple[Messages, ...], members: int) -> Messages:
    messages = collectives[number.int(0, len(collectives) - 1)]
    if len(messages.steps) != members:
        number.fail(f"must be a collective of {members} members")
    return messages


def read_group(it: _Reader, layers: int, ranks: int, collectives: tuple[Messages, ...]) -> SyncGroup:
    members = tuple(rank.int(0, ranks - 1) for rank in it.get("ranks").list(ranks, 1))
    if len(set(members)) != len(members):
        it.fail("names a rank twice")
    messages = {kind: read_messages(it.get(kind), collectives, len(members))
                for kind in ("all_reduce", "reduce_scatter", "all_gather") if it.get(kind, None).value is not None}
    return SyncGroup(it.get("layers").range(layers), members, it.get("compress", None).compression(), messages)


def check(program: Program) -> None:
    check_batch(program)
    check_pipelines(program)
    check_orders(program)
    check_groups(program)
    check_tied_groups(program)
    check_progress(program)


def fail(what: str) -> None:
    raise UserError(f"program.json: {what}; export the plan again")


def check_batch(program: Program) -> None:
    samples = program.micro_batches * program.micro_batch
    if samples != program.global_batch:
        fail(f"the pipelines train {samples} samples per iteration, but training.global_batch is "
             f"{program.global_batch}")
    taken = sorted((it.first_micro_batch, it.micro_batches) for it in program.pipelines)
    following = 0
    for first, count in taken:
        if first != following:
            fail(f"no pipeline, or more than one, starts with micro-batch {following}")
        following = first + count


def check_pipelines(program: Program) -> None:
    """Each pipeline has every layer once, and neighbours agree about each other and what they compress."""
    if len(program.pipelines) * program.layers > MAX_HELD_LAYERS:
        fail(f"the pipelines have more than {MAX_HELD_LAYERS} layers together")
    held: list[dict[int, int]] = [{} for _ in program.pipelines]  # [pipeline]: rank of the layer
    for number, rank in enumerate(program.ranks):
        for layer in rank.layers():
            if layer in held[rank.pipeline]:
                fail(f"two stages of pipeline {rank.pipeline} have layer {layer}")
            held[rank.pipeline][layer] = number
    for number, layers in enumerate(held):
        if len(layers) != program.layers:
            fail(f"pipeline {number} has {len(layers)} of {program.layers} layers")
    for number, rank in enumerate(program.ranks):
        for chunk in rank.chunks:
            before, after = (held[rank.pipeline].get(layer) for layer in (chunk.layers[0] - 1, chunk.layers[1]))
            if (chunk.input_from, chunk.output_to) != (before, after):
                fail(f"input_from and output_to of layers [{chunk.layers[0]}, {chunk.layers[1]}) of rank {number} "
                     f"must be {before} and {after}")
            if after is not None:
                following = next((it for it in program.ranks[after].chunks if it.layers[0] == chunk.layers[1]), None)
                if following is None:
                    fail(f"rank {after} has layer {chunk.layers[1]}, but no chunk begins with it")
                if following.compress_input != chunk.compress_output:
                    fail(f"rank {number} and rank {after} disagree on compression")


def check_orders(program: Program) -> None:
    """Every micro-batch passes every chunk once in each direction; W exactly if the schedule splits backward."""
    if sum(len(program.orders[rank.order]) for rank in program.ranks) > MAX_OPERATIONS:
        fail(f"an iteration has more than {MAX_OPERATIONS} operations")
    for number, rank in enumerate(program.ranks):
        count = program.pipelines[rank.pipeline].micro_batches
        operations = program.order_of(number)
        kinds = "FBW" if program.splits_backward else "FB"
        if len(operations) != len(kinds) * count * len(rank.chunks) or len(set(operations)) != len(operations) or any(
                it.kind not in kinds or it.micro_batch >= count or it.chunk >= len(rank.chunks) for it in operations):
            expected = "one F, one B and one W" if program.splits_backward else "one F and one B"
            fail(f"orders[{rank.order}] must have exactly {expected} per micro-batch and chunk of rank {number} "
                 f"({count} micro-batches, {len(rank.chunks)} chunks)")


def check_groups(program: Program) -> None:
    """Where there are several pipelines, the replicas of every layer are synchronized exactly once."""
    holders: list[set[int]] = [set() for _ in range(program.layers)]
    for number, rank in enumerate(program.ranks):
        for layer in rank.layers():
            holders[layer].add(number)
    synchronized: set[int] = set()
    for number, group in enumerate(program.sync_groups):
        members = set(group.ranks)
        for layer in range(*group.layers):
            if layer in synchronized:
                fail(f"two sync_groups have layer {layer}")
            synchronized.add(layer)
            if holders[layer] != members:
                fail(f"sync_groups[{number}].ranks are not the ranks that hold layer {layer}")
        for kind in ("reduce_scatter", "all_gather") if program.zero1 else ("all_reduce",):
            if len(group.ranks) > 1 and kind not in group.messages:
                fail(f"sync_groups[{number}].{kind} is missing")
        if program.zero1 and len(group.ranks) > 1 and not group.messages["reduce_scatter"].owned:
            fail(f"sync_groups[{number}].reduce_scatter has no owned parts")
    missing = set(range(program.layers)) - synchronized if len(program.pipelines) > 1 else ()
    if missing:
        fail(f"layer {min(missing)} is in no sync_group")


def check_tied_groups(program: Program) -> None:
    for first, last in program.tied_groups:
        if 0 not in program.ranks[first].layers() or program.layers - 1 not in program.ranks[last].layers():
            fail(f"tied_groups: rank {first} must have the first layer and rank {last} the last one")
        if program.ranks[first].pipeline != program.ranks[last].pipeline:
            fail(f"tied_groups: ranks {first} and {last} are of different pipelines")


def check_progress(program: Program) -> None:
    """Runs the orders without computing, so that an order that waits for itself is found before training."""
    done: set[tuple[int, Operation]] = set()
    position = [0] * len(program.ranks)
    waiting: dict[tuple[int, Operation], int] = {}
    ready = list(range(len(program.ranks)))
    while ready:
        rank = ready.pop()
        order = program.order_of(rank)
        while position[rank] < len(order):
            operation = order[position[rank]]
            missing = next((it for it in needed_by(program, rank, operation) if it not in done), None)
            if missing is not None:
                waiting[missing] = rank
                break
            done.add((rank, operation))
            position[rank] += 1
            if (rank, operation) in waiting:
                ready.append(waiting.pop((rank, operation)))
    for rank, at in enumerate(position):
        if at < len(program.order_of(rank)):
            it = program.order_of(rank)[at]
            fail(f"the orders are deadlocked: rank {rank} waits forever before {it.kind}{it.micro_batch}/{it.chunk}")


def needed_by(program: Program, rank: int, operation: Operation) -> list[tuple[int, Operation]]:
    needed = []
    if operation.kind != "F":
        needed.append((rank, Operation("F" if operation.kind == "B" else "B", operation.micro_batch, operation.chunk)))
    sender = program.sender(rank, operation)
    if sender is not None:
        first, end = program.ranks[rank].chunks[operation.chunk].layers
        chunk = next(i for i, it in enumerate(program.ranks[sender].chunks)
                     if (it.layers[1] == first if operation.kind == "F" else it.layers[0] == end))
        needed.append((sender, Operation(operation.kind, operation.micro_batch, chunk)))
    return needed
