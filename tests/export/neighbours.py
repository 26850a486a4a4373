#!/usr/bin/env python3
"""A worker started by a launcher: compares what it was told of its rank with rank_table.json, and
contacts its neighbours.

usage: neighbours.py RANK_TABLE PORT REPORTS

Rank r listens on PORT + r of this machine, on which all machines of the test run. It greets the
next stage of its pipeline and the same stage of the next pipeline, and must be greeted by those
before it. Writes REPORTS/r.
"""
import json
import os
import socket
import sys
import time
from pathlib import Path

PATIENCE = 60  # seconds to wait for others to start


def neighbours(table, rank):
    """Returns the ranks that `rank` greets: the next stage of its pipeline and its stage in the next
    pipeline, cyclically."""
    me = table[rank]

    def at(dp, pp):
        return next(row["rank"] for row in table if (row["dp"], row["pp"], row["tp"]) == (dp, pp, me["tp"]))

    stages = max(row["pp"] for row in table) + 1
    pipelines = max(row["dp"] for row in table) + 1
    return [at(me["dp"], (me["pp"] + 1) % stages), at((me["dp"] + 1) % pipelines, me["pp"])]


def greet(port, words):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as peer:
                peer.sendall(json.dumps(words).encode() + b"\n")
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def main(table_file, first_port, reports):
    table = json.loads(Path(table_file).read_text())
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    me = {"rank": rank, "host": os.environ.get("TEST_HOST") or socket.gethostname(), "gpu": int(os.environ["CUDA_VISIBLE_DEVICES"])}
    assert world == len(table), (world, len(table))
    assert me == {key: table[rank][key] for key in me}, (me, table[rank])
    assert os.environ["MASTER_ADDR"] == table[0].get("address", table[0]["host"])
    assert os.environ["LOCAL_RANK"] == "0" and os.environ["MASTER_PORT"].isdigit()

    listener = socket.create_server(("127.0.0.1", first_port + rank), backlog=16)
    listener.settimeout(PATIENCE)
    for other in neighbours(table, rank):
        greet(first_port + other, me)
    before = [other for other in range(world) for it in neighbours(table, other) if it == rank]
    greeted = []
    for _ in before:
        peer, _ = listener.accept()
        with peer:
            words = json.loads(peer.makefile().readline())
        assert words == {key: table[words["rank"]][key] for key in words}, words
        greeted.append(words["rank"])
    assert sorted(greeted) == sorted(before), (greeted, before)
    Path(reports, str(rank)).write_text("met its neighbours\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
