#!/usr/bin/env python3
"""torchtitan's own objects accept every exported configuration, and hold the plan's settings; PyTorch loads every table of
operations, and simulates it to its end.

usage: accept_torchtitan.py DTFM_PLAN DTFM_EXPORT
"""

import json
import logging
import os
import re
import shutil
import sys
import tempfile
from types import SimpleNamespace

import exported_plans
import torchtitan_on_cpus as titan
from exported_plans import LLAMA, REPORTS, Checks, Planner, jobs

MODELS = [
    LLAMA,  # ties embeddings, so that it has one stage
    LLAMA + ", tied: false",
    LLAMA.replace("kv_heads: 4, ", "").replace("layers: 12", "layers: 13") + ", tied: false",
    LLAMA.replace("heads: 16, kv_heads: 4", "heads: 12, kv_heads: 6").replace("hidden: 1024", "hidden: 1536")
    + ", tied: false",
    LLAMA.replace("feed_forward: 2816, ", "") + ", tied: false",
    LLAMA.replace("heads: 16", "heads: 12") + ", head_dim: 128, tied: false",
    "preset: llama-3.2-1b",
    "preset: llama-3.2-1b, tied: false, sequence: 2048",
    "preset: qwen-2.5-0.5b, tied: false",
    "preset: llama-3-8b, sequence: 4096",
    "preset: mistral-7b, sequence: 2048",
]
GRID = {
    "model": MODELS,
    "cluster": list(exported_plans.CLUSTERS),
    "global_batch": [8, 16, 24, 48],
    "micro_batch": [1, 2, "auto"],
    "precision": ["bf16", "bf16", "fp16", "fp32", "tf32"],
    "optimizer": ["adam-16", "adam-18", "sgd-8", "host-offload"],
    "recompute": ["none", "full", "auto", "selective"],
    "tensor": [1, 1, 2, "auto"],
    "schedule": ["auto", "1f1b", "gpipe", "interleaved", "zb-greedy", "eager-1f1b", "zb-h1"],
    "chunks": [2, 3],
    "overlap": ["true", "false"],
    "sharding": ["none", "zero1", "none", "zero1", "zero1", "zero3"],
    "sequence_parallel": ["true", "false"],
    "pipeline": ["auto", 2, 3, 4],
}
# optimizer_sharding: fsdp_reshard_after_forward
RESHARDING = {"none": "default", "zero1": "never", "zero3": "always"}
MIN_SHARDED = 60  # exports in which FSDP2 shards
SCHEDULES = {"1f1b-blocking": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}
TABLES = {"zb-greedy", "eager-1f1b", "zb-h1"}  # in a CSV
MIN_TABLES = 8  # of each schedule, with several stages


def check_model(checks, where, model, plan, sequence):
    attention, feed_forward = model.layers[0].attention, model.layers[0].feed_forward
    hidden, heads = plan["hidden"], plan["heads"]
    checks.same(where, "layers", len(model.layers), plan["layers"])
    checks.same(where, "sizes", (model.dim, attention.n_heads, model.vocab_size), (hidden, heads, plan["vocabulary"]))
    checks.same(where, "kv_heads", attention.n_kv_heads or attention.n_heads, plan.get("kv_heads", heads))
    width = plan.get("head_dim", hidden // heads)
    found = (attention.head_dim, attention.rope.dim, attention.wo.in_features)
    checks.same(where, "head width", found, (width, width, heads * width))
    checks.same(where, "MLP", (feed_forward.w1.out_features, hasattr(feed_forward, "w3")),
                (plan.get("feed_forward", 4 * hidden), True))  # fmt: skip
    checks.same(where, "tied", model.enable_weight_tying, plan.get("tied", True))
    checks.same(where, "biases", attention.qkv_linear.wqkv.bias, False)
    checks.same(where, "embedding", (model.tok_embeddings.num_embeddings, model.tok_embeddings.embedding_dim),
                (plan["vocabulary"], hidden))  # fmt: skip
    checks.same(where, "head", (model.lm_head.in_features, model.lm_head.out_features), (hidden, plan["vocabulary"]))
    checks.same(where, "norm", type(model.norm).__qualname__, "RMSNorm.Config")
    checks.holds(where, "rotary length", sequence <= attention.rope.max_seq_len)


def check_settings(checks, export, config, matmul):
    """Every setting of the plan, from torchtitan's objects."""
    where, (tensor, stages, data) = export.folder.name, export.degrees
    p, t = config.parallelism, config.training
    checks.same(where, "pipeline", p.pipeline_parallel_degree, stages)
    sharding = export.setting("optimizer_sharding", "none")
    degrees = (p.data_parallel_replicate_degree, p.data_parallel_shard_degree)
    instances = p.data_parallel_replicate_degree if export.setting("gradient_sync") == "hierarchical-ring" else 1
    checks.same(where, "data", degrees, (data, 1) if sharding == "none" else (instances, data // instances))
    checks.same(where, "optimizer_sharding", p.fsdp_reshard_after_forward, RESHARDING[sharding])
    checks.holds(where, f"{sharding} with {stages} stages", sharding != "zero3" or stages == tensor == 1)
    checks.same(where, "tensor", p.tensor_parallel_degree, tensor)
    checks.same(where, "others", (p.context_parallel_degree, p.expert_parallel_degree), (1, 1))
    checks.same(where, "sequence_parallel", p.enable_sequence_parallel, tensor == 1 or export.setting("sequence_parallel", True))
    checks.same(where, "global_batch", t.global_batch_size, export.setting("global_batch"))
    checks.same(where, "micro_batch", p.pipeline_parallel_microbatch_size, export.setting("micro_batch"))
    count = export.plan["pipelines"][0]["micro_batches"]
    in_flush = t.local_batch_size // p.pipeline_parallel_microbatch_size
    flushes = t.global_batch_size // (t.local_batch_size * data)
    checks.same(where, "micro-batches", (in_flush, flushes), (count, 1) if stages > 1 else (1, count))
    checks.same(where, "flush", export.setting("flush"), None)
    schedule = export.setting("schedule")
    checks.same(where, "schedule", p.pipeline_parallel_schedule, SCHEDULES.get(schedule, "PipelineScheduleMulti"))
    table = str(export.folder / f"{schedule}.csv") if schedule in TABLES else ""
    checks.same(where, "table", p.pipeline_parallel_schedule_csv, table)
    if table and stages > 1:
        checks.holds(where, "no split backward passes that recompute", schedule == "eager-1f1b" or export.setting("recompute") == "none")
        check_table(checks, export, table)
    precision = {("bfloat16", "highest"): "bf16", ("float32", "high"): "tf32", ("float32", "highest"): "fp32"}
    checks.same(where, "precision", precision[t.mixed_precision_param, matmul], export.setting("precision"))
    checks.same(where, "state", (t.dtype, t.mixed_precision_reduce), ("float32", "float32"))
    checks.same(where, "optimizer", {group.optimizer_name for group in config.optimizer.param_groups}, {"AdamW"})
    checks.same(where, "bytes", export.setting("optimizer"), "adam-18" if t.mixed_precision_param == "bfloat16" else "adam-16")
    recompute = {"NoneType": "none", "FullAC.Config": "full"}.get(type(config.activation_checkpoint).__qualname__)
    checks.same(where, "recompute", recompute, export.setting("recompute"))
    checks.same(where, "sequence", t.seq_len, export.model["sequence"])
    for key, value in {"overlap": False, "tied_embedding_sync": False, "iteration_barrier": True, "uniform_pipelines": True,
                       }.items():  # fmt: skip
        checks.same(where, key, export.setting(key, {"uniform_pipelines": False}.get(key, value)), value)
    checks.holds(where, "gradient_sync", export.setting("gradient_sync") in ("ring", "hierarchical-ring")[:1 + (sharding == "zero1")])
    check_model(checks, where, config.model_spec.model, export.model, t.seq_len)
    check_layers(checks, where, export, p.module_fqns_per_model_part)


def expand(passes):
    """`F*2 (FI)*2 W` as FFFIFIW."""
    groups = re.findall(r"\((\w+)\)\*(\d+)|(\w)(?:\*(\d+))?", passes)
    return "".join((group or letter) * int(count or single or 1) for group, count, letter, single in groups)


def repeat_middle(kinds, count):
    """The passes of a plan that has them for fewer micro-batches: a forward and its gradients repeat before the middle forward."""
    known = kinds.count("F")
    middle = [at for at, kind in enumerate(kinds) if kind == "F"][known // 2]
    return kinds[:middle] + "FIW" * (count - known) + kinds[middle:]


def load_table(path, stages, micro_batches):
    """A table as torchtitan gives it to PyTorch."""
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    stage = SimpleNamespace(num_stages=stages, group_size=stages, group_rank=0, stage_index=0, is_last=False, submod=None)
    schedule = _PipelineScheduleRuntime([stage], n_microbatches=micro_batches, scale_grads=False)
    schedule._load_csv(path)
    return schedule


def simulate(schedule):
    """Raises if ranks wait for each other forever."""
    from torch.distributed.pipelining.schedules import _simulate_comms_compute

    of_parameters = {"UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"}  # which PyTorch does not simulate
    actions = {rank: [it for it in row if it.computation_type.value not in of_parameters]
               for rank, row in schedule.pipeline_order_with_comms.items()}
    _simulate_comms_compute(actions, schedule.stage_index_to_group_rank.__getitem__, schedule._num_stages)


def check_table(checks, export, path):
    """PyTorch accepts the operations of all ranks, they do not wait for each other forever, and they are the plan's."""
    where, stages = export.folder.name, export.plan["pipelines"][0]["stages"]
    count = export.plan["pipelines"][0]["micro_batches"]
    try:
        schedule = load_table(path, len(stages), count)
        simulate(schedule)
    except Exception as error:  # noqa: BLE001  whatever PyTorch raises
        checks.same(where, "table", f"{type(error).__name__}: {error}", "accepted")
        return
    checks.same(where, "ranks of stages", schedule.stage_index_to_group_rank, {it: it for it in range(len(stages))})
    for number, stage in enumerate(stages):
        actions = schedule.pipeline_order[number]
        kinds = "".join(it.computation_type.value for it in actions)
        for kind in set(kinds):
            found = [it.microbatch_index for it in actions if it.computation_type.value == kind]
            checks.same(where, f"micro-batches of {kind}", found, list(range(count)))
        if export.setting("schedule") == "zb-greedy":
            checks.same(where, f"passes of stage {number}", kinds, repeat_middle(expand(stage["passes"]), count))
        elif export.setting("schedule") == "eager-1f1b":
            checks.same(where, f"warm-up of stage {number}", kinds.index("B"), min(count, stage["warm_up"] + 1))
        else:  # ZB-H1: Qi et al., arXiv 2401.10241, section 2.2
            checks.same(where, f"warm-up of stage {number}", kinds.index("I"), min(count, len(stages) - number))
    checks.tables[export.setting("schedule")] += 1


def check_layers(checks, where, export, parts):
    """The modules of every rank: virtual stage i is on stage i mod P."""
    _, stages, _ = export.degrees
    chunks = len(parts) // stages
    checks.same(where, "chunks", chunks if chunks > 1 else None, export.setting("chunks"))
    whole = ["tok_embeddings", *(f"layers.{i}" for i in range(export.model["layers"])), "norm", "lm_head"]
    checks.same(where, "all modules", sum(parts, []), whole)
    for row in export.ranks:
        ranges = row["layers"] if chunks > 1 else [row["layers"]]
        planned = [f"layers.{i}" for begin, end in ranges for i in range(begin, end)]
        found = [name for part in parts[row["pp"] :: stages] for name in part if name.startswith("layers.")]
        checks.same(where, f"layers of rank {row['rank']}", found, planned)


def check_rules(checks, where, config):
    """What torchtitan and torch check when they build the trainer, after the configuration."""
    from torch.distributed.pipelining.schedules import (
        PipelineScheduleSingle,
        Schedule1F1B,
        ScheduleInterleaved1F1B,
        get_schedule_class,
    )

    p, t, attention = config.parallelism, config.training, config.model_spec.model.layers[0].attention
    tensor, stages = p.tensor_parallel_degree, p.pipeline_parallel_degree
    checks.holds(where, "heads % tensor (decoder.py:150)", attention.n_heads % tensor == 0)
    checks.holds(where, "kv_heads % tensor (decoder.py:155)", (attention.n_kv_heads or attention.n_heads) % tensor == 0)
    checks.holds(where, "sequence % tensor (trainer.py:311)", t.seq_len % tensor == 0)
    checks.holds(where, "tied embeddings in one stage (decoder.py:140)", stages == 1 or not config.model_spec.model.enable_weight_tying)
    checks.holds(where, "global batch (trainer.py:420)", t.global_batch_size % (t.local_batch_size * p.data_parallel_replicate_degree * p.data_parallel_shard_degree) == 0)
    checks.holds(where, "feed_forward % tensor", config.model_spec.model.layers[0].feed_forward.w1.out_features % tensor == 0)
    checks.holds(where, "CUDA graphs (trainer.py:184)", t.disable_cuda_graphs or stages == 1)
    if stages == 1:
        return
    parts, kind = len(p.module_fqns_per_model_part), get_schedule_class(p.pipeline_parallel_schedule)
    count = t.local_batch_size // p.pipeline_parallel_microbatch_size
    checks.holds(where, "parts (pipeline_parallel.py:563)", parts % stages == 0 and all(p.module_fqns_per_model_part))
    checks.holds(where, "one part", not issubclass(kind, PipelineScheduleSingle) or parts == stages)
    checks.holds(where, "1F1B micro-batches (schedules.py:1441)", kind is not Schedule1F1B or count >= parts)
    checks.holds(where, "interleaved rounds (schedules.py:4123)", kind is not ScheduleInterleaved1F1B or count % max(1, count // stages) == 0)


def accept(checks, export):
    """Returns the configuration."""
    import torch

    torch.set_float32_matmul_precision("highest")  # torch's default
    try:
        config = titan.load(export.folder)
    except Exception as error:  # noqa: BLE001  whatever torchtitan raises
        checks.same(export.folder.name, "accepted", f"{type(error).__name__}: {error}", "accepted")
        return None
    check_settings(checks, export, config, torch.get_float32_matmul_precision())
    check_rules(checks, export.folder.name, config)
    return config


def build(export, rank):
    """What the trainer of a rank holds: its modules, the class of its schedule, micro-batches and flushes. Runs in a
    process of its own, with torchtitan's fake backend, on a CPU."""
    receiver, sender = os.pipe()
    if os.fork() == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            os.write(sender, json.dumps(build_here(export, rank)).encode())
        except Exception as error:  # noqa: BLE001  whatever torchtitan raises
            os.write(sender, json.dumps(f"{type(error).__name__}: {error}").encode())
        finally:
            os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as file:
        text = file.read()
    os.wait()
    return json.loads(text or '"aborted"')


def build_here(export, rank):
    trainer = titan.build(export.folder, rank, len(export.ranks), "--comm.mode=fake_backend")
    schedule = getattr(trainer, "pp_schedule", None)
    return {
        "layers": [int(i) for part in trainer.model_parts for i in part.layers],
        "schedule": type(schedule).__name__ if schedule else None,
        "micro_batches": trainer.num_pipeline_parallel_microbatches,
        "flushes": trainer.gradient_accumulation_steps,
        "sharded": any(it.is_shard() and name != "tp" and size > 1 for part in trainer.model_parts for parameter in part.parameters()
                       for it, name, size in zip(parameter.placements, parameter.device_mesh.mesh_dim_names, parameter.device_mesh.shape)),
        "mesh": next((parameter.device_mesh.mesh.tolist() for part in trainer.model_parts for parameter in part.parameters()
                      if len(parameter.placements) == 2 and parameter.placements[0].is_replicate()), None),
        "checkpointed": any("_checkpoint_wrapped_module" in name for part in trainer.model_parts for name, _ in part.named_modules()),
    }


def check_builds(checks, exports):
    """torchtitan builds the last rank of one export with each schedule and recomputation, and two whose parameters are sharded."""
    built = set()
    for export in exports:
        sharding = export.setting("optimizer_sharding", "none")
        kind = (export.setting("schedule"), export.setting("recompute")) if sharding == "none" else (export.setting("schedule"), sharding)
        small = export.model["layers"] * export.model["hidden"] < 20_000 and export.model["vocabulary"] < 40_000
        if kind in built or export.degrees[1] == 1 or not small or (sharding != "none" and export.degrees[2] == 1):
            continue
        built.add(kind)
        row = export.ranks[-1]
        found = build(export, row["rank"])
        if isinstance(found, dict):
            found.pop("mesh")
        ranges = row["layers"] if export.setting("chunks") else [row["layers"]]
        planned = {
            "layers": [i for begin, end in ranges for i in range(begin, end)],
            "schedule": "Schedule" + SCHEDULES[kind[0]] if kind[0] in SCHEDULES else "_PipelineScheduleRuntime",
            "micro_batches": export.plan["pipelines"][0]["micro_batches"],
            "flushes": 1,
            "sharded": sharding != "none",
            "checkpointed": export.setting("recompute") == "full",
        }
        checks.same(export.folder.name, f"rank {row['rank']}", found, planned)
    checks.holds("builds", f"all schedules and recomputations: {built}", len(built) >= 4 * 2 + 2 + 4)


def check_instances(checks, planner):
    """torchtitan shards parameters inside sites, in as many instances as the plan has."""
    shapes = set()
    for cluster, pipeline in (("three", 1), ("pairs", 1), ("pairs", 2), ("mixed", 1)):
        job = exported_plans.job_text(LLAMA + ", tied: false", {"global_batch": 48, "micro_batch": 1, "precision": "bf16"}, {
            "pipeline": pipeline, "gradient_sync": "hierarchical-ring", "optimizer_sharding": "zero1"})  # fmt: skip
        status, error, path = planner.plan(f"{cluster}.yaml", job)
        checks.same(cluster, "planned", (status, error), (0, ""))
        if status:
            continue
        export = planner.export(path, f"{cluster}.yaml")
        p = accept(checks, export).parallelism
        shape = p.data_parallel_replicate_degree, p.data_parallel_shard_degree
        if 1 in shape:
            continue
        sites = [row["host"].split("/")[0] for row in export.ranks]
        found = build(export, len(sites) - 1)
        mesh = found["mesh"] if isinstance(found, dict) else found
        checks.same(cluster, "mesh", (len(mesh), len(mesh[0])), shape)
        for instance in mesh:
            checks.same(cluster, f"sites of the instance {instance}", len({sites[rank] for rank in instance}), 1)
        shapes.add(shape)
    checks.holds("instances", f"of several shapes: {shapes}", len(shapes) > 1)


def check_reports(checks, planner):
    """What users reported, in their words."""

    def plan(case, *options):
        cluster = str(REPORTS / case / "cluster.yaml")
        status, error, path = planner.plan(cluster, (REPORTS / case / "job.yaml").read_text(), *options)
        return status, error, None if status else planner.export(path, cluster)

    status, error, _ = plan("torchtitan-1f1b-few-microbatches")
    checks.same("1F1B with few micro-batches", "exit code", status in (2, 3), True)
    checks.holds("1F1B with few micro-batches", "reason", "1f1b at most as many as micro-batches" in error)
    _, error, export = plan("torchtitan-cuda-graphs")
    checks.holds("CUDA graphs", error, export)
    config = accept(checks, export)
    checks.holds("CUDA graphs", "disabled", config.training.disable_cuda_graphs)
    _, error, export = plan("export-drops-recompute")
    checks.same("recompute", error, export.setting("recompute"), "full")
    checks.same("recompute", "whole blocks", type(accept(checks, export).activation_checkpoint).__qualname__, "FullAC.Config")


def check_refusals(checks, planner):
    """Models that torchtitan would train differently."""
    for model, reason in (
        (exported_plans.GPT, "the model has learned positions, layer norms, an MLP without gate, biases"),
        (LLAMA.replace("biases: false", "biases: true"), "the model has biases"),
        (LLAMA + ", qk_norm: true", "the model has norms of queries and keys (qk_norm)"),
        ("preset: bert-base", "the model is an encoder"),
        (LLAMA + ", tied: true", "one if the embedding is tied"),
    ):
        job = exported_plans.job_text(model, {"global_batch": 8, "precision": "bf16"}, {"pipeline": 2})
        status, error, _ = planner.plan("four.yaml", job)
        checks.holds(model, f"refused: {error}", status in (2, 3) and reason in error)


def main():
    exported_plans.run_in_trainers("torch")
    titan.prepare()
    exported_plans.run_in_trainers("torchtitan")
    logging.disable(logging.WARNING)
    folder = tempfile.mkdtemp(prefix="dtfm-torchtitan-")
    try:
        checks, planner = Checks(), Planner(folder, "torchtitan")
        checks.tables = dict.fromkeys(TABLES, 0)
        for it, job in jobs(245, GRID):
            if export := planner.make(it["cluster"], job):
                accept(checks, export)
        planner.check_coverage(checks, 150, schedule=6, recompute=2, precision=3, optimizer_sharding=3)
        sharded = sum(export.setting("optimizer_sharding", "none") != "none" and export.degrees[2] > 1 for export in planner.exports)
        checks.holds("exports", f"at least {MIN_SHARDED} sharded, not {sharded}", sharded >= MIN_SHARDED)
        checks.holds("exports", f"at least {MIN_TABLES} tables of each schedule: {checks.tables}", min(checks.tables.values()) >= MIN_TABLES)
        check_builds(checks, planner.exports)
        check_instances(checks, planner)
        check_refusals(checks, planner)
        if REPORTS.exists():
            check_reports(checks, planner)
        checks.finish(planner.summary())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
