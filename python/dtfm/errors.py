"""What dtfm raises."""

from __future__ import annotations

import re


class InputError(ValueError):
    """An argument, a file or a document is not valid.

    Attributes:
        where: location of the error: a file, "file:line:column", a key of a dict, an argument, or "".
        problem: what was found and what was expected.
        file, line, column: the parts of `where` if it is a place in a file or document, else None. Lines and
            columns count from 1, columns in bytes.
    """

    def __init__(self, where: str = "", problem: str = "") -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where = where
        self.problem = problem
        place = re.fullmatch(r"(.+):(\d+):(\d+)", where, re.DOTALL)
        self.file: str | None = place[1] if place else None
        self.line: int | None = int(place[2]) if place else None
        self.column: int | None = int(place[3]) if place else None

    def __reduce__(self) -> tuple:
        return InputError, (self.where, self.problem)


class InfeasibleError(RuntimeError):
    """A trainer cannot run the plan, or strict=True rejects it. The message says how to change the plan."""
