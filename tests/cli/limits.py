#!/usr/bin/env python3
"""Ctrl-C and --time-limit hold for huge batches and many devices. The timeouts are far longer than an answer
takes, and far shorter than the work that it cuts short.

usage: limits.py DTFM-PLAN DTFM-SIM
"""
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from simulate import PLAN, SIM, check, main

GENERATOR = Path(__file__).resolve().parents[2] / "scripts" / "generate-topology.py"
ANSWER_S = 30  # far more than the answer takes, even on a busy machine
SIX = """\
version: 1
name: six
devices:
  - {site: oregon, count: 3, gpu: V100-16GB}
  - {site: ohio, count: 3, gpu: V100-16GB}
links:
  - {within: "*", latency: 0.1 ms, bandwidth: 10 Gbps}
  - {between: ["*", "*"], latency: 20 ms, bandwidth: 1 Gbps}
"""


def job(batch, parallelism="{}"):
    return f"""\
version: 1
name: huge-batch
model: {{kind: transformer, layers: 24, hidden: 1024, heads: 16, sequence: 128, vocabulary: 30000}}
training: {{global_batch: {batch}, micro_batch: 1, precision: fp16}}
parallelism: {parallelism}
"""


def write(name, text):
    Path(name).write_text(text, encoding="utf-8")
    return name


def many_devices():
    """256 devices, all links of which differ."""
    if not Path("many.yaml").exists():
        subprocess.run([sys.executable, GENERATOR, "--devices", "256", "--sites", "8", "--noise", "0.1", "-o", "many.yaml"], check=True)
    return "many.yaml"


def interrupted(seconds, *command):
    """Signals the command after so many seconds. Returns what it printed to stderr."""
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=ANSWER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            check(False, command, "ignores Ctrl-C after", seconds, "s")
            return ""
    check(process.returncode in (0, 130), command, "exits with", process.returncode, err)
    return err


def test_huge_batches():
    """Costs of plans and bounds do not grow with the number of micro-batches."""
    write("six.yaml", SIX)
    for parallelism in ("{schedule: gpipe}", "{schedule: 1f1b}", "{schedule: gpipe, flush: 7}", "{schedule: gpipe, uniform_pipelines: true}"):
        write("huge.yaml", job(10**9, parallelism))
        done = subprocess.run([PLAN, "six.yaml", "--job", "huge.yaml", "--evaluations", "3000", "-o", "huge.json", "--quiet"],
                              capture_output=True, text=True, timeout=120, check=False)
        check(done.returncode == 0, parallelism, done.stderr)
        plan = json.loads(Path("huge.json").read_text(encoding="utf-8"))
        check(any("computations per iteration, more than the limit of 2e+07" in it for it in plan["warnings"]), plan["warnings"])
        check(0 < plan["lower_bound"]["value"] <= plan["estimate"]["iteration_time_s"], plan["lower_bound"])


def test_interrupts_with_huge_batches():
    write("six.yaml", SIX)
    for batch in (10**6, 10**9):
        write("huge.yaml", job(batch))
        for seconds in (0.3, 3):
            Path("cut.json").unlink(missing_ok=True)
            err = interrupted(seconds, PLAN, "six.yaml", "--job", "huge.yaml", "-o", "cut.json", "--quiet")
            check(json.loads(Path("cut.json").read_text(encoding="utf-8"))["pipelines"], err)


def test_interrupted_simulation():
    """The graph of the iteration takes longer to build than the signal takes to come."""
    write("six.yaml", SIX)
    write("huge.yaml", job(10**6))
    layers = [{"layers": [4 * i, 4 * i + 4], "devices": [f"{'oregon' if i < 3 else 'ohio'}/{i % 3}"]} for i in range(6)]
    write("six.json", json.dumps({"pipelines": [{"micro_batches": 10**6, "stages": layers}]}))
    interrupted(1, SIM, "six.yaml", "six.json", "--job", "huge.yaml", "-o", "cut.json", "--quiet")
    result = json.loads(Path("cut.json").read_text(encoding="utf-8"))
    check(result["iterations"] == [] and result["stopped"], result["stopped"])


def test_time_limit():
    """The limit covers reading, search, simulations and the bound. On a busy machine it may expire before
    a plan that fits in memory is found; the plan and the exit code then say so."""
    for more in ((), ("--explain",), ("--pareto", "front.json"), ("--objective", "comm-cost")):
        done = subprocess.run([PLAN, many_devices(), "--time-limit", "1", "-o", "timed.json", *more],
                              capture_output=True, text=True, timeout=ANSWER_S, check=False)
        plan = json.loads(Path("timed.json").read_text(encoding="utf-8"))
        does_fit = not any("no plan that fits the memory" in it for it in plan.get("warnings", []))
        check(done.returncode == (0 if does_fit else 3), more, done.returncode, does_fit, done.stderr)
        check(plan["search"]["stopped"] == "time-limit", more, plan["search"]["stopped"])


if __name__ == "__main__":
    sys.exit(main(globals()))
