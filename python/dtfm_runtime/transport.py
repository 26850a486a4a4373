"""Messages between ranks: Gloo on CPUs, NCCL on GPUs, behind the same calls.

Gloo matches messages by tag. NCCL has no tags: it keeps the order of messages between two ranks per communicator, so
each kind of message has a communicator of its own in each direction, and messages of a step are issued together.
"""
from __future__ import annotations

import datetime
import fcntl
import json
import os
import queue
import re
import socket
import struct
import threading
import time
from concurrent.futures import Future, TimeoutError as FutureTimeout
from typing import Callable, Iterable, Mapping, Optional

import torch
import torch.distributed as dist

from .errors import UserError, first_line, printable

ACTIVATIONS, GRADIENTS, SYNC, CONTROL = "activations", "gradients", "sync", "control"
SYNC_TAG, CONTROL_TAG = 1 << 29, 1 << 30  # tags of activations and gradients are below
REPORT, BARRIER, TEXT, STATES = 0, 1, 2, 3  # tags of control messages; STATES is that of the first group
VERSION = "the version of the runtime"
# A long message between healthy ranks must not fail: only the watchdog decides whether a rank has failed.
MESSAGE_TIMEOUT = datetime.timedelta(days=365)


class Control:
    """Small messages beside those that are simulated. They are tensors on the CPU."""

    _control = None  # a group of Gloo; None: the default one

    def control_send(self, tensor: torch.Tensor, peer: int, tag: int = 0):
        return dist.isend(tensor, peer, group=self._control, tag=CONTROL_TAG + tag)

    def control_receive(self, tensor: torch.Tensor, peer: int, tag: int = 0):
        return dist.irecv(tensor, peer, group=self._control, tag=CONTROL_TAG + tag)

    def gather_texts(self, text: str, ranks: int) -> list[str]:
        """On rank 0: the texts of all ranks."""
        own = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
        if self.rank > 0:
            self.control_send(torch.tensor([own.numel()]), 0, TEXT).wait()
            self.control_send(own, 0, TEXT).wait()
            return []
        texts = [text]
        for peer in range(1, ranks):
            length = torch.zeros(1, dtype=torch.int64)
            self.control_receive(length, peer, TEXT).wait()
            received = bytearray(int(length.item()))
            self.control_receive(torch.frombuffer(received, dtype=torch.uint8), peer, TEXT).wait()
            texts.append(received.decode())
        return texts

    def maximum(self, tensor: torch.Tensor) -> None:
        """Of all ranks, in place."""
        dist.all_reduce(tensor, dist.ReduceOp.MAX, group=self._control)

    def barrier(self, ranks: int) -> None:
        """Returns when all ranks have called it."""
        token = torch.zeros(1)
        if self.rank > 0:
            self.control_send(token, 0, BARRIER).wait()
            self.control_receive(token, 0, BARRIER).wait()
            return
        for operation in (self.control_receive, self.control_send):
            works = [operation(token, peer, BARRIER) for peer in range(1, ranks)]
            for work in works:
                work.wait()


class GlooTransport(Control):
    groups_messages = False

    def __init__(self, rank: int):
        self.rank = rank
        self._reapers: dict[tuple, Reaper] = {}
        self._lock = threading.Lock()

    def send(self, tensor: torch.Tensor, peer: int, tag: int, kind: str = SYNC):
        return dist.isend(tensor, peer, tag=tag)

    def receive(self, tensor: torch.Tensor, peer: int, tag: int, kind: str = SYNC):
        return dist.irecv(tensor, peer, tag=tag)

    def keep_until_sent(self, work, tensor: torch.Tensor, peer: int, then: Callable[[], object] = lambda: None,
                        kind: str = ACTIVATIONS) -> None:
        """Gloo reads the tensor later, so it must not be freed before; nobody waits for it."""
        # Those of the synchronization have threads of their own, because stages must not wait for them.
        self._reap((peer, kind == SYNC), work, tensor, then)

    def notice_arrival(self, work, tensor: torch.Tensor, peer: int, kind: str, then: Callable[[], object]) -> None:
        """Calls `then` when a message has arrived, which may be long before it is needed."""
        self._reap((peer, kind), work, tensor, then)

    def _reap(self, key: tuple, work, tensor: torch.Tensor, then: Callable[[], object]) -> None:
        with self._lock:
            if key not in self._reapers:
                self._reapers[key] = Reaper()
        self._reapers[key].put(work, tensor, then)

    def check(self) -> None:
        """Raises the error of a send that has failed."""
        for reaper in list(self._reapers.values()):
            reaper.check()

    def wait_until_sent(self) -> None:
        for reaper in list(self._reapers.values()):
            reaper.wait()

    def warm_up(self, channels: Iterable[tuple[int, int, str]]) -> None:
        """Gloo has connected all ranks when its group was made."""

    def close(self) -> None:
        for reaper in self._reapers.values():
            reaper.close()


class Reaper:
    """A thread that waits for messages of one kind to or from one peer, in order, and frees what was sent."""

    def __init__(self):
        self._queue: queue.Queue = queue.Queue()
        self._error: Optional[BaseException] = None
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, work, tensor, then: Callable[[], object]) -> None:
        self._queue.put((work, tensor, then))

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        self._queue.join()
        self.check()

    def close(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        while True:
            sent = self._queue.get()
            if sent is None:
                return
            work, tensor, then = sent
            try:
                work.wait()
            except RuntimeError as error:
                self._error = error  # raised by the next check
            then()
            del sent, work, tensor, then  # frees what was sent before the next message comes
            self._queue.task_done()


class NcclTransport(Control):
    groups_messages = True

    def __init__(self, rank: int, limit_s: float):
        self.rank = rank
        ranks = list(range(dist.get_world_size()))
        # Every rank makes the same groups in the same order.
        self._groups = {(kind, upward): dist.new_group(ranks, MESSAGE_TIMEOUT) for kind in (ACTIVATIONS, GRADIENTS)
                        for upward in (False, True)}
        self._sync = dist.new_group(ranks, MESSAGE_TIMEOUT)
        try:
            self._control = within(limit_s, lambda: dist.new_group(ranks, MESSAGE_TIMEOUT, backend="gloo"))
        except RuntimeError as error:
            raise UserError(f"rank {rank} cannot connect to the others over Gloo ({first_line(error)}): check firewalls, "
                            "and set GLOO_SOCKET_IFNAME to the network interface") from None
        # The first messages of a group must involve all ranks.
        dist.all_reduce(torch.zeros(1, device="cuda"), group=self._sync)

    def _group(self, kind: str, upward: bool):
        return self._sync if kind == SYNC else self._groups[(kind, upward)]

    def send(self, tensor: torch.Tensor, peer: int, tag: int, kind: str = SYNC):
        return dist.isend(tensor, peer, group=self._group(kind, peer > self.rank))

    def receive(self, tensor: torch.Tensor, peer: int, tag: int, kind: str = SYNC):
        return dist.irecv(tensor, peer, group=self._group(kind, peer < self.rank))

    def send_and_receive(self, sends, receives) -> None:
        """All messages of a step at once, so that the two ends cannot deadlock."""
        operations = [dist.P2POp(dist.isend, tensor, peer, self._sync) for tensor, peer in sends]
        operations += [dist.P2POp(dist.irecv, tensor, peer, self._sync) for tensor, peer in receives]
        for work in dist.batch_isend_irecv(operations) if operations else []:
            work.wait()

    def keep_until_sent(self, work, tensor: torch.Tensor, peer: int, then: Callable[[], object] = lambda: None,
                        kind: str = ACTIVATIONS) -> None:
        work.wait()  # orders the streams of the device; the host does not wait
        then()

    def check(self) -> None:
        """Errors of NCCL end the process."""

    def wait_until_sent(self) -> None:
        torch.cuda.synchronize()

    def warm_up(self, channels: Iterable[tuple[int, int, str]]) -> None:
        """Makes the communicators of (sender, receiver, kind), in one order on all ranks, because making one waits for
        the other end."""
        for sender, receiver, kind in sorted(channels):
            token = torch.zeros(1, device="cuda")
            if sender == self.rank:
                self.send(token, receiver, 0, kind).wait()
            elif receiver == self.rank:
                self.receive(token, sender, 0, kind).wait()

    def close(self) -> None:
        pass


def environment() -> tuple[int, int, str, int, int]:
    """RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and LOCAL_RANK, checked."""
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:
        raise UserError(f"{', '.join(missing)} must be set: start every rank with RANK, WORLD_SIZE, MASTER_ADDR "
                        "and MASTER_PORT, as the launchers beside train.py do, or use --single")

    world = number_of("WORLD_SIZE", 1, 1_000_000)
    return (number_of("RANK", 0, world - 1), world, os.environ["MASTER_ADDR"], number_of("MASTER_PORT", 1, 65535),
            local_rank())


def local_rank() -> int:
    return number_of("LOCAL_RANK", 0, 1_000_000)


def number_of(variable: str, least: int, most: int) -> int:
    """A variable of the environment; 0 if it is not set."""
    text = os.environ.get(variable, "0")
    if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise UserError(f"{variable} is {text[:40]!r}: it must be a whole number from {least} to {most}")
    return int(text)


def interface_towards(address: str, port: int) -> Optional[str]:
    """The network interface that packets to `address` leave from. Gloo would take that of the host's name."""
    try:
        family, _, _, _, target = socket.getaddrinfo(address, port, socket.AF_INET, socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            own = probe.getsockname()[0]
            for _, name in socket.if_nameindex():
                try:
                    request = fcntl.ioctl(probe.fileno(), 0x8915,
                                          struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
                except OSError:  # an interface without an address
                    continue
                if socket.inet_ntoa(request[20:24]) == own:
                    return name
    except OSError:
        pass
    return None


def wait_for_store(address: str, port: int, limit_s: float, watchdog) -> None:
    """Waits until rank 0 has made its store. TCPStore would wait with the interpreter locked, so that the watchdog
    could neither send heartbeats nor end this rank."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        watchdog.check()
        try:
            with socket.create_connection((address, port), timeout=1.0):
                return
        except OSError:
            time.sleep(0.05)


def agent_store_prefix() -> Optional[str]:
    """Under torchrun, its agent and not rank 0 has the store on MASTER_PORT. Returns the prefix of this attempt's keys
    in it; None without such an agent."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    return f"dtfm/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def connect(rank: int, world: int, address: str, port: int, limit_s: float, identity: Mapping[str, str],
            use_gpu: bool, watchdog):
    """Joins the process group, once the watchdog has found all ranks. `identity` maps the name of each setting that all
    ranks must share to its value."""
    if "GLOO_SOCKET_IFNAME" not in os.environ:  # With NCCL, control messages use Gloo.
        name = interface_towards(address, port)
        if name is not None:
            os.environ["GLOO_SOCKET_IFNAME"] = name
    limit = datetime.timedelta(seconds=max(1.0, limit_s))
    prefix = agent_store_prefix()
    is_host = rank == 0 and prefix is None
    if not is_host:
        wait_for_store(address, port, limit_s, watchdog)
    try:
        store = dist.TCPStore(address, port, world, is_host, timeout=limit, wait_for_workers=False)
        if prefix is not None:
            store = dist.PrefixStore(prefix, store)
        text = json.dumps(identity, sort_keys=True)
        store.set(f"dtfm/{rank}", text)
        for other in range(world):
            theirs = store.get(f"dtfm/{other}").decode(errors="replace")
            if theirs != text:
                raise UserError(difference({rank: identity, other: parsed_identity(theirs)}))
        within(limit_s, lambda: dist.init_process_group("nccl" if use_gpu else "gloo", timeout=MESSAGE_TIMEOUT,
                                                        store=dist.PrefixStore("dtfm/group", store), rank=rank,
                                                        world_size=world))
    except (RuntimeError, ValueError, OSError) as error:
        if "in use" not in str(error):
            watchdog.wait_for_failure()  # raises if another rank is the reason
        raise UserError(f"rank {rank} cannot use {address}:{port} ({first_line(error)}): set MASTER_PORT to a free "
                        "port on all ranks, and check firewalls") from None


def parsed_identity(text: str) -> dict:
    """{} if it cannot be read: the other rank may run another version."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def difference(identities: Mapping[int, Mapping[str, str]]) -> str:
    """The error message for the first setting in which two ranks differ."""
    (a, first), (b, second) = sorted(identities.items())
    names = [VERSION, *sorted({*first, *second} - {VERSION})]  # another version may have other settings
    name = next((key for key in names if first.get(key) != second.get(key)), VERSION)
    values = (printable(it.get(name, "unknown"))[:80] for it in (first, second))
    return ("{} differs: {} on rank {}, {} on rank {}. Start all ranks with the same options, on copies of the same files"
            .format(printable(name)[:80], next(values), a, next(values), b))


def within(limit_s: float, make_group: Callable[[], object]):
    """Creates a process group, and fails after `limit_s`. A thread is needed because Gloo's own timeout would also
    apply to all later messages."""
    done: Future = Future()

    def run() -> None:
        try:
            done.set_result(make_group())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return done.result(limit_s)
    except FutureTimeout:
        raise RuntimeError(f"the ranks have not connected to each other within {limit_s:.3g} s") from None
