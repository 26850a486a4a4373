#!/usr/bin/env python3
"""Trains a model as program.json describes. Start one process per rank, or a single process with --single.

examples:
  RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 python3 train.py --steps 1000 --data text.txt
  python3 train.py --single --steps 10                           the same training in one process
  python3 train.py --steps 1000 --checkpoint-dir ckpt --checkpoint-every 100 --resume --log log.jsonl
  python3 train.py --profile profile.json --micro-batches 1,2,4  measure the layers on this device
  python3 train.py --profile profile.json --shape "$(cat model.json)"    the same before there is a plan
"""
import argparse
import contextlib
import json
import math
import os
import signal
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from dtfm_runtime.errors import (BAD_INPUT, DONE, FAILED, INTERRUPTED, PEER_FAILED, LayerFailed, PeerFailed,  # noqa: E402
                                 UserError, first_line, is_out_of_memory, printable)


MAX_STEPS, MAX_RATE, MAX_TIMEOUT_S = 10**9, 10**6, 7 * 86400
MAX_MICRO_BATCH, MAX_MICRO_BATCHES = 10**6, 64
MAX_THREADS = min(1024, 4 * (os.cpu_count() or 1))
# Options that may change when training resumes, and the consequence of each change.
CHANGES = {"optimizer": "its state starts anew", "seed": "samples come in a different order"}


def whole(least, most):
    def parse(text):
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be from {least} to {most}")
        return value
    return parse


def number(most, least=None):
    """Without `least`, numbers above 0."""
    def parse(text):
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number") from None
        if least is None and not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"must be above 0 and at most {most}")
        if least is not None and not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be from {least} to {most}")
        return value
    return parse


def sizes(text):
    parts = text.split(",")
    if len(parts) > MAX_MICRO_BATCHES:
        raise argparse.ArgumentTypeError(f"must have at most {MAX_MICRO_BATCHES} sizes")
    return [whole(1, MAX_MICRO_BATCH)(part) for part in parts]


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """One line, like all other errors."""
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see --help)\n")


def parse_arguments(arguments=None):
    parser = Parser(description=__doc__.split("\n\n")[0], epilog="\n".join(__doc__.split("\n\n")[1:]),
                    formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--program", metavar="FILE", default=str(HERE / "program.json"),
                        help="program exported from the plan [program.json beside train.py]")
    group = parser.add_argument_group("training")
    group.add_argument("--steps", metavar="N", type=whole(0, MAX_STEPS), default=100,
                       help="total iterations, including those before the checkpoint [100]")
    group.add_argument("--data", metavar="FILE", default="synthetic",
                       help="file whose bytes are the tokens, or `synthetic` [synthetic]")
    group.add_argument("--model", metavar="MODULE:FUNCTION",
                       help="layers of your own (dtfm_runtime/model.py) [the plan's transformer]")
    group.add_argument("--optimizer", choices=("adamw", "sgd"), help="optimizer [the plan's]")
    group.add_argument("--lr", metavar="RATE", type=number(MAX_RATE), default=1e-3, help="learning rate [0.001]")
    group.add_argument("--weight-decay", metavar="RATE", type=number(MAX_RATE, least=0),
                       help="weight decay [adamw: 0.01, sgd: 0]")
    group.add_argument("--epsilon", metavar="E", type=number(MAX_RATE), default=1e-8, help="epsilon of AdamW [1e-8]")
    group.add_argument("--seed", metavar="N", type=whole(0, 2**63 - 1), default=1,
                       help="seed of the initial parameters and of the samples [1]")
    group = parser.add_argument_group("checkpoints")
    group.add_argument("--checkpoint-dir", metavar="FOLDER",
                       help="folder of the checkpoints, shared by all ranks [none]")
    group.add_argument("--checkpoint-every", metavar="N", type=whole(1, MAX_STEPS),
                       help="iterations between checkpoints [only at the end]")
    group.add_argument("--resume", action="store_true", help="resume from the last checkpoint, if there is one")
    group = parser.add_argument_group("measuring")
    group.add_argument("--log", metavar="FILE", help="rank 0 writes a line of JSON per iteration")
    group.add_argument("--trace", metavar="FILE",
                       help="rank 0 writes a Chrome trace, like dtfm-sim --trace; all ranks need this option")
    group.add_argument("--profile", metavar="FILE",
                       help="measure the layers on this device, write a dtfm-profile file, and exit")
    group.add_argument("--micro-batches", metavar="N,N", type=sizes,
                       help="micro-batch sizes for --profile to measure [the plan's]")
    group.add_argument("--shape", metavar="JSON",
                       help="model for --profile without a plan: the job's `model`, as JSON [the plan's]")
    group.add_argument("--precision", choices=("fp32", "tf32", "bf16", "fp16"),
                       help="precision for --profile with --shape [fp32]")
    group.add_argument("--gpu", metavar="NAME",
                       help="GPU name in the profile; must match the topology [the driver's name]")
    group.add_argument("--emulate-compute", metavar="PROFILE",
                       help="sleep for the layer times of this profile instead of computing")
    group = parser.add_argument_group("running")
    group.add_argument("--device", choices=("cpu", "cuda", "auto"), default="auto",
                       help="where to compute [auto: a GPU if there is one]")
    group.add_argument("--threads", metavar="N", type=whole(1, MAX_THREADS),
                       help="CPU threads per rank [1; all with --single]")
    group.add_argument("--timeout", metavar="SECONDS", type=number(MAX_TIMEOUT_S, least=1), default=60.0,
                       help="time after which a rank that is silent or has not connected counts as failed [60]")
    group.add_argument("--single", action="store_true", help="train in one process, ignoring the plan's ranks")
    arguments = parser.parse_args(arguments)
    if arguments.checkpoint_every and not arguments.checkpoint_dir:
        parser.error("--checkpoint-every requires --checkpoint-dir")
    if arguments.resume and not arguments.checkpoint_dir:
        parser.error("--resume requires --checkpoint-dir")
    if arguments.single and arguments.emulate_compute:
        parser.error("--single cannot be combined with --emulate-compute")
    if arguments.checkpoint_dir and arguments.emulate_compute:
        parser.error("--checkpoint-dir cannot be combined with --emulate-compute, which trains nothing")
    for option in ("shape", "precision", "gpu", "micro_batches"):
        if getattr(arguments, option) and not arguments.profile:
            parser.error(f"--{option.replace('_', '-')} requires --profile")
    if arguments.precision and not arguments.shape:
        parser.error("--precision requires --shape")
    check_outputs(parser, arguments)
    return arguments


def check_outputs(parser, arguments):
    """Outputs are different files, and none that this program reads."""
    exported = [HERE / name for name in ("plan.json", "program.json", "rank_table.json", "README.md", "train.py")]
    inputs = [arguments.program, arguments.data, arguments.emulate_compute, *exported, *HERE.glob("*.sh"),
              *HERE.glob("dtfm_runtime/*")]
    taken = {os.path.realpath(name) for name in inputs if name is not None}
    for option in ("log", "trace", "profile"):
        name = getattr(arguments, option)
        if name is None:
            continue
        if os.path.realpath(name) in taken:
            parser.error(f"--{option} {name} would overwrite another file of this run: name a new one")
        taken.add(os.path.realpath(name))


def import_torch():
    try:
        import torch
    except ImportError as error:
        raise UserError(f"PyTorch cannot be imported ({error}): install PyTorch 1.13 or later for {sys.executable} "
                        "(pip install torch, or Debian's python3-torch)") from None
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < (1, 13):
        raise UserError(f"PyTorch {torch.__version__} is too old: install 1.13 or later")
    return torch


def choose_device(torch, choice, local_rank):
    if choice == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda requires a GPU that PyTorch supports: give --device cpu")
    if choice == "cpu" or not torch.cuda.is_available():
        return "cpu"
    if local_rank >= torch.cuda.device_count():
        raise UserError(f"LOCAL_RANK is {local_rank}, but this machine has {torch.cuda.device_count()} GPUs: start one "
                        "rank per GPU")
    torch.cuda.set_device(local_rank)
    return f"cuda:{local_rank}"


def read_shape(text):
    try:
        shape = json.loads(text)
    except (ValueError, RecursionError):
        shape = None
    if not isinstance(shape, dict):
        raise UserError("--shape must be a JSON object with the keys of a job's `model`")
    return shape


def make_model(arguments, sizes_of_job, layers):
    from dtfm_runtime.model import Transformer, custom_model, transformer_model
    if arguments.model:
        sys.path.insert(0, os.getcwd())
        return custom_model(arguments.model, layers)
    return transformer_model(Transformer.read(sizes_of_job))


def require_writable(arguments, *options):
    """Checked before long work, so that its result is not lost."""
    for option in options:
        path = getattr(arguments, option)
        if path is None:
            continue
        if os.path.isdir(path):
            raise UserError(f"--{option} {path} is a folder: name a file")
        if not os.access(path if os.path.exists(path) else os.path.dirname(os.path.abspath(path)), os.W_OK):
            raise UserError(f"--{option} {path} cannot be written: name a file in another folder")


def measure_profile(torch, arguments):
    from dtfm_runtime import profile
    from dtfm_runtime.program import read_program
    from dtfm_runtime.transport import local_rank
    require_writable(arguments, "profile")
    if arguments.shape:
        shape, precision, micro_batches = read_shape(arguments.shape), arguments.precision or "fp32", [1]
        layers = shape.get("layers") if isinstance(shape.get("layers"), int) else 0
    else:
        program = read_program(arguments.program)
        shape, precision, micro_batches = program.model, program.precision, [program.micro_batch]
        layers = program.layers
    device = choose_device(torch, arguments.device, local_rank())
    if device == "cpu":
        torch.set_num_threads(arguments.threads or 1)
    # Times of CPUs are those of fp32, in which they train whatever the job's precision is.
    dtype = torch.float32 if device == "cpu" else None
    written = profile.measure(make_model(arguments, shape, layers),
                              arguments.micro_batches or micro_batches, torch.device(device), precision,
                              gpu=arguments.gpu, dtype=dtype)
    profile.write(written, arguments.profile)
    print(f"wrote {arguments.profile}")


def require_memory_for(program, model, layers, device):
    """Of CPUs, for the layers that this process trains."""
    from dtfm_runtime import memory
    if model.transformer is None or device != "cpu":
        return
    memory.require_memory(memory.training_bytes(model.transformer, layers, program.micro_batch, 4),
                          f"training {len(layers)} layers of this model", "plan for more or larger devices")


def make_options(arguments, program, device, first_step):
    from dtfm_runtime.optimizer import default_optimizer
    from dtfm_runtime.training import Options
    optimizer = arguments.optimizer or default_optimizer(program.optimizer)
    decay = arguments.weight_decay if arguments.weight_decay is not None else {"adamw": 0.01, "sgd": 0.0}[optimizer]
    return Options(optimizer=optimizer, lr=arguments.lr, epsilon=arguments.epsilon, weight_decay=decay,
                   seed=arguments.seed, device=device, steps=arguments.steps, first_step=first_step)


def describe_training(program, model):
    """What must match a checkpoint to resume from it."""
    sizes_of_model = dict(vars(model.transformer)) if model.transformer else {"custom": model.name}
    sizes_of_model.pop("flash_attention", None)  # how attention is computed, not what
    return {"model": sizes_of_model}


def find_checkpoint(arguments, meta):
    """Step and metadata to resume from; step 0 if training starts anew."""
    from dtfm_runtime import checkpoint
    if not arguments.checkpoint_dir:
        return 0, {}
    try:
        os.makedirs(arguments.checkpoint_dir, exist_ok=True)
        writable = os.access(arguments.checkpoint_dir, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        raise UserError(f"--checkpoint-dir {arguments.checkpoint_dir} cannot be written: name another folder")
    if not arguments.resume:
        checkpoint.require_empty(arguments.checkpoint_dir)
        return 0, {}
    found = checkpoint.latest(arguments.checkpoint_dir)
    if found is None:
        return 0, {}
    checkpoint.require_same(arguments.checkpoint_dir, found[1], **meta)
    return found


def describe_run(meta, options):
    """The metadata that a checkpoint stores."""
    return {**meta, "options": {key: getattr(options, key) for key in CHANGES}}


def note_changes(found, options):
    """Prints a note for each option that differs from the checkpoint's."""
    before = found.get("options")
    for key, consequence in CHANGES.items():
        now = getattr(options, key)
        if isinstance(before, dict) and before.get(key, now) != now:
            print(f"note: the {key} is {now}, but the checkpoint was written with {printable(before[key])[:20]}: "
                  f"{consequence}", flush=True)


def identity_of(arguments, program, options):
    """The settings that all ranks must share, by name."""
    from dtfm_runtime import __version__
    from dtfm_runtime.transport import VERSION
    common = {f"--{key.replace('_', '-')}": str(value) for key, value in vars(arguments).items()
              if key not in ("program", "log", "threads", "data")}
    for key in ("trace", "checkpoint_dir", "emulate_compute"):  # their paths may differ between ranks
        common[f"--{key.replace('_', '-')}"] = "given" if getattr(arguments, key) else "not given"
    is_file = arguments.data != "synthetic" and os.path.isfile(arguments.data)
    # The size is compared because positions of samples depend on it.
    size = f" of {os.path.getsize(arguments.data)} bytes" if is_file else ""
    return {**common, "--data": Path(arguments.data).name + size, "--device": options.device.split(":")[0],
            "the hash of program.json": program.digest[:12], "the step of the checkpoint": str(options.first_step),
            VERSION: __version__}


def emulated_layers(program, model, path):
    from dtfm_runtime.compute import EmulatedLayer
    from dtfm_runtime.profile import Emulation
    times, size = Emulation(path, model), program.micro_batch
    result = {}
    for layer in range(model.layers):
        forward = times.forward_s([layer], size)
        # The middle layers are blocks only, which is what recomputation repeats of the first and the last one, too.
        block = times.forward_s([1], size) if model.layers > 2 else forward
        result[layer] = EmulatedLayer(forward, times.backward_s([layer], size), times.update_s([layer]), block,
                                      weight_share(model, layer))
    return result


def weight_share(model, layer):
    """The share of the backward pass for gradients of parameters, by operations, as in core/plan/layer_times.cpp."""
    from dtfm_runtime.memory import block_parameters
    it = model.transformer
    if it is None:
        return 0.5
    products = 2 * it.sequence * (block_parameters(it) + (it.hidden * it.vocabulary if layer == it.layers - 1 else 0))
    return products / (2 * (products + 4 * it.sequence ** 2 * it.heads * it.head_dim))


class Run:
    """The iterations of one rank, with checkpoints and what is written about them."""

    def __init__(self, arguments, program, trainer, options, meta, recorder, watchdog=None, rank=0):
        self.arguments, self.program, self.trainer, self.options, self.meta = arguments, program, trainer, options, meta
        self.recorder, self.watchdog, self.rank = recorder, watchdog, rank
        self.seconds = {}

    def train(self):
        from dtfm_runtime.timeline import IterationLog
        path = self.arguments.log if self.rank == 0 else None
        self.log = IterationLog(path, append=self.options.first_step > 0) if path else None
        if self.options.first_step >= self.options.steps and self.rank == 0:
            print(f"step {self.options.first_step} is done: give more --steps to continue", flush=True)
        for step in range(self.options.first_step, self.options.steps):
            if self.watchdog is not None:
                self.watchdog.check()
            start = time.monotonic()
            self.trainer.run_iteration()
            end = time.monotonic()
            self.recorder.iteration(step, start, end)
            self.seconds[step] = end - start
            self.report(leave=1)
            self.save_checkpoint(step + 1)
        self.report(leave=0)

    def save_checkpoint(self, step):
        every = self.arguments.checkpoint_every
        if self.arguments.checkpoint_dir and (step == self.options.steps or (every and step % every == 0)):
            self.report(leave=0)
            with self.recorder.span("save_checkpoint"):
                self.trainer.save(self.arguments.checkpoint_dir, self.meta)

    def report(self, leave):
        if self.rank > 0:
            return
        tokens = self.program.global_batch * self.program.sequence
        for it in self.trainer.take_reports(leave):
            seconds = self.seconds.pop(it.iteration)
            # Loss scaling skips the update if a gradient is not finite, so that training can go on.
            if it.loss is not None and not math.isfinite(it.loss) and not self.trainer.scale.enabled:
                raise UserError(f"the loss of iteration {it.iteration} is {it.loss}: resume from the last checkpoint with a "
                                "lower --lr, or check the data")
            loss = "" if it.loss is None else f"loss {it.loss:.6f}, "
            print(f"iteration {it.iteration}: {loss}{seconds:.3f} s, {tokens / seconds:.0f} tokens/s", flush=True)
            if self.log:
                self.log.write(iteration=it.iteration, loss=it.loss, seconds=seconds, tokens=tokens,
                               peak_memory_bytes=it.peak_memory_bytes)


def write_trace(arguments, texts, devices, name):
    from dtfm_runtime.timeline import MAX_EVENTS, merge_texts
    dropped = merge_texts(texts, arguments.trace, devices, name)
    if dropped:
        print(f"{arguments.trace} is incomplete: a rank exceeded {MAX_EVENTS} events and dropped later ones ({dropped} in "
              "all), so the last iterations are left out: trace fewer --steps", flush=True)


def train_single(torch, arguments, program, model):
    from dtfm_runtime.data import open_data
    from dtfm_runtime.single import SingleTrainer
    from dtfm_runtime.timeline import Recorder
    from dtfm_runtime.transport import local_rank
    require_writable(arguments, "log", "trace")
    device = choose_device(torch, arguments.device, local_rank())
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    require_memory_for(program, model, list(range(program.layers)), device)
    meta = describe_training(program, model)
    step, found = find_checkpoint(arguments, meta)
    options = make_options(arguments, program, device, step)
    trainer = SingleTrainer(program, model, open_data(arguments.data, model, arguments.seed), options)
    if step:
        trainer.load(arguments.checkpoint_dir, step, found)
        note_changes(found, options)
    recorder = Recorder(0, arguments.trace is not None)
    Run(arguments, program, trainer, options, describe_run(meta, options), recorder).train()
    if arguments.trace:
        write_trace(arguments, [recorder.text()], ["single"], "training")


def train_rank(torch, arguments, program, model):
    """Returns the exit code; ends the process itself if a peer has failed."""
    from dtfm_runtime.failure import Watchdog, end_process
    from dtfm_runtime.transport import environment
    if len(program.ranks) == 1 and "WORLD_SIZE" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    rank, world, address, port, local_rank = environment()
    if world != len(program.ranks):
        raise UserError(f"WORLD_SIZE is {world}, but the plan has {len(program.ranks)} ranks: start "
                        f"{len(program.ranks)} processes")
    device = choose_device(torch, "cpu" if arguments.emulate_compute else arguments.device, local_rank)
    if device == "cpu":
        torch.set_num_threads(arguments.threads or 1)
    if not arguments.emulate_compute:
        require_memory_for(program, model, program.ranks[rank].layers(), device)
    watchdog = Watchdog(rank, world, address, port + 1 if port < 65535 else port - 1, arguments.timeout,
                        program.describe)
    try:
        watchdog.start()
    except PeerFailed:
        watchdog.stop()  # rank 0 tells those that have not connected yet
        raise
    try:
        run_connected(torch, arguments, program, model, (rank, world, address, port), device, watchdog)
        watchdog.stop()
        code, message, reason = DONE, "", ""
    except (UserError, PeerFailed) as error:
        code, message = error.exit_code, str(error)
        reason = message
    except KeyboardInterrupt:
        code, message, reason = INTERRUPTED, "interrupted; the last checkpoint is unchanged", "it was interrupted"
    except Exception as error:
        code, reason = after_error(watchdog, error)
        message = reason if code == PEER_FAILED else f"{program.describe(rank)} failed: {reason}"
    if code not in (DONE, PEER_FAILED):
        with contextlib.suppress(PeerFailed):
            watchdog.stop(reason)
    elif code == PEER_FAILED:
        with contextlib.suppress(PeerFailed):
            watchdog.stop()
    sys.stdout.flush()
    end_process(code, f"train.py: {message}" if message else "")


def is_of_message(error):
    """Whether an error comes from Gloo or NCCL, and not from a layer."""
    return any(word in str(error).lower() for word in ("gloo", "nccl", "connection", "socket", "tcpstore"))


def print_cause(error):
    """Prints the traceback of the original exception."""
    cause = error.__cause__ if isinstance(error, LayerFailed) else error
    traceback.print_exception(type(cause), cause, cause.__traceback__)


def after_error(watchdog, error):
    """Returns the exit code and the reason. A communication error usually means that another rank has failed; the watchdog
    knows which one."""
    if is_out_of_memory(error):
        return BAD_INPUT, f"out of memory: plan with recompute full or more devices ({first_line(error)})"
    try:
        if isinstance(error, RuntimeError):
            # A silent rank is known only after most of the time limit; who reports an error before would be blamed.
            watchdog.wait_for_failure(None if is_of_message(error) else 5.0)
    except PeerFailed as failed:
        return PEER_FAILED, str(failed)
    print_cause(error)
    return FAILED, first_line(error)


def run_connected(torch, arguments, program, model, place, device, watchdog):
    from dtfm_runtime.data import open_data
    from dtfm_runtime.timeline import Recorder
    from dtfm_runtime.training import Trainer
    from dtfm_runtime.transport import GlooTransport, NcclTransport, connect
    rank, world, address, port = place
    if rank == 0:
        require_writable(arguments, "log", "trace")
    meta = describe_training(program, model)
    step, found = find_checkpoint(arguments, meta)
    options = make_options(arguments, program, device, step)
    batches = None if arguments.emulate_compute else open_data(arguments.data, model, arguments.seed)
    transport, store = None, None
    if world > 1:
        use_gpu = device != "cpu"
        store = connect(rank, world, address, port, arguments.timeout, identity_of(arguments, program, options),
                        use_gpu, watchdog)  # noqa: F841, lives on
        transport = NcclTransport(rank, arguments.timeout) if use_gpu else GlooTransport(rank)
    torch.backends.cuda.matmul.allow_tf32 = program.precision == "tf32"
    emulated = emulated_layers(program, model, arguments.emulate_compute) if arguments.emulate_compute else None
    recorder = Recorder(rank, arguments.trace is not None, torch.device(device))
    trainer = Trainer(program, rank, model, batches, options, transport, recorder, emulated)
    if step:
        trainer.load(arguments.checkpoint_dir, step, found)
        if rank == 0:
            print(f"resuming from step {step}", flush=True)
            note_changes(found, options)
    Run(arguments, program, trainer, options, describe_run(meta, options), recorder, watchdog, rank).train()
    trainer.close()
    if arguments.trace:
        text = recorder.text(watchdog.clock())
        texts = transport.gather_texts(text, world) if transport else [text]
        if rank == 0:
            write_trace(arguments, texts, [it.device for it in program.ranks], program.topology or "training")


def raise_interrupt(*_):
    raise KeyboardInterrupt


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, raise_interrupt)
    try:
        torch = import_torch()
        if arguments.profile:
            measure_profile(torch, arguments)
            return DONE
        from dtfm_runtime.program import read_program
        program = read_program(arguments.program)
        model = make_model(arguments, program.model, program.layers)
        (train_single if arguments.single else train_rank)(torch, arguments, program, model)
        return DONE
    except (UserError, PeerFailed) as error:
        print(f"train.py: {error}", file=sys.stderr)
        return error.exit_code
    except LayerFailed as error:  # of --single or make_model: train_rank reports those of connected ranks
        print_cause(error)
        print(f"train.py: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("train.py: interrupted; the last checkpoint is unchanged", file=sys.stderr)
        return INTERRUPTED
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print("train.py: out of memory: use a smaller model or micro-batch, or train on more devices "
              f"({first_line(error)})", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
