"""What results contain, how they look, and planning anew after a failure."""

import concurrent.futures
import copy
import multiprocessing
import os
import pickle
import sys
import tempfile
import unittest
from pathlib import Path

import dtfm

ROOT = Path(__file__).parents[2]
TOPOLOGY = dtfm.Topology(ROOT / "topologies" / "three-clouds.yaml")
PLAN = dtfm.plan(TOPOLOGY, evaluations=300, seed=1)


class TestResults(unittest.TestCase):
    def test_plan(self):
        self.assertEqual(PLAN.iteration_time_s, PLAN.to_dict()["estimate"]["iteration_time_s"])
        self.assertEqual(len(PLAN.pipelines[0]["stages"]), PLAN.stages)
        self.assertTrue(PLAN.is_feasible and not PLAN.is_interrupted)
        self.assertIn(f"{PLAN.iteration_time_s:.4g} s", dtfm.results._Document._repr_html_(PLAN))
        self.assertRegex(repr(PLAN), r"Plan\(\d+ pipelines of \d+ stages, [0-9.]+ s per iteration\)")

    def test_a_saved_plan_is_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plan.json"
            PLAN.save(file)
            self.assertEqual(dtfm.Plan(file).to_json(), PLAN.to_json())
            self.assertEqual([it.name for it in Path(folder).iterdir()], ["plan.json"])
            for source in (file, PLAN.to_json(), PLAN.to_dict(), PLAN):
                self.assertEqual(dtfm.simulate(TOPOLOGY, source).to_json(), dtfm.simulate(TOPOLOGY, PLAN).to_json())

    def test_saving_keeps_devices_and_pipes(self):
        PLAN.save(os.devnull)
        self.assertFalse(Path(os.devnull).is_file())
        self.assertIn("not valid", dtfm.Plan({})._repr_html_())
        for path in ("", "a\0b", 5, None):
            with self.subTest(path=path), self.assertRaisesRegex(dtfm.InputError, "path: expected"):
                PLAN.save(path)

    def test_results_can_be_pickled_and_copied(self):
        front = dtfm.plan(TOPOLOGY, pareto=True, evaluations=50)
        file = dtfm.Plan(PLAN.to_json())
        run = dtfm.simulate(TOPOLOGY, PLAN, timeline=True)
        for result in (PLAN, front, file, run, dtfm.compare(TOPOLOGY, scheme=["megatron"])):
            for same in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
                with self.subTest(repr(result)):
                    self.assertIs(type(same), type(result))
                    self.assertEqual(same.to_json(), result.to_json())
                    self.assertEqual(
                        (same.is_feasible, same.is_interrupted), (result.is_feasible, result.is_interrupted)
                    )
                    self.assertEqual(repr(same), repr(result))
        self.assertEqual(pickle.loads(pickle.dumps(front)).pareto_front, front.pareto_front)
        again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(run))))
        self.assertEqual(
            {k: v.tolist() for k, v in again.timeline.items()}, {k: v.tolist() for k, v in run.timeline.items()}
        )

    def test_a_pool_of_processes(self):
        job = dtfm.Job(ROOT / "configs" / "gpt3-xl.yaml")
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            plans = [pool.submit(dtfm.plan, TOPOLOGY, job=job, evaluations=50, seed=seed) for seed in (1, 2)]
            run = pool.submit(dtfm.simulate, TOPOLOGY, PLAN)
            self.assertEqual(
                [it.result().to_json() for it in plans],
                [dtfm.plan(TOPOLOGY, job=job, evaluations=50, seed=seed).to_json() for seed in (1, 2)],
            )
            self.assertEqual(run.result().to_json(), dtfm.simulate(TOPOLOGY, PLAN).to_json())

    def test_edits_do_not_change_a_plan(self):
        PLAN.pipelines[0]["stages"].clear()
        self.assertTrue(PLAN.pipelines[0]["stages"])

    def test_plans_that_are_not_valid(self):
        for document, look in [
            ({}, lambda it: it.stages),
            ({"pipelines": "abc"}, lambda it: it.pipelines),
            ({"estimate": "x"}, lambda it: it.iteration_time_s),
            ({"estimate": {"memory": [{}]}}, lambda it: it.is_feasible),
        ]:
            with self.subTest(document):
                plan = dtfm.Plan(document)
                self.assertEqual(repr(plan), "Plan(not valid, or not in JSON)")
                with self.assertRaises(dtfm.InputError):
                    look(plan)
        with self.assertRaises(dtfm.InputError):
            dtfm.replan(TOPOLOGY, dtfm.Plan("device,pipeline,stage,first_layer,last_layer\na,0,0,0,1\n"))
        with self.assertRaisesRegex(dtfm.InputError, "plan: is missing"):
            dtfm.score(TOPOLOGY, None)
        with self.assertRaisesRegex(dtfm.InputError, "PLAN is missing"):
            dtfm.simulate(TOPOLOGY)

    def test_a_plan_of_a_file_that_exceeds_memory(self):
        plan = dtfm.Plan({"pipelines": [], "estimate": {"memory": [{"needed_bytes": 2.0, "capacity_bytes": 1.0}]}})
        self.assertFalse(plan.is_feasible)

    def test_images(self):
        plan = dtfm.plan(TOPOLOGY, job=ROOT / "configs" / "resnet-50.yaml", evaluations=50)
        run = dtfm.simulate(TOPOLOGY, plan)
        self.assertGreater(run.tokens_per_s, 0)
        self.assertIn("per iteration", repr(run))
        self.assertIn("throughput", dtfm.results._Document._repr_html_(run))

    def test_no_iteration(self):
        run = dtfm.simulate(TOPOLOGY, PLAN, scenario={"horizon": "0.1 s"})
        self.assertIsNone(run.tokens_per_s)
        self.assertEqual(repr(run), "Simulation(no iteration completed)")
        self.assertTrue(run._repr_html_())

    def test_a_scheme_without_a_layout(self):
        with self.assertRaisesRegex(dtfm.InfeasibleError, "no layout of data-parallel"):
            dtfm.simulate(
                TOPOLOGY,
                scheme="data-parallel",
                job={**dtfm.Job(ROOT / "configs" / "gpt3-xl.yaml").to_dict(), "model": {"preset": "gpt3-175b"}},
            )

    def test_simulation_and_timeline(self):
        run = dtfm.simulate(TOPOLOGY, PLAN, timeline=True)
        spans = run.timeline
        self.assertGreater(len(spans["start_s"]), 0)
        self.assertTrue((spans["end_s"] >= spans["start_s"]).all())
        self.assertEqual({len(it) for it in spans.values()}, {len(spans["kind"])})
        self.assertIn("forward", set(spans["kind"]))
        self.assertEqual(len(dtfm.simulate(TOPOLOGY, PLAN).timeline), 0)

    def test_scenario_of_a_dict(self):
        slow = dtfm.simulate(
            TOPOLOGY, PLAN, scenario={"compute_jitter": {"kind": "lognormal", "cv": 0.2}}, iterations=5
        )
        self.assertGreater(slow.iteration_time_s["max"], slow.iteration_time_s["min"])

    def test_plan_without_a_failed_device(self):
        document = {
            "devices": [{"site": "a", "count": 4, "gpu": "T4"}],
            "links": [{"within": "*", "latency": "1 ms", "bandwidth": "10 Gbps"}],
        }
        running = dtfm.plan(document, evaluations=100, pipeline=4, data=1)
        document["devices"][0]["count"] = 3
        plan = dtfm.replan(document, running, evaluations=100, horizon="1h")
        self.assertEqual(plan.to_dict()["warm_start"]["cannot_keep_reason"], "1 of its 4 devices is gone")
        self.assertNotIn("a/3", {it for p in plan.pipelines for s in p["stages"] for it in s["devices"]})

    def test_infeasible(self):
        plan = dtfm.plan(TOPOLOGY, model="gpt3-175b", batch=64, evaluations=50)
        self.assertFalse(plan.is_feasible)
        self.assertIn("infeasible", repr(plan))
        self.assertTrue(plan.notes)

    def test_pareto_front(self):
        plan = dtfm.plan(TOPOLOGY, pareto=True, evaluations=50)
        self.assertTrue(plan.pareto_front["points"])
        self.assertIsNone(PLAN.pareto_front)

    def test_comparison(self):
        comparison = dtfm.compare(TOPOLOGY, scheme=["megatron"])
        self.assertEqual([it["scheme"] for it in comparison.schemes], ["megatron"])
        self.assertIn("megatron", dtfm.results._Document._repr_html_(comparison))

    def test_runtime_has_two_names(self):
        import dtfm.runtime.errors
        import dtfm_runtime.errors

        self.assertIs(dtfm.runtime, dtfm_runtime)
        self.assertIs(sys.modules["dtfm.runtime.errors"], dtfm_runtime.errors)

    def test_export_to_a_used_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "notes.txt").write_text("mine", encoding="utf-8")
            with self.assertRaisesRegex(dtfm.InputError, "notes.txt"):
                dtfm.export(PLAN, to="pytorch", folder=folder)
            self.assertIn("README.md", dtfm.export(PLAN, to="pytorch", folder=folder, force=True).files)

    def test_export_does_not_write_to_its_inputs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "torchrun.sh"
            for name, text in [
                ("topology", (ROOT / "topologies" / "three-clouds.yaml").read_text(encoding="utf-8")),
                ("job", dtfm.Job(ROOT / "configs" / "gpt3-xl.yaml").to_json()),
                ("hosts", "".join(f"{it['id']} 10.0.0.{i}\n" for i, it in enumerate(TOPOLOGY.devices))),
            ]:
                path.write_text(text, encoding="utf-8")
                with self.subTest(name), self.assertRaisesRegex(dtfm.InputError, "torchrun.sh: cannot write: it is"):
                    dtfm.export(PLAN, to="torchrun", folder=folder, force=True, **{name: path})
                self.assertEqual(path.read_text(encoding="utf-8"), text)


if __name__ == "__main__":
    unittest.main()
