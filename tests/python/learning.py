#!/usr/bin/env python3
"""A small GPT learns a text, and the losses of four ranks with different cuts lie on those of one process. The text is an
excerpt of the documentation that does not change with it.

usage: learning.py [ITERATIONS [SEED]]
"""
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ranks
from programs import make_program

MODEL = {"kind": "transformer", "layers": 4, "hidden": 32, "heads": 4, "sequence": 32, "vocabulary": 256}
# One pipeline of three ranks with five micro-batches, and one rank alone with three.
PIPELINES = [(5, [(0, 1), (1, 3), (3, 4)]), (3, [(0, 4)])]
TEXT = Path(__file__).with_name("text.txt")
TOLERANCE = 1e-4
# AdamW divides by the size of the gradients, which amplifies rounding errors of small ones until the curves part.
OPTIMIZER = ("--optimizer", "sgd", "--lr", 0.1)


def losses(path):
    return [json.loads(line)["loss"] for line in path.read_text(encoding="utf-8").splitlines()]


def test():
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        document = make_program(MODEL, PIPELINES, "1f1b", "sharded-ps", micro_batch=2)
        (folder / "program.json").write_text(json.dumps(document), encoding="utf-8")
        common = ("--program", folder / "program.json", "--data", TEXT, "--steps", iterations, "--seed", seed, *OPTIMIZER,
                  "--device", "cpu")
        with ThreadPoolExecutor() as pool:
            single = pool.submit(ranks.train, *common, "--single", "--threads", 1, "--log", folder / "single")
            results = ranks.train_ranks(4, *common, "--log", folder / "ranks")
            assert single.result()[0] == 0, single.result()
        assert all(code == 0 for code, _, _ in results), results
        alone, together = losses(folder / "single"), losses(folder / "ranks")
    assert len(alone) == len(together) == iterations
    difference = max(abs(a - b) for a, b in zip(alone, together))
    print(f"losses from {alone[0]:.3f} to {alone[-1]:.3f}; they differ by at most {difference:.2e}")
    assert difference <= TOLERANCE, difference
    assert sum(alone[-10:]) / 10 < 0.75 * alone[0], "the loss does not fall"


if __name__ == "__main__":
    ranks.main(test)
