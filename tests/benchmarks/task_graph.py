#!/usr/bin/env python3
"""Writes a task graph of training to stdout, to benchmark dtfm-sim --graph GRAPH --stats.

usage: task_graph.py KIND HOSTS STAGES PLACEMENT START [MICRO_BATCHES]

KIND       allpairs, ring: one synchronization of 200 MB of gradients within every stage;
           gpipe: micro-batches of 64 MB, then allpairs;
           independent: HOSTS tasks that share nothing;
           waiting: 1,000 tasks for each host, all ready from the start;
           chains: 1,000 consecutive tasks, HOSTS times
PLACEMENT  aligned: the replicas of a stage are spread over the regions; random: anywhere (seed 1)
START      together: all synchronizations begin at once;
           apart: first flows start at different times within 10 s, and computations last up to 10 %
           longer

Hosts are in 8 regions; every host has an access link up and down, every pair of regions a pipe.
"""
import random
import sys

REGIONS = 8
GRADIENTS, ACTIVATIONS = 200e6, 64e6


def platform(hosts):
    for i in range(hosts):
        yield f"host h{i}\nlink u{i} 250e6 0.0005\nlink d{i} 250e6 0.0005\naccess h{i} r{i % REGIONS} u{i} d{i}"
    generator = random.Random(0)
    for a in range(REGIONS):
        for b in range(REGIONS):
            rate = 1e9 if a == b else generator.uniform(0.3e8, 1.6e8)
            latency = 0.001 if a == b else generator.uniform(0.01, 0.12)
            yield f"link p{a}_{b} {rate:.0f} {latency:.4f}\npipe r{a} r{b} p{a}_{b}"


def groups(hosts, stages, placement):
    """Returns the hosts of each stage, replica by replica."""
    order = list(range(hosts))
    if placement == "random":
        random.Random(1).shuffle(order)
        return [order[s::stages] for s in range(stages)]
    replicas = hosts // stages
    return [order[s * replicas:(s + 1) * replicas] for s in range(stages)]


def after(names):
    return " after " + ",".join(names) if names else ""


def gpipe(group, micro_batches, clock):
    """Writes forward and backward passes of every pipeline; returns the last task of every stage and
    replica."""
    stages, ends = len(group), {}
    for r in range(len(group[0])):
        for s in range(stages):
            for m in range(micro_batches):
                needs = [f"x{s - 1}_{r}_{m}"] * (s > 0) + [f"f{s}_{r}_{m - 1}"] * (m > 0)
                yield f"compute f{s}_{r}_{m} h{group[s][r]} {0.1 * clock.slowdown()}{after(needs)}", None
                if s + 1 < stages:
                    yield (f"flow x{s}_{r}_{m} h{group[s][r]} h{group[s + 1][r]} {ACTIVATIONS:.0f} "
                           f"after f{s}_{r}_{m} queue F{s}_{r}"), None
        for s in reversed(range(stages)):
            for m in range(micro_batches):
                needs = [f"y{s + 1}_{r}_{m}"] if s + 1 < stages else [f"f{s}_{r}_{micro_batches - 1}"]
                needs += [f"b{s}_{r}_{m - 1}"] * (m > 0)
                yield f"compute b{s}_{r}_{m} h{group[s][r]} {0.2 * clock.slowdown()}{after(needs)}", (s, r, f"b{s}_{r}_{m}")
                if s > 0:
                    yield (f"flow y{s}_{r}_{m} h{group[s][r]} h{group[s - 1][r]} {ACTIVATIONS:.0f} "
                           f"after b{s}_{r}_{m} queue B{s}_{r}"), None


class Clock:
    """Start times that are all 0, or all different."""

    def __init__(self, apart):
        self.apart, self.random, self.count = apart, random.Random(2), 0

    def slowdown(self):
        return 1 + 0.1 * self.random.random() if self.apart else 1

    def begin(self, before):
        """Returns the line of a delay, if any, and what a first flow waits for."""
        if not self.apart:
            return "", after(before)
        self.count += 1
        return f"delay w{self.count} {10 * self.random.random()}{after(before)}\n", f" after w{self.count}"


def allpairs(group, before, clock):
    for s, hosts in enumerate(group):
        n = len(hosts)
        for r in range(n):
            for q in range(n):
                if q != r:
                    delay, needs = clock.begin(before.get((s, r), []))
                    yield f"{delay}flow s{s}_{r}_{q} h{hosts[r]} h{hosts[q]} {GRADIENTS / n:.0f}{needs}"
        for r in range(n):
            gathered = after([f"s{s}_{q}_{r}" for q in range(n) if q != r])
            yield f"delay g{s}_{r} 0{gathered}"
            for q in range(n):
                if q != r:
                    yield f"flow t{s}_{r}_{q} h{hosts[r]} h{hosts[q]} {GRADIENTS / n:.0f} after g{s}_{r}"


def ring(group, clock):
    for s, hosts in enumerate(group):
        n = len(hosts)
        for step in range(2 * (n - 1)):
            for r in range(n):
                delay, needs = ("", after([f"s{s}_{step - 1}_{(r - 1) % n}"])) if step > 0 else clock.begin([])
                yield f"{delay}flow s{s}_{step}_{r} h{hosts[r]} h{hosts[(r + 1) % n]} {GRADIENTS / n:.0f}{needs}"


def lines(kind, hosts, stages, placement, clock, micro_batches):
    if kind in ("independent", "waiting", "chains"):
        for h in range(hosts):
            yield f"host h{h}"
            for i in range(1 if kind == "independent" else 1000):
                yield f"compute t{h}_{i} h{h} {0.5 + (h * 7919 + i) % 1000 / 1000}" + after([f"t{h}_{i - 1}"] * (kind == "chains" and i > 0))
        return
    yield from platform(hosts)
    group, before = groups(hosts, stages, placement), {}
    if kind == "gpipe":
        for line, end in gpipe(group, micro_batches, clock):
            yield line
            if end:
                before[end[:2]] = [end[2]]
    yield from ring(group, clock) if kind == "ring" else allpairs(group, before, clock)


def main(arguments):
    if len(arguments) not in (5, 6) or arguments[0] not in ("allpairs", "ring", "gpipe", "independent", "waiting", "chains"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    kind, hosts, stages, placement = arguments[0], int(arguments[1]), int(arguments[2]), arguments[3]
    micro_batches = int(arguments[5]) if len(arguments) == 6 else 64
    for line in lines(kind, hosts, stages, placement, Clock(arguments[4] == "apart"), micro_batches):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
