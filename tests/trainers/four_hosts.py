#!/usr/bin/env python3
"""Plans for a trainer on four emulated hosts, exports the plan, and trains it on this machine, on CPUs: every host is another
loopback address. scripts/try-trainer.sh runs it as a program.

usage: four_hosts.py DTFM_PLAN DTFM_EXPORT TRAINER FOLDER [STEPS]
"""
import json
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from exported_plans import trainers_python
from forked_ranks import free_port
from processes import Failed, run_together

HOSTS = {f"host{i}": f"127.0.0.{i + 1}" for i in range(4)}
TOPOLOGY = f"""version: 1
name: four hosts
devices: [{", ".join(f"{{name: {name}, site: {site}, gpu: T4}}" for name, site in zip(HOSTS, "aabb"))}]
links: [{{between: ["*", "*"], latency: 20 ms, bandwidth: 100 Mbps}}]
"""
MODEL = {"kind": "transformer", "layers": 4, "hidden": 32, "heads": 4, "sequence": 16, "vocabulary": 64}
# What train.py of every trainer imports.
MODULES = {"deepspeed": "deepspeed", "pytorch": "torch.distributed", "pytorch-pipelining": "torch.distributed.pipelining"}
# Of pytorch: "iteration 0: loss 4.123456, 0.012 s, …"; of the others: "step 0 loss 4.123456 seconds 0.012".
STEP = re.compile(r"^(?:step|iteration) (\d+):? loss ([^\s,]+)", re.MULTILINE)
LIMIT_S, STEP_LIMIT_S = 240, 5
MAX_DIFFERENCE = 1e-4  # of the losses of a plan in fp32 and those of one process


@dataclass
class Run:
    """A folder with train.py, which is started once per rank."""

    folder: Path
    steps: int
    ranks: int = len(HOSTS)
    options: tuple = ()


class FourHosts:
    """Exports of one trainer, in a folder."""

    def __init__(self, plan_program, export_program, trainer, folder):
        self.programs = [str(Path(it).resolve()) for it in (plan_program, export_program)]
        self.trainer, self.folder = trainer, Path(folder).resolve()
        python = trainers_python()
        self.environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
                            "CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu"}
        (self.folder / "net.yaml").write_text(TOPOLOGY)
        (self.folder / "hosts.txt").write_text("".join(f"{name} {address}\n" for name, address in HOSTS.items()))

    def run(self, *command, limit_s=LIMIT_S):
        """Returns what the command prints."""
        return run_together([(command, self.environment)], limit_s, cwd=self.folder)[0]

    def plan(self, pipeline, data, model=None, training=None, **parallelism):
        """Writes plan.json. Returns the summary."""
        job = {"version": 1, "name": "test", "model": {**MODEL, **(model or {})}, "target": self.trainer,
               "training": {"global_batch": 8, "micro_batch": 1, "precision": "fp32", **(training or {})},
               "parallelism": {"pipeline": pipeline, "data": data, **parallelism}}
        (self.folder / "job.yaml").write_text(json.dumps(job))
        return self.run(self.programs[0], "net.yaml", "--job", "job.yaml", "--quiet", "--evaluations", "100", "-o", "plan.json")

    def export(self):
        """Exports plan.json. Returns the folder."""
        name = f"run-{len(list(self.folder.glob('run-*')))}"
        self.run(self.programs[1], "plan.json", "--to", self.trainer, "--topology", "net.yaml", "--strict", "--hosts", "hosts.txt",
                 "--port", str(free_port()), "-o", name, "--quiet")
        return self.folder / name

    def alone(self, folder, steps=20, *options):
        """The same plan in one process of the runtime (--to pytorch): its model and samples are the same."""
        self.run(self.programs[1], folder / "plan.json", "--to", "pytorch", "--topology", "net.yaml", "-o", folder / "alone", "--quiet")
        return Run(folder / "alone", steps, 1, ("--single", *options))

    def start(self, folder, steps=20):
        """Runs start.sh for every host. Returns the losses, and all output."""
        # start.sh sets CUDA_VISIBLE_DEVICES, with which ranks would see a GPU of this machine.
        commands = [([folder / "start.sh", address, "--steps", str(steps), "--device", "cpu"], self.environment)
                    for address in HOSTS.values()]
        output = "\n".join(run_together(commands, LIMIT_S + steps * STEP_LIMIT_S))
        return losses(output, steps), output

    def train(self, *runs):
        """Trains all runs in forks of one process, which takes less time than start.sh. Returns the losses of each."""
        jobs = [[str(it.folder), it.ranks, ["--steps", str(it.steps), *it.options]] for it in runs]
        self.run("python", Path(__file__).with_name("forked_ranks.py"), MODULES[self.trainer], json.dumps(jobs),
                 limit_s=LIMIT_S + sum(it.steps for it in runs) * STEP_LIMIT_S)
        return [losses("".join(log.read_text() for log in sorted(it.folder.glob("rank-*.log"))), it.steps) for it in runs]


def losses(output, steps):
    """The losses of `steps` steps, which one rank prints."""
    found = STEP.findall(output)
    if [int(step) for step, _ in found] != list(range(steps)):
        raise Failed(f"not {steps} steps:\n{output}")
    return [float(loss) for _, loss in found]


def main():
    trainer, steps = sys.argv[3], int(sys.argv[5]) if len(sys.argv) > 5 else 20
    hosts = FourHosts(*sys.argv[1:5])
    print(f"Planning for {trainer} on {len(HOSTS)} hosts.")
    print(hosts.plan(2, 2).strip())
    folder = hosts.export()
    print(f"\nExported to {folder}.\nTraining {steps} steps on CPUs (the plan's times are those of its network and GPUs, not of "
          "this machine). Each command is one host:")
    for address in HOSTS.values():
        print(f"  {folder.name}/start.sh {address} --steps {steps} --device cpu")
    trained, _ = hosts.start(folder, steps)
    print(f"First step: loss {trained[0]:.4f}. Last step: loss {trained[-1]:.4f}.")
    [alone] = hosts.train(hosts.alone(folder, steps))
    difference = max(abs(a - b) for a, b in zip(trained, alone))
    if not difference <= MAX_DIFFERENCE:
        raise Failed(f"the losses differ from those of one process by {difference:.1g}, more than {MAX_DIFFERENCE}")
    print(f"One process has the same losses within {difference:.1g}.")


if __name__ == "__main__":
    for kind in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, lambda *_: sys.exit(1))  # so that no process is left
    try:
        main()
    except Failed as error:
        sys.exit(f"four_hosts.py: {error}")
