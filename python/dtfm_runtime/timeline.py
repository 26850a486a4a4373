"""What a run did and when: a line of JSON per iteration, and a Chrome trace like that of `dtfm-sim --trace`.

Each rank records its activities by its own clock. At the end the recordings of all ranks are merged: times are moved
to the clock of rank 0 by the differences that the watchdog measured.
"""
from __future__ import annotations

import bisect
import contextlib
import json
import math
import os
import resource
import sys
import time
from pathlib import Path
from typing import ContextManager, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch

from .errors import UserError
from .failure import Clock

SCHEMA = "dtfm-timeline/1"
MAX_EVENTS = 500_000  # of a rank, about 50 MB; later ones are counted only

# The names that dtfm-sim gives its activities. Messages are shown by the rank that sends and by the one that receives.
LETTERS = {"forward": "F", "backward": "B", "weight_gradient": "WG", "send_activations": "SA", "send_gradients": "SG",
           "gradient_sync": "X", "all_gather": "G", "compress": "C", "update": "update", "step": "step",
           "save_checkpoint": "save"}
MESSAGES = {"send_activations", "send_gradients", "gradient_sync", "all_gather"}
ROWS = ("compute", "send", "receive")
MAX_SUBROWS = 1_000_000  # sorts rows by kind first, then by number

Event = Dict[str, object]


def label(event: Mapping[str, object], rank: int) -> str:
    """The name of an activity, for example `F p0 s3 m17` or `X l6 k2 d1>d5`, as dtfm-sim writes it."""
    text = LETTERS[str(event["kind"])]
    for letter, key in (("p", "pipeline"), ("s", "stage"), ("m", "micro_batch"), ("l", "layer"), ("k", "phase")):
        if event.get(key) is not None:
            text += f" {letter}{event[key]}"
    if event.get("pipeline") is not None:
        return text
    peer = event.get("peer")
    ends = (peer, rank) if event.get("is_received") else (rank, peer)
    return text + (f" d{rank}" if peer is None else f" d{ends[0]}>d{ends[1]}")


class Recorder:
    """Records what a rank does. Times are those of `time.monotonic()`. On a GPU, spans of computations are those of
    the kernels."""

    def __init__(self, rank: int, enabled: bool, device: Optional[torch.device] = None) -> None:
        self.rank, self.enabled = rank, enabled
        self._events: List[Event] = []
        self._dropped = 0
        self._kernels = _KernelTimes() if enabled and device is not None and device.type == "cuda" else None

    def span(self, kind: str, *, pipeline: Optional[int] = None, stage: Optional[int] = None,
             micro_batch: Optional[int] = None, layer: Optional[int] = None, phase: Optional[int] = None,
             peer: Optional[int] = None) -> ContextManager[None]:
        """Records what is done within a `with`."""
        if not self.enabled:
            return contextlib.nullcontext()
        return self._span(kind, {"pipeline": pipeline, "stage": stage, "micro_batch": micro_batch, "layer": layer,
                                 "phase": phase, "peer": peer})

    @contextlib.contextmanager
    def _span(self, kind: str, numbers: Dict[str, Optional[int]]) -> Iterator[None]:
        if self._kernels and kind not in MESSAGES:
            with self._kernels.timed(kind, numbers):
                yield
            return
        start = time.monotonic()
        yield
        self.add(kind, start, time.monotonic(), **numbers)

    def add(self, kind: str, start_s: float, end_s: float, *, is_received: bool = False,
            **numbers: Optional[int]) -> None:
        """Records an activity that has ended, mostly a message. `is_received`: this rank receives it from `peer`, and
        pipeline and stage are those of the sender. `numbers` are those of `span`."""
        if kind not in LETTERS:
            raise ValueError(f"unknown activity {kind}")
        self._append({"kind": kind, "start_s": start_s, "end_s": end_s, "is_received": is_received or None, **numbers})

    def iteration(self, number: int, start_s: float, end_s: float) -> None:
        """Records an iteration, after its activities."""
        if self._kernels:
            for kind, numbers, start, end in self._kernels.take():
                self.add(kind, start, end, **numbers)
        self._append({"kind": "iteration", "iteration": number, "start_s": start_s, "end_s": end_s})

    def _append(self, event: Event) -> None:
        if not self.enabled:
            return
        if len(self._events) < MAX_EVENTS:
            self._events.append({key: value for key, value in event.items() if value is not None})
        else:
            self._dropped += 1

    def text(self, clock: Clock = Clock()) -> str:
        """What `merge_texts` reads: a line of JSON about the rank and one per event."""
        error_s = clock.error_s if clock.error_s < float("inf") else None
        header = {"schema": SCHEMA, "rank": self.rank, "offset_s": clock.offset_s, "error_s": error_s,
                  "dropped": self._dropped}
        return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [header, *self._events])


class _KernelTimes:
    """Times of kernels by events of the GPU, moved to the clock of the process once per iteration."""

    def __init__(self) -> None:
        self._spans: List[tuple] = []
        self._set_origin()

    def _set_origin(self) -> None:
        torch.cuda.synchronize()
        self._origin = torch.cuda.Event(enable_timing=True)
        self._origin.record()
        self._origin.synchronize()
        self._origin_s = time.monotonic()

    @contextlib.contextmanager
    def timed(self, kind: str, numbers: Dict[str, Optional[int]]) -> Iterator[None]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        yield
        end.record()
        self._spans.append((kind, numbers, start, end))

    def take(self) -> Iterator[Tuple[str, Dict[str, Optional[int]], float, float]]:
        torch.cuda.synchronize()
        for kind, numbers, start, end in self._spans:
            yield kind, numbers, self._time_of(start), self._time_of(end)
        self._spans.clear()
        self._set_origin()  # differences are numbers of fp32

    def _time_of(self, event) -> float:
        return self._origin_s + self._origin.elapsed_time(event) / 1e3


# ---------------------------------------------------------------------------------------------------- merging

def merge_texts(texts: Iterable[str], output: os.PathLike, devices: Sequence[str] = (), name: str = "training") -> int:
    """Writes a Chrome trace of all ranks, whose activities have the number of their iteration. `devices` are the names
    of the ranks' devices, by rank. Returns how many events the ranks have dropped. Iterations of which events may be
    missing are left out."""
    parsed = sorted((_parsed(text) for text in texts), key=lambda it: it[0])
    ranks = [(rank, events) for rank, events, _ in parsed]
    incomplete = min((_number_iterations(events, dropped) for _, events, dropped in parsed), default=math.inf)
    _join_ends_of_messages(ranks)
    trace = _ChromeTrace(name)
    start_s = min((event["start_s"] for _, events in ranks for event in events), default=0.0)
    for number, events in _iterations(ranks).items():
        if number < incomplete:
            trace.slice(0, 0, f"iteration {number}", events[0] - start_s, events[1] - start_s)
    for rank, events in ranks:
        trace.name_process(rank + 1, devices[rank] if rank < len(devices) else f"rank {rank}")
        for event in events:
            number = event.get("iteration")
            if number is None or number < incomplete:
                trace.add(rank, event, event["start_s"] - start_s, event["end_s"] - start_s)
    with _writing(output):
        Path(output).write_text(trace.text(), encoding="utf-8")
    return sum(dropped for _, _, dropped in parsed)


def _parsed(text: str) -> Tuple[int, List[dict], int]:
    """The rank, its events by the clock of rank 0, in order of their start, and how many more it has dropped."""
    try:
        header, *events = map(json.loads, text.splitlines())
        if header["schema"] != SCHEMA:
            raise ValueError
        for event in events:
            event["start_s"], event["end_s"] = (float(event[key]) + header["offset_s"] for key in ("start_s", "end_s"))
        return int(header["rank"]), sorted(events, key=lambda event: event["start_s"]), int(header["dropped"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise UserError("a timeline of a rank is damaged: run train.py with --trace again") from None


def _number_iterations(events: Sequence[dict], dropped: int) -> float:
    """Labels each activity of a rank with its iteration: the last one that the rank had started by then. Work between
    iterations, such as a checkpoint, belongs to the earlier one. Returns the first iteration that may lack events, or
    infinity. After dropped events, that is the last recorded one, because messages may end after their iteration."""
    starts = [(event["start_s"], event["iteration"]) for event in events if event["kind"] == "iteration"]
    if dropped and not starts:
        starts = [(-math.inf, 0)]
    for event in events:
        before = bisect.bisect_right(starts, (event["start_s"], math.inf))
        if event["kind"] != "iteration" and before > 0:
            event["iteration"] = starts[before - 1][1]
    return starts[-1][1] if dropped else math.inf


def _join_ends_of_messages(ranks: Sequence[Tuple[int, List[dict]]]) -> None:
    """A message takes from when its sender starts to send it to when its receiver has it, as in dtfm-sim. Each end has
    recorded something else: that the network took the data over, and how long it waited for them. A receiver may begin
    to wait in the iteration before, so the sender's iteration is that of the message."""
    sent: Dict[tuple, List[dict]] = {}
    for rank, events in ranks:
        for event in events:
            if event["kind"] in MESSAGES and not event.get("is_received"):
                sent.setdefault(_message(event, rank), []).append(event)
    for rank, events in ranks:
        for event in events:
            if event["kind"] in MESSAGES and event.get("is_received") and sent.get(_message(event, rank)):
                send = sent[_message(event, rank)].pop(0)  # events are in order of time
                event["start_s"] = send["start_s"]
                event["end_s"] = send["end_s"] = max(event["end_s"], send["start_s"])
                event["iteration"] = send.get("iteration")
    for _, events in ranks:
        events.sort(key=lambda event: event["start_s"])


def _message(event: Mapping[str, object], rank: int) -> tuple:
    """The same at both ends of a message, and of that message in every iteration."""
    ends = (event.get("peer"), rank) if event.get("is_received") else (rank, event.get("peer"))
    return (*(event.get(key) for key in ("kind", "pipeline", "stage", "micro_batch", "layer", "phase")), *ends)


def _iterations(ranks: Sequence[Tuple[int, List[dict]]]) -> Dict[int, Tuple[float, float]]:
    """From the first rank's start to that of the next iteration, or of the last one to the last rank's end. A rank begins
    an iteration while others end the one before."""
    result: Dict[int, Tuple[float, float]] = {}
    for _, events in ranks:
        for event in events:
            if event["kind"] == "iteration":
                start, end = result.get(event["iteration"], (event["start_s"], event["end_s"]))
                result[event["iteration"]] = min(start, event["start_s"]), max(end, event["end_s"])
    starts = sorted(start for start, _ in result.values())
    following = dict(zip(starts, starts[1:]))
    return {number: (start, min(end, following.get(start, end))) for number, (start, end) in result.items()}


class _ChromeTrace:
    """Process 0 is the run, process r + 1 is rank r, with rows for computing, sending and receiving."""

    def __init__(self, name: str) -> None:
        self._lines: List[str] = []
        self._busy_until: Dict[Tuple[int, int], List[float]] = {}
        self.name_process(0, name)
        self._write({"ph": "M", "pid": 0, "tid": 0, "name": "thread_name", "args": {"name": "iterations"}})

    def name_process(self, process: int, name: str) -> None:
        self._write({"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}})
        self._write({"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}})

    def add(self, rank: int, event: Mapping[str, object], start_s: float, end_s: float) -> None:
        kind = event["kind"]
        if kind in LETTERS:
            row = 0 if kind not in MESSAGES else 2 if event.get("is_received") else 1
            self.slice(rank + 1, self._free_row(rank + 1, row, start_s, end_s), label(event, rank), start_s, end_s,
                       event.get("iteration"))

    def slice(self, process: int, thread: int, name: str, start_s: float, end_s: float,
              iteration: Optional[int] = None) -> None:
        start, end = _microseconds(start_s), _microseconds(end_s)
        arguments = {} if iteration is None else {"args": {"iteration": iteration}}
        self._write({"ph": "X", "pid": process, "tid": thread, "ts": start, "dur": round(end - start, 3), "name": name,
                     **arguments})

    def _free_row(self, process: int, row: int, start_s: float, end_s: float) -> int:
        """The thread of the first row of this kind that is free. Rows of a kind are len(ROWS) apart."""
        subrows = self._busy_until.setdefault((process, row), [])
        for subrow, busy_until in enumerate(subrows):
            if busy_until <= start_s:
                subrows[subrow] = end_s
                return row + len(ROWS) * subrow
        subrow, thread = len(subrows), row + len(ROWS) * len(subrows)
        subrows.append(end_s)
        name = ROWS[row] + (f" {subrow + 1}" if subrow else "")
        self._write({"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": name}})
        self._write({"ph": "M", "pid": process, "tid": thread, "name": "thread_sort_index",
                     "args": {"sort_index": row * MAX_SUBROWS + subrow}})
        return thread

    def _write(self, event: Mapping[str, object]) -> None:
        self._lines.append(json.dumps(event, ensure_ascii=False))

    def text(self) -> str:
        return '{"displayTimeUnit": "ms", "traceEvents": [\n' + ",\n".join(self._lines) + "\n]}\n"


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)


# ------------------------------------------------------------------------------------------------- iterations

class IterationLog:
    """A file with a line of JSON per iteration, which is complete even if the run is killed."""

    def __init__(self, path: os.PathLike, append: bool = False) -> None:
        with _writing(path):
            self._file = open(path, "a" if append else "w", encoding="utf-8")
        self._path = path

    def write(self, *, iteration: int, loss: Optional[float], seconds: float, tokens: int,
              peak_memory_bytes: Optional[int] = None, **more) -> None:
        """`loss` None: this rank does not know it, or there is none."""
        tokens_per_s = tokens / seconds if seconds > 0 else None
        line = {"iteration": iteration, "loss": loss, "seconds": seconds, "tokens_per_s": tokens_per_s,
                "peak_memory_bytes": peak_memory_bytes, **more}
        with _writing(self._path):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def close(self) -> None:
        self._file.close()


def peak_memory_bytes(device: torch.device) -> int:
    """The peak of this process: on a GPU what `nvidia-smi` shows, with the context of CUDA; else resident memory."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        # The allocator keeps what it has reserved, so that what is used now includes the peak, unless it had to
        # give memory back.
        context = max(0, total - free - torch.cuda.memory_reserved(device))
        return torch.cuda.max_memory_reserved(device) + context
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@contextlib.contextmanager
def _writing(path: os.PathLike) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{error.filename or path}: cannot be written: {error.strerror}") from None
