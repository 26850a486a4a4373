#!/usr/bin/env python3
"""Any program trains the same as one process: parameters after three iterations are equal within 1e-5.

Every schedule is combined with every gradient synchronization. One set of eight processes runs all programs, because
importing torch takes longer than a program. A program of n ranks uses the first n. Some programs run with a transport
like NCCL's.

usage: same_training.py [FIRST-SEED [PROGRAMS]]
"""
import os
import sys
from collections import Counter

import ranks
from programs import LAYERS_BY_STAGE, SCHEDULES, SYNCS, make_program, random_program

RANKS, ITERATIONS, TOLERANCE, LIMIT_S = 8, 3, 1e-5, 600


def cases(seed, count):
    """Programs: first every combination, with one pipeline or zero1 where random choices may miss it, then more; at the
    end the one of `differently_cut`."""
    pairs = [(schedule, sync) for schedule in SCHEDULES for sync in SYNCS]
    result = []
    for number in range(count):
        schedule, sync = pairs[number % len(pairs)]
        fixed = {"pipelines": 1} if number >= len(pairs) and number % 5 == 0 else {}
        result.append(random_program(seed + number, schedule, sync, **fixed))
    return [*result, differently_cut()]


def differently_cut():
    """The ranks with the tied matrix could synchronize other groups before its sum than those without it do."""
    model = {"kind": "transformer", "layers": 5, "hidden": 16, "heads": 4, "sequence": 8, "vocabulary": 32}
    return make_program(model, [(2, [(0, 2), (2, 5)]), (2, [(0, 3), (3, 5)])], zero1=True, overlap=True)


def is_grouped(number, documents):
    return number % 4 == 2 or number == len(documents) - 1


def options_of(document):
    from dtfm_runtime.optimizer import default_optimizer
    from dtfm_runtime.training import Options
    name = default_optimizer(document["training"]["optimizer"])
    # The default epsilon would let Adam amplify gradients that are rounding errors, as of the biases of keys.
    return Options(optimizer=name, lr={"adamw": 1e-3, "sgd": 0.5}[name], epsilon=1e-6, seed=3, steps=ITERATIONS)


def grouped_transport(rank, dist):
    """Sends the messages of a step together and without tags, as NCCL does."""
    from dtfm_runtime.transport import SYNC_TAG, GlooTransport

    class Grouped(GlooTransport):
        groups_messages = True

        def send_and_receive(self, sends, receives):
            works = [dist.irecv(tensor, peer, tag=SYNC_TAG) for tensor, peer in receives]
            works += [dist.isend(tensor, peer, tag=SYNC_TAG) for tensor, peer in sends]
            for work in works:
                work.wait()

    return Grouped(rank)


def with_side_stream(trainer):
    """A thread that synchronizes one group after another stands for the stream on which NCCL does."""
    from concurrent.futures import ThreadPoolExecutor
    side, running, finish = ThreadPoolExecutor(1), [], trainer._synchronize_in_order

    def synchronize_in_order():
        while running:
            running.pop(0).result()
        finish()

    trainer._on_side_stream = lambda function: running.append(side.submit(function))
    trainer._synchronize_in_order = synchronize_in_order


def run_rank(rank, folder, seed, count):
    import torch
    import torch.distributed as dist
    from dtfm_runtime.data import open_data
    from dtfm_runtime.model import Transformer, transformer_model
    from dtfm_runtime.program import parse_program
    from dtfm_runtime.single import SingleTrainer
    from dtfm_runtime.timeline import Recorder
    from dtfm_runtime.training import Trainer
    from dtfm_runtime.transport import GlooTransport
    seed, count = int(seed), int(count)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    documents = cases(seed, count)

    def made(document):
        model = transformer_model(Transformer.read(document["model"]))
        return parse_program(document), model, open_data("synthetic", model, 5), options_of(document)

    for number in range(rank, len(documents), RANKS):
        single = SingleTrainer(*made(documents[number]))
        for _ in range(ITERATIONS):
            single.run_iteration()
        torch.save((single.parameters(), [it.loss for it in single.take_reports()]), f"{folder}/{number}.part")
        os.rename(f"{folder}/{number}.part", f"{folder}/{number}")
    dist.barrier()
    for number, document in enumerate(documents):
        if rank >= len(document["ranks"]):
            continue
        program, model, batches, options = made(document)
        what = f"program {number}: {program.schedule} {program.gradient_sync} {document['execution']}"
        transport = grouped_transport(rank, dist) if is_grouped(number, documents) else GlooTransport(rank)
        trainer = Trainer(program, rank, model, batches, options, transport, Recorder(rank, number % 4 == 0))
        if transport.groups_messages:
            with_side_stream(trainer)
        first = trainer.parameters()
        for _ in range(ITERATIONS):
            trainer.run_iteration()
        expected, losses = torch.load(f"{folder}/{number}")
        found = trainer.parameters()
        assert {layer for layer, _ in found} == set(program.ranks[rank].layers()), what
        for key, values in found.items():
            difference = (values - expected[key]).abs().max().item()
            assert difference <= TOLERANCE, f"{what}: rank {rank}: {key} differs by {difference}"
        moved = max((values - first[key]).abs().max().item() for key, values in found.items())
        assert moved > 100 * TOLERANCE, f"{what}: parameters have moved by {moved} only"
        if rank == 0:
            found_losses = [it.loss for it in trainer.take_reports()]
            assert len(found_losses) == len(losses) == ITERATIONS
            for loss, wanted in zip(found_losses, losses):
                assert abs(loss - wanted) <= TOLERANCE, f"{what}: loss {loss} instead of {wanted}"
        trainer.close()


def check_coverage(documents):
    """The random choices must not have left out a feature."""
    pairs = {(it["execution"]["schedule"], it["execution"]["gradient_sync"]) for it in documents}
    assert len(pairs) == len(SCHEDULES) * len(SYNCS), pairs
    counts = Counter()
    for it in documents:
        execution, model = it["execution"], it["model"]
        many = len(it["pipelines"]) > 1
        stages = {len(rank["chunks"]) for rank in it["ranks"]}
        depths = Counter(rank["pipeline"] for rank in it["ranks"])
        features = {
            "flush": "flush" in execution, "overlap": execution["overlap"] and many, "recompute": it["training"]["recompute"] == "full",
            **{name: any(0 < chunk.get(key, 0) < chunk["layers"][1] - chunk["layers"][0]
                         for rank in it["ranks"] for chunk in rank["chunks"]) for name, key in LAYERS_BY_STAGE.items()},
            "zero1": execution["optimizer_sharding"] == "zero1" and many, "blocking": execution["blocking_sends"],
            "chunks": stages != {1}, "depths": len(set(depths.values())) > 1,
            "micro-batches": len({row["micro_batches"] for row in it["pipelines"]}) > 1, "one pipeline": not many,
            "tied apart": bool(it["tied_groups"]), "tied mixed": 0 < len(it["tied_groups"]) < len(it["pipelines"]),
            "tied zero1": bool(it["tied_groups"]) and execution["optimizer_sharding"] == "zero1" and many,
            "zb recompute": execution["schedule"] == "zb-h1" and it["training"]["recompute"] == "full",
            "overlap zero1": execution["overlap"] and execution["optimizer_sharding"] == "zero1" and many,
            "shards": any(row["shards"] > 1 and row["chunks"] > 1 for row in it["collectives"]),
            "gated": model.get("gated", False), "rms": model.get("norm") == "rms", "rotary": model.get("positions") == "rotary",
            "grouped": "kv_heads" in model}
        counts.update(name for name, has in features.items() if has)
        missing = features.keys() - counts.keys()
    assert not missing, f"no program has {missing}"
    sizes = {len(it["ranks"]) for it in documents}
    assert sizes >= set(range(2, 9)), sizes
    return counts


def test():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    if count >= 60:
        print(dict(check_coverage(cases(seed, count))), flush=True)
    ranks.run_in_ranks(__file__, RANKS, [seed, count], LIMIT_S)
    print(f"{count + 1} programs train the same as one process")


if __name__ == "__main__":
    ranks.main(test, run_rank)
