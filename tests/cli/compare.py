#!/usr/bin/env python3
"""dtfm-compare and dtfm-sim --scheme agree with each other and with dtfm-plan, for any number of
threads.

usage: compare.py DTFM-PLAN DTFM-SIM DTFM-COMPARE
"""
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from iteration import FREE, TOKENS, read, write
from iteration import TOPOLOGY as FILE_ORDER
from simulate import PLAN, SIM, check, close, main, run

COMPARE = sys.argv[3]
OREGON, OHIO = ("  - {site: %s, count: 4, gpu: card}\n" % site for site in ("oregon", "ohio"))
# In canonical order, so that dtfm-plan, which plans in file order, makes the plan of the comparison.
TOPOLOGY = FILE_ORDER.replace(OREGON + OHIO, OHIO + OREGON)
# So fast that all schemes use all devices.
FAST = TOPOLOGY.replace("5 ms, bandwidth: 2 Gbps", "10 us, bandwidth: 400 Gbps").replace("50 ms, bandwidth: 0.5 Gbps", "1 ms, bandwidth: 100 Gbps")
SLOW = """\
version: 1
name: slow
events: [{at: 0 s, device: oregon/0, speed: 0.25}]
"""


# Takes hours to simulate: with jitter, every iteration is replayed.
LONG = "version: 1\nname: long\nhorizon: 1000000000 s\ncompute_jitter: {kind: lognormal, cv: 0.05}\n"
SMALL = FREE.replace("layers: 12", "layers: 4")  # small enough to enumerate plans


def compared(*more, status=0, topology="sites.yaml", job=SMALL):
    write("sites.yaml", TOPOLOGY)
    write("free.yaml", job)
    job = () if "--job" in more else ("--job", "free.yaml")
    run(topology, *job, "-o", "table.json", "--quiet", *more, program=COMPARE, status=status)
    return read("table.json")


def read_text(name):
    return Path(name).read_text(encoding="utf-8")


def rows(document):
    return {row["scheme"]: row for row in document["schemes"]}


def test_rows_agree_with_the_other_programs():
    table = rows(compared(job=FREE))
    run("sites.yaml", "--job", "free.yaml", "-o", "plan.json", "--quiet", program=PLAN)
    for scheme, arguments in [("planned", ("plan.json",))] + [
            (name, ("--scheme", name, "--job", "free.yaml")) for name in table if name != "swarm" and not name.startswith("planned")]:
        run("sites.yaml", *arguments, "-o", "run.json", "--quiet", program=SIM)
        seconds = TOKENS / read("run.json")["tokens_per_s"]
        check(close(table[scheme]["runs"][0]["seconds_per_batch"], seconds), scheme, table[scheme], seconds)
    times = [row["runs"][0]["seconds_per_batch"] for name, row in table.items() if name not in ("local-sgd", "diloco", "skip-pipe")]
    # only those that compute the same
    check(table["planned"]["runs"][0]["seconds_per_batch"] <= min(times) * 1.01, times)
    for name, row in table.items():
        its, first = row["runs"][0], table["planned"]["runs"][0]
        check(close(its["time_ratio"], its["seconds_per_batch"] / first["seconds_per_batch"]), name, its)
        check("micro-batch" in row["layout"]["description"], name, row["layout"])


def test_shape_of_the_job():
    write("shaped.yaml", SMALL + "parallelism: {pipeline: 2, data: 1}\n")
    write("fast.yaml", FAST)
    rows_of = compared("--job", "shaped.yaml", topology="fast.yaml")["schemes"]
    for row in rows_of:
        if row["scheme"].startswith("planned") and row["runs"]:
            check((row["layout"]["pipeline"], row["layout"]["data"]) == (2, 1), row["layout"])
    check(any(row["no_layout_reason"] == "zero2 requires pipelines of one stage, but the job has pipeline 2" for row in rows_of), rows_of)


def test_speedups():
    """Their factors multiply, and are the ratios of rows that dtfm-plan gives for the same settings."""
    table = compared()
    row = rows(table)
    speedups = {it["scheme"]: it for it in table["speedups"]}
    check(set(speedups) == {"megatron", "megatron-random", "deepspeed", "gpipe-random", "data-parallel", "zero2", "zero3", "single-gpu"}, set(speedups))
    seconds = lambda name: row[name]["runs"][0]["seconds_per_batch"]
    for name, it in speedups.items():
        check(close(it["total"], it["placement"] * it["schedule"] * it["collective"]), it)
        check(close(it["total"], row[name]["runs"][0]["time_ratio"]), it)
        check(it["placement"] > 0.99, "a plan is slower than a scheme with the same schedule and collective", it)
    check(close(speedups["megatron"]["placement"], seconds("megatron") / seconds("planned (1f1b-blocking, ring)")), speedups)
    check(close(speedups["megatron"]["schedule"], seconds("planned (1f1b-blocking, ring)") / seconds("planned (gpipe, ring)")), speedups)
    check(speedups["single-gpu"]["schedule"] == speedups["single-gpu"]["collective"] == 1, speedups)
    check(speedups["data-parallel"]["schedule"] == 1, speedups)
    for settings in ("1f1b-blocking, ring", "gpipe, ring"):
        schedule, sync = settings.split(", ")
        write("settings.yaml", SMALL + f"parallelism: {{schedule: {schedule}, gradient_sync: {sync}}}\n")
        run("sites.yaml", "--job", "settings.yaml", "-o", "settings.json", "--quiet", program=PLAN)
        run("sites.yaml", "settings.json", "-o", "run.json", "--quiet", program=SIM)
        check(close(seconds(f"planned ({settings})"), TOKENS / read("run.json")["tokens_per_s"]), settings)
    check(compared("--scheme", "planned")["speedups"] == compared("--scheme", "megatron")["speedups"] == [], "speed-ups of one scheme")
    text = run("sites.yaml", "--job", "free.yaml", "--scheme", "planned", "--scheme", "megatron", "--quiet", program=COMPARE).stdout
    check("speed-up over  total" in text and "total = placement × schedule × collective" in text, text)


def test_batch():
    """--batch changes the job's global batch."""
    write("double.yaml", SMALL.replace("global_batch: 24", "global_batch: 48"))
    write("pairs.yaml", SMALL.replace("global_batch: 24", "global_batch: 24, micro_batch: 2"))
    schemes = ("--scheme", "planned", "--scheme", "megatron")
    by_job = compared("--job", "double.yaml", *schemes)
    by_option = compared("--batch", 48, *schemes)
    check(by_option["batch"] == 48 and by_option == by_job, by_option, by_job)
    for job, batch, message in (("free.yaml", "0", "expected a whole number from 1 to 1000000000; found `0`"),
                                ("pairs.yaml", "25", "25 is not a multiple of the micro-batch, 2")):
        done = run("sites.yaml", "--job", job, "--batch", batch, program=COMPARE, status=2)
        check(done.stderr == f"dtfm-compare: --batch: {message}\n" and done.stdout == "", repr(done.stderr))


def test_images():
    """Models of images are counted in images."""
    write("priced.yaml", TOPOLOGY.replace("name: card,", "name: card, price: 1 USD/h,"))
    write("images.yaml", "version: 1\nname: images\nmodel: {preset: resnet-50}\ntraining: {global_batch: 24}\n"
                         "profile: {analytic: true, efficiency: 0.3}\n")
    schemes = ("--scheme", "data-parallel", "--scheme", "swarm")
    table = compared("--job", "images.yaml", *schemes, topology="priced.yaml")
    for row in table["schemes"]:
        its = row["runs"][0]
        check(close(its["seconds_per_batch"], 24 / its["images_per_s"]) and its["cost_per_million_images"] > 0, its)
    text = run("priced.yaml", "--job", "images.yaml", *schemes, "--quiet", program=COMPARE).stdout
    header = text.split("\nnominal\n")[1].splitlines()[0]
    check(header.split("  ")[0] == "scheme" and "images/s" in header and "USD/M images" in header, header)
    check("token" not in header and "tokens_per_s" not in json.dumps(table), header)
    done = run("priced.yaml", "--scheme", "swarm", "--job", "images.yaml", "-o", "swarm.json", "--quiet", program=SIM)
    result = read("swarm.json")
    swarm_row = rows(table)["swarm"]["runs"][0]
    check(result["images_per_s"] == swarm_row["images_per_s"], result["images_per_s"], swarm_row)
    check(result["swarm"]["cost_per_million_images"] == swarm_row["cost_per_million_images"], result["swarm"], swarm_row)
    check(" images/s" in done.stdout and "USD/M images" in done.stdout and "tokens" not in done.stdout, done.stdout)


def test_any_order_of_lines():
    """The table is the same for any order of lines in the topology file, and names the devices of every row."""
    entries = ("  - {site: b, count: 2, gpu: card}\n", "  - {site: a, hosts: 1, gpus_per_host: 2, gpu: fast}\n")
    gpus = "gpus: [{name: card, memory: 16 GB, peak: 10 TFLOP/s}, {name: fast, memory: 16 GB, peak: 50 TFLOP/s}]\n"
    links = "links:\n" + "".join(TOPOLOGY.split("links:\n")[1].splitlines(keepends=True)) + "  - {within: host, latency: 10 us, bandwidth: 100 Gbps}\n"
    tables = []
    for order in (entries, entries[::-1]):
        write("order.yaml", "version: 1\nname: order\n" + gpus + "devices:\n" + "".join(order) + links)
        table = compared(topology="order.yaml")
        tables.append(Path("table.json").read_bytes())
    check(tables[0] == tables[1], "the order of lines changes the comparison")
    layout = rows(table)["megatron"]["layout"]
    check(layout["devices"] == [{"site": "a", "gpu": "fast", "count": 2}], layout)
    check(layout["description"].startswith("2 of 4 devices: a×2; "), layout)
    check(layout["simulated"] <= layout["tried"], layout)


def test_any_number_of_threads():
    compared("--threads", 1)
    one = Path("table.json").read_bytes()
    compared("--threads", 3)
    check(Path("table.json").read_bytes() == one, "threads change the comparison")


def test_seed_affects_random_ranks_only():
    """On equal devices of one site, ranks at random are as fast; tests/api/schemes.cpp checks the ranks."""
    first, second = rows(compared()), rows(compared("--seed", 5))
    for name in ("megatron", "deepspeed", "local-sgd", "zero2"):
        check(first[name] == second[name], "a seed changes what has no ranks at random", name)


def test_rare_synchronization():
    times = [rows(compared("--scheme", "local-sgd", "--sync-every", n))["local-sgd"]["runs"][0]["seconds_per_batch"] for n in (1, 4, 64)]
    check(times[0] > times[1] > times[2], times)


def test_skipped_stages():
    """The more stages are skipped, the less is computed for the same number of tokens; device failures
    are rejected."""
    flops = []
    for share in (0, 0.25, 0.5):
        row = rows(compared("--scheme", "skip-pipe", "--skip", share, job=FREE))["skip-pipe"]
        run_of, layout = row["runs"][0], row["layout"]
        check(layout["skipped"] <= share * layout["pipeline"] and layout["greedy_paths"] == 0, layout)
        flops.append(run_of["model_flops_per_s"] / run_of["tokens_per_s"] / (1 - layout["skipped"] / layout["pipeline"]))
    check(all(abs(it / flops[0] - 1) < 0.1 for it in flops), flops)  # the last stage has the head
    write("leaves.yaml", "version: 1\nname: leaves\nevents: [{at: 2 s, device: oregon/1, leave: true}]\nhorizon: 60 s\n")
    row = rows(compared("--scheme", "skip-pipe", "--scenario", "leaves.yaml", job=FREE))["skip-pipe"]
    check("devices that leave or are excluded are not supported" in row["runs"][1]["stopped"], row)


def test_scenarios():
    write("slow.yaml", SLOW)
    for name, row in rows(compared("--scenario", "slow.yaml")).items():
        quiet, slow = row["runs"]
        check(quiet["scenario"] is None and slow["scenario"] == "slow", row)
        check(slow["seconds_per_batch"] >= quiet["seconds_per_batch"] - 1e-9, name, row)
    text = run("sites.yaml", "--job", "free.yaml", "--scenario", "slow.yaml", "--scheme", "megatron", "--quiet",
               program=COMPARE).stdout
    check("scenario slow" in text and "megatron" in text and "zero3" not in text, text)


def test_events_after_the_end_change_no_rate():
    """Nor is that of a swarm, whose first step includes its warm-up."""
    write("late.yaml", "version: 1\nname: late\nevents: [{at: 100000000 s, device: oregon/1, leave: true}]\n")
    same = []
    for name, row in rows(compared("--scenario", "late.yaml")).items():
        quiet, late = row["runs"]
        if late["stopped"] is None:
            check(close(late["seconds_per_batch"], quiet["seconds_per_batch"]), name, row)
            same.append(name)
    check({"planned", "megatron", "data-parallel", "swarm"} <= set(same), same)


def test_planned_rates_include_device_failures():
    """Times under a scenario are those of the whole run, as in the comparison; a plan may therefore
    leave a device unused."""
    write("hour.yaml", "version: 1\nname: hour\nevents: [{at: 0.2 s, device: ohio/1, leave: true}, {at: 0.3 s, device: ohio/1, join: true}]\n"
                       "recovery: {detection: 1 h, checkpoint: {bandwidth: 1 Gbps}}\n")
    write("sites.yaml", TOPOLOGY)
    write("free.yaml", SMALL)
    run("sites.yaml", "--job", "free.yaml", "-o", "plan.json", "--quiet", program=PLAN)
    run("sites.yaml", "plan.json", "--scenario", "hour.yaml", "-o", "run.json", "--quiet", program=SIM)
    result = read("run.json")
    of_iteration = result["length_s"] / len(result["iterations"])
    check(of_iteration > 1000 and close(TOKENS / result["tokens_per_s"], of_iteration), result["tokens_per_s"], of_iteration)
    planned = rows(compared("--scenario", "hour.yaml", "--scheme", "planned"))["planned"]["runs"][1]
    check(close(planned["seconds_per_batch"], of_iteration), planned, of_iteration)
    run("sites.yaml", "--job", "free.yaml", "--scenario", "hour.yaml", "-o", "robust.json", "--quiet", program=PLAN)
    simulated = [it["simulated"] for it in read("robust.json")["finalists"]]
    means = [it["hour"]["mean_s"] for it in simulated]  # the undisturbed run does not count where devices leave
    check(means[0] == min(means) < 1, means, of_iteration)


def test_out_of_memory():
    write("little.yaml", TOPOLOGY.replace("memory: 16 GB", "memory: 4 GB"))
    row = rows(compared("--scheme", "single-gpu", "--scheme", "zero3", topology="little.yaml", job=FREE))
    check(row["single-gpu"]["runs"] == [] and "needs" in row["single-gpu"]["no_layout_reason"], row)
    check(row["zero3"]["runs"], row)
    write("less.yaml", TOPOLOGY.replace("memory: 16 GB", "memory: 1 MB"))
    table = compared(topology="less.yaml", status=3)
    check(all(not row["runs"] for row in table["schemes"]), table)
    done = run("less.yaml", "--scheme", "megatron", "--job", "free.yaml", program=SIM, status=3)
    check(done.stderr.startswith("dtfm-sim: no layout of megatron: does not fit: ohio/0 needs "), done.stderr)


def test_verification():
    """With verification, a share p of a swarm's calls is computed twice: 1 / (1 + p) of the throughput
    if compute-bound, otherwise less loss."""
    table = [rows(compared("--scheme", "swarm", "--verify", share, "--iterations", 10))["swarm"] for share in (0, 0.5)]
    plain, verified = (row["runs"][0] for row in table)
    check("verification" not in plain and "second peer" not in table[0]["assumptions"], table[0])
    check("a second peer recomputes 50 % of the calls" in table[1]["assumptions"], table[1])
    found = verified["verification"]
    check(found["verified_calls"] > 0 and found["compute_s"] > 0 and found["sent_bytes"] > 0 and found["detected"] == [], found)
    check(1 < verified["seconds_per_batch"] / plain["seconds_per_batch"] < 1.6, plain, verified)
    faulty = rows(compared("--scheme", "swarm", "--verify", 0.5, "--faulty-peers", 0.2, "--iterations", 10))["swarm"]["runs"][0]["verification"]
    check(faulty["detected"] and all(peer["samples"] >= peer["calls"] >= 1 for peer in faulty["detected"]), faulty)
    text = run("sites.yaml", "--job", "free.yaml", "--scheme", "swarm", "--verify", 0.5, "--quiet", program=COMPARE).stdout
    check("calls verified" in text, text)
    for option in ("--verify", "--faulty-peers"):
        for value in ("-0.1", "1.1", "nan", "", "10%"):
            done = run("sites.yaml", f"{option}={value}", program=COMPARE, status=2)
            check(done.stderr.startswith(f"dtfm-compare: {option}: "), value, repr(done.stderr))


def swarm(*more, topology="sites.yaml", status=0):
    """Returns the result file of dtfm-sim."""
    write("sites.yaml", TOPOLOGY)
    write("free.yaml", SMALL)
    run(topology, "--scheme", "swarm", "--job", "free.yaml", "-o", "swarm.json", "--quiet", *more, program=SIM, status=status)
    return read("swarm.json")


def test_swarm_simulation_equals_the_table():
    """A swarm has the same numbers under every scenario for any number of threads, and its own fields."""
    write("priced.yaml", TOPOLOGY.replace("name: card,", "name: card, price: 1 USD/h,"))
    write("leaves.yaml", "version: 1\nname: leaves\nevents: [{at: 2 s, device: oregon/1, leave: true}]\nhorizon: 60 s\n")
    options = ("--verify", 0.5, "--faulty-peers", 0.2, "--seed", 5)
    runs = rows(compared("--scheme", "swarm", "--scenario", "leaves.yaml", *options, topology="priced.yaml"))["swarm"]["runs"]
    for its, scenario in zip(runs, ((), ("--scenario", "leaves.yaml"))):
        document = swarm(*scenario, *options, "--threads", 1, topology="priced.yaml")
        once = Path("swarm.json").read_bytes()
        check(swarm(*scenario, *options, "--threads", 3, topology="priced.yaml") and Path("swarm.json").read_bytes() == once, "threads change a swarm")
        found = document["swarm"]
        check(its["tokens_per_s"] == document["tokens_per_s"] and its["cost_per_million_tokens"] == found["cost_per_million_tokens"], its, found)
        check([its["length_s"], its["lost_work_s"], its["verification"]] == [document[key] for key in ("length_s", "lost_work_s", "verification")], its)
        check(its["iterations"] == len(document["iterations"]) and its["sent_bytes"] == sum(link["bytes"] for link in document["links"]), its)
        check(found["useful_samples"] == min(stage["accepted_samples"] + stage["held_samples"] for stage in found["stages"]), found)
        check(all(close(device["compute_s"] + device["waiting_s"] + device["down_s"], document["length_s"]) for device in document["devices"]), document)
        check(close(document["bubble"], 1 - sum(device["compute_s"] for device in document["devices"]) / document["length_s"] / 8), document)
    check(swarm("--seed", 6)["iterations"] != swarm("--seed", 5)["iterations"], "a seed changes nothing")
    text = run("priced.yaml", "--scheme", "swarm", "--job", "free.yaml", *options, "--quiet", program=SIM).stdout
    check(all(words in text for words in ("a swarm of ", "samples/s", "USD/M tokens", "useful", "calls verified", "idle", "stage  layers")), text)


def test_verification_needs_two_peers():
    """The fastest swarm of a wide model has stages of a single peer, which cannot be verified. With
    verification, every stage has a second peer if possible; otherwise a note says so."""
    def layout(topology, *more, job=FREE.replace("hidden: 512", "hidden: 1024")):
        row = rows(compared("--scheme", "swarm", "--iterations", 6, *more, topology=topology, job=job))["swarm"]
        return row["layout"], row["runs"][0].get("verification")

    check(layout("sites.yaml")[0]["pipeline"] > 4, layout("sites.yaml"))
    found, verified = layout("sites.yaml", "--verify", 0.3)
    check(found["pipeline"] <= 4 and "not verified" not in found["description"] and verified["verified_calls"] > verified["unverified_calls"], found, verified)
    write("pair.yaml", TOPOLOGY.replace("count: 4, gpu: card", "count: 1, gpu: card").replace("memory: 16 GB", "memory: 4.12 GB"))
    found, verified = layout("pair.yaml", "--verify", 0.3, job=FREE)
    check(found["description"].endswith(", partly not verified") and verified["verified_calls"] == 0, found, verified)


def test_swarm_rate_is_steady():
    """The default number of steps gives the rate of a long run, although steps of a small batch finish in bursts."""
    few, many = [rows(compared("--scheme", "swarm", "--batch", 4, *more))["swarm"]["runs"][0]["tokens_per_s"]
                 for more in ((), ("--iterations", 2000))]
    check(abs(few / many - 1) < 0.05, few, many)


def test_stages_of_a_swarm():
    """A swarm has as many stages as the job gives, even if they do not divide the 12 layers."""
    def run_with(stages, **more):
        write("stages.yaml", FREE + f"parallelism: {{pipeline: {stages}}}\n")
        return run("sites.yaml", "--scheme", "swarm", "--job", "stages.yaml", "-o", "swarm.json", "--quiet", program=SIM, **more)

    write("sites.yaml", TOPOLOGY)
    for stages in (1, 5):
        run_with(stages)
        check(len(read("swarm.json")["swarm"]["stages"]) == stages, stages, read("swarm.json")["swarm"]["stages"])
        row = rows(compared("--job", "stages.yaml", "--scheme", "swarm"))["swarm"]
        check(row["layout"]["pipeline"] == stages and row["layout"]["micro_batch"] == 1, row)
    message = "no layout of swarm: `pipeline: 9` in the job exceeds the 8 devices"
    check(message in run_with(9, status=3).stderr, message)
    layout = rows(compared("--scheme", "swarm", job=SMALL.replace("global_batch: 24", "global_batch: 24, micro_batch: [2, 4]")))["swarm"]["layout"]
    check(layout["micro_batch"] in (2, 4) and f"micro-batch {layout['micro_batch']}" in layout["description"], layout)


def test_swarms_without_a_step():
    """A horizon that is too short is not an error, but a swarm that all peers leave is: the run does
    not wait forever."""
    write("short.yaml", "version: 1\nname: short\nhorizon: 0.1 s\n")
    document = swarm("--scenario", "short.yaml")
    check(document["iterations"] == [] and document["tokens_per_s"] is None and "before the end of the first" in document["notes"][0], document)
    write("dead.yaml", "version: 1\nname: dead\nevents:\n" +
          "".join(f"  - {{at: 0.2 s, device: {site}/{i}, leave: true}}\n" for site in ("oregon", "ohio") for i in range(4)))
    document = swarm("--scenario", "dead.yaml", status=3)
    check(document["stopped"].startswith("0 of 100 steps in ") and document["swarm"]["failures"] == 8, document)


def test_device_failures():
    """Dollars and rates are those of useful work; ZeRO has no copies; schemes with a planner replan."""
    write("priced.yaml", TOPOLOGY.replace("name: card,", "name: card, price: 1 USD/h,"))
    write("leaves.yaml", "version: 1\nname: leaves\nevents: [{at: 2 s, device: ohio/0, leave: true}]\nhorizon: 60 s\n")
    table = rows(compared("--scenario", "leaves.yaml", topology="priced.yaml"))
    run("priced.yaml", "--job", "free.yaml", "-o", "plan.json", "--quiet", program=PLAN)
    run("priced.yaml", "plan.json", "--scenario", "leaves.yaml", "-o", "run.json", "--quiet", program=SIM)
    result = read("run.json")
    useful, planned = result["useful_work"], table["planned"]["runs"][1]
    check(close(planned["tokens_per_s"], useful["samples_per_s"] * 512), planned, useful)
    # at 1 USD/h; unused devices cost nothing
    there_s = sum(result["length_s"] - device["down_s"] for device in result["devices"])
    check(close(planned["cost_per_million_tokens"], there_s / 3600 / (useful["samples"] * 512) * 1e6), planned, result)
    swarm = table["swarm"]["runs"][1]
    check(close(swarm["tokens_per_s"], swarm["iterations"] * TOKENS / swarm["length_s"]), swarm)
    write("fast.yaml", FAST)
    zero3 = rows(compared("--scenario", "leaves.yaml", "--scheme", "zero3", topology="fast.yaml"))["zero3"]
    check("device failures are not supported with zero3" in zero3["runs"][1]["stopped"], zero3)
    write("replan.yaml", "version: 1\nname: replan\nevents: [{at: 2 s, device: ohio/0, leave: true}]\nrecovery: {policy: replan}\n"
          "horizon: 60 s\n")
    table = rows(compared("--scenario", "replan.yaml", "--scheme", "planned", "--scheme", "megatron"))
    check(table["planned"]["runs"][1]["tokens_per_s"], table)
    check("policy replan" in table["megatron"]["runs"][1]["stopped"], table)


def test_open_sharding_under_device_failures():
    """Without a checkpoint no sharded optimizer survives a departure, so the planner leaves them out, as dtfm-plan does."""
    write("leaves.yaml", "version: 1\nname: leaves\nevents: [{at: 2 s, device: oregon/1, leave: true}]\nhorizon: 60 s\n")
    write("open.yaml", FREE + "parallelism: {gradient_sync: ring, optimizer_sharding: auto}\n")
    table = rows(compared("--job", "open.yaml", "--scenario", "leaves.yaml", "--scheme", "planned"))
    check(table["planned"]["runs"][1]["tokens_per_s"] > 0, table)
    write("fixed.yaml", FREE + "parallelism: {gradient_sync: ring, optimizer_sharding: zero1}\n")
    done = run("sites.yaml", "--job", "fixed.yaml", "--scenario", "leaves.yaml", program=PLAN, status=2)
    check("optimizer_sharding zero1 cannot run under these scenarios, because no other device has" in done.stderr, done.stderr)


def test_runs_that_end_early():
    """Schemes whose run ends early are ranked last, whatever their rate; if rates are over different
    periods, a note says so."""
    write("gone.yaml", "version: 1\nname: gone\nhorizon: 60 s\nevents:\n" +
          "".join(f"  - {{at: 50 s, device: ohio/{i}, leave: true}}\n" for i in range(4)))
    machines = ("sites.yaml", "--job", "free.yaml", "--quiet")
    compared("--scheme", "megatron")
    text = run(*machines, "--scenario", "gone.yaml", program=COMPARE).stdout
    quiet, gone = (part.split("\n\n")[0] for part in text.split("tokens/s", 2)[1:])
    check("\nrates are over 3 iterations; of local-sgd over 48; of diloco over 1,500" in quiet, quiet)
    check("rates are over" not in gone, gone)  # of the horizon
    lines = gone.splitlines()[1:-1]  # the last line explains the times
    cells = lambda line: re.split("  +", line)
    groups = [2 if cells(line)[1] == "–" else 1 if "; stopped: " in line else 0 for line in lines]
    check(groups == sorted(groups) and set(groups) == {0, 1, 2}, gone)
    rates = [(group, float(cells(line)[2])) for group, line in zip(groups, lines) if group < 2]
    check(max(rate for group, rate in rates if group == 1) > min(rate for group, rate in rates if group == 0), rates)
    text = run(*machines, "--scheme", "megatron", "--scheme", "zero2", program=COMPARE).stdout
    check("rates are over" not in text, text)


def test_a_job_that_no_plan_can_run():
    write("wide.yaml", FREE.replace("global_batch: 24}", "global_batch: 24}\nparallelism: {tensor: 2}"))
    table = rows(compared("--job", "wide.yaml", "--scheme", "planned", "--scheme", "megatron"))
    check(table["planned"]["runs"] == [] and table["planned"]["no_layout_reason"], table)
    check(table["megatron"]["runs"], table)


def test_input_errors():
    """Scheme errors independent of the machines are bad input rather than an infeasible result, and
    nothing is written."""
    mixed = TOPOLOGY.replace("gpus: [", "gpus: [{name: odd, memory: 16 GB}, ").replace("site: ohio, count: 4, gpu: card", "site: ohio, count: 4, gpu: odd")
    write("mixed.yaml", mixed)
    write("unknown.yaml", mixed.replace("gpu: card", "gpu: odd"))
    write("coded.yaml", FREE + "compression: {gradients: 8-bit}\n")
    bandwidth = ("the duration of compression on device ohio/0 (odd) is unknown: set `memory_bandwidth` of the GPU, "
                 "or `throughput` of `compression`")
    peak = "device ohio/0: times on GPU odd cannot be estimated: its entry in the catalogue has no `peak`"
    for message, program, arguments in [
            (f"dtfm-compare: {bandwidth}\n", COMPARE, ("mixed.yaml", "--job", "coded.yaml")),
            (f"dtfm-sim: {bandwidth}\n", SIM, ("mixed.yaml", "--job", "coded.yaml", "--scheme", "single-gpu")),
            (f"dtfm-plan: {bandwidth}\n", PLAN, ("mixed.yaml", "--job", "coded.yaml")),
            (f"dtfm-compare: no scheme can be simulated: {peak}\n", COMPARE, ("unknown.yaml", "--job", "free.yaml")),
            (f"dtfm-sim: no layout of zero3 can be simulated: {peak}\n", SIM, ("unknown.yaml", "--job", "free.yaml", "--scheme", "zero3")),
            (f"dtfm-sim: no layout of swarm can be simulated: {peak}\n", SIM, ("unknown.yaml", "--job", "free.yaml", "--scheme", "swarm"))]:
        write("free.yaml", FREE)
        done = run(*arguments, "-o", "faulty.json", "--quiet", program=program, status=2)
        check(done.stderr == message, repr(done.stderr), "instead of", repr(message))
        check(done.stdout == "" and not Path("faulty.json").exists(), "a fault writes")
    table = rows(compared(topology="mixed.yaml"))  # half of the machines are known
    check(table["single-gpu"]["runs"] and "odd" not in [it["gpu"] for it in table["zero3"]["layout"]["devices"]], table)
    write("few.yaml", FREE.replace("global_batch: 24", "global_batch: 4"))
    few = rows(compared("--job", "few.yaml", "--scheme", "zero3"))["zero3"]
    check(few["layout"]["data"] <= 4, "more replicas than sequences", few)


def has_page():
    return "built without the page" not in run("sites.yaml", "--report", "-", program=COMPARE, status=2).stderr


def interrupted():
    """Checks the results of endless runs that are signalled at increasing times until one has numbers."""
    outputs = ("-o", "cut.json", *(("--report", "cut.html") if has_page() else ()))
    command = [COMPARE, "sites.yaml", "--job", "free.yaml", "--scenario", "long.yaml", "--scheme", "megatron", "--scheme", "zero2", "--quiet"]
    for wait_s in (0.25, 0.5, 1, 2, 4, 8, 16, 32):
        with subprocess.Popen([*command, *outputs], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(wait_s)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        check(process.returncode == 130, "exit", process.returncode, err)
        if not Path("cut.json").exists():
            check("interrupted before there was a comparison" in err and out == "", "no comparison, and", err, out)
        elif any(run["tokens_per_s"] for row in read("cut.json")["schemes"] for run in row["runs"]):
            return read("cut.json"), out
    return None, "no run left a number"


def test_interrupt_keeps_partial_results():
    write("sites.yaml", TOPOLOGY)
    write("free.yaml", FREE)
    write("long.yaml", LONG)
    document, text = interrupted()
    check(document and document["stopped"] in text and document["stopped"].startswith("interrupted"), document, text)
    check(not list(Path().glob(".dtfm-*")), "files are left over")
    if has_page():
        page = read_text("cut.html")
        shown = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))
        check(shown["comparison"] == document, "the page is not about what the file says")
    check(compared("--scheme", "megatron")["stopped"] is None, "a whole comparison says that it is not")


def test_rejected_reports():
    write("sites.yaml", TOPOLOGY)
    write("free.yaml", FREE)
    write("page.html", "<!DOCTYPE html>")
    machines = ("sites.yaml", "--job", "free.yaml")
    refusals = [("--report: requires a file; stdout has the result or its summary", ("--report", "-")),
                ("free.yaml: cannot write: it exists and is not a report", ("--report", "free.yaml")),
                ("page.html: cannot write: it is an input", ("--scenario", "page.html", "--report", "page.html")),
                ("x.html: cannot write: it is given for two outputs", ("-o", "x.html", "--report", "x.html"))]
    without = ("--report: this program was built without the page, which requires npm: install it (package npm on Debian and Ubuntu), "
               "then configure and build again")
    for message, arguments in refusals if has_page() else [(without, ("--report", "x.html"))]:
        done = run(*machines, *arguments, program=COMPARE, status=2)
        check(done.stderr == f"dtfm-compare: {message}\n" and done.stdout == "", repr(done.stderr), "instead of", repr(message))
    check(not Path("x.html").exists() and read_text("free.yaml") == FREE, "a refusal writes")


def test_rejected_usage():
    write("sites.yaml", TOPOLOGY)
    for message, program, arguments in [
            ("dtfm-compare: --scheme: unknown scheme `zerro3`; did you mean `zero3`?\n", COMPARE, ("sites.yaml", "--scheme", "zerro3")),
            ("dtfm-compare: TOPOLOGY is missing (see dtfm-compare --help)\n", COMPARE, ()),
            ("dtfm-sim: --scheme: unknown scheme `megatrom`; did you mean `megatron`?\n", SIM, ("sites.yaml", "--scheme", "megatrom")),
            *[(f"dtfm-sim: {option}: cannot be combined with --scheme swarm\n", SIM, ("sites.yaml", "--scheme", "swarm", option, value))
              for option, value in [("--trace", "x.json"), ("--tasks", "x.csv"), ("--report", "x.html"), ("--samples", 2)]],
            *[(f"dtfm-{name}: {option}: requires --scheme {takers}\n", program, ("sites.yaml", "--scheme", scheme, option, value))
              for name, program in (("sim", SIM), ("compare", COMPARE))
              for option, value, takers, scheme in [("--sync-every", 2, "local-sgd or diloco", "megatron"), ("--sync-every", 2, "local-sgd or diloco", "swarm"),
                                                    ("--skip", 0.5, "skip-pipe", "swarm"), ("--verify", 0.5, "swarm", "zero2"), ("--faulty-peers", 0.5, "swarm", "skip-pipe")]],
            ("dtfm-sim: --verify: requires --scheme\n", SIM, ("sites.yaml", "plan.json", "--verify", 0.5)),
            *[(f"dtfm-{name}: --lying was renamed to --faulty-peers (see dtfm-{name} --help)\n", program, ("sites.yaml", *option))
              for name, program in (("sim", SIM), ("compare", COMPARE)) for option in (("--lying", 0.5), ("--lying=0.5",))],
            ("dtfm-sim: --faulty-peers: expected a number from 0 to 1; found `1.5`\n", SIM, ("sites.yaml", "--scheme", "swarm", "--faulty-peers", 1.5)),
            ("dtfm-sim: --sync-every: requires --scheme\n", SIM, ("sites.yaml", "plan.json", "--sync-every", 5)),
            ("dtfm-sim: --skip: requires --scheme\n", SIM, ("sites.yaml", "plan.json", "--skip", 0.5)),
            ("dtfm-compare: --skip: expected a number from 0 to below 1; found `1`\n", COMPARE, ("sites.yaml", "--skip", 1)),
            ("dtfm-compare: --skip: expected a number from 0 to below 1; found `-0.1`\n", COMPARE, ("sites.yaml", "--skip=-0.1")),
            ("dtfm-sim: --skip: expected a number from 0 to below 1; found `a half`\n", SIM, ("sites.yaml", "--scheme", "skip-pipe", "--skip", "a half")),
            ("dtfm-sim: PLAN: cannot be combined with --scheme\n", SIM, ("sites.yaml", "plan.json", "--scheme", "zero2"))]:
        done = run(*arguments, program=program, status=2)
        check(done.stderr == message, repr(done.stderr), "instead of", repr(message))
    names = run("--list-schemes", program=COMPARE).stdout
    check(all(name in names for name in ("planned", "megatron-random", "zero3", "skip-pipe")), names)
    document = json.loads(run("sites.yaml", "--scheme", "zero2", "--format", "json", "--quiet", program=COMPARE).stdout)
    check(document["schema"] == "dtfm-compare/1", document)


if __name__ == "__main__":
    sys.exit(main(globals()))
