"""Measures all-reduces over an emulated wide-area network: MPI, Gloo and, for comparison, messages over plain TCP.

Writes one CSV row per repetition to standard output or appends it to a file. Every ordered pair of ranks has a
link of its own. See --help for the grid.
"""
import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import emulation

PYTHON = "/usr/bin/python3"  # that of the distribution, which has torch
COLUMNS = ["library", "algorithm", "ranks", "latency_ms", "rate_mbps", "queue_ms", "bytes", "idle_s", "congestion", "rmem", "wmem",
           "slow_start_after_idle", "mca", "repetition", "seconds"]
ALGORITHMS = {"mpi": ["ring", "tree", "sharded", "mpi"], "gloo": ["ring", "tree", "sharded", "gloo"], "tcp": ["message"]}


def numbers(text):
    return [float(word) if "." in word else int(word) for word in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", help="CSV file to append to [standard output]")
    parser.add_argument("--ranks", type=int, default=4, help="[4]")
    parser.add_argument("--latencies", type=numbers, default=[10, 40, 100, 250], help="one-way, ms [10,40,100,250]")
    parser.add_argument("--rates", type=numbers, default=[50], help="of a link, headers included, Mbit/s [50]")
    parser.add_argument("--queue", type=int, default=1000, help="of a link, ms of packets [1000]")
    parser.add_argument("--bytes", default="1000000,4000000,16000000", help="of the gradients [1000000,4000000,16000000]")
    parser.add_argument("--libraries", default="mpi,gloo", help="of mpi, gloo, tcp [mpi,gloo]")
    parser.add_argument("--algorithms", help="of ring, tree, sharded, mpi, gloo, message [all]")
    parser.add_argument("--repetitions", type=int, default=3, help="after one that warms up [3]")
    parser.add_argument("--idle", type=float, default=3, help="seconds without messages before each repetition [3]")
    parser.add_argument("--congestion", default="cubic", help="congestion control [cubic]")
    parser.add_argument("--rmem", type=int, default=6291456, help="maximum of net.ipv4.tcp_rmem, bytes [6291456]")
    parser.add_argument("--wmem", type=int, default=4194304, help="maximum of net.ipv4.tcp_wmem, bytes [4194304]")
    parser.add_argument("--no-slow-start-after-idle", action="store_true", help="net.ipv4.tcp_slow_start_after_idle = 0")
    parser.add_argument("--mca", default="", help="Open MPI parameter, as NAME=VALUE")
    return parser.parse_args()


def tune(network, options):
    """The congestion control is that of the route, because sysctl allows few in a network namespace."""
    settings = {"tcp_rmem": f"4096 131072 {options.rmem}",
                "tcp_wmem": f"4096 16384 {options.wmem}", "tcp_no_metrics_save": 1,
                "tcp_slow_start_after_idle": int(not options.no_slow_start_after_idle)}
    for site, space in network.spaces.items():
        subprocess.run(["ip", "-n", space, "route", "replace", "10.79.0.0/24", "dev", "wan0", "proto", "kernel", "scope", "link",
                        "src", network.addresses[site], "congctl", options.congestion], check=True)
        for name, value in settings.items():
            subprocess.run(["ip", "netns", "exec", space, "sysctl", "-q", "-w", f"net.ipv4.{name}={value}"], check=True)


def run_mpi(network, spaces, options, algorithms, program):
    agent = str(emulation.TOOLS / "nsrsh")
    extra = ["--mca", *options.mca.split("=", 1)] if options.mca else []
    command = [agent, spaces[0], "mpirun", "--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl",
               "tcp,self", "--mca", "btl_tcp_if_include", "wan0", "--mca", "oob_tcp_if_include", "wan0", "--mca",
               "mpi_yield_when_idle", "1", *extra, "-H", ",".join(spaces), str(program), options.bytes,
               str(options.repetitions), str(options.idle), *algorithms]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True), []


def run_ranks(library, network, spaces, options, algorithms):
    address = list(network.addresses.values())[0]
    worker = str(Path(__file__).with_name("gloo_ranks.py"))
    environment = dict(os.environ, GLOO_SOCKET_IFNAME="wan0", OMP_NUM_THREADS="1")
    started = [subprocess.Popen(["ip", "netns", "exec", space, PYTHON, worker, library, str(rank), str(options.ranks), address,
                                 options.bytes, str(options.repetitions), str(options.idle), *algorithms],
                                env=environment, stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, text=True)
               for rank, space in enumerate(spaces)]
    return started[0], started[1:]


def measure(options, base, latency, rate, writer, file):
    sites = [f"site{i}" for i in range(options.ranks)]
    links = {(a, b): (latency, rate) for a in sites for b in sites if a != b}
    network = emulation.Emulation(sites, links, base, options.queue)
    spaces = [network.spaces[site] for site in sites]
    try:
        tune(network, options)
        for library in options.libraries.split(","):
            wanted = (options.algorithms or ",".join(ALGORITHMS[library])).split(",")
            algorithms = [name for name in wanted if name in ALGORITHMS[library] + ["message"] * (library != "mpi")]
            process, others = (run_mpi(network, spaces, options, algorithms, base / "all_reduce") if library == "mpi" else
                               run_ranks(library, network, spaces, options, algorithms))
            counts = {}
            for line in process.stdout:
                name, size, seconds = line.split()
                counts[name, size] = repetition = counts.get((name, size), 0) + 1
                writer.writerow([library, name, options.ranks, latency, rate, options.queue, size, options.idle, options.congestion, options.rmem,
                                 options.wmem, int(not options.no_slow_start_after_idle), options.mca if library == "mpi" else "",
                                 repetition, seconds])
                file.flush()
            for one in [process, *others]:
                if one.wait() != 0:
                    sys.exit(f"{library} failed with {latency} ms, {rate} Mbit/s")
    finally:
        network.stop()


def main():
    options = parse()
    emulation.need(["ip", "g++", "mpirun", "mpicxx"])
    base = Path(tempfile.mkdtemp(prefix="dtfm-collectives-"))
    new = not options.o or not Path(options.o).exists()
    file = open(options.o, "a", encoding="ascii", newline="") if options.o else sys.stdout
    writer = csv.writer(file, lineterminator="\n")
    if new:
        writer.writerow(COLUMNS)
    try:
        subprocess.run(["mpicxx", "-O2", "-std=c++20", "-w", Path(__file__).with_name("all_reduce.cpp"), "-o", base / "all_reduce"],
                       check=True)
        for latency in options.latencies:
            for rate in options.rates:
                measure(options, base, latency, rate, writer, file)
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
