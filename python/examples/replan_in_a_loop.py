"""What happens to the plan while machines leave and return?

Lets random devices fail and return, hour by hour, and replans each time for those that remain.
"""

import argparse
import random

import dtfm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topology", help="devices and links (YAML)")
    parser.add_argument("--model", default="gpt3-xl", help="preset or config.json [gpt3-xl]")
    parser.add_argument("--hours", type=int, default=5, help="number of changes [5]")
    parser.add_argument("--seed", type=int, default=0, help="of the failures [0]")
    parser.add_argument("--evaluations", type=int, default=2000, help="per search [2000]")
    arguments = parser.parse_args()

    rng = random.Random(arguments.seed)
    topology = dtfm.Topology(arguments.topology)
    ids = [it["id"] for it in topology.devices]
    plan = dtfm.plan(topology, model=arguments.model, evaluations=arguments.evaluations)
    print(f"all {len(ids)} devices: {plan.iteration_time_s:.2f} s per iteration")
    for hour in range(1, arguments.hours + 1):
        gone = rng.sample(ids, rng.randint(1, max(1, len(ids) // 8)))
        plan = dtfm.replan(topology.without(gone), plan, horizon="1h", evaluations=arguments.evaluations)
        if not plan.is_feasible:
            print(f"hour {hour}: {len(gone)} devices are gone, and no plan fits the others")
            return
        migration = plan.to_dict()["warm_start"]["migration"]
        moved_gb = (migration["bytes"] + migration["checkpoint_bytes"]) / 1e9
        print(
            f"hour {hour}: {len(gone)} devices are gone: {plan.iteration_time_s:.2f} s per iteration, "
            f"{moved_gb:.1f} GB migrated"
        )


if __name__ == "__main__":
    main()
