"""Measured iterations as the table that calibrate reads."""

from __future__ import annotations

import csv
import io
import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dtfm.errors import InputError
from dtfm.inputs import Job, plain
from dtfm.results import Plan


def _is_missing(value: Any) -> bool:
    """As in a table: nothing, "-", or what is not a number."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and value in ("", "-"))


def _file_of(kind: type, value: Any, where: str, folder: Path, names: dict[int, tuple[str, str]]) -> str:
    """Writes a plan or job, once for all rows that have the same object, and returns its name."""
    if id(value) not in names:
        try:
            document = value if isinstance(value, kind) else kind(value)
        except InputError as error:
            raise InputError(where, str(error)) from None
        name = f"{kind.__name__.lower()}-{len(names) + 1}.json"
        names[id(value)] = name, where
        (folder / name).write_text(document.to_json(), encoding="utf-8")
    return names[id(value)][0]


def _cell(column: str, value: Any, where: str, folder: Path, names: dict[int, tuple[str, str]]) -> str:
    if _is_missing(value):
        return ""
    if column == "plan":
        return _file_of(Plan, value, where, folder, names)
    if column == "job":
        return _file_of(Job, value, where, folder, names)
    if column == "topology":
        raise InputError(where, "runs on several topologies require a CSV file")
    text = plain(value, where)
    if isinstance(text, (dict, list, bool)):
        raise InputError(where, f"expected a string or a number; found {type(value).__name__}")
    if re.search(r'[,"\r\n]', str(text)):
        raise InputError(where, "must not contain commas, quotes or line ends")
    return str(text)


@contextmanager
def table_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Path]:
    """A file with one line per row, and the plans and jobs that it names, until the end of the context. Errors in a
    line are raised as errors of its row."""
    rows = list(rows)
    with tempfile.TemporaryDirectory(prefix="dtfm-") as name:
        folder, names = Path(name), dict[int, tuple[str, str]]()
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise InputError(f"runs[{i}]", f"expected a dict; found {type(row).__name__}")
        columns = list(dict.fromkeys(str(column) for row in rows for column in row)) or ["plan", "seconds"]
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(columns)
        for i, row in enumerate(rows):
            cells = {
                column: _cell(column, value, f"runs[{i}].{column}", folder, names) for column, value in row.items()
            }
            table.writerow([cells.get(column, "") for column in columns])
        path = folder / "runs.csv"
        path.write_text(text.getvalue(), encoding="utf-8")
        try:
            yield path
        except InputError as error:
            if not error.where.startswith(name):
                raise
            row = f"runs[{error.line - 2}]" if error.line and error.line > 1 else "runs"
            given = {str(folder / file): where for file, where in names.values()}
            file = next((file for file in given if error.where.startswith(file)), None)
            where = given[file] + error.where[len(file) :] if file else row
            raise InputError(where, error.problem.replace(f"{name}/", "")) from None
