"""Compares measured all-reduces (collectives.py) with a model of messages over TCP, mechanism by mechanism.

usage: collective_model.py FILE.csv

No constant is fitted to the all-reduces. Without mechanisms, the times are those of dtfm-sim with neutral
constants.

  header      1448 of 1500 bytes are payload (IP, TCP with timestamps).
  handshake   MPI: a message above 64 KiB sends 64 KiB, waits for an answer, then sends the rest. Gloo: the
              receiver's notice must have arrived. Gloo's all-reduce has two segments of at most 1 MiB in flight.
  slow start  A congestion window of 10 segments, doubled by each round trip until the path is full. After idling,
              it is halved per retransmission timeout (round trip + 200 ms), to at least 10 segments.
  window      At most WINDOW bytes are in flight on a connection. Measured by one TCP connection.
  two-way     Acknowledgements wait behind opposite data (Zhang, Shenker and Clark, SIGCOMM 1991), while HyStart
              leaves slow start at B (R + d), d = R/8 within 4 and 16 ms. MPI: where both ends of a connection have
              a message and do not start at the same time, the answer waits behind the other message.
"""
import csv
import math
import statistics
import sys
from collections import defaultdict, deque

MSS = 1448
INITIAL = 10 * MSS
EAGER = 1 << 16
SEGMENT = 1 << 20
WINDOW = 2.8e6  # of tcp_wmem 4 MiB; tcp_rmem 6 MiB alone allows 3.93e6
MECHANISMS = ["neutral", "header", "handshake", "slow start", "window", "two-way"]
SPREAD = 0.10  # rows with more are printed but not averaged


class Connection:
    """One direction of a TCP connection, segment by segment. The path has a queue that never overflows."""

    def __init__(self, latency, rate, on, restarts):
        self.latency, self.rate, self.on, self.restarts = latency, rate, on, restarts
        self.round_trip = 2 * latency
        self.window = WINDOW if "window" in on else math.inf
        self.congestion = INITIAL if "slow start" in on else math.inf
        self.full = rate * (self.round_trip + min(max(self.round_trip / 8, 0.004), 0.016))
        self.flying, self.bytes, self.most, self.free, self.two_way = deque(), 0, 0, -math.inf, False

    def acknowledged(self):
        time, size = self.flying.popleft()
        self.bytes -= size
        if self.congestion < min(2 * self.most, self.full):
            self.congestion += size
        return time

    def delay(self):
        if not self.two_way:
            return 0
        burst = min(self.congestion, self.window, self.full) / self.rate
        return min(max(burst - self.latency, 0), self.latency)

    def send(self, time, size):
        """Returns when the last byte arrives."""
        while self.flying and self.flying[0][0] <= time:
            self.acknowledged()
        if self.restarts and not self.flying and self.free > 0:
            timeouts = max(0, math.ceil((time - self.free) / (self.round_trip + 0.2)) - 1)
            self.congestion = max(min(INITIAL, self.congestion), self.congestion / 2**timeouts)
        self.most = 0
        while size > 0:
            part = min(MSS, size) if "slow start" in self.on else size
            while self.flying and (self.flying[0][0] <= time or self.bytes + part > min(self.congestion, self.window)):
                time = max(time, self.acknowledged())
            self.free = max(time, self.free) + part / self.rate
            self.flying.append((self.free + self.round_trip + self.delay(), part))
            self.bytes += part
            self.most = max(self.most, self.bytes)
            size -= part
        return self.free + self.latency


class Network:
    def __init__(self, row, on):
        self.library, self.on, self.ranks = row["library"], on, int(row["ranks"])
        self.latency = float(row["latency_ms"]) / 1e3
        rate = float(row["rate_mbps"]) * 1e6 / 8 * (MSS / 1500 if "header" in on else 1)
        restarts = row["slow_start_after_idle"] == "1" and "slow start" in on
        pairs = [(a, b) for a in range(self.ranks) for b in range(self.ranks)]
        self.connections = {pair: Connection(self.latency, rate, on, restarts) for pair in pairs}

    def two_way(self, value):
        for connection in self.connections.values():
            connection.two_way = value and "two-way" in self.on

    def send(self, a, b, sender, receiver, size, answer=-math.inf):
        """Times when both are ready, and before which no answer gets through → when the message has arrived."""
        connection = self.connections[a, b]
        if "handshake" in self.on and self.library == "mpi" and size > EAGER:
            asked = connection.send(sender, EAGER)
            return connection.send(max(max(asked, receiver) + self.latency, answer), size - EAGER)
        if "handshake" in self.on and self.library == "gloo":
            sender = max(sender, receiver + self.latency)
        return connection.send(sender, size)


def ring(net, size, start):
    n = net.ranks
    if n == 2:
        return sharded(net, size, start)
    ready = [start] * n
    for _ in range(2 * (n - 1)):
        received = [net.send(i, (i + 1) % n, ready[i], ready[(i + 1) % n], size / n) for i in range(n)]
        ready = received[-1:] + received[:-1]
    return max(ready)


def tree(net, size, start):
    ready, reach = [start] * net.ranks, 1
    while reach < net.ranks:
        for i in range(reach, net.ranks, 2 * reach):
            ready[i - reach] = max(ready[i - reach], net.send(i, i - reach, ready[i], ready[i - reach], size))
        reach *= 2
    while reach > 1:
        reach //= 2
        for i in range(0, net.ranks - reach, 2 * reach):
            ready[i] = ready[i + reach] = net.send(i, i + reach, ready[i], start, size)
    return max(ready)


def sharded(net, size, start):
    n, ready = net.ranks, [start] * net.ranks
    for phase in range(2):
        # Ranks begin the second phase at different times, so MPI's opposite messages follow each other.
        serial = phase == 1 and net.library == "mpi" and "two-way" in net.on
        net.two_way(not serial)
        arrived = list(ready)
        for i in range(n):
            for j in range(i + 1, n):
                there = net.send(i, j, ready[i], ready[j], size / n)
                back = net.send(j, i, ready[j], ready[i], size / n, there if serial else -math.inf)
                arrived[j], arrived[i] = max(arrived[j], there), max(arrived[i], back)
        ready = arrived
    return max(ready)


def gloo(net, size, start):
    """Gloo's ring in segments: at least two per rank and phase, of at most 1 MiB. Two receptions are posted."""
    if "handshake" not in net.on:
        return ring(net, size, start)
    n, connection = net.ranks, net.connections[0, 1]
    segments = -(-max(-(-size // SEGMENT), 2 * n) // n) * n
    for _ in range(2):
        arrived, posted = [], start
        for i in range(segments // n * (n - 1)):
            posted = max(posted, arrived[i - 2]) if i >= 2 else posted
            arrived.append(connection.send(posted + net.latency, size / segments))
        start = arrived[-1]
    return start


def message(net, size, start):
    return net.send(0, 1, start, start, size)


def predicted(row, count):
    """Seconds with the first `count` mechanisms after "neutral", of the second repetition."""
    net = Network(row, MECHANISMS[1:1 + count])
    run = globals()[row["algorithm"]]
    size, start = int(row["bytes"]), 0
    if count >= MECHANISMS.index("slow start"):
        start = run(net, size, 0) + float(row["idle_s"]) + 2 * net.latency
    return run(net, size, start) - start


def measured(path):
    rows = defaultdict(list)
    with open(path, encoding="ascii") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            seconds = float(row.pop("seconds"))
            del row["repetition"]
            rows[tuple(row.items())].append(seconds)
    return [(dict(key), seconds) for key, seconds in rows.items()]


def main():
    groups = defaultdict(list)
    for row, seconds in measured(sys.argv[1]):
        if row["algorithm"] == "mpi":
            continue  # Open MPI chooses among several algorithms
        mean, spread = statistics.mean(seconds), max(seconds) / min(seconds) - 1
        errors = [predicted(row, count) / mean - 1 for count in range(len(MECHANISMS))]
        print(" ".join(f"{row[name]:>8}" for name in list(row)[:8] + ["mca"]), f"{mean:8.3f} s, spread {spread:4.0%}:",
              " ".join(f"{error:+7.1%}" for error in errors))
        standard = row["congestion"] == "cubic" and row["rmem"] == "6291456" and row["wmem"] == "4194304"
        # Parameters of Open MPI matter only where both ends of a connection send.
        standard &= row["library"] != "mpi" or row["mca"] == "" or row["algorithm"] in ("ring", "tree") and int(row["ranks"]) > 2
        overflow = float(row["queue_ms"]) < 2 * float(row["latency_ms"])
        if standard and spread <= SPREAD and not overflow:
            groups[row["library"], row["algorithm"], float(row["latency_ms"])].append(errors)
    print("\nmean and worst |error|:", ", ".join(MECHANISMS))
    total = {key: rows for key, rows in sorted(groups.items())}
    for library in sorted({key[0] for key in groups}):
        total[library, "all", "all"] = [row for key, rows in groups.items() if key[0] == library for row in rows]
    total["MPI, Gloo", "all", "all"] = [row for key, rows in groups.items() if key[0] != "tcp" for row in rows]
    for key, rows in total.items():
        columns = [[abs(row[i]) for row in rows] for i in range(len(MECHANISMS))]
        print(f"{key[0]:>9} {key[1]:8} {key[2]:>6} ms {len(rows):3} rows",
              " ".join(f"{statistics.mean(column):6.1%} {max(column):6.1%} |" for column in columns))


if __name__ == "__main__":
    main()
