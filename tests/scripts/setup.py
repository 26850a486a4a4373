"""scripts/quickstart.sh and its set-up on various machines, simulated by stand-ins for dpkg, apt, sudo
and cmake."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
REAL_TOOLS = ["bash", "env", "dirname", "grep", "nproc", "cat", "mkdir", "chmod", "cmp", "cp", "ln", "rm"]

PACKAGES = ["g++", "cmake", "ninja-build", "libeigen3-dev", "libcli11-dev", "nlohmann-json3-dev", "libyaml-cpp-dev",
            "libfmt-dev", "libmimalloc-dev", "catch2"]
STAND_INS = {
    "dpkg-query": 'for p in "${@:4}"; do grep -qxF "$p" "$STATE/installed" && echo "$p installed"; done; exit 1',
    "apt-get": 'echo "apt-get $*" >> "$STATE/log"; read -r && echo "stdin is open" >> "$STATE/log"\n'
               'case " $* " in *" install "*) [ -e "$STATE/apt-fails" ] && exit 100\n'
               'for p in "$@"; do echo "$p"; done >> "$STATE/installed";; esac; exit 0',
    "sudo": 'echo "sudo $1" >> "$STATE/log"; [ "$1" != -n ] || shift; exec "$@"',
    "id": 'echo "$FAKE_UID"',
    "cmake": 'echo "cmake $*" >> "$STATE/log"; mkdir -p build/release\n'
             'printf \'#!/usr/bin/env bash\\necho "plan: $*"\\n\' > build/release/dtfm-plan; chmod +x build/release/dtfm-plan',
}


class Machine(unittest.TestCase):
    """A machine with stand-ins, and a clone."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtfm set-up ")
        self.addCleanup(folder.cleanup)
        self.base = Path(folder.name)
        self.root = self.base / "a clone"
        self.bin = self.base / "bin"
        self.bin.mkdir()
        shutil.copytree(SCRIPTS, self.root / "scripts")
        for tool in REAL_TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        for name, body in STAND_INS.items():
            self.stand_in(self.bin / name, body)
        (self.base / "installed").touch()

    def stand_in(self, path, body):
        path.write_text("#!/usr/bin/env bash\n" + body + "\n")
        path.chmod(0o755)

    def bash(self, *arguments, uid=0):
        environment = {"PATH": str(self.bin), "STATE": str(self.base), "FAKE_UID": str(uid)}
        return subprocess.run(["bash", *arguments], env=environment, cwd=self.base, input="typed\n", capture_output=True, text=True)

    def log(self):
        path = self.base / "log"
        return path.read_text().splitlines() if path.exists() else []


class Quickstart(Machine):
    def run_it(self, *arguments, uid=0):
        return self.bash(self.root / "scripts" / "quickstart.sh", *arguments, uid=uid)

    def test_bare_machine_gets_all_packages_then_a_plan(self):
        result = self.run_it()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, f"plan: {self.root}/topologies/worldwide.yaml "
                                        f"-o {self.root}/build/worldwide-plan.json\n")
        update, install, _, npm = [line for line in self.log() if line.startswith("apt-get")]
        self.assertTrue(update.endswith(" update"))
        self.assertIn("install -y --no-install-recommends g++ cmake ninja-build libeigen3-dev", install)
        self.assertTrue(npm.endswith("--no-install-recommends npm"), npm)
        self.assertIn("Installing from the distribution's packages: g++ cmake", result.stderr)
        self.assertNotIn("stdin is open", self.log())
        self.assertIn("cmake --build --preset release --target programs", self.log())

    def test_second_run_asks_apt_for_nothing(self):
        self.run_it()
        os.remove(self.base / "log")
        self.assertEqual(self.run_it().returncode, 0)
        self.assertFalse([line for line in self.log() if not line.startswith("cmake")])

    def test_only_what_is_missing_is_installed(self):
        self.run_it()
        (self.base / "installed").write_text((self.base / "installed").read_text().replace("catch2\n", ""))
        os.remove(self.base / "log")
        self.run_it()
        self.assertTrue(self.log()[1].endswith("--no-install-recommends catch2"), self.log())

    def test_npm_is_optional(self):
        (self.base / "installed").write_text("\n".join(PACKAGES) + "\n")
        (self.base / "apt-fails").touch()
        result = self.run_it()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Continuing without npm, which cannot be installed.", result.stderr)
        os.remove(self.base / "log")
        (self.bin / "npm").symlink_to("/bin/true")
        self.run_it()
        self.assertFalse([line for line in self.log() if line.startswith("apt-get")])

    def test_arguments_are_passed_to_the_planner(self):
        self.assertEqual(self.run_it("--seed", "3", "-o", "my plan.json").stdout,
                         f"plan: {self.root}/topologies/worldwide.yaml --seed 3 -o my plan.json\n")

    def test_without_root_sudo_is_used_and_never_waits_for_a_password(self):
        self.assertEqual(self.run_it(uid=1000).returncode, 0)
        self.assertEqual(self.log().count("sudo -n"), 4)

    def assert_asks_for_packages(self, result, why):
        self.assertEqual(result.returncode, 2)
        self.assertIn(why, result.stderr)
        self.assertIn("libyaml-cpp-dev", result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertFalse([line for line in self.log() if line.startswith("cmake")])

    def test_neither_root_nor_sudo(self):
        (self.bin / "sudo").unlink()
        self.assert_asks_for_packages(self.run_it(uid=1000), "you are not root, and there is no sudo")

    def test_no_apt(self):
        (self.bin / "apt-get").unlink()
        (self.bin / "dpkg-query").unlink()
        self.assert_asks_for_packages(self.run_it(), "there is no apt-get on this machine")

    def test_apt_fails(self):
        (self.base / "apt-fails").touch()
        self.assert_asks_for_packages(self.run_it(), "apt-get install failed")


class PythonEnvironments(Machine):
    def setUp(self):
        super().setUp()
        self.list = self.root / "python" / "requirements-cuda.txt"
        self.list.parent.mkdir()
        self.list.write_text("nvidia-cuda-nvcc==13.0.88\n")
        self.stand_in(self.bin / "python3", 'mkdir -p "$3/bin" && cp "$STATE/pip" "$3/bin/pip"')  # -m venv FOLDER
        self.stand_in(self.base / "pip", 'echo "pip $*" >> "$STATE/log"; [ ! -e "$STATE/pip-fails" ] || exit 1\n'
                      'folder=${0%/bin/pip}; toolkit=$folder/lib/python3.11/site-packages/nvidia/cu13\n'
                      'mkdir -p "$toolkit/bin" "$toolkit/lib"; cp /bin/true "$toolkit/bin/nvcc"; cp /bin/true "$folder/bin/cmake"')

    def install_cuda(self):
        return self.bash("-c", '. "a clone/scripts/lib/setup.sh"; install_cuda && command -v nvcc cmake')

    def test_nvcc_is_installed_once(self):
        toolkit = self.root / "build/cuda/lib/python3.11/site-packages/nvidia/cu13"
        for _ in range(2):
            result = self.install_cuda()
            self.assertEqual(result.stdout.splitlines(), [f"{toolkit}/bin/nvcc", f"{toolkit}/bin/cmake"], result.stderr)
        self.assertEqual(len(self.log()), 1)
        self.assertEqual(os.readlink(toolkit / "lib/libcudart.so"), "libcudart.so.13")
        self.list.write_text("nvidia-cuda-nvcc==13.1.80\n")
        self.install_cuda()
        self.assertEqual(len(self.log()), 2)

    def test_an_installed_toolkit_is_used(self):
        (self.bin / "nvcc").symlink_to("/bin/true")
        self.assertEqual(self.install_cuda().stdout.splitlines()[0], str(self.bin / "nvcc"))
        self.assertEqual(self.log(), [])

    def test_nothing_is_left_if_it_cannot_be_installed(self):
        (self.base / "pip-fails").touch()
        result = self.install_cuda()
        self.assertEqual(result.returncode, 1)
        self.assertIn("The packages of python/requirements-cuda.txt cannot be installed.", result.stderr)
        self.assertFalse((self.root / "build" / "cuda").exists())


if __name__ == "__main__":
    unittest.main()
