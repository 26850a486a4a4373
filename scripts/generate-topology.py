#!/usr/bin/env python3
"""Generates a random topology: devices in cities, with a latency and a bandwidth for every pair of devices.

Cities are at random positions between 35° S and 60° N. The one-way latency between two cities is 0.3 ms plus the time
of light in fibre (two thirds of the speed of light) along the great circle, times a route factor of 1.2 to 2. The
bandwidth of one flow between cities is window / round trip, at most 5 Gbps. A window of 2.6 MB is what one TCP flow
reached between Google Cloud's continents (0.21 Gbps at 103 ms, 0.07 at 272 ms; Isenko et al., arXiv 2306.03163).
Within a city, latency is 0.3 ms and bandwidth is drawn from --intra-bandwidth. The same arguments give the same bytes.
"""
import argparse
import json
import math
import os
import random
import sys
from pathlib import Path

EXAMPLES = """examples:
  generate-topology.py --devices 64 --sites 12 --seed 3 -o build/random
      build/random/topology.yaml, latency.csv and bandwidth.csv
  generate-topology.py --devices 32 --sites 5 --uneven --directed --noise 0.2 -o build/uneven.yaml
      build/uneven.yaml, build/uneven-latency.csv and build/uneven-bandwidth.csv: sites of different sizes, different
      directions, and every link differs from the value of its site pair by up to 20 %
"""

EARTH_RADIUS_KM = 6371
LIGHT_IN_FIBRE_KM_PER_MS = 299.792458 * 2 / 3
BASE_LATENCY_MS = 0.3
ROUTE_FACTOR = (1.2, 2.0)
DIRECTION_FACTOR = (0.5, 1.0)  # on the bandwidth, with --directed
MAX_INTER_BANDWIDTH_GBPS = 5
MAX_DEVICES = 4096


def between(rng, low, high):
    # random() is the only method whose sequence Python guarantees across versions.
    return low + (high - low) * rng.random()


def stream(seed, name):
    """Returns an independent random stream per purpose, so that for example --noise does not change the cities."""
    return random.Random(f"{seed}/{name}")


def random_cities(rng, count):
    """Returns (latitude, longitude) in radians, uniform over the area between 35° S and 60° N."""
    south, north = math.sin(math.radians(-35)), math.sin(math.radians(60))
    return [(math.asin(between(rng, south, north)), between(rng, -math.pi, math.pi)) for _ in range(count)]


def distance_km(a, b):
    cosine = math.sin(a[0]) * math.sin(b[0]) + math.cos(a[0]) * math.cos(b[0]) * math.cos(a[1] - b[1])
    return EARTH_RADIUS_KM * math.acos(max(-1.0, min(1.0, cosine)))


def site_sizes(rng, devices, sites, uneven):
    """Returns the number of devices of each site, at least one: as even as possible, or drawn by random weights."""
    if not uneven:
        return [devices // sites + (site < devices % sites) for site in range(sites)]
    weights = [between(rng, 0.1, 1) ** 2 for _ in range(sites)]
    sizes = [1] * sites
    for _ in range(devices - sites):
        throw = between(rng, 0, math.fsum(weights))
        site = 0
        while site < sites - 1 and throw >= weights[site]:
            throw -= weights[site]
            site += 1
        sizes[site] += 1
    return sizes


def square(count):
    return [[0.0] * count for _ in range(count)]


def site_links(options, cities):
    """Returns latency in ms and bandwidth in Gbps, sites × sites, row = sender; the diagonal is within a site."""
    rng = stream(options.seed, "links")
    latency, bandwidth = square(len(cities)), square(len(cities))
    for a in range(len(cities)):
        latency[a][a], bandwidth[a][a] = BASE_LATENCY_MS, between(rng, *options.intra_bandwidth)
        for b in range(a):
            fibre_ms = distance_km(cities[a], cities[b]) / LIGHT_IN_FIBRE_KM_PER_MS
            routes = [between(rng, *ROUTE_FACTOR) for _ in range(2)]
            shares = [between(rng, *DIRECTION_FACTOR) for _ in range(2)]
            if not options.directed:
                routes, shares = [routes[0]] * 2, [1, 1]
            latency[a][b], latency[b][a] = (BASE_LATENCY_MS + fibre_ms * route for route in routes)
            window_gbps = options.window * 8 / (latency[a][b] + latency[b][a])  # MB · 8 / ms = Gbit / s
            bandwidth[a][b], bandwidth[b][a] = (min(window_gbps, MAX_INTER_BANDWIDTH_GBPS) * share for share in shares)
    return latency, bandwidth


def device_links(options, sizes, of_sites, name):
    """Returns the value of every pair of devices: that of their sites, times a factor within 1 ± noise."""
    rng = stream(options.seed, f"noise of {name}")
    site_of = [site for site, size in enumerate(sizes) for _ in range(size)]
    values = square(len(site_of))
    for i in range(len(site_of)):
        for j in range(i):
            there, back = (between(rng, 1 - options.noise, 1 + options.noise) for _ in range(2))
            values[i][j] = of_sites[site_of[i]][site_of[j]] * there
            values[j][i] = of_sites[site_of[j]][site_of[i]] * (back if options.directed else there)
    return values


def csv_text(values, digits):
    return "".join(",".join(f"{value:.{digits}f}" for value in row) + "\n" for row in values)


def place_of(city):
    latitude, longitude = (math.degrees(angle) for angle in city)
    north, east = "NS"[latitude < 0], "EW"[longitude < 0]
    return f"{abs(latitude):.1f}° {north}, {abs(longitude):.1f}° {east}"


def topology_text(options, cities, sizes, latency_file, bandwidth_file):
    kinds = "".join(f" --{flag}" for flag in ("directed", "uneven") if getattr(options, flag))
    low, high = options.intra_bandwidth
    lines = [
        f"# generate-topology.py --devices {options.devices} --sites {options.sites} --seed {options.seed} "
        f"--noise {options.noise:g} --intra-bandwidth {low:g}..{high:g} --window {options.window:g}{kinds}",
        "version: 1",
        f"name: random-{options.devices}-in-{options.sites}-seed-{options.seed}",
        "devices:",
    ]
    for number, (city, size) in enumerate(zip(cities, sizes), 1):
        lines.append(f"  - {{site: city-{number:02}, count: {size}, gpu: V100-16GB}}  # {place_of(city)}")
    lines += [
        "measured:",
        f"  latency: {{file: {json.dumps(latency_file)}, unit: ms}}",
        f"  bandwidth: {{file: {json.dumps(bandwidth_file)}, unit: Gbps}}",
    ]
    return "\n".join(lines) + "\n"


def write_whole(path, text):
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(beside, path)
    finally:
        if beside.exists():
            beside.unlink()


def output_paths(output):
    if output.suffix in (".yaml", ".yml"):
        return output, output.with_name(output.stem + "-latency.csv"), output.with_name(output.stem + "-bandwidth.csv")
    return output / "topology.yaml", output / "latency.csv", output / "bandwidth.csv"


def generate(options):
    cities = random_cities(stream(options.seed, "cities"), options.sites)
    sizes = site_sizes(stream(options.seed, "sizes"), options.devices, options.sites, options.uneven)
    latency, bandwidth = site_links(options, cities)
    yaml_path, latency_path, bandwidth_path = output_paths(options.output)
    yaml_path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(latency_path, csv_text(device_links(options, sizes, latency, "latency"), 4))
    write_whole(bandwidth_path, csv_text(device_links(options, sizes, bandwidth, "bandwidth"), 5))
    write_whole(yaml_path, topology_text(options, cities, sizes, latency_path.name, bandwidth_path.name))
    print(yaml_path)


def number_range(text):
    low, separator, high = text.partition("..")
    values = float(low), float(high if separator else low)
    if not 0 < values[0] <= values[1] < math.inf:
        raise ValueError
    return values


def checked_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=64, help="number of devices [64]")
    parser.add_argument("--sites", type=int, default=8, help="number of cities [8]")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers [0]")
    parser.add_argument("--noise", type=float, default=0.0, help="maximum relative deviation of each link, 0 to 0.9 [0]")
    parser.add_argument("--directed", action="store_true", help="gives the two directions of a pair different links")
    parser.add_argument("--uneven", action="store_true", help="gives sites different numbers of devices")
    parser.add_argument("--intra-bandwidth", type=number_range, default=(2.0, 10.0), metavar="LOW..HIGH",
                        help="range of the bandwidth within a site, in Gbps [2..10]")
    parser.add_argument("--window", type=float, default=2.6, metavar="MB",
                        help="TCP window of a flow between sites, in 10⁶ bytes [2.6]")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PATH", help="output folder or .yaml file")
    options = parser.parse_args(arguments)
    if not 1 <= options.sites <= options.devices <= MAX_DEVICES:
        parser.error(f"expected 1 ≤ sites ≤ devices ≤ {MAX_DEVICES}; "
                     f"found {options.sites} sites and {options.devices} devices")
    if not 0 <= options.noise <= 0.9:
        parser.error(f"--noise: expected a number from 0 to 0.9; found {options.noise:g}")
    if not 0 < options.window < math.inf:
        parser.error(f"--window: expected a size above 0; found {options.window:g}")
    return options


def main():
    for channel in (sys.stdout, sys.stderr):
        channel.reconfigure(errors="replace")  # a terminal may lack ° or ≤
    options = checked_arguments(sys.argv[1:])
    try:
        generate(options)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
