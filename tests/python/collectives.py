"""The messages of collectives as programs list them, rank by rank. core/collectives lists them message by message."""

from math import gcd

HALVES = ("ring", "sharded-ps", "hierarchical", "hierarchical-ring")  # those with a reduce-scatter and an all-gather
ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = "all_reduce", "reduce_scatter", "all_gather"


def step(number, adds, sends, receives):
    """`sends`, `receives`: pairs of peer and part. Nothing if there are none."""
    words = [f"{sign}{peer}:{part}" for sign, listed in ((">", sends), ("<", receives)) for peer, part in listed]
    return [f"{number}{'+' if adds else '='} {' '.join(words)}"] if words else []


def ring_steps(members, own, shard, number, kind):
    """Reduce-scatter and all-gather around the ring of `members`. `own` is an index in it."""
    n = len(members)
    after, before = members[(own + 1) % n], members[(own - 1) % n]
    steps = []
    if kind != ALL_GATHER:
        for k in range(n - 1):
            steps += step(number + k, True, [(after, f"{shard}.{(own - k) % n}")], [(before, f"{shard}.{(own - k - 1) % n}")])
    if kind != REDUCE_SCATTER:
        for k in range(n - 1):
            steps += step(number + n - 1 + k, False, [(after, f"{shard}.{(own + 1 - k) % n}")], [(before, f"{shard}.{(own - k) % n}")])
    return steps


def sharded_ps_steps(own, n, kind):
    others = [(own + k) % n for k in range(1, n)]
    steps = []
    if kind != ALL_GATHER:
        steps += step(0, True, [(to, to) for to in others], [(of, own) for of in sorted(others)])
    if kind != REDUCE_SCATTER:
        steps += step(1, False, [(to, own) for to in others], [(of, of) for of in sorted(others)])
    return steps


def central_ps_steps(own, n):
    others = [(peer, 0) for peer in range(1, n)]
    return step(0, True, *([], others) if own == 0 else ([(0, 0)], [])) + step(1, False, *(others, []) if own == 0 else ([], [(0, 0)]))


def tree_steps(own, n):
    steps, reach, number = [], 1, 0
    while reach < n:
        if own % (2 * reach) == reach:
            steps += step(number, True, [(own - reach, 0)], [])
        elif own % (2 * reach) == 0 and own + reach < n:
            steps += step(number, True, [], [(own + reach, 0)])
        reach, number = 2 * reach, number + 1
    while reach > 1:
        reach //= 2
        if own % (2 * reach) == 0 and own + reach < n:
            steps += step(number, False, [(own + reach, 0)], [])
        elif own % (2 * reach) == reach:
            steps += step(number, False, [], [(own - reach, 0)])
        number += 1
    return steps


def positions_by_site(sites):
    positions = {}
    for position, site in enumerate(sites):
        positions.setdefault(site, []).append(position)
    return list(positions.values())


def hierarchical_steps(own, sites, shards, kind):
    """In every site one rank per shard sums it, those of the same shard form a ring across the sites, and then each
    sends its shard to all of its site."""
    site = next(it for it in sites if own in it)
    number = site.index(own)
    others = [peer for peer in site if peer != own]
    received = [(site[k], k) for k in range(shards) if k != number]
    steps = []
    if kind != ALL_GATHER:
        steps += step(0, True, received, [(peer, number) for peer in others] if number < shards else [])
        if number < shards:
            steps += ring_steps([it[number] for it in sites], sites.index(site), number, 1, ALL_REDUCE)
    if kind != REDUCE_SCATTER:
        steps += step(2 * len(sites) - 1, False, [(peer, number) for peer in others] if number < shards else [], received)
    return steps


def instances_of(sites, size):
    """Ranks of equal instances, none of which has ranks of several sites."""
    order = [rank for site in sites for rank in site]
    return [order[first:first + size] for first in range(0, len(order), size)]


def hierarchical_ring_steps(own, instances, kind):
    """The ranks of an instance reduce-scatter around a ring, those of the same shard form a ring across the instances, and then
    each instance all-gathers."""
    ring = next(it for it in instances if own in it)
    number, k = ring.index(own), len(ring)
    after, before = ring[(number + 1) % k], ring[(number - 1) % k]

    def inside(first, ahead):
        return [word for i in range(k - 1) for word in step(first + i, ahead == 1, [(after, (number - i - ahead) % k)],
                                                            [(before, (number - 1 - i - ahead) % k)])]

    steps = []
    if kind != ALL_GATHER:
        steps += inside(0, 1) + ring_steps([it[number] for it in instances], instances.index(ring), number, k - 1, ALL_REDUCE)
    if kind != REDUCE_SCATTER:
        steps += inside(k - 1 + 2 * (len(instances) - 1), 0)
    return steps


def owned_part(algorithm, own, sites, shards):
    if algorithm == "hierarchical":
        number = next(it for it in sites if own in it).index(own)
        return str(number) if number < shards else ""
    if algorithm == "hierarchical-ring":
        return str(next(it for it in instances_of(sites, shards) if own in it).index(own))
    n = sum(map(len, sites))
    return f"0.{(own + 1) % n}" if algorithm == "ring" else str(own)


def collective(algorithm, sites, kind, shards=0):
    """`sites`: that of each rank. `shards`: of hierarchical, per site; 0: as many as the smallest site has ranks, or an instance
    that all sites can be divided into."""
    n, by_site = len(sites), positions_by_site(sites)
    shards = shards or (gcd if algorithm == "hierarchical-ring" else min)(*map(len, by_site), n)
    cuts = {"ring": (1, n), "sharded-ps": (n, 1), "hierarchical": (shards, len(by_site)),
            "hierarchical-ring": (shards, n // shards)}.get(algorithm, (1, 1))
    steps_of = {"ring": lambda own: ring_steps(range(n), own, 0, 0, kind), "sharded-ps": lambda own: sharded_ps_steps(own, n, kind),
                "central-ps": lambda own: central_ps_steps(own, n), "tree": lambda own: tree_steps(own, n),
                "hierarchical": lambda own: hierarchical_steps(own, by_site, shards, kind),
                "hierarchical-ring": lambda own: hierarchical_ring_steps(own, instances_of(by_site, shards), kind)}[algorithm]
    result = {"shards": cuts[0], "chunks": cuts[1], "steps": [", ".join(steps_of(own)) for own in range(n)]}
    if kind == REDUCE_SCATTER:
        result["owned"] = [owned_part(algorithm, own, by_site, shards) for own in range(n)]
    return result


def add_collectives(program, algorithm, sites, zero1):
    """Adds the messages of the program's groups. `sites`: that of each rank."""
    groups = program["sync_groups"]
    shards = 0
    if zero1 and algorithm.startswith("hierarchical") and groups:
        counts = [len(it) for group in groups for it in positions_by_site([sites[rank] for rank in group["ranks"]])]
        shards = min(counts) if algorithm == "hierarchical" else gcd(*counts)
    listed = program["collectives"] = []

    def number_of(*arguments):
        found = collective(*arguments)
        if found not in listed:
            listed.append(found)
        return listed.index(found)

    for group in groups:
        for kind in (REDUCE_SCATTER, ALL_GATHER) if zero1 else (ALL_REDUCE,):
            group[kind] = number_of(algorithm, [sites[rank] for rank in group["ranks"]], kind, shards)
    program["pair_all_reduce"] = number_of("ring", "aa", ALL_REDUCE)
