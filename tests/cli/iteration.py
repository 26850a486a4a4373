#!/usr/bin/env python3
"""dtfm-plan with its default objective: the plan file, finalist simulation, --score, objectives,
rejected input.

usage: iteration.py DTFM-PLAN DTFM-SIM
"""
import functools
import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from simulate import JOB, PLAN, check, close, main, run

TOPOLOGY = """\
version: 1
name: two-sites
gpus: [{name: card, memory: 16 GB, peak: 10 TFLOP/s, memory_bandwidth: 500 GB/s}]
devices:
  - {site: oregon, count: 4, gpu: card}
  - {site: ohio, count: 4, gpu: card}
links:
  - {within: "*", latency: 5 ms, bandwidth: 2 Gbps}
  - {between: ["*", "*"], latency: 50 ms, bandwidth: 0.5 Gbps}
"""
FREE = JOB.replace("parallelism: {pipeline: 3}\n", "")
OPEN = FREE.replace("name: small", "name: open").replace("global_batch: 24", """\
global_batch: 24, micro_batch: auto, recompute: auto}
parallelism: {pipeline: auto, data: auto, tensor: auto, schedule: auto, gradient_sync: auto}
compression: {activations: auto, gradients: auto""")
TOKENS = 24 * 512  # per iteration
SHORT = ("--evaluations", 1)  # initial solutions only
QUICK = ("--evaluations", 4000)  # a whole search takes ten times as long


def write(name, text):
    Path(name).write_text(text, encoding="utf-8")
    return name


def read(name):
    return json.loads(Path(name).read_text(encoding="utf-8"))


def planned(*more, topology="sites.yaml", job="free.yaml", status=0):
    """Returns the written plan and the printed text."""
    write("sites.yaml", TOPOLOGY)
    write("free.yaml", FREE)
    write("open.yaml", OPEN)
    done = run(topology, "--job", job, "-o", "made.json", "--quiet", *more, program=PLAN, status=status)
    return read("made.json"), done.stdout


@functools.cache
def found_by_whole_search():
    """Returns the written plan and the printed text of a search without limits, which several tests need."""
    return planned()


def refused(message, *arguments):
    Path("never.json").unlink(missing_ok=True)
    done = run(*arguments, "-o", "never.json", program=PLAN, status=2)
    check(done.stderr == f"dtfm-plan: {message}\n", arguments, "says", repr(done.stderr), "instead of", repr(message))
    check(done.stdout == "" and not Path("never.json").exists(), arguments, "gives a plan")


def used(plan):
    return [device for pipeline in plan["pipelines"] for stage in pipeline["stages"] for device in stage["devices"]]


def simulated(name, topology="sites.yaml"):
    return json.loads(run(topology, name, "--iterations", 1, "--format", "json").stdout)


def test_plan_file():
    plan, text = found_by_whole_search()
    write("made.json", json.dumps(plan))
    estimate, finalists = plan["estimate"], plan["finalists"]
    check(plan["objective"] == "iteration-time" and "warnings" not in plan, plan["objective"], plan.get("warnings"))
    seconds = estimate["iteration_time_s"]
    check(close(estimate["tokens_per_s"], TOKENS / seconds), "tokens/s", estimate)
    check(estimate["cost_per_million_tokens"] is None, "a price from nowhere", estimate)
    check(len(estimate["breakdown"]) > 1 and close(sum(estimate["breakdown"].values()), seconds), "parts of", estimate)
    report = simulated("made.json")
    check(close(estimate["model_flops_per_s"] * seconds, report["model_flops_per_s"] * report["iteration_time_s"]["mean"]),
          "operations of an iteration", estimate, report["model_flops_per_s"])
    check(sorted(it["device"] for it in estimate["memory"]) == sorted(used(plan)), "memory of", estimate["memory"])
    peaks = {it["device"]: it["peak_memory_bytes"] for it in report["devices"]}
    for it in estimate["memory"]:
        check(it["capacity_bytes"] == 16e9 and abs(it["needed_bytes"] - peaks[it["device"]]) <= 1, it, peaks)
    check(sorted(used(plan) + plan["unused"]) == sorted(f"{site}/{i}" for site in ("ohio", "oregon") for i in range(4)),
          "devices", used(plan), plan["unused"])
    check(plan["search"]["convergence"][-1][1] <= seconds * (1 + 1e-9), "the search", plan["search"]["convergence"])

    first = finalists[0]
    check((first["pipeline"], first["data"], first["devices"]) ==
          (plan["parallelism"]["pipeline"], plan["parallelism"]["data"], len(used(plan))), "the first finalist is", first)
    check(first["iteration_time_s"] == seconds, "estimate of the first finalist", first)
    check(close(first["simulated"]["nominal"]["mean_s"], report["iteration_time_s"]["mean"]), "the judge and dtfm-sim")
    means = [it["simulated"]["nominal"]["mean_s"] for it in finalists]
    check(len(means) == 16 and means == sorted(means), "finalists are not in order", means)
    for words in ("two-sites: 8 devices in 2 sites, job small", "estimated", "simulated", "model TFLOP/s",
                  "finalist  stages × replicas"):
        check(words in text, "the summary lacks", words, "in", text)
    check(len(planned(*QUICK, "--finalists", 3)[0]["finalists"]) == 3, "--finalists 3")


def test_images():
    """Models of images are counted in images, in text and in results."""
    write("priced.yaml", TOPOLOGY.replace("count: 4", "price: 2 USD/h, count: 4"))
    write("images.yaml", "version: 1\nname: images\nmodel: {preset: resnet-50}\ntraining: {global_batch: 24}\n"
                         "profile: {analytic: true, efficiency: 0.3}\n")
    plan, text = planned(*SHORT, "--explain", topology="priced.yaml", job="images.yaml")
    estimate = plan["estimate"]
    check(plan["job"]["model"]["input"] == "images", plan["job"]["model"]["input"])
    check(close(estimate["images_per_s"], 24 / estimate["iteration_time_s"]), "images/s", estimate)
    check(close(estimate["cost_per_million_images"], 2 * len(used(plan)) / 3600 / estimate["images_per_s"] * 1e6), "cost", estimate)
    check(close(plan["explanation"]["now"]["images_per_s"], 24 / plan["explanation"]["now"]["iteration_time_s"]), plan["explanation"]["now"])
    check(" images/s, " in text and " USD per million images" in text and "token" not in text, "the summary", text)
    check("token" not in json.dumps(plan), "the plan counts tokens")
    done = run("priced.yaml", "made.json", "-o", "images.json")
    result = read("images.json")
    check(close(result["images_per_s"], 24 / result["iteration_time_s"]["mean"]), "images/s", result["images_per_s"])
    check(" images/s" in done.stdout and "token" not in done.stdout + json.dumps(result), "the simulation counts tokens")
    plan, _ = planned(*SHORT, "--objective", "cost-per-token", topology="priced.yaml", job="images.yaml")
    check(plan["lower_bound"]["unit"] == "USD per million images", plan["lower_bound"])
    scored = run("priced.yaml", "--score", "made.json", "--format", "json", program=PLAN).stdout
    check("images_per_s" in json.loads(scored)["estimate"] and "tokens_per_s" not in scored, "a scored plan counts tokens")


def test_strategies():
    """Only the default strategy supports the default objective."""
    plan, _ = planned(*SHORT)
    check(planned(*SHORT, "--strategy", "evolutionary")[0] == plan and plan["search"]["strategy"] == "evolutionary", plan["search"])
    for more in ((), ("--objective", "iteration-time")):
        refused("--strategy kernighan-lin requires --objective comm-cost", "sites.yaml", "--job", "free.yaml", *more,
                "--strategy", "kernighan-lin")


def test_prices():
    write("priced.yaml", TOPOLOGY.replace("count: 4", "price: 2 USD/h, count: 4"))
    plan, text = planned(*QUICK, topology="priced.yaml")
    dollars = 2 * len(used(plan)) / 3600 / plan["estimate"]["tokens_per_s"] * 1e6
    check(close(plan["estimate"]["cost_per_million_tokens"], dollars), "USD per million tokens", plan["estimate"])
    check("USD per million tokens" in text, "the summary lacks the price", text)
    # Without micro-batches there are no tokens to pay for.
    write("idle.json", json.dumps({"pipelines": [{"micro_batches": 0, "stages": [{"layers": [0, 12], "devices": ["ohio/0"]}]}]}))
    run("priced.yaml", "--job", "free.yaml", "--score", "idle.json", "-o", "scored.json", program=PLAN)
    check(read("scored.json")["estimate"]["tokens_per_s"] == 0, "tokens of no micro-batch")
    check(read("scored.json")["estimate"]["cost_per_million_tokens"] is None, "a price of no token")
    cheap, cheap_text = planned(*QUICK, "--objective", "cost-per-token", topology="priced.yaml")
    check(cheap["estimate"]["cost_per_million_tokens"] <= dollars * (1 + 1e-9), "cost-per-token costs more", cheap["estimate"])
    bound = cheap["lower_bound"]
    check(bound["unit"] == "USD per million tokens" and 0 < bound["value"] <= cheap["estimate"]["cost_per_million_tokens"], bound)
    check(f"lower bound {bound['value']:.4g} USD per million tokens, gap " in cheap_text, "no bound", cheap_text)
    # Half of the devices have no price: they are unused, and the first of them is named.
    write("half.yaml", TOPOLOGY.replace("oregon, ", "oregon, price: 2 USD/h, "))
    half, _ = planned(*QUICK, "--objective", "cost-per-token", topology="half.yaml")
    check(all(device.startswith("oregon/") for device in used(half)), "without a price, and used", used(half))
    check("4 devices without a price not used, ohio/0 first; set it in the topology: `price: 1.2 USD/h`"
          in half["warnings"], half["warnings"])
    refused("--objective: no device has a price, which cost-per-token needs; add prices to the topology, for example "
            "`price: 1.2 USD/h`", "sites.yaml", "--job", "free.yaml", "--objective", "cost-per-token")


def test_device_efficiency():
    """The model fits one device, and n devices never make an iteration n times faster."""
    plan, _ = planned(*QUICK, "--objective", "device-efficiency")
    check(plan["objective"] == "device-efficiency" and len(used(plan)) == 1 and len(plan["unused"]) == 7, used(plan))
    bound, seconds = plan["lower_bound"], plan["estimate"]["iteration_time_s"]
    check(bound["unit"] == "device-seconds" and close(bound["value"], seconds), "of one device the bound is its time", bound)


def test_score():
    """A plan by itself and with its job has the same estimate and simulation."""
    for name in ("free.yaml", "open.yaml"):
        plan, _ = planned(*SHORT, job=name)
        for more in ((), ("--job", name)) if name == "free.yaml" else ((),):
            run("sites.yaml", "--score", "made.json", *more, "-o", "scored.json", program=PLAN)
            scored = read("scored.json")
            for key in ("estimate", "pipelines", "groups", "ranks", "unused", "parallelism", "job", "objective"):
                check(scored[key] == plan[key], "the score differs in", key, scored[key], plan[key])
            # there is no other finalist
            first = {key: value for key, value in plan["finalists"][0].items() if key != "decisions"}
            check(scored["finalists"] == [first] and "search" not in scored, "finalists", scored["finalists"])
    for option, words in (("--pipeline", "99, but the plan has "), ("--data", "99, but the plan has "),
                          ("--tensor", "99, but the plan has 1 device per stage")):
        done = run("sites.yaml", "--score", "made.json", option, 99, program=PLAN, status=2)
        check(done.stderr.startswith(f"dtfm-plan: {option}: {words}"), option, done.stderr)


def test_a_fast_machine_far_away():
    """A distant fast machine stays unused and does not hide the best plan of the others."""
    far = "  - {site: far, count: 1, gpu: A100-40GB, host_uplink: 1 Gbps}\n"
    devices = "devices:\n" + far + "  - {site: near, hosts: 2, gpus_per_host: 8, gpu: T4}\n"
    links = """\
links:
  - {within: host, latency: 5 us, bandwidth: 300 Gbps}
  - {within: "*", latency: 5 ms, bandwidth: 10 Gbps}
  - {between: [far, near], latency: 20 ms, bandwidth: 0.01 Gbps, capacity: 1 Gbps}
"""
    write("chain.yaml", "version: 1\nname: chain\nmodel: {preset: vgg-16}\n"
          "training: {global_batch: 31, micro_batch: 1, precision: fp32}\nparallelism: {gradient_sync: tree}\n")
    times = []
    for name, text in (("one.yaml", devices + links), ("two.yaml", devices + far + links)):
        write(name, f"version: 1\nname: {name}\n{text}")
        plan, _ = planned(*SHORT, topology=name, job="chain.yaml")
        times.append(plan["finalists"][0]["simulated"]["nominal"]["mean_s"])
    check(times[1] <= 1.01 * times[0], "a second fast machine far away makes it slower", times)


def test_advice():
    """In addition to a score: the planner's own plan, formatted as in its summary, and how much better
    it is."""
    plan, _ = planned(*QUICK)
    best_s = plan["finalists"][0]["simulated"]["nominal"]["mean_s"]
    slow, _ = planned(*QUICK, "--pipeline", 8, "--data", 1)
    slow_s = slow["finalists"][0]["simulated"]["nominal"]["mean_s"]
    check(slow_s > best_s * 1.1, "the slow plan is not slow", slow_s, best_s)
    done = run("sites.yaml", "--score", "made.json", "--advise", *QUICK, "-o", "scored.json", program=PLAN)
    advice = read("scored.json")["advice"]
    check(close(advice["plan"]["simulated"]["nominal"]["mean_s"], best_s), "the advice is not the plan", advice, best_s)
    check(close(advice["gain"], 1 - best_s / slow_s), "its gain", advice["gain"])
    check(f"\nThe planner would take {advice['plan']['pipeline']} stage" in done.stdout, done.stdout)
    check(f"{100 * advice['gain']:.1f} % less time\n" in done.stdout, done.stdout)
    check(read("scored.json")["pipelines"] == slow["pipelines"], "the plan is another one")
    planned(*QUICK)
    run("sites.yaml", "--score", "made.json", "--advise", *QUICK, "-o", "scored.json", program=PLAN)
    check(abs(read("scored.json")["advice"]["gain"]) < 1e-9, "the planner's own plan is bettered")
    write("small.yaml", TOPOLOGY.replace("16 GB", "4.5 GB"))
    planned(*QUICK, "--pipeline", 1, "--data", 1)
    alone = {"job": slow["job"], "pipelines": read("made.json")["pipelines"]}
    write("alone.json", json.dumps(alone))
    done = run("small.yaml", "--score", "alone.json", "--advise", *QUICK, "-o", "scored.json", program=PLAN, status=3)
    check(read("scored.json")["advice"]["gain"] is None and " % less" not in done.stdout, done.stdout)
    refused("--advise: requires --score", "sites.yaml", "--advise")


def test_calibration():
    """Other constants change the times. Plan and simulation give the same interval, by the uncertainty of
    the constants if it is known, else by published runs."""
    Path("slower.yaml").write_text("version: 1\ncompute_scale: 2\nmessage_overhead: 1 ms\nnetwork_efficiency: 0.9\n"
                                   "iteration_overhead: 1 s\n", encoding="utf-8")
    plan, _ = planned(*QUICK, "--calibration", "slower.yaml")
    by_published = plan["estimate"]["iteration_time_interval_s"]
    report = json.loads(run("sites.yaml", "made.json", "--calibration", "slower.yaml", "--format", "json").stdout)
    time_s = plan["finalists"][0]["simulated"]["nominal"]["mean_s"]
    check(close(report["iteration_time_s"]["mean"], time_s), "dtfm-sim and the judge differ", time_s)
    interval = report["iteration_time_interval_s"]
    check(all(close(interval[key], by_published[key]) for key in ("low", "high", "level")), interval, by_published)
    check(interval["source"] == by_published["source"], interval, by_published)
    check(by_published["source"] == "published runs, several sites", by_published)
    # Student's t with 50 degrees of freedom is 2.0086 at 95 %.
    check(abs(by_published["high"] / (time_s * math.exp(2.008559 * 0.167)) - 1) < 1e-6, by_published, time_s)
    constants = {"compute_scale": 2, "message_overhead": "1 ms", "network_efficiency": 0.9, "iteration_overhead": "1 s",
                 "micro_batch_overhead": "0 s", "sync_efficiency": 1}
    covariance = {name: [0.01 if name == other == "compute_scale" else 0 for other in constants] for name in constants}
    spread = {"residual": 0.05, "degrees_of_freedom": 8, "covariance": covariance}
    write("known.json", json.dumps({"schema": "dtfm-calibration/1", **constants, "spread": spread}))
    plan, printed = planned(*QUICK, "--calibration", "known.json")
    report = json.loads(run("sites.yaml", "made.json", "--calibration", "known.json", "--format", "json").stdout)
    interval, other = plan["estimate"]["iteration_time_interval_s"], report["iteration_time_interval_s"]
    check(all(close(interval[key], other[key]) for key in ("low", "high", "level")), interval, other)
    check(interval["low"] < time_s < interval["high"], interval, time_s)
    check(f"({interval['low']:.4g} … {interval['high']:.4g}, 95 % interval from calibration)" in printed, printed)
    run("sites.yaml", "--score", "made.json", "--calibration", "known.json", "-o", "scored.json", program=PLAN)
    check(read("scored.json")["estimate"] == plan["estimate"], "the score has other intervals")
    refused("--calibration: cannot be combined with --objective comm-cost",
            "sites.yaml", "--calibration", "known.json", "--objective", "comm-cost")
    # No run behind the interval had sites so far apart, so it reaches to other collectives.
    write("far.yaml", TOPOLOGY.replace("latency: 50 ms", "latency: 80 ms"))
    plan, printed = planned(*QUICK, "--calibration", "known.json", topology="far.yaml")
    interval = plan["estimate"]["iteration_time_interval_s"]
    check(interval["source"] == "calibration, widened by other collectives beyond 50 ms", interval)
    check(f"95 % interval from {interval['source']})" in printed, printed)
    report = json.loads(run("far.yaml", "made.json", "--calibration", "known.json", "--format", "json").stdout)
    other = report["iteration_time_interval_s"]
    check(all(close(interval[key], other[key]) for key in ("low", "high", "level")), interval, other)
    spread["longest_latency"] = "80 ms"
    write("known.json", json.dumps({"schema": "dtfm-calibration/1", **constants, "spread": spread}))
    report = json.loads(run("far.yaml", "made.json", "--calibration", "known.json", "--format", "json").stdout)
    narrow = report["iteration_time_interval_s"]
    check(narrow["source"] == "calibration" and narrow["high"] < other["high"], narrow, other)


def test_flushes_are_kept():
    """If memory requires frequent pipeline flushes, the plan contains them, and so do its score and
    simulation."""
    write("small.yaml", TOPOLOGY.replace("16 GB", "4.5 GB"))
    plan, _ = planned(*SHORT, "--pipeline", 1, topology="small.yaml")
    check(plan["job"]["parallelism"]["flush"] >= 1, "no pipeline flush", plan["job"]["parallelism"])
    check(all(it["needed_bytes"] <= it["capacity_bytes"] for it in plan["estimate"]["memory"]), plan["estimate"]["memory"])
    run("small.yaml", "--score", "made.json", "-o", "scored.json", program=PLAN)
    check(read("scored.json")["estimate"] == plan["estimate"], "the score of a plan with pipeline flushes")
    report = simulated("made.json", "small.yaml")
    check(close(report["iteration_time_s"]["mean"], plan["finalists"][0]["simulated"]["nominal"]["mean_s"]), "pipeline flushes")


def test_automatic_decisions():
    """`auto` settings are decided and never make the plan worse; if nothing decides them, a note says
    so."""
    plan, _ = planned(job="open.yaml")
    check("auto" not in json.dumps(plan["job"]), "something is left open", plan["job"])
    check(plan["job"]["parallelism"]["schedule"] == plan["parallelism"]["schedule"], "schedule", plan["job"]["parallelism"])
    time_s = plan["finalists"][0]["simulated"]["nominal"]["mean_s"]
    check(close(simulated("made.json")["iteration_time_s"]["mean"], time_s), "the simulation of the plan")
    free, _ = found_by_whole_search()
    write("made.json", json.dumps(free))
    check(time_s <= free["finalists"][0]["simulated"]["nominal"]["mean_s"] * (1 + 1e-9), "choices make it slower", time_s)
    note = ("neither the plan nor a search decides what job open leaves open; used: micro_batch 1, recompute none, schedule gpipe, "
            "gradient_sync sharded-ps, activations 1, gradients 1")
    write("pipelines.json", json.dumps({"pipelines": free["pipelines"]}))
    for name, is_open in (("pipelines.json", True), ("made.json", False)):  # made.json has settings of its own
        done = run("sites.yaml", "--job", "open.yaml", "--score", name, "-o", "scored.json", program=PLAN)
        check((f"\nwarning: {note}\n" in done.stdout) == is_open, name, done.stdout)
        check("auto" not in json.dumps(read("scored.json")["job"]), name, "has open settings")
        check((f"\nnote: {note}\n" in run("sites.yaml", name, "--job", "open.yaml").stdout) == is_open, name, "dtfm-sim")
    by_cost, _ = planned("--objective", "comm-cost", "--pipeline", 4, job="open.yaml")
    check(note in by_cost["warnings"] and "auto" not in json.dumps(by_cost["job"]), by_cost.get("warnings"))


def test_scenarios():
    """With two scenarios in addition to the nominal network, recomputing the criterion from the
    finalists' times gives the choice of --robust."""
    write("slow.yaml", "version: 1\nname: slow oregon\nevents: [{at: 0 s, site: oregon, speed: 0.9}]\n")
    write("noise.yaml", "version: 1\nname: noise\ncompute_jitter: {kind: lognormal, cv: 0.5}\n")
    criteria = {"mean": lambda runs: sum(it["mean_s"] for it in runs) / len(runs),
                "p95": lambda runs: max(it["p95_s"] for it in runs),
                "worst": lambda runs: max(it["max_s"] for it in runs)}
    chosen = {}
    for robust, of in criteria.items():
        plan, text = planned("--evaluations", 1000, "--scenario", "slow.yaml", "--scenario", "noise.yaml", "--robust", robust)
        values = []
        for it in plan["finalists"]:
            check(list(it["simulated"]) == ["nominal", "slow oregon", "noise"], "scenarios", it["simulated"])
            values.append(of(it["simulated"].values()))
        check(len(values) > 2 and values == sorted(values), "by", robust, "finalists are not in order", values)
        check("mean under slow oregon" in text and "mean under noise" in text, "the summary lacks a scenario", text)
        chosen[robust] = json.dumps([plan["execution"], plan["pipelines"]])
    check(len(set(chosen.values())) > 1, "--robust changes nothing:", chosen)
    refused("slow.yaml: two scenarios have the name slow oregon", "sites.yaml", "--job", "free.yaml", "--scenario",
            "slow.yaml", "--scenario", "slow.yaml")
    write("gone.yaml", "version: 1\nname: gone\nevents: [{at: 0 s, site: oregon, leave: true}, {at: 0 s, site: ohio, leave: true}]"
          "\nrecovery: {policy: wait}\n")
    plan, text = planned(*SHORT, "--scenario", "gone.yaml", status=3)
    check(plan["finalists"][0]["simulated"]["gone"] == {"mean_s": None, "p95_s": None, "max_s": None}, plan["finalists"][0])
    check(any(it.startswith("simulated under scenario gone, the plan completes no iteration: after 0 iterations") for it in plan["warnings"]),
          plan["warnings"])
    done = run("sites.yaml", "--score", "made.json", "--scenario", "gone.yaml", "--quiet", program=PLAN, status=3)
    check("completes no iteration: after 0 iterations" in done.stdout, "--score", done.stdout)
    check(re.search(r"simulated +never  mean under gone\n", text), "the summary has another time", text)
    # A plan that stops is worse than one that continues, because its mean is over the whole horizon.
    nominal = plan["finalists"][0]["simulated"]["nominal"]["mean_s"]
    write("leaves.yaml", f"version: 1\nname: leaves\nhorizon: {20 * nominal} s\nevents: [{{at: {5.5 * nominal} s, site: oregon, leave: true}}, "
          f"{{at: {5.5 * nominal} s, site: ohio, leave: true}}]\nrecovery: {{policy: wait}}\n")
    plan, text = planned(*SHORT, "--scenario", "leaves.yaml")
    leaves = plan["finalists"][0]["simulated"]["leaves"]
    check(leaves["p95_s"] is None and leaves["max_s"] is None, leaves)
    check(abs(leaves["mean_s"] - 20 * nominal / 5) < 1e-6, leaves, nominal)
    check(any("under scenario leaves, the plan deadlocks before the horizon" in it for it in plan["warnings"]), plan["warnings"])


def test_memory():
    """If nothing fits, the exit code is 3, and each suggested change makes a plan fit."""
    write("tight.yaml", TOPOLOGY.replace("16 GB", "3.6 GB"))
    plan, text = planned(*SHORT, topology="tight.yaml", status=3)
    first, *others = plan["warnings"]
    check(re.fullmatch("no plan.* fits? the memory of the devices.*", first), first)
    changes = [re.fullmatch("it would fit with (.*)", note).group(1) for note in others]
    check(len(changes) > 1, changes)
    for change in changes:
        check(f"warning: it would fit with {change}\n" in text, "the summary lacks", change)
        memory = re.fullmatch("GPUs of at least ([0-9]+) GB", change)
        if memory:
            write("changed.yaml", TOPOLOGY.replace("16 GB", f"{memory.group(1)} GB"))
            planned(*SHORT, topology="changed.yaml")
        elif hosts := re.fullmatch(r"([0-9]+) more hosts? like that of (\w+)/.*", change):
            count = re.search(f"site: {hosts.group(2)}, count: ([0-9]+)", TOPOLOGY)
            more = f"{count.group(0)[:-len(count.group(1))]}{int(count.group(1)) + int(hosts.group(1))}"
            write("changed.yaml", TOPOLOGY.replace("16 GB", "3.6 GB").replace(count.group(0), more))
            planned(*SHORT, topology="changed.yaml")
        else:
            settings = [it.group(0) for it in re.finditer("(recompute|micro_batch|optimizer): [-a-z0-9]+", change)]
            check(settings, "an unknown change", change)
            write("changed.yaml", FREE.replace("global_batch: 24", ", ".join(["global_batch: 24", *settings])))
            planned(*SHORT, topology="tight.yaml", job="changed.yaml")
    check(all(not it["simulated"] for it in plan["finalists"]), "what does not fit was simulated", plan["finalists"])
    planned(*SHORT, topology="tight.yaml", status=3)
    done = run("tight.yaml", "--score", "made.json", program=PLAN, status=3)
    check("warning: the plan does not fit the memory of its devices: " in done.stdout, done.stdout)
    # The requested shape prevents a plan; another shape fits.
    write("some.yaml", TOPOLOGY.replace("16 GB", "4.3 GB"))
    plan, _ = planned(*SHORT, "--pipeline", 1, topology="some.yaml", status=3)
    check(any(note.startswith("it would fit with --pipeline auto: a plan of ") for note in plan["warnings"]), plan["warnings"])
    planned(*SHORT, "--pipeline", "auto", topology="some.yaml")


def test_rejected_input():
    there = "there are 8 devices, 12 layers and 24 micro-batches"
    what = ("sites.yaml", "--job", "free.yaml")
    refused(f"--pipeline: no plan of 100 stages is possible: {there}", *what, "--pipeline", 100)
    refused(f"--data: no plan of 9 replicas is possible: {there}", *what, "--data", 9)
    refused(f"--pipeline: no plan of 3 stages and 3 replicas is possible: {there}", *what, "--pipeline", 3, "--data", 3)
    write("deep.yaml", JOB.replace("pipeline: 3", "pipeline: 100"))
    refused(f"job small: no plan of 100 stages is possible: {there}", "sites.yaml", "--job", "deep.yaml")
    refused("no host has 2 devices, which every stage needs", *what, "--tensor", 2)
    write("bare.yaml", re.sub("gpus: .*\n|, gpu: card", "", TOPOLOGY))
    refused("the speed of device oregon/0 is unknown: it has no `gpu` in the topology", "bare.yaml", "--job", "free.yaml")


def test_threads_and_seeds():
    write("noise.yaml", "version: 1\nname: noise\ncompute_jitter: {kind: lognormal, cv: 0.5}\n")
    outputs = set()
    for threads in (1, 2, 3, 8, 2):
        _, text = planned("--seed", 5, "--evaluations", 4000, "--threads", threads, "--scenario", "noise.yaml", job="open.yaml")
        outputs.add((text, Path("made.json").read_text(encoding="utf-8")))
    check(len(outputs) == 1, "other bytes for other threads, or for the same input and seed")


def test_time_limit():
    plan, text = planned("--time-limit", 0.001, "--evaluations", 10**12)
    note = "stopped by --time-limit: another run may give another plan"
    check(plan["search"]["stopped"] == "time-limit", plan["search"])
    check(note in plan["warnings"] and f"warning: {note}\n" in text, "no warning", plan["warnings"])


def interrupted(kind, note, *more):
    """Signals an endless run at increasing times until its result contains `note`."""
    command = [PLAN, "sites.yaml", "--job", "free.yaml", "-o", "cut.json", "--quiet", *map(str, more)]
    for wait_s in (0.25, 0.5, 1, 2, 4, 8, 16, 32):
        Path("cut.json").unlink(missing_ok=True)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(wait_s)
            process.send_signal(kind)
            out, err = process.communicate(timeout=120)
        if process.returncode == -kind and not out and not err:
            continue  # on a busy machine the signal can come before the program handles it
        check(process.returncode == 130, "exit", process.returncode, "after", kind, err)
        if not Path("cut.json").exists():
            check("interrupted before there was a plan" in err and out == "", "no plan, and", err, out)
        elif any(note in it for it in read("cut.json")["warnings"]):
            break
    else:
        check(False, "no run was", note)
        return
    check(f"warning: {note}" in out, "the summary does not say", note, out)
    check(read("cut.json")["finalists"][0]["simulated"] == {}, "runs that were cut short count", read("cut.json")["finalists"])
    run("sites.yaml", "--score", "cut.json", program=PLAN)
    check(not list(Path().glob(".dtfm-*")), "files are left over")


def test_interrupt():
    planned(*SHORT)
    for kind in (signal.SIGINT, signal.SIGTERM):
        interrupted(kind, "interrupted: this is the best plan so far", "--evaluations", 10**12)
    # Few candidates, and simulations that take hours.
    write("long.yaml", "version: 1\nname: long\nhorizon: 1000000000 s\ncompute_jitter: {kind: lognormal, cv: 0.05}\n")
    interrupted(signal.SIGINT, "interrupted before the finalists were simulated", *SHORT, "--scenario", "long.yaml")


def test_batch_of_one_sequence():
    """Regression test: with a batch of 1, data of the search was read after it had been reallocated."""
    write("one.yaml", OPEN.replace("global_batch: 24", "global_batch: 1").replace("micro_batch: auto", "micro_batch: 1"))
    planned(job="one.yaml")


def test_smallest_cluster():
    """Without a limit, one device holds the model; with one, the plan is at most as slow as the limit."""
    plan, text = planned(*SHORT, "--objective", "smallest-cluster")
    answer = plan["smallest_cluster"]
    check(answer["by"] == "devices" and answer["value"] == len(used(plan)) == 1 and answer["is_proven"], answer)
    check("Smallest cluster for a plan that fits in memory: 1 device" in text and "proven minimal" in text, text)
    alone = plan["estimate"]["iteration_time_s"]
    plan, text = planned(*SHORT, "--objective", "smallest-cluster", "--max-iteration-time", f"{0.6 * alone:.6f}")
    answer = plan["smallest_cluster"]
    check(answer["is_met"] and answer["value"] == len(used(plan)) > 1, answer)
    check(plan["finalists"][0]["simulated"]["nominal"]["mean_s"] <= 0.6 * alone, "the plan is too slow", answer)
    check(answer["lower_bound"] <= answer["value"], answer)
    costs = [cluster["devices"] for cluster in answer["tried"]]
    check(costs == sorted(costs), costs)
    out_of_reach, text = planned(*SHORT, "--objective", "smallest-cluster", "--max-iteration-time", "0.001", status=3)
    check(not out_of_reach["smallest_cluster"]["is_met"] and "No cluster found" in text, text)


def test_least_bandwidth():
    """Below the least bandwidth in the table, iterations are too long."""
    plan, text = planned(*SHORT, "--objective", "least-bandwidth", "--link", "oregon,ohio")
    answer = plan["least_bandwidth"]
    check(answer["sites"] == ["oregon", "ohio"], answer)
    check(math.isclose(answer["max_iteration_time_s"], answer["unlimited_iteration_time_s"] / 0.95), answer)
    rows = answer["rows"]
    check(all(a["iteration_time_s"] >= b["iteration_time_s"] * (1 - 1e-9) for a, b in zip(rows, rows[1:])), rows)
    check(any(close(row["factor"], 1) and close(row["bandwidth_bps"], 0.5e9) for row in rows), rows)
    least = [row["bandwidth_bps"] for row in rows if row["is_enough"]]
    check(answer["least_bps"] == least[0], answer)
    check("Least bandwidth between oregon and ohio" in text, text)
    plan, _ = planned(*SHORT, "--objective", "least-bandwidth", "--link", "oregon,oregon")
    check(plan["least_bandwidth"]["sites"] == ["oregon", "oregon"], "the link inside a site", plan["least_bandwidth"])


def test_rejected_questions():
    refused("--max-iteration-time: requires --objective smallest-cluster or least-bandwidth",
            "sites.yaml", "--max-iteration-time", "3")
    refused("--link: requires --objective least-bandwidth", "sites.yaml", "--link", "oregon,ohio")
    refused("--link: expected `SITE-SITE: LATENCY BANDWIDTH` with --gpus, or SITE,SITE with --objective least-bandwidth; found `oregon`",
            "sites.yaml", "--objective", "least-bandwidth", "--link", "oregon")
    refused("--link: unknown site `ohoi`; did you mean `ohio`?",
            "sites.yaml", "--objective", "least-bandwidth", "--link", "oregon,ohoi")
    refused("--score: cannot be combined with --objective smallest-cluster",
            "sites.yaml", "--objective", "smallest-cluster", "--score", "made.json")
    refused("--min-throughput: expected a number from 0 to below 1; found `1`",
            "sites.yaml", "--objective", "least-bandwidth", "--min-throughput", "1")


if __name__ == "__main__":
    sys.exit(main(globals()))
