"""Starts the programs that the package contains: dtfm-plan and so on, and `python -m dtfm` = dtfm-plan."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def run(name: str) -> None:
    """Replaces this process by the program. Ends it with status 1 if the program is missing."""
    program = Path(__file__).parent / "bin" / name
    if not program.is_file():
        sys.exit(f"{name}: {program} does not exist: reinstall the package (pip install .)")
    os.execv(program, [str(program), *sys.argv[1:]])


def calibrate() -> None:
    run("dtfm-calibrate")


def compare() -> None:
    run("dtfm-compare")


def export() -> None:
    run("dtfm-export")


def plan() -> None:
    run("dtfm-plan")


def profile() -> None:
    run("dtfm-profile")


def sim() -> None:
    run("dtfm-sim")


def topology() -> None:
    run("dtfm-topology")
