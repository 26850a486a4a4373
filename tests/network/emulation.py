"""A wide-area network between network namespaces of this machine."""
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT.parent / "shared" / "tools" / "wan"
SKIPPED = 77


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def need(programs):
    if os.geteuid() != 0:
        skip("network namespaces need root")
    if not os.path.exists("/dev/net/tun"):
        skip("there is no /dev/net/tun")
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        skip(f"missing: {', '.join(missing)}")


def need_torch(python):
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        skip(f"{python} has no PyTorch")


class Emulation:
    """`sites`: names. `links`: (a, b) → (one-way latency in ms, Mbit/s) for every ordered pair. `queue_ms`: what
    the queue of every link holds before it drops packets; by default a round trip, which is how routers are dimensioned,
    but at least 50 ms."""

    def __init__(self, sites, links, folder, queue_ms=None):
        self.addresses = {site: f"10.79.0.{i}" for i, site in enumerate(sites, 1)}
        self.spaces = {site: f"dtfm{os.getpid()}{chr(ord('a') + i)}" for i, site in enumerate(sites)}
        self.made = []
        self.process = None
        program, spec = folder / "emulate_network", folder / "spec.txt"
        if not program.exists():
            subprocess.run(["g++", "-O2", "-std=c++20", ROOT / "tests" / "network" / "emulate_network.cpp", "-o", program], check=True)
        lines = [f"machine {self.spaces[site]} {self.addresses[site]}" for site in sites]
        lines += [f"link {self.spaces[a]} {self.spaces[b]} {delay} {rate} {queue_ms or max(50, 2 * delay)}"
                  for (a, b), (delay, rate) in links.items()]
        spec.write_text("\n".join(lines) + "\n", encoding="ascii")
        try:
            self.start(program, spec)
        except BaseException:
            self.stop()
            raise

    def start(self, program, spec):
        for space in self.spaces.values():
            added = subprocess.run(["ip", "netns", "add", space], capture_output=True, text=True)
            if added.returncode != 0:
                self.stop()
                skip(f"no network namespace can be made: {added.stderr.strip()}")
            self.made.append(space)
            subprocess.run(["ip", "-n", space, "link", "set", "lo", "up"], check=True)
        self.process = subprocess.Popen([program, spec], stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            self.stop()
            skip("the emulator did not start")
        time.sleep(0.2)

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.communicate()
            self.process = None
        while self.made:
            subprocess.run(["ip", "netns", "del", self.made.pop()], check=False)
