"""The errors that end a run with one line, and the exit codes."""

DONE, BAD_INPUT, PEER_FAILED, INTERRUPTED = 0, 2, 3, 130


MAX_PRINTED = 500  # characters


def printable(text) -> str:
    """Text of a file or another process, for one line of a terminal."""
    return "".join(c if c.isprintable() else " " for c in str(text))[:MAX_PRINTED]


class UserError(Exception):
    """Something that the user can change. The message is one line: the problem first, then what to do."""

    exit_code = BAD_INPUT


class PeerFailed(Exception):
    """Another rank died or left. `rank` is its number; the message names it and its device."""

    exit_code = PEER_FAILED

    def __init__(self, rank: int, message: str):
        super().__init__(message)
        self.rank = rank
