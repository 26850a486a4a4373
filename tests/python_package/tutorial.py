"""Runs the examples of docs/python.md, one after the other. Without torch, those that train are left out."""

import contextlib
import importlib.util
import io
import os
import re
import tempfile
import unittest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
HAS_TORCH = importlib.util.find_spec("torch") is not None


class TestTutorial(unittest.TestCase):
    def test_examples(self):
        text = PAGE.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        self.assertGreater(len(blocks), 5)
        training = re.search(r"^## How do I train a plan\?\n.*?^## ", text, re.DOTALL | re.MULTILINE)[0]
        names: dict = {}
        printed = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(printed):
            for block in blocks:
                if HAS_TORCH or block not in training:
                    exec(compile(block, str(PAGE), "exec"), names)
            self.assertTrue({"plan.json", "exported"} <= set(os.listdir()))
        plan, error = r"Plan\(\d+ pipelines? of \d+ stages?, ", r"topology\.devices\[0\]\.gpu: "
        for expected in (plan, "ohio/0 leaves', 'a new plan: ", "rank_table.json", error):
            self.assertRegex(printed.getvalue(), expected)
        if not HAS_TORCH:
            self.skipTest("PyTorch is missing (Debian: python3-torch): all but the training was run")
        self.assertRegex(printed.getvalue(), r"\npredicted [0-9.]+ s, measured [0-9.]+ s per iteration\n")


if __name__ == "__main__":
    unittest.main()
