"""Topologies, jobs and scenarios from dicts, texts and arrays, and what is said about bad ones."""

import contextlib
import copy
import datetime
import json
import pickle
import tempfile
import unittest
from pathlib import Path

import dtfm
import numpy as np

ROOT = Path(__file__).parents[2]
DEVICES = {"devices": [{"site": "a", "count": 2, "gpu": "T4"}, {"site": "b", "count": 1, "gpu": "T4"}]}
LATENCY = np.array([[9.0, 0.001, 0.02], [0.001, 9.0, 0.03], [0.02, 0.03, 9.0]])
BANDWIDTH = np.array([[9.0, 1e10, 1e9], [1e10, 9.0, 2e9], [1e9, 2e9, 9.0]])


class TestRuns(unittest.TestCase):
    def test_rows_that_are_not_valid(self):
        links = [{"within": "*", "latency": "1 ms", "bandwidth": "1 Gbps"}]
        topology = {"devices": [{"site": "a", "count": 2, "gpu": "T4"}], "links": links}
        plan = dtfm.plan(topology, evaluations=9)
        elsewhere = dtfm.plan({**topology, "devices": [{"site": "b", "count": 2, "gpu": "T4"}]}, evaluations=9)
        row = {"plan": plan, "seconds": 9}
        for rows, where, problem in (
            ([], "runs", "has no runs"),
            ([row] * 5 + [{**row, "seconds": "soon"}], "runs[5]", "soon"),
            ([row] * 5 + [{**row, "second": 1}], "runs", "unknown column `second`"),
            ([row] * 5 + [{**row, "topology": "a.yaml"}], "runs[5].topology", "require a CSV file"),
            ([row] * 5 + [{**row, "seconds": {1: 2}}], "runs[5].seconds", "keys must be strings"),
            ([row] * 5 + [{**row, "plan": 3}], "runs[5].plan", "expected a path"),
            ([row] * 5 + [{**row, "name": 'a",b'}], "runs[5].name", "must not contain commas"),
            ([row] * 5 + [{**row, "plan": elsewhere}], "runs[5].plan", "the plan is for topology"),
            ([row] * 4 + [{"plan": None, "seconds": float("nan"), "job": "-"}], "runs[4]", "expected `seconds` or `log`"),
            ([3], "runs[0]", "expected a dict"),
            ({"plan": plan}, "runs", "expected a path, a string or a list of dicts"),
            (3, "runs", "expected a path, a string or a list of dicts"),
        ):
            with self.subTest(where=where, problem=problem), self.assertRaises(dtfm.InputError) as caught:
                dtfm.calibrate(topology, rows)
            self.assertEqual(caught.exception.where, where)
            self.assertIn(problem, caught.exception.problem)


class TestTopology(unittest.TestCase):
    def test_arrays(self):
        topology = dtfm.Topology(DEVICES, latency_s=LATENCY, bandwidth_bps=BANDWIDTH.tolist())
        off = ~np.eye(3, dtype=bool)
        np.testing.assert_array_equal(topology.latency_s[off], LATENCY[off])
        np.testing.assert_array_equal(topology.bandwidth_bps[off], BANDWIDTH[off])
        self.assertEqual(topology.latency_s[0, 0], 0)
        self.assertEqual(len(topology), 3)
        self.assertEqual([it["site"] for it in topology.devices], ["a", "a", "b"])
        self.assertEqual(topology.devices[0]["memory_bytes"], 14.75 * 2**30)
        self.assertEqual(repr(topology), "Topology('topology': 3 devices in 2 sites)")

    def test_asymmetric_arrays_are_not_transposed(self):
        latency = LATENCY.copy()
        latency[0, 2] = 0.5
        topology = dtfm.Topology(DEVICES, latency_s=latency, bandwidth_bps=BANDWIDTH)
        self.assertEqual((topology.latency_s[0, 2], topology.latency_s[2, 0]), (0.5, 0.02))

    def test_text_and_file(self):
        path = ROOT / "topologies" / "universities.yaml"
        text = path.read_text(encoding="utf-8")
        self.assertEqual(dtfm.Topology(text).fingerprint, dtfm.Topology(path).fingerprint)

    def test_prices(self):
        devices = [{"site": "a", "count": 1, "gpu": "T4", "price": "1.5 USD/h"}, {"site": "a", "count": 1, "gpu": "T4"}]
        topology = dtfm.Topology(
            {"devices": devices, "links": [{"within": "*", "latency": "1 ms", "bandwidth": "1 Gbps"}]}
        )
        # The second has that of configs/gpus.yaml.
        self.assertEqual([it["price_usd_per_h"] for it in topology.devices], [1.5, 0.526])

    def test_machines_of_one_line(self):
        plan = dtfm.plan(gpus="1xT4@a, 1xT4@b", link="a-b: 5 ms 1 Gbps", evaluations=50)
        self.assertEqual(len(plan.memory), 2)
        for options, message in [
            ({}, "TOPOLOGY or gpus is missing"),
            ({"gpus": "2xT5"}, "gpus: unknown GPU or host `T5`; did you mean `T4`?"),
            ({"gpus": "1xT4@a, 1xT4@b"}, 'link: is missing between a and b: add link "a-b: LATENCY BANDWIDTH"'),
        ]:
            with self.subTest(message), self.assertRaises(dtfm.InputError) as caught:
                dtfm.plan(**options)
            self.assertEqual(str(caught.exception), message)

    def test_without_devices(self):
        topology = dtfm.Topology(DEVICES, latency_s=LATENCY, bandwidth_bps=BANDWIDTH).without(["a/0"])
        self.assertEqual([it["id"] for it in topology.devices], ["a/1", "b/0"])
        self.assertEqual(topology.latency_s[0, 1], 0.03)
        for devices, message in [
            (["c/0"], "unknown device `c/0`"),
            (["a/1", "b/0"], "no device is left"),
            ("a/1", "devices: expected a list of ids; found 'a/1'"),
            (None, "devices: expected a list of ids; found None"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(dtfm.InputError, message):
                topology.without(devices)

    def test_without_devices_keeps_the_calibration(self):
        def lab(count):
            link = {"within": "*", "latency": "1 ms", "bandwidth": "7 Gbps"}
            devices = [{"site": "a", "count": count, "gpu": "T4"}]
            return dtfm.Topology({"name": "lab", "calibration": "v100", "devices": devices, "links": [link]})

        plans = [dtfm.plan(it, evaluations=50).to_json() for it in (lab(2), lab(3).without(["a/2"]))]
        self.assertEqual(*plans)

    def test_pickling_is_exact(self):
        measured = dtfm.Topology(DEVICES, latency_s=LATENCY * 1.1, bandwidth_bps=BANDWIDTH / 3)
        shipped = [dtfm.Topology(path) for path in sorted((ROOT / "topologies").glob("*.yaml"))]
        self.assertGreater(len(shipped), 5)
        first = shipped[0].devices[0]["id"]
        text = 'version: 1\ncalibration: v100\ndevices: [{site: "é", count: 3}]\nlinks: [{within: "*", latency: 1 ms, bandwidth: 7 Gbps}]\n'
        for topology in (
            *shipped,
            measured,
            dtfm.Topology(text),
            measured.without(["a/0"]),
            shipped[0].without([first]).without([shipped[0].devices[1]["id"]]),
        ):
            for same in (pickle.loads(pickle.dumps(topology)), copy.deepcopy(topology)):
                with self.subTest(repr(topology)):
                    self.assertEqual(same.fingerprint, topology.fingerprint)
                    self.assertEqual((same.name, same.devices), (topology.name, topology.devices))
                    np.testing.assert_array_equal(same.latency_s, topology.latency_s)
                    np.testing.assert_array_equal(same.bandwidth_bps, topology.bandwidth_bps)

    def test_pickling_a_topology_that_names_files(self):
        text = """{version: 1, devices: [{site: a, count: 2}],
            measured: {latency: {file: l.csv, unit: ms}, bandwidth: {file: b.csv, unit: Gbps}}}"""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            for name, matrix in [("l.csv", "0,1\n1,0\n"), ("b.csv", "0,2\n3,0\n")]:
                (path / name).write_text(matrix, encoding="utf-8")
            (path / "net.yaml").write_text(text, encoding="utf-8")
            with contextlib.chdir(folder):
                pickled = pickle.dumps(dtfm.Topology("net.yaml"))
            (path / "net.yaml").unlink()
            self.assertEqual(pickle.loads(pickled).bandwidth_bps[1, 0], 3e9)
            (path / "b.csv").write_text("0,2\n4,0\n", encoding="utf-8")
            with self.assertRaisesRegex(dtfm.InputError, "net.yaml: refers to files that have changed"):
                pickle.loads(pickled)

    def test_bad_arrays(self):
        for latency, message in [
            (LATENCY[:2], "latency_s: expected 3 × 3 numbers, a row and a column per device; found 2 × 3"),
            (LATENCY[0], r"latency_s: expected an array of shape \(devices, devices\); found shape \(3,\)"),
            ([["x"]], "latency_s: expected an array of numbers: "),
            (
                np.where(LATENCY == 0.02, np.nan, LATENCY),
                r"latency_s\[2, 0\]: must be from 0 to 1000000000; found nan",
            ),
            (-LATENCY, r"latency_s\[1, 0\]: must be from 0 to 1000000000; found -0.001"),
            (LATENCY * 1j, "latency_s: "),
            (LATENCY > 0, "latency_s: expected an array of numbers: found bool"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(dtfm.InputError, message):
                dtfm.Topology(DEVICES, latency_s=latency, bandwidth_bps=BANDWIDTH)
        with self.assertRaisesRegex(dtfm.InputError, r"bandwidth_bps\[1, 0\]: must be from 0.001 to 1e\+18; found 0"):
            dtfm.Topology(DEVICES, latency_s=LATENCY, bandwidth_bps=BANDWIDTH * 0)
        with self.assertRaisesRegex(dtfm.InputError, "must be given together"):
            dtfm.Topology(DEVICES, latency_s=LATENCY)

    def test_errors_name_the_key_of_a_dict(self):
        bad = {"devices": [{"site": "a", "count": 2, "gpu": "T4"}, {"site": "b", "gpu": "T5"}], "links": []}
        with self.assertRaises(dtfm.InputError) as caught:
            dtfm.Topology(bad)
        self.assertEqual(caught.exception.where, "topology.devices[1].gpu")
        self.assertIn("did you mean", str(caught.exception))

    def test_errors_name_the_line_of_a_text(self):
        with self.assertRaises(dtfm.InputError) as caught:
            dtfm.Topology("version: 1\ndevices:\n- {site: a, count: 2, gpu: T5}\nlinks: []\n")
        error = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((error.file, error.line), ("topology", 3))
        self.assertIsInstance(error, ValueError)

    def test_values_that_json_lacks(self):
        loop = {}
        loop["devices"] = [loop]
        for document, message in [
            ({"devices": float("nan")}, "topology.devices: must be finite"),
            ({"devices": [{"count": {1, 2}}]}, r"topology.devices\[0\].count: expected .* found set"),
            ({1: 2}, "topology: keys must be strings"),
            (loop, r"topology.devices\[0\].devices: contains itself"),
            ({"name": "\ud800"}, "topology.name: contains text that is not valid Unicode"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(dtfm.InputError, message):
                dtfm.Topology(document)
        with self.assertRaisesRegex(dtfm.InputError, "missing.yaml"):
            dtfm.Topology("missing.yaml")


class Config:
    """As transformers' configurations."""

    def __init__(self, values):
        self.values = values

    def to_json_string(self, use_diff=True):
        assert not use_diff
        return json.dumps(self.values)


LLAMA = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "vocab_size": 1000,
}


class TestJob(unittest.TestCase):
    def test_round_trip(self):
        job = dtfm.Job(ROOT / "configs" / "gpt3-xl.yaml")
        self.assertEqual(dtfm.Job(job.to_dict()).to_json(), job.to_json())

    def test_pickling_is_exact(self):
        for name in ("gpt3-xl", "gpt3-xl-published", "llama-3-8b", "resnet-50"):
            job = dtfm.Job(ROOT / "configs" / f"{name}.yaml")
            for same in (pickle.loads(pickle.dumps(job)), copy.deepcopy(job)):
                self.assertEqual((same.name, same.to_json()), (job.name, job.to_json()))

    def test_errors_name_the_key_of_a_dict(self):
        document = dtfm.Job(ROOT / "configs" / "gpt3-xl.yaml").to_dict()
        document["parallelism"]["schedule"] = "gpip"
        with self.assertRaises(dtfm.InputError) as caught:
            dtfm.Job(document)
        self.assertEqual(caught.exception.where, "job.parallelism.schedule")

    def test_model_of_a_hugging_face_config(self):
        topology = dtfm.Topology(DEVICES, latency_s=LATENCY, bandwidth_bps=BANDWIDTH)
        plans = [dtfm.plan(topology, model=it, sequence=128, batch=8, evaluations=50) for it in (LLAMA, Config(LLAMA))]
        self.assertEqual(plans[0].to_json(), plans[1].to_json())
        self.assertEqual(plans[0].to_dict()["job"]["model"]["layers"], 4)
        with self.assertRaisesRegex(dtfm.InputError, "model: .*hidden_siz"):
            dtfm.plan(topology, model={**LLAMA, "hidden_siz": 3})


class TestArguments(unittest.TestCase):
    path = ROOT / "topologies" / "universities.yaml"

    def check(self, message, **options):
        with self.subTest(message), self.assertRaises(dtfm.InputError) as caught:
            dtfm.plan(self.path, **options)
        self.assertEqual(str(caught.exception), message)

    def test_bad_arguments(self):
        self.check("unknown argument `evalations`; did you mean `evaluations`?", evalations=5)
        self.check("horizon: requires warm_start", horizon=datetime.timedelta(hours=2))
        self.check("pipeline: expected a whole number from 1 to 1000000; found `0`", pipeline=0)
        self.check("pipeline: expected a whole number from 1 to 1000000; found `1.5`", pipeline=1.5)
        self.check("prove: expected True or False; found 'yes'", prove="yes")
        self.check("seed: must be finite; found nan", seed=float("nan"))
        self.check("seed: expected a string or a number; found a dict", seed={})
        self.check("schedule: unknown `gpip`; did you mean `gpipe`?", schedule="gpip")
        self.check("score: cannot be passed to plan(): call dtfm.score(topology, plan)", score="plan.json")

    def test_scenario(self):
        with self.assertRaises(dtfm.InputError) as caught:
            dtfm.plan(self.path, scenario={"events": [{"at": "5 s", "fail": "nowhere"}]}, evaluations=10)
        self.assertTrue(caught.exception.where.startswith("scenario.events[0]"), caught.exception.where)

    def test_several_scenarios(self):
        good, bad = {"horizon": "1 h"}, {"horizon": "1 h", "events": [{"at": "5 s"}]}
        with self.assertRaises(dtfm.InputError) as caught:
            dtfm.plan(self.path, scenario=[good, bad], evaluations=10)
        self.assertTrue(caught.exception.where.startswith("scenario[1].events[0]"), caught.exception.where)
        with self.assertRaises(dtfm.InputError) as caught:
            dtfm.plan(self.path, scenario="version: 1\nhorizon: x\n", evaluations=10)
        self.assertEqual((caught.exception.file, caught.exception.line), ("scenario", 2))

    def test_signature_and_documentation(self):
        import inspect

        parameters = inspect.signature(dtfm.plan).parameters
        for name in ("topology", "job", "schedule", "micro_batch", "evaluations", "progress", "threads"):
            self.assertIn(name, parameters)
        self.assertIn("micro_batch (N|auto): samples per micro-batch", dtfm.plan.__doc__)


if __name__ == "__main__":
    unittest.main()
