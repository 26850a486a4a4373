#!/usr/bin/env python3
"""dtfm-export with plans of dtfm-plan: files and exit codes, rejected plans that write nothing, unsafe
names.

usage: export.py DTFM_EXPORT DTFM_PLAN
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

EXPORT = PLAN = None

# dtfm-plan accepts all of these as machine names except the last three.
HOSTILE = ["two words", "quo'te", 'dou"ble', "$(touch INTRUDED)", "`touch INTRUDED`", "a;touch INTRUDED", "<script>alert(1)<script>", "-rf",
           "..", "~", "é", "%s%n", "@master@", "a&&b", "a#b", "new\nline", "*", "a/b"]
NO_NAMES = HOSTILE[-3:]


def topology(names):
    devices = ", ".join(f"{{name: {json.dumps(name)}, site: {json.dumps('site of ' + name)}, gpu: A100-40GB}}" for name in names)
    return f"version: 1\nname: {json.dumps('$(touch INTRUDED) <script>')}\ndevices: [{devices}]\n" \
           'links: [{between: ["*", "*"], latency: 10 ms, bandwidth: 1 Gbps}]\n'


JOB = """version: 1
name: "$(touch INTRUDED) '\\" <script> @world@ \\\\n"
model: {kind: transformer, layers: 8, hidden: 512, heads: 8, sequence: 512, vocabulary: 1000, gated: true, biases: false,
        norm: rms, positions: rotary, tied: false}
training: {global_batch: 16}
parallelism: {pipeline: 2, data: 2, schedule: 1f1b}
"""


class Export(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="dtfm-export-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_in(self, *command):
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)

    def plan(self, names, *options):
        (self.folder / "net.yaml").write_text(topology(names))
        (self.folder / "job.yaml").write_text(JOB)
        done = self.run_in(PLAN, "net.yaml", "--job", "job.yaml", "--quiet", "-o", "plan.json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)

    def equal_plan(self):
        """A plan with equally many layers per stage."""
        self.plan(["a", "b", "c", "d"], "--uniform-pipelines")
        plan = json.loads((self.folder / "plan.json").read_text())
        for pipeline in plan["pipelines"]:
            for stage, layers in zip(pipeline["stages"], ([0, 4], [4, 8])):
                stage["layers"] = layers
        (self.folder / "plan.json").write_text(json.dumps(plan))

    def export(self, *options):
        return self.run_in(EXPORT, "plan.json", "-o", "out", *options)

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def assert_refused(self, done, text, code=2):
        self.assertEqual(done.returncode, code, done.stdout)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_every_target_accepts_a_dtfm_plan(self):
        self.equal_plan()
        targets, kinds = zip(*(line.split()[:2] for line in self.run_in(EXPORT, "--list-targets").stdout.splitlines()))
        self.assertEqual([kinds.count("trainer"), kinds.count("launcher")], [7, 5])
        self.assertEqual(len(targets), 12)
        for target in targets:
            done = self.run_in(EXPORT, "plan.json", "--to", target, "-o", f"out-{target}", "--topology", "net.yaml", "--format", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            said = json.loads(done.stdout)
            self.assertEqual(sorted(said["files"]), sorted(
                str(path.relative_to(self.folder / f"out-{target}")) for path in (self.folder / f"out-{target}").rglob("*") if path.is_file()))
            self.assertEqual(said["ranks"], len(json.loads((self.folder / f"out-{target}" / "rank_table.json").read_text())))

    def test_same_bytes_again(self):
        self.plan(["a", "b", "c", "d"], "--uniform-pipelines")
        for name in ("one", "two"):
            self.assertEqual(self.run_in(EXPORT, "plan.json", "--to", "megatron,torchrun,slurm,openmpi", "-o", name).returncode, 0)
        for path in (self.folder / "one").iterdir():
            self.assertEqual(path.read_bytes(), (self.folder / "two" / path.name).read_bytes())

    def test_a_plan_that_exceeds_memory_gets_a_note(self):
        self.plan(["a", "b", "c", "d"], "--uniform-pipelines")
        done = self.export("--to", "torchrun")
        self.assertEqual((done.returncode, done.stderr), (0, ""))  # it fits
        plan = json.loads((self.folder / "plan.json").read_text())
        self.assertEqual(len(plan["estimate"]["memory"]), 4)
        lacks = "the plan does not fit: by its own estimate, {} memory; `{}` needs {} GB and has 40 GB"
        for needed, said in (([40e9, 40e9, 40e9, 40e9], None), ([1e9, 40.5e9, 1e9, 1e9], ("1 of 4 devices exceeds", 1, 40.5)),
                             ([41e9, 50e9, 39e9, 50e9], ("3 of 4 devices exceed", 1, 50))):
            for row, number in zip(plan["estimate"]["memory"], needed):
                row.update(needed_bytes=number, capacity_bytes=40e9)
            (self.folder / "plan.json").write_text(json.dumps(plan))
            note = lacks.format(said[0], plan["estimate"]["memory"][said[1]]["device"], said[2]) if said else ""
            for options in ([], ["--quiet"], ["--format", "json"]):
                done = self.export("--to", "torchrun", "--force", *options)
                self.assertEqual((done.returncode, done.stderr), (0, f"dtfm-export: note: {note}\n" if note else ""))
            self.assertEqual(note in json.loads(done.stdout)["notes"], bool(note))
            self.assertEqual("does not fit" in (self.folder / "out" / "README.md").read_text(), bool(note))
        del plan["estimate"]["memory"][0]["needed_bytes"]
        (self.folder / "plan.json").write_text(json.dumps(plan))
        shutil.rmtree(self.folder / "out")
        self.assert_refused(self.export("--to", "torchrun"), "/estimate/memory/0")

    def test_a_folder_holds_one_export(self):
        self.plan(["a", "b", "c", "d"], "--uniform-pipelines")
        self.assertEqual(self.export("--to", "torchrun").returncode, 0)
        self.assertEqual(self.export("--to", "torchrun").returncode, 0)  # the same again
        before = {path.name: path.read_bytes() for path in (self.folder / "out").iterdir()}
        for options in (["--to", "megatron"], ["--to", "torchrun", "--port", "4000"],
                        ["--to", "torchrun", "--order", "pipeline-major"]):
            done = self.export(*options)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, "out: contains `.*`, which (is not part of|has other contents than in) this export; name a new folder, or use --force")
            self.assertEqual({path.name: path.read_bytes() for path in (self.folder / "out").iterdir()}, before)
        self.assertEqual(self.export("--to", "torchrun", "--order", "pipeline-major", "--force").returncode, 0)

    def test_other_files_are_not_overwritten(self):
        self.plan(["a", "b", "c", "d"], "--uniform-pipelines")
        (self.folder / "out").mkdir()
        (self.folder / "out" / "README.md").write_text("mine\n")
        self.assertEqual(self.export("--to", "torchrun").returncode, 2)
        self.assertEqual([path.name for path in (self.folder / "out").iterdir()], ["README.md"])
        self.assertEqual((self.folder / "out" / "README.md").read_text(), "mine\n")

    def test_bad_usage(self):
        self.plan(["a", "b", "c", "d"], "--uniform-pipelines")
        for options, text in (([], "--to: is missing"), (["--to", "megatorn"], "did you mean `megatron`?"),
                              (["--to", ""], "unknown"), (["--to", "megatron,"], "unknown"),
                              (["--to", "megatron,pytorch"], "both trainers"), (["--to", "torchrun", "--port", "0"], "--port"),
                              (["--to", "torchrun", "--agents", "rack"], "--agents"),
                              (["--to", "slurm", "--agents", "host"], "host requires torchrun"), (["--to", "nanotron"], "nanotron"),
                              (["--to", "kubernetes", "--image", "a b"], "not a valid name of a container image"),
                              (["--to", "torchrun", "--hosts", "nowhere"], "nowhere"),
                              (["--to", "torchrun", "--master", "q"], "no pipeline begins on `q`")):
            self.assert_refused(self.export(*options), text)
        self.assertEqual(self.run_in(EXPORT, "plan.json", "--to", "torchrun").returncode, 2)
        self.assertEqual(self.run_in(EXPORT, "--to", "torchrun", "-o", "out").returncode, 2)

    def test_bad_plans(self):
        self.plan(["a", "b", "c", "d"], "--uniform-pipelines")
        good = json.loads((self.folder / "plan.json").read_text())
        for change, text in ((lambda p: p.pop("job"), "contains no job"), (lambda p: p.pop("pipelines"), "pipelines"),
                             (lambda p: p["pipelines"][0]["stages"][0].update(layers=[0, 3]), "layer"),
                             (lambda p: p["pipelines"][0]["stages"][0].update(devices=["b", "b"]), "used twice"),
                             (lambda p: p.update(schema="x"), "schema")):
            bad = json.loads(json.dumps(good))
            for key in ("groups", "ranks", "unused"):
                bad.pop(key, None)
            change(bad)
            (self.folder / "plan.json").write_text(json.dumps(bad))
            with self.subTest(expected=text):
                self.assert_refused(self.export("--to", "torchrun"), text)
        (self.folder / "plan.json").write_text("{")
        self.assert_refused(self.export("--to", "torchrun"), "plan.json:1:")
        (self.folder / "other.yaml").write_text(topology(["a", "b", "c", "e"]))
        (self.folder / "plan.json").write_text(json.dumps(good))
        self.assert_refused(self.export("--to", "netem", "--topology", "other.yaml"), "the plan is for topology")

    def test_a_job_that_contradicts_the_plan(self):
        self.plan(["a", "b", "c", "d"], "--uniform-pipelines")
        (self.folder / "other.yaml").write_text(JOB.replace("global_batch: 16", "global_batch: 16, micro_batch: 2"))
        self.assert_refused(self.export("--to", "torchrun", "--job", "other.yaml"), "plan.json: /execution/micro_batch: micro_batch 1, but")
        plan = json.loads((self.folder / "plan.json").read_text())
        plan["job"]["training"]["micro_batch"] = [2, 4]
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.assert_refused(self.export("--to", "torchrun"), "plan.json: /execution/micro_batch: micro_batch 1, but the job's training.micro_batch is [2, 4]; set")

    def test_an_impossible_folder(self):
        self.plan(["a", "b", "c", "d"], "--uniform-pipelines")
        (self.folder / "file").write_text("mine")
        for name in ("file", "file/below"):
            done = self.run_in(EXPORT, "plan.json", "--to", "torchrun", "-o", name)
            self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_unsafe_names_need_addresses_and_are_escaped(self):
        self.plan(["a", "b", "c", "d"], "--uniform-pipelines")
        base = (self.folder / "plan.json").read_text()
        (self.folder / "bin").mkdir()
        for program in ("torchrun", "srun", "mpirun", "tc", "ip", "getent"):
            (self.folder / "bin" / program).write_text("#!/bin/sh\necho 10.0.0.1 dev x\n")
            (self.folder / "bin" / program).chmod(0o755)
        path = f"PATH={self.folder}/bin:/usr/bin:/bin"
        for name in HOSTILE:
            with self.subTest(name=name):
                if name in NO_NAMES:
                    (self.folder / "net.yaml").write_text(topology(["a", "b", "c", name]))
                    self.assertEqual(self.run_in(PLAN, "net.yaml", "--job", "job.yaml", "--quiet").returncode, 2)
                    continue
                (self.folder / "net.yaml").write_text(topology(["a", "b", "c", name]))
                renamed = json.loads(base.replace('"d"', json.dumps(name)))
                del renamed["topology"]
                (self.folder / "plan.json").write_text(json.dumps(renamed))
                self.assert_refused(self.export("--to", "torchrun"), "give addresses with --hosts")
                (self.folder / "hosts").write_text(f"a h1\nb h2\nc h3\n{name} h4\n")
                done = self.export("--to", "megatron,torchrun,slurm,openmpi,kubernetes", "--hosts", "hosts")
                self.assertEqual(done.returncode, 0, done.stderr)
                netem = self.run_in(EXPORT, "plan.json", "-o", "net", "--to", "netem", "--topology", "net.yaml", "--hosts", "hosts")
                self.assertEqual(netem.returncode, 0, netem.stderr)
                for command in (["out/torchrun.sh", "h1", "true"], ["SLURM_JOB_ID=1", "out/slurm.sh", "true"], ["out/openmpi.sh", "true"],
                                ["bash", "-c", "source out/megatron.sh"], ["net/netem-h4.sh", "up"]):
                    ran = self.run_in("env", path, *command)
                    start = "torchrun.sh: start it on the other machines, too (3, listed in README.md), within 300 s (DTFM_START_TIMEOUT)\n"
                    self.assertEqual((ran.returncode, ran.stderr), (0, start if "out/torchrun.sh" in command else ""), command)
                for file in [*(self.folder / "out").iterdir(), *(self.folder / "net").iterdir()]:
                    if file.suffix == ".sh":
                        self.assertNotIn("INTRUDED", file.read_text())
                    if file.suffix == ".json":
                        json.loads(file.read_text())
                table = json.loads((self.folder / "out" / "rank_table.json").read_text())
                self.assertIn(name, [row["host"] for row in table])
                shutil.rmtree(self.folder / "out")
                shutil.rmtree(self.folder / "net")
        self.assertFalse(list(self.folder.rglob("INTRUDED")))

    def test_a_plan_for_a_trainer_is_exported_as_planned(self):
        """The plan of --target T takes as long in T as planned; the export of another plan says what T changes, and --strict refuses
        a plan that then takes over 5 % longer."""
        (self.folder / "net.yaml").write_text(topology(["a", "b", "c", "d"]))
        (self.folder / "job.yaml").write_text(JOB.replace("pipeline: 2, data: 2, schedule: 1f1b", "gradient_sync: sharded-ps"))
        listed = self.run_in(PLAN, "--list-targets").stdout
        targets = [line for line in listed.splitlines() if line and not line.startswith(" ")]
        self.assertEqual(targets, ["pytorch", "megatron", "torchtitan", "deepspeed", "pytorch-pipelining", "dtfm"])
        for target in targets:
            with self.subTest(target=target):
                done = self.run_in(PLAN, "net.yaml", "--job", "job.yaml", "--quiet", "-o", f"{target}.json", "--target", target)
                self.assertEqual(done.returncode, 0, done.stderr)
                plan = json.loads((self.folder / f"{target}.json").read_text())
                self.assertEqual(plan["job"]["target"], target)
                self.assertNotIn("targets", plan)
                planned = next(iter(plan["finalists"][0]["simulated"].values()))["mean_s"]
                done = self.run_in(EXPORT, f"{target}.json", "--to", target, "--topology", "net.yaml", "--strict", "-o", f"out-{target}",
                                   "--format", "json")
                self.assertEqual(done.returncode, 0, done.stderr)
                trainer = json.loads(done.stdout)["trainer"]
                self.assertEqual(trainer["changes"], [])
                self.assertAlmostEqual(trainer["iteration_time_s"], planned, delta=1e-6 * planned)
                self.assertEqual(trainer["iteration_time_s"], trainer["planned_s"])
                done = self.run_in(EXPORT, f"{target}.json", "--to", target, "-o", f"text-{target}")
                self.assertEqual(done.stdout.splitlines()[0], f"{target} runs the plan as planned; pass --topology to predict the time")

    def test_what_a_trainer_changes_comes_first(self):
        (self.folder / "net.yaml").write_text(topology(["a", "b", "c", "d"]))
        (self.folder / "job.yaml").write_text(JOB.replace("schedule: 1f1b", "schedule: gpipe, uniform_pipelines: true"))
        self.assertEqual(self.run_in(PLAN, "net.yaml", "--job", "job.yaml", "--quiet", "-o", "plan.json").returncode, 0)
        plan = json.loads((self.folder / "plan.json").read_text())
        listed = {it["name"]: it for it in plan["targets"]}
        self.assertEqual(len(listed), 6)
        changes = [(it["key"], it["to"]) for it in listed["megatron"]["changes"]]
        self.assertEqual(changes, [("parallelism.schedule", "1f1b-blocking"), ("parallelism.gradient_sync", "ring"),
                                   ("training.optimizer", "adam-20"), ("parallelism.messages", "megatron")])
        done = self.export("--to", "megatron", "--topology", "net.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        first = done.stdout.splitlines()[0]
        self.assertRegex(first, r"^megatron takes [0-9.]+ s per iteration, [0-9.]+ % longer than the planned [0-9.]+ s: "
                                r"schedule 1f1b-blocking instead of gpipe, gradient_sync ring instead of sharded-ps, ")
        self.assertIn("(use dtfm-plan --target megatron to plan for megatron)", first)
        self.assertNotIn("schedule", "\n".join(done.stdout.splitlines()[1:]))
        shutil.rmtree(self.folder / "out")
        done = self.export("--to", "megatron", "--topology", "net.yaml", "--strict")
        self.assert_refused(done, "--strict: megatron takes ", 3)
        self.assert_refused(self.export("--to", "megatron", "--strict"), "--strict: requires --topology")

    def test_only_pytorch_accepts_heterogeneous_pipelines(self):
        (self.folder / "net.yaml").write_text(
            'version: 1\nname: n\ndevices: [{site: a, count: 3, gpu: A100-40GB}, {site: a, count: 3, gpu: T4}]\n'
            'links: [{between: ["*", "*"], latency: 1 ms, bandwidth: 10 Gbps}]\n')
        (self.folder / "job.yaml").write_text(JOB.replace("data: 2", "data: 3"))
        for options, code in (([], 3), (["--target", "megatron"], 2), (["--target", "megatron", "--batch", "18"], 0)):
            done = self.run_in(PLAN, "net.yaml", "--job", "job.yaml", "--quiet", "-o", "plan.json", *options)
            if options == ["--target", "megatron"]:  # 16 micro-batches over 3 pipelines
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, "uniform")
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            done = self.export("--to", "megatron")
            self.assertEqual(done.returncode, code, done.stderr)
            if code:
                split = [[stage["layers"] for stage in it["stages"]] for it in json.loads((self.folder / "plan.json").read_text())["pipelines"]]
                other = next(i for i, layers in enumerate(split) if layers != split[0])
                self.assertRegex(done.stderr, re.compile(f"pipelines 0 and {other} .*use --to pytorch, or plan with --target megatron"))
                self.assertFalse((self.folder / "out").exists())
                self.assertEqual(self.run_in(EXPORT, "plan.json", "--to", "pytorch", "-o", "pytorch").returncode, 0)


if __name__ == "__main__":
    EXPORT, PLAN = (str(Path(path).resolve()) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main(verbosity=2)
