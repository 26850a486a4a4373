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
    program = write_program(folder, two_ranks())
    results = ranks.train_ranks(2, "--program", program, "--device", "cpu", "--steps", 2, each=lambda rank: ("--lr", 0.1 * (rank + 1)))
    check_error(next(it for it in results if it[0] == BAD_INPUT), "program.json or the options differ between rank 0 and rank 1")
    assert all(code != 0 for code, _, _ in results), results


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
    check_error(run("--model", "nothing"), "--model must be module:function")
    check_error(run("--model", "no_such_module:f"), "--model no_such_module:f cannot be loaded")
    (Path(folder) / "mine.py").write_text("import torch\ndef f(): return [(torch.nn.Linear(2, 2), (2,), None)]\n"
                                          "def g(): return [3, 4]\n"
                                          "def h(): return [(torch.nn.BatchNorm1d(2), (2,), None), (torch.nn.Linear(2, 2), (2,), None)]\n",
                                          encoding="utf-8")
    check_error(run("--model", "mine:f", PYTHONPATH=folder), "has 1 layers, but the plan has 2: make a plan")
    check_error(run("--model", "mine:g", PYTHONPATH=folder), "layer 0 must be (module, input shape, input dtype)")
    check_error(run("--model", "mine:h", PYTHONPATH=folder), "--model has no training data", "`batch`")
    check_error(run("--log", Path(folder) / "no" / "log"), "cannot be written")
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


def expect_refusal(parse, document, error_type, text):
    try:
        parse(document)
    except error_type as error:
        assert text in str(error), (text, str(error))
    else:
        raise AssertionError(f"accepted: {document['orders']}")


def test_unreadable_programs(folder):
    for text in ("", "{", "[]", "null", "[" * 100_000, "\0" * 10, '{"schema": "dtfm-program/2"}'):
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
    for run in (test_unreadable_programs, test_start, test_ranks_disagree, test_arguments, test_checkpoints):
        with tempfile.TemporaryDirectory() as folder:
            run(folder)
    print("ok")


if __name__ == "__main__":
    ranks.main(test)
