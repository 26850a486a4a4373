"""How much bandwidth between the sites is worth paying for?

Plans with multiples of the bandwidth between sites. With --plot, draws the iteration time (needs matplotlib).
"""

import argparse

import dtfm
import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topology", help="devices and links (YAML)")
    parser.add_argument("--model", default="gpt3-xl", help="preset or config.json [gpt3-xl]")
    parser.add_argument("--evaluations", type=int, default=2000, help="per search [2000]")
    parser.add_argument("--plot", metavar="FILE", help="writes a chart, such as sweep.png")
    arguments = parser.parse_args()

    measured = dtfm.Topology(arguments.topology)
    site = np.array([it["site"] for it in measured.devices])
    between_sites = site[:, None] != site[None, :]
    machines = [{"name": f"d{i}", "site": it["site"], "gpu": it["gpu"]} for i, it in enumerate(measured.devices)]
    factors, seconds = [0.25, 0.5, 1, 2, 4, 8], []
    for factor in factors:
        bandwidth = np.where(between_sites, measured.bandwidth_bps * factor, measured.bandwidth_bps)
        topology = dtfm.Topology(
            {"devices": machines}, latency_s=measured.latency_s, bandwidth_bps=np.maximum(bandwidth, 1)
        )
        plan = dtfm.plan(topology, model=arguments.model, evaluations=arguments.evaluations)
        seconds.append(plan.iteration_time_s)
        print(f"bandwidth × {factor:<5g} {plan.iteration_time_s:8.3f} s per iteration, {len(plan.pipelines)} pipelines")
    if arguments.plot:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots()
        axes.plot(factors, seconds, marker="o")
        axes.set(xscale="log", xlabel="bandwidth between sites, relative", ylabel="s per iteration", ylim=(0, None))
        figure.savefig(arguments.plot)


if __name__ == "__main__":
    main()
