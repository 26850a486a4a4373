"""The errors that end a run, and the exit codes."""

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
    """An exception in code that the user may have written: the model function, a layer, the loss or `batch`.
    `__cause__` is the original exception."""


def first_line(error: BaseException) -> str:
    """The first line of the message, or the type of the error if the message is empty."""
    return printable(str(error).strip().partition("\n")[0]) or type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in ("out of memory", "allocate memory")))


@contextlib.contextmanager
def computing(what: str) -> Iterator[None]:
    """Turns an exception into a LayerFailed that names `what` was being computed. Running out of memory passes through:
    the plan is its cause, and not the layer."""
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
