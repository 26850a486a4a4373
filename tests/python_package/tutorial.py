"""Runs the examples of docs/python.md, one after the other."""

import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


class TestTutorial(unittest.TestCase):
    def test_examples(self):
        text = PAGE.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        self.assertGreater(len(blocks), 5)
        names: dict = {}
        printed = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(printed):
            for block in blocks:
                exec(compile(block, str(PAGE), "exec"), names)
            self.assertTrue({"plan.json", "exported"} <= set(os.listdir()))
        for expected in (r"Plan\(\d+ pipelines? of \d+ stages?, ", r"topology\.devices\[0\]\.gpu: ", "rank_table.json"):
            self.assertRegex(printed.getvalue(), expected)


if __name__ == "__main__":
    unittest.main()
