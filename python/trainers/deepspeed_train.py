"""Trains the plan in pipeline.json with DeepSpeed's pipeline engine (written for DeepSpeed 0.19).

Batch sizes, precision, optimizer, learning rate and ZeRO stage are those of ds_config.json. Messages go through NCCL on
GPUs, and through Gloo without.
"""
from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import Callable, Iterator

from dtfm_runtime.errors import UserError
from dtfm_runtime.model import Model
from pipeline_plan import HERE, TIMEOUT, PipelinePlan, gpu_number, parse_arguments, read_json, report, run

import torch
import torch.nn.functional as F
from torch import nn

if __name__ == "__main__":
    ARGUMENTS = parse_arguments(__doc__.partition("\n")[0])
    if ARGUMENTS.device != "auto":  # DeepSpeed reads this when it is imported
        os.environ["DS_ACCELERATOR"] = ARGUMENTS.device

try:
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
    from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
except ImportError as error:
    sys.exit(f"train.py: DeepSpeed cannot be imported ({error}): install deepspeed 0.19")


class Part(nn.Module):
    """A part of a layer of the model. Its initial parameters do not depend on the stage that has it."""

    def __init__(self, model: Model, layer: int, name: str, seed: int):
        super().__init__()
        self.part = model.build(layer, seed).get_submodule(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x)


class Block(Part):
    """Only parts of this class are recomputed. (Without an input that requires gradients, a reentrant checkpoint, such
    as that of an embedding, would lose those of its parameters.)"""


class Positions(Part):
    """Adds learned positions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.part.weight[: x.shape[1]]


def tied_logits(tokens: Part, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, tokens.part.weight)


class PlannedPipeline(PipelineModule):
    """A PipelineModule with the plan's number of layers in every stage: no `partition_method` takes a list."""

    def __init__(self, plan: PipelinePlan, seed: int):
        model, last = plan.model, plan.model.layers - 1

        def spec(kind: type[Part], layer: int, name: str) -> LayerSpec:
            return LayerSpec(kind, model, layer, name, seed)

        def tied(**more) -> TiedLayerSpec:
            return TiedLayerSpec("tokens", Part, model, 0, "embedding.tokens", seed, tied_weight_attr="part.weight", **more)

        sizes = model.transformer
        before = [tied() if sizes.tied else spec(Part, 0, "embedding.tokens")]
        before += [spec(Positions, 0, "embedding.positions")] if sizes.positions else []
        after = [spec(Part, last, "head.norm"),
                 tied(forward_fn=tied_logits) if sizes.tied else spec(Part, last, "head.output")]
        self._ends = [len(before) + plan.first_layer(stage + 1) for stage in range(len(plan.layers))]
        self._ends[-1] += len(after)
        super().__init__(before + [spec(Block, layer, "block") for layer in range(model.layers)] + after,
                         topology=PipeModelDataParallelTopology(num_pp=len(plan.layers), num_mp=1, num_dp=plan.replicas),
                         loss_fn=model.loss, activation_checkpoint_interval=1 if plan.recompute == "full" else 0,
                         checkpointable_layers=["Block"])

    def _partition_layers(self, method: str = "planned") -> None:
        self.parts = [0, *self._ends]
        self._set_bounds(start=self.parts[self.stage_id], stop=self.parts[self.stage_id + 1])


def micro_batches(plan: PipelinePlan, engine, replica: int, batches: Callable,
                  steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    size = engine.train_micro_batch_size_per_gpu()
    for step in range(steps):
        samples = plan.samples(step, replica, size * engine.gradient_accumulation_steps())
        for first in range(0, len(samples), size):
            yield batches(samples[first:first + size])


def train(arguments) -> None:
    plan, config = PipelinePlan.read(), read_json(HERE / "ds_config.json")
    batches = plan.batches(arguments)
    torch.backends.cuda.matmul.allow_tf32 = plan.precision == "tf32"
    accelerator = get_accelerator()
    if accelerator.device_name() == "cpu":
        if plan.precision == "fp16":
            raise UserError("DeepSpeed does not train in fp16 on CPUs: plan with precision bf16 or fp32")
        # Otherwise it would compile an operator that only inference uses.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    else:
        accelerator.set_device(gpu_number(accelerator.device_count()))
    # DeepSpeed passes its timeout only to the group of all ranks.
    torch.distributed.new_group = partial(torch.distributed.new_group, timeout=TIMEOUT)
    deepspeed.init_distributed(timeout=TIMEOUT)
    model = PlannedPipeline(plan, arguments.seed)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)
    data = micro_batches(plan, engine, model._grid.get_data_parallel_rank(), batches, arguments.steps)
    for step in range(arguments.steps):
        start = time.perf_counter()
        loss = float(engine.train_batch(data))  # the mean over all micro-batches and replicas, on every rank
        report(step, loss, time.perf_counter() - start, torch.distributed.get_rank() == 0)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    sys.exit(run(train, ARGUMENTS))
