"""scripts/generate-topology.py: shapes, bounds, and the same bytes for the same arguments."""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "generate-topology.py"


class GenerateTopology(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtfm topology ")
        self.addCleanup(folder.cleanup)
        self.base = Path(folder.name)

    def run_it(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], cwd=self.base, capture_output=True, text=True)

    def files(self, *arguments, output="out"):
        result = self.run_it(*arguments, "-o", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        return {path.name: path.read_text(encoding="utf-8") for path in (self.base / output).iterdir()}

    def matrices(self, *arguments):
        files = self.files(*arguments)
        return [[[float(cell) for cell in row.split(",")] for row in files[name].splitlines()]
                for name in ("latency.csv", "bandwidth.csv")]

    def pairs(self, matrix):
        return [(i, j) for i in range(len(matrix)) for j in range(len(matrix)) if i != j]

    def test_same_arguments_same_bytes_another_seed_another_graph(self):
        arguments = ["--devices", 20, "--sites", 6, "--noise", 0.2, "--directed", "--uneven"]
        first = self.files(*arguments, "--seed", 3)
        self.assertEqual(sorted(first), ["bandwidth.csv", "latency.csv", "topology.yaml"])
        self.assertEqual(first, self.files(*arguments, "--seed", 3, output="again"))
        self.assertNotEqual(first["latency.csv"], self.files(*arguments, "--seed", 4)["latency.csv"])

    def test_bytes_are_those_of_every_python(self):
        # Written by Python 3.11; CPython 3.9 to 3.13 gave the same bytes.
        files = self.files("--devices", 3, "--sites", 2, "--seed", 3, "--noise", 0.2, "--directed", "--uneven")
        self.assertEqual(files["latency.csv"], GOLDEN_LATENCY)
        self.assertEqual(files["bandwidth.csv"], GOLDEN_BANDWIDTH)

    def test_a_square_of_positive_numbers_around_a_zero_diagonal(self):
        for matrix in self.matrices("--devices", 13, "--sites", 5, "--noise", 0.9, "--directed"):
            self.assertEqual([len(row) for row in matrix], [13] * 13)
            self.assertTrue(all(matrix[i][i] == 0 for i in range(13)))
            self.assertTrue(all(matrix[i][j] > 0 for i, j in self.pairs(matrix)))

    def test_noise_uses_its_whole_range(self):
        base = ["--devices", 24, "--sites", 6, "--seed", 5]
        for plain, noisy in zip(self.matrices(*base), self.matrices(*base, "--noise", 0.2)):
            factors = [noisy[i][j] / plain[i][j] for i, j in self.pairs(plain)]
            self.assertGreaterEqual(min(factors), 0.8 - 1e-3)  # rounding in the files
            self.assertLessEqual(max(factors), 1.2 + 1e-3)
            self.assertLess(min(factors), 0.82)
            self.assertGreater(max(factors), 1.18)

    def test_directions_are_equal_unless_asked_for(self):
        base = ["--devices", 12, "--sites", 4, "--noise", 0.1]
        for matrix in self.matrices(*base):
            self.assertTrue(all(matrix[i][j] == matrix[j][i] for i, j in self.pairs(matrix)))
        for matrix in self.matrices(*base, "--directed"):
            self.assertTrue(all(matrix[i][j] != matrix[j][i] for i, j in self.pairs(matrix)))

    def test_bandwidth_falls_with_the_round_trip(self):
        latency, bandwidth = self.matrices("--devices", 8, "--sites", 8, "--window", 2.6)
        for i, j in self.pairs(latency):
            # 2.6 MB · 8 bit / (2 · latency), at most 5 Gbps.
            self.assertAlmostEqual(bandwidth[i][j], min(2.6 * 8 / (2 * latency[i][j]), 5), delta=1e-3)
            # half way round the world on the longest route
            self.assertLess(latency[i][j], 0.3 + 2 * 20016 / 199.86)

    def test_within_a_site(self):
        latency, bandwidth = self.matrices("--devices", 4, "--sites", 1, "--intra-bandwidth", "3..4")
        self.assertEqual({latency[i][j] for i, j in self.pairs(latency)}, {0.3})
        self.assertTrue(all(3 <= bandwidth[i][j] <= 4 for i, j in self.pairs(bandwidth)))

    def counts(self, *arguments):
        return [int(count) for count in re.findall(r"count: (\d+)", self.files(*arguments)["topology.yaml"])]

    def test_sizes_of_sites(self):
        self.assertEqual(self.counts("--devices", 10, "--sites", 4), [3, 3, 2, 2])
        uneven = self.counts("--devices", 64, "--sites", 12, "--uneven")
        self.assertEqual((len(uneven), sum(uneven)), (12, 64))
        self.assertGreaterEqual(min(uneven), 1)
        self.assertGreater(max(uneven), 6)

    def test_one_file_and_its_matrices_beside_it(self):
        result = self.run_it("--devices", 4, "--sites", 2, "-o", "some folder/my, graph.yaml")
        self.assertEqual((result.returncode, result.stdout), (0, "some folder/my, graph.yaml\n"))
        names = sorted(path.name for path in (self.base / "some folder").iterdir())
        self.assertEqual(names, ["my, graph-bandwidth.csv", "my, graph-latency.csv", "my, graph.yaml"])
        self.assertIn('{file: "my, graph-latency.csv", unit: ms}', (self.base / "some folder/my, graph.yaml").read_text())

    def test_bad_usage_ends_with_2_and_writes_nothing(self):
        for arguments in (["--sites", 9, "--devices", 8], ["--sites", 0], ["--devices", 100000], ["--noise", 1],
                          ["--noise", "nan"], ["--intra-bandwidth", "4..2"], ["--intra-bandwidth", "x"],
                          ["--window", 0], ["--seed", "x"], ["--no-such-option"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.run_it(*arguments, "-o", "bad").returncode, 2)
                self.assertFalse((self.base / "bad").exists())
        self.assertEqual(self.run_it("--devices", 8).returncode, 2)  # no -o

    def test_an_output_that_cannot_be_written_ends_with_2(self):
        (self.base / "file").touch()
        self.assertEqual(self.run_it("-o", "file/below").returncode, 2)


GOLDEN_LATENCY = """\
0.0000,18.4796,20.5511
28.9560,0.0000,0.2822
24.0537,0.3180,0.0000
"""
GOLDEN_BANDWIDTH = """\
0.00000,0.33936,0.28500
0.33883,0.00000,2.60863
0.30858,2.97797,0.00000
"""

if __name__ == "__main__":
    unittest.main()
