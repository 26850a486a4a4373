#!/usr/bin/env python3
"""dtfm-plan --warm-start and --diff: migration, its benefit, and rejected input.

usage: warm_start.py DTFM-PLAN DTFM-SIM
"""
import json
import signal
import sys
from pathlib import Path

from iteration import FREE, TOKENS, TOPOLOGY, interrupted, read, simulated, used, write
from simulate import PLAN, check, close, main, run

QUICK = ("--evaluations", 3000, "--quiet")
FEWER = TOPOLOGY.replace("site: ohio, count: 4", "site: ohio, count: 3")
SLOWER = TOPOLOGY.replace("50 ms, bandwidth: 0.5 Gbps", "50 ms, bandwidth: 0.02 Gbps")


def planned(name, *more, topology="sites.yaml", job="free.yaml"):
    """Returns the written plan and the printed text."""
    for file, text in (("sites.yaml", TOPOLOGY), ("fewer.yaml", FEWER), ("slower.yaml", SLOWER), ("free.yaml", FREE)):
        write(file, text)
    done = run(topology, "--job", job, "-o", name, *QUICK, *more, program=PLAN)
    return read(name), done.stdout


def refused(message, *arguments):
    Path("never.json").unlink(missing_ok=True)
    done = run(*arguments, "-o", "never.json", program=PLAN, status=2)
    check(done.stderr == f"dtfm-plan: {message}\n", arguments, "says", repr(done.stderr), "instead of", repr(message))
    check(done.stdout == "" and not Path("never.json").exists(), arguments, "gives a plan")


def perceived(plan):
    """Returns the seconds per iteration if only the horizon left after migration counts for
    iterations."""
    warm, seconds = plan["warm_start"], plan["finalists"][0]["simulated"]["nominal"]["mean_s"]
    return seconds * warm["horizon_s"] / (warm["horizon_s"] - warm["migration"]["seconds"])


def check_migration(migration):
    devices = migration["devices"]
    check(abs(sum(it["bytes"] for it in devices) - migration["bytes"]) <= len(devices), "bytes of", migration)
    check(all(it["bytes"] + it["checkpoint_bytes"] > 0 and it["layers"] and it["from"] for it in devices), devices)


def test_same_network():
    old, _ = planned("old.json")
    for horizon in ("1e-9 s", "1 s", "1 min", "2 h", "300 h", "270000 h"):
        plan, text = planned("next.json", "--warm-start", "old.json", "--horizon", horizon)
        warm = plan["warm_start"]
        check_migration(warm["migration"])
        before = simulated("old.json")["iteration_time_s"]["mean"]
        check(close(warm["unchanged_iteration_time_s"], before), "the old plan takes", warm, before)
        check(perceived(plan) <= before * (1 + 1e-12), "worse than staying", perceived(plan), before)
        check(warm["keeps_plan"] == (plan["pipelines"] == old["pipelines"]), "keeps_plan", warm)
        if warm["keeps_plan"]:
            check("kept" in text and warm["migration"]["bytes"] == 0 and warm["gain"]["value"] == 0, text, warm)
    plan, text = planned("next.json", "--warm-start", "old.json")
    check(plan["warm_start"]["horizon_s"] == 7200 and "Warm start from old.json, for 2 h" in text, text)
    check("Warm start" not in planned("cold.json")[1] and "warm_start" not in read("cold.json"), "a cold plan is warm")


def test_removed_host():
    planned("old.json", "--pipeline", 2, "--data", 4)
    plan, text = planned("next.json", "--warm-start", "old.json", topology="fewer.yaml")
    warm = plan["warm_start"]
    check("ohio/3" not in used(plan) and sum(it["micro_batches"] for it in plan["pipelines"]) == 24, plan["pipelines"])
    check(warm["cannot_keep_reason"] == "1 of its 8 devices is gone" and warm["gain"] is None, warm)
    check("cannot continue: 1 of its 8 devices is gone" in text, text)
    check_migration(warm["migration"])
    run("fewer.yaml", "next.json")
    # Within a millisecond nothing can migrate: the remaining part of the old plan continues.
    brief, _ = planned("brief.json", "--warm-start", "old.json", "--horizon", "1 ms", topology="fewer.yaml")
    check(brief["warm_start"]["migration"]["bytes"] == 0, brief["warm_start"])


def test_changed_link():
    planned("old.json", "--pipeline", 4, "--data", 2)
    slow = ("--warm-start", "old.json", "--horizon")
    cold, _ = planned("cold.json", topology="slower.yaml")
    brief, text = planned("brief.json", *slow, "1 ms", topology="slower.yaml")
    check(brief["warm_start"]["keeps_plan"] and "kept" in text, brief["warm_start"])
    long, text = planned("long.json", *slow, "1000 h", topology="slower.yaml")
    best = cold["finalists"][0]["simulated"]["nominal"]["mean_s"]
    seconds = long["finalists"][0]["simulated"]["nominal"]["mean_s"]
    check(seconds <= 1.01 * best, "a long horizon ends at", seconds, "not at", best)
    warm = long["warm_start"]
    gain = warm["unchanged_iteration_time_s"] - seconds
    check(close(warm["gain"]["value"], gain) and gain > 0 and warm["gain"]["unit"] == "s", "gain", warm)
    check(warm["gain"]["unchanged"] == warm["unchanged_iteration_time_s"], "of the old plan", warm)
    paid = warm["break_even_iterations"]
    check((paid - 1) * gain < warm["migration"]["seconds"] <= paid * gain, "break-even point", warm)
    check(f"breaks even after {int(paid):,} iteration" in text, text)
    check(close(long["finalists"][0]["migration_s"], warm["migration"]["seconds"]), "finalists", long["finalists"][0])
    few, text = planned("devices.json", *slow, "1000 h", "--objective", "device-efficiency", topology="slower.yaml")
    check(len(used(few)) <= len(used(long)), "devices", len(used(few)), len(used(long)))
    check_gain(few, text, "device-seconds", 1)


def check_gain(plan, text, unit, price):
    """Returns the cost of the old plan on eight devices, each of which costs `price` per second."""
    warm = plan["warm_start"]
    seconds = plan["finalists"][0]["simulated"]["nominal"]["mean_s"]
    before = price * 8 * warm["unchanged_iteration_time_s"]
    gain = before - price * len(used(plan)) * seconds
    check(close(warm["gain"]["value"], gain) and close(warm["gain"]["unchanged"], before), "gain", warm["gain"], gain, before)
    check(warm["gain"]["unit"] == unit and f" {unit}; {before:.4g} with the running plan" in text, "unit", warm["gain"], text)


def test_cost_objective():
    """With objective cost-per-token the gain is in dollars, and migration between sites costs egress."""
    write("priced.yaml", SLOWER.replace("count: 4", "price: 2 USD/h, count: 4"))
    planned("old.json", "--pipeline", 4, "--data", 2)
    warm = ("--warm-start", "old.json", "--objective", "cost-per-token", "--horizon", "100 h")
    cheap, text = planned("cheap.json", *warm, topology="priced.yaml")
    check_gain(cheap, text, "USD per million tokens", 2 / 3600 / TOKENS * 1e6)
    check("egress_usd" not in cheap["warm_start"]["migration"], "free bytes cost", cheap["warm_start"]["migration"])
    # With egress prices, the plan file and the summary contain the cost of the migration.
    write("dear.yaml", SLOWER.replace("count: 4", "price: 2 USD/h, count: 4").replace("0.02 Gbps", "0.02 Gbps, egress: 0.5 USD/GB"))
    dear, text = planned("dear.json", *warm, topology="dear.yaml")
    migration = dear["warm_start"]["migration"]
    crossing = [it["bytes"] for it in migration["devices"] if any(source[:3] != it["device"][:3] for source in it["from"])]
    check(crossing and 0 < migration["egress_usd"] <= sum(crossing) * 0.5e-9, "egress", migration)
    check(f", for {migration['egress_usd']:.4g} USD\n" in text, "dollars in the summary", migration, text)
    diff = difference("dear.yaml", "--diff", "old.json", "dear.json")
    check(diff["migration"] == migration, "--diff says", diff["migration"], "not", migration)


def test_interrupt():
    planned("old.json", "--pipeline", 2, "--data", 4)
    interrupted(signal.SIGINT, "interrupted: this is the best plan so far", "--warm-start", "old.json", "--evaluations", 10**12)


def test_other_schedule():
    """Pipelines of 11 micro-batches each, which two interleaved stages do not support."""
    write("odd.yaml", FREE.replace("global_batch: 24", "global_batch: 22"))
    write("chunked.yaml", FREE.replace("global_batch: 24", "global_batch: 22") + "parallelism: {schedule: interleaved, chunks: 2}\n")
    old, _ = planned("old.json", "--pipeline", 2, "--data", 2, job="odd.yaml")
    check([it["micro_batches"] for it in old["pipelines"]] == [11, 11], old["pipelines"])
    plan, _ = planned("next.json", "--warm-start", "old.json", job="chunked.yaml")
    check(all(it["micro_batches"] % len(it["stages"]) == 0 for it in plan["pipelines"]), plan["pipelines"])
    check(plan["warm_start"]["cannot_keep_reason"].startswith("the job, the limits"), plan["warm_start"])


def test_other_hosts():
    """A host of six joins two of four: a degree that divides six must not prevent keeping a plan with
    stages of four."""
    hosts = TOPOLOGY.replace("site: oregon, count: 4", "site: oregon, hosts: 2, gpus_per_host: 4").replace(
        "links:\n", "links:\n  - {within: host, latency: 5 us, bandwidth: 300 Gbps}\n")
    write("hosts.yaml", hosts)
    write("joined.yaml", hosts.replace("links:\n", "  - {site: tokyo, hosts: 1, gpus_per_host: 6, gpu: card}\nlinks:\n", 1))
    write("tensor.yaml", FREE + "parallelism: {tensor: auto}\n")
    write("four.yaml", FREE + "parallelism: {tensor: 4}\n")
    old, _ = planned("old.json", topology="hosts.yaml", job="four.yaml")
    check(old["parallelism"]["tensor"] == 4, old["parallelism"])
    plan, _ = planned("next.json", "--warm-start", "old.json", topology="joined.yaml", job="tensor.yaml")
    check("cannot_keep_reason" not in plan["warm_start"] and plan["warm_start"]["unchanged_iteration_time_s"] > 0, plan["warm_start"])


def test_threads():
    planned("old.json", "--pipeline", 2, "--data", 4)
    texts = set()
    for threads in (1, 2, 3):
        planned("next.json", "--warm-start", "old.json", "--threads", threads, topology="fewer.yaml")
        texts.add(Path("next.json").read_text(encoding="utf-8"))
    check(len(texts) == 1, "threads change the plan")


def test_rejected_usage():
    planned("old.json")
    warm = ("sites.yaml", "--job", "free.yaml", "--warm-start")
    refused("--horizon: requires --warm-start", "sites.yaml", "--horizon", "1 h")
    refused("--horizon: expected a time above zero; found `0 s`", *warm, "old.json", "--horizon", "0 s")
    refused("--warm-start: cannot be combined with --pareto", *warm, "old.json", "--pareto", "f.json")
    done = run(*warm, "old.json", "--horizon", "5", program=PLAN, status=2)
    check("--horizon" in done.stderr and "unit" in done.stderr, done.stderr)
    refused("--warm-start: cannot be combined with --objective comm-cost",
            *warm, "old.json", "--objective", "comm-cost")
    refused("--warm-start: cannot be combined with --score", *warm, "old.json", "--score", "old.json")
    refused("old.json: is for job `small`, but without --job FILE the job is the built-in gpt3-xl", "sites.yaml", "--warm-start", "old.json")
    write("deeper.yaml", FREE.replace("layers: 12", "layers: 14").replace("name: small", "name: deeper"))
    refused("old.json: is for another model than job `deeper`: it has 12 layers, not 14, so no state can be migrated; "
            "give its own job by --job FILE", "sites.yaml", "--job", "deeper.yaml", "--warm-start", "old.json")
    write("table.csv", "device,pipeline,stage,first_layer,last_layer\noregon/0,0,0,0,11\n")
    refused("table.csv: is not a plan written by dtfm-plan -o (JSON)", *warm, "table.csv")
    write("broken.json", '{"pipelines": [{"stages": [}')
    done = run(*warm, "broken.json", program=PLAN, status=2)
    check(done.stderr.startswith("dtfm-plan: broken.json:1:28: "), done.stderr)
    plan = read("old.json")
    plan["execution"] |= {"schedule": "interleaved", "chunks": 13}
    plan["parallelism"]["schedule"] = "interleaved"
    write("chunks.json", json.dumps(plan))
    for arguments in ((*warm, "chunks.json"), ("--diff", "chunks.json", "old.json")):
        done = run(*arguments, program=PLAN, status=2)
        check(done.stderr.startswith("dtfm-plan: chunks.json: schedule interleaved: "), done.stderr)
    plan = read("old.json")
    del plan["groups"], plan["ranks"], plan["parallelism"], plan["unused"]
    stage = plan["pipelines"][0]["stages"][0]
    stage["devices"] *= 2
    write("twice.json", json.dumps(plan))
    refused(f"twice.json: /pipelines/0/stages/0/devices/1: device {stage['devices'][0]} is used twice, first at "
            "/pipelines/0/stages/0/devices/0", *warm, "twice.json")
    stage["devices"] = [f"host/{i}" for i in range(9000)]
    write("many.json", json.dumps(plan))
    refused("many.json: /pipelines/0/stages/0/devices: more than 8192 devices in all", *warm, "many.json")
    refused("--seed: cannot be combined with --diff", "--diff", "old.json", "old.json", "--seed", 1)
    check(not Path("sites.yaml").read_text(encoding="utf-8") == "", "an input is gone")
    done = run("sites.yaml", "--warm-start", "old.json", "--job", "free.yaml", "-o", "old.json", program=PLAN, status=2)
    check("old.json" in done.stderr, done.stderr)


def difference(*arguments):
    return json.loads(run(*arguments, "--format", "json", program=PLAN).stdout)


def test_diff_takes_no_options_of_searches():
    planned("old.json")
    for option in ("--calibration", "--pareto"):
        refused(f"{option}: cannot be combined with --diff", "--diff", "old.json", "old.json", option, "x")


def test_diff():
    old, _ = planned("old.json", "--pipeline", 2, "--data", 4)
    done = run("--diff", "old.json", "old.json", program=PLAN)
    check(done.stdout == "old.json and old.json are the same plan\n" and done.stderr == "", done.stdout, done.stderr)
    # The same plan with its pipelines in another order.
    other = {key: old[key] for key in ("schema", "topology", "job")} | {"pipelines": old["pipelines"][::-1]}
    write("other.json", json.dumps(other))
    same = difference("--diff", "old.json", "other.json")
    check(same["same"] and same["migration"]["bytes"] == 0 and "seconds" not in same["migration"], same)
    plan, _ = planned("next.json", "--warm-start", "old.json", "--pipeline", 1, "--data", 7, topology="fewer.yaml")
    diff = difference("--diff", "old.json", "next.json")
    check(not diff["same"] and diff["decisions"]["stages"] == ["2", "1"], diff["decisions"])
    check(diff["removed"] == ["ohio/3"] and diff["added"] == [] and len(diff["changes"]) == 7, diff)
    check(diff["migration"]["bytes"] == plan["warm_start"]["migration"]["bytes"], "migration", diff["migration"], plan["warm_start"])
    timed = difference("fewer.yaml", "--diff", "old.json", "next.json")
    check(timed["migration"] == plan["warm_start"]["migration"], "with times", timed["migration"], plan["warm_start"])
    text = run("fewer.yaml", "--diff", "old.json", "next.json", program=PLAN).stdout
    for words in ("stages", "Removed: 1 device (ohio/3)", "State migration: ", "fetches layers", "stage 1, layers"):
        check(words in text, "the summary lacks", words, "in", text)
    refused("old.json: /pipelines/{}/stages/{}/devices/0: topology two-sites has no device ohio/3; only the first plan may "
            "use devices that are gone".format(*next((p, s) for p, pipeline in enumerate(old["pipelines"])
                                                          for s, stage in enumerate(pipeline["stages"])
                                                          if "ohio/3" in stage["devices"])),
            "fewer.yaml", "--diff", "next.json", "old.json")
    write("deeper.yaml", FREE.replace("layers: 12", "layers: 14"))
    planned("deeper.json", job="deeper.yaml")
    check("no_migration_reason" in difference("--diff", "old.json", "deeper.json"), "another model moves")


def hand_made(name, pipelines, **changes):
    """Writes a plan file of the small job with (micro-batches, [(layers, devices), …]) for each
    pipeline."""
    planned("any.json")
    job = read("any.json")["job"]
    for key, value in changes.items():
        job[key] = job.get(key, {}) | value
    stages = [[{"layers": layers, "devices": devices} for layers, devices in it] for _, it in pipelines]
    write(name, json.dumps({"schema": "dtfm-plan/1", "job": job, "pipelines": [
        {"micro_batches": batches, "stages": it} for (batches, _), it in zip(pipelines, stages)]}))
    return name


def test_diff_of_smaller_tensor_degrees():
    """A stage loses one of its two devices: the other one has different work, and the degrees differ."""
    two = {"tensor": 2, "schedule": "gpipe", "gradient_sync": "sharded-ps"}
    hand_made("wide.json", [(24, [([0, 6], ["a", "b"]), ([6, 12], ["c", "d"])])], parallelism=two)
    hand_made("narrow.json", [(24, [([0, 6], ["a"]), ([6, 12], ["c", "d"])])], parallelism=two)
    diff = difference("--diff", "wide.json", "narrow.json")
    check(diff["decisions"] == {"tensor": ["2", "1, 2"]} and diff["removed"] == ["b"], diff["decisions"], diff["removed"])
    changed = {it["device"]: (it["first"], it["second"]) for it in diff["changes"]}
    check([it["tensor"] for it in changed["a"]] == [2, 1] and [it["after"] for it in changed["a"]] == [["c"], ["c", "d"]], changed)
    check("c" not in changed and [it["before"] for it in changed["d"]] == [["b"], ["a"]], "neighbours", changed)
    text = run("--diff", "wide.json", "narrow.json", program=PLAN).stdout
    check("stage 0, layers 0–5, rank 0 of 2  stage 0, layers 0–5\n" in text, "a narrower stage", text)


def test_diff_of_jobs():
    plan = [(24, [([0, 12], ["a"])])]
    hand_made("first.json", plan)
    for name, key, changes, values in (
            ("sequence", "model", {"sequence": 256}, ["512", "256"]),
            ("overlap", "parallelism", {"overlap": True}, ["false", "true"]),
            ("compression_throughput", "compression", {"throughput": "8 Gbps"}, ["unlimited", "8 Gbps"])):
        hand_made("second.json", plan, **{key: changes})
        diff = difference("--diff", "first.json", "second.json")
        check(diff["decisions"].pop(name) == values and not diff["same"], name, values)
        check(set(diff["decisions"]) <= {"model"}, name, "and", diff["decisions"])  # it now has positions


def test_diff_output():
    hand_made("first.json", [(24, [([0, 12], ["a"])])])
    for name, text in (("notes.txt", "what I know\n"), ("plan.json", Path("first.json").read_text(encoding="utf-8"))):
        write(name, text)
        done = run("--diff", "first.json", "first.json", "-o", name, program=PLAN, status=2)
        check(done.stderr == f"dtfm-plan: {name}: cannot write: it exists and is not a comparison of plans\n", done.stderr)
        check(Path(name).read_text(encoding="utf-8") == text, name, "is gone")
    for _ in range(2):  # overwrites its own file, then an empty one
        run("--diff", "first.json", "first.json", "-o", "diff.json", program=PLAN)
        check(read("diff.json")["same"], read("diff.json"))
    write("empty.json", "")
    run("--diff", "first.json", "first.json", "-o", "empty.json", program=PLAN)


def test_diff_of_huge_plans():
    """Thousands of shares, and as many devices that are missing nearly all of them."""
    names = [f"d/{i}" for i in range(8192)]
    hand_made("one.json", [(24, [([0, 12], names[:-1])])])
    hand_made("many.json", [(1, [([0, 12], [name])]) for name in names], training={"global_batch": 8192})
    hand_made("two.json", [(24, [([0, 6], names[:4096]), ([6, 12], names[4096:])])])
    for first, second in (("one", "many"), ("many", "one"), ("two", "one"), ("two", "many")):
        diff = difference("--diff", f"{first}.json", f"{second}.json")
        check(diff["migration"]["checkpoint_bytes"] == 0, first, second, "a checkpoint")
        check((diff["migration"]["bytes"] == 0) == (first == "many"), first, second, diff["migration"]["bytes"])
    hosts = TOPOLOGY.replace("site: oregon, count: 4", "site: d, count: 8192").split("  - {site: ohio")[0]
    write("wide.yaml", hosts + 'links:\n  - {within: "*", latency: 5 ms, bandwidth: 2 Gbps}\n')
    for arguments in (("--diff", "one.json", "many.json"), ("--job", "free.yaml", "--warm-start", "one.json", *QUICK)):
        done = run("wide.yaml", *arguments, program=PLAN, status=2)
        check(done.stderr.startswith("dtfm-plan: one.json: has stages of too many devices, 8191 at most: "), done.stderr[:300])


if __name__ == "__main__":
    sys.exit(main(globals()))
