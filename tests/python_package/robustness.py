"""Fuzzed dicts and arguments end with a result or a clear exception."""

import copy
import random
import unittest
from pathlib import Path

import dtfm

ROOT = Path(__file__).parents[2]
COUNT = 10_000
TOPOLOGY = {
    "version": 1,
    "devices": [{"site": "a", "count": 2, "gpu": "T4"}, {"site": "b", "count": 2, "gpu": "T4", "speed": 0.5}],
    "links": [
        {"within": "*", "latency": "1 ms", "bandwidth": "10 Gbps"},
        {"between": ["a", "b"], "latency": "30 ms", "bandwidth": "1 Gbps", "capacity": "2 Gbps"},
    ],
}
JOB = dtfm.Job(ROOT / "configs" / "gpt3-xl.yaml").to_dict()
JOB["model"]["layers"] = 4
SCENARIO = {
    "version": 1,
    "seed": 3,
    "compute_jitter": {"kind": "lognormal", "cv": 0.1},
    "events": [{"at": "1 s", "device": "a/0", "leave": True}, {"at": "5 s", "device": "a/0", "join": True}],
}
STRANGE = [
    None, True, -1, 0, 1, 3, 1e300, -1e-300, float("nan"), float("inf"), 10**30, "", "a", "auto", "1 s", "0 Gbps",
    "-3 ms", "1e999 s", "\0", "\ud800", "é" * 300, [], {}, [[]], {"": {}}, b"bytes", {1: 2}, {1, 2}, object(), (1, 2),
]  # fmt: skip


def places(document, path=()):
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def mutated(document, rng):
    """A copy with one to three values replaced, removed, duplicated or nested."""
    document = copy.deepcopy(document)
    for _ in range(rng.randint(1, 3)):
        path = rng.choice(list(places(document)) or [()])
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        if not path:
            continue
        action = rng.randrange(4)
        if action == 0:
            parent[path[-1]] = copy.deepcopy(rng.choice(STRANGE))
        elif action == 1:
            del parent[path[-1]]
        elif action == 2:
            parent[path[-1]] = [parent[path[-1]]] * rng.randint(1, 3)
        elif isinstance(parent, dict):
            parent[rng.choice(["gpu", "speed", "x", "layers", ""])] = copy.deepcopy(rng.choice(STRANGE))
    return document


class TestRobustness(unittest.TestCase):
    def test_fuzzed_dicts(self):
        rng = random.Random(1)
        readers = [(TOPOLOGY, dtfm.Topology), (JOB, dtfm.Job)]
        outcomes = {"accepted": 0, "refused": 0}
        plan = dtfm.plan(TOPOLOGY, job=JOB, evaluations=20)
        topology = dtfm.Topology(TOPOLOGY)
        readers += [
            (plan.to_dict(), lambda it: dtfm.simulate(topology, dtfm.Plan(it), iterations=1)),
            (SCENARIO, lambda it: dtfm.simulate(topology, plan, scenario=it, iterations=1)),
        ]
        for i in range(COUNT):
            document, read = readers[i % len(readers)]
            changed = mutated(document, rng)
            with self.subTest(i=i):
                try:
                    read(changed)
                    outcomes["accepted"] += 1
                except dtfm.InputError as error:
                    self.assertTrue(error.problem)
                    outcomes["refused"] += 1
        self.assertGreater(outcomes["accepted"], COUNT // 100)
        self.assertGreater(outcomes["refused"], COUNT // 2)

    def test_fuzzed_arguments(self):
        rng = random.Random(2)
        names = [
            row["name"] for row in dtfm._core.options["plan"] if row["name"] not in ("topology", "score", "evaluations")
        ]
        topology = dtfm.Topology(TOPOLOGY)
        job = dtfm.Job(JOB)
        for i in range(1000):
            options = {name: rng.choice(STRANGE) for name in rng.sample(names, rng.randint(1, 3))}
            with self.subTest(i=i, options=repr(options)):
                try:
                    dtfm.plan(topology, **{"job": job, **options, "evaluations": 5, "time_limit": 1})
                except dtfm.InputError as error:
                    self.assertTrue(str(error))


if __name__ == "__main__":
    unittest.main()
