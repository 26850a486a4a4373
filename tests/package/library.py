#!/usr/bin/env python3
"""An installed tree is complete, works from any folder, and can be used by other projects.

usage: library.py BUILD_FOLDER SOURCE_FOLDER
"""
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
EVALUATIONS = "500"


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.prefix = Path(cls.scratch.name, "a prefix")
        cls.elsewhere = Path(cls.scratch.name, "elsewhere")
        cls.elsewhere.mkdir()
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.topology = cls.prefix / "share/dtfm/topologies/regional.yaml"

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def program(self, name, *arguments):
        return run(self.prefix / "bin" / name, *arguments, cwd=self.elsewhere, env={"PATH": "/usr/bin:/bin"})

    def test_installed_tree_is_complete(self):
        programs = sorted(path.name for path in self.prefix.joinpath("bin").iterdir())
        self.assertIn("dtfm-plan", programs)
        for program in programs:
            for file in (f"man/man1/{program}.1", f"bash-completion/completions/{program}"):
                self.assertTrue(self.prefix.joinpath("share", file).is_file(), file)
        for folder in ("topologies", "configs"):
            shipped = {path.relative_to(SOURCE) for path in SOURCE.joinpath(folder).rglob("*") if path.is_file()}
            there = {path.relative_to(self.prefix / "share/dtfm") for path in self.prefix.joinpath("share/dtfm", folder).rglob("*") if path.is_file()}
            self.assertEqual(shipped, there)

    def test_target_programs_builds_all_that_is_installed(self):  # scripts/quickstart.sh builds nothing else
        if not BUILD.joinpath("build.ninja").is_file():
            self.skipTest("not built with Ninja")
        words = {BUILD / word for word in run("ninja", "-C", BUILD, "-t", "commands", "programs").split()}
        installed = re.findall(rf'(?:EXECUTABLE|STATIC_LIBRARY|DIRECTORY) FILES "({re.escape(str(BUILD))}/[^"]+)"',
                               "".join(path.read_text() for path in BUILD.rglob("cmake_install.cmake")))
        self.assertTrue(any("dtfm-plan" in path for path in installed) and any("/man/" in path for path in installed))
        for path in map(Path, installed):
            self.assertTrue(words & {path, path.parent}, path)  # parent: dtfm-documents writes several folders

    def test_nothing_refers_to_where_it_was_built(self):
        for path in self.prefix.rglob("*.cmake"):
            text = path.read_text()
            self.assertNotIn(str(SOURCE), text, path)
            self.assertNotIn(str(BUILD), text, path)
            self.assertNotIn("-Werror", text, path)

    def test_programs_need_no_other_folder(self):
        out = self.program("dtfm-plan", self.topology, "--evaluations", "100", "--quiet", "-o", "plan.json")
        self.assertIn("regional: 64 devices", out)
        self.assertIn("iteration", self.program("dtfm-sim", self.topology, "plan.json", "--quiet"))
        self.assertIn("T4", self.program("dtfm-profile", "--list-gpus"))

    def test_a_job_finds_its_profile_beside_it(self):
        configs = self.prefix / "share/dtfm/configs"  # gpt3-xl.yaml refers to profiles/v100.json
        default = self.program("dtfm-plan", self.topology, "--evaluations", "100", "--quiet", "--format", "json")
        named = self.program("dtfm-plan", self.topology, "--job", configs / "gpt3-xl.yaml", "--evaluations", "100", "--quiet", "--format", "json")
        self.assertEqual(named, default)

    def test_other_projects_can_use_it(self):
        if cached("DTFM_FETCHED"):
            self.skipTest("libraries that were downloaded are not installed, nor are those that need them")
        folder, sanitize = self.elsewhere / "build", cached("DTFM_SANITIZE")
        run("cmake", "-S", SOURCE / "tests/package", "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            "-DCMAKE_BUILD_TYPE=Release", *([f"-DCMAKE_CXX_FLAGS=-fsanitize={sanitize}"] if sanitize else []))
        run("cmake", "--build", folder)
        said = run(folder / "example", self.topology, EVALUATIONS)
        stages, pipelines, estimated, simulated = re.fullmatch(r"(\d+) stages, (\d+) pipelines: estimated (\S+) s, simulated (\S+) s\n", said).groups()
        plan = json.loads(self.program("dtfm-plan", self.topology, "--evaluations", EVALUATIONS, "--quiet", "--format", "json"))
        best = plan["finalists"][0]
        self.assertEqual((int(stages), int(pipelines)), (best["pipeline"], best["data"]))
        self.assertEqual(float(estimated), best["iteration_time_s"])
        self.assertEqual(float(simulated), best["simulated"]["nominal"]["mean_s"])


def cached(name):
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
