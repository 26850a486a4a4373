#!/usr/bin/env python3
"""A small GPT learns the project's own texts, and the losses of four ranks with different cuts lie on those of one process.

usage: learning.py [ITERATIONS]
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
TOLERANCE = 1e-3
# At larger learning rates, Adam amplifies rounding errors of small gradients until the curves part (0.002: 0.02).


def losses(path):
    return [json.loads(line)["loss"] for line in path.read_text(encoding="utf-8").splitlines()]


def test():
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = "".join(path.read_text(encoding="utf-8") for path in sorted((ranks.ROOT / "docs").glob("*.md")))
        (folder / "text.txt").write_text(text, encoding="utf-8")
        document = make_program(MODEL, PIPELINES, "1f1b", "sharded-ps", micro_batch=2)
        (folder / "program.json").write_text(json.dumps(document), encoding="utf-8")
        common = ("--program", folder / "program.json", "--data", folder / "text.txt", "--steps", iterations, "--lr", 0.001, "--device", "cpu")
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
