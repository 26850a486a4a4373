#!/usr/bin/env python3
"""Writes the files of topologies/ that are made from published measurements.

    make_topologies.py --data FOLDER [--output FOLDER]     writes the files
    make_topologies.py --data FOLDER --check FOLDER        compares with the files in FOLDER; exits with 77 if the data is missing
"""

import argparse
import csv
import itertools
import pathlib
import sys

WORLDWIDE = ["Oregon", "Virginia", "Ohio", "Tokyo", "Seoul", "London", "Frankfurt", "Ireland"]
TEN_REGIONS = ["Oregon", "Virginia", "Ohio", "Tokyo", "Seoul", "Singapore", "Sydney", "London", "Frankfurt", "Ireland"]

MULTICLOUD = {
    "aws": ["us-east-1", "us-east-2", "us-west-2", "sa-east-1", "eu-west-1", "ap-northeast-1", "eu-north-1"],
    "azure": ["eastus", "westus", "westus3", "canadacentral", "uksouth", "francecentral", "japaneast"],
    "gcp": ["us-central1-a", "us-west4-a", "northamerica-northeast1-a", "southamerica-east1-a", "europe-west4-a",
            "asia-east1-a"],
}
MULTICLOUD_GPUS = {"aws": "A10", "azure": "A100-80GB", "gcp": "L4"}
WINDOW_MBIT = 21  # see the comment in multicloud-20.yaml


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


EMULATED = [
    "# As in the authors' emulation (classes of `tc netem` on each sender), all flows of a device over one link entry share its",
    "# bandwidth: `shared: sender`.",
]


def aws_regions(data, name, regions, what):
    rows = {frozenset((row["a"], row["b"])): row for row in rows_of(data / "aws-regions.csv")}
    lines = [
        f"# {what}, {8 * len(regions)} V100.",
        "# Source: DT-FM (Yuan et al., NeurIPS 2022, arXiv 2206.01288) and its public code (MIT).",
        "# Measured in 2022 between AWS regions: ping time, which the authors used as the one-way delay, and the rate of NCCL over a",
        "# VPN (4 sockets) in one direction of each pair, which is used for both directions here.",
        "# Assumed by the authors: 5 ms and 2 Gbps inside a region.",
        "# " + ("As in the paper" if name == "worldwide" else "Chosen here") + ": eight hosts with one GPU each in every region.",
        *(EMULATED if name == "worldwide" else []),
        "# Written by scripts/make_topologies.py.",
        "version: 1", f"name: {name}",
        *(["calibration: v100  # the authors' trainer and V100s; remove it for others"] if name == "worldwide" else []),
        "devices:"]
    shared = ", shared: sender" if name == "worldwide" else ""
    lines += [f"  - {{site: {region.lower()}, count: 8, gpu: V100-16GB}}" for region in regions]
    lines += ["links:", f'  - {{within: "*", latency: 5 ms, bandwidth: 2 Gbps{shared}}}']
    for a, b in itertools.combinations(regions, 2):
        row = rows[frozenset((a, b))]
        lines.append(f"  - {{between: [{a.lower()}, {b.lower()}], latency: {row['delay_ms_as_used']} ms, "
                     f"bandwidth: {row['bandwidth_gbps_as_used']} Gbps{shared}}}")
    return lines


def one_flow(row, names):
    a, b = names[row["src"]], names[row["dst"]]
    ends = f"within: {a}" if a == b else f"from: {a}, to: {b}"
    return f"  - {{{ends}, rtt: {row['rtt_ms']} ms, bandwidth: {row['gbps_1tcp_flow']} Gbps}}"


ISENKO = [
    "# Source: Isenko et al., How Can We Train Deep Learning Models Across Clouds and Continents? (arXiv 2306.03163; data: MIT).",
    "# Measured: round-trip time and the rate of a single TCP flow (its window / RTT), in each direction.",
]


def eight_t4_a_site(name, head, names, rows):
    return [*head, "# Written by scripts/make_topologies.py.", "version: 1", f"name: {name}", "devices:",
            *(f"  - {{site: {site}, count: 8, gpu: T4}}" for site in names.values()),
            "links:", *(one_flow(row, names) for row in rows)]


def four_continents(data):
    names = {"US": "us", "EU": "eu", "ASIA": "asia", "AUS": "australia"}
    head = ["# Four continents in one cloud (Google), 32 T4.", *ISENKO,
            "# Not known, so not limited here: the total rate of many flows of a pair.",
            "# Chosen here: eight hosts with one GPU each on every continent."]
    return eight_t4_a_site("four-continents", head, names, rows_of(data / "multicloud/gc4_links.csv"))


def three_clouds(data):
    names = {"GC": "google", "AWS": "aws", "Azure": "azure"}
    rows = rows_of(data / "multicloud/multicloud_links.csv")
    assumed = {(row["dst"], row["src"]): row for row in rows if {row["src"], row["dst"]} == {"GC", "Azure"}}
    head = ["# Three clouds, 24 T4.", *ISENKO,
            "# Assumed: AWS and Azure, which were not measured, have the links of Google and Azure.",
            "# Not known, so not limited here: the total rate of many flows of a pair.",
            "# Chosen here: eight hosts with one GPU each in every cloud."]
    lines = eight_t4_a_site("three-clouds", head, names, rows)
    lines += ["  # assumed:"]
    for src, dst in (("GC", "Azure"), ("Azure", "GC")):
        row = dict(assumed[(dst, src)])
        row["src"], row["dst"] = row["src"].replace("GC", "AWS"), row["dst"].replace("GC", "AWS")
        lines.append(one_flow(row, names))
    return lines


def onprem_cloud(data):
    names = {"RTX8000_EU": "onprem-rtx", "DGX2_EU": "onprem-dgx", "T4_EU": "cloud-eu", "T4_US": "cloud-us",
             "A10_US": "lambda-us"}
    hybrid = rows_of(data / "multicloud/hybrid_links.csv")
    continents = {(row["src"], row["dst"]): row for row in rows_of(data / "multicloud/gc4_links.csv")}
    clouds = {(row["src"], row["dst"]): row for row in rows_of(data / "multicloud/multicloud_links.csv")}
    lines = ["# Two machines on premises in Europe, and rented GPUs in Europe and the United States, 33 GPUs.",
             "# Numbers of stages that divide 33 devices are 1, 3, 11 and 33, as in `dtfm-plan onprem-cloud.yaml --pipeline 3`.", *ISENKO,
             "# Measured from each machine on premises to each cloud; the opposite direction has the same values here.",
             "# Assumed: the links below `assumed`, which were not measured. They have the most similar values of the same authors; the",
             "# inside of the DGX-2 is from its data sheet (six NVLink lanes of 25 GB/s per GPU).",
             "# Chosen here: one GPU in the first machine, eight in the DGX-2, and eight hosts with one GPU each in every cloud.",
             "# Written by scripts/make_topologies.py.",
             "version: 1", "name: onprem-cloud", "devices:",
             "  - {site: onprem-rtx, count: 1, gpu: RTX-8000}",
             "  - {site: onprem-dgx, hosts: 1, gpus_per_host: 8, gpu: V100-32GB}",
             "  - {site: cloud-eu, count: 8, gpu: T4}",
             "  - {site: cloud-us, count: 8, gpu: T4}",
             "  - {site: lambda-us, count: 8, gpu: A10}",
             "links:"]
    for row in hybrid:
        lines.append(between(names[row["src"]], names[row["dst"]], row))
    rtx_to_europe = next(row for row in hybrid if (row["src"], row["dst"]) == ("RTX8000_EU", "T4_EU"))
    lines += ["  # assumed:", "  - {within: host, latency: 5 us, bandwidth: 150 GB/s}",
              between("onprem-rtx", "onprem-dgx", rtx_to_europe) + "  # as onprem-rtx and cloud-eu",
              within("cloud-eu", continents["EU", "EU"]) + "  # as inside Google's region in Europe",
              within("cloud-us", continents["US", "US"]) + "  # as inside Google's region in the United States",
              within("lambda-us", continents["US", "US"]) + "  # the same",
              between("cloud-eu", "cloud-us", continents["EU", "US"]) + "  # as between Google's regions",
              between("cloud-eu", "lambda-us", continents["EU", "US"]) + "  # the same",
              between("cloud-us", "lambda-us", clouds["GC", "AWS"]) + "  # as between Google and AWS"]
    return lines


def between(a, b, row):
    return f"  - {{between: [{a}, {b}], rtt: {row['rtt_ms']} ms, bandwidth: {row['gbps_1tcp_flow']} Gbps}}"


def within(site, row):
    return f"  - {{within: {site}, rtt: {row['rtt_ms']} ms, bandwidth: {row['gbps_1tcp_flow']} Gbps}}"


def multicloud_20(data):
    regions = [f"{cloud}:{region}" for cloud, list_ in MULTICLOUD.items() for region in list_]
    rows = {(row["src"], row["dst"]): row for row in rows_of(data / "skyplane/links.csv")}
    lines = ["# Twenty regions of three clouds, 80 GPUs.",
             "# Source: Skyplane's profile of AWS, Azure and Google (Apache-2.0), measured in 2022. Only pairs with a reliable round-trip",
             "# time (rtt_quality=ok) were chosen.",
             "# Measured in each direction: the round-trip time, and `capacity`, the total rate of 64 TCP flows from one virtual machine to",
             "# another. It is mostly the cloud's limit on what a machine may send.",
             f"# Assumed: `bandwidth` of one flow is the smaller of `capacity` and {WINDOW_MBIT} Mbit / RTT, a window of 2.6 MB. Single flows between the",
             "# continents of four-continents.yaml had 19 to 22 Mbit in flight over 103 to 272 ms.",
             "# Assumed: 100 Gbps between the GPUs of a host (PCIe).",
             "# Chosen here: one host with four GPUs in every region, of a kind that the cloud offers.",
             "# Written by scripts/make_topologies.py.",
             "version: 1", "name: multicloud-20", "devices:"]
    for region in regions:
        gpu = MULTICLOUD_GPUS[region.split(":")[0]]
        lines.append(f"  - {{site: {region.replace(':', '-')}, hosts: 1, gpus_per_host: 4, gpu: {gpu}}}")
    lines += ["links:", "  - {within: host, latency: 10 us, bandwidth: 100 Gbps}"]
    for src, dst in itertools.permutations(regions, 2):
        row = rows[src, dst]
        assert row["rtt_quality"] == "ok", (src, dst)
        capacity, flow = row["gbps_received_64conn"], WINDOW_MBIT / float(row["rtt_ms_clean"])
        bandwidth = capacity if flow >= float(capacity) else f"{flow:.4g}"
        lines.append(f"  - {{from: {src.replace(':', '-')}, to: {dst.replace(':', '-')}, rtt: {row['rtt_ms_clean']} ms, "
                     f"bandwidth: {bandwidth} Gbps, capacity: {capacity} Gbps}}")
    return lines


def topologies(data):
    return {
        "worldwide": aws_regions(data, "worldwide", WORLDWIDE, "Case 5 of DT-FM: eight cities of the world"),
        "aws-ten-regions": aws_regions(data, "aws-ten-regions", TEN_REGIONS, "Ten AWS regions"),
        "four-continents": four_continents(data),
        "three-clouds": three_clouds(data),
        "onprem-cloud": onprem_cloud(data),
        "multicloud-20": multicloud_20(data),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("topologies"))
    parser.add_argument("--check", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.check and not arguments.data.is_dir():
        print(f"skipped: no measurements in {arguments.data}")
        return 77
    stale = []
    for name, lines in topologies(arguments.data).items():
        text = "\n".join(lines) + "\n"
        path = (arguments.check or arguments.output) / f"{name}.yaml"
        if not arguments.check:
            path.write_text(text)
        elif path.read_text() != text:
            stale.append(path.name)
    if stale:
        print("these files differ from the measurements:", *stale)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
