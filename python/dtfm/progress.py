"""Shows how far work has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def shown(progress: Any) -> Iterator[Callable | None]:
    """The callback for the library: `progress` itself, or a bar of tqdm for True if that is installed."""
    if progress is not True:
        yield progress or None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(unit=" evaluations") as bar:

        def show(facts: dict[str, Any]) -> None:
            bar.total = facts["budget"] or None
            bar.n = facts["evaluations"] or bar.n
            if facts["best_s"] > 0:
                bar.set_postfix(best=f"{facts['best_s']:.4g} s", refresh=False)
            if facts["what"]:
                bar.set_description(facts["what"], refresh=False)
            bar.refresh()

        yield show
