"""What the programs for DeepSpeed and torch.distributed.pipelining share: the plan, the data, reports and errors."""
from __future__ import annotations

import argparse
import json
import math
import os
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Callable

from dtfm_runtime.data import open_data
from dtfm_runtime.errors import BAD_INPUT, DONE, UserError, first_line, is_out_of_memory
from dtfm_runtime.model import Model, Transformer, transformer_model

import torch

HERE = Path(__file__).resolve().parent
TIMEOUT = timedelta(days=1)  # of a message, which can wait for slow links and for other ranks


def read_json(path: Path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path} ({first_line(error)}): export the plan again") from None


# Values of pipeline.json.
KNOWN = {"schema": ["dtfm-pipeline/1"], "recompute": ["none", "full", "mlp", "as-needed"], "precision": ["fp32", "tf32", "bf16", "fp16"]}


@dataclass(frozen=True)
class PipelinePlan:
    """pipeline.json. Ranks are stage-major: rank = token part + context * (replica + replicas * device)."""

    model: Model
    layers: list[int]  # of every stage, in model order
    replicas: int
    recompute: str  # none, full, mlp or as-needed
    precision: str  # fp32, tf32, bf16 or fp16
    context: int  # ranks that divide the tokens of every sequence
    options: dict  # keys that only one of the programs reads

    @staticmethod
    def read() -> "PipelinePlan":
        options = read_json(HERE / "pipeline.json")
        try:
            return PipelinePlan.of(options)
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
            raise UserError(f"pipeline.json is not as exported ({type(error).__name__}: {first_line(error)}): export the plan "
                            "again") from None

    @staticmethod
    def of(options: dict) -> "PipelinePlan":
        for key, known in KNOWN.items():
            if options[key] not in known:
                raise UserError(f"{key} {options[key]!r:.40} in pipeline.json is not one of {', '.join(known)}: export the plan again")
        model = transformer_model(Transformer.read(options["model"]))
        it = PipelinePlan(model, options["layers"], options["replicas"], options["recompute"],
                          options["precision"], options["context"], options)
        if sum(it.layers) != model.layers:
            raise UserError(f"the stages of pipeline.json have {sum(it.layers)} layers, but the model has {model.layers}: "
                            "export the plan again")
        ranks, world = it.context * it.replicas * len(it.layers) // options.get("chunks", 1), os.environ.get("WORLD_SIZE", "not set")
        if world != str(ranks):
            raise UserError(f"WORLD_SIZE is {world}, but the plan has {ranks} ranks: start every rank, with start.sh or a "
                            "launcher")
        return it

    def first_layer(self, stage: int) -> int:
        return sum(self.layers[:stage])

    def samples(self, step: int, replica: int, per_replica: int) -> range:
        """The samples of a replica in a step: all plans train on the same ones in the same step."""
        first = (step * self.replicas + replica) * per_replica
        return range(first, first + per_replica)

    def batches(self, arguments: argparse.Namespace):
        """A function from samples to inputs and targets."""
        return open_data(arguments.data, self.model, arguments.seed)


def parse_arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--steps", metavar="N", type=int, default=20, help="steps of training [20]")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="of the parameters and the data [1]")
    parser.add_argument("--data", metavar="FILE", default="synthetic", help="text file to train on, by bytes [synthetic]")
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default="auto",
                        help="where to compute [auto: a GPU if there is one]")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda requires a GPU that PyTorch supports: give --device cpu")
    return arguments


def gpu_number(available: int) -> int:
    """The GPU of this rank, of those that it sees."""
    if "LOCAL_RANK" not in os.environ and available > 1:
        raise UserError(f"LOCAL_RANK is not set, but this process sees {available} GPUs: start with start.sh or torchrun")
    number = int(os.environ.get("LOCAL_RANK", "0"))
    if number >= available:
        raise UserError(f"LOCAL_RANK is {number}, but this process sees {available} GPUs: check CUDA_VISIBLE_DEVICES")
    return number


def report(step: int, loss: float, seconds: float, is_printed: bool) -> None:
    """Called on all ranks that know the loss, so that all of them end if it is not finite."""
    if not math.isfinite(loss):
        raise UserError(f"the loss of step {step} is {loss}: set a lower learning rate, or check the data")
    if is_printed:
        print(f"step {step} loss {loss:.6f} seconds {seconds:.3f}", flush=True)


def run(train: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> int:
    """Calls `train`. An error that the user can mend is one line, without a traceback."""
    try:
        train(arguments)
    except UserError as error:
        print(f"train.py: {error}", file=sys.stderr)
        return BAD_INPUT
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(f"train.py: out of memory: plan with recompute full or more devices ({first_line(error)})", file=sys.stderr)
        return BAD_INPUT
    return DONE
