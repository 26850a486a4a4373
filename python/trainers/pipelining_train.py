"""Trains the plan in pipeline.json with torch.distributed.pipelining (written for PyTorch 2.15).

gpipe and 1f1b-blocking run as ScheduleGPipe and Schedule1F1B, other schedules in the order of schedule.csv, which has a row
of operations for every device of a pipeline. Messages go through NCCL on GPUs, and through Gloo without.
"""
from __future__ import annotations

import sys
import time
from functools import partial

from dtfm_runtime.model import TransformerLayer
from pipeline_plan import HERE, TIMEOUT, PipelinePlan, gpu_number, parse_arguments, report, run

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

try:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
except ImportError as error:
    sys.exit(f"train.py: torch.distributed.pipelining cannot be imported ({error}): install torch 2.15")

OWN_SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b-blocking": Schedule1F1B}


class StageModule(nn.Module):
    """The layers of a stage: the first one of the model has the embedding, the last one the head."""

    def __init__(self, layers: list[TransformerLayer], recompute: bool):
        super().__init__()
        self.layers, self.recompute = nn.ModuleList(layers), recompute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            for part in layer.segments():
                is_repeated = self.recompute and part is layer.block
                x = checkpoint(part, x, use_reentrant=False) if is_repeated else part(x)
        return x


class Weights:
    """The parameters of a rank, with their gradients in one buffer, which is one message. In 16 bits, the optimizer
    updates a copy in fp32."""

    def __init__(self, parameters: list[nn.Parameter], gradient_type: torch.dtype, optimizer: dict):
        self.parameters = parameters
        self.gradients = torch.zeros(sum(it.numel() for it in parameters), dtype=gradient_type, device=parameters[0].device)
        self.views = {it: part.view_as(it) for it, part in
                      zip(parameters, self.gradients.split([it.numel() for it in parameters]))}
        for it in parameters:
            if it.dtype == gradient_type:
                it.grad = self.views[it]
            else:
                it.register_post_accumulate_grad_hook(self.accumulate)
        self.masters = [it if it.dtype == torch.float32 else nn.Parameter(it.detach().float()) for it in parameters]
        options = {key: value for key, value in optimizer.items() if key not in ("class", "gradients")}
        self.optimizer = getattr(torch.optim, optimizer["class"])(self.masters, **options)

    def accumulate(self, parameter: nn.Parameter) -> None:
        """Adds a gradient to the buffer if it has another type."""
        if parameter.grad is not None and parameter.grad is not self.views[parameter]:
            self.views[parameter].add_(parameter.grad)
            parameter.grad = None

    @torch.no_grad()
    def update(self, scale: float) -> None:
        self.gradients.mul_(scale)
        for parameter, master in zip(self.parameters, self.masters):
            master.grad = self.views[parameter].to(master.dtype)  # itself, if the type is the same
        self.optimizer.step()
        for parameter, master in zip(self.parameters, self.masters):
            if parameter is not master:
                parameter.copy_(master)
                master.grad = None
        self.gradients.zero_()


class Stage(PipelineStage):
    """Weight gradients that are computed apart are not accumulated by autograd, so that no hook is called."""

    weights: Weights

    def backward_weight_one_chunk(self, *arguments, **options) -> None:
        super().backward_weight_one_chunk(*arguments, **options)
        for parameter in self.submod.parameters():
            self.weights.accumulate(parameter)


def boundaries(plan: PipelinePlan, dtype: torch.dtype) -> list[torch.Tensor]:
    """What a micro-batch is before, between and after the stages. (PyTorch would otherwise exchange this by messages.)"""
    sizes, shape = plan.model.transformer, (plan.options["micro_batch"], plan.model.transformer.sequence)
    inner, logits = (torch.empty(*shape, width, dtype=dtype, device="meta", requires_grad=True)
                     for width in (sizes.hidden, sizes.vocabulary))
    return [torch.empty(shape, dtype=torch.int64, device="meta")] + [inner] * (len(plan.layers) - 1) + [logits]


class Training:
    """A rank: some stages of one replica."""

    def __init__(self, plan: PipelinePlan, device: torch.device, seed: int):
        self.plan, self.device, options = plan, device, plan.options
        devices = dist.get_world_size() // plan.replicas
        self.replica = dist.get_rank() % plan.replicas
        self.stages = list(range(dist.get_rank() // plan.replicas, len(plan.layers), devices))
        self.is_first, self.is_last = 0 in self.stages, len(plan.layers) - 1 in self.stages
        # Every rank makes every group.
        new_group = partial(dist.new_group, timeout=TIMEOUT)
        of_pipeline = [new_group([r + plan.replicas * d for d in range(devices)]) for r in range(plan.replicas)]
        of_stage = [new_group([plan.replicas * d + r for r in range(plan.replicas)]) for d in range(devices)]
        of_ends = [new_group([r, r + plan.replicas * (devices - 1)]) if plan.model.tied and devices > 1 else None
                   for r in range(plan.replicas)]
        self.replicas_group, self.ends_group = of_stage[dist.get_rank() // plan.replicas], of_ends[self.replica]

        dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
        modules = [self.build(stage, seed, dtype) for stage in self.stages]
        self.tied = [layer.get_parameter(name) for layer, name in self.tied_layers(modules)]
        if len(self.tied) == 2:  # this rank has both ends
            modules[-1].layers[-1].head.output.weight = self.tied.pop(0)
        self.weights = Weights(list(dict.fromkeys(it for module in modules for it in module.parameters())),
                               torch.float32 if options["optimizer"]["gradients"] == "fp32" else dtype, options["optimizer"])
        shapes = boundaries(plan, dtype)
        stages = [Stage(module, stage, len(plan.layers), device, input_args=shapes[stage], output_args=shapes[stage + 1],
                        group=of_pipeline[self.replica]) for module, stage in zip(modules, self.stages)]
        for stage in stages:
            stage.weights = self.weights
        self.round = min(options["flush"] or options["micro_batches"], options["micro_batches"])
        self.schedule = self.make_schedule(stages)

    def build(self, stage: int, seed: int, dtype: torch.dtype) -> StageModule:
        first = self.plan.first_layer(stage)
        layers = range(first, first + self.plan.layers[stage])
        return StageModule([self.plan.model.build(it, seed, self.device, dtype) for it in layers], self.plan.recompute)

    def tied_layers(self, modules: list[StageModule]) -> list[tuple[TransformerLayer, str]]:
        """Those of this rank that have a copy of the tied embedding."""
        if self.plan.model.tied is None:
            return []
        ends = [modules[0].layers[0]] * self.is_first + [modules[-1].layers[-1]] * self.is_last
        return list(zip(ends, self.plan.model.tied if self.is_first else self.plan.model.tied[1:]))

    def make_schedule(self, stages: list[Stage]):
        name, loss = self.plan.options["schedule"], self.plan.model.loss
        if name in OWN_SCHEDULES:
            return OWN_SCHEDULES[name](stages[0], self.round, loss_fn=loss, scale_grads=False)
        schedule = _PipelineScheduleRuntime(stages, self.round, loss_fn=loss, scale_grads=False)
        schedule._load_csv(str(HERE / "schedule.csv"))
        return schedule

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Trains on the samples of this replica. Returns their mean loss, on the last stage."""
        losses: list[torch.Tensor] = []
        size = self.round * self.plan.options["micro_batch"]
        for x, y in zip(inputs.to(self.device).split(size), targets.to(self.device).split(size)):
            of_round: list[torch.Tensor] = []
            self.schedule.step(*([x] if self.is_first else []), target=y, losses=of_round, return_outputs=False)
            losses += [it.detach() for it in of_round]
        if self.plan.replicas > 1:
            dist.all_reduce(self.weights.gradients, group=self.replicas_group)
        if self.ends_group is not None:
            for parameter in self.tied:
                dist.all_reduce(self.weights.views[parameter], group=self.ends_group)
        self.weights.update(1 / (self.plan.replicas * self.plan.options["micro_batches"]))
        return torch.stack(losses).mean() if losses else torch.zeros(())


def train(arguments) -> None:
    plan = PipelinePlan.read()
    batches = plan.batches(arguments)
    torch.backends.cuda.matmul.allow_tf32 = plan.precision == "tf32"
    device = torch.device("cpu")
    if arguments.device != "cpu" and torch.cuda.is_available():
        device = torch.device("cuda", gpu_number(torch.cuda.device_count()))
        torch.cuda.set_device(device)
    is_gpu = device.type == "cuda"
    dist.init_process_group("nccl" if is_gpu else "gloo", timeout=TIMEOUT, device_id=device if is_gpu else None)
    training = Training(plan, device, arguments.seed)
    per_replica = plan.options["micro_batch"] * plan.options["micro_batches"]
    for step in range(arguments.steps):
        start = time.perf_counter()
        loss = training.step(*batches(plan.samples(step, training.replica, per_replica)))
        if training.is_last:
            dist.all_reduce(loss, group=training.replicas_group)
            report(step, loss.item() / plan.replicas, time.perf_counter() - start, training.replica == 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(run(train, parse_arguments(__doc__.partition("\n")[0])))
