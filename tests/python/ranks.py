"""Starts the ranks of a test on this machine."""
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRAIN = ROOT / "python" / "train.py"
sys.path.insert(0, str(ROOT / "python"))

SKIPPED = 77


def require_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        print("skipped: PyTorch is missing (Debian: python3-torch)")
        sys.exit(SKIPPED)


def error_of(function, *arguments, **options):
    """The message of the UserError that a function raises."""
    from dtfm_runtime.errors import UserError
    try:
        function(*arguments, **options)
    except UserError as error:
        assert "\n" not in str(error), error
        return str(error)
    raise AssertionError("no error")


def free_port():
    """A port with a free one after it, for the watchdog."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", 0))
                second.bind(("127.0.0.1", first.getsockname()[1] + 1))
                return first.getsockname()[1]
            except (OSError, OverflowError):
                continue


def environment(**changes):
    """Of a process that computes with one thread. A change to None removes a variable."""
    kept = {key: value for key, value in os.environ.items()
            if key not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "GLOO_SOCKET_IFNAME")}
    kept.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    kept.update({key: str(value) for key, value in changes.items() if value is not None})
    return kept


def train(*arguments, limit_s=120, **variables):
    """Runs train.py once. Returns exit code, standard output and standard error."""
    done = subprocess.run([sys.executable, TRAIN, *map(str, arguments)], capture_output=True, text=True, timeout=limit_s, check=False,
                          env=environment(**variables))
    return done.returncode, done.stdout, done.stderr


def train_forked(*arguments, limit_s=120, **variables):
    """As `train`, in a fork of this process, which has imported torch already. Importing takes most of the time of a
    process that ends with an error."""
    import torch  # noqa: F401
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            run_forked(output.fileno(), errors.fileno(), list(map(str, arguments)), environment(**variables))
        end = time.monotonic() + limit_s
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
        for file in (output, errors):
            file.seek(0)
        return os.waitstatus_to_exitcode(status), output.read().decode(), errors.read().decode()


def run_forked(output, errors, arguments, variables):
    code = 1
    try:
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:0] = filter(None, variables.get("PYTHONPATH", "").split(":"))
        sys.argv = [str(TRAIN), *arguments]
        code = 0
        runpy.run_path(str(TRAIN), run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def train_ranks(ranks, *arguments, each=lambda rank: (), limit_s=240, port=None, **variables):
    """Runs train.py on all ranks. `each`: more arguments of a rank. Returns exit code, output and errors of each."""
    port = port or free_port()
    started = [subprocess.Popen([sys.executable, TRAIN, *map(str, (*arguments, *each(rank)))], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env=environment(RANK=rank, WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **variables))
               for rank in range(ranks)]
    end = time.monotonic() + limit_s
    try:
        return [(it.returncode, *output) for it in started for output in [it.communicate(timeout=max(0.1, end - time.monotonic()))]]
    finally:
        for it in started:
            it.kill()


def run_in_ranks(script, ranks, arguments, limit_s):
    """Runs `script rank RANK FOLDER ARGUMENTS` in as many processes, with a folder for all. Fails if one of them does."""
    with tempfile.TemporaryDirectory() as folder:
        variables = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(), GLOO_SOCKET_IFNAME="lo")
        started = [subprocess.Popen([sys.executable, script, "rank", str(rank), folder, *map(str, arguments)], env=variables)
                   for rank in range(ranks)]
        end = time.monotonic() + limit_s
        try:
            while any(it.poll() is None for it in started):
                assert not any(it.poll() for it in started), "a rank has failed"
                assert time.monotonic() < end, f"the ranks take longer than {limit_s} s"
                time.sleep(0.05)
            assert not any(it.returncode for it in started), "a rank has failed"
        finally:
            for it in started:
                it.kill()
                it.wait()


def main(test, rank_test=None):
    """Of a test that `run_in_ranks` runs again: `rank_test` gets rank, folder and the other arguments."""
    require_torch()
    if sys.argv[1:2] != ["rank"]:
        test()
        return
    try:
        import torch
        torch.set_num_threads(1)
        rank_test(int(sys.argv[2]), sys.argv[3], *sys.argv[4:])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # Gloo's destructors wait for the others
    sys.stdout.flush()
    os._exit(0)
