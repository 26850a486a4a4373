"""A training that survives failed ranks and machines ends with the loss of one without failures. Local processes stand
for the machines."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import dtfm
import dtfm.elastic

STEPS = 10
SEARCH = {"evaluations": 300, "seed": 1}
MODEL = {"kind": "transformer", "layers": 4, "hidden": 32, "heads": 4, "sequence": 16, "vocabulary": 64}
JOB = {
    "version": 1,
    "name": "tiny",
    "target": "pytorch",
    "model": MODEL,
    "training": {"global_batch": 12, "micro_batch": 1, "precision": "fp32"},
}
LINKS = [{"between": ["*", "*"], "latency": "1 ms", "bandwidth": "1 Gbps"}]
HOSTS = ["a/0", "a/1", "b/0", "b/1"]
LIMIT_S = 300  # only a test that fails takes so long


def lab(memory: str = "4 GB") -> dict:
    cpu = {"name": "CPU", "memory": memory, "peak_fp32": "50 GFLOP/s", "memory_bandwidth": "10 GB/s"}
    devices = [{"site": site, "count": 2, "gpu": "CPU"} for site in ("a", "b")]
    return {"version": 1, "name": "lab", "gpus": [cpu], "devices": devices, "links": LINKS}


HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = unittest.skipUnless(HAS_TORCH, "PyTorch is missing (Debian: python3-torch)")


# Added to the exported runtime. A rank that killed itself, or its agent, when told by this process might be too late: a
# training may end meanwhile. VICTIMS: by attempt the rank that dies, and before which iteration.
DYING = """
import json, os, signal
from pathlib import Path

_run_iteration = Trainer.run_iteration

def _die_or_run(trainer):
    victim = json.loads(os.environ["VICTIMS"]).get(Path(__file__).parents[1].name)
    if victim == [trainer.rank, trainer.iteration]:
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("AGENT_DIES_BEFORE") == str(trainer.iteration):
        os.kill(os.getppid(), signal.SIGKILL)
    _run_iteration(trainer)

Trainer.run_iteration = _die_or_run
"""


def export_dying(plan: dtfm.Plan, to: list[str], folder: Path, **options) -> None:
    dtfm.export(plan, to, folder, **options)
    with open(folder / "dtfm_runtime" / "training.py", "a", encoding="utf-8") as file:
        file.write(DYING)


def replan_or_fail(topology: dtfm.Topology, running: dtfm.Plan, **options) -> dtfm.Plan:
    """One agent fails; the others wait for it, because a faster one would make its plan unnecessary."""
    if options.get("progress"):  # the first call only checks the arguments
        if "FAILS_TO_REPLAN" in os.environ:
            raise MemoryError("while replanning")
        end = time.monotonic() + LIMIT_S
        while not os.path.exists(os.environ["REPLANS_AFTER"]):
            assert time.monotonic() < end
            time.sleep(0.02)
    return dtfm.replan(topology, running, **options)


def run_agent() -> int:
    """What the agents of other machines do."""
    with mock.patch.multiple(dtfm.elastic, export=export_dying, replan=replan_or_fail):
        return dtfm.elastic.main()


class Test(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name) / "run"

    def train(self, topology: dtfm.Topology, plan: dtfm.Plan, *victims: tuple[int, int], **options) -> dtfm.Training:
        """`victims`: for each attempt the rank that dies, and before which iteration."""
        by_attempt = {f"attempt-{number}": victim for number, victim in enumerate(victims)}
        variables = mock.patch.dict(os.environ, VICTIMS=json.dumps(by_attempt))
        exporting = mock.patch.object(dtfm.elastic, "export", export_dying)
        defaults = {"steps": STEPS, "checkpoint_every": 3, "replanning": SEARCH, "device": "cpu"}
        with self.assertLogs("dtfm.elastic") as logs, variables, exporting:
            try:
                return dtfm.train(topology, plan, self.folder, **{**defaults, **options})
            finally:
                self.log = "\n".join(logs.output)

    def loss_without_failures(self) -> float:
        """Of the last step, in one process."""
        program, log = self.folder / "attempt-0" / "train.py", self.folder / "single.jsonl"
        options = ["--single", "--steps", str(STEPS), "--log", str(log), "--device", "cpu", "--threads", "1"]
        subprocess.run([sys.executable, program, *options], check=True, stdout=subprocess.DEVNULL)
        return json.loads(log.read_text().splitlines()[-1])["loss"]

    def check(self, run: dtfm.Training) -> None:
        self.assertEqual([row["iteration"] for row in run.iterations], list(range(STEPS)))
        self.assertAlmostEqual(run.iterations[-1]["loss"], self.loss_without_failures(), places=5)


@needs_torch
class TestOneMachine(Test):
    def test_two_failures_of_which_one_is_that_of_rank_0(self):
        topology = dtfm.Topology(lab())
        plan = dtfm.plan(topology, job=JOB, **SEARCH)
        seen: list[dict] = []
        run = self.train(topology, plan, (1, 4), (0, 7), progress=seen.append)
        self.assertEqual([event["iteration"] for event in seen if event["what"] == "iteration"][-1], STEPS - 1)
        self.assertEqual(seen[-1]["what"], "done")
        starts = [event for event in run.events if event["what"] == "start"]
        first, second, third = (event["devices"] for event in starts)
        self.assertEqual((len(first), run.restarts, len(run.lost)), (4, 2, 2))
        self.assertEqual(run.lost, [first[1], second[0]])
        self.assertLessEqual(set(second), set(first) - {first[1]})
        self.assertEqual(set(third), set(HOSTS) - set(run.lost))
        resumed = (self.folder / "attempt-1" / "rank-0.txt").read_text()
        self.assertIn("resuming from step 3", resumed)
        self.assertRegex(self.log, rf"{first[1]} failed\n.*replanned for 3 devices in .*\n.*attempt 1: 3 of 3 ranks")
        self.check(run)

    def test_a_rank_that_fails_while_the_others_start_loses_only_its_device(self):
        topology = dtfm.Topology(lab()).without(["b/1"])
        plan = dtfm.plan(topology, job=JOB, **SEARCH)

        def kill(event: dict) -> None:
            if event["what"] == "start" and event["attempt"] == 0:
                os.kill(event["pids"][1], signal.SIGKILL)

        run = self.train(topology, plan, steps=2, timeout=5, progress=kill)
        self.assertEqual((run.restarts, len(run.lost)), (1, 1))

    def test_no_plan_fits_what_remains(self):
        # A process needs 3.5 GB by itself. Two devices have room for half of the model each, and one not for all of it.
        topology = dtfm.Topology(lab("3500.8 MB")).without(["b/0", "b/1"])
        plan = dtfm.plan(topology, job=JOB, **SEARCH)
        self.assertTrue(plan.is_feasible)
        with self.assertRaisesRegex(dtfm.InfeasibleError, r"no plan fits the remaining devices \(1\): "):
            self.train(topology, plan, (1, 4))

    def test_too_many_failures(self):
        topology = dtfm.Topology(lab()).without(["b/0", "b/1"])
        plan = dtfm.plan(topology, job=JOB, **SEARCH)
        with self.assertRaisesRegex(
            dtfm.TrainingError, "failed after 0 restarts: resume in a new folder, with a larger max_restarts and"
        ):
            self.train(topology, plan, (1, 0), max_restarts=0)
        with self.assertRaisesRegex(dtfm.InputError, "already contains a run: name a new folder"):
            dtfm.train(topology, plan, self.folder)

    def test_errors_of_ranks(self):
        topology = dtfm.Topology(lab()).without(["a/1", "b/0", "b/1"])
        plan = dtfm.plan(topology, job=JOB, **SEARCH)
        (self.folder.parent / "failing.py").write_text("def layers():\n    raise LookupError('of the model')\n")
        cases = {
            "unrecognized arguments: --colour": (dtfm.InputError, {"colour": "red"}),
            "LookupError: of the model": (dtfm.TrainingError, {"model": "failing:layers"}),
        }
        for number, (text, (kind, options)) in enumerate(cases.items()):
            self.folder = self.folder.with_name(f"run-{number}")
            with self.subTest(text), contextlib.chdir(self.folder.parent), self.assertRaisesRegex(kind, text):
                self.train(topology, plan, **options)


@needs_torch
class TestMachines(Test):
    def test_one_vanishes_and_one_fails_while_replanning(self):
        parent = self.folder.parent
        addresses = {machine: f"127.0.0.{number}" for number, machine in enumerate(HOSTS, 2)}
        (parent / "hosts").write_text("".join(f"{machine} {address}\n" for machine, address in addresses.items()))
        (parent / "lab.yaml").write_text(json.dumps(lab()))
        plan = dtfm.plan(parent / "lab.yaml", job=JOB, **SEARCH)
        plan.save(parent / "plan.json")
        port = dtfm.elastic._free_port()
        common = ["--steps", STEPS, "--checkpoint-every", 3, "--timeout", 15, "--port", port]
        for name, value in SEARCH.items():
            common += ["--replanning", f"{name}={value}"]

        common += ["--hosts", parent / "hosts", "--", "--device", "cpu"]

        def start(host: str, **variables: str) -> subprocess.Popen:
            script = "import sys; from elastic import run_agent; sys.exit(run_agent())"
            words = [parent / "lab.yaml", parent / "plan.json", self.folder, "--host", host]
            command = [sys.executable, "-c", script, *words, *common]
            search = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
            environment = {**os.environ, "PYTHONPATH": search, "VICTIMS": "{}", **variables}
            agent = subprocess.Popen(
                [str(word) for word in command], stderr=subprocess.PIPE, text=True, env=environment
            )
            self.addCleanup(agent.stderr.close)
            self.addCleanup(agent.wait)
            self.addCleanup(agent.kill)
            return agent

        left = str(self.folder / "left" / "host-a%2F1")
        others = {
            "a/1": start("a/1", FAILS_TO_REPLAN="yes"),
            "b/0": start("b/0", REPLANS_AFTER=left),
            "b/1": start("b/1", AGENT_DIES_BEFORE="4"),
        }
        options = {"host": "a/0", "hosts": addresses, "timeout": 15, "port": port}
        variables = mock.patch.dict(os.environ, REPLANS_AFTER=left)
        with variables, mock.patch.object(dtfm.elastic, "replan", replan_or_fail):
            run = self.train(dtfm.Topology(parent / "lab.yaml"), plan, **options)
        errors = {host: agent.communicate(timeout=LIMIT_S)[1] for host, agent in others.items()}
        self.assertEqual(others["b/0"].returncode, 0, errors["b/0"])
        self.assertIn("MemoryError: while replanning", errors["a/1"])
        self.assertEqual(set(run.lost), {"a/1", "b/1"})
        self.check(run)


class TestArguments(Test):
    """Wrong ones are reported before anything is written."""

    def test_errors(self):
        topology = dtfm.Topology(lab())
        plan = dtfm.plan(topology, job=JOB, **SEARCH)
        cases = {
            "host: the topology has no machine 'c'; it has a/0, a/1, b/0, b/1": {"host": "c"},
            "max_restarts: expected a whole number from 0 to 1000000000; found -1": {"max_restarts": -1},
            "min_devices: expected a whole number from 1 to 1000000000; found 1.5": {"min_devices": 1.5},
            "timeout: expected seconds, at least 1; found 'soon'": {"timeout": "soon"},
            "resume: cannot be passed to train": {"resume": True},
            "lr: must be finite; found inf": {"lr": float("inf")},
            "unknown argument `horizn`": {"replanning": {"horizn": "6h"}},
            "evaluations: expected a whole number": {"replanning": {"evaluations": "x"}},
            "replanning: cannot contain progress": {"replanning": {"progress": print}},
            "replanning: expected a dict; found int": {"replanning": 5},
            "steps: expected a whole number": {"steps": "x"},
            "port: expected a whole number from 1 to 65534; found 70000": {"port": 70000},
            "missing: cannot be read": {"hosts": "missing"},
            "help: cannot be passed to train": {"help": True},
        }
        for text, options in cases.items():
            with self.subTest(text), self.assertRaisesRegex(dtfm.InputError, text):
                dtfm.train(topology, plan, self.folder, **options)
        with self.assertRaises(dtfm.InputError):
            dtfm.train(topology.without(["a/0"]), plan, self.folder)
        self.assertFalse(self.folder.exists())

    def test_command_line(self):
        program = [sys.executable, "-m", "dtfm.runtime"]
        for words, text in (
            (["missing.yaml", "plan.json", "run"], "dtfm.runtime: missing.yaml: "),
            (["missing.yaml", "plan.json", "run", "--", "word"], "expected an option of train.py; found 'word'"),
            (["missing.yaml", "plan.json", "run", "--hosts", "missing"], "dtfm.runtime: missing: cannot be read: "),
        ):
            done = subprocess.run([*program, *words], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
