"""Plans for a trainer on four made-up hosts, exports them, and trains what was exported on this machine. Every "host" is
another loopback address."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PLAN, EXPORT, SOURCE = (str(Path(it).resolve()) for it in sys.argv[1:4])
HOSTS = {f"host{i}": f"127.0.0.{i + 1}" for i in range(4)}
TOPOLOGY = f"""version: 1
name: four hosts
devices: [{", ".join(f"{{name: {name}, site: site of {name}, gpu: T4}}" for name in HOSTS)}]
links: [{{between: ["*", "*"], latency: 20 ms, bandwidth: 100 Mbps}}]
"""
MODEL = {"kind": "transformer", "layers": 4, "hidden": 32, "heads": 4, "sequence": 16, "vocabulary": 64}
# Untied embeddings, grouped queries, rotary positions; heads wider than hidden / heads, with norms of queries and keys.
LLAMA = {"tied": False, "kv_heads": 2, "head_dim": 12, "positions": "rotary", "norm": "rms", "qk_norm": True, "gated": True,
         "biases": False}
STEP = re.compile(r"^step (\d+) loss (\S+) seconds \S+$", re.MULTILINE)


def trainers_python():
    """The Python that has the trainers; ends the test if there is none."""
    given = os.environ.get("DTFM_TRAINERS_PYTHON")
    python = Path(given) if given else Path(SOURCE, "build", "trainers", "bin", "python")
    if not python.exists():
        print(f"{python} does not exist: run scripts/trainers.sh, or set DTFM_TRAINERS_PYTHON")
        sys.exit(77)
    return python


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Exported(unittest.TestCase):
    target = ""  # of the plans
    module = ""  # that train.py imports

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="dtfm-trainers-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        python = trainers_python()
        self.environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        (self.folder / "net.yaml").write_text(TOPOLOGY)
        (self.folder / "hosts.txt").write_text("".join(f"{name} {address}\n" for name, address in HOSTS.items()))

    def run_program(self, *command, **options):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=600, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def export(self, pipeline, data, model=None, training=None, to=None, **parallelism):
        """Plans and exports. Returns the folder."""
        job = {"version": 1, "name": "test", "model": {**MODEL, **(model or {})}, "target": self.target,
               "training": {"global_batch": 8, "micro_batch": 1, "precision": "fp32", **(training or {})},
               "parallelism": {"pipeline": pipeline, "data": data, **parallelism}}
        (self.folder / "job.yaml").write_text(json.dumps(job))
        self.run_program(PLAN, "net.yaml", "--job", "job.yaml", "--quiet", "--evaluations", "100", "-o", "plan.json")
        name = f"run-{len(list(self.folder.glob('run-*')))}"
        self.run_program(EXPORT, "plan.json", "--to", to or self.target, "--topology", "net.yaml", "--strict", "--hosts", "hosts.txt",
                         "--port", str(free_port()), "-o", name, "--quiet")
        return self.folder / name

    def start(self, folder, steps=20):
        """Runs start.sh for every host. Returns the losses."""
        started = [subprocess.Popen([folder / "start.sh", address, "--steps", str(steps)], env=self.environment, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for address in HOSTS.values()]
        outputs = [process.communicate(timeout=600)[0] for process in started]
        self.assertEqual([process.returncode for process in started], [0] * len(started), "\n".join(outputs))
        return self.losses("\n".join(outputs), steps)

    def train_all(self, folders, steps=4, ranks=4):
        """Runs train.py of several exports without torchrun, which takes less time than start.sh. Returns the losses of
        each."""
        done = subprocess.run(["python", Path(__file__).with_name("forked_ranks.py"), self.module, str(ranks), str(steps),
                               *folders], env=self.environment, capture_output=True, text=True, timeout=600)
        outputs = ["".join(log.read_text() for log in sorted(folder.glob("rank-*.log"))) for folder in folders]
        self.assertEqual(done.returncode, 0, done.stderr + "".join(outputs))
        return [self.losses(output, steps) for output in outputs]

    def losses(self, output, steps):
        found = STEP.findall(output)
        self.assertEqual([int(step) for step, _ in found], list(range(steps)), output)
        return [float(loss) for _, loss in found]

    def train_alone(self, folder, steps):
        """The losses of the runtime (--to pytorch) in one process: its model and samples are the same."""
        self.run_program(EXPORT, folder / "plan.json", "--to", "pytorch", "-o", folder / "alone", "--quiet")
        log = folder / "log"
        self.run_program("python", folder / "alone" / "train.py", "--single", "--steps", str(steps), "--log", log, env=self.environment)
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()]

    def assert_equal(self, losses, others, delta=1e-4):
        self.assertEqual(len(losses), len(others))
        for loss, other in zip(losses, others):
            self.assertAlmostEqual(loss, other, delta=delta)

    def assert_falling(self, losses):
        self.assertLess(sum(losses[-5:]), sum(losses[:5]) - 0.1)
