"""torchtitan on CPUs, for which it is not made: what tests replace of it, and how they build a rank.

usage: torchtitan_on_cpus.py RUNS     RUNS: JSON, [[FOLDER, RANKS, STEPS, [OVERRIDE, ...]], ...]

As a program, it trains exports one after the other, each with all ranks, as forks of one process, over Gloo, and writes losses and
gradient norms of the steps to rank-N.json of the folders. All runs have the same initial weights and tokens: each parameter follows
from its name, and all replicas read the same tokens.
"""

import contextlib
import hashlib
import importlib
import io
import json
import os
import sys
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
from ranks import free_port  # noqa: E402


def prepare():
    """Before torchtitan is imported: without a GPU, it assumes one."""
    import torch._utils

    torch._utils._get_available_device_type = lambda: "cpu"


def load(folder, *overrides):
    """The configuration after ConfigManager: Trainer.Config is built by the module and again by tyro."""
    from torchtitan.config import ConfigManager

    sys.modules.pop("dtfm_plan", None)
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return ConfigManager().parse_args(["--module", "dtfm_plan", "--config", "dtfm_plan", *overrides])
    except SystemExit as error:  # tyro prints the reason
        raise ValueError(said.getvalue()) from error
    finally:
        sys.path.remove(str(folder))


def build(folder, rank, ranks, *overrides):
    """The trainer of a rank."""
    import torchtitan.components.metrics as metrics

    class NoMonitor:  # of the memory of a GPU
        device_name = "cpu"

        def get_peak_stats(self):
            return metrics.DeviceMemStats(0, 0, 0, 0, 0, 0)

        def reset_peak_stats(self):
            pass

    metrics.build_device_memory_monitor = NoMonitor
    os.environ.update(NGPU=str(ranks), WORLD_SIZE=str(ranks), RANK=str(rank), LOCAL_RANK="0")
    config = load(folder, f"--dump-folder={folder}", *overrides)
    config.optimizer.implementation = "for-loop"  # the fused one is for GPUs
    return config.build()


def replace_attention():
    """PyTorch has no backward pass of flex attention on CPUs, but its reference implementation has."""
    import torch
    from torch.nn.attention import flex_attention
    from torchtitan.models.common import attention

    flex_attention._validate_device = lambda *tensors: None
    attention.FlexAttention._compiled_flex_attn = torch.compile(flex_attention.flex_attention, backend="aot_eager")
    attention._compiled_create_block_mask = flex_attention.create_block_mask


def set_weights(parts):
    import torch
    from torch.distributed.tensor import DTensor, distribute_tensor

    for name, parameter in (it for part in parts for it in part.named_parameters()):
        seed = int(hashlib.md5(name.replace("_checkpoint_wrapped_module.", "").encode()).hexdigest()[:8], 16)
        value = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) * 0.1 + ("norm" in name)
        with torch.no_grad():
            parameter.copy_(distribute_tensor(value, parameter.device_mesh, parameter.placements) if isinstance(parameter, DTensor)
                            else value)


def train(folder, rank, ranks, steps, overrides):
    """Losses (of ranks with the last stage) and gradient norms."""
    import torch.distributed
    from torch.distributed.fsdp import FSDPModule
    from torchtitan import trainer as titan

    replace_attention()
    trainer = build(folder, rank, ranks, *overrides)
    set_weights(trainer.model_parts)
    trainer.dataloader.seed = 0
    for module in (it for part in trainer.model_parts for it in part.modules()):
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # Gloo does not scale
    forward_backward, clip = trainer.forward_backward_step, titan.dist_utils.clip_grad_norm_
    losses, norms = [0.0] * steps, []

    def keep_loss(**arguments):
        loss = forward_backward(**arguments)
        losses[trainer.step - 1] += float(loss.detach())
        return loss

    def keep_norm(*arguments, **options):
        norms.append(clip(*arguments, **options))
        return norms[-1]

    trainer.forward_backward_step, titan.dist_utils.clip_grad_norm_ = keep_loss, keep_norm
    batches = trainer.batch_generator(trainer.dataloader)
    for trainer.step in range(1, steps + 1):
        trainer.train_step(batches)
    has_loss = getattr(trainer, "pp_has_last_stage", True)
    schedule = type(getattr(trainer, "pp_schedule", None)).__name__
    torch.distributed.barrier()
    return {"schedule": schedule, "losses": losses if has_loss else None, "norms": [float(it) for it in norms]}


def run_rank(folder, rank, ranks, steps, overrides):
    """In a process of its own. Returns the exit code."""
    log = os.open(folder / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        (folder / f"rank-{rank}.json").write_text(json.dumps(train(folder, rank, ranks, steps, overrides)))
    except BaseException:  # noqa: BLE001  whatever torchtitan raises
        traceback.print_exc()
        return 1
    return 0


def main():
    prepare()
    import torchtitan.trainer  # noqa: F401  once, for all ranks

    for folder, ranks, steps, overrides in json.loads(sys.argv[1]):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        children = []
        for rank in range(ranks):
            child = os.fork()
            if child == 0:
                code = run_rank(Path(folder), rank, ranks, steps, overrides)
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
            children.append(child)
        if any([os.waitpid(child, 0)[1] for child in children]):
            logs = sorted(Path(folder).glob("rank-*.log"))
            sys.exit(f"{folder} failed\n" + "".join(log.read_text() for log in logs))


if __name__ == "__main__":
    main()
