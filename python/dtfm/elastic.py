"""Trains a plan with the PyTorch runtime on machines that fail: replans for those that remain, and resumes.

An agent starts and supervises the ranks of one machine, as torchrun's does. It is a separate process, because a rank may
hang in its communication library, waiting for dead peers. Agents communicate only through a shared folder:

    agents/AGENT            which agents take part
    left/AGENT              which of them ended before the training
    attempt-N/              the exported plan, attempt.json, log.jsonl, and the output of each rank
    attempt-N/ended/AGENT   how the ranks of an agent have ended
    checkpoints/

After a failure, every agent replans. The first one to publish the next attempt decides, so that agents agree even if
they know of different failures; the search is deterministic, so that they usually computed the same plan.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dtfm_runtime.errors import DONE, INTERRUPTED, PEER_FAILED

from dtfm.errors import InfeasibleError, InputError
from dtfm.inputs import Topology, path_text, plain
from dtfm.progress import shown
from dtfm.requests import export, replan
from dtfm.results import Plan

log = logging.getLogger(__name__)

POLL_S = 0.05
TERMINATION_S = 5.0  # for ranks to end after SIGTERM
START_S = 30.0  # for a rank to load PyTorch, before it waits for the others
REPORT_S = TERMINATION_S + 10.0  # how much later than its ranks an agent may report
RESERVED_OPTIONS = (
    "help",
    "program",
    "log",
    "resume",
    "single",
    "profile",
    "shape",
    "gpu",
    "micro_batches",
    "precision",
)

# A rank terminates when its agent does: it then reads the end of its standard input.
RANK = """
import os, runpy, signal, sys, threading

def end_with_the_agent():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end_with_the_agent, daemon=True).start()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class _OvertakenError(Exception):
    """Another agent has published the next attempt."""


class TrainingError(RuntimeError):
    """The training cannot continue: a rank raised an exception, or more failures than `max_restarts`."""


@dataclass
class Training:
    """What train() returns.

    Attributes:
        plan: of the last attempt.
        restarts: how often a failure was survived.
        lost: the devices that failed.
        events: what `progress` was called with, without iterations and searches.
    """

    folder: Path
    plan: Plan
    restarts: int
    lost: list[str]
    events: list[dict[str, Any]] = field(repr=False)

    @property
    def iterations(self) -> list[dict[str, Any]]:
        """iteration, loss, seconds, tokens_per_s and peak_memory_bytes of each. Of one that was trained again after a
        failure, the last."""
        logs = [_LogReader(self.folder / f"attempt-{number}") for number in range(self.restarts + 1)]
        rows = {row["iteration"]: row for it in logs for row in it.new_rows()}
        return [rows[number] for number in sorted(rows)]


@dataclass(frozen=True)
class _Attempt:
    number: int
    folder: Path
    plan: Plan
    lost: list[str]  # devices that failed before
    devices: list[str]  # of each rank
    addresses: list[str]  # of its machine


@dataclass
class _Report:
    """How the ranks of an agent have ended."""

    lost: list[str] = field(default_factory=list)
    problem: str = ""  # of a rank that another plan would not help
    is_input: bool = False  # whether the problem is an argument or a file
    is_done: bool = False


def train(
    topology: Any,
    plan: Any,
    folder: str | os.PathLike,
    *,
    host: str | None = None,
    hosts: Mapping[str, str] | str | os.PathLike | None = None,
    steps: int = 100,
    checkpoint_dir: str | os.PathLike | None = None,
    checkpoint_every: int = 10,
    max_restarts: int = 3,
    min_devices: int = 1,
    replanning: Mapping[str, Any] | None = None,
    port: int | None = None,
    timeout: float = 60,
    start_timeout: float = 300,
    progress: Any = None,
    **options: Any,
) -> Training:
    """Trains a plan. After a failure, replans for the devices that remain and resumes from the last checkpoint.

    Without `host`, this process starts all ranks on this machine. With several machines, call it on each with the same
    arguments and its own `host`. A rank that a signal ends, or that does not end after the others, loses its device;
    a machine whose agent is silent loses all of its devices. Devices do not return. If a connection was lost and no
    rank, the same plan is started again.

    Args:
        folder: a new folder, which all machines share.
        host: the machine of this agent, as in the topology's devices.
        hosts: addresses by machine, as a dict or a file with lines `MACHINE ADDRESS`; by default their names.
        checkpoint_dir: folder of the checkpoints, which all machines share; resumed from if it has one of the model.
            By default in `folder`.
        max_restarts: failures that are survived.
        min_devices: the training ends if fewer devices remain.
        replanning: arguments of dtfm.replan, such as {"evaluations": 2000, "horizon": "6h"}.
        port: at which rank 0 listens, and at the next one; by default a free one, with `host` 29500.
        timeout: seconds after which a silent rank counts as failed.
        start_timeout: seconds that agents wait for those of other machines to be started.
        progress: is called with a dict for each event: `what` (start, iteration, failure, replan, done), `share` of the
            steps, …; True shows a bar if tqdm is installed.
        options: of train.py: data="text.txt", lr=0.01, device="cpu", …

    Raises:
        InputError: an argument or a file is not valid.
        InfeasibleError: no plan for the remaining devices fits.
        TrainingError: a rank raised an exception, or `max_restarts` is exceeded.
    """
    with shown(progress) as callback:
        agent = _Agent(
            topology=topology if isinstance(topology, Topology) else Topology(topology),
            folder=Path(path_text(folder, "folder")),
            host=host,
            hosts=hosts if hosts is None or isinstance(hosts, Mapping) else _addresses(path_text(hosts, "hosts")),
            steps=_whole("steps", steps, 1),
            checkpoint_dir=Path(path_text(checkpoint_dir or Path(folder) / "checkpoints", "checkpoint_dir")),
            checkpoint_every=_whole("checkpoint_every", checkpoint_every, 1),
            max_restarts=_whole("max_restarts", max_restarts, 0),
            min_devices=_whole("min_devices", min_devices, 1),
            replanning={"target": "pytorch", **_replanning(replanning)},
            port=None if port is None else _whole("port", port, 1, 65534),
            timeout=_seconds("timeout", timeout),
            start_timeout=_seconds("start_timeout", start_timeout),
            options=options,
            callback=callback,
        )
        return agent.train(plan if isinstance(plan, Plan) else Plan(plan))


@dataclass
class _Agent:
    topology: Topology
    folder: Path
    host: str | None
    hosts: Mapping[str, str] | None
    steps: int
    checkpoint_dir: Path
    checkpoint_every: int
    max_restarts: int
    min_devices: int
    replanning: dict[str, Any]
    port: int | None
    timeout: float
    start_timeout: float
    options: dict[str, Any]
    callback: Any
    run: dict[str, Any] = field(default_factory=dict)  # tells it from others
    events: list[dict[str, Any]] = field(default_factory=list)
    steps_done: int = 0

    def __post_init__(self) -> None:
        # A program names GPUs: device a of a machine without other devices is GPU a:0.
        self.device_of = {it["id"] if ":" in it["id"] else f"{it['id']}:0": it["id"] for it in self.topology.devices}
        self.host_of = {device: gpu.partition(":")[0] for gpu, device in self.device_of.items()}
        if self.host is not None and self.host not in self.host_of.values():
            known = ", ".join(dict.fromkeys(self.host_of.values()))
            raise InputError("host", f"the topology has no machine {self.host!r}; it has {known}")
        self.name = _file_name(self.host)
        self.arguments = _train_arguments(self.options)

    # ------------------------------------------------------------------------------------------ all attempts

    def train(self, plan: Plan) -> Training:
        self._check(plan)
        self.run = {"plan": hashlib.sha256(plan.to_json().encode()).hexdigest(), "topology": self.topology.fingerprint}
        self.run["one_agent"] = self.host is None
        self._join()
        try:
            return self._train(plan)
        except BaseException:
            self._leave()
            raise

    def _train(self, plan: Plan) -> Training:
        if self._newest() is None:
            self._publish(0, plan, [])
        for number in itertools.count(self._newest()):
            attempt = self._read(number)
            self._check_host(attempt)
            self._wait_for_agents(attempt)
            gone = self._agents_of(attempt) & self._left()
            if gone and number == 0:
                raise TrainingError(f"the agent of {self._machines(gone)} has ended: start all again, in a new folder")
            report = _Report(lost=self._devices_of(gone)) if gone else self._run(attempt)
            if report.is_done:
                self._tell(logging.INFO, f"done: {self.steps} steps", what="done")
                return Training(self.folder, attempt.plan, number, attempt.lost, self.events)
            if not self._folder_of(number + 1).exists():
                self._prepare_next(attempt, report)

    def _check(self, plan: Plan) -> None:
        """Reports a wrong argument now, and not after a failure."""
        if not plan.is_feasible:
            raise InfeasibleError("the plan does not fit in memory: " + "; ".join(plan.notes))
        # Quickly, but with the values that are given.
        least = {"evaluations": 1} if "time_limit" in self.replanning else {"time_limit": 0.01}
        if replan(self.topology, plan, **{**self.replanning, **least}).is_interrupted:
            raise KeyboardInterrupt
        with tempfile.TemporaryDirectory() as folder:
            self._export(plan, self.topology, Path(folder))

    def _export(self, plan: Plan, topology: Topology, folder: Path) -> None:
        hosts = None
        if self.hosts is not None:
            # Other machines than those of the plan would be an error.
            devices = {it for pipeline in plan.pipelines for stage in pipeline["stages"] for it in stage["devices"]}
            machines = {self.host_of[device] for device in devices}
            hosts = "".join(f"{machine} {address}\n" for machine, address in self.hosts.items() if machine in machines)
        export(plan, ["pytorch"], folder, topology=topology, hosts=hosts)

    def _join(self) -> None:
        """Makes this agent's file. A folder in which it exists, or another plan, is that of an earlier run."""
        contains_run = InputError("folder", f"{self.folder} already contains a run: name a new folder")
        if self._newest() is not None and self._facts(0).get("run") != self.run:
            raise contains_run
        try:
            for part in ("agents", "left"):
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            (self.folder / "agents" / self.name).touch(exist_ok=False)
        except FileExistsError:
            raise contains_run from None
        except OSError as error:
            raise InputError("folder", f"{self.folder} cannot be written: {error.strerror}") from None

    def _leave(self) -> None:
        """Others need not wait for this agent."""
        with suppress(OSError):
            (self.folder / "left" / self.name).touch()

    def _joined(self) -> set[str]:
        return set(os.listdir(self.folder / "agents"))

    def _left(self) -> set[str]:
        return set(os.listdir(self.folder / "left"))

    def _newest(self) -> int | None:
        numbers = itertools.takewhile(lambda number: self._folder_of(number).exists(), itertools.count())
        return max(numbers, default=None)

    def _folder_of(self, number: int) -> Path:
        return self.folder / f"attempt-{number}"

    def _publish(self, number: int, plan: Plan, lost: list[str]) -> None:
        """Exports the plan, unless another agent has been faster."""
        part = self.folder / f"attempt-{number}.{self.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        self._export(plan, self.topology.without(lost), part)
        (part / "ended").mkdir()
        (part / "attempt.json").write_text(json.dumps({"lost": lost, "run": self.run}), encoding="utf-8")
        try:
            part.rename(self._folder_of(number))
        except OSError:
            if not self._folder_of(number).exists():
                raise
            shutil.rmtree(part)

    def _facts(self, number: int) -> dict[str, Any]:
        return json.loads((self._folder_of(number) / "attempt.json").read_text(encoding="utf-8"))

    def _read(self, number: int) -> _Attempt:
        folder = self._folder_of(number)
        ranks = json.loads((folder / "program.json").read_text(encoding="utf-8"))["ranks"]
        lost = self._facts(number)["lost"]
        devices = [self.device_of[rank["device"]] for rank in ranks]
        return _Attempt(number, folder, Plan(folder / "plan.json"), lost, devices, [rank["host"] for rank in ranks])

    def _check_host(self, attempt: _Attempt) -> None:
        if self.host is not None and set(self._devices_of({self.name})) <= set(attempt.lost):
            raise TrainingError(f"all devices of {self.host} have failed; the other machines continue without it")

    def _wait_for_agents(self, attempt: _Attempt) -> None:
        end = time.monotonic() + self.start_timeout
        while missing := self._agents_of(attempt) - self._joined():
            if time.monotonic() > end:
                raise TrainingError(
                    f"no agent started within {self.start_timeout:.3g} s on {self._machines(missing)}: call train there, too, or raise "
                    "start_timeout"
                )
            time.sleep(POLL_S)

    def _agents_of(self, attempt: _Attempt) -> set[str]:
        if self.host is None:
            return {self.name}
        return {_file_name(self.host_of[device]) for device in attempt.devices}

    def _machines(self, agents: set[str]) -> str:
        return ", ".join(sorted(it for it in set(self.host_of.values()) if _file_name(it) in agents))

    def _devices_of(self, agents: set[str]) -> list[str]:
        return [device for device, machine in self.host_of.items() if _file_name(machine) in agents]

    def _prepare_next(self, attempt: _Attempt, report: _Report) -> None:
        new = [device for device in report.lost if device not in attempt.lost]
        if report.problem and not new:
            raise InputError("", report.problem) if report.is_input else TrainingError(report.problem)
        what = f"{', '.join(new)} failed" if new else "a connection was lost"
        self._tell(logging.WARNING, what, what="failure", attempt=attempt.number, lost=new)
        if attempt.number >= self.max_restarts:
            raise TrainingError(
                f"{what} after {attempt.number} restarts: resume in a new folder, with a larger max_restarts and "
                f"checkpoint_dir={str(self.checkpoint_dir)!r}"
            )
        lost, plan = [*attempt.lost, *new], attempt.plan
        if new:
            if self.host is not None:
                present = self._devices_of(self._joined() - self._left())
                lost += [it for it in self.host_of if it not in {*lost, *present}]
            try:
                plan = self._replan(plan, lost, attempt.number + 1)
            except _OvertakenError:
                return
        self._publish(attempt.number + 1, plan, lost)

    def _replan(self, running: Plan, lost: list[str], number: int) -> Plan:
        """Raises _OvertakenError once another agent has published attempt `number`."""

        def on_progress(facts: dict[str, Any]) -> None:
            if self._folder_of(number).exists():
                raise _OvertakenError

        begin, remaining = time.monotonic(), len(self.host_of) - len(lost)
        if remaining < self.min_devices:
            raise InfeasibleError(f"fewer devices remain ({remaining}) than min_devices ({self.min_devices})")
        try:
            plan = replan(self.topology.without(lost), running, progress=on_progress, **self.replanning)
        except InputError as error:
            raise InfeasibleError(f"the remaining devices ({remaining}) cannot run the job: {error}") from error
        if plan.is_interrupted:
            raise KeyboardInterrupt
        if not plan.is_feasible:
            raise InfeasibleError(f"no plan fits the remaining devices ({remaining}): " + "; ".join(plan.notes))
        seconds = time.monotonic() - begin
        text = f"replanned for {remaining} devices in {seconds:.1f} s: {plan}"
        self._tell(
            logging.WARNING, text, what="replan", seconds=seconds, lost=lost, iteration_time_s=plan.iteration_time_s
        )
        return plan

    # ------------------------------------------------------------------------------------------- one attempt

    def _run(self, attempt: _Attempt) -> _Report:
        """Returns what the agents report together, or nothing if the next attempt has begun without this one."""
        with self._started(attempt) as processes:
            own = self._wait(attempt, processes)
        if processes:
            self._report(attempt, own)
        reports = self._gather(attempt)
        silent = self._agents_of(attempt) - reports.keys()
        together = _Report(lost=self._devices_of(silent))
        together.is_done = not silent and all(it.is_done for it in reports.values())
        for name in sorted(reports):
            together.lost += reports[name].lost
            if not together.problem:
                together.problem, together.is_input = reports[name].problem, reports[name].is_input
        return together

    @contextmanager
    def _started(self, attempt: _Attempt) -> Iterator[dict[int, subprocess.Popen]]:
        """The processes of this machine, by rank. None of them is left afterwards."""
        processes: dict[int, subprocess.Popen] = {}
        try:
            # Only without `host` must the port be found, and then one agent starts all ranks.
            port = self.port or (_free_port() if self.host is None else 29500)
            for rank, device in enumerate(attempt.devices):
                if self.host is None or self.host_of[device] == self.host:
                    processes[rank] = self._start(attempt, rank, port)
            self._tell(
                logging.INFO,
                f"attempt {attempt.number}: {len(processes)} of {len(attempt.devices)} ranks start here",
                what="start",
                attempt=attempt.number,
                devices=attempt.devices,
                pids={rank: process.pid for rank, process in processes.items()},
            )
            yield processes
        finally:
            for process in processes.values():
                process.stdin.close()
                process.terminate()
            end = time.monotonic() + TERMINATION_S
            for process in processes.values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0, end - time.monotonic()))
                process.kill()
                process.wait()

    def _start(self, attempt: _Attempt, rank: int, port: int) -> subprocess.Popen:
        gpu = attempt.devices[rank].partition(":")[2] or 0
        variables = {
            "RANK": rank,
            "WORLD_SIZE": len(attempt.devices),
            "MASTER_ADDR": "127.0.0.1" if self.host is None else attempt.addresses[0],
            "MASTER_PORT": port,
            # Without `host`, this machine stands for all that the topology has.
            "LOCAL_RANK": rank if self.host is None and len(set(self.host_of.values())) > 1 else gpu,
        }
        command = [sys.executable, "-c", RANK, str(attempt.folder / "train.py"), "--steps", str(self.steps)]
        command += ["--timeout", f"{self.timeout:g}", "--log", str(attempt.folder / "log.jsonl")]
        if not self.options.get("emulate_compute"):  # which trains nothing that could be kept
            command += ["--checkpoint-dir", str(self.checkpoint_dir), "--resume"]
            command += ["--checkpoint-every", str(self.checkpoint_every)]
        with open(self._output(attempt, rank), "wb") as output:
            return subprocess.Popen(
                command + self.arguments,
                env={**os.environ, **{key: str(value) for key, value in variables.items()}},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches this process only
            )

    def _output(self, attempt: _Attempt, rank: int) -> Path:
        return attempt.folder / f"rank-{rank}.txt"

    def _wait(self, attempt: _Attempt, processes: dict[int, subprocess.Popen]) -> _Report:
        """Until all have ended. After a failure anywhere, those that do not end in time have failed, too: they are
        suspended, or hang in a way that their watchdog does not notice."""
        end, iterations = float("inf"), _LogReader(attempt.folder)
        codes: dict[int, int | None] = {}
        while time.monotonic() < end:
            codes = {rank: process.poll() for rank, process in processes.items()}
            if None not in codes.values():
                break
            if end == float("inf") and (any(codes.values()) or self._has_failed(attempt)):
                end = time.monotonic() + self._grace_s(attempt)
            self._show_iterations(iterations.new_rows())
            time.sleep(POLL_S)
        self._show_iterations(iterations.new_rows())
        report = _Report(is_done=not any(codes.values()) and None not in codes.values())
        for rank, code in codes.items():
            if code is None or code < 0 or code == INTERRUPTED:
                report.lost.append(attempt.devices[rank])
            elif code not in (DONE, PEER_FAILED) and not report.problem:
                report.problem, report.is_input = self._last_line(attempt, rank), code == 2
        return report

    def _grace_s(self, attempt: _Attempt) -> float:
        """How long after a failure the other ranks may need to notice it and end. Those that still start, longer."""
        log = attempt.folder / "log.jsonl"
        return self.timeout if log.exists() and log.stat().st_size > 0 else START_S + 2 * self.timeout

    def _last_line(self, attempt: _Attempt, rank: int) -> str:
        """What a rank said at its end."""
        path = self._output(attempt, rank)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() or ["it printed nothing"]
        return f"{lines[-1].removeprefix('train.py: ')} (see {path})"

    def _has_failed(self, attempt: _Attempt) -> bool:
        """As far as other agents have said."""
        is_over = self._folder_of(attempt.number + 1).exists() or bool(self._agents_of(attempt) & self._left())
        return is_over or any(not it.is_done for it in self._reports(attempt).values())

    def _show_iterations(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            self.steps_done = row["iteration"] + 1
            self._call({"what": "iteration", **row})

    def _report(self, attempt: _Attempt, report: _Report) -> None:
        path = attempt.folder / "ended" / self.name
        part = self.folder / f"ended.{self.name}.part"
        part.write_text(json.dumps(vars(report)), encoding="utf-8")
        part.rename(path)

    def _reports(self, attempt: _Attempt) -> dict[str, _Report]:
        folder = attempt.folder / "ended"
        return {path.name: _Report(**json.loads(path.read_text(encoding="utf-8"))) for path in folder.iterdir()}

    def _gather(self, attempt: _Attempt) -> dict[str, _Report]:
        """The reports of all agents that have ranks and did not leave. Once one has reported a failure, the others are
        waited for no longer than their ranks may need to end."""
        end = float("inf")
        while True:
            reports = self._reports(attempt)
            missing = self._agents_of(attempt) - reports.keys() - self._left()
            if not missing or self._folder_of(attempt.number + 1).exists() or time.monotonic() > end:
                return reports
            if end == float("inf") and self._has_failed(attempt):
                end = time.monotonic() + self._grace_s(attempt) + REPORT_S
            time.sleep(POLL_S)

    # -------------------------------------------------------------------------------------------------- events

    def _tell(self, level: int, text: str, **event: Any) -> None:
        log.log(level, text)
        self.events.append(event)
        self._call(event)

    def _call(self, event: dict[str, Any]) -> None:
        if self.callback:
            self.callback({"share": self.steps_done / max(1, self.steps), "best_s": 0, **event})


class _LogReader:
    """The lines that rank 0 writes, one per iteration."""

    def __init__(self, folder: Path) -> None:
        self.path, self.position = folder / "log.jsonl", 0

    def new_rows(self) -> list[dict[str, Any]]:
        """Of the lines that are complete and that were not returned before."""
        with suppress(FileNotFoundError), open(self.path, "rb") as file:
            file.seek(self.position)
            text = file.read()
            complete = text[: text.rfind(b"\n") + 1]
            self.position += len(complete)
            return [json.loads(line) for line in complete.splitlines()]
        return []


def _file_name(machine: str | None) -> str:
    return "all" if machine is None else f"host-{quote(machine, safe='')}"


def _free_port() -> int:
    """A port with a free one after it, for the watchdog."""
    while True:
        with socket.socket() as first, socket.socket() as second, suppress(OSError, OverflowError):
            first.bind(("127.0.0.1", 0))
            second.bind(("127.0.0.1", first.getsockname()[1] + 1))
            return first.getsockname()[1]


def _whole(name: str, value: Any, minimum: int, maximum: int = 10**9) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise InputError(name, f"expected a whole number from {minimum} to {maximum}; found {value!r}")
    return value


def _replanning(options: Any) -> Mapping[str, Any]:
    if options is not None and not isinstance(options, Mapping):
        raise InputError("replanning", f"expected a dict; found {type(options).__name__}")
    if options and "progress" in options:
        raise InputError("replanning", "cannot contain progress: train() passes its own")
    return options or {}


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value < float("inf"):
        raise InputError(name, f"expected seconds, at least 1; found {value!r}")
    return value


def _train_arguments(options: Mapping[str, Any]) -> list[str]:
    arguments = []
    for name, value in options.items():
        if name in RESERVED_OPTIONS:
            raise InputError(name, "cannot be passed to train(), which sets it or does not need it")
        if value is None or value is False:
            continue
        arguments.append(f"--{name.replace('_', '-')}")
        if value is not True:
            arguments.append(str(plain(value, name)))
    return arguments


def _pairs(words: list[str], where: str) -> dict[str, Any]:
    """The options that `--name value`, `--name=value` and flags stand for."""
    options: dict[str, Any] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            options[name.replace("-", "_")] = value if equals else True
        elif options.get(name.replace("-", "_")) is True:
            options[name.replace("-", "_")] = word
        else:
            raise InputError("", f"expected an option of {where}; found {word!r}")
    return options


def _arguments(words: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    words = sys.argv[1:] if words is None else words
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(
        prog="python -m dtfm.runtime",
        description="Trains a plan. After a failure, replans for the devices that remain, and resumes.",
        epilog="Options of train.py follow `--`: … run -- --data text.txt --lr 0.01",
        allow_abbrev=False,
    )
    parser.add_argument("topology", help="devices and links (YAML)")
    parser.add_argument("plan", help="plan file")
    parser.add_argument("folder", help="new folder, which all machines share")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="number of iterations [100]")
    parser.add_argument("--host", metavar="MACHINE", help="start the ranks of this machine only [all ranks]")
    parser.add_argument("--hosts", metavar="FILE", help="lines MACHINE ADDRESS [the machines' names]")
    parser.add_argument("--checkpoint-dir", metavar="FOLDER", help="shared by all machines [FOLDER/checkpoints]")
    parser.add_argument(
        "--checkpoint-every", type=int, default=10, metavar="N", help="write a checkpoint every N iterations [10]"
    )
    parser.add_argument(
        "--max-restarts", type=int, default=3, metavar="N", help="restarts before the training aborts [3]"
    )
    parser.add_argument("--min-devices", type=int, default=1, metavar="N", help="abort if fewer devices remain [1]")
    parser.add_argument(
        "--replanning",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="argument of dtfm.replan; may be repeated",
    )
    parser.add_argument(
        "--port",
        type=int,
        metavar="N",
        help="port of rank 0; the next one must be free, too [29500; without --host, free ones]",
    )
    parser.add_argument(
        "--timeout", type=float, default=60, metavar="S", help="after which a silent rank counts as failed [60]"
    )
    parser.add_argument(
        "--start-timeout", type=float, default=300, metavar="S", help="to wait for the agents of other machines [300]"
    )
    return parser.parse_args(words[:split]), words[split + 1 :]


def _addresses(path: str) -> dict[str, str]:
    """Of a file as for `dtfm-export --hosts`: lines `MACHINE ADDRESS`, and comments after #."""
    try:
        lines = [line.partition("#")[0].rsplit(maxsplit=1) for line in Path(path).read_text("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(path, f"cannot be read: {error}") from None
    for number, words in enumerate(lines, 1):
        if len(words) == 1:
            raise InputError(f"{path}:{number}:1", "expected `MACHINE ADDRESS`; found one word")
    return dict(words for words in lines if words)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def main(words: list[str] | None = None) -> int:
    """One agent, from a command line. Returns the exit code."""
    arguments, of_train = _arguments(words)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    signal.signal(signal.SIGTERM, _interrupt)  # machines that are preempted leave in order
    given = vars(arguments)
    try:
        given["replanning"] = _pairs([f"--{word}" for word in given["replanning"]], "dtfm-plan")
        given["hosts"] = _addresses(given["hosts"]) if given["hosts"] else None
        train(**given, **_pairs(of_train, "train.py"))
        return DONE
    except (InputError, InfeasibleError, TrainingError) as error:
        print(f"dtfm.runtime: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 3 if isinstance(error, InfeasibleError) else 1
    except KeyboardInterrupt:
        print(
            "dtfm.runtime: interrupted; to resume, name a new folder and these checkpoints (--checkpoint-dir)",
            file=sys.stderr,
        )
        return INTERRUPTED
