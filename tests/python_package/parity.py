"""The package gives the same bytes as the programs, on every shipped topology."""

import os
import pickle
import subprocess
import tempfile
import unittest
from pathlib import Path

import dtfm

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(os.environ["DTFM_PROGRAMS"])
TOPOLOGIES = sorted((ROOT / "topologies").glob("*.yaml"))
EVALUATIONS = 300
PLANNED_FOR = ROOT / "topologies" / "three-clouds.yaml"
LINKS = [{"within": "*", "latency": "1 ms", "bandwidth": "10 Gbps"}]


def run(program: str, *arguments: object) -> str:
    """What a program writes with -o; it may end with status 3, because no plan is feasible."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "output.json"
        command = [PROGRAMS / program, *arguments, "-o", file, "--quiet"]
        done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
        assert done.returncode in (0, 3), done.stderr
        return file.read_text(encoding="utf-8")


PLANNED = dtfm.plan(PLANNED_FOR, evaluations=100)


class TestParity(unittest.TestCase):
    def test_plan_score_and_simulation(self):
        for path in TOPOLOGIES:
            with self.subTest(path.stem), tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "plan.json"
                file.write_text(run("dtfm-plan", path, "--evaluations", EVALUATIONS, "--seed", 1), encoding="utf-8")
                topology = dtfm.Topology(path)
                plan = dtfm.plan(topology, evaluations=EVALUATIONS, seed=1, threads=2)
                self.assertEqual(plan.to_json(), file.read_text(encoding="utf-8"))
                self.assertEqual(dtfm.score(topology, file).to_json(), run("dtfm-plan", path, "--score", file))
                self.assertEqual(dtfm.simulate(topology, plan).to_json(), run("dtfm-sim", path, file))

    def test_options_and_documents(self):
        path = ROOT / "topologies" / "universities.yaml"
        job = ROOT / "configs" / "llama-3-8b.yaml"
        options = ["--job", job, "--schedule", "1f1b,gpipe", "--recompute", "full", "--evaluations", EVALUATIONS]
        self.assertEqual(
            dtfm.plan(path, job=job, schedule=["1f1b", "gpipe"], recompute="full", evaluations=EVALUATIONS).to_json(),
            run("dtfm-plan", path, *options),
        )

    def test_an_option_equals_the_key_of_a_job(self):
        path = ROOT / "topologies" / "universities.yaml"
        job = dtfm.Job(ROOT / "configs" / "gpt3-xl-published.yaml").to_dict()
        job["training"] |= {"global_batch": 96, "micro_batch": 3, "recompute": "full", "precision": "fp16"}
        job["parallelism"] |= {"schedule": ["1f1b", "gpipe"], "gradient_sync": "ring"}
        options = {"micro_batch": 3, "recompute": "full", "schedule": ["1f1b", "gpipe"], "gradient_sync": "ring"}
        given = dtfm.plan(
            path,
            job=ROOT / "configs" / "gpt3-xl-published.yaml",
            batch=96,
            precision="fp16",
            evaluations=200,
            **options,
        )
        self.assertEqual(given.to_json(), dtfm.plan(path, job=job, evaluations=200).to_json())

    def test_plan_of_megatron_flags(self):
        topology = {"devices": [{"site": "a", "count": 2, "gpu": "T4"}], "links": LINKS}
        flags = "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 2 --num-layers 24 --micro-batch-size 1"
        with tempfile.TemporaryDirectory() as folder:
            script, ranks, file = (Path(folder) / name for name in ("train.sh", "ranks", "topology.json"))
            script.write_text(f"{flags} --global-batch-size 1024\n", encoding="utf-8")
            ranks.write_text("a/0\na/1\n", encoding="utf-8")
            file.write_text(dtfm.inputs.json_text({"version": 1, **topology}, "topology"), encoding="utf-8")
            expected = run("dtfm-plan", file, "--score", script, "--ranks", ranks)
            self.assertEqual(dtfm.score(file, script, ranks=ranks).to_json(), expected)
            plan = dtfm.Plan({"pipelines": dtfm.Plan(expected).pipelines})
            with self.assertRaisesRegex(dtfm.InputError, "ranks: requires a file with Megatron-LM flags"):
                dtfm.score(topology, plan, ranks=ranks)

    def test_documents_as_dicts(self):
        document = {
            "version": 1,
            "name": "topology",
            "devices": [{"site": "a", "count": 4, "gpu": "T4"}, {"site": "b", "count": 4, "gpu": "T4"}],
            "links": [
                {"within": "*", "latency": "1 ms", "bandwidth": "10 Gbps"},
                {"between": ["a", "b"], "latency": "30 ms", "bandwidth": "1 Gbps"},
            ],
        }
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "topology.json"  # JSON is YAML
            file.write_text(dtfm.inputs.json_text(document, "topology"), encoding="utf-8")
            expected = run("dtfm-plan", file, "--evaluations", EVALUATIONS)
        self.assertEqual(dtfm.plan(document, evaluations=EVALUATIONS).to_json(), expected)

    def test_comparison(self):
        for name in ("three-clouds", "universities"):
            path = ROOT / "topologies" / f"{name}.yaml"
            schemes = ["megatron", "zero3"]
            words = [word for scheme in schemes for word in ("--scheme", scheme)]
            self.assertEqual(dtfm.compare(path, scheme=schemes).to_json(), run("dtfm-compare", path, *words))

    def test_calibration(self):
        path = ROOT / "topologies" / "three-clouds.yaml"
        model = {"kind": "transformer", "layers": 12, "hidden": 1024, "heads": 4, "sequence": 512, "vocabulary": 1000}
        job = {"name": "small", "model": model, "training": {"global_batch": 64}, "parallelism": {"pipeline": 2}}
        shapes = [(1, 1), (2, 1), (4, 2), (1, 2), (2, 4), (12, 1)]
        rows, plans = ["plan,seconds,job"], []
        with tempfile.TemporaryDirectory() as folder:
            given = dtfm.Job(job)
            for i, (pipeline, data) in enumerate(shapes):
                plan = dtfm.plan(path, job=given, pipeline=pipeline, data=data, evaluations=20)
                plans.append({"plan": plan, "seconds": 1.3 * plan.iteration_time_s, "name": None})
                plan.save(Path(folder) / f"plan-{i + 1}.json")
                rows.append(f"plan-{i + 1}.json,{plans[-1]['seconds']!r},-")
            table = Path(folder) / "runs.csv"
            table.write_text("\n".join(rows) + "\n", encoding="utf-8")
            expected = run("dtfm-calibrate", path, table)
            self.assertEqual(dtfm.calibrate(path, table, threads=1).to_json(), expected)
        fitted = dtfm.calibrate(path, plans)
        self.assertEqual(fitted.to_json(), expected)
        low, high = fitted.intervals["compute_scale"]
        self.assertTrue(low < fitted.constants["compute_scale"] < high)
        self.assertLess(fitted.mean_absolute_error["fitted"], fitted.mean_absolute_error["prior"])
        self.assertEqual(pickle.loads(pickle.dumps(fitted)).intervals, fitted.intervals)
        slower = dtfm.simulate(path, plans[0]["plan"], calibration=fitted)
        self.assertGreater(slower.iteration_time_s["mean"], plans[0]["plan"].iteration_time_s)

    def test_report(self):
        with tempfile.TemporaryDirectory() as folder:
            page, file = Path(folder) / "page.html", Path(folder) / "plan.json"
            try:
                PLANNED.save_report(page)
            except dtfm.InputError as error:
                self.assertIn("requires npm", str(error))
                self.skipTest("built without npm")
            run("dtfm-plan", PLANNED_FOR, "--evaluations", 100, "--report", Path(folder) / "plan.html")
            made_by = ('"dtfm ' + dtfm.__version__, '"dtfm-plan ' + dtfm.__version__)
            text = page.read_text(encoding="utf-8").replace(*made_by, 1)
            self.assertEqual(text, (Path(folder) / "plan.html").read_text(encoding="utf-8"))
            self.assertIn("<iframe sandbox='allow-scripts'", PLANNED._repr_html_())
            simulated = dtfm.simulate(PLANNED_FOR, PLANNED, timeline=True)
            self.assertIn('"timeline"', simulated.report())
            self.assertIn('"comparison"', dtfm.compare(PLANNED_FOR, scheme=["megatron"]).report())
            PLANNED.save(file)
            with self.assertRaisesRegex(dtfm.InputError, "a plan from a file has no page"):
                dtfm.Plan(file).report()
            self.assertIn("<table>", dtfm.Plan(file)._repr_html_())

    def test_export(self):
        plan = dtfm.plan(ROOT / "topologies" / "three-clouds.yaml", evaluations=EVALUATIONS, target="pytorch")
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "plan.json").write_text(plan.to_json(), encoding="utf-8")
            exported = dtfm.export(plan, to=["pytorch", "torchrun"], folder=Path(folder) / "a")
            command = [PROGRAMS / "dtfm-export", f"{folder}/plan.json", "--to", "pytorch,torchrun", "-o", f"{folder}/b"]
            subprocess.run(command, check=True, capture_output=True)
            for name in exported.files:
                a, b = (Path(folder, it, name).read_bytes() for it in "ab")
                self.assertEqual(a, b, name)


if __name__ == "__main__":
    unittest.main()
