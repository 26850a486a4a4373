"""Shows how far work has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dtfm.errors import InputError


@contextmanager
def shown(progress: Any) -> Iterator[Callable | None]:
    """The callback for the library: `progress` itself, or a bar of tqdm for True if that is installed."""
    if progress is not True:
        if progress and not callable(progress):
            raise InputError("progress", f"expected True or a function; found {progress!r}")
        yield progress or None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm() as bar:

        def show(facts: dict[str, Any]) -> None:
            if facts["share"] >= 0:
                bar.unit, bar.total, bar.n = " %", 100, round(100 * facts["share"])
            else:
                bar.unit, bar.total, bar.n = " evaluations", facts["budget"] or None, facts["evaluations"] or bar.n
            if facts["best_s"] > 0:
                bar.set_postfix(best=f"{facts['best_s']:.4g} s", refresh=False)
            if facts["what"]:
                bar.set_description(facts["what"], refresh=False)
            bar.refresh()

        yield show
