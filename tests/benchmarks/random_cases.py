"""Random topologies of different GPUs, and a run of dtfm-plan on one."""
import json
import pathlib
import random
import subprocess
import tempfile

GPUS = ["T4", "V100-16GB", "RTX-3090", "L4", "A10", "A100-40GB"]


def random_topology(rng: random.Random, name: str, max_sites: int, max_kinds: int, gpus_per_host: list[int],
                    may_share_uplinks: bool) -> tuple[str, int]:
    """Returns a topology and its number of devices: up to `max_sites` sites with up to `max_kinds` kinds of hosts each."""
    sites = rng.randint(1, max_sites)
    lines = [f"version: 1\nname: {name}"]
    if may_share_uplinks and rng.random() < 0.5:
        lines.append("sites:")
        for site in range(sites):
            gbps = round(rng.uniform(0.5, 5), 2)
            lines.append(f"  - {{name: s{site}, uplink: {gbps} Gbps, downlink: {gbps} Gbps}}")
    lines.append("devices:")
    count = 0
    for site in range(sites):
        for _ in range(rng.randint(1, max_kinds)):
            hosts, gpus = rng.randint(1, 4), rng.choice(gpus_per_host)
            lines.append(f"  - {{site: s{site}, hosts: {hosts}, gpus_per_host: {gpus}, gpu: {rng.choice(GPUS)}}}")
            count += hosts * gpus
    lines.append("links:\n  - {within: host, latency: 5 us, bandwidth: 100 Gbps}")
    lines.append(f"  - {{within: '*', latency: 0.3 ms, bandwidth: {rng.choice([1, 5, 10])} Gbps}}")
    for a in range(sites):
        for b in range(a + 1, sites):
            lines.append(f"  - {{between: [s{a}, s{b}], latency: {rng.randint(10, 150)} ms, bandwidth: {rng.uniform(0.2, 2):.2f} Gbps}}")
    return "\n".join(lines) + "\n", count


def planned(planner: list[str], topology: str, job: str, options: list[str]) -> tuple[subprocess.CompletedProcess, dict]:
    """Returns the ended planner and, if it found one, its plan."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "topology.yaml").write_text(topology)
        (folder / "job.yaml").write_text(job)
        command = [*planner, "topology.yaml", "--job", "job.yaml", "--quiet", "-o", "plan.json", *options]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        return run, json.loads((folder / "plan.json").read_text()) if run.returncode == 0 else {}
