"""The same training in one process, written apart from the distributed one: its reference."""
from __future__ import annotations

import torch

from . import checkpoint
from .errors import computing
from .model import Model, require_loss, require_tensor, segments_of, stable_seed
from .optimizer import LossScale, accumulates_in_fp32
from .program import Program
from .timeline import peak_memory_bytes
from .training import Options, Report, compute_type


class SingleTrainer:
    """Computes the micro-batches one after another, and updates with the optimizers of PyTorch."""

    def __init__(self, program: Program, model: Model, batches, options: Options):
        self.program, self.model, self.batches, self.options = program, model, batches, options
        self.device = torch.device(options.device)
        self.dtype = compute_type(program.precision, self.device)
        self.layers = [model.build(layer, options.seed, self.device, self.dtype) for layer in range(model.layers)]
        if model.tied is not None:
            owner, _, name = model.tied[1].rpartition(".")
            setattr(self.layers[-1].get_submodule(owner), name, self.layers[0].get_parameter(model.tied[0]))
        # In 16 bits, the optimizer updates copies in fp32.
        self.names = [(layer, name, parameter) for layer, module in enumerate(self.layers)
                      for name, parameter in module.named_parameters()
                      if not (model.tied is not None and layer == model.layers - 1 and name == model.tied[1])]
        self.masters = [it if it.dtype == torch.float32 else it.detach().float().requires_grad_()
                        for _, _, it in self.names]
        if options.optimizer == "adamw":
            self.optimizer = torch.optim.AdamW(self.masters, lr=options.lr, eps=options.epsilon,
                                               weight_decay=options.weight_decay)
        else:
            self.optimizer = torch.optim.SGD(self.masters, lr=options.lr, weight_decay=options.weight_decay)
        self.scale = LossScale(self.dtype == torch.float16)
        self.iteration, self.steps = options.first_step, 0
        self.reports: list[Report] = []

    def run_iteration(self) -> None:
        loss = 0.0
        for _, _, parameter in self.names:
            parameter.grad = None
        in_fp32 = self.dtype != torch.float32 and accumulates_in_fp32(self.program.optimizer)
        fp32_gradients = [torch.zeros_like(it) for it in self.masters] if in_fp32 else None
        for micro_batch in range(self.program.micro_batches):
            part = self._loss(micro_batch) / self.program.micro_batches
            with computing("the backward pass"):
                (part * self.scale.value).backward()
            loss += float(part.detach())
            if fp32_gradients is not None:
                for total, (_, _, parameter) in zip(fp32_gradients, self.names):
                    total += parameter.grad
                    parameter.grad = None
        self._update(fp32_gradients)
        self.reports.append(Report(self.iteration, loss, peak_memory_bytes(self.device)))
        self.iteration += 1

    def _loss(self, micro_batch: int) -> torch.Tensor:
        first = self.iteration * self.program.global_batch + micro_batch * self.program.micro_batch
        x, targets = self.batches(range(first, first + self.program.micro_batch))
        x = x.to(self.device)
        if x.is_floating_point() and self.model.inputs[0].dtype is None:
            x = x.to(self.dtype)
        for number, module in enumerate(self.layers):
            with computing(f"layer {number}, forward pass"):
                for segment in segments_of(module):
                    torch.manual_seed(stable_seed(self.options.seed, first, number))
                    x = segment(x)
                require_tensor(x, f"layer {number}", self.program.micro_batch, self.model.output_shape(number))
        with computing("the loss"):
            return require_loss(self.model.loss(x, targets.to(self.device)))

    def _update(self, fp32_gradients) -> None:
        gradients = fp32_gradients if fp32_gradients is not None else [parameter.grad for _, _, parameter in self.names]
        for master, gradient in zip(self.masters, gradients):
            master.grad = gradient.to(master.dtype)
            if self.scale.value != 1.0:
                master.grad /= self.scale.value
        overflow = self.scale.enabled and not all(bool(torch.isfinite(it.grad).all()) for it in self.masters)
        if not overflow:
            self.optimizer.step()
            self.steps += 1
            with torch.no_grad():
                for master, (_, _, parameter) in zip(self.masters, self.names):
                    parameter.copy_(master)
        self.scale.after(overflow)

    def take_reports(self, leave: int = 0) -> list[Report]:
        taken, self.reports = self.reports, []
        return taken

    def parameters(self) -> dict[tuple[int, str], torch.Tensor]:
        values = {(layer, name): parameter.detach().clone() for layer, name, parameter in self.names}
        if self.model.tied is not None:
            values[(self.model.layers - 1, self.model.tied[1])] = values[(0, self.model.tied[0])].clone()
        return values

    def save(self, folder: str, meta: dict) -> None:
        for layer in range(self.model.layers):
            state = checkpoint.LayerState({}, {}, self.steps)
            for (of, name, _), master in zip(self.names, self.masters):
                if of == layer:
                    state.parameters[name] = master.detach()
                    kept = self.optimizer.state.get(master, {})
                    state.optimizer[name] = {key: kept[key] for key in ("exp_avg", "exp_avg_sq") if key in kept}
            checkpoint.write_layer(folder, self.iteration, layer, state)
        checkpoint.commit(folder, self.iteration, {**meta, "loss_scale": self.scale.value}, self.model.layers)

    def load(self, folder: str, step: int, meta: dict) -> None:
        self.steps = step
        for layer in range(self.model.layers):
            rows = [(name, parameter, master) for (of, name, parameter), master in zip(self.names, self.masters)
                    if of == layer]
            state = checkpoint.read_layer(folder, step, layer,
                                          {name: list(parameter.shape) for name, parameter, _ in rows})
            self.steps = min(self.steps, state.steps)
            for name, parameter, master in rows:
                with torch.no_grad():
                    master.copy_(state.parameters[name])
                    parameter.copy_(master)
                kept = state.optimizer.get(name, {})
                if self.options.optimizer != "adamw":
                    continue
                if not {"exp_avg", "exp_avg_sq"} <= kept.keys():
                    self.steps = 0  # The checkpoint is one of SGD: AdamW starts with new states.
                else:
                    self.optimizer.state[master] = {"step": torch.tensor(float(state.steps)),
                                                    **{key: kept[key].float().to(self.device)
                                                       for key in ("exp_avg", "exp_avg_sq")}}
        scale = meta.get("loss_scale")
        if self.scale.enabled and isinstance(scale, (int, float)) and 1 <= scale <= 2.0 ** 64:
            self.scale.value = float(scale)

    def close(self) -> None:
        pass
