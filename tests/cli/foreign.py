#!/usr/bin/env python3
"""Plans made by other programs or people: --score and dtfm-sim read them and report their errors.

usage: foreign.py DTFM-PLAN DTFM-SIM
"""
import json
import sys
from pathlib import Path

from simulate import BY_COST, JOB, PLAN, check, close, main, refused, run

# The worked example of Megatron's layouts: two pipelines of three stages, layers 3/2/2, on hosts of different
# sizes.
TOPOLOGY = """\
version: 1
name: three-hosts
gpus: [{name: card, memory: 16 GB, peak: 10 TFLOP/s, memory_bandwidth: 500 GB/s}]
devices:
  - {name: ga, site: a, gpus_per_host: 2, gpu: card}
  - {name: gb, site: b, gpu: card}
  - {name: gc, site: c, gpus_per_host: 3, gpu: card}
links:
  - {within: host, latency: 5 us, bandwidth: 100 Gbps}
  - {between: [a, b], latency: 50 ms, bandwidth: 0.5 Gbps}
  - {between: ["*", "*"], latency: 90 ms, bandwidth: 0.2 Gbps}
"""
PLACES = (("gc:1", "ga:0", "gc:0"), ("gb", "gc:2", "ga:1"))  # by pipeline and stage
LAYERS = ((0, 3), (3, 5), (5, 7))
FLAGS = """\
torchrun --nnodes 6 pretrain_gpt.py --tensor-model-parallel-size 1 --pipeline-model-parallel-size 3 \\
  --num-layers 7 --pipeline-model-parallel-layout "Ettt|tt|ttL" --micro-batch-size 1 --global-batch-size 24
"""


def table(places, layers):
    rows = [f"{device},{pipeline},{stage},{first},{end - 1}" for pipeline, devices in enumerate(places)
            for stage, (device, (first, end)) in enumerate(zip(devices, layers))]
    return "\n".join(["device,pipeline,stage,first_layer,last_layer", *rows, ""])


def write_files():
    files = {
        "hosts.yaml": TOPOLOGY,
        "seven.yaml": JOB.replace("layers: 12", "layers: 7"),
        "twelve.yaml": JOB,
        "own.json": json.dumps({"pipelines": [{"stages": [{"layers": layers, "devices": [device]}
                                                          for layers, device in zip(LAYERS, devices)]}
                                              for devices in PLACES]}),
        "table.csv": table(PLACES, LAYERS),
        "train.sh": FLAGS,
        "mapping.sh": FLAGS.rstrip() + " --use-tp-pp-dp-mapping\n",
        "stages.txt": "\n".join(device for stage in zip(*PLACES) for device in stage),
        "pipelines.txt": "\n".join(device for pipeline in PLACES for device in pipeline),
        # Ranks 0, 3 and 4 are on gc and take its devices in order, which differs from the example.
        "openmpi.txt": "".join(f"rank {rank}={host} slot=0-15\n" for rank, host in enumerate("gc gb ga gc gc ga".split())),
    }
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")


def simulated(*arguments):
    return json.loads(run("hosts.yaml", *arguments, "--job", "seven.yaml", "--format", "json").stdout)


def scored(*arguments, objective=BY_COST):
    done = run("hosts.yaml", "--job", "seven.yaml", "--score", *arguments, *objective, "--format", "json", program=PLAN)
    return json.loads(done.stdout)


def test_same_plan():
    """All formats of one plan have the same cost and time; a different order of the ranks does not."""
    write_files()
    times, costs, estimates = set(), set(), set()
    for arguments in (("own.json",), ("table.csv",), ("train.sh", "--ranks", "stages.txt"),
                      ("mapping.sh", "--ranks", "pipelines.txt")):
        times.add(simulated(*arguments)["iteration_time_s"]["mean"])
        plan = scored(*arguments)
        costs.add(plan["estimate"]["comm_cost"]["total_s"])
        judged = scored(*arguments, objective=())
        estimates.add(judged["estimate"]["iteration_time_s"])
        check(judged["objective"] == "iteration-time" and judged["pipelines"] == plan["pipelines"], "by time", arguments)
        check([[stage["devices"] for stage in pipeline["stages"]] for pipeline in plan["pipelines"]]
              == [[[device] for device in devices] for devices in PLACES], "another plan by", arguments)
        check([stage["layers"] for stage in plan["pipelines"][1]["stages"]] == [list(it) for it in LAYERS], plan)
    check(len(times) == len(costs) == len(estimates) == 1, "formats of one plan differ:", times, costs, estimates)
    judge_s = judged["finalists"][0]["simulated"]["nominal"]["mean_s"]
    check(all(close(judge_s, time) for time in times), "--score simulates", judge_s, "s and dtfm-sim", times)
    check(simulated("train.sh", "--ranks", "pipelines.txt")["iteration_time_s"]["mean"] not in times, "order of ranks")
    ranks = scored("train.sh", "--ranks", "openmpi.txt")["ranks"]["stage_major"]
    check(ranks == ["gc:0", "gb", "ga:0", "gc:1", "gc:2", "ga:1"], "local ranks", ranks)


def test_score_writes_a_plan():
    """--score converts a table to a plan file that simulates like the table."""
    run("hosts.yaml", "--job", "seven.yaml", "--score", "table.csv", "-o", "written.json", program=PLAN)
    check(json.loads(run("hosts.yaml", "written.json", "--format", "json").stdout)["iterations"]
          == simulated("table.csv")["iterations"], "the plan that was written is another one")


def test_uneven_virtual_stages():
    """A layout whose virtual stages differ, the last one without layers, is scored, written, simulated, compared
    and continued."""
    write_files()
    write = lambda name, text: Path(name).write_text(text, encoding="utf-8")
    write("chunks.yaml", JOB.replace("layers: 12", "layers: 7").replace("pipeline: 3", "pipeline: 3, schedule: interleaved, chunks: 2"))
    write("virtual.sh", FLAGS.replace("Ettt|tt|ttL", "Ett|t|t|tt|t|L"))
    done = run("hosts.yaml", "--job", "chunks.yaml", "--score", "virtual.sh", "--ranks", "stages.txt", "-o", "virtual.json",
               "--format", "json", program=PLAN)
    plan = json.loads(done.stdout)
    # Rank 0 has the layout's stages 0 and 3: 2 + 2 layers, rank 1 has 1 and 4: 1 + 1, rank 2 has 2 and 5: 1 + 0.
    for pipeline in plan["pipelines"]:
        check([stage.get("virtual_layers") for stage in pipeline["stages"]] == [None, None, [1, 0]], pipeline)
    check("a first or last stage holds no layer" in " ".join(plan["warnings"]), plan["warnings"])
    written = json.loads(run("hosts.yaml", "virtual.json", "--format", "json").stdout)
    check(close(written["iteration_time_s"]["mean"], plan["finalists"][0]["simulated"]["nominal"]["mean_s"]), written)
    write("even.json", json.dumps({"job": plan["job"], "pipelines": [
        {"stages": [{"layers": layers, "devices": [device]} for layers, device in zip(((0, 3), (3, 5), (5, 7)), devices)]}
        for devices in PLACES]}))
    run("hosts.yaml", "--diff", "virtual.json", "even.json", program=PLAN)
    kept = run("hosts.yaml", "--job", "chunks.yaml", "--warm-start", "virtual.json", "--horizon", "1e-9 s", "--evaluations", 300,
               "--format", "json", program=PLAN)
    check(json.loads(kept.stdout)["pipelines"] == plan["pipelines"], "another plan although there is no time to migrate")
    plan["pipelines"][0]["stages"][2]["virtual_layers"] = [0, 2]
    write("wrong.json", json.dumps(plan))
    refused("wrong.json: /pipelines/0/stages/2/virtual_layers: the sum is 2, but the stage has 1 layer", "hosts.yaml", "wrong.json")


def test_notes():
    note = "flags that are not compared with the job: `--nnodes`"
    check(note in simulated("train.sh", "--ranks", "stages.txt")["notes"], "dtfm-sim does not note passed-over flags")
    check(note in scored("train.sh", "--ranks", "stages.txt")["warnings"], "--score does not")
    check("openmpi.txt names hosts: their ranks take their GPUs in order" in
          " ".join(simulated("train.sh", "--ranks", "openmpi.txt")["notes"]), "local ranks are not noted")
    Path("idle.csv").write_text(table(PLACES[:1], LAYERS), encoding="utf-8")
    check("3 of 6 devices are in no pipeline: ga:1, gb, gc:2" in simulated("idle.csv")["notes"], "idle devices")
    whole = table(PLACES, ((0, 8), (8, 16), (16, 24)))
    Path("whole.csv").write_text(whole, encoding="utf-8")
    check("note: whole.csv does not specify a job; assuming the built-in gpt3-xl (use --job FILE for another)\n"
          in run("hosts.yaml", "whole.csv", "--iterations", 1, status=3).stdout, "the built-in job is not noted")
    Path("tensor.csv").write_text("device,pipeline,stage,first_layer,last_layer\ngc:1,0,0,0,6\ngb:0,0,0,0,6\n",
                                  encoding="utf-8")
    check("tensor-parallel devices on different hosts: stage 0 of pipeline 0 on gc:1 and gb"
          in simulated("tensor.csv")["notes"], "tensor parallelism over hosts is not noted")
    Path("batch.csv").write_text("device,pipeline,stage,first_layer,last_layer,micro_batches\ngb,0,0,0,6,23\n",
                                 encoding="utf-8")
    check("the pipelines compute 23 micro-batches, but job small has 24" in simulated("batch.csv")["notes"], "the batch")


def test_memory():
    """A device with too little memory is named, whatever the format."""
    Path("tiny.yaml").write_text(TOPOLOGY.replace("16 GB", "100 MB"), encoding="utf-8")
    done = run("tiny.yaml", "table.csv", "--job", "seven.yaml", status=3)
    check("exceeds memory: gc:1 needs " in done.stdout and " and has 100 MB" in done.stdout, done.stdout)


def test_rejected_input():
    for program, arguments in ((None, ("hosts.yaml", "wrong.csv")), (PLAN, ("hosts.yaml", "--score", "wrong.csv"))):
        Path("wrong.csv").write_text(table(PLACES, LAYERS).replace("gc:2", "gc:1").replace("gb,", "gx,"), encoding="utf-8")
        expected = ("wrong.csv:5:1: topology three-hosts has no device `gx`; did you mean `gb`?\n"
                    "wrong.csv:6:1: device gc:1 is used twice, first at wrong.csv:2:1\n")
        done = run(*arguments, "--job", "seven.yaml", "-o", "never.json", status=2, **({"program": program} if program else {}))
        check(done.stderr.split(": ", 1)[1] == expected and done.stdout == "", done.stderr)
        check(not Path("never.json").exists(), "a plan that is wrong is written")
    done = run("hosts.yaml", "table.csv", status=2)  # the built-in job has 24 layers
    check(done.stderr.endswith("table.csv does not specify a job; assuming the built-in gpt3-xl (use --job FILE for another)\n"), done.stderr)
    refused("train.sh: contains Megatron flags, which require a rank file (--ranks FILE)", "hosts.yaml", "train.sh")
    refused("stages.txt: a rank file requires Megatron flags, but table.csv is a CSV", "hosts.yaml", "table.csv", "--ranks",
            "stages.txt")
    refused("train.sh:2:16: --num-layers 7, but job small says layers 12\n"
            "train.sh:2:51: the layout has 7 layers (t), the job has 12", "hosts.yaml", "train.sh", "--ranks", "stages.txt",
            "--job", "twelve.yaml")
    refused("stages.txt: cannot write: it is an input", "hosts.yaml", "train.sh", "--ranks", "stages.txt", "-o", "stages.txt")
    refused("--ranks: cannot be combined with --graph", "--graph", "hosts.yaml", "--ranks", "stages.txt")
    done = run("hosts.yaml", "--ranks", "stages.txt", program=PLAN, status=2)
    check(done.stderr == "dtfm-plan: --ranks: requires --score\n", done.stderr)
    done = run("hosts.yaml", "--job", "seven.yaml", "--score", "idle.csv", *BY_COST, program=PLAN, status=2)
    check("idle.csv: /pipelines: comm-cost requires every device, but 3 of 6 are in no pipeline: ga:1, gb, gc:2" in done.stderr,
          "a plan without a price:", done.stderr)


def test_formats_in_help():
    for program in ({}, {"program": PLAN}):
        text = run("--help", **program).stdout
        for words in ("device,pipeline,stage,first_layer,last_layer", "last_layer inclusive", "Ettt|tt|ttL",
                      "--ranks", "rank 0=oregon/0"):
            check(words in text, "--help lacks", words)


if __name__ == "__main__":
    sys.exit(main(globals()))
