"""The files of the wheel and of the source package: complete, no others, and usable without the build tree."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
from pathlib import Path

SOURCE = Path(__file__).parents[2]
BUILD = os.environ["DTFM_PROGRAMS"]
PROJECT = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))
SCRIPTS = PROJECT["project"]["scripts"]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class TestInstalled(unittest.TestCase):
    def test_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            run("cmake", "--install", BUILD, "--component", "python", "--prefix", folder)
            found = {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()}
            module = next(path for path in found if re.fullmatch(r"dtfm/_core\.[\w.-]+", path))
            self.assertEqual(found, {module, "dtfm/requests.pyi", *(f"dtfm/bin/{name}" for name in SCRIPTS)})

            for package in PROJECT["tool"]["scikit-build"]["wheel"]["packages"]:
                for path in (SOURCE / package).glob("*.py"):
                    copy = Path(folder, Path(package).name, path.name)
                    copy.parent.mkdir(exist_ok=True)
                    copy.write_bytes(path.read_bytes())
            environment = {**os.environ, "PYTHONPATH": folder}
            version = re.search(r"project\(dtfm VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
            for name, entry in SCRIPTS.items():
                start = "import importlib, sys; getattr(importlib.import_module(sys.argv[1]), sys.argv.pop(2))()"
                printed = run(sys.executable, "-c", start, *entry.split(":"), "--version", cwd=folder, env=environment)
                self.assertRegex(printed, rf"^{name} {re.escape(version)}\b")
            code = "import dtfm, dtfm_runtime, json; print(json.dumps([dtfm.__version__, dtfm_runtime.__version__, dtfm.__file__]))"
            printed = json.loads(run(sys.executable, "-c", code, cwd=folder, env=environment))
            self.assertEqual(printed, [version, version, str(Path(folder, "dtfm/__init__.py"))])

    def test_source_package(self):
        if not (SOURCE / ".git").exists():
            self.skipTest("not a clone, so the files that the source package needs are unknown")
        tracked = set(run("git", "-C", SOURCE, "ls-files").split("\n")) - {""}
        left_out = tuple(f"{folder}/" for folder in PROJECT["tool"]["scikit-build"]["sdist"]["exclude"])
        with tempfile.TemporaryDirectory() as folder:
            code = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
            name = run(sys.executable, "-c", code, folder, cwd=SOURCE).split()[-1]
            with tarfile.open(Path(folder, name)) as archive:
                found = {member.name.split("/", 1)[1] for member in archive if member.isfile()}
        self.assertEqual({path for path in tracked if not path.startswith(left_out)} - found, set())
        self.assertEqual({path for path in found if path.startswith((*left_out, ".git/"))}, set())


if __name__ == "__main__":
    unittest.main()
