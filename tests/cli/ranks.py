"""Runs the programs on several ranks: mpirun -n 1, 2, 4, oversubscribed on this machine.

usage: ranks.py HAVE_MPI dtfm-plan dtfm-sim dtfm-compare [unittest argument]...

HAVE_MPI is 1 if the programs were built with MPI. Skipped (77), with the reason, if they were not, or if there is no
mpirun.
"""
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HAVE_MPI, PLAN, SIM, COMPARE = sys.argv[1], *(str(Path(it).resolve()) for it in sys.argv[2:5])
ROOT = Path(__file__).resolve().parents[2]
# After the loss of a rank, the others get SIGTERM after so many seconds, and SIGKILL after as many again.
LAUNCHER = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "odls_base_sigkill_timeout", "3"]

NET = """
version: 1
name: three-sites
devices:
  - {site: oregon, count: 4, gpu: V100-16GB, price: 2 USD/h}
  - {site: ohio, count: 4, gpu: A100-80GB, price: 4 USD/h}
  - {site: tokyo, count: 8, gpu: RTX-3090, price: 1 USD/h}
links:
  - {within: "*", latency: 5 ms, bandwidth: 2 Gbps}
  - {between: [oregon, ohio], latency: 49 ms, bandwidth: 1.10 Gbps}
  - {between: [oregon, tokyo], latency: 96 ms, bandwidth: 0.523 Gbps}
  - {between: [ohio, tokyo], latency: 156 ms, bandwidth: 0.4 Gbps}
"""
JOB = """
version: 1
name: small
model: {kind: transformer, layers: 12, hidden: 1024, heads: 16, sequence: 1024, vocabulary: 50257}
training: {global_batch: 64, micro_batch: auto, precision: fp16, recompute: auto}
parallelism: {schedule: auto}
"""
JITTER = "version: 1\nname: jitter\nseed: 1\ncompute_jitter: {kind: lognormal, cv: 0.1}\n"


def on_ranks(count, *command):
    return [*LAUNCHER, "-n", str(count), *map(str, command)]


def run(command, folder, code=0):
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode != code:
        raise AssertionError(f"{command}: exit code {done.returncode} instead of {code}: {done.stderr}")
    return done


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, text in (("net.yaml", NET), ("job.yaml", JOB), ("jitter.yaml", JITTER)):
            (self.folder / name).write_text(text)

    def big_topology(self, devices=64):
        run([sys.executable, ROOT / "scripts/generate-topology.py", "--devices", devices, "--sites", 8, "--noise", "0.3",
             "-o", "big.yaml"], self.folder)
        return "big.yaml"


class TestSameBytes(Case):
    """What ranks write is what one process writes."""

    checks = itertools.count()

    def check(self, command, files):
        """Compares stdout and `files`, for one process, and for 1, 2 and 4 ranks. Numbers of threads differ from check to
        check, so that all checks together run all pairs."""
        check, expected = next(self.checks), None
        for i, ranks in enumerate((None, 1, 2, 4)):
            threads = (1, 2, 3, 8)[(check + i) % 4]
            with self.subTest(ranks=ranks, threads=threads):
                own = [*command, "--threads", threads]
                done = run(on_ranks(ranks, *own) if ranks else own, self.folder)
                result = [done.stdout] + [(self.folder / it).read_bytes() for it in files]
                for file in files:
                    (self.folder / file).unlink()
                expected = expected or result
                self.assertEqual(result, expected)

    def test_plan(self):
        self.check([PLAN, "net.yaml", "--job", "job.yaml", "--scenario", "jitter.yaml", "-o", "plan.json"], ["plan.json"])

    def test_limited_plan(self):
        self.check([PLAN, "net.yaml", "--job", "job.yaml", "--evaluations", 3000, "--seed", 5, "-o", "plan.json"],
                   ["plan.json"])

    def test_pareto(self):
        self.check([PLAN, "net.yaml", "--job", "job.yaml", "--evaluations", 1000, "--pareto", "front.json", "-o", "plan.json"],
                   ["plan.json", "front.json"])

    def test_warm_start(self):
        run([PLAN, "net.yaml", "--job", "job.yaml", "--evaluations", 500, "-o", "running.json"], self.folder)
        (self.folder / "now.yaml").write_text(NET.replace("0.523", "0.1"))
        self.check([PLAN, "now.yaml", "--job", "job.yaml", "--warm-start", "running.json", "--evaluations", 3000, "-o",
                    "plan.json"], ["plan.json"])

    def test_comm_cost(self):
        for strategy in ("evolutionary", "random", "genetic"):
            with self.subTest(strategy=strategy):
                self.check([PLAN, "net.yaml", "--objective", "comm-cost", "--pipeline", 4, "--strategy", strategy,
                            "--evaluations", 400, "-o", "plan.json"], ["plan.json"])

    def test_proven_comm_cost(self):
        self.check([PLAN, "net.yaml", "--prove", "--pipeline", 4, "-o", "plan.json"], ["plan.json"])

    def test_enumerated_plan(self):
        (self.folder / "tiny.yaml").write_text(NET.replace("count: 4", "count: 1").replace("count: 8", "count: 2"))
        (self.folder / "short.yaml").write_text(JOB.replace("layers: 12", "layers: 4"))
        self.check([PLAN, "tiny.yaml", "--job", "short.yaml", "-o", "plan.json"], ["plan.json"])

    def test_enumerated_plan_within_a_time_limit(self):
        """Every rank plans alone, and may get another result in so short a time."""
        (self.folder / "tiny.yaml").write_text(NET.replace("count: 8", "count: 2"))
        (self.folder / "short.yaml").write_text(JOB.replace("layers: 12", "layers: 6").replace("batch: 64", "batch: 8"))
        for limit in (0.005, 0.01, 0.02, 0.05, 0.1):
            run(on_ranks(3, PLAN, "tiny.yaml", "--job", "short.yaml", "--time-limit", limit, "--near-equal", 0.9, "--threads", 1, "-o",
                         "plan.json"), self.folder)

    def test_samples(self):
        run([PLAN, "net.yaml", "--job", "job.yaml", "--evaluations", 500, "-o", "plan.json"], self.folder)
        self.check([SIM, "net.yaml", "plan.json", "--scenario", "jitter.yaml", "--samples", 7, "-o", "run.json"], ["run.json"])

    def test_single_run(self):
        run([PLAN, "net.yaml", "--job", "job.yaml", "--evaluations", 500, "-o", "plan.json"], self.folder)
        self.check([SIM, "net.yaml", "plan.json", "--trace", "trace.json", "-o", "run.json"], ["run.json", "trace.json"])
        self.check([SIM, "net.yaml", "--scheme", "megatron", "--job", "job.yaml", "-o", "run.json"], ["run.json"])

    def test_comparison(self):
        """Uses few devices, because every planned row needs a search."""
        (self.folder / "few.yaml").write_text(NET.replace("count: 4", "count: 1").replace("count: 8", "count: 2"))
        (self.folder / "short.yaml").write_text(JOB.replace("layers: 12", "layers: 4").replace("batch: 64", "batch: 8"))
        self.check([COMPARE, "few.yaml", "--job", "short.yaml", "--scenario", "jitter.yaml", "--quiet", "-o", "table.json"],
                   ["table.json"])


class TestErrors(Case):
    def lines(self, done):
        """The lines on stderr without those of mpirun."""
        return [it for it in done.stderr.splitlines() if it.startswith("dtfm-")]

    def test_message_is_printed_once(self):
        done = run(on_ranks(2, PLAN, "missing.yaml"), self.folder, 2)
        self.assertEqual(len(self.lines(done)), 1, done.stderr)
        self.assertIn("missing.yaml", done.stderr)

    def test_unknown_option(self):
        self.assertEqual(len(self.lines(run(on_ranks(2, PLAN, "net.yaml", "--wrong"), self.folder, 2))), 1)

    def test_infeasible_plan(self):
        (self.folder / "huge.yaml").write_text(JOB.replace("hidden: 1024", "hidden: 32768"))
        done = run(on_ranks(2, PLAN, "net.yaml", "--job", "huge.yaml", "--evaluations", 2000), self.folder, 3)
        self.assertIn("no plan fits", done.stdout + done.stderr)

    def test_input_that_one_rank_lacks(self):
        done = run([*on_ranks(1, PLAN, "net.yaml"), ":", "-n", "1", PLAN, "missing.yaml"], self.folder, 2)
        self.assertEqual(len(self.lines(done)), 1, done.stderr)
        self.assertIn("dtfm-plan: rank 1: missing.yaml", done.stderr)

    def test_different_inputs(self):
        (self.folder / "old").mkdir()
        (self.folder / "old/net.yaml").write_text(NET.replace("0.523", "0.524"))
        done = run([*on_ranks(1, PLAN, "net.yaml"), ":", "-n", "1", "--wdir", self.folder / "old", PLAN, "net.yaml"], self.folder, 2)
        self.assertIn("rank 1: input files differ from those of rank 0", done.stderr)

    def test_different_options(self):
        for program, options, other, message in [
                (PLAN, (), ("--evaluations", 9), "has `--evaluations 9`, which rank 0 does not have"),
                (PLAN, ("--seed", 1), ("--seed=2",), "has `--seed 2`, which rank 0 does not have"),
                (PLAN, ("--objective", "comm-cost", "--prove"), ("--objective", "comm-cost"), "does not have `--prove`, which rank 0 has"),
                (SIM, ("--scheme", "zero2"), ("--scheme", "zero3"), "has `--scheme zero3`, which rank 0 does not have"),
                (COMPARE, ("--iterations", 2), (), "does not have `--iterations 2`, which rank 0 has")]:
            with self.subTest(message):
                done = run([*on_ranks(1, program, "net.yaml", *options), ":", "-n", "1", program, "net.yaml", *other], self.folder, 2)
                self.assertIn(f"rank 1: {message}; start all ranks with the same options", done.stderr)
                self.assertEqual(len(self.lines(done)), 1, done.stderr)

    def test_options_that_may_differ(self):
        run([*on_ranks(1, PLAN, "net.yaml", "--evaluations", 9, "--threads", 2, "-o", "plan.json", "--format", "json"), ":", "-n", "1", PLAN,
             "net.yaml", "--evaluations=9", "--threads", 1, "--quiet"], self.folder)

    def test_time_limit(self):
        done = run(on_ranks(2, PLAN, self.big_topology(), "--time-limit", 2, "--threads", 1, "-o", "plan.json"), self.folder)
        self.assertIn("time-limit", done.stdout)
        self.assertEqual(json.loads((self.folder / "plan.json").read_text())["search"]["stopped"], "time-limit")


class TestLostRanks(Case):
    """A rank that dies ends the run with the best plan so far."""

    def start(self, *options):
        """Starts a long search on three ranks, and returns when it has begun."""
        self.messages = open(self.folder / "messages", "w+", encoding="utf-8")
        self.addCleanup(self.messages.close)
        process = subprocess.Popen(
            on_ranks(3, PLAN, self.big_topology(), "--time-limit", 200, "--threads", 1, "-o", "plan.json", *options),
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=self.messages)
        self.addCleanup(process.kill)
        end = time.monotonic() + 60
        while "evaluations, best" not in (self.folder / "messages").read_text():
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        return process

    def rank_of(self, process, rank):
        """The process number of a rank."""
        for folder in Path("/proc").iterdir():
            try:
                variables = (folder / "environ").read_bytes().split(b"\0")
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            except (OSError, IndexError):
                continue
            if f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables and parent == str(process.pid):
                return int(folder.name)
        self.fail(f"no process is rank {rank}")

    def check_plan(self, process):
        begin = time.monotonic()
        self.assertNotEqual(process.wait(timeout=30), 0)
        self.assertLess(time.monotonic() - begin, 15)
        plan = json.loads((self.folder / "plan.json").read_text())
        self.assertEqual(plan["search"]["stopped"], "interrupted")
        run([PLAN, "big.yaml", "--score", "plan.json"], self.folder)
        self.assertEqual(sorted(it.name for it in self.folder.iterdir() if "plan" in it.name), ["plan.json"])

    def test_any_rank_may_be_killed(self):
        for rank in (0, 1, 2):
            with self.subTest(rank=rank):
                process = self.start()
                os.kill(self.rank_of(process, rank), signal.SIGKILL)
                self.check_plan(process)
                if rank > 0:
                    self.assertIn("continuing without the other ranks", (self.folder / "messages").read_text())
                (self.folder / "plan.json").unlink()

    def test_comm_cost(self):
        process = self.start("--objective", "comm-cost", "--pipeline", "8")
        os.kill(self.rank_of(process, 1), signal.SIGKILL)
        self.check_plan(process)

    def test_interrupted_launcher(self):
        for kind in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=kind):
                process = self.start()
                process.send_signal(kind)
                self.check_plan(process)
                (self.folder / "plan.json").unlink()


if __name__ == "__main__":
    if HAVE_MPI not in ("ON", "TRUE", "1"):
        done = subprocess.run([PLAN, "net.yaml"], env=os.environ | {"OMPI_COMM_WORLD_SIZE": "2"}, capture_output=True, text=True,
                              check=False)
        if done.returncode != 2 or "built without MPI" not in done.stderr:
            sys.exit(f"several processes without MPI were not refused: {done.stderr}")
        print("skipped: built without MPI")
        sys.exit(77)
    if not shutil.which("mpirun"):
        print("skipped: no mpirun (openmpi-bin)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
