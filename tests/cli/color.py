#!/usr/bin/env python3
"""Colours appear only on terminals or on request, and control characters in input files never reach a
terminal.

usage: color.py DTFM_PLAN DTFM_SIM DTFM_COMPARE DTFM_PROFILE DTFM_CALIBRATE OTHER...
"""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
from pathlib import Path

PLAN, SIM, COMPARE, PROFILE, CALIBRATE, *OTHERS = sys.argv[1:]
STYLE = re.compile(r"\033\[\d*m")
NET = """\
version: 1
name: three-hosts
devices: [{site: oregon, count: 3, gpu: T4}]
links: [{within: "*", latency: 5 ms, bandwidth: 2 Gbps}]
"""
JOB = """\
version: 1
name: small
model: {kind: transformer, layers: 6, hidden: 64, heads: 4, sequence: 128, vocabulary: 1000}
training: {global_batch: 8}
"""
BOLD, YELLOW, RED = "\033[1m", "\033[33m", "\033[31m"


def piped(*command, **variables):
    done = subprocess.run(command, capture_output=True, check=False, env=environment(variables))
    return done.stdout.decode()


def environment(variables):
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return {**plain, "TERM": "xterm", **variables}


def on_terminal(*command, columns=0, **variables):
    """Returns the stdout of a command that runs on a terminal; stderr is discarded. `columns` 0: of unknown width."""
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 0, columns, 0, 0))
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.DEVNULL, env=environment(variables)) as child:
        os.close(terminal)
        text = b""
        try:
            while part := os.read(ours, 4096):
                text += part
        except OSError:  # the other end is closed
            pass
        child.wait()
    os.close(ours)
    return text.decode().replace("\r\n", "\n")


class Color(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        os.chdir(cls.scratch.name)
        Path("net.yaml").write_text(NET)
        Path("job.yaml").write_text(JOB)
        cls.plan = [PLAN, "net.yaml", "--job", "job.yaml", "--quiet", "--evaluations", "50", "--threads", "1"]
        piped(*cls.plan, "-o", "plan.json")
        cls.sim = [SIM, "net.yaml", "plan.json", "--quiet"]
        # 200 micro-batches instead of 8: a warning.
        odd = json.loads(Path("plan.json").read_text())
        odd["pipelines"][0]["micro_batches"] = 200
        Path("odd.json").write_text(json.dumps(odd))
        cls.odd = [PLAN, "net.yaml", "--score", "odd.json", "--quiet"]
        # A model of 25 billion parameters on GPUs of 16 GB does not fit.
        Path("large.yaml").write_text(JOB.replace("hidden: 64", "hidden: 18432"))
        cls.large = [SIM, "net.yaml", "plan.json", "--job", "large.yaml", "--quiet"]

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        cls.scratch.cleanup()

    def commands(self):
        return [self.plan, self.sim, self.odd, self.large, [PROFILE, "--list-gpus"], [PLAN, "--list-strategies"], [COMPARE, "net.yaml", "--scheme", "megatron", "--quiet"],
                self.plan + ["--objective", "comm-cost", "--pipeline", "3"], self.plan + ["--explain"], [PROFILE, "--estimate", "T4"]]

    def test_no_color_on_pipes(self):
        for command in self.commands():
            self.assertNotIn("\033", piped(*command))

    def test_colours_change_nothing_else(self):
        for command in self.commands():
            plain = piped(*command)
            self.assertNotEqual(plain, "", command)
            self.assertEqual(STYLE.sub("", piped(*command, "--color", "always")), plain, command)
            self.assertEqual(piped(*command, "--color", "never"), plain)

    def test_every_style_is_reset_on_its_line(self):
        for command in self.commands():
            for line in piped(*command, "--color", "always").splitlines():
                self.assertRegex(re.sub(r"\033\[[1-9]\d*m[^\033]*\033\[0m", "", line), r"^[^\033]*$")

    def test_headings_warnings_and_memory_deficits_are_coloured(self):
        self.assertIn(BOLD + "Time of an iteration\033[0m\n", piped(*self.plan, "--color", "always"))
        self.assertIn(BOLD + "stage  layers", piped(*self.plan, "--color", "always"))
        self.assertRegex(piped(*self.odd, "--color", "always"), re.escape(YELLOW) + "warning: the pipelines compute")
        self.assertIn(RED + "exceeds memory: oregon/0", piped(*self.large, "--color", "always"))

    def test_precedence_of_color_settings(self):
        has = lambda **variables: "\033[" in on_terminal(*self.sim, **variables)
        self.assertTrue(has())
        self.assertFalse(has(NO_COLOR="1"))
        self.assertFalse(has(NO_COLOR="0"))  # any value counts
        self.assertTrue(has(NO_COLOR=""))
        self.assertFalse(has(TERM="dumb"))
        self.assertNotIn("\033", on_terminal(*self.sim, "--color", "never"))
        self.assertIn(BOLD, on_terminal(*self.sim, "--color", "always", NO_COLOR="1"))
        self.assertEqual(STYLE.sub("", on_terminal(*self.sim)), piped(*self.sim))

    def test_lines_of_tables_are_cut_to_the_width_of_the_terminal(self):
        whole = piped(*self.sim)
        self.assertNotIn("…\n", whole)
        cut = on_terminal(*self.sim, "--color", "never", columns=40)
        for line, short in zip(whole.splitlines(), cut.splitlines()):
            self.assertIn(short, (line, line[:39] + "…"))
        self.assertIn("…\n", cut)
        self.assertEqual(on_terminal(*self.sim, "--color", "never", columns=1000), whole)

    def test_no_color_in_machine_readable_output(self):
        for command in (self.plan, self.sim):
            for more in (["--format", "json"], ["-o", "-"]):
                json.loads(piped(*command, *more, "--color", "always"))

    def test_every_program_has_the_option_and_rejects_other_values(self):
        for program in (PLAN, SIM, COMPARE, PROFILE, CALIBRATE, *OTHERS):
            done = subprocess.run([program, "--color", "green"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr, f"{Path(program).name}: --color: expected auto, always or never; found `green`\n")

    def refusal(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertNotRegex(done.stderr, "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e]")
        return done.stderr

    def test_names_with_control_characters_are_rejected(self):
        for written, shown in {"\\e[31m": "\\x1b[31m", "\\u009b2J": "\\u009b2J", "\\x7f": "\\u007f", "\\u202e": "\\u202e"}.items():
            Path("bad.yaml").write_text(NET.replace("name: three-hosts", f'name: "a{written}"'))
            self.assertIn(f"bad.yaml:2:7: `name`: `a{shown}` contains a control character", self.refusal(PLAN, "bad.yaml"))
            Path("bad.yaml").write_text(NET.replace("site: oregon", f'site: "a{written}"'))
            self.assertIn("bad.yaml:3:18: `site`:", self.refusal(PLAN, "bad.yaml"))
        plan = json.loads(Path("plan.json").read_text())
        plan["job"]["name"] = "a\033]0;title\007"
        Path("bad.json").write_text(json.dumps(plan, indent=1))
        self.assertIn("`name`: `a\\x1b]0;title\\x07` contains a control character", self.refusal(SIM, "net.yaml", "bad.json"))

    def test_file_names_are_escaped(self):
        self.assertEqual(self.refusal(PLAN, "a\033[31m\u009b.yaml"),
                         "dtfm-plan: a\\x1b[31m\\u009b.yaml: cannot be opened: No such file or directory\n")
        Path("g\033[31m.txt").write_text("host a\ncompute one a 1\n")
        self.assertIn("g\\x1b[31m.txt: 1 task", on_terminal(SIM, "--graph", "g\033[31m.txt"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
