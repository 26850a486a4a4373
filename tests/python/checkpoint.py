#!/usr/bin/env python3
"""Checkpoints per layer: what was written comes back; whatever is wrong with a file is found and named; a killed
writer leaves the last complete checkpoint; any plan resumes the checkpoint of any other.

usage: checkpoint.py
"""
import datetime
import json
import os
import random
import signal
import struct
import tempfile
import time
import traceback
from pathlib import Path

from ranks import error_of, free_port, require_torch

require_torch()

import torch

import torch.distributed as dist

from dtfm_runtime import checkpoint
from dtfm_runtime.checkpoint import LayerState
from dtfm_runtime.data import open_data
from dtfm_runtime.model import Transformer, transformer_model
from dtfm_runtime.program import parse_program
from dtfm_runtime.single import SingleTrainer
from dtfm_runtime.timeline import Recorder
from dtfm_runtime.training import Options, Trainer
from dtfm_runtime.transport import GlooTransport
from programs import make_program

checkpoint.SHARED_FOLDER_DELAY_S = 0.0
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where waiting for the disk takes no time


def state_of(value, size=6):
    """A layer whose numbers all say which one it is."""
    tensors = {"mlp.weight": torch.full((2, size), float(value)), "mlp.bias": torch.full((size,), float(value))}
    optimizer = {name: {"exp_avg": tensor / 2, "exp_avg_sq": tensor * 2} for name, tensor in tensors.items()}
    return LayerState(tensors, optimizer, steps=value)


def write(folder, step, layers=3, **meta):
    for layer in range(layers):
        checkpoint.write_layer(folder, step, layer, state_of(100 * step + layer))
    checkpoint.commit(folder, step, meta, layers)


def assert_same(left, right):
    assert left.steps == right.steps
    for ours, theirs in ((left.parameters, right.parameters), *((left.optimizer[name], right.optimizer[name]) for name in left.optimizer)):
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert ours[name].dtype == theirs[name].dtype and torch.equal(ours[name], theirs[name]), name
    assert left.optimizer.keys() == right.optimizer.keys()


def layer_path(folder, step, layer):
    return Path(folder) / f"step-{step:08}" / f"layer-{layer:05}.safetensors"


def every_type_and_shape_comes_back(folder):
    torch.manual_seed(0)
    values = {str(dtype): torch.randn(3, 4).mul(50).to(dtype) for dtype in checkpoint.NAME_OF_DTYPE}
    values |= {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 3), "transposed": torch.randn(3, 5).t()}
    state = LayerState(values, {"scalar": {"step": torch.tensor(7), "buffer": torch.tensor([1e-38, float("inf")])}}, 12)
    checkpoint.write_layer(folder, 5, 0, state)
    checkpoint.commit(folder, 5, {}, 1)
    assert_same(state, checkpoint.read_layer(folder, 5, 0))


def files_are_safetensors(folder):
    """The header's offsets are those that the format prescribes: contiguous, aligned, of the whole file."""
    write(folder, 1, layers=1)
    data = layer_path(folder, 1, 0).read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__")
    assert all(isinstance(value, str) for value in metadata.values()) and length % 8 == 0
    offsets = sorted(entry["data_offsets"] for entry in header.values())
    assert offsets[0][0] == 0 and offsets[-1][1] == len(data) - 8 - length
    assert all(before[1] == after[0] for before, after in zip(offsets, offsets[1:]))


def two_checkpoints_are_kept(folder):
    assert checkpoint.latest(folder) is None and checkpoint.latest(Path(folder) / "missing") is None
    checkpoint.write_layer(folder, 3, 0, state_of(0))  # of an attempt that was killed
    for step in (4, 8, 12):
        write(folder, step, samples=64 * step)
    assert sorted(os.listdir(folder)) == ["latest", "step-00000008", "step-00000012"]
    step, meta = checkpoint.latest(folder)
    assert (step, meta["samples"], meta["layers"]) == (12, 768, 3)
    assert_same(state_of(1201), checkpoint.read_layer(folder, 12, 1))
    assert_same(state_of(802), checkpoint.read_layer(folder, 8, 2))


def a_step_can_be_written_again(folder):
    """After resuming from an older checkpoint."""
    write(folder, 4)
    write(folder, 8, run=1)
    write(folder, 8, run=2)
    assert checkpoint.latest(folder)[1]["run"] == 2
    assert checkpoint.read_layer(folder, 4, 0).steps == 400


def what_is_not_complete_is_not_resumed(folder):
    write(folder, 4)
    checkpoint.write_layer(folder, 8, 0, state_of(0))
    assert "does not contain layer-00001.safetensors and 1 more: --checkpoint-dir must be a folder that all ranks share" in error_of(
        checkpoint.commit, folder, 8, {}, 3)
    assert checkpoint.latest(folder)[0] == 4
    # The pointer may be older than the newest complete folder, be missing, or be nonsense.
    for text in ("step-00000099", "../../etc", "\0" * 100, ""):
        (Path(folder) / "latest").write_text(text)
        assert checkpoint.latest(folder)[0] == 4
    (Path(folder) / "latest").unlink()
    assert checkpoint.latest(folder)[0] == 4


def damaged_files_are_named(folder):
    """Every truncation, every flipped bit."""
    write(folder, 4, layers=1)
    write(folder, 8, layers=1)
    path = layer_path(folder, 8, 0)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        text = error_of(checkpoint.read_layer, folder, 8, 0)
        assert text.startswith(f"{path}: is truncated") or "header" in text, text
        assert text.endswith(f"restore the file, or remove {path.parent} to resume from step 4"), text
    random_bits = random.Random(1)
    for position in range(len(data)):
        flipped = data[position] ^ 1 << random_bits.randrange(8)
        path.write_bytes(data[:position] + bytes([flipped]) + data[position + 1:])
        assert str(path) in error_of(checkpoint.read_layer, folder, 8, 0)
    path.write_bytes(data + b"x")
    assert "is too long" in error_of(checkpoint.read_layer, folder, 8, 0)
    path.unlink()
    assert f"{path}: No such file" in error_of(checkpoint.read_layer, folder, 8, 0)
    layer_path(folder, 4, 0).write_bytes(b"")
    assert "train from the start" in error_of(checkpoint.read_layer, folder, 4, 0)


def swapped_files_are_found(folder):
    write(folder, 4)
    paths = [layer_path(folder, 4, layer) for layer in (0, 1)]
    data = [path.read_bytes() for path in paths]
    for path, other in zip(paths, reversed(data)):
        path.write_bytes(other)
    assert "belongs to another layer or step" in error_of(checkpoint.read_layer, folder, 4, 0)


def headers_of_strangers_are_refused(folder):
    """None of them allocates what it says, or is executed."""
    write(folder, 4, layers=1)
    metadata = {"schema": checkpoint.SCHEMA, "step": "4", "layer": "0", "steps": "1", "checksum": "0"}

    def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
        return {"__metadata__": metadata, "parameter/a": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}

    headers = [
        entry(shape=(1 << 60,), offsets=(0, 1 << 62)), entry(shape=(1 << 40,), offsets=(0, 1 << 42)), entry(shape=(-1,), offsets=(4, 0)),
        entry(offsets=(-4, 0)), entry(offsets=(4, 8)), entry(shape=(1,) * 50), entry(shape=(1.0,)), entry(shape=(True,)), entry(dtype="F8"),
        entry(dtype=["F32"]), entry(offsets=(0,)), entry(offsets=(0, 3)), entry(),
        {"__metadata__": metadata, "../../a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
        {"__metadata__": {**metadata, "steps": 1}}, {"__metadata__": {**metadata, "steps": "-1"}}, {"__metadata__": []}, {}, [], 7, None,
        {"__metadata__": metadata, "parameter/a": None}, {"__metadata__": metadata, "parameter/a": {"dtype": "F32"}}]
    texts = [json.dumps(header).encode() for header in headers]
    texts += [b"[" * 100_000, b'{"a": ' + b"1" * 10_000 + b"}", b"\xff\xfe", b"\x80\x04cos\nsystem\n", b"NaN"]
    for text in texts:
        layer_path(folder, 4, 0).write_bytes(struct.pack("<Q", len(text)) + text + bytes(4))
        error_of(checkpoint.read_layer, folder, 4, 0)
    for length in (1 << 63, (1 << 64) - 1, checkpoint.MAX_HEADER_BYTES + 1):
        layer_path(folder, 4, 0).write_bytes(struct.pack("<Q", length) + bytes(100))
        assert "is not a layer of a checkpoint" in error_of(checkpoint.read_layer, folder, 4, 0)
    for text in ("", "[]", "{}", "[" * 100_000, '{"schema": "dtfm-checkpoint/1", "step": 5}', "x" * (checkpoint.MAX_META_BYTES + 1)):
        (Path(folder) / "step-00000004" / "meta.json").write_text(text)
        assert "meta.json is damaged" in error_of(checkpoint.latest, folder)


def another_model_is_explained(folder):
    model = {"layers": 3, "hidden": 16}
    write(folder, 4, model=model, seed=1)
    meta = checkpoint.latest(folder)[1]
    checkpoint.require_same(folder, meta, model=model, seed=1)
    text = error_of(checkpoint.require_same, folder, meta, model={"layers": 3, "hidden": 32, "heads": 4})
    assert f"the checkpoint in {folder} belongs to a different model: `heads` is absent in the checkpoint and 4 in this plan; use" in text, text
    assert "belongs to a different seed: 1 in the checkpoint and 2 in this plan" in error_of(checkpoint.require_same, folder, meta, seed=2)
    shapes = {name: tuple(tensor.shape) for name, tensor in state_of(0).parameters.items()}
    checkpoint.read_layer(folder, 4, 0, shapes)
    text = error_of(checkpoint.read_layer, folder, 4, 0, {**shapes, "mlp.weight": (2, 7)})
    assert "belongs to a different model: parameter `mlp.weight` is 2×6 in the checkpoint and 2×7 in this plan" in text, text
    assert "`gate` is absent in the checkpoint and a number in this plan" in error_of(checkpoint.read_layer, folder, 4, 0, {**shapes, "gate": ()})
    assert "has a checkpoint of step 4: add --resume" in error_of(checkpoint.require_empty, folder)


def folders_that_cannot_be_written_are_explained(folder):
    blocked = Path(folder) / "file"
    blocked.write_text("")
    assert "cannot write the checkpoint: Not a directory; earlier checkpoints are unchanged" in error_of(
        checkpoint.write_layer, blocked / "below", 1, 0, state_of(1))
    assert "cannot read the checkpoints" in error_of(checkpoint.latest, blocked)


def a_killed_writer_leaves_a_complete_checkpoint(folder):
    """The child writes checkpoint after checkpoint and is killed at random moments. What is resumed is complete, and
    never older than the one before."""
    moments = random.Random(2)
    write(folder, 1)
    last = 1
    for _ in range(40):
        child = os.fork()
        if child == 0:
            for step in range(last + 1, last + 1000):
                write(folder, step)
            os._exit(0)
        time.sleep(moments.uniform(0.001, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        step, _ = checkpoint.latest(folder)
        assert step >= last
        last = step
        for layer in range(3):
            assert_same(state_of(100 * step + layer), checkpoint.read_layer(folder, step, layer))
    assert last > 1
    write(folder, last + 1)
    assert len(os.listdir(folder)) == 3 and not list(Path(folder).glob("**/.*.tmp")), "killed writers have left files"


MODEL = {"kind": "transformer", "layers": 6, "hidden": 16, "heads": 4, "sequence": 8, "vocabulary": 32}
# The same global batch, cut in different ways.
PLANS = {
    "one process": dict(pipelines=[(12, [(0, 6)])]),
    "one pipeline": dict(pipelines=[(12, [(0, 1), (1, 3), (3, 4), (4, 6)])]),
    "replicas with zero1": dict(pipelines=[(3, [(0, 6)]), (1, [(0, 6)]), (4, [(0, 6)]), (4, [(0, 6)])], zero1=True),
    "different depths with zero1": dict(pipelines=[(2, [(0, 6)]), (10, [(0, 2), (2, 3), (3, 6)])], gradient_sync="sharded-ps", zero1=True,
                                        overlap=True),
    "interleaved": dict(pipelines=[(4, [(0, 1), (1, 3), (3, 4), (4, 6)]), (8, [(0, 2), (2, 3), (3, 5), (5, 6)])], schedule="interleaved", chunks=2,
                        gradient_sync="hierarchical", sites=["a", "a", "b", "b"]),
    "split backward": dict(pipelines=[(6, [(0, 4), (4, 6)]), (6, [(0, 3), (3, 6)])], schedule="zb-h1", gradient_sync="tree", recompute="full"),
}
TOLERANCE = 1e-5


def any_plan_resumes_any_other(folder):
    """Plans take turns, one iteration each, so that every ordered pair of them occurs. One process that never stops
    says what the parameters must be."""
    turns = walk_over_all_pairs(list(PLANS))
    children = []
    port = free_port()
    for rank in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            os._exit(run_turns(rank, turns, folder, port))
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * 4, codes


def walk_over_all_pairs(names):
    """A closed walk with every ordered pair once (Hierholzer)."""
    left = {name: [other for other in names if other != name] for name in names}
    path, walk = [names[0]], []
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            walk.append(path.pop())
    assert len(walk) == len(names) * (len(names) - 1) + 1
    return walk


def run_turns(rank, turns, folder, port):
    try:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        store = dist.TCPStore("127.0.0.1", port, 4, rank == 0, timeout=datetime.timedelta(seconds=60), wait_for_workers=False)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=4)
        reference = made_trainer(SingleTrainer, "one process", 0)
        for step, name in enumerate(turns):
            reference.run_iteration()
            run_turn(rank, name, step, folder, reference.parameters())
            dist.barrier()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def run_turn(rank, name, step, folder, expected):
    if name == "one process":
        trainer = made_trainer(SingleTrainer, name, step) if rank == 0 else None
    else:
        trainer = made_trainer(Trainer, name, step, rank, GlooTransport(rank), Recorder(rank, False))
    if trainer is None:
        return
    found = checkpoint.latest(folder)
    if found:
        assert found[0] == step
        trainer.load(folder, *found)
    trainer.run_iteration()
    trainer.take_reports()
    for key, values in trainer.parameters().items():
        assert torch.allclose(values, expected[key], rtol=0, atol=TOLERANCE), (name, step, key, (values - expected[key]).abs().max())
    trainer.save(folder, {})
    trainer.close()


def made_trainer(kind, name, first_step, rank=None, *arguments, steps=None, optimizer="adamw"):
    pipelines, options = PLANS[name]["pipelines"], {key: value for key, value in PLANS[name].items() if key != "pipelines"}
    program = parse_program(make_program(MODEL, pipelines, **options))
    model = transformer_model(Transformer.read(MODEL))
    # With the default epsilon, Adam would amplify gradients that are rounding errors.
    settings = Options(optimizer, epsilon=1e-6, seed=3, first_step=first_step, steps=steps or first_step + 1)
    place = () if rank is None else (rank,)
    return kind(program, *place, model, open_data("synthetic", model, 5), settings, *arguments)


def another_optimizer_starts_anew(folder):
    """AdamW after SGD: its first steps are corrected for the bias of moments that are zero, in every trainer, and a checkpoint
    of them says so."""
    trainer = made_trainer(SingleTrainer, "one process", 0, steps=3, optimizer="sgd")
    for _ in range(3):
        trainer.run_iteration()
    trainer.save(folder, {})
    fresh = {"single": made_trainer(SingleTrainer, "one process", 3),
             "program": made_trainer(Trainer, "one process", 3, 0, None, Recorder(0, False))}
    # The expected parameters: the same process goes on with a new AdamW.
    trainer.optimizer = torch.optim.AdamW(trainer.masters, lr=1e-3, eps=1e-6, weight_decay=0.01)
    trainer.run_iteration()
    for name, it in fresh.items():
        it.load(folder, 3, {})
        it.run_iteration()
        for key, values in it.parameters().items():
            assert torch.allclose(values, trainer.parameters()[key], rtol=0, atol=TOLERANCE), (name, key)
        it.save(os.path.join(folder, name), {})
        assert {checkpoint.read_layer(os.path.join(folder, name), 4, layer).steps for layer in range(6)} == {1}, name


TESTS = (any_plan_resumes_any_other, another_optimizer_starts_anew, every_type_and_shape_comes_back, files_are_safetensors,
         two_checkpoints_are_kept, a_step_can_be_written_again,
         what_is_not_complete_is_not_resumed, damaged_files_are_named, swapped_files_are_found, headers_of_strangers_are_refused,
         another_model_is_explained, folders_that_cannot_be_written_are_explained, a_killed_writer_leaves_a_complete_checkpoint)

if __name__ == "__main__":
    torch.set_num_threads(1)
    for test in TESTS:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(dir=IN_MEMORY) as scratch:
            test(scratch)
        print(f"{test.__name__.replace('_', ' ')}: {time.monotonic() - begin:.1f} s")
