#!/usr/bin/env python3
"""Profiles passed through a job and a plan to dtfm-sim.

usage: profile_sim.py DTFM-PLAN DTFM-SIM DTFM-PROFILE

With recomputation `none`, a device computes in each iteration one forward and one backward pass for
each of its layers and micro-batches. The tests compare runs, so that everything cancels out that
does not depend on the profile.
"""
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

LAYERS, MICRO_BATCHES, ITERATIONS = 4, 3, 2
# GPUs without a peak, whose times must come from a profile.
TOPOLOGY = """\
version: 1
name: two-cards
gpus: [{name: one, memory: 16 GB}, {name: two, memory: 16 GB}]
devices:
  - {name: first, site: here, gpu: one}
  - {name: second, site: here, gpu: two}
links: [{within: "*", latency: 1 ms, bandwidth: 10 Gbps}]
"""
JOB = """\
version: 1
name: small
model: {{kind: transformer, layers: 4, hidden: 64, heads: 4, sequence: 128, vocabulary: 1000}}
training: {{global_batch: {batch}, micro_batch: {micro_batch}}}
parallelism: {{pipeline: 2}}
profile: {profile}
"""
# This search uses both devices and needs no times.
BY_COST = ("--objective", "comm-cost")
PLAN, SIM, PROFILE = (Path(name).resolve() for name in sys.argv[1:4])
failures = []


def check(holds, *what):
    if not holds:
        failures.append(" ".join(str(part) for part in what))


def run(program, *arguments, folder, status=0):
    done = subprocess.run([program, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    check(done.returncode == status, f"{program.name} {arguments}: exit {done.returncode} instead of {status}: {done.stderr}")
    return done


def row(kind, micro_batch, forward, backward):
    return {"kind": kind, "micro_batch": micro_batch, "forward_s": forward, "backward_s": backward}


def profile(gpu, *blocks):
    """Returns a profile of blocks at (micro-batch, forward, backward); embedding and head take 1 s at
    any size."""
    rows = [row("block", *block) for block in blocks]
    rows += [row(kind, size, 0.5, 0.5) for kind in ("embedding", "head") for size in (1, 64)]
    return {"schema": "dtfm-profile/1", "gpu": gpu, "source": "measured", "precision": "fp16", "model": "small", "layers": rows}


def simulated(folder, profiles, micro_batch=1, named=True):
    """Returns dtfm-sim's report and summary, and the plan, made from files that are deleted before the
    simulation."""
    names = []
    for index, one in enumerate(profiles):
        names.append(f"profiles/{index}.json" if named else json.dumps(one))
        (folder / "profiles").mkdir(exist_ok=True)
        (folder / f"profiles/{index}.json").write_text(json.dumps(one))
    (folder / "job.yaml").write_text(JOB.format(
        batch=MICRO_BATCHES * micro_batch, micro_batch=micro_batch, profile=f"[{', '.join(names)}]"))
    run(PLAN, "net.yaml", "--job", "job.yaml", "-o", "plan.json", *BY_COST, "--quiet", folder=folder)
    for file in [*folder.glob("profiles/*"), folder / "job.yaml"]:
        file.unlink()
    done = run(SIM, "net.yaml", "plan.json", "--iterations", ITERATIONS, "-o", "result.json", folder=folder)
    plan = json.loads((folder / "plan.json").read_text())
    return json.loads((folder / "result.json").read_text()), done.stdout, plan


def compute(report):
    return {device["device"]: device["compute_s"] for device in report["devices"]}


def test_two_gpus(folder):
    ones, twos = profile("one", (1, 1, 2)), profile("two", (1, 3, 4))
    report, text, plan = simulated(folder, [ones, twos])
    check(len(plan["job"]["profile"]) == 2, "the plan does not hold the two profiles", plan["job"]["profile"])
    check("extrapolated" not in text and "estimate" not in text, "a note on times that were measured:", text)
    # Block and embedding or head: 2 blocks of 3 s and 1 s, or of 7 s and 1 s.
    runs = ITERATIONS * MICRO_BATCHES
    check(math.isclose(compute(report)["first"], runs * (2 * 3 + 1)) or math.isclose(compute(report)["first"], runs * (2 * 7 + 1)),
          "compute of the first device", compute(report))
    slower, _, _ = simulated(folder, [ones, profile("two", (1, 3.25, 4))])
    for device, more in {"first": 0, "second": runs * LAYERS / 2 * 0.25}.items():
        got = compute(slower)[device] - compute(report)[device]
        check(math.isclose(got, more, abs_tol=1e-6), f"{device}: 0.25 s more a forward made {got} s, not {more} s")
    in_place, _, _ = simulated(folder, [ones, twos], named=False)
    check(in_place == report, "a profile in place of its name gives another result")


def test_interpolation(folder):
    """Rows at 1 and 3: a micro-batch of 2 takes their mean; a micro-batch of 4 is extrapolated, with a
    note."""
    twos = profile("two", (1, 1, 1), (64, 1, 1))
    between, text, _ = simulated(folder, [profile("one", (1, 1, 2), (3, 2, 6)), twos], micro_batch=2)
    exact, _, _ = simulated(folder, [profile("one", (2, 1.5, 4)), twos], micro_batch=2)
    check(compute(between) == compute(exact), "between two sizes", compute(between), compute(exact))
    check("extrapolated" not in text, "a note on extrapolation between two sizes:", text)
    beyond, text, _ = simulated(folder, [profile("one", (1, 1, 2), (3, 2, 6)), twos], micro_batch=4)
    exact, _, _ = simulated(folder, [profile("one", (4, 2.5, 8)), twos], micro_batch=4)
    check(compute(beyond) == compute(exact), "beyond the largest size", compute(beyond), compute(exact))
    check("note: times on GPU one are extrapolated" in text, "no note on extrapolation:", text)


def test_other_gpus(folder):
    """A profile of a GPU that no device has is not used, and a GPU without a profile is an error."""
    (folder / "ones.json").write_text(json.dumps(profile("one", (1, 1, 2))))
    (folder / "threes.json").write_text(json.dumps(profile("three", (1, 1, 2))))
    (folder / "job.yaml").write_text(JOB.format(batch=3, micro_batch=1, profile="[ones.json, threes.json]"))
    run(PLAN, "net.yaml", "--job", "job.yaml", "-o", "plan.json", *BY_COST, "--quiet", folder=folder)
    done = run(SIM, "net.yaml", "plan.json", folder=folder, status=2)
    check("times on GPU two cannot be estimated" in done.stderr, "a GPU without profile and peak:", done.stderr)
    (folder / "card.yaml").write_text(TOPOLOGY.replace("name: two,", "name: two, peak: 1 TFLOP/s, memory_bandwidth: 100 GB/s,"))
    run(PLAN, "card.yaml", "--job", "job.yaml", "-o", "plan.json", *BY_COST, "--quiet", folder=folder)
    done = run(SIM, "card.yaml", "plan.json", folder=folder)
    check("note: times on GPU two are estimates: the job has no profile of it, only of one, three\n" in done.stdout,
          "no note on an estimate:", done.stdout)


def test_rejected_input(folder):
    (folder / "below").mkdir()
    (folder / "ones.json").write_text(json.dumps(profile("one", (1, 1, 2))))
    (folder / "bad.json").write_text(json.dumps(profile("one", (1, -1, 2)), indent=1))
    for name, words in {"../ones.json": "below/job.yaml:6:10: `profile`: `../ones.json` is outside the folder of this file",
                        str(folder / "ones.json"): "is outside the folder of this file",
                        "none.json": "below/job.yaml:6:10: `profile`: below/none.json: cannot be opened"}.items():
        (folder / "below/job.yaml").write_text(JOB.format(batch=3, micro_batch=1, profile=name))
        done = run(PLAN, "net.yaml", "--job", "below/job.yaml", "-o", "refused.json", folder=folder, status=2)
        check(words in done.stderr, f"profile {name}:", done.stderr)
    for name, words in {"bad.json": "bad.json:", "[ones.json, ones.json]": "there are two profiles of GPU `one`"}.items():
        (folder / "job.yaml").write_text(JOB.format(batch=3, micro_batch=1, profile=name))
        done = run(PLAN, "net.yaml", "--job", "job.yaml", "-o", "refused.json", folder=folder, status=2)
        check(words in done.stderr, f"profile {name}:", done.stderr)
    check(not (folder / "refused.json").exists(), "a refused profile made a plan")


def test_own_profile(folder):
    """A job accepts what dtfm-profile writes."""
    (folder / "net.yaml").write_text(TOPOLOGY.replace("gpu: two", "gpu: one").replace("gpu: one", "gpu: V100-16GB"))
    (folder / "job.yaml").write_text(JOB.format(batch=3, micro_batch=2, profile="v100.json").replace("batch: 3", "batch: 6"))
    job = (folder / "job.yaml").read_text()
    (folder / "bare.yaml").write_text("".join(line for line in job.splitlines(True) if not line.startswith("profile")))
    run(PROFILE, "--estimate", "V100-16GB", "--job", "bare.yaml", "--micro-batch", "1,4", "-o", "v100.json", folder=folder)
    times = []
    for name in ("job.yaml", "bare.yaml"):
        run(PLAN, "net.yaml", "--job", name, "-o", "plan.json", *BY_COST, "--quiet", folder=folder)
        run(SIM, "net.yaml", "plan.json", "-o", "result.json", folder=folder)
        times.append(json.loads((folder / "result.json").read_text())["iteration_time_s"]["mean"])
    # The roofline is linear in the micro-batch, so interpolating between two sizes of the profile gives the
    # same value.
    check(math.isclose(*times, rel_tol=1e-9), "an estimate in a file and one without", times)


for test in [value for name, value in list(globals().items()) if name.startswith("test_")]:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "net.yaml").write_text(TOPOLOGY)
        before = len(failures)
        test(place)
        print("FAILED" if len(failures) > before else "ok", test.__name__)
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
