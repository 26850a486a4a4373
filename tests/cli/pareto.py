#!/usr/bin/env python3
"""dtfm-plan with several objectives: egress cost, the Pareto front of --pareto, and the finalists.

usage: pareto.py DTFM-PLAN DTFM-SIM
"""
import json
import signal
import sys
from pathlib import Path

from iteration import SHORT, TOKENS, TOPOLOGY, interrupted, planned, read, refused, simulated, used, write
from simulate import PLAN, check, close, main, run

FAST = ("--evaluations", 2000)
PRICED = TOPOLOGY.replace("oregon, ", "oregon, price: 2 USD/h, ").replace("ohio, ", "ohio, price: 1 USD/h, ").replace(
    "0.5 Gbps", "0.5 Gbps, egress: 0.09 USD/GB")


def test_egress():
    """Egress is that of the bytes in dtfm-sim, both in the plan file and in the summary."""
    write("egress.yaml", TOPOLOGY.replace("count: 4", "price: 2 USD/h, count: 4").replace("0.5 Gbps", "0.5 Gbps, egress: 0.09 USD/GB"))
    plan, text = planned(*SHORT, "--pipeline", 8, "--data", 1, topology="egress.yaml")
    tokens = plan["estimate"]["tokens_per_s"] * plan["estimate"]["iteration_time_s"]
    sent = sum(link["bytes"] for link in simulated("made.json", "egress.yaml")["links"] if link["from"] != link["to"])
    parts = plan["estimate"]["cost_parts"]
    check(sent > 0 and close(parts["egress"], sent * 0.09e-9 / tokens * 1e6), parts, sent)
    check(close(parts["egress"] + parts["devices"], plan["estimate"]["cost_per_million_tokens"]), "parts", plan["estimate"])
    check(f"({parts['devices']:.4g} for devices, {parts['egress']:.4g} for egress)" in text, "the parts", text)
    # At ten thousand dollars per gigabyte nothing is sent between sites.
    write("dear.yaml", Path("egress.yaml").read_text(encoding="utf-8").replace("0.09", "10000"))
    dear, _ = planned("--objective", "cost-per-token", "--pipeline", 2, topology="dear.yaml")
    check(dear["estimate"]["cost_parts"]["egress"] == 0, "dear bytes", dear["estimate"]["cost_parts"])


def better(a, b):
    pairs = [(a["simulated"]["iteration_time_s"], b["simulated"]["iteration_time_s"]),
             (a["simulated"]["usd"], b["simulated"]["usd"]), (a["devices"], b["devices"])]
    return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)


def test_pareto():
    write("prices.yaml", PRICED)
    alone, _ = planned(*FAST, topology="prices.yaml")
    outputs = set()
    for threads in (1, 2, 3):
        plan, text = planned(*FAST, "--pareto", "front.json", "--threads", threads, topology="prices.yaml")
        outputs.add(Path("front.json").read_text(encoding="utf-8") + text)
    check(len(outputs) == 1, "other bytes for other threads")
    check(plan == alone, "--pareto changes the plan")
    front = read("front.json")
    points = front["points"]
    check(front["schema"] == "dtfm-pareto/1" and len(points) > 2, front["schema"], len(points))
    check(f"{len(points)} plans in front.json" in text, "the summary lacks the front", text)
    shown = [i for i, it in enumerate(points) if all(it["plan"][key] == plan[key] for key in ("pipelines", "execution"))]
    check((f"The summary above shows points[{shown[0]}]" if shown else "shows a plan that is not in the front") in text, shown, text)
    check(not any(better(a, b) for a in points for b in points), "a point dominates another")
    times = [it["simulated"]["iteration_time_s"] for it in points]
    check(times == sorted(times) and times[0] <= plan["finalists"][0]["simulated"]["nominal"]["mean_s"], times)
    cheap, _ = planned(*FAST, "--objective", "cost-per-token", topology="prices.yaml")
    check(min(it["usd"] for it in points) <= cheap["estimate"]["cost_per_million_tokens"] * TOKENS / 1e6 * (1 + 1e-9), "dear")
    for it in (points[0], points[-1]):
        write("cut.json", json.dumps(it["plan"]))
        check(len(used(it["plan"])) == it["devices"], it["devices"], used(it["plan"]))
        check(close(it["plan"]["estimate"]["cost_per_million_tokens"] * TOKENS / 1e6, it["usd"]), it["usd"])
        check(close(simulated("cut.json", "prices.yaml")["iteration_time_s"]["mean"], it["simulated"]["iteration_time_s"]), it)
        run("prices.yaml", "--score", "cut.json", "-o", "scored.json", program=PLAN)
        check(close(read("scored.json")["estimate"]["iteration_time_s"], it["iteration_time_s"]), "the score of a point")


def test_pareto_file():
    """The front is written atomically and overwrites no other file, which is checked before the
    search."""
    what = ("sites.yaml", "--job", "free.yaml", *FAST)
    planned(*FAST)
    refused("made.json: cannot write: it exists and is not a file of --pareto", *what, "--pareto", "made.json")
    refused("missing/front.json: cannot write: No such file or directory", *what, "--pareto", "missing/front.json")
    refused("never.json: cannot write: it is given for two outputs", *what, "--pareto", "never.json")
    refused("sites.yaml: cannot write: it is an input", *what, "--pareto", "sites.yaml")
    refused("--pareto: requires a file; stdout has the plan or its summary", *what, "--pareto", "-")
    refused("--pareto: cannot be combined with --objective comm-cost", *what, "--pareto", "new.json",
            "--objective", "comm-cost", "--pipeline", 4)
    refused("--score: cannot be combined with --pareto", "sites.yaml", "--score", "made.json", "--pareto", "new.json")
    check(not Path("new.json").exists(), "a file of nothing")
    planned(*FAST, "--pareto", "again.json")
    first = read("again.json")
    check(all(it["usd"] is None and it["simulated"]["usd"] is None for it in first["points"]), "a price of nothing")
    planned(*FAST, "--pareto", "again.json")  # overwrites a file of --pareto
    check(read("again.json") == first, "another front")
    planned("--time-limit", 0.05, "--evaluations", 10**9, "--pareto", "again.json")
    check(read("again.json")["search"]["stopped"] == "time-limit" and read("again.json")["points"], read("again.json")["search"])


def test_pareto_with_missing_prices():
    """Only half of the devices have a price, and plans must use all of them: no search by cost, but a
    Pareto front."""
    write("some.yaml", TOPOLOGY.replace("oregon, ", "oregon, price: 2 USD/h, "))
    plan, _ = planned(*SHORT, "--pipeline", 1, "--data", 8, "--pareto", "some.json", topology="some.yaml")
    front = read("some.json")
    check(front["points"][0]["devices"] == 8 == len(used(plan)), front["points"])
    check(any(it.startswith("no plan found by cost-per-token: ") for it in front["warnings"]), front["warnings"])


def test_empty_pareto_front():
    """If no plan fits, the Pareto front is empty."""
    write("tight.yaml", TOPOLOGY.replace("16 GB", "0.1 GB"))
    _, text = planned(*SHORT, "--pareto", "none.json", topology="tight.yaml", status=3)
    check(read("none.json")["points"] == [] and "Pareto front" not in text, read("none.json")["points"], text)


def test_pareto_is_written_when_interrupted():
    planned(*SHORT)  # writes the inputs
    interrupted(signal.SIGINT, "interrupted: this is the best plan so far", "--evaluations", 10**12, "--pareto", "part.json")
    front = read("part.json")
    check(front["search"]["stopped"] == "interrupted" and front["points"], front["search"])
    check(all(it["simulated"] is None for it in front["points"]), "runs that were cut short count")


def test_finalists_contain_their_decisions():
    plan, text = planned(*FAST, job="open.yaml")
    names = {tuple(it.get("decisions", {})) for it in plan["finalists"]}
    check(len(names) == 1 and names != {()}, "not the same decisions of all", names)
    for name in names.pop():
        check(len({json.dumps(it["decisions"][name]) for it in plan["finalists"]}) > 1, "no difference in", name)
        values = {str(it["decisions"][name]) for it in plan["finalists"]} - {"0"}
        check(any(value in text.split("decisions\n")[1] for value in values), "the summary lacks", name, text)


if __name__ == "__main__":
    sys.exit(main(globals()))
