"""Commands that run together, as the ranks of a training do: if one fails, the others would wait forever."""
import contextlib
import os
import signal
import subprocess
import tempfile
import time

END_S = 40  # torchrun gives its ranks 30 s
MAX_OUTPUT = 10000  # characters of a command in an error


class Failed(Exception):
    pass


def run_together(commands, limit_s, **options):
    """Runs pairs of a command and its environment. Returns what each prints. At the end, and as soon as one fails, none of them
    is left, nor what they have started."""
    with contextlib.ExitStack() as files:
        logs = [files.enter_context(tempfile.TemporaryFile("w+", errors="replace")) for _ in commands]
        started = []
        try:
            for (command, environment), log in zip(commands, logs):
                started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                                                **options))
            problem, failed = wait(started, limit_s)
        finally:
            end(started)
        outputs = [read(log) for log in logs]
    if problem:
        outputs.append(outputs.pop(failed))
        raise Failed(f"{' '.join(map(str, started[failed].args))}: {problem}\n" + "\n".join(it[-MAX_OUTPUT:] for it in outputs))
    return outputs


def wait(processes, limit_s):
    """Returns what is wrong, and the number of the process, or no text if all succeed."""
    limit = time.monotonic() + limit_s
    while True:
        codes = [it.poll() for it in processes]
        for number, code in enumerate(codes):
            if code:
                return f"exit code {code}", number
        if None not in codes:
            return "", 0
        if time.monotonic() > limit:
            return f"not done after {limit_s} s", codes.index(None)
        time.sleep(0.02)


def end(processes):
    """Ends the sessions of processes."""
    send(signal.SIGTERM, processes)
    limit = time.monotonic() + END_S
    for it in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            it.wait(max(0, limit - time.monotonic()))
    send(signal.SIGKILL, processes)
    for it in processes:
        it.wait()


def send(number, processes):
    for it in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(it.pid, number)


def read(log):
    log.seek(0)
    return log.read()
