#!/usr/bin/env python3
"""Checks README.md: every command of its ```console blocks prints the lines below it, byte for byte,
and nothing more unless the last of them is "…".

usage: readme.py [--update] README PROGRAM...

--update replaces the output in README by what the commands print, with the same number of lines.
Commands run in a folder that has the repository's topologies/ and configs/, and the README's own
files: a ```yaml block whose first line is "# NAME.yaml" is that file.
"""
import difflib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = "build/release/"  # of the programs, as in the README
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)


def files_of(blocks):
    for language, text in blocks:
        name = re.match(r"# (\S+\.yaml)\b", text)
        if language == "yaml" and name:
            yield name.group(1), text


def examples_of(blocks):
    """Returns (command, expected output) for every line that begins with "$ "."""
    for language, text in blocks:
        if language != "console":
            continue
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            yield part.split("\n", 1)


def printed_by(command, programs, folder):
    """Returns what a command prints."""
    words = shlex.split(command)
    if words[0] not in programs:
        raise ValueError(f"an example must call one of {', '.join(programs)}")
    done = subprocess.run([programs[words[0]], *words[1:]], cwd=folder, capture_output=True, timeout=240, check=False)
    if done.returncode != 0:
        raise ValueError(f"exit status {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()


def as_much_as(expected, printed):
    """Returns the lines of `printed` that README shows: all, or as many as precede "…"."""
    if not expected.endswith("\n…\n"):
        return printed
    lines = expected.count("\n") - 1
    return "".join(printed.splitlines(True)[:lines]) + "…\n"


def main(*arguments):
    is_update = arguments[0] == "--update"
    readme, *paths = arguments[is_update:]
    readme = Path(readme).resolve()
    programs = {FOLDER + Path(path).name: Path(path).resolve() for path in paths}
    text = readme.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    examples = list(examples_of(blocks))
    if not examples:
        print(f"{readme}: no ```console block with a line `$ {FOLDER}… …`")
        return 1
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("topologies", "configs"):
            shutil.copytree(readme.parent / name, Path(folder, name))
        for name, content in files_of(blocks):
            Path(folder, name).write_text(content, encoding="utf-8")
        for command, expected in examples:
            try:
                now = as_much_as(expected, printed_by(command, programs, folder))
            except ValueError as error:
                print("FAILED", command, error, sep="\n")
                failed += 1
                continue
            text = text.replace(f"$ {command}\n{expected}", f"$ {command}\n{now}")
            faults = difflib.unified_diff(expected.splitlines(), now.splitlines(), "README.md", "printed", lineterm="")
            print("ok" if now == expected else "FAILED", command, *faults, sep="\n" if now != expected else " ")
            failed += now != expected
    if is_update:
        readme.write_text(text, encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
