#!/usr/bin/env python3
"""dtfm-topology detect: topologies of many kinds of machines from fake nvidia-smi, ssh, sinfo and scontrol on
PATH, saved outputs, and what it says about programs that are missing, hang, fail or print something else.

usage: detect.py DTFM-TOPOLOGY
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TOPOLOGY = Path(sys.argv[1]).resolve()

FAKE_SMI = r"""#!/bin/bash
# Prints what $FAKE/$FAKE_HOST has for these arguments.
case "$*" in
  *--query-gpu=index,*) file=gpus.csv ;;
  *--query-gpu=pcie.*) file=pcie.csv ;;
  "topo -m") file=topo.txt ;;
  -L) file=list.txt ;;
  "nvlink -s") file=nvlink.txt ;;
  "") file=cpu.txt ;;  # as lscpu
esac
folder=$FAKE/${FAKE_HOST:-local}
if [ -x "$folder/run" ]; then exec "$folder/run" "$file"; fi
if [ ! -e "$folder/$file" ]; then echo "not supported"; exit 3; fi
cat "$folder/$file"
"""
FAKE_SSH = r"""#!/bin/bash
# Runs a command as if on a host, which has no more than the tools of FAKE.
while [[ $1 == -* ]]; do
  if [ "$1" = -o ]; then shift; fi
  shift
done
host=${1#*@}
echo "$*" >>"$FAKE/ssh.log"
if [ ! -d "$FAKE/$host" ]; then echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255; fi
shift
FAKE_HOST=$host exec bash -c "$*"
"""
FAKE_SLURM = r"""#!/bin/bash
cat "$FAKE/${0##*/}.txt" || exit 1
"""
# 100 MB in 2.4 ms and 200 MB in 4.4 ms between four GPUs: t = 6 (α + S / (4 β)) with α = 66.67 us, β = 75 GB/s.
FAKE_NCCL_TESTS = r"""#!/bin/bash
echo "# Collective test starting: all_reduce_perf"
for rank in 0 1 2 3; do echo "#  Rank  $rank Group  0 Pid  7 on  node device  $rank [0x00] GPU"; done
echo "#       size         count      type   redop    root     time   algbw   busbw #wrong"
echo "   100000000      25000000     float     sum      -1     2400   41.67   62.50      0"
echo "   200000000      50000000     float     sum      -1     4400   45.45   68.18      0"
"""
FAKE_PING = """#!/bin/bash
echo "64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.200 ms"
"""
FAKE_IPERF3 = """#!/bin/bash
if [ "$1" = -s ]; then exit 0; fi
while [ "$1" != -P ]; do shift; done
echo '{"start": {"connected": [{"local_host": "a", "remote_host": "b"}], "test_start": {"num_streams": '$2'}},'
echo '"end": {"sum_received": {"bits_per_second": 25e9}}}'
"""


def gpus(name, mebibytes, count, first=0):
    return "".join(f"{i}, {name}, {mebibytes}, 00000000:{0x10 + i:02X}:00.0, GPU-{i:08d}\n" for i in range(first, first + count))


def matrix(count, cell, cpus=None, numa=lambda gpu: "N/A", cards=(), styled=True):
    """What `topo -m` prints; `cell(a, b)` is the connection of two GPUs."""
    names = [f"GPU{i}" for i in range(count)] + [f"NIC{i}" for i in range(len(cards))]
    header = "\t" + ("\x1b[4m" if styled else "") + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID" + ("\x1b[0m" if styled else "")
    rows = [header]
    for a in range(count):
        cells = [" X " if a == b else cell(a, b) for b in range(count)] + ["SYS"] * len(cards)
        rows.append(f"GPU{a}\t" + "\t".join(cells) + f"\t{cpus or '0-31'}\t{numa(a)}\t\tN/A")
    for i in range(len(cards)):
        rows.append(f"NIC{i}\t" + "\t".join(["SYS"] * count + [" X " if i == j else "NODE" for j in range(len(cards))]))
    legend = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    if cards:
        legend += "\nNIC Legend:\n\n" + "".join(f"  NIC{i}: {card}\n" for i, card in enumerate(cards))
    return "\n".join(rows) + "\n" + legend


def slots(generation, lanes, count):
    return f"{generation}, {lanes}\n" * count


# Eight V100 of a p3.16xlarge or DGX-1: a hybrid cube mesh, in which each GPU has six links to four others.
CUBE_MESH = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\t0-15,32-47\t0
GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\t0-15,32-47\t0
GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\t0-15,32-47\t0
GPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\t0-15,32-47\t0
GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\t16-31,48-63\t1
GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\t16-31,48-63\t1
GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\t16-31,48-63\t1
GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \t16-31,48-63\t1

Legend:

  X    = Self
"""
# As copied from a terminal, with blanks instead of tabs, by a driver without the column of NUMA nodes.
OLD_DESKTOP = """\
        GPU0    GPU1    CPU Affinity
GPU0     X      NV4     0-23
GPU1    NV4      X      0-23
"""
DESKTOP = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tPHB\tSYS\tSYS\t0-15\t0\t\tN/A
GPU1\tPHB\t X \tSYS\tSYS\t0-15\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNODE\t16-31\t1\t\tN/A
GPU3\tSYS\tSYS\tNODE\t X \t16-31\t1\t\tN/A
"""
VIRTUAL = "\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \t0-3\t\tN/A\n"
CARDS = [f"mlx5_{i}" for i in range(10)]


def by_halves(gpu):
    return gpu // 4


def machines():
    """By name: files of nvidia-smi, and what the topology must contain."""
    def switched(name, mebibytes, count, links, **more):
        return {"gpus.csv": gpus(name, mebibytes, count), "topo.txt": matrix(count, lambda a, b: f"NV{links}", **more),
                "pcie.csv": slots(5, 16, count)}

    within = "{within: host, latency: %s us, bandwidth: %s GB/s, shared: sender}"
    return {
        "dgx-h100": (switched("NVIDIA H100 80GB HBM3", 81559, 8, 18, numa=by_halves, cards=CARDS),
                     ['gpus_per_host: 8, gpu: "H100"}', within % (3.4, 360), "NUMA node 0: GPU 0-3; NUMA node 1: GPU 4-7", "`mlx5_9`"]),
        "dgx-a100": (switched("NVIDIA A100-SXM4-80GB", 81920, 8, 12, numa=lambda gpu: [3, 3, 1, 1, 7, 7, 5, 5][gpu]),
                     ['gpus_per_host: 8, gpu: "A100-80GB"}', within % (3.4, 240), "NUMA node 1: GPU 2-3; NUMA node 3: GPU 0-1;"]),
        "p4d": (switched("NVIDIA A100-SXM4-40GB", 40960, 8, 12, numa=by_halves, styled=False),
                ['gpu: "A100-40GB"}', within % (3.4, 240)]),
        "hgx-h200": (switched("NVIDIA H200", 143771, 8, 18), ['gpus_per_host: 8, gpu: "H200"}', within % (3.4, 360)]),
        "b200": (switched("NVIDIA B200", 183359, 8, 18), ['gpu: "B200"}', within % (3.4, 720)]),
        "gb200-tray": (switched("NVIDIA GB200", 189471, 4, 18, numa=lambda gpu: gpu // 2), ['gpus_per_host: 4, gpu: "GB200"}', within % (3.4, 720)]),
        "dgx-2": (switched("Tesla V100-SXM3-32GB", 32510, 16, 6), ['gpus_per_host: 16, gpu: "V100-32GB"}', within % (3.4, 120)]),
        # Four links between each two of four GPUs are all twelve that an A100 has, so there is no switch.
        "four-a100": (switched("NVIDIA A100-SXM4-40GB", 40960, 4, 4), ["{within: host, latency: 3.4 us, bandwidth: 80 GB/s}", "NV4: 4 NVLinks of 25 GB/s"]),
        "four-gh200": (switched("NVIDIA GH200 120GB", 97871, 4, 6), ['gpu: "GH200"}', "{within: host, latency: 3.4 us, bandwidth: 120 GB/s}"]),
        "p3.16xlarge": ({"gpus.csv": gpus("Tesla V100-SXM2-16GB", 16384, 8), "topo.txt": CUBE_MESH, "pcie.csv": slots(3, 16, 8)},
                        ['gpus_per_host: 8, gpu: "V100-16GB"}', within % (5.7, 16),
                         '{between: ["p3.16xlarge:0", "p3.16xlarge:1"], latency: 3.4 us, bandwidth: 20 GB/s}  # NV1',
                         '{between: ["p3.16xlarge:4", "p3.16xlarge:7"], latency: 3.4 us, bandwidth: 40 GB/s}  # NV2', "SYS: PCIe and the link between NUMA nodes"]),
        "g5.48xlarge": ({"gpus.csv": gpus("NVIDIA A10G", 23028, 8), "topo.txt": matrix(8, lambda a, b: "PHB" if a // 4 == b // 4 else "SYS", numa=by_halves),
                         "pcie.csv": slots(4, 16, 8)},
                        ['gpus_per_host: 8, gpu: "A10G"}', within % (5.7, 32), "PCIe 4 with 16 lanes", "NUMA node 1: GPU 4-7", "PHB: PCIe through the CPU"]),
        "four-4090": ({"gpus.csv": gpus("NVIDIA GeForce RTX 4090", 24564, 4), "topo.txt": DESKTOP, "pcie.csv": "4, 16\n4, 16\n4, 16\n4, 8\n"},
                      ['gpus_per_host: 4, gpu: "RTX-4090"}', within % (5.7, 32), "PHB: PCIe through the CPU; SYS:",
                       '{between: ["four-4090:0", "four-4090:3"], latency: 5.7 us, bandwidth: 16 GB/s, shared: sender}  # SYS: PCIe 4 with 8 lanes',
                       "  # NODE: PCIe 4 with 8 lanes"]),
        "two-3090": ({"gpus.csv": gpus("GeForce RTX 3090", 24268, 2), "topo.txt": OLD_DESKTOP},
                     ['gpus_per_host: 2, gpu: "RTX-3090"}', "{within: host, latency: 3.4 us, bandwidth: 45 GB/s}"]),
        "l40s": ({"gpus.csv": gpus("NVIDIA L40S", 46068, 4), "topo.txt": matrix(4, lambda a, b: "NODE" if a // 2 == b // 2 else "SYS")},
                 ['gpu: "L40S"}', within % (5.7, 32), "`host_link` of L40S in configs/gpus.yaml"]),
        # Two sockets of Ice Lake: 10 GB/s between them, and PCIe 4 within each.
        "two-sockets": ({"gpus.csv": gpus("NVIDIA L40S", 46068, 4), "topo.txt": matrix(4, lambda a, b: "NODE" if a // 2 == b // 2 else "SYS", numa=lambda gpu: gpu // 2),
                         "pcie.csv": slots(4, 16, 4), "cpu.txt": "Vendor ID: GenuineIntel\n  CPU family: 6\n  Model: 106\n"},
                        [within % (5.7, 10), "# link between NUMA nodes (`numa` of `GenuineIntel` CPUs, model 106, in configs/hosts.yaml)",
                         '{between: ["two-sockets:0", "two-sockets:1"], latency: 5.7 us, bandwidth: 32 GB/s, shared: sender}  # NODE: PCIe 4 with 16 lanes']),
        # Two pairs of boards with a bridge each.
        "bridged-a6000": ({"gpus.csv": gpus("NVIDIA RTX A6000", 49140, 4), "topo.txt": matrix(4, lambda a, b: "NV4" if a // 2 == b // 2 else "SYS"), "pcie.csv": slots(4, 16, 4)},
                          ['gpu: "RTX-A6000"}', within % (5.7, 32), '{between: ["bridged-a6000:2", "bridged-a6000:3"], latency: 3.4 us, bandwidth: 45 GB/s}']),
        "a100-pcie": ({"gpus.csv": gpus("NVIDIA A100 80GB PCIe", 81920, 2), "topo.txt": matrix(2, lambda a, b: "NV12")},
                      ['gpu: "A100-PCIe-80GB"}', "{within: host, latency: 3.4 us, bandwidth: 240 GB/s}"]),
        "gh200": ({"gpus.csv": gpus("NVIDIA GH200 480GB", 97871, 1), "topo.txt": VIRTUAL}, ['{name: "gh200", site: "cluster", gpu: "GH200"}']),
        "t4-vm": ({"gpus.csv": gpus("Tesla T4", 15360, 1), "topo.txt": VIRTUAL}, ['{name: "t4-vm", site: "cluster", gpu: "T4"}']),
        "mig": ({"gpus.csv": gpus("NVIDIA A100-SXM4-40GB", 40960, 2), "topo.txt": matrix(2, lambda a, b: "NV12"), "pcie.csv": slots(4, 16, 2),
                 "list.txt": "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)\n  MIG 3g.20gb     Device  0: (UUID: MIG-0)\n  MIG 1g.5gb      Device  1: (UUID: MIG-1)\n"
                             "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n"},
                ['{name: "NVIDIA A100-SXM4-40GB MIG 3g.20gb", memory: 20 GB}', 'memory: 5 GB}', '{name: "mig-A100-40GB", site: "cluster", gpu: "A100-40GB"}',
                 "MIG instances have no links to each other"]),
        "mixed": ({"gpus.csv": gpus("NVIDIA GeForce RTX 3090", 24576, 2) + gpus("NVIDIA GeForce RTX 4090", 24564, 1, 2),
                   "topo.txt": matrix(3, lambda a, b: "NV4" if a + b == 1 else "PHB"), "pcie.csv": slots(4, 16, 3)},
                  ['{name: "mixed-RTX-3090", site: "cluster", gpus_per_host: 2, gpu: "RTX-3090"}', '{name: "mixed-RTX-4090", site: "cluster", gpu: "RTX-4090"}',
                   '{between: ["mixed-RTX-3090", "mixed-RTX-4090"], latency: 5.7 us, bandwidth: 32 GB/s, shared: sender}', "bandwidth: 45 GB/s}"]),
        # A GPU that the catalogue lacks: no peak is made up, and the rate of its NVLinks is that of the driver.
        "unknown": ({"gpus.csv": gpus("NVIDIA RTX Z9000", 49140, 2), "topo.txt": matrix(2, lambda a, b: "NV4"), "pcie.csv": slots(4, 16, 2),
                     "nvlink.txt": "".join(f"GPU {i}: NVIDIA RTX Z9000 (UUID: GPU-{i})\n" + "".join(f"\t Link {j}: 14.062 GB/s\n" for j in range(4)) for i in range(2))},
                    ['{name: "NVIDIA RTX Z9000", memory: 49140 MiB}', "`NVIDIA RTX Z9000` is not in configs/gpus.yaml", "The peak of these GPUs is not known",
                     "bandwidth: 44.9984 GB/s}", "nvidia-smi nvlink -s"]),
        "more-memory": ({"gpus.csv": gpus("NVIDIA GeForce RTX 4090", 49140, 1), "topo.txt": VIRTUAL},
                        ['{name: "NVIDIA GeForce RTX 4090 with 49140 MiB", memory: 49140 MiB}', "RTX-4090 in configs/gpus.yaml 25.39 GB"]),
    }


NCCL = """<system version="1">
  <cpu numaid="1" affinity="ffffffff" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">
    <pci busid="0000:07:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:10:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:11:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8">
        <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:10:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
"""


class Detect(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.bin = self.folder / "bin"
        self.more_path = ""
        self.bin.mkdir()
        for name in ("bash", "cat", "env", "sleep", "true", "yes", "head", "sed", "awk", "grep"):
            self.bin.joinpath(name).symlink_to(next(p for p in (Path("/usr/bin", name), Path("/bin", name)) if p.exists()))
        self.tool("nvidia-smi", FAKE_SMI)
        self.tool("lscpu", FAKE_SMI)
        self.tool("ssh", FAKE_SSH)

    def tool(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def host(self, name, files):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for file, text in files.items():
            folder.joinpath(file).write_text(text)
            if file == "run":
                folder.joinpath(file).chmod(0o755)

    def start(self, *arguments):
        environment = {"PATH": str(self.bin) + self.more_path, "FAKE": str(self.folder), "TMPDIR": str(self.folder), "LANG": "C.UTF-8"}
        return subprocess.Popen([TOPOLOGY, "detect", *map(str, arguments)], env=environment, cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def detect(self, *arguments, status=0):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=60)
        self.err = err
        self.assertEqual(process.returncode, status, err + out)
        if status:
            self.assertEqual(out, "")
            self.assertNotIn("internal error", err)
        return out if status == 0 else err

    def check(self, text):
        """What `dtfm-topology check` says about a topology."""
        file = self.folder / "checked.yaml"
        file.write_text(text)
        done = subprocess.run([TOPOLOGY, "check", file, "--format", "json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr + text)
        return json.loads(done.stdout)

    def test_machines(self):
        for name, (files, expected) in machines().items():
            with self.subTest(name):
                self.host(name, files)
                text = self.detect(name)
                for part in expected:
                    self.assertIn(part, text)
                self.check(text)
                self.assertEqual(text, self.detect(name))

    def test_same_text_from_this_host_ssh_and_files(self):
        files = machines()["dgx-h100"][0]
        self.host("local", files)
        self.host("node", files)
        by_ssh = self.detect("node")
        self.assertEqual(by_ssh, self.detect("--from", self.folder, "node"))
        here = self.detect()
        name = re.search(r'name: "([^"]*)", site', here).group(1)
        self.assertEqual(by_ssh.replace("node:", f"{name}:").replace('"node"', f'"{name}"'), here)

    def test_several_hosts(self):
        everything = machines()
        self.host("a", everything["dgx-h100"][0])
        self.host("b", everything["dgx-h100"][0])
        self.host("c", everything["four-4090"][0])
        text = self.detect("me@a", "b", "home/c", "--between-hosts", "20us,100Gbps", "--between-sites", "20ms,1Gbps")
        self.assertEqual(text.count("within: host"), 1)
        self.assertIn('{between: ["c", "c"], latency: 5.7 us, bandwidth: 32 GB/s, shared: sender}', text)
        self.assertIn('{within: "*", latency: 0.02 ms, bandwidth: 100 Gbps}', text)
        self.assertIn('{between: ["*", "*"], latency: 20 ms, bandwidth: 1 Gbps}', text)
        self.check(text)
        self.assertIn("me@a nvidia-smi topo -m\n", self.folder.joinpath("ssh.log").read_text())
        self.assertEqual(self.detect("a", "b", status=2),
                         "dtfm-topology: the links between 2 hosts are not known: measure them with --measure, or give "
                         "--between-hosts LATENCY,BANDWIDTH, such as 20us,100Gbps\n")

    def test_output_file(self):
        self.host("a", machines()["t4-vm"][0])
        summary = json.loads(self.detect("a", "-o", "lab.yaml", "--format", "json"))
        self.assertEqual(summary["name"], "lab")
        self.assertIn('gpu: "T4"', self.folder.joinpath("lab.yaml").read_text())
        before = self.folder.joinpath("lab.yaml").read_text()
        self.detect("nowhere", "-o", "lab.yaml", status=2)
        self.assertEqual(before, self.folder.joinpath("lab.yaml").read_text())

    def test_all_failing_hosts_are_named(self):
        self.host("a", machines()["t4-vm"][0])
        self.host("hangs", {"run": "#!/bin/bash\nsleep 100 & sleep 100\n"})
        self.host("fails", {"run": "#!/bin/bash\necho 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9\n"})
        self.host("lacks", {"run": "#!/bin/bash\nexit 127\n"})
        self.host("endless", {"run": "#!/bin/bash\nyes\n"})
        self.host("empty", {"gpus.csv": "", "topo.txt": ""})
        begin = time.monotonic()
        err = self.detect("a", "hangs", "fails", "lacks", "endless", "empty", "away", "--timeout", "1", "--between-hosts", "1us,1Gbps", status=2)
        self.assertLess(time.monotonic() - begin, 30)
        for message in ("hangs: `nvidia-smi --query-gpu=index,name,memory.total,pci.bus_id,uuid --format=csv,noheader,nounits` timed out after 1 s: "
                        "check whether `ssh hangs nvidia-smi` hangs, or raise --timeout",
                        "failed with exit status 9: NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.: check that the driver",
                        "lacks: nvidia-smi is not on PATH there: install NVIDIA's driver, or leave this host out",
                        "printed more than 4 MiB",
                        "lists no GPU: check with `nvidia-smi`",
                        "away: ssh failed: ssh: connect to host away port 22: Connection refused: make `ssh away true` work without a password"):
            self.assertIn(message, err)

    def test_no_program(self):
        self.bin.joinpath("nvidia-smi").unlink()
        self.bin.joinpath("ssh").unlink()
        self.assertIn("this host: nvidia-smi is not on PATH: install NVIDIA's driver, or name the hosts", self.detect(status=2))
        self.assertIn("a: ssh cannot be run", self.detect("a", status=2))
        self.assertIn("--slurm: sinfo is not on PATH", self.detect("--slurm", status=2))

    def test_garbage(self):
        good = machines()["dgx-h100"][0]
        cases = {
            "text": ({"gpus.csv": "Welcome to node!\n"}, "expected `index, name, memory, bus id, uuid` of a GPU"),
            "binary": ({"gpus.csv": "0, \x01\x02, 3, 4, 5\n"}, "control character"),
            "no memory": ({"gpus.csv": "0, NVIDIA GB10, [N/A], 0, 0\n"}, "the driver does not know the memory"),
            "twice": ({"gpus.csv": gpus("Tesla T4", 15360, 1) * 2}, "GPU 0 is listed twice"),
            "not a matrix": ({"topo.txt": "<html>\n"}, "has no header `GPU0 …`"),
            "empty matrix": ({"topo.txt": ""}, "is empty"),
            "cut matrix": ({"topo.txt": good["topo.txt"][:150]}, "expected"),
            "unknown word": ({"topo.txt": good["topo.txt"].replace("NV18", "NVX", 1)}, "expected NV#, PIX, PXB, PHB, NODE or SYS; found `NVX`"),
            "asymmetric": ({"topo.txt": good["topo.txt"].replace("NV18", "NV6", 1)}, "GPU1 to GPU0 differs from GPU0 to GPU1"),
            "fewer GPUs": ({"topo.txt": machines()["four-4090"][0]["topo.txt"]}, "does not list GPU4"),
        }
        for name, (files, message) in cases.items():
            with self.subTest(name):
                self.host("bad", {**good, **files})
                err = self.detect("bad", status=2)
                self.assertIn(message, err)
                self.assertIn("bad: ", err)
                self.assertNotRegex(err, r"[\x00-\x09\x0b-\x1f]")
        for slots_text, message in (("what?\n", "expected `generation, lanes` of PCIe; found `what?`"), (slots(5, 16, 3), "lists 3 PCIe slots, but the host has 8 GPUs"),
                                    ("", "lists 0 PCIe slots, but the host has 8 GPUs")):
            with self.subTest(slots_text):
                self.host("bad", {**good, "pcie.csv": slots_text})
                self.assertIn('gpu: "H100"', self.detect("bad"))
                self.assertIn("note: not used: bad: nvidia-smi --query-gpu=pcie", self.err)
                self.assertIn(message, self.err)
                self.assertIn(f"bad/pcie.csv: {message}" if slots_text != "what?\n" else message, self.detect("--from", ".", "bad", status=2))
                self.assertIn("(save the output of `nvidia-smi --query-gpu=pcie.link.gen.max", self.err)

    def test_matrix_that_fails(self):
        files = machines()["l40s"][0]
        del files["topo.txt"]
        self.host("vm", files)
        self.assertRegex(self.detect("vm", status=2), "failed with exit status 3: not supported: .*, or give the links with --within-host LATENCY,BANDWIDTH\n")
        self.assertIn("{within: host, latency: 5 us, bandwidth: 10 GB/s}", self.detect("vm", "--within-host", "5us,10GB/s"))
        self.assertIn("{within: host, latency: 5 us, bandwidth: 10 GB/s}", self.detect("--from", ".", "vm", "--within-host", "5us,10GB/s"))
        # MIG and a single GPU do without.
        files["gpus.csv"] = gpus("NVIDIA L40S", 46068, 1)
        self.host("vm", files)
        self.assertIn('gpu: "L40S"', self.detect("vm"))

    def test_options_replace_what_is_detected(self):
        self.host("a", machines()["unknown"][0])
        text = self.detect("a", "--gpu", "NVIDIA RTX Z9000=A40", "--within-host", "5us,10Gbps", "--site", "here", "--topology-name", "mine")
        for part in ('gpu: "A40"', '{within: host, latency: 5 us, bandwidth: 1.25 GB/s}', 'site: "here"', 'name: "mine"'):
            self.assertIn(part, text)
        self.assertIn("unknown GPU `A41`; did you mean `A40`?", self.detect("a", "--gpu", "NVIDIA RTX Z9000=A41", status=2))
        self.assertIn("--gpu: no host has GPUs of type `Z9000`; known: `NVIDIA RTX Z9000`\n", self.detect("a", "--gpu", "Z9000=A40", status=2))

    def test_untrusted_words(self):
        for word in ("-oProxyCommand=x", "a;b", "$(id)", "a b", "../a", "a/b/c", "a@b@c", "", "a=;", "x\x1by"):
            with self.subTest(word):
                err = self.detect("--", word, status=2)
                self.assertIn("HOST", err)
        self.assertFalse(self.folder.joinpath("ssh.log").exists())
        self.host("a", {"gpus.csv": gpus('x"}: [# \\', 1000, 1), "topo.txt": VIRTUAL})
        self.check(self.detect("a"))

    def test_nccl_topology(self):
        self.host("a", {"gpus.csv": gpus("NVIDIA A40", 46068, 2), "topo.txt": matrix(2, lambda a, b: "NV4")})
        self.folder.joinpath("nccl.xml").write_text(NCCL)
        text = self.detect("a", "--nccl-topology", "nccl.xml")
        for part in ("host_uplink: 200 Gbps, host_downlink: 200 Gbps", "NUMA node 1: GPU 0-1", "bandwidth: 45 GB/s}"):
            self.assertIn(part, text)
        self.host("a", {"topo.txt": matrix(2, lambda a, b: "PHB")})
        self.assertIn("bandwidth: 16 GB/s, shared: sender}", self.detect("a", "--nccl-topology", "a=nccl.xml"))
        self.folder.joinpath("nccl.xml").write_text(NCCL.replace("0000:10", "0000:20"))
        self.assertIn("--nccl-topology: unknown host `b`; known: `a`", self.detect("a", "--nccl-topology", "b=nccl.xml", status=2))
        self.assertIn("is not one of a", self.detect("a", "--nccl-topology", "nccl.xml", status=2))
        self.folder.joinpath("nccl.xml").write_text("<graphs/>")
        self.assertIn("NCCL_TOPO_DUMP_FILE", self.detect("a", "--nccl-topology", "nccl.xml", status=2))

    def slurm(self, sinfo, scontrol):
        for name, text in {"sinfo": sinfo, "scontrol": scontrol}.items():
            self.tool(name, FAKE_SLURM)
            self.folder.joinpath(f"{name}.txt").write_text(text)

    TREE = ("SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[01-02],old1\nSwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=gpu[03-04],login\n"
            "SwitchName=spine Level=1 LinkSpeed=1 Nodes=gpu[01-04],login,old1 Switches=leaf[1-2]\n")
    NODES = "gpu[01-02,04] gpu:nvidia_h100_80gb_hbm3:8(S:0-1)\ngpu03 gpu:h100:4\nold1 gpu:v100:2,gpu:t4:1\nlogin (null)\n"

    def test_slurm(self):
        self.slurm(self.NODES, self.TREE)
        link = ("--between-hosts", "14us,400Gbps")
        self.assertIn("old1: Slurm calls its GPUs `v100`, which is not a name in configs/gpus.yaml: give one", self.detect("--slurm", *link, status=2))
        text = self.detect("--slurm", *link, "--gpu", "v100=V100-32GB")
        for part in ('{name: "gpu01", site: "cluster", gpus_per_host: 8, gpu: "H100"}', '{name: "gpu03", site: "cluster", gpus_per_host: 4, gpu: "H100"}',
                     '{name: "old1-V100-32GB", site: "cluster", gpus_per_host: 2, gpu: "V100-32GB"}', '{name: "old1-T4", site: "cluster", gpu: "T4"}',
                     "{within: host, latency: 3.4 us, bandwidth: 360 GB/s, shared: sender}", '{between: ["old1-V100-32GB", "old1-T4"], latency: 5.7 us, bandwidth: 16 GB/s',
                     "switch `leaf1` (scontrol show topology)", '{within: "*", latency: 0.014 ms, bandwidth: 400 Gbps}'):
            self.assertIn(part, text)
        self.assertEqual(self.check(text)["devices"], 31)
        text = self.detect("--slurm", "--sites-by-switch", *link, "--between-sites", "20us,200Gbps", "--gpu", "v100=V100-32GB")
        self.assertIn('{name: "gpu04", site: "leaf2"', text)
        self.assertIn('{between: ["*", "*"], latency: 0.02 ms, bandwidth: 200 Gbps}', text)
        self.assertIn("the links between 5 hosts are not known", self.detect("--slurm", status=2))

    def test_slurm_without_topology_or_types(self):
        self.slurm("NODELIST|STATE|GRES\nn[1-2]|idle|gpu:4(S:0-1)\n", "No topology information available\n")
        link = ("--between-hosts", "14us,400Gbps")
        self.assertIn("Slurm does not say which GPUs it has", self.detect("--slurm", *link, status=2))
        text = self.detect("--slurm", *link, "--gpu", "L40S")
        self.assertIn('{name: "n2", site: "cluster", gpus_per_host: 4, gpu: "L40S"}', text)
        self.assertIn("names no switch", self.detect("--slurm", "--sites-by-switch", *link, status=2))
        for sinfo, message in (("", "lists no node with GPUs"), ("n[1-2 gpu:4\n", "expected a list of hosts"), ("n1 gpu:a:b:c\n", "expected gpu:TYPE:COUNT"),
                               ("n[1-99999] gpu:4\n", "more than 8192 hosts"), ("n1 gpu:4\nn1 gpu:2\n", "has other GPUs than"), ("n;rm gpu:4\n", "HOST")):
            with self.subTest(sinfo):
                self.slurm(sinfo, "")
                self.assertIn(message, self.detect("--slurm", *link, status=2))

    def test_saved_outputs(self):
        saved = self.folder / "saved"
        for name in ("b", "a"):
            saved.joinpath(name).mkdir(parents=True)
            for file, text in machines()["four-4090"][0].items():
                saved.joinpath(name, file).write_text(text)
        text = self.detect("--from", saved, "--between-hosts", "20us,10Gbps")
        self.assertLess(text.index('name: "a"'), text.index('name: "b"'))
        saved.joinpath("b/topo.txt").unlink()
        self.assertIn("b/topo.txt: is missing: run `nvidia-smi topo -m > topo.txt` on b", self.detect("--from", saved, "--between-hosts", "20us,10Gbps", status=2))
        self.assertIn("sinfo.txt: is missing: run `sinfo -h -o", self.detect("--from", saved, "--slurm", status=2))
        self.assertIn("has no folder for a host", self.detect("--from", saved / "a", status=2))
        saved.joinpath("old data").mkdir()
        self.assertIn(f"--from: folder `old data` is not a valid host name: rename it, or list the hosts (dtfm-topology detect --from {saved} HOST…)",
                      self.detect("--from", saved, "--between-hosts", "20us,10Gbps", status=2))

    def test_measure(self):
        self.more_path = ":/usr/bin:/bin"
        for name, text in {"ping": FAKE_PING, "iperf3": FAKE_IPERF3}.items():
            self.tool(name, text)
        self.host("a", machines()["four-4090"][0])
        self.host("b", machines()["t4-vm"][0])
        self.host("c", machines()["l40s"][0])
        text = self.detect("x/a", "me@b=10.0.0.2", "c", "--measure", "--measurements", "measured")
        self.assertRegex(text, r'\{from: "a", to: "b", latency: 0.1 ms, bandwidth: 25 Gbps\}  # 2')
        self.assertEqual(text.count("{from: "), 6)
        self.assertEqual(len(list(self.folder.glob("measured/raw/*.json"))), 6)
        self.check(text)
        self.tool("all_reduce_perf", FAKE_NCCL_TESTS)
        again = self.detect("x/a", "me@b=10.0.0.2", "c", "--measure", "--measurements", "measured")
        # The links of `a` differ, so a test of all its GPUs says nothing about each.
        self.assertIn('{between: ["a:0", "a:3"], latency: 5.7 us', again)
        self.assertIn("measured by all_reduce_perf of nccl-tests", again)
        self.assertIn('{between: ["c", "c"], latency: 66.6667 us, bandwidth: 75 GB/s, shared: sender}', again)
        self.assertIn("latency: 66.6667 us", self.detect("c", "--measure"))
        self.tool("iperf3", "#!/bin/bash\necho '{\"error\": \"no route\"}'\n")
        self.assertIn("not all links between the hosts could be measured", self.detect("a", "b", "--measure", status=2))
        self.assertEqual(list(self.folder.glob("dtfm-detect-*")), [])

    def test_conflicting_options(self):
        for arguments, message in ((("a", "--slurm"), "--slurm: cannot be combined with HOST"),
                                   (("--measure", "--from", "x"), "--measure: cannot be combined with --from"),
                                   (("--measure", "--between-hosts", "1us,1Gbps"), "--measure: cannot be combined with --between-hosts"),
                                   (("--sites-by-switch",), "--sites-by-switch: requires --slurm"),
                                   (("a", "a", "--between-hosts", "1us,1Gbps"), "host `a` is given twice"),
                                   (("a", "local", "--measure"), "name it as local=ADDRESS"),
                                   (("--timeout", "0"), "--timeout")):
            with self.subTest(arguments):
                self.assertIn(message, self.detect(*arguments, status=2))

    def test_interrupt(self):
        self.host("hangs", {"run": "#!/bin/bash\necho $$ >\"$FAKE/pid\"\nsleep 100\n"})
        process = self.start("hangs", "-o", "lab.yaml")
        pid = self.folder / "pid"
        while not (pid.exists() and pid.read_text().strip()):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, out), (130, ""), err)
        self.assertIn("interrupted before there was a topology", err)
        self.assertFalse(self.folder.joinpath("lab.yaml").exists())
        for _ in range(100):
            try:
                os.kill(int(pid.read_text()), 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)
        self.fail("the program on the host still runs")


if __name__ == "__main__":
    sys.argv[1:] = sys.argv[2:]
    unittest.main()
