#!/usr/bin/env python3
"""8-bit messages: what they cost in accuracy, and that all replicas still have the same numbers.

usage: compression.py
"""
import itertools
import queue
import random
import threading

import ranks
from collectives import HALVES
from programs import SCHEDULES, SYNCS, make_program

RANKS = 5
# After three iterations of SGD, parameters differ by at most this share of how far they have moved. An 8-bit number is
# within 1/254 of the largest of its block, and gradients pass at most four messages.
TOLERANCE = 0.10


def test_round_trip():
    import torch
    from dtfm_runtime.compression import BLOCK, compress, compressed_bytes, decompress
    torch.manual_seed(1)
    for values in (0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7):
        for scale in (1e-20, 1e-3, 1.0, 1e20):
            numbers = torch.randn(values) * scale
            message = compress(numbers)
            assert message.dtype == torch.uint8 and message.numel() == compressed_bytes(values) == values + 4 * -(-values // BLOCK)
            found = decompress(message, values, torch.float32)
            for first in range(0, values, BLOCK):
                block, there = numbers[first:first + BLOCK], found[first:first + BLOCK]
                largest = block.abs().max()
                assert (block - there).abs().max() <= largest / 254 * 1.0001, (values, scale)
                assert abs(there.abs().max() - largest) <= largest * 1e-6, "the largest number is exact"
    assert torch.equal(decompress(compress(torch.zeros(5)), 5, torch.float32), torch.zeros(5))
    assert not torch.isfinite(decompress(compress(torch.tensor([1.0, float("inf")])), 2, torch.float32)).all(), "overflows stay visible"
    assert not torch.isfinite(decompress(compress(torch.tensor([1.0, float("nan")])), 2, torch.float32)).all()
    for dtype in (torch.float16, torch.bfloat16):
        assert decompress(compress(torch.ones(3, dtype=dtype)), 3, dtype).dtype == dtype


class Work:
    def __init__(self, wait):
        self.wait = wait


class Threads:
    """A transport between threads. Messages are read when they are received, as by Gloo."""

    groups_messages = False

    def __init__(self, rank, queues):
        self.rank, self.queues = rank, queues

    def send(self, tensor, peer, tag):
        self.queues[self.rank, peer].put(tensor.clone())
        return Work(lambda: None)

    def receive(self, buffer, peer, tag):
        return Work(lambda: buffer.copy_(self.queues[peer, self.rank].get(timeout=20)))


def run_group(algorithm, sites, length, shards, compressed, kinds):
    """Returns what every rank has after the collectives, what it should, and what each owns after a reduce-scatter."""
    import torch
    from collectives import collective
    from dtfm_runtime.program import parse_collectives
    from dtfm_runtime.sync import ALL_GATHER, REDUCE_SCATTER, Collective, make_steps, owned_range
    # Made before the threads: in a defaultdict, two threads may each make one of the same key.
    queues = {pair: queue.Queue() for pair in itertools.permutations(range(len(sites)), 2)}
    data = [torch.randn(length) for _ in sites]
    expected = sum(data)
    for kind in kinds:
        messages, = parse_collectives([collective(algorithm, sites, kind, shards)])

        def run(position):
            steps = make_steps(messages, position, length)
            Collective(Threads(position, queues), steps, range(len(sites)), 1, compressed and kind != ALL_GATHER).run(data[position])

        threads = [threading.Thread(target=run, args=(position,)) for position in range(len(sites))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if kind == REDUCE_SCATTER:  # only what a rank owns counts
            covered = torch.zeros(length)
            for position, values in enumerate(data):
                first, end = owned_range(messages, position, length)
                covered[first:end] = 1
                values[:first] = float("nan")
                values[end:] = float("nan")
            assert covered.all(), (algorithm, sites, "some numbers have no owner")
    assert not any(not it.empty() for it in queues.values()), "a message was not received"
    return data, expected


def test_collectives():
    """Of all algorithms, sizes and sites: the sum is right, and the same bits are everywhere, compressed or not."""
    import torch
    from dtfm_runtime.sync import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
    random_ = random.Random(1)
    for algorithm in SYNCS:
        for count in range(2, 8):
            for length in (1, 5, 100, 5000):
                for compressed in (False, True):
                    sites = [random_.choice("abc") for _ in range(count)]
                    smallest = min(sites.count(site) for site in sites)
                    shards = random_.choice((0, random_.randint(1, smallest))) if algorithm == "hierarchical" else 0
                    halves = algorithm in HALVES
                    for kinds in [(ALL_REDUCE,)] + [(REDUCE_SCATTER, ALL_GATHER)] * halves:
                        data, expected = run_group(algorithm, sites, length, shards, compressed, kinds)
                        for values in data:
                            # A hop adds at most 1/254 of the largest partial sum.
                            limit = 8 * count * expected.abs().max().clamp(min=4) / 254 if compressed else 1e-5
                            assert (values - expected).abs().max() <= limit, (algorithm, sites, length, compressed, kinds)
                            assert torch.equal(values, data[0]), (algorithm, sites, length, compressed, kinds)


def programs(compress):
    model = {"kind": "transformer", "layers": 5, "hidden": 16, "heads": 4, "sequence": 8, "vocabulary": 32}
    for number, schedule in enumerate(SCHEDULES):
        for sync in SYNCS[number % 2::2]:
            if schedule.startswith("interleaved"):
                pipelines = [(4, [(0, 1), (1, 2), (2, 4), (4, 5)]), (2, [(0, 2), (2, 3), (3, 4), (4, 5)])]
            else:
                pipelines = [(3, [(0, 2), (2, 5)]), (2, [(0, 3), (3, 5)]), (2, [(0, 5)])]
            sites = ["a", "a", "b", "b", "b"]
            yield make_program(model, pipelines, schedule, sync, chunks=2 if schedule.startswith("interleaved") else 1, optimizer="sgd-8",
                               sites=sites, compress=compress, overlap=number % 2 == 0,
                               zero1=sync in HALVES and number % 3 == 0)


def run_rank(rank, folder):
    import torch
    import torch.distributed as dist
    from dtfm_runtime.data import open_data
    from dtfm_runtime.model import Transformer, transformer_model
    from dtfm_runtime.program import parse_program
    from dtfm_runtime.single import SingleTrainer
    from dtfm_runtime.timeline import Recorder
    from dtfm_runtime.training import Options, Trainer
    from dtfm_runtime.transport import GlooTransport
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    for document in programs("8-bit"):
        program, model = parse_program(document), transformer_model(Transformer.read(document["model"]))
        if rank >= len(program.ranks):
            continue
        batches, options = open_data("synthetic", model, 5), Options("sgd", lr=0.5, weight_decay=0.0, seed=3, steps=3)
        single = SingleTrainer(program, model, batches, options)
        first = single.parameters()
        trainer = Trainer(program, rank, model, batches, options, GlooTransport(rank), Recorder(rank, False))
        for _ in range(3):
            single.run_iteration()
            trainer.run_iteration()
        expected, found = single.parameters(), trainer.parameters()
        moved = max((expected[key] - first[key]).abs().max().item() for key in found)
        differs = max((expected[key] - found[key]).abs().max().item() for key in found)
        # More than rounding, or nothing was compressed.
        assert 1e-4 * moved < differs <= TOLERANCE * moved, (program.schedule, program.gradient_sync, differs, moved)
        check_same_bits(rank, program, found, dist)
        trainer.close()


def check_same_bits(rank, program, found, dist):
    """Every replica of a layer has the same numbers, bit by bit."""
    for group in program.sync_groups:
        if rank not in group.ranks:
            continue
        for key in sorted(it for it in found if it[0] in range(*group.layers)):
            values = found[key].contiguous()
            if rank == group.ranks[0]:
                for peer in group.ranks[1:]:
                    dist.send(values, peer, tag=99)
            else:
                theirs = values.clone()
                dist.recv(theirs, group.ranks[0], tag=99)
                assert bool((theirs == values).all()), (program.schedule, program.gradient_sync, key)


def test():
    test_round_trip()
    test_collectives()
    ranks.run_in_ranks(__file__, RANKS, [], 200)
    print("ok")


if __name__ == "__main__":
    ranks.main(test, run_rank)
