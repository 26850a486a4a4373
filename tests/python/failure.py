#!/usr/bin/env python3
"""When a rank fails, all others end within the time limit and name it, and training resumes from the last checkpoint as
if nothing had happened. Ranks are processes on this machine that are killed, suspended or interrupted: first with the
watchdog only, then while they train.

usage: failure.py

The limits that are asserted are those of the watchdog plus what a busy machine may add, so that only a rank that does
not end fails the test.
"""
import contextlib
import importlib.util
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from dtfm_runtime.errors import INTERRUPTED, PeerFailed, UserError
from dtfm_runtime.failure import ITS_PORT, Limits, Watchdog, end_process

IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where waiting for the disk takes no time
LIMIT_S = 3.0
CLOCK_SHIFT_S = 1234.5
SLACK_S = 30.0  # of a busy machine

# An address of this machine that no other test uses; ranks get that of the test.
HOST = os.environ.setdefault("DTFM_TEST_HOST", f"127.{1 + os.getpid() // 65536 % 250}.{os.getpid() // 256 % 256}.{os.getpid() % 256}")
INTERRUPTED_LINE = "failure.py: interrupted; the last checkpoint is unchanged"
PORTS = itertools.count(20_000)  # below those that the system gives to connections


# ------------------------------------------------------------------------------------------------- one rank

def run_rank(rank, world, port, limit_s, mode):
    """What a rank does after all have connected: `loop` checks for failures, `hang` never does, `lost` waits for news of
    one, `finish` ends soon, `compute` keeps the interpreter busy before, `give-up` ends with a reason, `crash` without.
    `late` is a loop that starts after the others, `shifted` ends soon and has another clock."""
    if mode == "shifted":  # the clock of another machine
        real = time.monotonic
        time.monotonic = lambda: real() + CLOCK_SHIFT_S
    if mode == "late":
        sys.stdin.readline()
    start_s = SLACK_S if limit_s == LIMIT_S else limit_s
    watchdog = Watchdog(rank, world, HOST, port, limit_s, lambda it: f"rank {it} (gpu:{it})", start_s)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        watchdog.start()
        print("started", flush=True)
        sys.stdin.readline()  # until all ranks have started
        behave(watchdog, mode)
        watchdog.stop()
        print(f"finished, clock {watchdog.clock().offset_s:.6f} ± {watchdog.clock().error_s:.6f}", flush=True)
    except UserError as error:
        end_process(error.exit_code, str(error))
    except PeerFailed as error:
        watchdog.stop()
        end_process(error.exit_code, f"failure.py: {error}")
    except KeyboardInterrupt:
        watchdog.stop("it was interrupted")
        end_process(INTERRUPTED, INTERRUPTED_LINE)


def behave(watchdog, mode):
    if mode in ("loop", "late"):
        while True:
            watchdog.check()
            time.sleep(0.02)
    if mode == "lost":  # as after an error of the communication library
        watchdog.wait_for_failure(60)
    if mode == "hang":
        hang()
    if mode == "compute":
        end = time.monotonic() + 2 * LIMIT_S
        while time.monotonic() < end:
            sum(range(1000))
    if mode == "give-up":
        watchdog.stop("out of\nmemory")
        end_process(2)
    if mode == "crash":
        raise RuntimeError("a bug")


def hang():
    """Waits like a communication library, whose calls handle no signals of Python."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(3600)


# --------------------------------------------------------------------------------------------------- all ranks

class Ranks:
    """Processes of all ranks. Those in `modes` behave differently from the others."""

    def __init__(self, world, mode, modes=None, limit_s=LIMIT_S, waits=True):
        self.waits, self.port = waits, next(PORTS)
        self.processes = []
        for rank in range(world):
            command = [sys.executable, __file__, "rank", str(rank), str(world), str(self.port), str(limit_s), (modes or {}).get(rank, mode)]
            self.processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def __enter__(self):
        if self.waits:
            for process in self.processes:
                assert process.stdout.readline() == "started\n", process.communicate()
            for rank in range(len(self.processes)):
                self.go(rank)
        return self

    def go(self, rank):
        self.processes[rank].stdin.close()

    def __exit__(self, *error):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                pipe.close()

    def signal(self, rank, number):
        self.processes[rank].send_signal(number)
        return time.monotonic()

    def end_of(self, rank):
        """The exit code, the lines and when the rank ended."""
        process = self.processes[rank]
        code = process.wait(timeout=LIMIT_S + SLACK_S)
        return code, process.stderr.read().splitlines(), process.stdout.read(), time.monotonic()


def expect_failure(ranks, failed, reason, begin, others):
    """All others end in time with one line that names the failed rank."""
    for rank in others:
        code, lines, _, end = ranks.end_of(rank)
        assert code == 3 and len(lines) == 1, (rank, code, lines)
        assert lines[0].startswith(f"failure.py: rank {failed} (gpu:{failed}) failed: {reason}"), (rank, lines)
        assert end - begin < LIMIT_S + SLACK_S


# -------------------------------------------------------------------------------------------------- scenarios

def killed(world, failed, mode):
    with Ranks(world, mode) as ranks:
        begin = ranks.signal(failed, signal.SIGKILL)
        expect_failure(ranks, failed, "its process ended or its connection was lost; resume from the last checkpoint with --resume", begin,
                       [rank for rank in range(world) if rank != failed])


def suspended(world, failed, mode):
    """The suspended rank learns it, too, when it wakes up."""
    with Ranks(world, mode) as ranks:
        begin = ranks.signal(failed, signal.SIGSTOP)
        expect_failure(ranks, failed, "no heartbeat for ", begin, [rank for rank in range(world) if rank != failed])
        ranks.signal(failed, signal.SIGCONT)
        code, lines, _, _ = ranks.end_of(failed)
        assert code == 3 and lines[0].startswith(f"failure.py: this rank, rank {failed} (gpu:{failed}), failed: "), lines


def several_killed():
    """At once: the others agree on one of them."""
    with Ranks(6, "hang") as ranks:
        for rank in (2, 4):
            ranks.signal(rank, signal.SIGKILL)
        ends = [ranks.end_of(rank) for rank in (0, 1, 3, 5)]
        assert len({tuple(lines) for _, lines, _, _ in ends}) == 1 and {code for code, _, _, _ in ends} == {3}, ends
        assert ends[0][1][0].startswith(("failure.py: rank 2 ", "failure.py: rank 4 ")), ends


def killed_before_all_have_started():
    """The last one learns of it from rank 0, which waits for it a little; it stands for those that are just connecting."""
    with Ranks(3, "loop", {2: "late"}, limit_s=SLACK_S, waits=False) as ranks:
        assert ranks.processes[1].stdout.readline() == "started\n"
        ranks.signal(1, signal.SIGKILL)
        ranks.go(0)
        ranks.go(2)
        expect_failure(ranks, 1, "its process ended", time.monotonic(), [0, 2])


def given_up():
    with Ranks(3, "loop", {2: "give-up"}) as ranks:
        expect_failure(ranks, 2, "out of memory", time.monotonic(), [0, 1])
    with Ranks(3, "hang", {0: "give-up"}) as ranks:
        expect_failure(ranks, 0, "out of memory", time.monotonic(), [1, 2])


def crashed():
    with Ranks(3, "lost", {1: "crash"}) as ranks:
        expect_failure(ranks, 1, "its process ended", time.monotonic(), [0, 2])
        assert ranks.end_of(1)[0] == 1


def interrupted(failed, mode, number):
    """Also a rank whose main thread handles no signals."""
    with Ranks(3, "loop", {failed: mode}) as ranks:
        begin = ranks.signal(failed, number)
        code, lines, _, _ = ranks.end_of(failed)
        assert (code, lines) == (INTERRUPTED, [INTERRUPTED_LINE]), (code, lines)
        expect_failure(ranks, failed, "it", begin, [rank for rank in range(3) if rank != failed])


def all_interrupted():
    """As by Ctrl-C on a terminal."""
    with Ranks(3, "hang") as ranks:
        for rank in range(3):
            ranks.signal(rank, signal.SIGINT)
        for rank in range(3):
            code, lines, _, _ = ranks.end_of(rank)
            assert (code, lines) == (INTERRUPTED, [INTERRUPTED_LINE]), (rank, code, lines)


def finished():
    """Ranks end at different times; nobody takes a goodbye for a failure. Differences between clocks are measured."""
    with Ranks(4, "finish", {1: "compute", 2: "shifted", 3: "compute"}) as ranks:
        for rank in range(4):
            code, lines, output, _ = ranks.end_of(rank)
            assert (code, lines) == (0, []), (rank, code, lines)
            offset, error = map(float, output.split("clock ")[1].split(" ± "))
            assert abs(offset + (CLOCK_SHIFT_S if rank == 2 else 0)) <= error + 1e-6 < 1, output


def one_killed_while_others_finish():
    with Ranks(3, "finish", {2: "hang"}) as ranks:
        assert ranks.end_of(1)[0] == 0
        begin = ranks.signal(2, signal.SIGKILL)
        expect_failure(ranks, 2, "its process ended", begin, [0])


def started_wrongly():
    def lines_of(*commands, host=HOST, mode="loop", limit_s=2):
        """Lines and exit codes of processes (rank, world, port)."""
        processes = [subprocess.Popen([sys.executable, __file__, "rank", *map(str, command), str(limit_s), mode], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                      env={**os.environ, "DTFM_TEST_HOST": host}) for command in commands]
        ends = [(process.communicate(timeout=SLACK_S)[1].strip(), process.returncode) for process in processes]
        assert all("\n" not in text for text, _ in ends), ends
        return ends

    port = next(PORTS)
    (text, code), = lines_of((1, 2, port))
    assert code == 2 and text.startswith(f"cannot reach rank 0 at {HOST}:{port} {ITS_PORT} within 2 s (Connection refused): check MASTER_ADDR"), text
    (text, code), = lines_of((0, 4, port))
    assert code == 2 and text.startswith(f"rank 1 and 2 more did not connect to {HOST}:{port} {ITS_PORT} within 2 s: start all ranks with"), text
    (zero, zero_code), (one, one_code) = lines_of((0, 3, port), (1, 3, port))
    assert zero_code == 2 and zero.startswith("rank 2 did not connect"), zero
    assert one_code == 3 and one.startswith("failure.py: rank 2 (gpu:2) failed: it did not connect within 2 s"), one
    (zero, zero_code), (one, one_code) = lines_of((0, 3, port), (1, 2, port))
    assert zero_code == 2 and zero.startswith("rank 1 has WORLD_SIZE 2 and rank 0 has 3: set it"), zero
    assert one_code == 2 and one.startswith("WORLD_SIZE is 2 here and 3 at rank 0: set it"), one
    (_, _), *same = lines_of((0, 3, port), (1, 3, port), (1, 3, port))
    assert sorted(code for _, code in same) == [2, 3] and any(text.startswith("another process has RANK 1: ") for text, _ in same), same
    (text, code), = lines_of((1, 2, port), host="does-not-exist.invalid")
    assert code == 2 and text.startswith("cannot reach rank 0 at does-not-exist.invalid:"), text
    ends = lines_of((0, 2, port), (1, 2, port), host="localhost", mode="finish", limit_s=20)
    assert ends == [("", 0), ("", 0)], ends
    with socket.create_server((HOST, 0)) as silent:
        (text, code), (zero, zero_code) = lines_of((1, 2, silent.getsockname()[1]), (0, 2, silent.getsockname()[1]))
        assert code == 2 and "does not answer as rank 0 of this training: check MASTER_ADDR" in text, text
        assert zero_code == 2 and zero.endswith(", the watchdog's (next to MASTER_PORT), is in use: set MASTER_PORT to another number "
                                                "on all ranks"), zero


def strangers_are_ignored():
    """Connections that do not belong to the training, and nonsense on them, do no harm, before it starts or after."""
    port = next(PORTS)
    nonsense = (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 10_000, b"[" * 5000 + b"\n", b"[]\n", b"{}\n", b'{"hello": 1, "rank": {}}\n',
                b'{"ping": 1}\n', b"")
    rank_0 = subprocess.Popen([sys.executable, __file__, "rank", "0", "2", str(port), "20", "finish"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True)
    kept = []
    for text in nonsense:
        kept.append(connect(port))
        kept[-1].sendall(text)
    rank_1 = subprocess.Popen([sys.executable, __file__, "rank", "1", "2", str(port), "20", "finish"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True)
    for process in (rank_0, rank_1):
        assert "finished" in process.communicate(timeout=SLACK_S)[0] and process.returncode == 0
    for connection in kept:
        connection.close()


def connect(port):
    end = time.monotonic() + SLACK_S
    while True:
        try:
            return socket.create_connection((HOST, port))
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.02)


def limits_add_up():
    for timeout_s in (1, 10, 60, 600):
        limits = Limits(timeout_s)
        assert limits.silence_s + 1.5 * limits.ping_s + limits.grace_s + limits.linger_s <= timeout_s


# ---------------------------------------------------------------------------------------------------- training

MODEL = {"kind": "transformer", "layers": 4, "hidden": 16, "heads": 4, "sequence": 8, "vocabulary": 32}
# Four ranks, of which each writes some layer: the second pipeline is alone with the tied matrix of a stage of its own.
PLAN = {"pipelines": [(3, [(0, 2), (2, 4)]), (5, [(0, 1), (1, 4)])], "gradient_sync": "sharded-ps", "zero1": True}
WITHOUT_A_RANK = {"pipelines": [(2, [(0, 3), (3, 4)]), (6, [(0, 4)])], "recompute": "full", "schedule": "gpipe"}
TRAINING_LIMIT_S = 10
MOMENTS = ("connect", "forward", "backward", "update", "checkpoint")
TOLERANCE = 1e-5


def training_resumes_after_every_kill():
    """Every rank is killed at every moment, one after another; what remains of the plan always resumes. All along, and at
    the end, the checkpoints are those of a training that never failed."""
    import torch
    from programs import make_program
    torch.set_num_threads(1)
    kills = [(signal.SIGKILL, rank, moment) for moment in MOMENTS for rank in range(4)]
    kills += [(signal.SIGSTOP, 0, "forward"), (signal.SIGSTOP, 3, "update"), (signal.SIGINT, 1, "backward")]
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        os.chdir(folder)
        Path("program.json").write_text(json.dumps(make_program(MODEL, **PLAN)))
        Path("smaller.json").write_text(json.dumps(make_program(MODEL, **WITHOUT_A_RANK)))
        last = 2 * len(kills) + 2
        expected = reference_parameters(last)
        longest = 0.0
        for number, rank, moment in kills:
            codes, lines, seconds = train(4, last, Death(rank, moment, number))
            end = INTERRUPTED if number == signal.SIGINT else -signal.SIGKILL
            assert codes == [end if it == rank else 3 for it in range(4)], (number, rank, moment, codes, lines)
            for it in set(range(4)) - {rank}:
                assert len(lines[it]) == 1 and lines[it][0].startswith(f"train.py: rank {rank} (here:{rank} at 10.0.0.{rank}) failed: "), lines
            longest = max(longest, seconds)
            check_checkpoint(expected, moment != "connect")
        codes, lines, _ = train(3, last, program="smaller.json")
        assert codes == [0, 0, 0] and lines == [[], [], []], (codes, lines)
        assert check_checkpoint(expected, True) == last
        os.chdir("/")
    return f"others ended after {longest:.1f} s at most"


def reference_parameters(steps):
    """By step, the parameters of a training in one process that never fails. It runs in another process, because threads
    of autograd must not exist before this one is forked."""
    def compute():
        import torch
        from dtfm_runtime.data import open_data
        from dtfm_runtime.model import Transformer, transformer_model
        from dtfm_runtime.program import read_program
        from dtfm_runtime.single import SingleTrainer
        from dtfm_runtime.training import Options
        model = transformer_model(Transformer.read(MODEL))
        trainer = SingleTrainer(read_program("program.json"), model, open_data("synthetic", model, 1),
                                Options(lr=1e-3, epsilon=1e-6, seed=1, steps=steps))
        result = {}
        for step in range(1, steps + 1):
            trainer.run_iteration()
            result[step] = trainer.parameters()
        torch.save(result, "reference")
    import torch
    assert wait_for([forked(compute, "reference.log")]) == [0], Path("reference.log").read_text()
    return torch.load("reference")


def check_checkpoint(expected, must_exist):
    """The last checkpoint is complete and has the parameters of its step, which is returned."""
    import torch
    from dtfm_runtime import checkpoint
    found = checkpoint.latest("checkpoints")
    if not found:
        assert not must_exist
        return 0
    for layer in range(MODEL["layers"]):
        for name, values in checkpoint.read_layer("checkpoints", found[0], layer).parameters.items():
            assert torch.allclose(values, expected[found[0]][layer, name], rtol=0, atol=TOLERANCE), (found[0], layer, name)
    return found[0]


class Death(NamedTuple):
    """The rank sends itself a signal at that moment of the second iteration, or of the checkpoint after it."""

    rank: int
    moment: str
    number: int

    def prepare(self):
        from dtfm_runtime import checkpoint, compute, training, transport
        micro_batches = PLAN["pipelines"][self.rank // 2][0]
        if self.moment == "connect":
            self._before(transport, "connect", 0)
        if self.moment == "forward":
            self._before(compute.ChunkCompute, "forward", micro_batches + 1)
        if self.moment == "backward":
            self._before(compute.ChunkCompute, "backward", micro_batches + 1)
        if self.moment == "update":
            self._before(training.Trainer, "_update", 1)
        if self.moment == "checkpoint":
            self._before(checkpoint, "_sync_folder", 7)  # before or after all layers are there
            self._before(transport.GlooTransport, "barrier", 2)

    def _before(self, owner, name, calls):
        """Before the call of that function that follows so many others."""
        original, left = getattr(owner, name), [calls]

        def replacement(*arguments, **options):
            left[0] -= 1
            if left[0] == -1:
                os.kill(os.getpid(), self.number)
            return original(*arguments, **options)
        setattr(owner, name, replacement)


def train(world, steps, death=None, program="program.json"):
    """Exit codes, lines of stderr and how long the ranks needed to end after the first of them or, if one is suspended,
    altogether."""
    port = next(PORTS)

    def rank_of(rank):
        def run():
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR=HOST, MASTER_PORT=str(port), LOCAL_RANK="0")
            import train as program_to_run
            if death and rank == death.rank:
                death.prepare()
            sys.argv = ["train.py", "--program", program, "--steps", str(steps), "--checkpoint-dir", "checkpoints", "--checkpoint-every", "1",
                        "--resume", "--timeout", str(TRAINING_LIMIT_S), "--epsilon", "1e-6", "--device", "cpu"]
            return program_to_run.main()
        return run

    children = [forked(rank_of(rank), f"rank-{rank}.log") for rank in range(world)]
    suspended_rank = death.rank if death and death.number == signal.SIGSTOP else None
    begin = wait_for_first(children)
    codes = wait_for(children, suspended_rank)
    return codes, [Path(f"rank-{rank}.log").read_text().splitlines() for rank in range(world)], time.monotonic() - begin


def forked(function, log):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with open(log, "wb") as file, open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code = function() or 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def has_ended(child):
    """Does not reap it."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_for_first(children):
    while not any(map(has_ended, children)):
        time.sleep(0.01)
    return time.monotonic()


def wait_for(children, suspended_rank=None):
    """Exit codes. A child that does not end is killed, as the suspended one is after the others have ended."""
    others = [child for rank, child in enumerate(children) if rank != suspended_rank]
    end = time.monotonic() + TRAINING_LIMIT_S + SLACK_S
    while time.monotonic() < end and not all(map(has_ended, others)):
        time.sleep(0.01)
    for child in children:
        if not has_ended(child):
            os.kill(child, signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


SCENARIOS = [(limits_add_up,), (several_killed,), (killed_before_all_have_started,), (given_up,), (crashed,), (finished,),
             (one_killed_while_others_finish,), (all_interrupted,), (started_wrongly,), (strangers_are_ignored,)]
SCENARIOS += [(killed, 4, rank, mode) for rank in range(4) for mode in ("loop", "hang", "lost")]
SCENARIOS += [(suspended, 3, rank, mode) for rank in range(3) for mode in ("loop", "hang")]
SCENARIOS += [(interrupted, rank, mode, number) for rank in (0, 2) for mode in ("loop", "hang")
              for number in (signal.SIGINT, signal.SIGTERM)]


def main():
    # The processes mostly wait.
    with ThreadPoolExecutor(4) as pool:
        running = [(scenario, pool.submit(timed, *scenario)) for scenario in SCENARIOS]
        for (function, *arguments), result in running:
            print(f"{function.__name__.replace('_', ' ')} {' '.join(map(str, arguments))}: {result.result():.1f} s", flush=True)
    if importlib.util.find_spec("torch") is None:
        print("skipped: training, because PyTorch is missing")
        return 77
    begin = time.monotonic()
    result = training_resumes_after_every_kill()
    print(f"training resumes after every kill: {time.monotonic() - begin:.1f} s, {result}")
    return 0


def timed(function, *arguments):
    begin = time.monotonic()
    function(*arguments)
    return time.monotonic() - begin


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        run_rank(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), sys.argv[6])
    else:
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.exit(main())
