#!/usr/bin/env python3
"""Checks that two builds compute the same: runs the programs of each, then compares the numbers that they wrote.

    compare-builds.py run BUILD_DIR OUT_DIR     plans, simulates, exports and compares schemes on every topology
    compare-builds.py diff OLD_DIR NEW_DIR      compares two such folders, number by number

`run` writes OUT_DIR/plans, simulations, exports, comparisons, the scenarios that it used, and exit-codes.json. It fails
if a program ends with another code than 0 or 3 (infeasible). Every search ends by itself and every random number
has a fixed seed, so that two runs of one build are identical.

`diff` compares numbers as doubles, without a tolerance, and the strings under NAMES. It ignores all other strings,
which are free text. It exits with 0 if nothing differs, 1 if something does, and 2 if it cannot compare the folders.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import string
import subprocess
import sys
import tempfile

# What is compared. -----------------------------------------------------------------------------------------

# Keys whose strings are ids or names. Other strings are free text.
NAMES = {
    "device", "devices", "fingerprint", "from", "gradient_sync", "groups", "name", "objective", "out_of_memory",
    "pipeline_major", "schedule", "scheme", "stage_major", "strategy", "to", "unused",
}
# Lists of free text, of which even the length does not count.
FREE_TEXT = {"notes", "warnings"}
# The top-level keys that are compared, for each kind of file; None means all.
COMPARED = {
    "plans": {"topology", "objective", "parallelism", "pipelines", "groups", "ranks", "unused", "estimate",
              "lower_bound", "finalists", "search"},
    "simulations": None,
    "exports": None,
    "comparisons": None,
}
# Files of an export that are the same for every plan.
RUNTIME = {"train.py", "dtfm_runtime"}

# What is run. ----------------------------------------------------------------------------------------------

OBJECTIVES = ["iteration-time", "comm-cost"]
SEEDS = [0, 1]
QUICK_TOPOLOGIES = ["regional", "three-clouds"]
QUICK_SEEDS = [0]
INFEASIBLE = 3
# The stages of the default job do not divide 33 devices.
PLAN_OPTIONS = {("onprem-cloud", "comm-cost"): ["--pipeline", "3"]}
# What every plan is exported to, and what a plan made for it is exported to.
LAUNCHERS = ["kubernetes", "netem", "openmpi", "petals", "slurm", "torchrun"]
TRAINERS = ["deepspeed", "dtfm", "megatron", "pytorch", "pytorch-pipelining", "torchtitan"]
SHORT_SEARCH = ["--evaluations", "2000", "--finalists", "2"]
UNDISTURBED_ITERATIONS = 3
DISTURBED_ITERATIONS = 6

RECOVERY_POLICIES = ["restart-without-pipeline", "wait", "spare", "restart", "drop-pipeline", "redundant", "replan"]
# The policy of the failures under which dtfm-compare runs.
COMPARED_POLICY = "restart"

# Times are in undisturbed iterations of the plan: `$t1.4` stands for 1.4 of them. `$first` and `$last` are devices
# of the plan, `$site` is the site of the first.
FAILURES = """\
version: 1
name: failures
events:
  - {at: $t1.4 s, device: "$first", leave: true}
  - {at: $t2.3 s, device: "$last", leave: true}
  - {at: $t3.2 s, device: "$first", join: true}
  - {at: $t4.1 s, site: "$site", speed: 0.4}
  - {at: $t5.1 s, device: "$last", join: true}
recovery:
  policy: $policy
  detection: $t0.2 s
  exclude_slower_than: 0.5
  checkpoint: {period: $t1.5 s, bandwidth: 10 Gbps}
"""
NETWORK = """\
version: 1
name: network
seed: 7
bandwidth:
  - {from: "*", to: "*", trace: {file: bandwidth.csv, kind: relative, repeat: true}}
  - {between: ["$first", "$last"], trace: {file: link.csv, kind: absolute, unit: Gbps}}
latency:
  - {from: "$site", to: "*", trace: {file: latency.csv, kind: relative, repeat: $t0.9 s}}
events:
  - {at: $t0.5 s, device: "$last", speed: 0.4}
  - {at: $t1.5 s, site: "$site", speed: 0.8}
  - {at: $t3.5 s, device: "$last", speed: 1}
compute_jitter: {kind: lognormal, cv: 0.05}
"""
NETWORK_TRACES = {
    "bandwidth.csv": "time,factor\n0,1\n$t0.3,0.6\n$t0.7,1.2\n$t1.1,0.8\n",
    "latency.csv": "time,factor\n0,1\n$t0.2,3\n$t0.6,1.5\n",
    "link.csv": "time,gbps\n$t0.8,0.3\n$t2.6,1.7\n",
}


def fail(message):
    print(f"compare-builds.py: {message}", file=sys.stderr)
    sys.exit(2)


class ScenarioText(string.Template):
    idpattern = r"t\d\.\d|[a-z]+"


class Iterations(dict):
    """The values of a scenario's text; `t1.4` is computed from the time of an iteration."""

    def __init__(self, iteration_s, **values):
        super().__init__(values)
        self.iteration_s = iteration_s

    def __missing__(self, name):
        return f"{float(name[1:]) * self.iteration_s:.6f}"


def write_scenarios(folder, plan, iteration_s):
    """Writes the scenarios of a plan and returns their files by name."""
    first = plan["pipelines"][0]["stages"][0]["devices"][0]
    last = plan["pipelines"][-1]["stages"][-1]["devices"][-1]
    values = Iterations(iteration_s, first=first, last=last, site=first.split("/")[0])
    texts = {"network.yaml": NETWORK, **NETWORK_TRACES}
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(ScenarioText(text).substitute(values))
    for policy in RECOVERY_POLICIES:
        values["policy"] = policy
        (folder / f"failures-{policy}.yaml").write_text(ScenarioText(FAILURES).substitute(values))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


class Case:
    """One plan, its simulations and, where `compares`, the comparison of schemes on its topology."""

    def __init__(self, build, out, topology, objective, seed, compares):
        self.build, self.out, self.topology, self.objective, self.seed = build, out, topology, objective, seed
        self.compares = compares
        self.name = f"{topology.stem}.{objective}.{seed}"
        self.exit_codes = {}

    def run(self):
        options = PLAN_OPTIONS.get((self.topology.stem, self.objective), [])
        plan = self.program("dtfm-plan", f"plans/{self.name}.json", "--objective", self.objective,
                            "--seed", str(self.seed), *options)
        scenarios = self.simulate(plan) if plan.exists() else {}
        if plan.exists():
            self.export(plan, LAUNCHERS)
        if self.compares:
            for trainer in TRAINERS:
                plan = self.program("dtfm-plan", f"plans/{self.name}.{trainer}.json", "--target", trainer, *SHORT_SEARCH)
                if plan.exists():
                    self.export(plan, [trainer])
            compared = [scenarios[name] for name in (f"failures-{COMPARED_POLICY}", "network") if name in scenarios]
            self.program("dtfm-compare", f"comparisons/{self.topology.stem}.json", "--seed", str(self.seed),
                         *itertools.chain.from_iterable(("--scenario", path) for path in compared))
        return self.exit_codes

    def simulate(self, plan):
        """Simulates a plan without and with scenarios, and returns the files of these."""
        undisturbed = self.program("dtfm-sim", f"simulations/{self.name}.undisturbed.json", plan,
                                   "--iterations", str(UNDISTURBED_ITERATIONS))
        length_s = json.loads(undisturbed.read_text())["length_s"] if undisturbed.exists() else 0
        if length_s == 0:
            return {}
        scenarios = write_scenarios(self.out / "scenarios" / self.name, json.loads(plan.read_text()),
                                    length_s / UNDISTURBED_ITERATIONS)
        for name, path in scenarios.items():
            samples = ["--samples", "3"] if name == "network" else []
            self.program("dtfm-sim", f"simulations/{self.name}.{name}.json", plan, "--scenario", path,
                         "--iterations", str(DISTURBED_ITERATIONS), *samples)
        return scenarios

    def export(self, plan, exporters):
        """Exports a plan, and writes the texts of each export as one document, or why there is none."""
        for exporter in exporters:
            output = f"exports/{self.name}.{exporter}.json"
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([self.build / "dtfm-export", plan, "--to", exporter, "--topology", self.topology,
                                       "-o", f"{folder}/export"],
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True)
                files = {path.relative_to(folder).as_posix(): path.read_text()
                         for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}
            texts = {name: text for name, text in files.items() if name.split("/")[1] not in RUNTIME}
            (self.out / output).write_text(json.dumps(texts or {"error": done.stderr.replace(str(self.out), "")}, indent=1))
            self.exit_codes[output] = 0 if texts else INFEASIBLE

    def program(self, name, output, *arguments):
        """Runs a program on the topology, notes its exit code, and returns the path of its output."""
        path = self.out / output
        command = [self.build / name, self.topology, *arguments, "--threads", "1", "--quiet", "-o", path]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True)
        self.exit_codes[output] = done.returncode
        if done.returncode not in (0, INFEASIBLE):
            print(f"{output}: exit code {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
        return path


def run(arguments):
    build, out = arguments.build.resolve(), arguments.out.resolve()
    topologies = sorted(arguments.topologies.resolve().glob("*.yaml"))
    if arguments.quick:
        topologies = [path for path in topologies if path.stem in QUICK_TOPOLOGIES]
    if not topologies:
        fail(f"no topologies in {arguments.topologies}")
    for program in ("dtfm-plan", "dtfm-sim", "dtfm-export", "dtfm-compare"):
        if not (build / program).exists():
            fail(f"{build} has no {program}")
    if out.exists() and any(out.iterdir()):
        fail(f"{out} is not empty")
    for kind in COMPARED:
        (out / kind).mkdir(parents=True, exist_ok=True)
    # The cases with a comparison take longest and come first.
    cases = [Case(build, out, topology, objective, seed, compares=objective == OBJECTIVES[0] and seed == SEEDS[0])
             for objective in OBJECTIVES for seed in (QUICK_SEEDS if arguments.quick else SEEDS)
             for topology in topologies]
    exit_codes = {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        try:
            for codes in pool.map(Case.run, cases):
                exit_codes.update(codes)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    (out / "exit-codes.json").write_text(json.dumps(exit_codes, indent=1, sort_keys=True) + "\n")
    codes = list(exit_codes.values())
    failed = len(codes) - codes.count(0) - codes.count(INFEASIBLE)
    print(f"{len(codes)} programs run: {codes.count(0)} done, {codes.count(INFEASIBLE)} infeasible, {failed} failed")
    return 1 if failed else 0


class Comparison:
    """Walks two documents together, collects what differs, and counts the numbers that were compared."""

    def __init__(self, compares_text):
        self.compares_text = compares_text  # also strings that are not NAMES
        self.numbers = 0
        self.differences = []

    def differ(self, path, old, new):
        self.differences.append(f"{path}: {short(old)} != {short(new)}")

    def compare(self, old, new, path="", key=""):
        """`key` is the name of the member that holds the values, or the list of them."""
        if key in FREE_TEXT:
            return
        if type(old) is not type(new):
            self.differ(path, old, new)
        elif isinstance(old, dict):
            self.compare_members(old, new, path)
        elif isinstance(old, list):
            if len(old) != len(new):
                self.differ(f"length of {path}", len(old), len(new))
            for index, (one, other) in enumerate(zip(old, new)):
                self.compare(one, other, f"{path}[{index}]", key)
        elif isinstance(old, str):
            if (key in NAMES or self.compares_text) and old != new:
                self.differ(path, old, new)
        else:
            self.numbers += isinstance(old, float)
            if old != new:
                self.differ(path, old, new)

    def compare_members(self, old, new, path):
        for key in [*old, *(key for key in new if key not in old)]:
            member = f"{path}.{key}" if path else key
            if key in old and key in new:
                self.compare(old[key], new[key], member, key)
            else:
                self.differences.append(f"{member}: only on the {'old' if key in old else 'new'} side")

    def compare_files(self, old, new, kind):
        """Compares the output of one run of a program, which may be missing on both sides."""
        if old.exists() and new.exists():
            documents = (json.loads(path.read_text(), parse_int=float) for path in (old, new))
            self.compare(*(members(document, COMPARED[kind]) for document in documents))
        elif old.exists() or new.exists():
            self.differences.append(f"only on the {'old' if old.exists() else 'new'} side")


def members(document, keys):
    return document if keys is None else {key: value for key, value in document.items() if key in keys}


def short(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def diff(arguments):
    folders = arguments.old, arguments.new
    for folder in folders:
        if not (folder / "exit-codes.json").exists():
            fail(f"{folder} has no exit-codes.json; is it the result of a complete run?")
    old_codes, new_codes = (json.loads((folder / "exit-codes.json").read_text()) for folder in folders)
    names = old_codes.keys() & new_codes.keys() if arguments.common else old_codes.keys() | new_codes.keys()
    differs = False
    for kind in COMPARED:
        files = sorted(name for name in names if name.startswith(kind + "/"))
        numbers, found = 0, {}
        for name in files:
            comparison = Comparison(compares_text=kind == "exports")
            if name not in old_codes or name not in new_codes:
                comparison.differences.append(f"only in {arguments.old if name in old_codes else arguments.new}")
            else:
                if old_codes[name] != new_codes[name]:
                    comparison.differ("exit code", old_codes[name], new_codes[name])
                comparison.compare_files(arguments.old / name, arguments.new / name, kind)
            numbers += comparison.numbers
            if comparison.differences:
                found[name] = comparison.differences
        count = sum(map(len, found.values()))
        print(f"{kind}: {len(files)} runs, {numbers} numbers compared, {count} differences in {len(found)} files")
        lines = (f"  {name}: {line}" for name, differences in found.items() for line in differences)
        for line in itertools.islice(lines, arguments.show):
            print(line)
        differs = differs or bool(found)
    if not names:
        fail("the folders have no run in common")
    return 1 if differs else 0


def main():
    repository = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("run", help="run the programs of a build")
    command.add_argument("build", metavar="BUILD_DIR", type=pathlib.Path, help="has dtfm-plan, dtfm-sim, dtfm-export, dtfm-compare")
    command.add_argument("out", metavar="OUT_DIR", type=pathlib.Path, help="a new or empty folder")
    command.add_argument("--topologies", metavar="DIR", type=pathlib.Path, default=repository / "topologies",
                         help="folder of topologies [that of this repository]")
    command.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count(),
                         help="programs that run concurrently, one thread each [number of cores]")
    command.add_argument("--quick", action="store_true",
                         help=f"only seed 0 and the topologies {', '.join(QUICK_TOPOLOGIES)}")
    command.set_defaults(function=run)

    command = commands.add_parser("diff", help="compare the results of two runs")
    command.add_argument("old", metavar="OLD_DIR", type=pathlib.Path, help="results of the older build")
    command.add_argument("new", metavar="NEW_DIR", type=pathlib.Path, help="results of the newer build")
    command.add_argument("--common", action="store_true",
                         help="compare what both folders have, for example a quick run with a full one")
    command.add_argument("--show", metavar="N", type=int, default=5,
                         help="differences that are printed for each kind of file [5]")
    command.set_defaults(function=diff)

    arguments = parser.parse_args()
    sys.exit(arguments.function(arguments))


if __name__ == "__main__":
    main()
