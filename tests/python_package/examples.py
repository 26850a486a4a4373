"""Runs the scripts of python/examples with short searches."""

import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "python" / "examples"
TOPOLOGY = ROOT / "topologies" / "three-clouds.yaml"
# By script: its arguments, and what its output contains.
RUNS = {
    "regions_under_a_budget.py": ([TOPOLOGY, "--budget", "8"], r"(?m)^ *[0-9.]+ s per iteration +[0-9.]+ USD/h +\w+$"),
    "replan_in_a_loop.py": ([TOPOLOGY, "--hours", "2"], r"hour 2: \d+ devices are gone: [0-9.]+ s per iteration"),
    "sweep_bandwidth.py": ([TOPOLOGY], r"bandwidth × 8 +[0-9.]+ s per iteration"),
    "which_gpus_to_rent.py": ([], r"(?m)^ *[0-9.]+ USD per million tokens +[0-9,]+ tokens/s  \d × "),
}


class TestExamples(unittest.TestCase):
    def test_all(self):
        self.assertEqual(sorted(RUNS), sorted(path.name for path in FOLDER.glob("*.py")))
        for name, (arguments, expected) in RUNS.items():
            with self.subTest(name):
                command = [sys.executable, "-W", "error", FOLDER / name, *arguments, "--evaluations", "300"]
                done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, expected)


if __name__ == "__main__":
    unittest.main()
