#!/usr/bin/env python3
"""Manual pages have no warnings, and completions run in bash and offer what the programs
accept.

usage: documents.py DOCUMENTS SAMPLE_PROGRAM PROGRAM...

Roff readers that are not installed are reported and skipped.
"""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

DOCUMENTS, SAMPLE = Path(sys.argv[1]), sys.argv[2]
PROGRAMS = {Path(path).name: path for path in sys.argv[3:]}
STRATEGIES = ["evolutionary", "genetic", "kernighan-lin"]


def output_of(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    return done.stdout


def long_options(program):
    """Returns the options listed by --help."""
    return re.findall(r"^  (?:-\w,)?(--[\w-]+)", output_of(program, "--help"), re.M)


class Terminal:
    """An interactive shell in a folder. Waits for texts rather than times; the limit is for a shell
    that hangs."""

    LIMIT_S = 60

    def __init__(self, command, folder):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            home = {"HOME": str(folder), "TERM": "dumb", "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
            os.execvpe(command[0], command, home)
        self.seen = b""

    def send(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, pattern):
        while not re.search(pattern, self.seen):
            ready, _, _ = select.select([self.terminal], [], [], self.LIMIT_S)
            if not ready:
                raise AssertionError(f"{pattern} does not come; there is {self.seen!r}")
            self.seen += os.read(self.terminal, 4096)
        found = re.search(pattern, self.seen)
        self.seen = self.seen[found.end():]
        return found

    def completed(self, line):
        """Returns the words of `line` after pressing the tabulator key."""
        # to the beginning and to the end of the line
        self.send(line + "\t\x01printf '<%s>' \x05; printf '\\n<<en''d>>\\n'\r")
        found = self.wait_for(rb"\n((?:<[^<>]*>)+)\s*\r?\n<<end>>")
        return re.findall(r"<([^<>]*)>", found.group(1).decode())

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.child, 0)


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        subprocess.run([SAMPLE, cls.folder / "made"], check=True)
        cls.cwd = cls.folder / "here"
        (cls.cwd / "some folder").mkdir(parents=True)
        (cls.cwd / "a job.yaml").touch()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def tearDown(self):
        self.assertEqual([path.name for path in self.cwd.iterdir() if path.name == "pwned"], [])

    def made(self, kind):
        return sorted(DOCUMENTS.joinpath(kind).iterdir()) + sorted(self.folder.joinpath("made", kind).iterdir())

    def file_of(self, kind, program):
        return next(path for path in self.made(kind) if program in path.name)

    def test_every_program_has_all_documents(self):
        for kind, name in {"man": "{}.1", "bash": "{}"}.items():
            for program in PROGRAMS:
                self.assertTrue(DOCUMENTS.joinpath(kind, name.format(program)).is_file(), (kind, program))

    @needs("groff")
    def test_manual_pages_have_no_warnings(self):
        for page in self.made("man"):
            self.assertEqual(output_of("groff", "-man", "-ww", "-z", "-Tutf8", page), "", page.name)

    @needs("mandoc")
    def test_another_reader_has_no_warnings_either(self):
        for page in self.made("man"):
            self.assertEqual(output_of("mandoc", "-T", "lint", "-W", "error", page), "", page.name)

    def printed(self, page):
        return output_of("groff", "-man", "-Tutf8", "-P-cbou", "-rLL=300n", page)

    @needs("groff")
    def test_manual_pages_name_every_option(self):
        for name, program in PROGRAMS.items():
            text = self.printed(self.file_of("man", name + "."))
            for option in long_options(program):
                self.assertRegex(text, rf"(?m)^ +(-\w, )?{option}( |$)")
            self.assertRegex(text, rf"(?m)^EXAMPLES\n +.*\b{name} ")
            others = sorted(text.split("SEE ALSO\n")[1].split("\n\n")[0].replace("(1)", "").replace(",", "").split())
            self.assertEqual(others, sorted(set(PROGRAMS) - {name}))

    @needs("groff")
    def test_text_is_escaped(self):
        text = self.printed(self.file_of("man", "dtfm-sample."))
        self.assertEqual(re.findall(r"^\w.*", text, re.M)[1:-1],
                         ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS", "NOTES", "EXAMPLES"])
        self.assertIn("""it's [a]: "b" $(touch pwned) `touch pwned` \\fB{x} %s é; touch pwned #""", text)
        self.assertIn(".SH INJECTED 'br\n", text)
        self.assertIn("\n       dtfm-sample show links [OPTION]...\n", text)
        self.assertIn("\n   show links\n", text)

    def bash_reply(self, program, words):
        quoted = " ".join(f"'{word}'" for word in words)
        script = f"""source '{self.file_of("bash", program)}'
          COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1} && {{ _{program.replace("-", "_")}; printf '%s\\n' "${{COMPREPLY[@]}}"; }}"""
        return output_of("bash", "--norc", "-c", script, cwd=self.cwd).split()

    def test_bash_offers_every_option(self):
        for name, program in PROGRAMS.items():
            self.assertLessEqual(set(long_options(program)), set(self.bash_reply(name, [name, "--"])), name)

    def test_bash_offers_values(self):
        self.assertEqual(self.bash_reply("dtfm-plan", ["dtfm-plan", "--format", ""]), ["text", "json"])
        self.assertEqual(self.bash_reply("dtfm-plan", ["dtfm-plan", "--format", "=", "j"]), ["json"])
        self.assertEqual(self.bash_reply("dtfm-plan", ["dtfm-plan", "--format", "="]), ["text", "json"])
        self.assertEqual(self.bash_reply("dtfm-plan", ["dtfm-plan", "--robust", ""]), ["mean", "p95", "worst"])
        self.assertEqual(self.bash_reply("dtfm-plan", ["dtfm-plan", "--pipeline", ""]), ["auto"])
        self.assertEqual(self.bash_reply("dtfm-plan", ["dtfm-plan", "--seed", ""]), [])
        self.assertEqual(self.bash_reply("dtfm-plan", ["dtfm-plan", "--strategy", ""])[:3], STRATEGIES)
        self.assertIn("A100-80GB", self.bash_reply("dtfm-profile", ["dtfm-profile", "--estimate", "A"]))
        self.assertIn("megatron", self.bash_reply("dtfm-export", ["dtfm-export", "plan.json", "--to", ""]))
        self.assertEqual(self.bash_reply("dtfm-profile", ["dtfm-profile", "--import", ""]), ["sailor", "metis", "kineto"])

    def test_every_value_that_is_offered_is_accepted(self):
        for option, others in (("--strategy", ["--objective", "comm-cost"]), ("--objective", []), ("--robust", [])):
            for value in self.bash_reply("dtfm-plan", ["dtfm-plan", option, ""]):
                self.assertIn("no-such-file", output_of(PROGRAMS["dtfm-plan"], "no-such-file", option, value, *others))

    def test_bash_knows_subcommands(self):
        self.assertEqual(self.bash_reply("dtfm-sample", ["dtfm-sample", ""]), ["import", "show"])
        self.assertEqual(self.bash_reply("dtfm-sample", ["dtfm-sample", "import", ""]), ["ping", "iperf"])
        self.assertEqual(self.bash_reply("dtfm-sample", ["dtfm-sample", "show", "links", "--u"]), ["--unit"])
        self.assertEqual(self.bash_reply("dtfm-sample", ["dtfm-sample", "show", "links", "--unit", ""]), ["ms", "s"])

    def check_terminal(self, terminal):
        self.assertEqual(terminal.completed("dtfm-plan --objective com"), ["dtfm-plan", "--objective", "comm-cost"])
        self.assertEqual(terminal.completed("dtfm-plan --warm-s"), ["dtfm-plan", "--warm-start"])
        self.assertEqual(terminal.completed("dtfm-plan --job a"), ["dtfm-plan", "--job", "a job.yaml"])
        self.assertEqual(terminal.completed("dtfm-plan a"), ["dtfm-plan", "a job.yaml"])
        self.assertEqual(terminal.completed("dtfm-plan --seed a"), ["dtfm-plan", "--seed", "a"])
        self.assertEqual(terminal.completed("dtfm-sample import pi"), ["dtfm-sample", "import", "ping"])
        self.assertEqual(terminal.completed("dtfm-sample --name gpt"), ["dtfm-sample", "--name", "gpt3-6.7b"])
        self.assertEqual(terminal.completed("dtfm-sample import --into s")[3].rstrip("/"), "some folder")
        self.assertEqual(terminal.completed("dtfm-sample show links --unit m"), ["dtfm-sample", "show", "links", "--unit", "ms"])

    def test_bash_in_a_terminal(self):
        terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], self.cwd)
        terminal.send("".join(f"source '{path}';" for path in self.made("bash")) + "PS1='> '; printf 'rea''dy'\r")
        terminal.wait_for(rb"ready")
        self.check_terminal(terminal)
        terminal.close()


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    if result.wasSuccessful() and result.skipped:
        print("skipped:", "; ".join(sorted({why for _, why in result.skipped})))
    sys.exit(not result.wasSuccessful())
