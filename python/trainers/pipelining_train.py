"""Trains the plan in pipeline.json with torch.distributed.pipelining (written for PyTorch 2.15).

gpipe and 1f1b-blocking run as ScheduleGPipe and Schedule1F1B, other schedules in the order of schedule.csv, which has a row
of operations for every device of a pipeline. With zero1, FSDP2 shards the parameters of a stage (fully_shard); with several
instances, it shards within each and replicates across them (HSDP). With context, ranks divide the tokens of every sequence.
Messages go through NCCL on GPUs, and through Gloo without.
"""
from __future__ import annotations

import sys
import time
from functools import partial

from dtfm_runtime.context import TokenRing
from dtfm_runtime.model import OfTokens, TransformerLayer
from pipeline_plan import HERE, TIMEOUT, PipelinePlan, gpu_number, parse_arguments, report, run

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.checkpoint import checkpoint

try:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
except ImportError as error:
    sys.exit(f"train.py: torch.distributed.pipelining cannot be imported ({error}): install torch 2.15")

OWN_SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b-blocking": Schedule1F1B}


class StageModule(nn.Module):
    """The layers of a stage: the first one of the model has the embedding, the last one the head."""

    def __init__(self, layers: list[TransformerLayer], recompute: str, recompute_layers: int | None):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        for layer in layers[:recompute_layers]:
            if recompute != "none":
                repeat_in_backward(layer.block.mlp if recompute == "mlp" else layer.block)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def repeat_in_backward(module: nn.Module) -> None:
    """The module keeps only its input for the backward pass."""
    module.forward = partial(checkpoint, module.forward, use_reentrant=False)


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
        self.optimizer = make_optimizer(self.masters, optimizer)

    def accumulate(self, parameter: nn.Parameter) -> None:
        """Adds a gradient to the buffer if it has another type."""
        if parameter.grad is not None and parameter.grad is not self.views[parameter]:
            self.views[parameter].add_(parameter.grad)
            parameter.grad = None

    def gather(self) -> None:
        """Nothing to do: every rank has all parameters."""

    def synchronize(self, group: dist.ProcessGroup) -> None:
        """Sums the gradients of ranks with the same parameters."""
        if dist.get_world_size(group) > 1:
            dist.all_reduce(self.gradients, group=group)

    def gradient(self, parameter: nn.Parameter) -> torch.Tensor:
        return self.views[parameter]

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


class ShardedWeights:
    """The parameters of a rank's stages, of which each rank of an instance keeps a part (FSDP2), in fp32. They are gathered before
    the first micro-batch of a step; their gradients are reduce-scattered after the last one, all of a stage at once: few messages,
    because networks may be slow."""

    def __init__(self, stages: list[StageModule], compute_type: torch.dtype, gradient_type: torch.dtype, optimizer: dict,
                 group: dist.ProcessGroup, mesh: DeviceMesh):
        policy = MixedPrecisionPolicy() if compute_type == torch.float32 else MixedPrecisionPolicy(compute_type, gradient_type)
        for stage in stages:
            fully_shard(stage.float(), mesh=mesh, reshard_after_forward=False, mp_policy=policy)
        self.stages, self.copies = stages, dist.get_world_size(group)
        self.parameters = [it for stage in stages for it in stage.parameters()]
        self.optimizer = make_optimizer(self.parameters, optimizer)

    def gather(self) -> None:
        """Begins to gather the parameters of all stages: otherwise each gather begins only when the first
        input of its stage has arrived."""
        for stage in self.stages:
            stage.unshard(async_op=True)

    def accumulate(self, parameter: nn.Parameter) -> None:
        """Nothing to do: FSDP2 accumulates gradients."""

    def synchronize(self, group: dist.ProcessGroup) -> None:
        """Nothing to do: FSDP2 has averaged them at the end of the schedule."""

    def gradient(self, parameter: nn.Parameter) -> torch.Tensor:
        return parameter.grad.to_local()

    @torch.no_grad()
    def update(self, scale: float) -> None:
        for parameter in self.parameters:
            self.gradient(parameter).mul_(scale * self.copies)
        self.optimizer.step()
        self.optimizer.zero_grad()


def make_optimizer(parameters: list[nn.Parameter], optimizer: dict) -> torch.optim.Optimizer:
    options = {key: value for key, value in optimizer.items() if key not in ("class", "gradients")}
    return getattr(torch.optim, optimizer["class"])(parameters, **options)


class Stage(PipelineStage):
    """Weight gradients that are computed apart are not accumulated by autograd, so that no hook is called."""

    weights: Weights | ShardedWeights

    def backward_weight_one_chunk(self, *arguments, **options) -> None:
        super().backward_weight_one_chunk(*arguments, **options)
        for parameter in self.submod.parameters():
            self.weights.accumulate(parameter)


def boundaries(plan: PipelinePlan, dtype: torch.dtype) -> list[torch.Tensor]:
    """What a micro-batch is before, between and after the stages. (PyTorch would otherwise exchange this by messages.)"""
    sizes, shape = plan.model.transformer, (plan.options["micro_batch"], plan.model.transformer.sequence // plan.context)
    inner, logits = (torch.empty(*shape, width, dtype=dtype, device="meta", requires_grad=True)
                     for width in (sizes.hidden, sizes.vocabulary))
    return [torch.empty(shape, dtype=torch.int64, device="meta")] + [inner] * (len(plan.layers) - 1) + [logits]


class Training:
    """A rank: some stages of one replica."""

    def __init__(self, plan: PipelinePlan, device: torch.device, seed: int):
        self.plan, self.device, options = plan, device, plan.options
        copies = plan.replicas * plan.context  # ranks of a stage: those of a replica follow one another
        devices = dist.get_world_size() // copies
        self.replica, copy = dist.get_rank() % copies // plan.context, dist.get_rank() % copies
        self.stages = list(range(dist.get_rank() // copies, len(plan.layers), devices))
        self.is_first, self.is_last = 0 in self.stages, len(plan.layers) - 1 in self.stages
        # Every rank makes every group.
        new_group = partial(dist.new_group, timeout=TIMEOUT)
        of_pipeline = [new_group([r + copies * d for d in range(devices)]) for r in range(copies)]
        of_stage = [new_group([copies * d + r for r in range(copies)]) for d in range(devices)]
        of_ends = [new_group([r, r + copies * (devices - 1)]) if plan.model.tied and devices > 1 else None for r in range(copies)]
        rings = [new_group(range(first, first + plan.context)) if plan.context > 1 else None
                 for first in range(0, dist.get_world_size(), plan.context)]
        self.copies_group, self.ends_group = of_stage[dist.get_rank() // copies], of_ends[copy]
        ring = rings[dist.get_rank() // plan.context]
        self.ring = TokenRing(ring) if ring is not None else None

        dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
        modules = [self.build(stage, seed, dtype) for stage in self.stages]
        self.tied = [layer.get_parameter(name) for layer, name in self.tied_layers(modules)]
        if len(self.tied) == 2:  # this rank has both ends
            modules[-1].layers[-1].head.output.weight = self.tied.pop(0)
        gradient_type = torch.float32 if options["optimizer"]["gradients"] == "fp32" else dtype
        if options["optimizer_sharding"] == "zero1":
            self.weights = ShardedWeights(modules, dtype, gradient_type, options["optimizer"], self.copies_group,
                                          self.make_mesh(copies, devices, device.type))
            self.tied = [layer.get_parameter(name) for layer, name in self.tied_layers(modules)]
        else:
            self.weights = Weights(list(dict.fromkeys(it for module in modules for it in module.parameters())), gradient_type,
                                   options["optimizer"])
        shapes = boundaries(plan, dtype)
        stages = [Stage(module, stage, len(plan.layers), device, input_args=shapes[stage], output_args=shapes[stage + 1],
                        group=of_pipeline[copy]) for module, stage in zip(modules, self.stages)]
        for stage in stages:
            stage.weights = self.weights
        self.round = min(options["flush"] or options["micro_batches"], options["micro_batches"])
        self.schedule = self.make_schedule(stages)

    def make_mesh(self, copies: int, devices: int, device: str) -> DeviceMesh:
        """The mesh of ranks with the same stages. Each row is an instance of the optimizer: consecutive ranks."""
        instances, rank = self.plan.options["instances"], dist.get_rank()
        if instances == 1:
            return DeviceMesh.from_group(self.copies_group, device)
        all_ranks = torch.arange(dist.get_world_size()).view(devices, instances, copies // instances)
        groups = [None, None]  # across instances, within an instance; every rank must create every group
        for ranks in all_ranks:
            for dimension, lines in enumerate((ranks.T, ranks)):
                for line in lines.tolist():
                    group = dist.new_group(line, timeout=TIMEOUT)
                    groups[dimension] = group if rank in line else groups[dimension]
        return DeviceMesh.from_group(groups, device, mesh=all_ranks[rank // copies], mesh_dim_names=("replicate", "shard"))

    def build(self, stage: int, seed: int, dtype: torch.dtype) -> StageModule:
        first = self.plan.first_layer(stage)
        layers = range(first, first + self.plan.layers[stage])
        recomputed = self.plan.options["recompute_layers"]  # of every stage, or by stage; None: all
        module = StageModule([self.plan.model.build(it, seed, self.device, dtype) for it in layers], self.plan.recompute,
                             recomputed[stage] if isinstance(recomputed, list) else recomputed)
        for it in module.modules():
            if isinstance(it, OfTokens):
                it.ring = self.ring
        return module

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
        """Trains on the samples of this replica. Returns their mean loss, on the last stage, of the tokens of this rank."""
        losses: list[torch.Tensor] = []
        self.weights.gather()
        inputs, targets = (it.to(self.device) for it in (inputs, targets))
        if self.ring is not None:
            places = self.ring.positions(inputs.shape[1], self.device)
            inputs, targets = inputs[:, places], targets[:, places]
        size = self.round * self.plan.options["micro_batch"]
        rounds = list(zip(inputs.split(size), targets.split(size)))
        for number, (x, y) in enumerate(rounds):
            of_round: list[torch.Tensor] = []
            self.schedule.step(*([x] if self.is_first else []), target=y, losses=of_round, return_outputs=False,
                               finalize_gradients=number + 1 == len(rounds))
            losses += [it.detach() for it in of_round]
        self.weights.synchronize(self.copies_group)
        if self.ends_group is not None:
            for parameter in self.tied:
                dist.all_reduce(self.weights.gradient(parameter), group=self.ends_group)
        self.weights.update(1 / (dist.get_world_size(self.copies_group) * self.plan.options["micro_batches"]))
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
            dist.all_reduce(loss, group=training.copies_group)
            copies = dist.get_world_size(training.copies_group)
            report(step, loss.item() / copies, time.perf_counter() - start, dist.get_rank(training.copies_group) == 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(run(train, parse_arguments(__doc__.partition("\n")[0])))
