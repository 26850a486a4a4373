#!/usr/bin/env python3
"""A wheel of dtfm replaces an older version entirely, and is removed entirely.

usage: upgrade.py WHEEL    (with the Python of an environment that has numpy and pip; dtfm is removed from it)
"""
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

WHEEL = Path(sys.argv[1])
VERSION = WHEEL.name.split("-")[1]
OLD = "0.0.9"
INFO = f"dtfm-{OLD}.dist-info"
OLD_FILES = {
    "dtfm/__init__.py": f"__version__ = '{OLD}'\n",
    "dtfm/removed.py": "def main():\n    pass\n",
    "dtfm/bin/dtfm-removed": "",
    f"{INFO}/METADATA": f"Metadata-Version: 2.1\nName: dtfm\nVersion: {OLD}\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
    f"{INFO}/entry_points.txt": "[console_scripts]\ndtfm-removed = dtfm.removed:main\n",
}


def run(*command):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def pip(*arguments):
    run(sys.executable, "-m", "pip", *arguments)


def files():
    return {str(path) for path in Path(sys.prefix).rglob("*")}


def version():
    return run(sys.executable, "-c", "import dtfm; print(dtfm.__version__)").strip()


def write_old_wheel(folder):
    path = Path(folder, f"dtfm-{OLD}-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in OLD_FILES.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{INFO}/RECORD", "".join(f"{name},,\n" for name in [*OLD_FILES, f"{INFO}/RECORD"]))
    return path


class TestUpgrade(unittest.TestCase):
    def test_upgrade_and_uninstall_leave_nothing_behind(self):
        pip("uninstall", "--yes", "dtfm")
        without = files()
        self.assertEqual({path for path in without if "dtfm" in path}, set())
        with tempfile.TemporaryDirectory() as folder:
            pip("install", "--no-index", write_old_wheel(folder))
        self.assertEqual(version(), OLD)
        self.assertEqual(len([path for path in files() if path.endswith(("removed.py", "dtfm-removed"))]), 3)

        pip("install", "--no-index", "--upgrade", WHEEL)
        self.assertEqual({path for path in files() if "removed" in Path(path).name or OLD in path} - without, set())
        self.assertEqual(version(), VERSION)
        self.assertIn(VERSION, run(Path(sys.prefix, "bin/dtfm-plan"), "--version"))

        pip("uninstall", "--yes", "dtfm")
        self.assertEqual(files(), without)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
