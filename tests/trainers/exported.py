"""Base of the tests that train exports of four emulated hosts (four_hosts.py)."""
import shutil
import sys
import tempfile
import unittest

from exported_plans import trainers_python
from four_hosts import MAX_DIFFERENCE, FourHosts

PROGRAMS = sys.argv[1:3]
STEPS = 4  # of runs that are compared with one of start.sh
RATE = 1.0  # of SGD: gradients of another scale change the losses by more than the roundings of bf16
# Untied embeddings, grouped queries, rotary positions; heads wider than hidden / heads, with norms of queries and keys.
LLAMA = {"tied": False, "kv_heads": 2, "head_dim": 12, "positions": "rotary", "norm": "rms", "qk_norm": True, "gated": True,
         "biases": False}


class Exported(unittest.TestCase):
    target = ""  # of the plans

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="dtfm-trainers-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.hosts = FourHosts(*PROGRAMS, self.target, folder)

    def export(self, *arguments, **options):
        """Plans and exports. Returns the folder."""
        self.hosts.plan(*arguments, **options)
        return self.hosts.export()

    def assert_equal(self, losses, others, delta=MAX_DIFFERENCE):
        self.assertEqual(len(losses), len(others))
        for loss, other in zip(losses, others):
            self.assertAlmostEqual(loss, other, delta=delta)

    def assert_equal_in_bf16(self, losses, in_fp32):
        """Of SGD with RATE."""
        self.assert_equal(losses, in_fp32, delta=0.005)
        self.assertNotEqual(losses, in_fp32)

    def assert_falling(self, losses):
        self.assertLess(sum(losses[-5:]), sum(losses[:5]) - 0.1)


def main():
    trainers_python()  # in setUp, unittest would report the end of the process as an error
    del sys.argv[1:4]
    unittest.main()
