"""The errors that end a run with one line, and the exit codes."""

import contextlib
from typing import Iterator

DONE, FAILED, BAD_INPUT, PEER_FAILED, INTERRUPTED = 0, 1, 2, 3, 130


MAX_PRINTED = 500  # characters


def printable(text) -> str:
    """Text of a file or another process, for one line of a terminal."""
    return "".join(c if c.isprintable() else " " for c in str(text))[:MAX_PRINTED]


class UserError(Exception):
    """Something that the user can change. The message is one line: the problem first, then what to do."""

    exit_code = BAD_INPUT


class LayerFailed(Exception):
    """An error inside a layer, the loss or the data, which may be the user's. `__cause__` is that error."""


def first_line(error: BaseException) -> str:
    """The first line of the message; the type of the error if there is none."""
    return printable(str(error).strip().partition("\n")[0]) or type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in ("out of memory", "allocate memory")))


@contextlib.contextmanager
def computing(what: str) -> Iterator[None]:
    """Says what was computed when an error happened. Running out of memory is an error of the plan."""
    try:
        yield
    except (UserError, LayerFailed):
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise LayerFailed(f"{what}: {type(error).__name__}: {first_line(error)}") from error


class PeerFailed(Exception):
    """Another rank died or left. `rank` is its number; the message names it and its device."""

    exit_code = PEER_FAILED

    def __init__(self, rank: int, message: str):
        super().__init__(message)
        self.rank = rank
