#!/usr/bin/env python3
"""Launches the files of dtfm-export: with real Open MPI and Slurm if installed, and with stand-ins for
torchrun, tc and trainers. Every worker compares what it is told with rank_table.json and contacts
its neighbours (neighbours.py).

usage: launch.py DTFM_EXPORT DTFM_PLAN
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKER = HERE / "neighbours.py"
EXPORT = None

STAGES = [[(0, 3), "gc:1"], [(3, 5), "ga:0"], [(5, 7), "gc:0"]], [[(0, 3), "gb:0"], [(3, 5), "gc:2"], [(5, 7), "ga:1"]]
IN_BLOCKS = [[(0, 3), "gc:1"], [(3, 5), "gc:0"], [(5, 7), "gc:2"]], [[(0, 3), "ga:1"], [(3, 5), "ga:0"], [(5, 7), "gb:0"]]
ONE_EACH = [[(0, 3), "x"], [(3, 7), "y"]], [[(0, 3), "z"], [(3, 7), "w"]]


def plan(pipelines, **more):
    model = {"kind": "transformer", "layers": 7, "hidden": 1024, "heads": 16, "sequence": 512, "vocabulary": 50257,
             "gated": True, "biases": False, "norm": "rms", "positions": "rotary", "tied": False}
    job = {"version": 1, "name": "worked", "model": model, "training": {"global_batch": 16, "micro_batch": 1},
           "parallelism": {"schedule": "gpipe"}}
    return {"schema": "dtfm-plan/1", "job": job, **more, "pipelines": [
        {"micro_batches": 8, "stages": [{"layers": list(layers), "devices": [device]} for layers, device in stages]}
        for stages in pipelines]}


def free_ports(count):
    """Returns the first of `count` consecutive ports that are free now."""
    for first in range(20000 + os.getpid() % 10000, 60000, count):
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
            return first
        except OSError:
            continue
    raise RuntimeError("no free ports")


class Launch(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="dtfm-launch-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "bin").mkdir()
        (self.folder / "reports").mkdir()
        self.environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def export(self, pipelines, *options):
        (self.folder / "plan.json").write_text(json.dumps(plan(pipelines)))
        subprocess.run([EXPORT, self.folder / "plan.json", "-o", self.folder / "out", "--quiet", *options], check=True)
        return self.folder / "out"

    def run_all(self, commands, timeout=90):
        """Runs all commands at once, as on separate machines; none may fail."""
        started = [subprocess.Popen(command, env={**self.environment, **more}, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True) for command, more in commands]
        for process in started:
            output, _ = process.communicate(timeout=timeout)
            self.assertEqual(process.returncode, 0, output)

    def worker(self):
        return [sys.executable, WORKER, self.folder / "out" / "rank_table.json", str(free_ports(8)), self.folder / "reports"]

    def assert_all_met(self, ranks):
        reports = {path.name for path in (self.folder / "reports").iterdir()}
        self.assertEqual(reports, {str(rank) for rank in range(ranks)})


# torchrun's static rendezvous: ranks are the running sum of the agents' processes in the order of the agents'
# ranks.
TORCHRUN = r"""#!/usr/bin/env python3
import argparse, os, pathlib, socket, subprocess, sys, time
parser = argparse.ArgumentParser(allow_abbrev=False)
for option in ("--nnodes", "--nproc_per_node", "--node_rank", "--master_port"): parser.add_argument(option, type=int)
for option in ("--master_addr", "--rdzv_conf"): parser.add_argument(option)
parser.add_argument("program", nargs=argparse.REMAINDER)
it = parser.parse_args()
if it.node_rank == 0: listener = socket.create_server((it.master_addr, it.master_port))
store = pathlib.Path(os.environ["STORE"])
(store / f"{it.node_rank}.part").write_text(str(it.nproc_per_node))
(store / f"{it.node_rank}.part").rename(store / str(it.node_rank))
while not all((store / str(node)).exists() for node in range(it.nnodes)): time.sleep(0.05)
sizes = [int((store / str(node)).read_text()) for node in range(it.nnodes)]
gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
assert len(gpus) == it.nproc_per_node, gpus
workers = [subprocess.Popen(it.program, env={**os.environ, "RANK": str(sum(sizes[:it.node_rank]) + local),
    "WORLD_SIZE": str(sum(sizes)), "LOCAL_RANK": "0", "MASTER_ADDR": it.master_addr, "MASTER_PORT": str(it.master_port),
    "CUDA_VISIBLE_DEVICES": gpus[local]}) for local in range(it.nproc_per_node)]
sys.exit(max(worker.wait() for worker in workers))
"""


ADDRESSES = {"ga": "127.0.0.11", "gb": "127.0.0.12", "gc": "127.0.0.13"}
START_ON_OTHERS = "{}: start it on the other machines, too (2, listed in README.md), within {} s (DTFM_START_TIMEOUT)\n"


class Torchrun(Launch):
    addresses = ADDRESSES  # of the machines; without them, their names

    def export(self, pipelines, *options):
        (self.folder / "hosts").write_text("".join(f"{host} {address}\n" for host, address in self.addresses.items()))
        return super().export(pipelines, *(["--hosts", self.folder / "hosts"] if self.addresses else []), *options)

    def start(self, pipelines, *options):
        self.program("torchrun", TORCHRUN)
        (self.folder / "store").mkdir()
        port = free_ports(9) + 8  # the workers use those before it
        out, worker = self.export(pipelines, "--to", "torchrun", "--port", str(port), *options), self.worker()
        self.run_all([([out / "torchrun.sh", address, *worker], {"TEST_HOST": host, "STORE": str(self.folder / "store")})
                      for host, address in ADDRESSES.items()])
        self.assert_all_met(6)

    def test_an_agent_for_each_gpu(self):
        self.start(STAGES)

    def test_pipeline_major(self):
        self.start(STAGES, "--order", "pipeline-major")

    def test_an_agent_for_each_machine(self):
        self.start(IN_BLOCKS, "--agents", "host", "--order", "pipeline-major")

    def test_a_machine_that_is_not_in_the_plan(self):
        out = self.export(STAGES, "--to", "torchrun")
        done = subprocess.run([out / "torchrun.sh", "gd", "true"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, "torchrun.sh: no machine of the plan has the address 'gd' (see rank_table.json)\n"))

    def test_one_failure_ends_the_others(self):
        self.program("torchrun", "#!/bin/sh\n[ $CUDA_VISIBLE_DEVICES = 1 ] && exit 7\nexec sleep 300\n")
        out = self.export(STAGES, "--to", "torchrun")
        done = subprocess.run([out / "torchrun.sh", ADDRESSES["gc"], "true"], env=self.environment, timeout=60)
        self.assertEqual(done.returncode, 7)

    def rejected(self, host, *options, program="torchrun.sh", **environment):
        """Starts a script on a machine that is not of rank 0 (gc). Returns what it prints."""
        self.program("torchrun", "#!/bin/sh\necho started\n")
        out = self.export(IN_BLOCKS, *options, "--force")
        done = subprocess.run([out / program, host, "true"], env={**self.environment, **environment}, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        return done.stderr

    EVERY_SCRIPT = ((["--to", "torchrun"], "torchrun.sh"), (["--to", "pytorch"], "start.sh"),
                    (["--to", "torchrun", "--agents", "host", "--order", "pipeline-major"], "torchrun.sh"))

    def test_a_master_that_does_not_resolve(self):
        self.addresses = {}
        for name in ("getent", "python3"):
            self.program(name, "#!/bin/sh\nexit 2\n")
        for options, script in self.EVERY_SCRIPT:
            self.assertEqual(self.rejected("ga", *options, program=script),
                             f"{script}: the address of rank 0, 'gc', does not resolve: pass --hosts to dtfm-export, or "
                             "add it to /etc/hosts\n")

    def test_a_master_that_is_not_started(self):
        port = str(free_ports(1))
        for options, script in self.EVERY_SCRIPT:
            self.assertEqual(self.rejected(ADDRESSES["ga"], *options, "--port", port, program=script, DTFM_START_TIMEOUT="1"),
                             START_ON_OTHERS.format(script, 1) +
                             f"{script}: rank 0 does not listen on '127.0.0.13' port {port} after 1 s: start {script} there, too\n")

    def test_a_master_that_does_not_answer(self):
        self.program("timeout", '#!/bin/sh\ncase "$*" in */dev/tcp/*) exit 124;; esac\nshift\nexec "$@"\n')
        for options, script in self.EVERY_SCRIPT:
            self.assertEqual(self.rejected(ADDRESSES["ga"], *options, program=script),
                             START_ON_OTHERS.format(script, 300) +
                             f"{script}: cannot connect to rank 0, '127.0.0.13' port 29500: that machine is off, its address is wrong "
                             "(pass --hosts to dtfm-export), or a firewall blocks the port (--port)\n")

    def test_a_master_that_listens(self):
        self.program("torchrun", "#!/bin/sh\necho started\n")
        with socket.create_server((ADDRESSES["gc"], 0)) as listener:
            out = self.export(STAGES, "--to", "torchrun", "--port", str(listener.getsockname()[1]))
            done = subprocess.run([out / "torchrun.sh", ADDRESSES["gb"], "true"], env=self.environment, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "started\n", START_ON_OTHERS.format("torchrun.sh", 300)))

    def test_one_machine_needs_no_address(self):
        self.addresses = {}
        self.program("torchrun", '#!/bin/sh\necho "$*"\n')
        out = self.export([[[(0, 7), "lab:0"]], [[(0, 7), "lab:1"]]], "--to", "torchrun")
        done = subprocess.run([out / "torchrun.sh", "lab", "true"], env=self.environment, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--master_addr 127.0.0.1 ", done.stdout)

    def test_no_torchrun(self):
        out = self.export(STAGES, "--to", "pytorch")
        (self.folder / "few").mkdir()
        for name in ("bash", "dirname", "env"):
            (self.folder / "few" / name).symlink_to(shutil.which(name))
        done = subprocess.run([out / "start.sh", ADDRESSES["gc"]], env={"PATH": str(self.folder / "few")}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "start.sh: torchrun is not on the PATH: activate the environment with PyTorch\n"))

    def test_start_sh_starts_the_program_of_the_trainer(self):
        self.program("torchrun", '#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES ${NCCL_ALGO-none} ${OMP_NUM_THREADS-none} $*"\n')
        for key in ("NCCL_ALGO", "OMP_NUM_THREADS"):
            self.environment.pop(key, None)
        for target, algorithm in (("pytorch", "none"), ("deepspeed", "Ring"), ("pytorch-pipelining", "Ring")):
            out = self.export(STAGES, "--to", target, "--port", "9000", "--force")
            done = subprocess.run([out / "start.sh", ADDRESSES["gc"], "--steps", "3"], env=self.environment, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, START_ON_OTHERS.format("start.sh", 300)))
            common = "--nnodes 6 --nproc_per_node 1"
            self.assertEqual(sorted(done.stdout.splitlines()), [
                f"{gpu} {algorithm} 1 {common} --node_rank {rank} --master_addr {ADDRESSES['gc']} --master_port 9000 "
                f"--rdzv_conf timeout=300 {out}/train.py --steps 3" for gpu, rank in enumerate((4, 0, 3))])
            done = subprocess.run([out / "start.sh"], env=self.environment, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (2, "usage: start.sh MACHINE [OPTION...] # of train.py\n"))


class OpenMpi(Launch):
    def test_ranks_follow_the_rankfile(self):
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun (openmpi-bin)")
        if os.getuid() != 0 or subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode != 0:
            self.skipTest("cannot give processes other host names (unshare --uts as root)")
        # Every "machine" is this one under another name.
        rsh = self.program("rsh", '#!/usr/bin/env bash\nhost=$1\nshift\n'
                                  'exec unshare --uts bash -c \'hostname "$0"; exec sh -c "$*"\' "$host" "$@"\n')
        out = self.export(STAGES, "--to", "openmpi", "--cores", str(min(2, os.cpu_count())))
        options = f"--mca plm_rsh_agent {rsh} --mca plm_rsh_no_tree_spawn 1 --oversubscribe --mca oob_tcp_if_include lo"
        self.run_all([([out / "openmpi.sh", *self.worker()], {
            "MPIRUN_ARGS": options, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})])
        self.assert_all_met(6)


class Slurm(Launch):
    """A Slurm cluster of three daemons on this machine."""

    def start_cluster(self):
        for program in ("munged", "slurmctld", "slurmd", "srun"):
            if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
                self.skipTest(f"no {program} (munge, slurmctld, slurmd, slurm-client)")
        if os.getuid() != 0:
            self.skipTest("Slurm's daemons want to be root")
        folder, host, port = self.folder, socket.gethostname().split(".")[0], free_ports(4)
        self.environment["PATH"] += ":/usr/sbin:/sbin"
        self.environment["SLURM_CONF"] = str(folder / "slurm.conf")
        nodes = "".join(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port + 1 + i} CPUs={cpus}\n"
                        for i, (name, cpus) in enumerate([("ga", 2), ("gb", 1), ("gc", 3)]))
        (folder / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
{nodes}PartitionName=all Nodes=ALL Default=YES State=UP
""")
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o600)
        daemons = [["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key",
                    f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"],
                   ["slurmctld", "-D", "-c"], *(["slurmd", "-D", "-N", name] for name in ("ga", "gb", "gc"))]
        for daemon in daemons:
            log = open(folder / f"{daemon[0]}.out", "a")
            process = subprocess.Popen(daemon, env=self.environment, stdout=log, stderr=log)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            self.addCleanup(log.close)
            for _ in range(100):
                if (folder / "munge.socket").exists():
                    break
                time.sleep(0.1)
        for _ in range(100):
            state = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], env=self.environment, capture_output=True, text=True)
            if state.stdout.strip() == "3":
                return
            time.sleep(0.2)
        self.skipTest(f"Slurm's daemons do not come up here: {state.stdout}{state.stderr}")

    def test_tasks_follow_the_hosts_file(self):
        self.start_cluster()
        out = self.export(STAGES, "--to", "slurm")
        worker = self.program("worker", '#!/bin/sh\nTEST_HOST=$SLURMD_NODENAME exec "$@"\n')
        self.run_all([([out / "slurm.sh", worker, *self.worker()], {"SRUN_ARGS": "--overcommit"})])
        self.assert_all_met(6)

    def test_an_allocation_with_too_few_gpus(self):
        out = self.export(STAGES, "--to", "slurm")
        done = subprocess.run([out / "rank-env.sh", "true"], capture_output=True, text=True, env={
            **self.environment, "SLURM_PROCID": "0", "SLURMD_NODENAME": "gc", "SLURM_GPUS_ON_NODE": "2"})
        self.assertEqual((done.returncode, done.stderr),
                         (2, "slurm: host 'gc' needs 3 tasks but the allocation has 2 GPUs\n"))


class Kubernetes(Launch):
    def test_the_environment_of_each_pod(self):
        out = self.export(ONE_EACH, "--to", "kubernetes")
        worker, pods = self.worker(), []
        for item in json.loads((out / "kubernetes.json").read_text())["items"]:
            if item["kind"] == "Pod":
                environment = {it["name"]: it["value"] for it in item["spec"]["containers"][0]["env"]}
                # the pod's name; the node's is in the table
                self.assertEqual(environment["MASTER_ADDR"], "rank-0.dtfm")
                pods.append((worker, {**environment, "MASTER_ADDR": "x", "CUDA_VISIBLE_DEVICES": "0",
                                      "TEST_HOST": item["spec"]["nodeSelector"]["kubernetes.io/hostname"]}))
        self.run_all(pods)
        self.assert_all_met(4)


class Missing(Launch):
    """Scripts without the program that they start."""

    def test_the_message_says_what_to_install(self):
        (self.folder / "few").mkdir()
        for name in ("bash", "dirname", "env"):
            (self.folder / "few" / name).symlink_to(shutil.which(name))
        for target, message in (("slurm", "srun is not on the PATH: run this where Slurm is installed, or export --to torchrun"),
                                ("openmpi", "mpirun is not on the PATH: install Open MPI (openmpi-bin), or export --to torchrun"),
                                ("dtfm", "python is not on the PATH: activate the environment of DT-FM")):
            out = self.export(STAGES, "--to", target, "--force")
            done = subprocess.run([out / f"{target}.sh", "gc"], env={"PATH": str(self.folder / "few")}, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (2, f"{target}.sh: {message}\n"))

    def test_dtfm_outside_of_its_folder(self):
        self.program("python", "#!/bin/sh\n")
        out = self.export(STAGES, "--to", "dtfm")
        done = subprocess.run([out / "dtfm.sh", "gc"], env=self.environment, cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (
            2, "dtfm.sh: there is no dist_runner.py here: start this in the folder of DT-FM (DS3Lab/DT-FM on GitHub)\n"))


RECORD = '#!/bin/sh\n{ echo "$CUDA_VISIBLE_DEVICES $*"; } >>"$RECORD"\n'


class Trainers(Launch):
    def recorded(self, script, host, *arguments):
        record = self.folder / "record"
        self.program("python", RECORD.replace("\n", "\n[ \"$1\" = -c ] && exit\n", 1))
        self.environment["RECORD"] = str(record)
        self.environment.pop("CUDA_VISIBLE_DEVICES", None)
        (self.folder / "dist_runner.py").touch()
        subprocess.run([self.folder / "out" / script, host, *arguments], env=self.environment, cwd=self.folder, check=True, timeout=60)
        return sorted(record.read_text().splitlines())

    def test_the_processes_of_dtfm_runner(self):
        self.export(STAGES, "--to", "dtfm", "--port", "9000")
        lines = self.recorded("dtfm.sh", "gc", "--embedding-dim", "1024")
        common = ("--batch-size 8 --micro-batch-size 1 --gradient-accumulate-step 1 --pp-mode gpipe --dp-mode sharded_ps "
                  "--fp16 --embedding-dim 1024")
        begin = " dist_runner.py --dist-url tcp://gc:9000 --world-size 6 --pipeline-group-size 3 --data-group-size 2"
        self.assertEqual(lines, sorted(f"{begin} --rank {rank} --cuda-id {gpu} --num-layers {layers} {common}"
                                       for rank, gpu, layers in ((0, 1, 3), (2, 0, 2), (4, 2, 2))))

    def test_the_servers_of_petals(self):
        self.export(STAGES, "--to", "petals")
        self.assertEqual(self.recorded("petals.sh", "ga", "big/model", "--initial_peers", "/ip4/10.0.0.1/tcp/31337/p2p/Qm"), [
            "0 -m petals.cli.run_server big/model --block_indices 3:5 --identity_path pipeline-0-stage-1.id "
            "--initial_peers /ip4/10.0.0.1/tcp/31337/p2p/Qm",
            "1 -m petals.cli.run_server big/model --block_indices 5:7 --identity_path pipeline-1-stage-2.id "
            "--initial_peers /ip4/10.0.0.1/tcp/31337/p2p/Qm"])

    def test_petals_does_not_join_the_public_swarm(self):
        out = self.export(STAGES, "--to", "petals")
        self.program("python", "#!/bin/sh\nexit 1\n")
        for arguments, message in (([], "without --initial_peers, servers join the public swarm of Petals: start run_dht as README.md says, "
                                        "and pass the address that it prints"),
                                   (["--initial_peers", "x"], "python does not find the package petals: activate the environment with Petals")):
            done = subprocess.run([out / "petals.sh", "gc", "big/model", *arguments], env=self.environment, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (2, f"petals.sh: {message}\n"))
        self.assertIn("petals.cli.run_dht", (out / "README.md").read_text())

    def test_one_failed_petals_server_ends_the_others(self):
        self.export(STAGES, "--to", "petals")
        self.program("python", "#!/bin/sh\n[ $1 = -c ] && exit\n[ $CUDA_VISIBLE_DEVICES = 1 ] && exit 9\nexec sleep 300\n")
        done = subprocess.run([self.folder / "out" / "petals.sh", "gc", "big/model", "--initial_peers", "x"], env=self.environment, timeout=60)
        self.assertEqual(done.returncode, 9)

    def test_trainer_arguments_are_shell_words(self):
        out = self.export(STAGES, "--to", "megatron", "--force")
        words = subprocess.run(["bash", "-euc", 'source "$0"; printf "%s\\n" "${MEGATRON_ARGS[@]}"', out / "megatron.sh"],
                               capture_output=True, text=True, check=True).stdout
        self.assertIn("--pipeline-model-parallel-layout\nEttt|tt|ttL\n", words)

    def test_python_compiles(self):
        for target in ("torchtitan", "deepspeed", "pytorch-pipelining"):
            out = self.export(STAGES, "--to", target, "--force")
            for path in out.glob("*.py"):
                compile(path.read_text(), str(path), "exec")


class Netem(Launch):
    TOPOLOGY = """version: 1
name: three
devices: [{name: x, site: a, gpu: A100-40GB, uplink: 1 Gbps}, {name: y, site: b, gpu: A100-40GB}, {name: z, site: b, gpu: A100-40GB}, {name: w, site: c, gpu: A100-40GB}]
links:
  - {within: "*", latency: 1 ms, bandwidth: 10 Gbps}
  - {from: a, to: b, latency: 40 ms, bandwidth: 1.5 Gbps, shared: sender}
  - {between: ["*", "*"], latency: 100 ms, bandwidth: 200 Mbps}
"""

    def setUp(self):
        super().setUp()
        (self.folder / "three.yaml").write_text(self.TOPOLOGY)
        self.out = self.export(ONE_EACH, "--to", "netem", "--topology", self.folder / "three.yaml")
        self.record = self.folder / "record"
        self.environment["RECORD"] = str(self.record)
        self.program("getent", "#!/bin/sh\n[ $2 = w ] && [ -n \"$LOST\" ] && exit 2\necho \"10.0.0.$(printf %d \"'$2\") STREAM $2\"\n")
        self.program("ip", "#!/bin/sh\necho '10.0.0.9 via 10.0.0.1 dev eth7 src 10.0.0.2'\n")
        self.program("tc", '#!/bin/sh\necho "$*" >>"$RECORD"\n[ -z "$FAIL" ] || case "$*" in *netem*) exit 2;; esac\n')

    def run_script(self, *arguments, **environment):
        self.record.unlink(missing_ok=True)
        done = subprocess.run([self.out / "netem-x.sh", *arguments], env={**self.environment, **environment},
                              capture_output=True, text=True, timeout=60)
        return done, self.record.read_text().splitlines() if self.record.exists() else []

    def test_the_commands_of_a_machine(self):
        done, lines = self.run_script("up")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # y and z share the sender's 1.5 Gbps; w has a class of its own. The queue limit is 1.5 x rate x delay
        # / 12,000 bits, or at least 1000: 1.5 x 1.5e9 x 0.04 / 12000 = 7500; 1.5 x 2e8 x 0.1 / 12000 = 2500.
        # A class is guaranteed 1 Gbps ÷ 2 classes at most, so that both together stay within the uplink.
        self.assertEqual(lines, [
            "qdisc del dev eth7 root",
            "qdisc add dev eth7 root handle 1: htb",
            "class add dev eth7 parent 1: classid 1:1 htb rate 1000000kbit quantum 60000",
            "class add dev eth7 parent 1:1 classid 1:2 htb rate 200000kbit ceil 200000kbit quantum 60000",
            "qdisc add dev eth7 parent 1:2 handle 2: netem delay 100000us limit 2500",
            "filter add dev eth7 parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.119/32 flowid 1:2",
            "class add dev eth7 parent 1:1 classid 1:3 htb rate 500000kbit ceil 1500000kbit quantum 60000",
            "qdisc add dev eth7 parent 1:3 handle 3: netem delay 40000us limit 7500",
            "filter add dev eth7 parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.121/32 flowid 1:3",
            "filter add dev eth7 parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.122/32 flowid 1:3"])

    def shaped(self, x, y, *options):
        """Runs dtfm-export on a topology with other entries for machines x and y."""
        lines = self.TOPOLOGY.splitlines(keepends=True)
        (self.folder / "other.yaml").write_text("".join(lines[:4] + [f"  - {x}\n", f"  - {y}\n"] + lines[4:]))
        return subprocess.run([EXPORT, self.folder / "plan.json", "-o", self.folder / "out", "--force", "--to", "netem", "--topology",
                               self.folder / "other.yaml", *options], capture_output=True, text=True)

    def test_clamped_rates_are_noted(self):
        one = json.loads(self.shaped("{between: [a, c], latency: 1 ms, bandwidth: 1 kbps}",
                                     "{from: b, to: a, latency: 1 ms, bandwidth: 100 Gbps}", "--format", "json").stdout)
        self.assertFalse([note for note in one["notes"] if "clamped" in note])
        done = self.shaped("{between: [a, c], latency: 1 ms, bandwidth: 0.2 kbps}",
                           "{from: b, to: a, latency: 1 ms, bandwidth: 400 Gbps}", "--format", "json")
        # From w and x, which are in c and a, to each other; from y and z, in b, to x.
        notes = ["netem: rates below 1 kbps are clamped to that: 2 of them, the first from w to x, 200 bps",
                 "netem: rates above 100 Gbps are clamped to that: 2 of them, the first from y to x, 400 Gbps"]
        self.assertEqual([note for note in json.loads(done.stdout)["notes"] if "clamped" in note], notes)
        readme = (self.out / "README.md").read_text()
        for note in notes:
            self.assertIn(note, readme)
        for machine, line in (("x", '"1 1000 1000 w"'), ("y", '"100000000 1000 12500 x"')):
            script = (self.out / f"netem-{machine}.sh").read_text()
            self.assertIn(line, script)
            self.assertIn("A rate below 1 kbit/s", script)
        self.assertIn("uplink=1000000 ", (self.out / "netem-x.sh").read_text())
        self.assertIn("uplink=100000000 ", (self.out / "netem-y.sh").read_text())

    def test_an_uplink_is_never_0(self):
        (self.folder / "three.yaml").write_text(self.TOPOLOGY.replace("uplink: 1 Gbps", "uplink: 0.1 kbps"))
        self.export(ONE_EACH, "--to", "netem", "--topology", self.folder / "three.yaml", "--force")
        self.assertIn("uplink=1 ", (self.out / "netem-x.sh").read_text())
        self.assertIn("the first the uplink of x, 100 bps", (self.out / "README.md").read_text())

    def test_tc_accepts_the_longest_delay(self):
        for delay, code in ((274, 0), (275, 3)):
            done = self.shaped(f"{{between: [a, c], latency: {delay} s, bandwidth: 1 Gbps}}", "{within: b, latency: 1 ms, bandwidth: 1 Gbps}")
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("netem: latency from w to x exceeds 274 s, the limit of tc", done.stderr)
        tc = shutil.which("tc")
        if os.getuid() != 0 or not tc or subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0:
            self.skipTest("no network namespaces here (root, unshare, tc)")
        # Independent of whether the kernel has netem: tc parses the delay first.
        done = subprocess.run(["unshare", "--net", tc, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "274000000us"],
                              capture_output=True, text=True)
        self.assertNotIn("Illegal", done.stderr)

    def test_undo(self):
        done, lines = self.run_script("down", "eth3")
        self.assertEqual((done.returncode, lines), (0, ["qdisc del dev eth3 root"]))

    def test_a_failed_tc_command_is_undone(self):
        done, lines = self.run_script("up", FAIL="1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("all changes are undone", done.stderr)
        self.assertEqual(lines[-1], "qdisc del dev eth7 root")

    def test_a_machine_without_an_address_undoes(self):
        done, lines = self.run_script("up", "eth7", LOST="1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot resolve the address of machine 'w'", done.stderr)
        self.assertEqual(lines[-1], "qdisc del dev eth7 root")

    def test_real_rates_in_a_namespace(self):
        tc = shutil.which("tc")
        if os.getuid() != 0 or not tc or subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0:
            self.skipTest("no network namespaces here (root, unshare, tc)")
        has_netem = subprocess.run(["unshare", "--net", tc, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
                                   capture_output=True).returncode == 0
        if not has_netem:  # without netem in this kernel, only rates and filters
            self.program("tc", f'#!/bin/sh\ncase "$*" in *netem*) exit 0 ;; esac\nexec {tc} "$@"\n')
        else:
            (self.folder / "bin" / "tc").unlink()
        done = subprocess.run(["unshare", "--net", "sh", "-c", f'ip() {{ :; }}; "$0" up lo && {tc} class show dev lo && {tc} filter show dev lo',
                               self.out / "netem-x.sh"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("class htb 1:1 root rate 1Gbit", "rate 500Mbit ceil 1500Mbit", "rate 200Mbit ceil 200Mbit", "match 0a000079/ffffffff"):
            self.assertIn(part, done.stdout)


if __name__ == "__main__":
    EXPORT = str(Path(sys.argv[1]).resolve())
    del sys.argv[1:3]
    unittest.main(verbosity=2)
