"""Rows of the table of measured iterations that `dtfm-calibrate` reads.

    python3 -m dtfm_runtime.runs LOG --plan plan.json -o runs.csv
"""
from __future__ import annotations

import argparse
import csv
import fcntl
import io
import json
import os
import statistics
import sys
from pathlib import Path
from typing import List, Mapping, Optional, Sequence

from .errors import BAD_INPUT, DONE, UserError

COLUMNS = ("name", "plan", "seconds", "peak_memory_bytes")
MAX_ROWS = 200  # that dtfm-calibrate reads
MAX_PLAN_BYTES = 1 << 28


def append(table: os.PathLike, *, plan: os.PathLike, seconds: Sequence[float],
           peak_memory_bytes: Optional[int] = None, name: Optional[str] = None) -> None:
    """Adds a row per duration to the table, which is created if it is missing. The plan must be in the folder of the
    table or below. `peak_memory_bytes` is that of the device that needs most; the first row has it."""
    table = Path(table)
    _require_plan(Path(plan))
    relative = _below(Path(plan), table.parent)
    rows = [[_cell(name), _cell(relative), repr(float(value)), peak if peak is not None else ""]
            for value, peak in zip(seconds, [peak_memory_bytes] + [None] * len(seconds))]
    try:
        with open(table, "a+", encoding="utf-8", newline="") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # several runs may end at the same time
            file.seek(0)
            lines = [line for line in file.read().splitlines() if line.strip() and not line.startswith("#")]
            _check(table, lines, len(rows))
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(rows if lines else [COLUMNS, *rows])
            file.write(text.getvalue())
    except OSError as error:
        raise UserError(f"{table}: cannot be written: {error.strerror}") from None


def _check(table: Path, lines: Sequence[str], added: int) -> None:
    if lines and lines[0].strip() != ",".join(COLUMNS):
        raise UserError(f"{table} does not have the columns {','.join(COLUMNS)}: use another file")
    if max(0, len(lines) - 1) + added > MAX_ROWS:
        raise UserError(f"{table} would have more than {MAX_ROWS} rows, which dtfm-calibrate refuses: use another file")


def _require_plan(plan: Path) -> None:
    try:
        with open(plan, "rb") as file:
            is_plan = "pipelines" in json.loads(file.read(MAX_PLAN_BYTES))
    except OSError as error:
        raise UserError(f"--plan {plan}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, RecursionError):
        is_plan = False
    if not is_plan:
        raise UserError(f"--plan {plan} is not a plan of dtfm-plan")


def _below(plan: Path, folder: Path) -> str:
    relative = os.path.relpath(os.path.realpath(plan), os.path.realpath(folder))
    if relative.split(os.sep)[0] == os.pardir:
        raise UserError(f"{plan} is not in the folder of the table, {folder.resolve()}, or below: copy it there")
    return relative


def _cell(text: Optional[str]) -> str:
    """The table has no way to write commas or quotes within a cell."""
    if text is not None and any(c in ',"#' or not c.isprintable() for c in text):
        raise UserError(f"a table of runs cannot contain {text!r}: names must not have commas, quotes or `#`")
    return text or ""


def read_log(path: os.PathLike) -> List[dict]:
    """The iterations that `IterationLog` has written. A last line that was cut off is left out."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "not text"
        raise UserError(f"{path}: cannot be read: {problem}") from None
    *lines, rest = text.split("\n")
    return [_iteration(path, number, line) for number, line in enumerate(lines, 1)]


def _iteration(path: os.PathLike, number: int, line: str) -> dict:
    try:
        row = json.loads(line)
        if not row["seconds"] > 0:
            raise ValueError
        float(row["seconds"])  # overflows if it is a whole number of hundreds of digits
        return row
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise UserError(f"{path}:{number}: not an iteration of train.py --log") from None


def durations(log: Sequence[Mapping], skip: int, each: bool) -> List[float]:
    """Of the iterations but the first `skip`, in which memory is allocated and caches are filled: their median, or
    each of them."""
    seconds = [float(row["seconds"]) for row in log[skip:]]
    if not seconds:
        raise UserError(f"the log has {len(log)} iterations, of which {skip} are skipped: train longer, or lower "
                        "--skip")
    return seconds if each else [statistics.median(seconds)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m dtfm_runtime.runs", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Adds the iterations of a run to a table for dtfm-calibrate.",
        epilog="example:\n  python3 -m dtfm_runtime.runs log.jsonl --plan plan.json -o runs.csv\n"
               "  dtfm-calibrate lab.yaml runs.csv -o calibration.json")
    parser.add_argument("log", metavar="LOG", help="file that train.py --log wrote")
    parser.add_argument("--plan", required=True, metavar="FILE",
                        help="plan that was run, in the folder of the table or below")
    parser.add_argument("-o", "--output", default="runs.csv", metavar="FILE",
                        help="table, to which rows are added [runs.csv]")
    parser.add_argument("--name", help="label of the rows [none]")
    parser.add_argument("--skip", type=int, default=1, metavar="N", help="leaves out the first N iterations [1]")
    parser.add_argument("--each", action="store_true", help="adds a row for each iteration [one with their median]")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    try:
        log = read_log(arguments.log)
        peaks = [row["peak_memory_bytes"] for row in log if row.get("peak_memory_bytes")]
        append(arguments.output, plan=arguments.plan, seconds=durations(log, max(0, arguments.skip), arguments.each),
               peak_memory_bytes=max(peaks, default=None), name=arguments.name)
    except UserError as error:
        print(f"runs: {error}", file=sys.stderr)
        return BAD_INPUT
    return DONE


if __name__ == "__main__":
    sys.exit(main())
