"""Plans for a trainer and their exports, which the tests of trainers give to the trainer's own objects."""

import itertools
import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SKIPPED = 77  # exit code of a test that was skipped
CONTINUED = "DTFM_TEST_CONTINUED_IN"  # environment variable: the Python in which a test continues
SOURCE = Path(__file__).resolve().parents[2]
REPORTS = SOURCE.parent / "shared" / "cases" / "reports"

# name: sites of hosts of GPUs, GPU of each site, bandwidth between the hosts of each site, and between sites
CLUSTERS = {
    "four": ([[1, 1, 1, 1]], ["A100-80GB"], ["25 Gbps"], "1 Gbps"),
    "three": ([[3], [3]], ["A100-80GB"] * 2, ["10 Gbps"] * 2, "1 Gbps"),
    "pairs": ([[2, 2], [2, 2]], ["A100-80GB"] * 2, ["25 Gbps"] * 2, "500 Mbps"),
    "host": ([[8]], ["H100"], ["100 Gbps"], "1 Gbps"),
    "hosts": ([[4, 4], [4, 4]], ["H100"] * 2, ["100 Gbps"] * 2, "5 Gbps"),
    "far": ([[1]] * 6, ["H100"] * 6, ["10 Gbps"] * 6, "93 Mbps"),
    "mixed": ([[2, 2], [4]], ["A100-40GB"] * 2, ["25 Gbps"] * 2, "2 Gbps"),
}
MIN_CLUSTERS = 20  # of all exports of a test
MAX_DEVICES = 16


def random_cluster(seed):
    random_, sites = random.Random(seed), []
    while not 4 <= sum(map(sum, sites)) <= MAX_DEVICES:
        sites = [[random_.choice((1, 2, 2, 4, 8))] * random_.randint(1, 4) for _ in range(random_.randint(1, 4))]
        if random_.random() < 0.5:  # hosts with unequal numbers of GPUs
            sites[0][0] = random_.randint(1, 4)
    kinds = random_.sample(("A100-40GB", "A100-80GB", "A40", "H100", "H200", "L40S", "RTX-4090"), 2)
    return (sites, [random_.choice(kinds) for _ in sites], [f"{random_.choice((10, 25, 100, 400))} Gbps" for _ in sites],
            f"{random_.choice((100, 300, 1000, 5000, 20000))} Mbps")  # fmt: skip


CLUSTERS |= {f"random-{seed}": random_cluster(seed) for seed in range(17)}

GPT = "kind: transformer, layers: 12, hidden: 768, heads: 12, sequence: 1024, vocabulary: 50257"
LLAMA = (
    "kind: transformer, layers: 12, hidden: 1024, heads: 16, kv_heads: 4, feed_forward: 2816, sequence: 1024, "
    "vocabulary: 32000, gated: true, biases: false, norm: rms, positions: rotary, attention: flash"
)


def cluster_text(name):
    sites, gpus, between_hosts, between_sites = CLUSTERS[name]
    devices, links = [], ["{within: host, latency: 5 us, bandwidth: 2400 Gbps}"]
    for site, hosts, gpu, bandwidth in zip("abcdefgh", sites, gpus, between_hosts):
        for count, group in itertools.groupby(hosts):
            devices.append(
                f"{{site: {site}, hosts: {len(list(group))}, gpus_per_host: {count}, gpu: {gpu}}}"
            )
        links.append(f"{{within: {site}, latency: 50 us, bandwidth: {bandwidth}}}")
    if len(sites) > 1:
        links.append(f'{{between: ["*", "*"], latency: 20 ms, bandwidth: {between_sites}}}')
    return f"version: 1\nname: {name}\ndevices: [{', '.join(devices)}]\nlinks: [{', '.join(links)}]\n"


def job_text(model, training, parallelism):
    def section(values):
        return "{" + ", ".join(f"{key}: {value}" for key, value in values.items() if value is not None) + "}"

    return (
        f"version: 1\nname: job\nmodel: {{{model}}}\ntraining: {section(training)}\n"
        f"parallelism: {section(parallelism)}\n"
    )


@dataclass
class Export:
    folder: Path
    plan: dict

    def setting(self, key, default=None):
        """What the plan says; a key that is missing has its default."""
        job = self.plan["job"]
        return job["training"].get(key, job["parallelism"].get(key, default))

    @property
    def model(self):
        return self.plan["job"]["model"]

    @property
    def groups(self):
        """Data-parallel groups in a stage."""
        return self.plan["execution"].get("stage_data", 1)

    @property
    def degrees(self):
        """Tensor, pipeline and data-parallel degree, as trainers count them."""
        pipelines = self.plan["pipelines"]
        stages = pipelines[0]["stages"]
        tensor = len(stages[0]["devices"]) // self.groups // self.setting("context", 1)
        return tensor, len(stages), len(pipelines) * self.groups

    @property
    def ranks(self):
        return json.loads((self.folder / "rank_table.json").read_text())


class Planner:
    """Runs dtfm-plan and dtfm-export, which must be among the arguments of the program."""

    def __init__(self, folder, target):
        self.folder, self.target = Path(folder), target
        self.plan_program, self.export_program = sys.argv[1:3]
        self.refusals, self.exports, self.clusters = [], [], set()
        for name in CLUSTERS:
            (self.folder / f"{name}.yaml").write_text(cluster_text(name))

    def run(self, *command):
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)

    def plan(self, cluster, job, *options):
        """Exit status, text of the error, and the path of the plan."""
        index = len(list(self.folder.glob("plan-*.json"))) + len(self.refusals)
        path = self.folder / f"plan-{index}.json"
        (self.folder / "job.yaml").write_text(job)
        done = self.run(
            self.plan_program, cluster, "--job", "job.yaml", "--target", self.target, "--evaluations", "40",
            "--finalists", "1", "--threads", "1", "--quiet", "-o", path.name, *options)  # fmt: skip
        return done.returncode, done.stderr, path

    def export(self, path, cluster, *options):
        """The exported folder of a plan. `--strict` fails if the trainer does not run it as planned."""
        out = path.with_suffix("")
        done = self.run(
            self.export_program, path.name, "--to", self.target, "--topology", cluster, "--strict", "-o", out.name,
            *options)  # fmt: skip
        if done.returncode != 0:
            raise AssertionError(f"{path.name}: dtfm-export: {done.stderr}")
        return Export(out, json.loads(path.read_text()))

    def make(self, cluster, job, *export_options):
        """The export, or None if no plan is possible, which must be said in one line."""
        status, error, path = self.plan(f"{cluster}.yaml", job)
        if status != 0:
            if status not in (2, 3) or error.count("\n") > 3 or "internal" in error:
                raise AssertionError(f"dtfm-plan {status}: {error}\n{job}")
            path.unlink(missing_ok=True)
            self.refusals.append(error.strip())
            return None
        self.exports.append(self.export(path, f"{cluster}.yaml", *export_options))
        self.clusters.add(cluster)
        return self.exports[-1]

    def check_coverage(self, checks, count, **values):
        """That `make` has exported at least `count` plans of many clusters, and so many values of settings."""
        checks.holds("exports", f"at least {count}, not {len(self.exports)}", len(self.exports) >= count)
        checks.holds("exports", f"of {MIN_CLUSTERS} clusters, not {len(self.clusters)}", len(self.clusters) >= MIN_CLUSTERS)
        for key, number in values.items():
            checks.same("exports", f"values of {key}", len({export.setting(key) for export in self.exports}), number)

    def summary(self):
        return f"{len(self.exports)} exports of {len(self.clusters)} clusters, {len(self.refusals)} jobs without a plan"


def combinations(count, **lists):
    """`count` combinations that have all values, and pairs of them evenly."""
    state = 1
    for _ in range(count):
        chosen = {}
        for key, values in lists.items():
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            chosen[key] = values[(state >> 33) % len(values)]
        yield chosen


def jobs(count, grid):
    """Pairs of what was chosen from the lists of `grid`, and a job of it."""
    for it in combinations(count, **grid):
        interleaved = it["schedule"] == "interleaved"
        yield it, job_text(
            it["model"],
            {key: it[key] for key in ("global_batch", "micro_batch", "precision", "optimizer", "recompute")},
            {
                "tensor": it["tensor"],
                "pipeline": it["pipeline"],
                "schedule": it["schedule"],
                "chunks": it["chunks"] if interleaved else None,
                "overlap": it["overlap"],
                "gradient_sync": "ring",
                "optimizer_sharding": it["sharding"],
                "sequence_parallel": it["sequence_parallel"],
            },
        )


def trainers_python():
    """The Python of the trainers' virtual environment. Skips the test if there is none."""
    given = os.environ.get("DTFM_TRAINERS_PYTHON")
    path = Path(given) if given else SOURCE / "build" / "trainers" / "bin" / "python"
    if not path.exists():
        print(f"skipped: {path} does not exist: run scripts/trainers.sh, or set DTFM_TRAINERS_PYTHON")
        sys.exit(SKIPPED)
    return path


def run_in_trainers(*modules):
    """Continues in the trainers' Python, where `modules` can be imported. Exits if that is impossible."""
    python = trainers_python()
    if os.environ.get(CONTINUED) != str(python):
        os.environ.update({CONTINUED: str(python), "OMP_NUM_THREADS": "1"})
        os.execv(python, [str(python), *sys.argv])
    for name in modules:
        try:
            __import__(name)
        except ImportError as error:
            print(f"skipped: {python} has no {name}: {error}")
            sys.exit(SKIPPED)


class Checks:
    """Collects what differs, so that a run shows all of it."""

    def __init__(self):
        self.failures, self.count = [], 0

    def same(self, where, what, found, expected):
        self.count += 1
        if found != expected:
            self.failures.append(f"{where}: {what} is {found!r}, not {expected!r}")

    def holds(self, where, what, condition):
        self.same(where, what, bool(condition), True)

    def finish(self, summary):
        for failure in self.failures[:40]:
            print("FAILED", failure)
        print(f"{summary}; {self.count} checks, {len(self.failures)} failed")
        sys.exit(1 if self.failures else 0)
