#!/usr/bin/env python3
"""Holds README.md to its word: every command of its ```console blocks prints the lines below it, byte for byte, and
nothing more unless the last of them is "…".

usage: readme.py README PROGRAM...

The commands run in a folder that has the repository's topologies/ and configs/, and the README's own files: a ```yaml
block whose first line is "# NAME.yaml" is that file.
"""
import difflib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = "build/release/"  # of the programs, as the README calls them
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)


def files_of(blocks):
    for language, text in blocks:
        name = re.match(r"# (\S+\.yaml)\b", text)
        if language == "yaml" and name:
            yield name.group(1), text


def examples_of(blocks):
    """(command, expected output) of every line that begins with "$ "."""
    for language, text in blocks:
        if language != "console":
            continue
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            yield part.split("\n", 1)


def faults_of(command, expected, programs, folder):
    words = shlex.split(command)
    if words[0] not in programs:
        return [f"an example must call one of {', '.join(programs)}"]
    done = subprocess.run([programs[words[0]], *words[1:]], cwd=folder, capture_output=True, timeout=240, check=False)
    if done.returncode != 0:
        return [f"exit status {done.returncode}: {done.stderr.decode(errors='replace')}"]
    printed = done.stdout.decode()
    if expected.endswith("\n…\n"):
        expected = expected.removesuffix("…\n")
        printed = printed[: len(expected)]
    if printed == expected:
        return []
    return difflib.unified_diff(expected.splitlines(), printed.splitlines(), "README.md", "printed", lineterm="")


def main(readme, *paths):
    readme = Path(readme).resolve()
    programs = {FOLDER + Path(path).name: Path(path).resolve() for path in paths}
    blocks = BLOCK.findall(readme.read_text(encoding="utf-8"))
    examples = list(examples_of(blocks))
    if not examples:
        print(f"{readme}: no ```console block with a line `$ {FOLDER}… …`")
        return 1
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("topologies", "configs"):
            shutil.copytree(readme.parent / name, Path(folder, name))
        for name, text in files_of(blocks):
            Path(folder, name).write_text(text, encoding="utf-8")
        for command, expected in examples:
            faults = list(faults_of(command, expected, programs, folder))
            print("FAILED" if faults else "ok", command, *faults, sep="\n" if faults else " ")
            failed += bool(faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
