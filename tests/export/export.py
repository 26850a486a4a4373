#!/usr/bin/env python3
"""dtfm-export from outside: plans of dtfm-plan, files and exit codes, refusals that write nothing, hostile names.

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

HOSTILE = ["two words", "quo'te", 'dou"ble', "$(touch HACKED)", "`touch HACKED`", "a;touch HACKED", "<script>alert(1)</script>", "-rf",
           "new\nline", "..", "~", "é", "%s%n", "@master@", "a&&b", "*"]


def topology(names):
    devices = ", ".join(f"{{name: {json.dumps(name)}, site: {json.dumps('site of ' + name)}, gpu: A100-40GB}}" for name in names)
    return f"version: 1\nname: {json.dumps('$(touch HACKED) <script>')}\ndevices: [{devices}]\n" \
           'links: [{between: ["*", "*"], latency: 10 ms, bandwidth: 1 Gbps}]\n'


JOB = """version: 1
name: "$(touch HACKED) '\\" <script> @world@ \\\\n"
model: {kind: transformer, layers: 8, hidden: 512, heads: 8, sequence: 512, vocabulary: 1000}
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

    def export(self, *options):
        return self.run_in(EXPORT, "plan.json", "-o", "out", *options)

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def assert_refused(self, done, text):
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_every_target_takes_a_plan_of_ours(self):
        self.plan(["a", "b", "c", "d"], "--alike")
        targets = [line.split()[0] for line in self.run_in(EXPORT, "--list-targets").stdout.splitlines()]
        self.assertEqual(len(targets), 14)
        for target in targets:
            done = self.run_in(EXPORT, "plan.json", "--to", target, "-o", f"out-{target}", "--topology", "net.yaml", "--format", "json")
            if target in ("deepspeed", "varuna") and done.returncode == 2:  # the plan's cut is not one that they make
                self.assertRegex(done.stderr, "cannot produce|equal stages")
                self.assertFalse((self.folder / f"out-{target}").exists())
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            said = json.loads(done.stdout)
            self.assertEqual(sorted(said["files"]), sorted(path.name for path in (self.folder / f"out-{target}").iterdir()))
            self.assertEqual(said["ranks"], len(json.loads((self.folder / f"out-{target}" / "rank_table.json").read_text())))

    def test_same_bytes_again(self):
        self.plan(["a", "b", "c", "d"], "--alike")
        for name in ("one", "two"):
            self.assertEqual(self.run_in(EXPORT, "plan.json", "--to", "megatron,torchrun,slurm,openmpi", "-o", name).returncode, 0)
        for path in (self.folder / "one").iterdir():
            self.assertEqual(path.read_bytes(), (self.folder / "two" / path.name).read_bytes())

    def test_a_folder_holds_one_plan(self):
        self.plan(["a", "b", "c", "d"], "--alike")
        self.assertEqual(self.export("--to", "torchrun").returncode, 0)
        self.assertEqual(self.export("--to", "megatron").returncode, 0)  # the same order of ranks
        before = (self.folder / "out" / "rank_table.json").read_bytes()
        done = self.export("--to", "torchrun", "--order", "pipeline-major")
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds the files of another plan", done.stderr)
        self.assertEqual((self.folder / "out" / "rank_table.json").read_bytes(), before)
        self.assertEqual(self.export("--to", "torchrun", "--order", "pipeline-major", "--force").returncode, 0)

    def test_bad_usage(self):
        self.plan(["a", "b", "c", "d"], "--alike")
        for options, text in (([], "--to: is missing"), (["--to", "megatorn"], "did you mean `megatron`?"),
                              (["--to", ""], "unknown"), (["--to", "megatron,"], "unknown"),
                              (["--to", "megatron,flashflex"], "two trainers"), (["--to", "torchrun", "--port", "0"], "--port"),
                              (["--to", "torchrun", "--agents", "rack"], "--agents"),
                              (["--to", "kubernetes", "--image", "a b"], "no name of a container image"),
                              (["--to", "torchrun", "--hosts", "nowhere"], "nowhere"),
                              (["--to", "torchrun", "--master", "q"], "no pipeline begins on `q`")):
            self.assert_refused(self.export(*options), text)
        self.assertEqual(self.run_in(EXPORT, "plan.json", "--to", "torchrun").returncode, 2)
        self.assertEqual(self.run_in(EXPORT, "--to", "torchrun", "-o", "out").returncode, 2)

    def test_bad_plans(self):
        self.plan(["a", "b", "c", "d"], "--alike")
        good = json.loads((self.folder / "plan.json").read_text())
        for change, text in ((lambda p: p.pop("job"), "says no job"), (lambda p: p.pop("pipelines"), "pipelines"),
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

    def test_a_folder_that_cannot_be(self):
        self.plan(["a", "b", "c", "d"], "--alike")
        (self.folder / "file").write_text("mine")
        for name in ("file", "file/below"):
            done = self.run_in(EXPORT, "plan.json", "--to", "torchrun", "-o", name)
            self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_hostile_names_are_refused_without_addresses_and_harmless_with(self):
        for name in HOSTILE:
            with self.subTest(name=name):
                try:
                    self.plan(["a", "b", "c", name], "--alike")
                except AssertionError:
                    continue  # dtfm-plan does not take it as a name
                before = self.files()
                if name not in ("a", "é"):
                    self.assert_refused(self.export("--to", "torchrun"), "give addresses with --hosts")
                self.assertEqual(self.files(), before)
                (self.folder / "hosts").write_text(f"a h1\nb h2\nc h3\n{name} h4\n")
                if "\n" in name:
                    continue  # a line of that file cannot hold it
                done = self.export("--to", "megatron,torchrun,slurm,openmpi,kubernetes", "--hosts", "hosts", "--force")
                self.assertEqual(done.returncode, 0, done.stderr)
                netem = self.run_in(EXPORT, "plan.json", "-o", "net", "--to", "netem", "--topology", "net.yaml", "--hosts", "hosts", "--force")
                self.assertEqual(netem.returncode, 0, netem.stderr)
                for script in [*(self.folder / "out").glob("*.sh"), *(self.folder / "net").glob("*.sh")]:
                    self.assertNotIn("HACKED", script.read_text())
                    self.assertEqual(self.run_in("bash", "-n", script).returncode, 0)
                table = json.loads((self.folder / "out" / "rank_table.json").read_text())
                self.assertIn(name, [row["host"] for row in table])
                self.assertNotIn("@", (self.folder / "out" / "torchrun.sh").read_text().replace('"$@"', "").replace("[@]", ""))
                for path in (self.folder / "out").glob("*.json"):
                    json.loads(path.read_text())
                shutil.rmtree(self.folder / "out")
                self.run_in("bash", "-c", "true")
        self.assertFalse(list(self.folder.rglob("HACKED")))

    def test_unlike_pipelines_go_to_flashflex_alone(self):
        (self.folder / "net.yaml").write_text(
            'version: 1\nname: n\ndevices: [{site: a, count: 3, gpu: A100-40GB}, {site: a, count: 3, gpu: T4}]\n'
            'links: [{between: ["*", "*"], latency: 1 ms, bandwidth: 10 Gbps}]\n')
        (self.folder / "job.yaml").write_text(JOB.replace("data: 2", "data: 3"))
        for options, code in (([], 2), (["--alike"], 2), (["--alike", "--batch", "18"], 0)):
            done = self.run_in(PLAN, "net.yaml", "--job", "job.yaml", "--quiet", "-o", "plan.json", *options)
            if options == ["--alike"]:  # 16 micro-batches over 3 pipelines
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, "alike")
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            done = self.export("--to", "megatron")
            self.assertEqual(done.returncode, code, done.stderr)
            if code:
                self.assertRegex(done.stderr, re.compile("pipelines 0 and 1 .*use --to flashflex, or plan with --alike"))
                self.assertFalse((self.folder / "out").exists())
                self.assertEqual(self.run_in(EXPORT, "plan.json", "--to", "flashflex", "-o", "flash").returncode, 0)


if __name__ == "__main__":
    EXPORT, PLAN = (str(Path(path).resolve()) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main(verbosity=2)
