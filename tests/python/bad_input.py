#!/usr/bin/env python3
"""Every error is one line that says what to do, with exit code 2, within the time limit.

usage: bad_input.py
"""
import copy
import json
import os
import random
import shutil
import tempfile
import time
import tracemalloc
from pathlib import Path

import ranks
from programs import make_program

MODEL = {"kind": "transformer", "layers": 2, "hidden": 16, "heads": 2, "sequence": 8, "vocabulary": 32}
BAD_INPUT = 2


def write_program(folder, document, name="program.json"):
    path = Path(folder) / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def two_ranks(**changes):
    return make_program({**MODEL, **changes.pop("model", {})}, [(2, [(0, 1), (1, 2)])], **changes)


def two_replicas():
    return make_program(MODEL, [(2, [(0, 2)])] * 2)


def check_error(result, *texts):
    code, _, errors = result
    lines = errors.strip().splitlines()
    assert code == BAD_INPUT and len(lines) == 1, (code, errors)
    for text in texts:
        assert text in lines[0], (text, lines[0])


def test_start(folder):
    """Environment, network and installation."""
    program = write_program(folder, two_ranks())
    run = lambda *arguments, **variables: ranks.train_forked("--program", program, "--device", "cpu", *arguments, **variables)
    at = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": ranks.free_port()}
    check_error(run(), "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT must be set", "--single")
    check_error(run(RANK=0, WORLD_SIZE=3, **at), "WORLD_SIZE is 3, but the plan has 2 ranks: start 2 processes")
    check_error(run(RANK=2, WORLD_SIZE=2, **at), "RANK is '2'", "from 0 to 1")
    check_error(run(RANK="x", WORLD_SIZE=2, **at), "RANK is 'x'")
    check_error(run(RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=99999), "MASTER_PORT is '99999'")
    start = time.monotonic()
    check_error(run("--timeout", 2, RANK=1, WORLD_SIZE=2, **at), "cannot reach rank 0 at 127.0.0.1", "check MASTER_ADDR")
    check_error(run("--timeout", 2, RANK=0, WORLD_SIZE=2, **at), "rank 1", "did not connect", "start all ranks")
    assert time.monotonic() - start < 30
    check_error(run("--timeout", 2, RANK=1, WORLD_SIZE=2, MASTER_ADDR="nowhere.invalid", MASTER_PORT=29500), "cannot reach rank 0 at nowhere.invalid")
    stub = Path(folder) / "stub" / "torch"
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text("raise ImportError('No module named torch')\n", encoding="utf-8")
    fresh = lambda: ranks.train("--program", program, "--single", PYTHONPATH=stub.parent)
    check_error(fresh(), "PyTorch cannot be imported", "install PyTorch 1.13 or later")
    (stub / "__init__.py").write_text("__version__ = '1.9.0'\n", encoding="utf-8")
    check_error(fresh(), "PyTorch 1.9.0 is too old")
    if not os.path.exists("/dev/nvidia0"):
        check_error(run("--single", "--device", "cuda"), "--device cuda requires a GPU", "--device cpu")


def test_ranks_disagree(folder):
    program = write_program(folder, two_ranks(model={"vocabulary": 256}))
    for rank in range(2):  # of one name and different sizes
        (Path(folder) / str(rank)).mkdir()
        (Path(folder) / str(rank) / "data.txt").write_text("text of some length" * (rank + 1), encoding="utf-8")
    for each, message in (
            (lambda rank: ("--lr", 0.1 * (rank + 1)), "--lr differs: 0.1 on rank 0, 0.2 on rank 1"),
            (lambda rank: ("--trace", Path(folder) / "trace") * rank, "--trace differs: not given on rank 0, given on rank 1"),
            (lambda rank: ("--checkpoint-dir", Path(folder) / "checkpoints") * (1 - rank), "--checkpoint-dir differs"),
            (lambda rank: ("--data", Path(folder) / str(rank) / "data.txt"), "--data differs: data.txt of 19 bytes on rank 0")):
        results = ranks.train_ranks(2, "--program", program, "--device", "cpu", "--steps", 2, each=each)
        check_error(next(it for it in results if it[0] == BAD_INPUT), message)
        assert all(code != 0 for code, _, _ in results), results


def test_resuming_with_other_options(folder):
    program = write_program(folder, two_ranks(model={"vocabulary": 256}))
    run = lambda *arguments: ranks.train("--program", program, "--single", "--device", "cpu", "--checkpoint-dir", Path(folder) / "kept", *arguments)
    assert run("--steps", 1, "--optimizer", "adamw")[0] == 0
    code, same, errors = run("--steps", 2, "--resume", "--optimizer", "adamw")
    assert code == 0 and "note:" not in same, (same, errors)
    code, other, errors = run("--steps", 3, "--resume", "--optimizer", "sgd", "--seed", 2)
    for text in ("note: the optimizer is sgd, but the checkpoint was written with adamw: its state starts anew",
                 "note: the seed is 2, but the checkpoint was written with 1: samples come in a different order"):
        assert code == 0 and text in other, (other, errors)


def test_memory(folder):
    """Of CPUs, whose errors are not those of GPUs. The second error is that of PyTorch's allocator."""
    program = write_program(folder, make_program(MODEL, [(2, [(0, 2)])]))
    (Path(folder) / "large.py").write_text(
        "import torch\n"
        "class Large(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        raise MemoryError\n"
        "class Huge(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return torch.empty(1 << 58)\n"
        "def model(layer):\n"
        "    from dtfm_runtime.model import LayerInput, Model\n"
        "    batch = lambda samples: (torch.ones(1, 2), torch.ones(1).long())\n"
        "    return Model([lambda **_: layer(2, 2)] * 2, [LayerInput((2,))] * 2, batch=batch)\n"
        "def raises(): return model(Large)\n"
        "def allocates(): return model(Huge)\n", encoding="utf-8")
    for name in ("raises", "allocates"):
        run = lambda *arguments: ranks.train_forked("--program", program, "--device", "cpu", "--model", f"large:{name}", *arguments,
                                                    PYTHONPATH=folder)
        check_error(run("--single"), "train.py: out of memory: use a smaller model")
        check_error(run(), "rank 0 (here:0 at 10.0.0.0) failed: out of memory: plan with recompute full or more devices")


def test_arguments(folder):
    program = write_program(folder, two_ranks())
    common = ("--program", program, "--single", "--device", "cpu", "--steps", 1)
    run = lambda *arguments, **variables: ranks.train_forked(*common, *arguments, **variables)
    for arguments, text in ((("--resume",), "--resume requires --checkpoint-dir"),
                            (("--precision", "bf16"), "--precision requires --profile"),
                            (("--log", program), "would overwrite another file of this run"),
                            (("--log", "same", "--trace", "same"), "--trace same would overwrite another file of this run"),
                            (("--steps", "-1"), "must be from 0 to 1000000000"),
                            (("--lr", "0"), "must be above 0"), (("--nonsense",), "unrecognized arguments"),
                            (("--emulate-compute", "x"), "--single cannot be combined"),
                            (("--profile", "p.json", "--precision", "bf16"), "--precision requires --shape"),
                            (("--threads", 100_000_000), "--threads: must be from 1 to "), (("--seed", "x"), "--seed: 'x' is not a whole number"),
                            (("--lr", "x"), "--lr: 'x' is not a number"), (("--lr", "1e300"), "must be above 0 and at most 1000000"),
                            (("--weight-decay", "nan"), "must be from 0 to 1000000"), (("--timeout", "inf"), "must be from 1 to "),
                            (("--timeout", "1e-9"), "must be from 1 to "), (("--checkpoint-every", 10**10), "must be from 1 to "),
                            (("--micro-batches", "1,2,"), "'' is not a whole number"), (("--micro-batches", 10**7), "must be from 1 to "),
                            (("--micro-batches", ",".join(map(str, range(1, 80)))), "must have at most 64 sizes")):
        check_error(run(*((arguments,) if isinstance(arguments, str) else arguments)), text)
    check_error(run(LOCAL_RANK="x"), "LOCAL_RANK is 'x': it must be a whole number")
    check_error(run("--data", Path(folder) / "missing.txt"), "cannot read --data", "missing.txt")
    (Path(folder) / "short.txt").write_text("short", encoding="utf-8")
    check_error(run("--data", Path(folder) / "short.txt"), "can contain 256 different byte values, but model.vocabulary is 32")
    check_error(run("--data", "/dev/null"), "--data /dev/null is not a regular file")
    check_error(run("--model", "nothing"), "--model must be module:function")
    check_error(run("--model", "no_such_module:f"), "--model no_such_module:f cannot be loaded")
    (Path(folder) / "mine.py").write_text("import torch\ndef f(): return [(torch.nn.Linear(2, 2), (2,), None)]\n"
                                          "def g(): return [3, 4]\n"
                                          "def h(): return [(torch.nn.BatchNorm1d(2), (2,), None), (torch.nn.Linear(2, 2), (2,), None)]\n",
                                          encoding="utf-8")
    check_error(run("--model", "mine:f", PYTHONPATH=folder), "has 1 layers, but the plan has 2: make a plan")
    check_error(run("--model", "mine:g", PYTHONPATH=folder), "layer 0 must be (module, input shape, input dtype)")
    check_error(run("--model", "mine:h", PYTHONPATH=folder), "--model has no training data", "`batch`")
    for option in ("--log", "--trace"):
        path = Path(folder) / "no" / "file"
        check_error(run(option, path), f"{option} {path} cannot be written: name a file in another folder")
        check_error(run(option, folder), f"{option} {folder} is a folder: name a file")
    one_rank = write_program(folder, make_program(MODEL, [(2, [(0, 2)])]), "one.json")
    result = ranks.train_forked("--program", one_rank, "--device", "cpu", "--trace", Path(folder) / "no" / "file")
    check_error(result, "cannot be written")
    assert "iteration" not in result[1], "noticed after training"
    large = write_program(folder, two_ranks(model={"vocabulary": 256}), "large.json")
    check_error(ranks.train_forked("--program", large, "--single", "--data", Path(folder) / "short.txt"), "has 5 bytes, fewer than a sequence of 9")
    check_error(ranks.train_forked("--program", Path(folder) / "none.json", "--single"), "cannot read", "--program")
    offload = write_program(folder, two_ranks(optimizer="host-offload"), "offload.json")
    check_error(ranks.train_forked("--program", offload, "--single"), "host-offload", "choose one with --optimizer")
    check_error(ranks.train_forked("--profile", Path(folder) / "p.json", "--shape", "nonsense"), "--shape must be a JSON object")
    check_error(ranks.train_forked("--profile", Path(folder) / "p.json", "--shape", '{"layers": 2}'), "model.hidden must be a whole number")
    shape = lambda **sizes: ("--profile", Path(folder) / "p.json", "--device", "cpu", "--shape", json.dumps({**MODEL, **sizes}))
    check_error(ranks.train_forked(*shape(hidden=10**9)), "measuring `embedding`", "GB of memory, but this machine has")
    check_error(ranks.train_forked(*shape(sequence=10**6)), "measuring `block`", "smaller --micro-batches")
    check_error(ranks.train_forked(*shape(hidden=4096, vocabulary=10**6), "--micro-batches", "1,1000000"), "measuring `", "micro-batches of 1000000")
    check_error(ranks.train_forked(*shape(layers=10**9)), "model.layers must be a whole number from 1 to 100000, not 1000000000")
    huge = write_program(folder, two_ranks(model={"hidden": 10**6}), "huge.json")
    check_error(ranks.train_forked("--program", huge, "--single", "--device", "cpu"), "training 2 layers of this model needs at least")


OWN_MODELS = """
import torch
from dtfm_runtime.model import LayerInput, Model

class Layer(torch.nn.Linear):
    def __init__(self, change=None):
        super().__init__(2, 2)
        self.change = change
    def forward(self, x):
        y = super().forward(x)
        return self.change(y) if self.change else y

class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        raise KeyError("boom")

def model(first=Layer, last=Layer, batch=None, **options):
    samples = lambda numbers: (torch.ones(len(numbers), 2), torch.ones(len(numbers)).long())
    return lambda: Model([lambda **_: first(), lambda **_: last()], [LayerInput((2,))] * 2, batch=batch or samples, **options)

def fail(*_):
    raise ValueError("boom")

none = model(lambda: Layer(lambda y: None))
wide = model(lambda: Layer(lambda y: torch.cat((y, y), 1)))
raises = model(last=lambda: Layer(fail))
backward = model(lambda: Layer(Backward.apply))
detached = model(lambda: Layer(torch.Tensor.detach))
made = model(last=lambda: None)
making = model(last=fail)
loss = model(loss=lambda output, targets: None)
targets = model(batch=lambda numbers: (torch.ones(len(numbers), 2), torch.full((len(numbers),), 9)))
losses = model(loss=lambda output, targets: output)
constant = model(last=lambda: Layer(lambda y: torch.ones_like(y).requires_grad_()))
no_batch = model(batch=lambda numbers: None)
narrow = model(batch=lambda numbers: (torch.ones(len(numbers), 1), torch.ones(len(numbers)).long()))
failing_batch = model(batch=fail)
nan = model(loss=lambda output, targets: output.sum() * float("nan"))
def failing(): fail()
"""


def test_own_models(folder):
    """A wrong return value is reported in one line. An exception prints a traceback, then a line that names the layer."""
    (Path(folder) / "own.py").write_text(OWN_MODELS, encoding="utf-8")
    program = write_program(folder, make_program(MODEL, [(2, [(0, 2)])]))
    run = lambda name, *arguments: ranks.train_forked("--program", program, "--device", "cpu", "--model", f"own:{name}", "--steps", 2,
                                                      *arguments, PYTHONPATH=folder)
    for name, message in (("none", "layer 0 returned NoneType: it must return a tensor"),
                          ("wide", "layer 0 returned shape (1, 4), but the next layer expects (1, 2): correct the layer, or the input"),
                          ("made", "the function for layer 1 returned NoneType: it must return a torch.nn.Module"),
                          ("loss", "the loss function returned NoneType: it must return a tensor"),
                          ("losses", "the loss function returned shape (1, 2): it must return one number"),
                          ("no_batch", "`batch` of --model returned NoneType: it must return two tensors, (inputs, targets)"),
                          ("narrow", "`batch` of --model returned inputs of shape (1, 1) instead of (1, 2)"),
                          ("nan", "the loss of iteration 0 is nan: resume from the last checkpoint with a lower --lr")):
        for arguments in ((), ("--single",)):
            check_error(run(name, *arguments), f"train.py: {message}")
    check_error(run("constant"), "train.py: layer 1 passes no gradient to its input")
    half = write_program(folder, make_program(MODEL, [(2, [(0, 2)])], precision="fp16"), "half.json")
    check_error(run("nan", "--program", half), "the loss of iteration 0 is nan")  # CPUs compute in fp32
    for name, message, single in (("raises", "layer 1, forward pass: ValueError: boom", None),
                                  ("backward", "layer 0, backward pass: KeyError: 'boom'", "the backward pass: KeyError: 'boom'"),
                                  ("detached", "layer 0, backward pass: RuntimeError: element 0 of tensors does not require grad", ""),
                                  ("making", "building layer 1: ValueError: boom", None),
                                  ("targets", "the loss: IndexError: Target 9 is out of bounds", None),
                                  ("failing_batch", "`batch` of --model: ValueError: boom", None)):
        code, _, errors = run(name)
        lines = errors.strip().splitlines()
        assert code == 1 and "Traceback" in lines[0], (name, code, errors)
        assert lines[-1].startswith(f"train.py: rank 0 (here:0 at 10.0.0.0) failed: {message}"), (name, errors)
        if single != "":
            code, _, errors = run(name, "--single")
            assert code == 1 and errors.strip().splitlines()[-1].startswith(f"train.py: {single or message}"), (name, code, errors)
    for arguments in ((), ("--single",)):
        code, _, errors = run("failing", *arguments)
        assert code == 1 and errors.strip().splitlines()[-1] == "train.py: --model own:failing: ValueError: boom", errors
    two = write_program(folder, two_ranks(), "two.json")
    results = ranks.train_ranks(2, "--program", two, "--device", "cpu", "--model", "own:raises", PYTHONPATH=folder)
    who = "rank 1 (here:1 at 10.0.0.1)"
    assert results[0][0] == 3 and results[0][2].strip() == f"train.py: {who} failed: layer 1, forward pass: ValueError: boom", results


def test_torchrun(folder):
    """Ranks use the store of torchrun's agent, which listens on MASTER_PORT, also after a restart."""
    from torch import distributed
    port = ranks.free_port()
    agent = distributed.TCPStore("127.0.0.1", port, None, True, wait_for_workers=False)
    program = write_program(folder, two_ranks())
    for attempt in range(2):  # the second one restarts ranks with the same store
        results = ranks.train_ranks(2, "--program", program, "--device", "cpu", "--steps", 1, "--seed", attempt, port=port,
                                    TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT=attempt)
        assert all(code == 0 for code, _, _ in results), results
    del agent


def test_checkpoints(folder):
    program = write_program(folder, two_ranks())
    kept = Path(folder) / "checkpoints"
    run = lambda program, *arguments: ranks.train_forked("--program", program, "--single", "--device", "cpu", "--checkpoint-dir", kept, *arguments)
    code, _, errors = run(program, "--steps", 1)
    assert code == 0, errors
    check_error(run(program, "--steps", 2), "has a checkpoint of step 1: add --resume")
    other = write_program(folder, two_ranks(model={"hidden": 32}), "other.json")
    check_error(run(other, "--steps", 2, "--resume"), "belongs to a different model", "64 in the checkpoint and 128 in this plan")
    layer = next(it for it in sorted(kept.rglob("*layer*")) if it.is_file())
    layer.write_bytes(layer.read_bytes()[:-100])
    check_error(run(program, "--steps", 2, "--resume"), layer.name, "is truncated")
    shutil.rmtree(kept)


def places(value, path=()):
    """The paths of all values in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def replaced(document, path, value):
    result = copy.deepcopy(document)
    if not path:
        return value
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    if value is KeyError:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return result


def test_programs():
    """A program with any value replaced is accepted or refused in one line, and nothing else happens."""
    from dtfm_runtime.errors import UserError
    from dtfm_runtime.model import Transformer
    from dtfm_runtime.program import parse_program
    random_ = random.Random(1)
    document = make_program({**MODEL, "layers": 4}, [(2, [(0, 1), (1, 2), (2, 3), (3, 4)]), (4, [(0, 1), (1, 2), (2, 3), (3, 4)])],
                            "interleaved", "hierarchical", chunks=2, sites=["a", "a", "b", "b"])
    parse_program(document)
    refused = 0
    for path in list(places(document)):
        for value in (None, -1, 0, 1, 7, 10**12, 1.5, True, "", "F0 B0", "x\ny" * 3, [], {}, [[]], [None], {"a": 1}, KeyError):
            if value is KeyError and not path:
                continue
            try:
                changed = replaced(document, path, value)
                Transformer.read(parse_program(changed).model)
            except UserError as error:
                refused += 1
                assert "\n" not in str(error) and len(str(error)) < 400, str(error)
    assert refused > 500, refused
    for words in ("B0 F0 F1 B1", "F0 F1 B0", "F0 F0 B0 B1", "F0 F1 B0 B2", "F0 F1 B0 B1 W0", "F0 F1 B0 b1", "F0 F1 B0 B1/1", "F0 F1 B0 B99999999999"):
        broken = two_ranks()
        broken["orders"][0] = words
        expect_refusal(parse_program, broken, UserError, "program.json: ")
    for steps in ("0+ >1:0", "0+ >1:0, 0= <1:0", "0+ >1:0.0 <1:0.2", "0+ >1:0 <1:1", "0+ >2:0 <2:0", "0+ >0:0 <0:0", "0 >1:0", "+"):
        broken = two_replicas()
        broken["collectives"][0]["steps"][0] = steps
        expect_refusal(parse_program, broken, UserError, "program.json: collectives[0]")
    broken = two_replicas()
    del broken["sync_groups"][0]["all_reduce"]
    expect_refusal(parse_program, broken, UserError, "sync_groups[0].all_reduce is missing")
    deadlock = two_ranks()
    deadlock["orders"] = ["F0 B0 F1 B1", "F1 B1 F0 B0"]
    for rank, order in zip(deadlock["ranks"], (0, 1)):
        rank["order"] = order
    expect_refusal(parse_program, deadlock, UserError, "deadlocked")
    for _ in range(300):
        text = bytearray(json.dumps(document), "utf-8")
        for _ in range(random_.randint(1, 4)):
            text[random_.randrange(len(text))] = random_.randrange(256)
        try:
            parse_program(json.loads(bytes(text)))
        except (UserError, ValueError, RecursionError):
            pass


def test_sequence():
    """It is read with --model, too."""
    from dtfm_runtime.errors import UserError
    from dtfm_runtime.program import parse_program
    document = two_ranks()
    document["model"] = {"kind": "layers", "layers": [{"name": "a"}, {"name": "b"}]}
    assert parse_program(document).sequence == 1
    for value in (None, 1, 128):
        document["model"]["sequence"] = value
        assert parse_program(document).sequence == (value or 1)
    for value in ("8", 0, -1, 1.5, True, [], 10**12, 10**400):
        document["model"]["sequence"] = value
        expect_refusal(parse_program, document, UserError, "model.sequence must be a whole number from 1 to 1000000000")


def test_modules_that_are_not_built():
    """Models of other modules than those of plain transformers need layers of the user's own."""
    from dtfm_runtime.errors import UserError
    from dtfm_runtime.model import Transformer
    Transformer.read(MODEL)
    experts = {"count": 4, "per_token": 2, "width": 8}
    Transformer.read({**MODEL, "experts": {**experts, "shared_width": 0, "biases": False}})
    for changed, message in (({"shared_gate": True}, "experts.shared_gate describes modules that are not built here"),
                             ({"count": 0}, "experts.count must be a whole number from 1 to 1000000000, not 0"),
                             ({"shared_width": -1}, "experts.shared_width must be a whole number from 0 to 1000000000, not -1"),
                             ({"per_token": 5}, "experts.per_token must be at most model.experts.count, 4, not 5")):
        expect_refusal(Transformer.read, {**MODEL, "experts": {**experts, **changed}}, UserError, f"model.{message}")
    expect_refusal(Transformer.read, {**MODEL, "experts": [1]}, UserError, "model.experts must be an object, not [1]")
    for key, value in (("blocks", [{"mlp": "dense"}]), ("predicted_tokens", 1),
                       ("norms", 4), ("final_norm", False), ("biases", ["qkv"]), ("qk_norm", "all-heads")):
        expect_refusal(Transformer.read, {**MODEL, key: value}, UserError,
                       f"model.{key} describes modules that are not built here: give the layers of the model with --model")


def test_memory_of_programs():
    """Checking a program takes memory in proportion to the file, not to the numbers in it."""
    from dtfm_runtime.errors import UserError
    from dtfm_runtime.program import parse_program
    most = 100_000
    whole = {"layers": [0, most], "input_from": None, "output_to": None}
    large = lambda count=1: make_program({**MODEL, "layers": most}, [(2, [(0, 1), (1, most)])] * count)
    repeated = large()
    repeated["ranks"][0]["chunks"] = [whole] * 2000
    twice = large()
    for rank in twice["ranks"]:
        rank["chunks"] = [whole]
    many = large()
    many["pipelines"] = [{"micro_batches": 1, "first_micro_batch": i} for i in range(2000)]
    many["training"]["global_batch"] = 2000
    many["ranks"] = [{**many["ranks"][0], "pipeline": i, "chunks": [whole]} for i in range(2000)]
    groups = large(2)
    groups["sync_groups"] *= 2000
    for document, text in ((repeated, "ranks[0] has more layers than the model, which has 100000"),
                           (twice, "two stages of pipeline 0 have layer 0"),
                           (many, "the pipelines have more than 5000000 layers together"), (groups, "two sync_groups have layer 1")):
        tracemalloc.start()
        begin = time.monotonic()
        expect_refusal(parse_program, document, UserError, text)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100 << 20 and time.monotonic() - begin < 30, (text, peak, time.monotonic() - begin)


def test_numbers_of_400_digits(folder):
    from dtfm_runtime.model import Transformer, transformer_model
    from dtfm_runtime.profile import SCHEMA, Emulation
    from dtfm_runtime.runs import read_log
    row = {"kind": "block", "micro_batch": 1, "forward_s": 1, "backward_s": 1}
    for key in ("micro_batch", "forward_s", "backward_s", "update_s"):
        path = write_program(folder, {"schema": SCHEMA, "layers": [{**row, key: 10**400}]}, "profile.json")
        assert "is not a profile" in ranks.error_of(Emulation, path, transformer_model(Transformer.read(MODEL)))
    path = write_program(folder, json.dumps({"seconds": 10**400}) + "\n", "log")
    assert ":1: not an iteration of train.py --log" in ranks.error_of(read_log, path)


def expect_refusal(parse, document, error_type, text):
    try:
        parse(document)
    except error_type as error:
        assert text in str(error), (text, str(error))
    else:
        raise AssertionError(f"accepted, without an error that {text}")


def test_unreadable_programs(folder):
    for text in ("", "{", "[]", "null", "[" * 100_000, "\0" * 10, '{"schema": "dtfm-program/3"}'):
        path = write_program(folder, text, "broken.json")
        from dtfm_runtime.errors import UserError
        from dtfm_runtime.program import read_program
        try:
            read_program(str(path))
        except UserError as error:
            assert "\n" not in str(error), error
        else:
            raise AssertionError(text)


def test():
    test_programs()
    test_sequence()
    test_modules_that_are_not_built()
    test_memory_of_programs()
    for run in (test_unreadable_programs, test_numbers_of_400_digits, test_memory, test_start,
                test_ranks_disagree, test_arguments, test_own_models, test_torchrun, test_checkpoints):
        with tempfile.TemporaryDirectory() as folder:
            run(folder)
    print("ok")


if __name__ == "__main__":
    ranks.main(test)
