#!/usr/bin/env python3
"""DeepSpeed's own objects accept every exported configuration, and hold the plan's settings: DeepSpeedConfig, as
deepspeed.initialize makes it, and the program's PipelineModule with its grid of ranks and its stages.

usage: accept_deepspeed.py DTFM_PLAN DTFM_EXPORT
"""

import contextlib
import io
import logging
import os
import shutil
import sys
import tempfile

import exported_plans
from exported_plans import GPT, LLAMA, SOURCE, Checks, Planner, jobs

GRID = {
    "model": [
        GPT,
        GPT + ", tied: false",
        GPT.replace("layers: 12", "layers: 13") + ", gated: true",
        LLAMA,
        LLAMA + ", tied: false",
        "preset: gpt2",
        "preset: gpt3-xl",
        "preset: llama-3.2-1b, sequence: 2048",
        "preset: qwen-2.5-0.5b",
        "preset: llama-3-8b, sequence: 2048",
    ],
    "cluster": list(exported_plans.CLUSTERS),
    "global_batch": [8, 16, 24, 48],
    "micro_batch": [1, 2, "auto"],
    "precision": ["bf16", "fp16", "fp32", "tf32"],
    "optimizer": ["adam-16", "adam-18", "sgd-8", "sgd-12"],
    "recompute": ["none", "full", "auto", "selective"],
    "tensor": [1, 1, "auto"],
    "schedule": ["auto", "1f1b", "gpipe", "1f1b-blocking"],
    "chunks": [2],
    "overlap": ["true", "false"],
    "sharding": ["none", "zero1", "auto"],
    "sequence_parallel": ["true", "false"],
    "pipeline": ["auto", 1, 2, 3, 4],
}
FP32_GRADIENTS = "sgd-12"  # jobs with adam-18 are planned with adam-16


class Grid:
    """Builds the program's PipelineModule without its layers, as one rank of many that exist only in PyTorch's fake backend."""

    def __init__(self):
        sys.path[:0] = [str(SOURCE / "python"), str(SOURCE / "python" / "trainers")]
        import deepspeed_train
        import pipeline_plan

        class Module(deepspeed_train.PlannedPipeline):
            def _build(self):  # the layers, which can be large
                pass

            def _index_tied_modules(self):  # of the layers
                return {}

        self.module, self.pipeline_plan = Module, pipeline_plan

    def build(self, export, rank):
        import deepspeed.comm
        import torch.distributed
        from torch.testing._internal.distributed.fake_pg import FakeStore

        world = len(export.ranks)
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK="0")
        self.pipeline_plan.HERE = export.folder
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        torch.distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
        if not deepspeed.comm.is_initialized():
            deepspeed.init_distributed("fake")
        with contextlib.redirect_stdout(io.StringIO()):  # DeepSpeed prints its topology
            return self.module(self.pipeline_plan.PipelinePlan.read(), seed=1)


def check_config(checks, export, config):
    """Every setting of the plan that is in DeepSpeed's configuration."""
    where, (_, _, data) = export.folder.name, export.degrees
    precision, optimizer = export.setting("precision"), export.setting("optimizer")
    stage = {"none": 0, "zero1": 1}[export.setting("optimizer_sharding", "none")]
    count = export.plan["pipelines"][0]["micro_batches"]
    checks.same(where, "world size", config.world_size, data)
    checks.same(where, "batches",
                (config.train_batch_size, config.train_micro_batch_size_per_gpu, config.gradient_accumulation_steps),
                (export.setting("global_batch"), export.setting("micro_batch"), count))  # fmt: skip
    checks.same(where, "precision", (config.float16_config.enabled, config.bfloat16_config.enabled),
                (precision == "fp16", precision == "bf16"))  # fmt: skip
    checks.same(where, "ZeRO stage", config.zero_optimization_stage, stage)
    is_adam = optimizer.startswith("adam")
    checks.same(where, "optimizer", config.optimizer_name.lower(), "adamw" if is_adam else "sgd")
    checks.holds(where, "untested optimizer", is_adam or stage == 0 or config.zero_allow_untested_optimizer)
    in_fp32 = precision == "bf16" and optimizer == FP32_GRADIENTS
    checks.same(where, "gradients", (config.grad_accum_dtype, config.communication_data_type is not None),
                ("fp32", True) if in_fp32 else (None, False))  # fmt: skip
    checks.same(where, "gradient_clipping", config.gradient_clipping, 0.0)


def check_module(checks, export, module, row):
    """The role of a rank, and the layers of all stages."""
    where, (_, stages, data) = export.folder.name, export.degrees
    grid, specs = module._grid, module._layer_specs
    checks.same(where, "grid", (grid.pipe_parallel_size, grid.data_parallel_size, grid.model_parallel_size), (stages, data, 1))
    checks.same(where, f"role of rank {row['rank']}", (grid.get_data_parallel_rank(), grid.get_stage_id()), (row["dp"], row["pp"]))
    checks.same(where, f"bounds of rank {row['rank']}", [module._local_start, module._local_stop],
                module.parts[row["pp"] : row["pp"] + 2])  # fmt: skip
    blocks = [[spec.typename.__name__ for spec in specs[begin:end]].count("Block")
              for begin, end in zip(module.parts, module.parts[1:])]  # fmt: skip
    planned = [stage["layers"][1] - stage["layers"][0] for stage in export.plan["pipelines"][0]["stages"]]
    checks.same(where, "layers", blocks, planned)
    checks.same(where, "all layers", (module.parts[0], module.parts[-1]), (0, len(specs)))
    checks.same(where, "recompute", module.activation_checkpoint_interval, int(export.setting("recompute") == "full"))
    tied = [spec.typename.__name__ for spec in specs if hasattr(spec, "tied_weight_attr")]
    checks.same(where, "tied", len(tied), 2 if export.model.get("tied", True) else 0)


def main():
    exported_plans.run_in_trainers("deepspeed")
    import deepspeed
    from deepspeed.runtime.config import DeepSpeedConfig

    logging.disable(logging.WARNING)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled
    folder = tempfile.mkdtemp(prefix="dtfm-deepspeed-")
    try:
        checks, planner, grid = Checks(), Planner(folder, "deepspeed"), Grid()
        for it, job in jobs(200, GRID):
            if it["precision"] == "fp16" and it["optimizer"] == FP32_GRADIENTS:
                continue  # dtfm-export refuses it
            if (export := planner.make(it["cluster"], job)) is None:
                continue
            row = export.ranks[len(planner.exports) * 7 % len(export.ranks)]  # another role in each export
            try:
                module = grid.build(export, row["rank"])
                config = DeepSpeedConfig(str(export.folder / "ds_config.json"), module.mpu())
            except Exception as error:  # noqa: BLE001  whatever DeepSpeed raises
                checks.same(export.folder.name, "accepted", f"{type(error).__name__}: {error}", "accepted")
                continue
            check_config(checks, export, config)
            check_module(checks, export, module, row)
        planner.check_coverage(checks, 150, precision=4, optimizer=3, optimizer_sharding=2, recompute=2)
        checks.finish(planner.summary())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
