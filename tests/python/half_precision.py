#!/usr/bin/env python3
"""16-bit training as on a GPU, here in bf16 on a CPU: copies in fp32, sums in 16 or 32 bits, ZeRO-1, and loss scaling.

usage: half_precision.py
"""
import ranks
from programs import make_program

RANKS = 4
# Gradients have 8 bits. Their sums are rounded differently in one process, by a few units in the last place.
TOLERANCE = 0.05


def programs():
    model = {"kind": "transformer", "layers": 4, "hidden": 16, "heads": 4, "sequence": 8, "vocabulary": 32}
    pipelines = [(3, [(0, 2), (2, 4)]), (2, [(0, 3), (3, 4)])]
    for optimizer, sync, schedule, zero1 in (("sgd-8", "ring", "1f1b", True), ("sgd-12", "sharded-ps", "zb-h1", True),
                                             ("sgd-12", "tree", "gpipe", False), ("sgd-8", "hierarchical", "zb-h1", False)):
        yield make_program(model, pipelines, schedule, sync, precision="bf16", optimizer=optimizer, zero1=zero1, sites=["a", "a", "b", "b"],
                           recompute="full" if schedule == "gpipe" else "none", micro_batch=2)


def make_trainers(document, rank, steps=3):
    from dtfm_runtime.data import open_data
    from dtfm_runtime.model import Transformer, transformer_model
    from dtfm_runtime.program import parse_program
    from dtfm_runtime.single import SingleTrainer
    from dtfm_runtime.timeline import Recorder
    from dtfm_runtime.training import Options, Trainer
    from dtfm_runtime.transport import GlooTransport
    program, model = parse_program(document), transformer_model(Transformer.read(document["model"]))
    batches, options = open_data("synthetic", model, 5), Options("sgd", lr=0.5, weight_decay=0.0, seed=3, steps=steps)
    return (SingleTrainer(program, model, batches, options),
            Trainer(program, rank, model, batches, options, GlooTransport(rank), Recorder(rank, False)))


def run_rank(rank, folder):
    import torch
    import torch.distributed as dist
    from dtfm_runtime import checkpoint, single, training
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    training.compute_type = single.compute_type = lambda precision, device: torch.bfloat16
    for number, document in enumerate(programs()):
        reference, trainer = make_trainers(document, rank)
        first = reference.parameters()
        for _ in range(3):
            reference.run_iteration()
            trainer.run_iteration()
        expected, found = reference.parameters(), trainer.parameters()
        assert all(values.dtype == torch.bfloat16 for values in found.values())
        moved = max((expected[key].float() - first[key].float()).abs().max().item() for key in found)
        differs = max((expected[key].float() - found[key].float()).abs().max().item() for key in found)
        assert moved > 1e-3 and differs <= TOLERANCE * moved, (number, differs, moved)
        check_checkpoint(trainer, rank, f"{folder}/{number}", checkpoint, torch)
        trainer.close()
    check_overflow(rank, torch)


def check_checkpoint(trainer, rank, folder, checkpoint, torch):
    """Checkpoints have the copies in fp32, which give the same parameters."""
    trainer.save(folder, {"model": {}})
    step, meta = checkpoint.latest(folder)
    state = checkpoint.read_layer(folder, step, 0)
    assert all(values.dtype == torch.float32 for values in state.parameters.values())
    before = trainer.parameters()
    for bucket in trainer.buckets:
        bucket.parameters.flat.zero_()
        bucket.parameters.master.zero_()
    trainer.load(folder, step, meta)
    assert all(torch.equal(values, before[key]) for key, values in trainer.parameters().items()), rank
    masters = [bucket.parameters.master.clone() for bucket in trainer.buckets]
    trainer.load(folder, step, meta)
    assert all(torch.equal(bucket.parameters.master, master) for bucket, master in zip(trainer.buckets, masters))


def check_overflow(rank, torch):
    """If the gradients of one rank overflow, no rank updates, and the scale is halved; a scale of a power of two changes
    nothing else."""
    document = next(programs())
    _, plain = make_trainers(document, rank, 1)
    plain.run_iteration()
    plain.close()
    _, scaled = make_trainers(document, rank, 2)
    scaled.scale.enabled, scaled.scale.value = True, 2.0 ** 16
    scaled.run_iteration()
    assert scaled.scale.value == 2.0 ** 16
    assert all(torch.equal(values, plain.parameters()[key]) for key, values in scaled.parameters().items())
    before = scaled.parameters()
    if rank == 3:
        original = scaled._synchronize

        def overflow(bucket):
            original(bucket)
            bucket.parameters.gradients[bucket.parameters.owned[0]] = float("inf")

        scaled._synchronize = overflow
    scaled.run_iteration()
    assert scaled.scale.value == 2.0 ** 15
    assert all(torch.equal(values, before[key]) for key, values in scaled.parameters().items())
    scaled.close()


def test_loss_scale():
    from dtfm_runtime.optimizer import LossScale
    scale = LossScale(True, patience=3)
    assert scale.value == 2.0 ** 16
    scale.after(True)
    assert scale.value == 2.0 ** 15
    for _ in range(3):
        scale.after(False)
    assert scale.value == 2.0 ** 16
    fixed = LossScale(False)
    fixed.after(True)
    assert fixed.value == 1.0


def test():
    test_loss_scale()
    ranks.run_in_ranks(__file__, RANKS, [], 200)
    print("ok")


if __name__ == "__main__":
    ranks.main(test, run_rank)
