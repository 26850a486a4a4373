"""Machines of an emulated network, on which plans are made and trained: what predicted.py and planned_order.py share."""
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from emulation import ROOT, Emulation

PYTHON = "/usr/bin/python3"  # that of the distribution, which has torch
PORT = 29500
# Of the simulator. The runtime posts receives early, so that Gloo's sends need not wait for them: what is left is TCP.
TRANSPORT = "tcp"
TRANSPORTS = ("none", "tcp", "gloo")
BLOCK_S = 0.018  # forward, one sample
SLOW = 2  # the second kind of GPU, compared to the first
GPUS = ("T4", "K80")  # of the first and the second kind; only their memory and their names matter
MEASURING = ["--seconds", "2", "--omit", "2", "--pings", "5", "--flows", "1", "--quiet"]


def run(*command, **more):
    """Returns the standard output; ends this program if the command fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


class Programs:
    """The folder with dtfm-plan and the others."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __getattr__(self, name):
        return self.folder / f"dtfm-{name}"


def profile_layers(folder, model, micro_batches, python=PYTHON):
    """Profiles of two kinds of GPU, by which computing is emulated: layers take in proportion to what was measured on
    this machine, a block BLOCK_S, or longer by a factor. Returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    measured = measure_layers(folder / "profile.json", model, micro_batches, GPUS[0], python)
    rows = json.loads(measured.read_text(encoding="utf-8"))["layers"]
    factor = BLOCK_S / min(row["forward_s"] for row in rows if row["kind"] == "block")
    return [scaled_profile(measured, folder / f"profile-{kind}.json", gpu, factor * SLOW**kind) for kind, gpu in enumerate(GPUS)]


def measure_layers(path, model, micro_batches, gpu, *command):
    """Writes a profile of the layers on this machine unless there is one. `command` is followed by the program's path."""
    shape = {**{key: value for key, value in model.items() if key != "kind"}, "layers": 2}
    if not path.exists():
        run(*command, ROOT / "python" / "train.py", "--profile", path, "--shape", json.dumps(shape), "--gpu", gpu,
            "--micro-batches", ",".join(map(str, micro_batches)), "--device", "cpu")
    return path


def scaled_profile(measured, path, gpu, factor):
    profile = json.loads(measured.read_text(encoding="utf-8"))
    profile["gpu"], profile["source"] = gpu, "imported"
    for row in profile["layers"]:
        row.update({key: factor * value for key, value in row.items() if key.endswith("_s")})
    path.write_text(json.dumps(profile), encoding="utf-8")
    return path


class Lab:
    """`machines`: name → 0 or 1, the kind of its GPU. `links`: (a, b) → (one-way latency in ms, Mbit/s) for every ordered pair."""

    def __init__(self, programs, folder, machines, links, slow_start_after_idle=1):
        self.programs, self.folder, self.machines = programs, folder, machines
        self.slow_start_after_idle = slow_start_after_idle
        self.folder.mkdir(parents=True, exist_ok=True)
        self.network = Emulation(list(machines), links, folder)
        try:
            self.tune()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.network.stop()

    def on(self, machine, *command):
        return ["ip", "netns", "exec", self.network.spaces[machine], *map(str, command)]

    def tune(self):
        """The kernel's defaults, whatever this machine has been set to, and no memory of earlier connections."""
        settings = {"tcp_rmem": "4096 131072 6291456", "tcp_wmem": "4096 16384 4194304", "tcp_no_metrics_save": "1",
                    "tcp_slow_start_after_idle": str(self.slow_start_after_idle)}
        for machine, address in self.network.addresses.items():
            # Few kernels allow to set the congestion control of a namespace.
            run("ip", "-n", self.network.spaces[machine], "route", "replace", "10.79.0.0/24", "dev", "wan0", "proto", "kernel", "scope",
                "link", "src", address, "congctl", "cubic")
            for name, value in settings.items():
                run(*self.on(machine, "sysctl", "-q", "-w", f"net.ipv4.{name}={value}"))

    def measure(self):
        """Writes the topology that scripts/measure.sh finds."""
        hosts = self.folder / "hosts.txt"
        hosts.write_text("".join(f"{machine} netns:{self.network.spaces[machine]} {self.network.addresses[machine]} {GPUS[kind]}\n"
                                 for machine, kind in self.machines.items()), encoding="ascii")
        run(ROOT / "scripts" / "measure.sh", "--hosts", hosts, "-o", self.folder / "measured", *MEASURING,
            env=dict(os.environ, DTFM_TOPOLOGY=str(self.programs.topology)))
        measured = (self.folder / "measured" / "topology.yaml").read_text(encoding="utf-8")
        for transport in TRANSPORTS:
            self.topology(transport).write_text(measured + (f"transport: {transport}\n" if transport != "none" else ""), encoding="utf-8")

    def topology(self, transport):
        return self.folder / f"topology-{transport}.yaml"

    def plan(self, name, job, *options, transport=TRANSPORT):
        """Plans a job, a dictionary, and exports the plan. Returns the plan's file."""
        plan, file = self.folder / f"{name}.json", self.folder / f"{name}.yaml"
        file.write_text(json.dumps(job), encoding="utf-8")
        run(self.programs.plan, self.topology(transport), "--job", file, "--quiet", "-o", plan, *options)
        return plan

    def predict(self, plan, *options, transport=TRANSPORT):
        """Simulated seconds per iteration, with neutral constants unless options say otherwise."""
        calibration = () if "--calibration" in options else ("--calibration", "neutral")
        if transport != TRANSPORT:  # the plan is for the topology with the transport, and another topology is refused
            text = json.loads(plan.read_text(encoding="utf-8"))
            del text["topology"]
            plan = plan.with_suffix(f".{transport}.json")
            plan.write_text(json.dumps(text), encoding="utf-8")
        text = run(self.programs.sim, self.topology(transport), plan, *calibration, "--quiet", "--format", "json", *options)
        return json.loads(text)["iterations"][-1]["duration_s"]

    def export(self, plan, transport=TRANSPORT, target="pytorch"):
        """Writes the folder that is run on every machine."""
        hosts, folder = self.folder / "machines.txt", plan.with_suffix("")
        hosts.write_text("".join(f"{machine.split('/')[1] if '/' in machine else f'{machine}/0'} {address}\n"
                                 for machine, address in self.network.addresses.items()), encoding="ascii")
        run(self.programs.export, plan, "--to", target, "--topology", self.topology(transport), "--hosts", hosts, "-o", folder, "--force",
            "--quiet")
        return folder

    def start(self, folder, profiles, *options):
        """Starts all ranks of an exported plan. Returns them as (device, process)."""
        program = json.loads((folder / "program.json").read_text(encoding="utf-8"))
        machines = {address: machine for machine, address in self.network.addresses.items()}
        ranks = []
        for rank, it in enumerate(program["ranks"]):
            machine = machines[it["host"]]
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(len(program["ranks"])), MASTER_ADDR=program["ranks"][0]["host"],
                               MASTER_PORT=str(PORT), OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
            command = self.on(machine, PYTHON, folder / "train.py", "--device", "cpu", "--timeout", 60, *options)
            if profiles:
                command += ["--emulate-compute", str(profiles[self.machines[machine]])]
            ranks.append((it["device"], subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                                         text=True)))
        return ranks

    def train(self, folder, profiles, steps, skip, trace=False):
        """Seconds of the measured iterations."""
        log = folder / "log.jsonl"
        log.unlink(missing_ok=True)
        options = ["--steps", steps, "--log", log, *(["--trace", folder / "trace.json"] if trace else [])]
        ranks = self.start(folder, profiles, *options)
        try:
            errors = [process.communicate(timeout=300)[1] for _, process in ranks]
        finally:
            for _, process in ranks:
                process.kill()
        failed = [f"{device}: {error.strip()}" for (device, process), error in zip(ranks, errors) if process.returncode != 0]
        if failed:
            sys.exit("\n".join(failed))
        seconds = [json.loads(line)["seconds"] for line in log.read_text(encoding="utf-8").splitlines()]
        return seconds[skip:]


def median(values):
    return statistics.median(values)


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
