"""Which regions train fastest for a number of dollars per hour?

Plans for every combination of sites of a topology whose GPUs cost at most the budget, and prints the fastest.
"""

import argparse
from itertools import combinations

import dtfm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topology", help="devices and links (YAML); all GPUs need a price")
    parser.add_argument("--budget", type=float, default=40, help="USD per hour [40]")
    parser.add_argument("--model", default="gpt3-xl", help="preset or config.json [gpt3-xl]")
    parser.add_argument("--batch", type=int, default=512, help="sequences [512]")
    parser.add_argument("--evaluations", type=int, default=2000, help="per search [2000]")
    arguments = parser.parse_args()

    topology = dtfm.Topology(arguments.topology)
    devices = topology.devices
    sites = sorted({it["site"] for it in devices})
    price = {site: sum(it["price_usd_per_h"] for it in devices if it["site"] == site) for site in sites}
    affordable = [
        chosen
        for size in range(1, len(sites) + 1)
        for chosen in combinations(sites, size)
        if sum(price[site] for site in chosen) <= arguments.budget
    ]
    # A combination that is part of another affordable one is not faster.
    largest = [it for it in affordable if not any(set(it) < set(other) for other in affordable)]
    rows = []
    for chosen in largest:
        part = topology.without(it["id"] for it in devices if it["site"] not in chosen)
        plan = dtfm.plan(part, model=arguments.model, batch=arguments.batch, evaluations=arguments.evaluations)
        if plan.is_feasible:
            rows.append((plan.iteration_time_s, sum(price[site] for site in chosen), chosen))
    for seconds, usd_per_h, chosen in sorted(rows)[:10]:
        print(f"{seconds:8.2f} s per iteration  {usd_per_h:6.2f} USD/h  {', '.join(chosen)}")
    if not rows:
        print(f"no combination of regions for {arguments.budget:g} USD/h fits the job")


if __name__ == "__main__":
    main()
