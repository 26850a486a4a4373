"""Runs train.py of several exports one after the other, each with all ranks, as forks of one process: importing PyTorch
takes longer than a short training. Output is in rank-N.log of the folders.

usage: forked_ranks.py MODULE RUNS     MODULE: what every train.py imports; RUNS: JSON, [[FOLDER, RANKS, [OPTION, ...]], ...]
"""
import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
from ranks import free_port  # noqa: E402


def train(folder, rank, ranks, options, port):
    """In a process of its own. Returns the exit code."""
    log = os.open(folder / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    sys.argv = [str(folder / "train.py"), *options]
    sys.path[0] = str(folder)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def train_all(folder, ranks, options):
    """Returns whether all ranks have succeeded. If one fails, the others would wait forever."""
    port, children = free_port(), []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            code = train(folder, rank, ranks, options, port)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        children.append(child)
    while children:
        child, status = os.wait()
        children.remove(child)
        if status != 0:
            for other in children:
                os.kill(other, signal.SIGKILL)
                os.waitpid(other, 0)
            return False
    return True


def main():
    for name in (sys.argv[1], "torch._dynamo"):  # the latter for the first step of an optimizer
        importlib.import_module(name)
    for folder, ranks, options in json.loads(sys.argv[2]):
        if not train_all(Path(folder), ranks, options):
            logs = sorted(Path(folder).glob("rank-*.log"))
            sys.exit(f"{folder} failed\n" + "".join(log.read_text() for log in logs))


if __name__ == "__main__":
    main()
