"""Ends all ranks of a training when one of them fails, and says which one it was.

Each rank has a connection of its own to rank 0, beside those of the training, and a thread that answers on it while
the main thread computes or waits for messages. A rank whose connection closes without a goodbye, or that is silent
for most of the time limit, has failed; rank 0 tells the others. If rank 0 fails, all others notice by themselves.
Where the main thread does not end in time, because it waits for a message that will never come, the watchdog ends
the process.

The heartbeats also compare the clocks of the ranks, from which timelines of several hosts are aligned.

Messages are lines of JSON:
  to rank 0:    {"hello": PROTOCOL, "rank", "world"}   {"ping": time}   {"bye": reason or null}   {"lost": rank}
  from rank 0:  {"welcome": true}, {"refused": text} or {"failed": …}   {"pong": time, "now": time}   {"bye": null}
                {"failed": rank, "reason": text}
"""
from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass
from typing import Callable, Deque, Dict, List, NoReturn, Optional

from .errors import INTERRUPTED, PEER_FAILED, PeerFailed, UserError, printable

PROTOCOL = "dtfm-watchdog/1"
MAX_LINE_BYTES = 4096
MAX_UNSENT_BYTES = 1 << 16
MAX_STRANGERS = 64  # connections beyond the ranks that have not said which rank they are
BACKLOG = 1024
CLOCK_SAMPLES = 64  # of which the one with the shortest round trip counts
EXIT_INTERNAL = 1
ADVICE = "resume from the last checkpoint with --resume, or plan without that device (dtfm-plan --warm-start)"
ITS_PORT = "(the watchdog's port, next to MASTER_PORT)"
PROCESS_ENDED = f"its process ended or its connection was lost; {ADVICE}"


@dataclass(frozen=True)
class Limits:
    """How a time limit is divided. A silent rank is noticed after `silence_s` and the others end `grace_s` later; the
    rest is for what a busy machine adds."""

    timeout_s: float

    @property
    def silence_s(self) -> float:
        return 0.6 * self.timeout_s

    @property
    def grace_s(self) -> float:
        return min(5.0, 0.15 * self.timeout_s)

    @property
    def linger_s(self) -> float:
        """How much later rank 0 ends, so that nobody takes its end for the failure."""
        return 0.05 * self.timeout_s

    @property
    def ping_s(self) -> float:
        return min(1.0, self.timeout_s / 10)


@dataclass(frozen=True)
class Failure:
    rank: int
    reason: str


@dataclass(frozen=True)
class Clock:
    """What to add to this process's `time.monotonic()` to get rank 0's, and how far that may be wrong."""

    offset_s: float = 0.0
    error_s: float = 0.0


class Watchdog:
    """Watches all ranks on behalf of one of them. `port` is one that rank 0 can listen on, other than MASTER_PORT.
    `describe` names a rank and its device. Signals are noticed even if the main thread waits for a message."""

    def __init__(self, rank: int, world: int, master_address: str, port: int, timeout_s: float,
                 describe: Callable[[int], str], start_timeout_s: Optional[float] = None) -> None:
        self._rank, self._describe = rank, describe
        self._raised = False
        self._member: Optional[_Member] = None
        if world > 1:
            limits = Limits(timeout_s)
            start_timeout_s = timeout_s if start_timeout_s is None else start_timeout_s
            kind = _Hub if rank == 0 else _Spoke
            self._member = kind(rank, world, (master_address, port), limits, start_timeout_s, self.message)

    def start(self) -> None:
        """Returns when this rank is connected; on rank 0, when all are. Errors: an address that cannot be reached or
        used, ranks that do not connect in time, ranks with another WORLD_SIZE."""
        if self._member:
            self._member.open()
            self._member.start()
            self.check()

    def check(self) -> None:
        """Raises PeerFailed if a rank has failed."""
        failure = self._member.failure if self._member else None
        if failure:
            self._raised = True
            raise PeerFailed(failure.rank, self.message())

    def wait_for_failure(self, limit_s: Optional[float] = None) -> None:
        """Called after a message could not be sent or received: raises PeerFailed as soon as it is known which rank
        has failed. Returns if none has within the time limit; then the connection itself is the problem."""
        if self._member:
            self._member.failed.wait(self._member.limits.timeout_s if limit_s is None else limit_s)
        self.check()

    def message(self) -> str:
        """One line about the failure, or an empty one."""
        failure = self._member.failure if self._member else None
        if not failure:
            return ""
        who = self._describe(failure.rank)
        if failure.rank == self._rank:
            who = f"this rank, {who},"
        return f"{who} failed: {failure.reason}"

    def clock(self) -> Clock:
        return self._member.clock() if self._member else Clock()

    def stop(self, reason: Optional[str] = None) -> None:
        """Says goodbye. `reason`, if given, is why this rank ends early: the others then end, too. Rank 0 waits for the
        goodbyes of all. Raises PeerFailed if a rank failed meanwhile and no `check` has said so."""
        if not self._member:
            return
        self._member.leave(reason)
        if reason is None and not self._raised:
            self.check()


def end_process(code: int, message: str = "") -> NoReturn:
    """Ends the process at once, without the destructors of communication libraries, which wait for dead peers."""
    if message:
        with contextlib.suppress(OSError):
            os.write(2, (message + "\n").encode())
    os._exit(code)


class _Link:
    """A connection that sends and receives lines of JSON without ever blocking."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket, self.heard = connection, time.monotonic()
        self.rank: Optional[int] = None  # until it has said hello
        self.is_closed = self.has_left = False
        self._received, self._unsent = b"", b""

    def send(self, message: dict) -> None:
        """A peer that does not read is not sent more; it is about to be found silent."""
        if len(self._unsent) < MAX_UNSENT_BYTES:
            self._unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent):]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = b""  # what has arrived before the connection broke is still to be read

    def receive(self) -> List[dict]:
        """The messages that have arrived. A connection that has ended or sends nonsense is closed afterwards."""
        messages: List[dict] = []
        try:
            while not self.is_closed:
                data = self.socket.recv(MAX_LINE_BYTES)
                self.is_closed = not data
                messages += self._lines(data)
        except BlockingIOError:
            pass
        except (OSError, ValueError, RecursionError):
            self.is_closed = True
        return messages

    def _lines(self, data: bytes) -> List[dict]:
        *lines, self._received = (self._received + data).split(b"\n")
        messages = [json.loads(line) for line in lines]
        if len(self._received) > MAX_LINE_BYTES or not all(isinstance(message, dict) for message in messages):
            raise ValueError
        if messages:
            self.heard = time.monotonic()
        return messages


class _Member:
    """The thread of a rank. Everything but `failure`, the events and `leave` belongs to this thread once it runs."""

    def __init__(self, rank: int, world: int, address, limits: Limits, start_timeout_s: float,
                 message: Callable[[], str]) -> None:
        self.rank, self.world, self.address, self.limits = rank, world, address, limits
        self.start_timeout_s, self.message = start_timeout_s, message
        self.grace_s = limits.grace_s
        self.failure: Optional[Failure] = None
        self.failed = threading.Event()
        self.selector = selectors.DefaultSelector()
        self.links: List[_Link] = []
        self.is_leaving = False
        self._reason: Optional[str] = None
        self._said_goodbye = False
        self._end: Optional[float] = None  # when the process ends if its main thread does not
        self._is_interrupted = False
        self._wake_receiver, self._wake = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake.setblocking(False)
        self.selector.register(self._wake_receiver, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run_guarded, name="watchdog", daemon=True)
        self._old_wakeup: Optional[int] = None

    # Called by the main thread.

    def open(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        # Numbers of signals arrive in the thread even if the main thread is in a call that handles none.
        if threading.current_thread() is threading.main_thread():
            self._old_wakeup = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._thread.start()

    def leave(self, reason: Optional[str]) -> None:
        if self._old_wakeup is not None:
            signal.set_wakeup_fd(self._old_wakeup)
            self._old_wakeup = None
        if self._thread.is_alive():
            self._reason, self.is_leaving = reason, True
            with contextlib.suppress(OSError):
                self._wake.send(b"\0")
            self._thread.join()
        self._close_all()

    def clock(self) -> Clock:
        return Clock()

    # The thread.

    def _run_guarded(self) -> None:
        try:
            self._run()
        except BaseException:  # without its watchdog, a rank could wait for ever
            traceback.print_exc()
            end_process(EXIT_INTERNAL, _of_program(f"rank {self.rank}: internal error of the watchdog"))

    def _run(self) -> None:
        before = time.monotonic()
        while True:
            for key, _ in self.selector.select(self.limits.ping_s / 2):
                self._on_ready(key)
            now = time.monotonic()
            # A process that was suspended first reads what has arrived meanwhile, before it finds others silent.
            was_suspended, before = now - before > 3 * self.limits.ping_s, now
            if was_suspended:
                continue
            for link in self.links:
                link.flush()
            self.tick(now)
            if self.is_leaving:
                self._say_goodbye()
                if self.may_leave(now):
                    return
            elif self._end is not None and now > self._end:
                self._end_now()

    def _on_ready(self, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._wake_receiver:
            self._on_signals(self._wake_receiver.recv(64))
        elif isinstance(key.data, _Link):
            self._read(key.data)
        else:
            self.on_listening()

    def _on_signals(self, numbers: bytes) -> None:
        if {signal.SIGINT, signal.SIGTERM} & set(numbers):
            self._is_interrupted = True
            self._end_in_time()

    def _read(self, link: _Link) -> None:
        for message in link.receive():
            self.on_message(link, message)
        if link.is_closed:
            self.drop(link)
            self.on_closed(link)

    def add(self, link: _Link) -> None:
        self.links.append(link)
        self.selector.register(link.socket, selectors.EVENT_READ, link)

    def drop(self, link: _Link) -> None:
        if link in self.links:
            self.links.remove(link)
            self.selector.unregister(link.socket)
            link.socket.close()

    def fail(self, rank: int, reason: str) -> None:
        """The first failure counts: those after it are its consequences."""
        if self.failure:
            return
        self.failure = Failure(rank, reason)
        self._end_in_time()
        self.on_failure()
        self.failed.set()

    def _end_in_time(self) -> None:
        if self._end is None:
            self._end = time.monotonic() + self.grace_s

    def _say_goodbye(self) -> None:
        if not self._said_goodbye:
            self._said_goodbye = True
            self._end = time.monotonic() + self.grace_s
            self.goodbye(printable(self._reason) if self._reason is not None else None)

    def is_late(self, now: float) -> bool:
        return self._end is not None and now > self._end

    def _end_now(self) -> NoReturn:
        if self._is_interrupted:
            self.goodbye("it was interrupted")
            end_process(INTERRUPTED, _of_program("interrupted; the last checkpoint is unchanged"))
        end_process(PEER_FAILED, _of_program(self.message()))

    def _close_all(self) -> None:
        for link in list(self.links):
            self.drop(link)
        self.selector.close()
        self._wake.close()
        self._wake_receiver.close()

    # Different for rank 0 and the others.

    def on_listening(self) -> None: ...

    def on_failure(self) -> None: ...

    def on_message(self, link: _Link, message: dict) -> None:
        raise NotImplementedError

    def on_closed(self, link: _Link) -> None:
        raise NotImplementedError

    def tick(self, now: float) -> None:
        raise NotImplementedError

    def goodbye(self, reason: Optional[str]) -> None:
        raise NotImplementedError

    def may_leave(self, now: float) -> bool:
        raise NotImplementedError


class _Hub(_Member):
    """Rank 0."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.grace_s += self.limits.linger_s
        self._ranks: Dict[int, _Link] = {}  # of those that have not left
        self._missing = set(range(1, self.world))
        self._complete = threading.Event()
        self._start_error = ""
        self._listening: Optional[socket.socket] = None

    def open(self) -> None:
        host, port = self.address
        try:
            self._listening = _listen(host, port)
        except OSError as error:
            problem = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise UserError(f"port {port} of {host}, the watchdog's (next to MASTER_PORT), {problem}: set MASTER_PORT "
                            "to another number on all ranks") from None
        self.selector.register(self._listening, selectors.EVENT_READ)
        self._start_end = time.monotonic() + self.start_timeout_s

    def start(self) -> None:
        super().start()
        self._complete.wait()
        if self._start_error:
            self.leave(None)
            raise UserError(self._start_error)

    def on_listening(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listening.accept()
            if len(self.links) < self.world + MAX_STRANGERS:
                self.add(_Link(connection))
            else:
                connection.close()

    def on_message(self, link: _Link, message: dict) -> None:
        if link.rank is None:
            self._on_hello(link, message)
        elif "ping" in message:
            link.send({"pong": message["ping"], "now": time.monotonic()})
        elif "lost" in message:
            self.fail(0, f"the other ranks received no heartbeat from it for {self.limits.silence_s:.3g} s")
        elif "bye" in message:
            link.has_left = True
            link.send({"bye": None})
            if message["bye"] is not None:
                self.fail(link.rank, printable(message["bye"]))

    def _on_hello(self, link: _Link, message: dict) -> None:
        rank, world = message.get("rank"), message.get("world")
        if message.get("hello") != PROTOCOL or type(rank) is not int or type(world) is not int:
            return self.drop(link)
        if world != self.world:
            link.send({"refused": f"WORLD_SIZE is {world} here and {self.world} at rank 0: set it to the number of "
                                  "ranks"})
            return self._stop_starting(f"rank {rank} has WORLD_SIZE {world} and rank 0 has {self.world}: set it to the "
                                       "number of ranks everywhere")
        if rank not in self._missing:
            text = f"another process has RANK {rank}" if 0 <= rank < self.world else f"RANK {rank} is not below {world}"
            return link.send({"refused": f"{text}: give each process its own rank, from 0 to {world - 1}"})
        link.rank = rank
        self._ranks[rank] = link
        self._missing.remove(rank)
        link.send(self._news() if self.failure else {"welcome": True})
        if not self._missing:
            self.selector.unregister(self._listening)
            self._listening.close()
            self._complete.set()

    def on_closed(self, link: _Link) -> None:
        if link.rank is not None and not link.has_left:
            self.fail(link.rank, PROCESS_ENDED)

    def tick(self, now: float) -> None:
        if self._missing and now > self._start_end:
            self._report_missing()
        for rank, link in self._ranks.items():
            if not link.has_left and not link.is_closed and now - link.heard > self.limits.silence_s:
                self.fail(rank, _silent(now - link.heard))

    def _report_missing(self) -> None:
        first, host = min(self._missing), ":".join(map(str, self.address))
        more = f" and {len(self._missing) - 1} more" if len(self._missing) > 1 else ""
        limit = f"within {self.start_timeout_s:.3g} s"
        self._stop_starting(f"rank {first}{more} did not connect to {host} {ITS_PORT} {limit}: start all ranks with "
                            "the same MASTER_ADDR and MASTER_PORT, or raise --timeout",
                            first, f"it did not connect {limit}")

    def _stop_starting(self, error: str, rank: int = 0, reason: str = "the ranks do not agree on WORLD_SIZE") -> None:
        if not self._complete.is_set():
            self._start_error = error
            self.fail(rank, reason)

    def on_failure(self) -> None:
        for link in self._ranks.values():
            if not link.is_closed:
                link.send(self._news())
        self._complete.set()

    def _news(self) -> dict:
        return {"failed": self.failure.rank, "reason": self.failure.reason}

    def goodbye(self, reason: Optional[str]) -> None:
        if reason is not None:
            self.fail(0, reason)

    def may_leave(self, now: float) -> bool:
        """After a failure, what the others were told is lost if this process ends before they have read it. Those that
        have not connected yet are told, too, unless this rank is the one that gives up."""
        links = self._ranks.values()
        if self.failure:
            if self._missing and self.failure.rank != 0:
                return now > self._start_end
            return self.is_late(now) or all(link.is_closed for link in links)
        return not self._missing and all(link.has_left for link in links)

    def _close_all(self) -> None:
        if self._listening:
            self._listening.close()
        super()._close_all()


class _Spoke(_Member):
    """Any other rank."""

    def open(self) -> None:
        end = time.monotonic() + self.start_timeout_s
        self._link = _Link(self._connect(end))
        self._samples: Deque[Clock] = deque(maxlen=CLOCK_SAMPLES)
        self._next_ping = 0.0
        self._early: List[dict] = []  # messages that arrived together with the welcome
        self._link.send({"hello": PROTOCOL, "rank": self.rank, "world": self.world})
        self._wait_for_welcome(end)
        self.add(self._link)

    def _connect(self, end: float) -> socket.socket:
        """Tries until rank 0 listens, which it may do later than this rank starts."""
        host, port = self.address
        while True:
            try:
                return socket.create_connection(self.address, timeout=max(0.1, end - time.monotonic()))
            except socket.gaierror as error:
                problem = error.strerror
            except OSError as error:
                problem = error.strerror or "no answer"
            if time.monotonic() > end:
                limit = f"within {self.start_timeout_s:.3g} s"
                raise UserError(f"cannot reach rank 0 at {host}:{port} {ITS_PORT} {limit} ({problem}): check "
                                "MASTER_ADDR and MASTER_PORT, firewalls, and that rank 0 was started")
            time.sleep(0.1)

    def _wait_for_welcome(self, end: float) -> None:
        host, port = self.address
        while time.monotonic() < end and not self._link.is_closed:
            first, *self._early = self._link.receive() or [{}]
            if "refused" in first:
                raise UserError(printable(first["refused"]))
            if "welcome" in first:
                return
            if "failed" in first:
                return self.on_message(self._link, first)
            time.sleep(0.01)
        raise UserError(f"{host}:{port} {ITS_PORT} does not answer as rank 0 of this training: check MASTER_ADDR and "
                        "MASTER_PORT")

    def clock(self) -> Clock:
        samples = list(self._samples)
        return min(samples, key=lambda clock: clock.error_s) if samples else Clock(error_s=float("inf"))

    def on_message(self, link: _Link, message: dict) -> None:
        if "pong" in message:
            self._on_pong(message)
        elif "failed" in message and type(message["failed"]) is int:
            self.fail(message["failed"], printable(message.get("reason")))
        elif "bye" in message:
            link.has_left = True

    def _on_pong(self, message: dict) -> None:
        begin, end, theirs = message.get("pong"), time.monotonic(), message.get("now")
        if isinstance(begin, float) and isinstance(theirs, float) and begin <= end:
            self._samples.append(Clock(theirs - (begin + end) / 2, (end - begin) / 2))
            if len(self._samples) < 8:
                self._next_ping = end  # the first ones follow each other, while the network is idle

    def on_closed(self, link: _Link) -> None:
        if not self.is_leaving:
            self.fail(0, PROCESS_ENDED)

    def tick(self, now: float) -> None:
        while self._early:
            self.on_message(self._link, self._early.pop(0))
        if self._link.is_closed:
            return
        if now >= self._next_ping:
            self._next_ping = now + self.limits.ping_s
            self._link.send({"ping": time.monotonic()})
        if not self.is_leaving and now - self._link.heard > self.limits.silence_s:
            self._link.send({"lost": 0})
            self.fail(0, _silent(now - self._link.heard))

    def goodbye(self, reason: Optional[str]) -> None:
        self._link.send({"bye": reason})

    def may_leave(self, now: float) -> bool:
        return self.failure is not None or self._link.is_closed or self._link.has_left or self.is_late(now)


def _listen(host: str, port: int) -> socket.socket:
    """Listens on the address of rank 0. Where it has a name, which its own host may take for a loopback address, or
    where the address belongs to something in front of this machine, listens on all addresses."""
    listening = None
    with contextlib.suppress(ValueError):
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    if listening is None:
        listening = _listen_everywhere(port)
    listening.setblocking(False)
    return listening


def _listen_everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    return socket.create_server(("", port), backlog=BACKLOG)


def _of_program(text: str) -> str:
    return f"{os.path.basename(sys.argv[0])}: {text}"


def _silent(seconds: float) -> str:
    return f"no heartbeat for {seconds:.3g} s; {ADVICE}"
