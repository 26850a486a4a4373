"""One rank of all-reduces over Gloo (torch.distributed), or of plain TCP messages. Started by collectives.py in
every namespace.

usage: gloo_ranks.py tcp|gloo RANK RANKS ADDRESS BYTES[,BYTES...] REPETITIONS IDLE_S ALGORITHM...

Rank 0 prints `ALGORITHM BYTES SECONDS` as all_reduce.cpp does, with the same meaning. `message` is one message
from rank 0 to rank 1.
"""
import socket
import struct
import sys
import time


def ring(values, parts, rank, ranks):
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    for step in range(2 * (ranks - 1)):
        reduce = step < ranks - 1
        sent = rank - step if reduce else rank + 1 - (step - ranks + 1)
        taken = parts[(sent - 1) % ranks]
        received = torch.empty_like(taken) if reduce else taken
        finish([dist.irecv(received, before), dist.isend(parts[sent % ranks], after)])
        if reduce:
            taken += received


def tree(values, parts, rank, ranks):
    reach = 1
    while reach < ranks:
        if rank % (2 * reach) == reach:
            dist.send(values, rank - reach)
        elif rank % (2 * reach) == 0 and rank + reach < ranks:
            received = torch.empty_like(values)
            dist.recv(received, rank + reach)
            values += received
        reach *= 2
    while reach > 1:
        reach //= 2
        if rank % (2 * reach) == 0 and rank + reach < ranks:
            dist.send(values, rank + reach)
        elif rank % (2 * reach) == reach:
            dist.recv(values, rank - reach)


def sharded(values, parts, rank, ranks):
    others = [(rank + step) % ranks for step in range(1, ranks)]
    received = [torch.empty_like(parts[rank]) for _ in others]
    finish([dist.irecv(part, other) for part, other in zip(received, others)] +
           [dist.isend(parts[other], other) for other in others])
    for part in received:
        parts[rank] += part
    finish([dist.irecv(parts[other], other) for other in others] +
           [dist.isend(parts[rank], other) for other in others])


def gloo(values, parts, rank, ranks):
    dist.all_reduce(values)


def message(values, parts, rank, ranks):
    if rank == 0:
        dist.send(values, 1)
    elif rank == 1:
        dist.recv(values, 0)
    values.fill_(ranks * (ranks + 1) / 2)


def finish(works):
    for work in works:
        work.wait()


def run_gloo(rank, ranks, address, sizes, repetitions, idle_s, algorithms):
    dist.init_process_group("gloo", init_method=f"tcp://{address}:29500", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    for size in sizes:
        for name in algorithms:
            for repetition in range(-1, repetitions):
                values = torch.full((size // 4 // ranks * ranks,), rank + 1.0)
                start = torch.tensor([time.monotonic() + idle_s], dtype=torch.float64)
                dist.all_reduce(start, dist.ReduceOp.MAX)
                start = start.item()
                time.sleep(max(0, start - time.monotonic()))
                globals()[name](values, list(values.chunk(ranks)), rank, ranks)
                end = torch.tensor([time.monotonic()], dtype=torch.float64)
                assert bool((values == ranks * (ranks + 1) / 2).all()), name
                dist.all_reduce(end, dist.ReduceOp.MAX)
                if rank == 0 and repetition >= 0:
                    print(name, size, f"{end.item() - start:.6f}", flush=True)
    dist.barrier()


def run_tcp(rank, ranks, address, sizes, repetitions, idle_s, algorithms):
    """One connection from rank 1, which receives, to rank 0, which sends. Both share the machine's clock."""
    buffer = bytearray(1 << 20)
    if rank == 0:
        listening = socket.create_server((address, 29501))
        peer, _ = listening.accept()
    elif rank == 1:
        for _ in range(100):
            try:
                peer = socket.create_connection((address, 29501))
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
    else:
        return
    for size in sizes:
        for repetition in range(-1, repetitions):
            if rank == 1:
                left = size
                while left:
                    left -= peer.recv_into(buffer, min(left, len(buffer)))
                peer.sendall(struct.pack("d", time.monotonic()))
                continue
            time.sleep(idle_s)
            start = time.monotonic()
            peer.sendall(bytes(size))
            end = struct.unpack("d", peer.recv(8))[0]
            if repetition >= 0:
                print("message", size, f"{end - start:.6f}", flush=True)


if __name__ == "__main__":
    library, rank, ranks, address, sizes, repetitions, idle_s, *algorithms = sys.argv[1:]
    if library == "gloo":
        import torch
        import torch.distributed as dist
    run = run_gloo if library == "gloo" else run_tcp
    run(int(rank), int(ranks), address, [int(size) for size in sizes.split(",")], int(repetitions), float(idle_s), algorithms)
