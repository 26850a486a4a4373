"""Checkpoints per layer, which any plan of the same model can write and read.

A checkpoint of step N is the folder `step-N` with one file per layer and `meta.json`. Layers are written to
`step-N.part`, which `commit` renames when all of them are there, so that a folder `step-N` is complete.
`latest` names the step to resume from and is written last. The previous checkpoint is kept.

A layer's file has the safetensors format (8 bytes with the length of a JSON header, the header, raw little-endian
numbers), which other software can read. Nothing in it is executed, sizes are checked against the length of the
file before memory is allocated, and a checksum covers all of it. File names are made from numbers only.
"""
from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import math
import os
import re
import shutil
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .errors import UserError, printable

SCHEMA = "dtfm-checkpoint/1"
KEPT = 2  # complete checkpoints
MAX_HEADER_BYTES = 64 << 20
MAX_META_BYTES = 1 << 20
MAX_TENSORS = 100_000
MAX_DIMENSIONS = 16
OTHER_PLAN = "use the plan that wrote it, or another --checkpoint-dir"
# A shared folder may show what another host has written only after a while.
SHARED_FOLDER_DELAY_S = 5.0

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
          "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
          "BOOL": torch.bool}
NAME_OF_DTYPE = {dtype: name for name, dtype in DTYPES.items()}


@dataclass
class LayerState:
    """What training needs to resume a layer."""

    parameters: Dict[str, Tensor]
    # Of each parameter its state tensors, for example {"norm.weight": {"exp_avg": …, "exp_avg_sq": …}}.
    optimizer: Dict[str, Dict[str, Tensor]] = field(default_factory=dict)
    steps: int = 0  # that the optimizer has made


# ---------------------------------------------------------------------------------------------------- writing

def write_layer(folder: os.PathLike, step: int, layer: int, state: LayerState) -> None:
    """Writes a layer of a checkpoint that `commit` completes. Tensors may be on any device."""
    part = _part_folder(folder, step)
    with _writing(part):
        part.mkdir(parents=True, exist_ok=True)
        _write_file(part / _layer_file(layer), _encoded(state, step, layer))


def commit(folder: os.PathLike, step: int, meta: Mapping, layers: int) -> None:
    """Completes a checkpoint, once all ranks have written their layers (one rank calls this after a barrier), and
    removes those before the previous one."""
    part, complete = _part_folder(folder, step), _step_folder(folder, step)
    missing = _missing_layers(part, layers)
    if missing:
        raise UserError(f"{part} does not contain {_layer_file(missing[0])}{_and_more(missing)}: --checkpoint-dir must be a "
                        "folder that all ranks share, and that no other training uses")
    document = json.dumps({**meta, "schema": SCHEMA, "step": step, "layers": layers}).encode()
    if len(document) > MAX_META_BYTES:
        raise ValueError("meta of a checkpoint is too long")
    with _writing(folder):
        _remove_strays(part, layers)
        _write_file(part / "meta.json", [document])
        if complete.exists():  # written by a run that resumed from an older step, too
            _remove(complete)
        os.rename(part, complete)
        _sync_folder(Path(folder))
        _write_file(Path(folder) / "latest", [f"{complete.name}\n".encode()])
        _remove_old(Path(folder), step)


def _missing_layers(part: Path, layers: int) -> List[int]:
    deadline = time.monotonic() + SHARED_FOLDER_DELAY_S
    while True:
        present = set(os.listdir(part)) if part.is_dir() else set()
        missing = [layer for layer in range(layers) if _layer_file(layer) not in present]
        if not missing or time.monotonic() > deadline:
            return missing
        time.sleep(0.1)


def _and_more(missing: Sequence[int]) -> str:
    return f" and {len(missing) - 1} more" if len(missing) > 1 else ""


def _remove_strays(part: Path, layers: int) -> None:
    """Removes what killed writers have left. All ranks have finished writing."""
    expected = {_layer_file(layer) for layer in range(layers)}
    for path in [*part.iterdir(), *part.parent.glob(".latest.*.tmp")]:
        if path.name not in expected:
            path.unlink()


def _remove_old(folder: Path, step: int) -> None:
    """Removes the checkpoints before the previous one and what was not completed up to this step. Files that cannot
    be removed do no harm."""
    kept = sorted((s for s in _complete_steps(folder) if s <= step), reverse=True)[:KEPT]
    for name in os.listdir(folder):
        old = _step_of(name, "(?:[.]part)?")
        if old is not None and old <= step and not (old in kept and name == _step_folder(folder, old).name):
            _remove(folder / name)


def _remove(step_folder: Path) -> None:
    """Without its metadata, a folder that is removed only in part is not a checkpoint."""
    with contextlib.suppress(OSError):
        (step_folder / "meta.json").unlink()
    shutil.rmtree(step_folder, ignore_errors=True)


def _encoded(state: LayerState, step: int, layer: int) -> Iterator[memoryview]:
    """The bytes of a layer's file, piece by piece."""
    tensors = {name: _on_cpu(tensor) for name, tensor in _flattened(state)}
    # Larger elements first, so that all are aligned.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    entries: Dict[str, object] = {}
    offset = 0
    for name in names:
        tensor = tensors[name]
        end = offset + tensor.numel() * tensor.element_size()
        entries[name] = {"dtype": NAME_OF_DTYPE[tensor.dtype], "shape": list(tensor.shape),
                         "data_offsets": [offset, end]}
        offset = end
    metadata = {"format": "pt", "schema": SCHEMA, "step": str(step), "layer": str(layer), "steps": str(state.steps)}
    checksum = _Checksum(metadata, entries)
    for name in names:
        checksum.add(_bytes_of(tensors[name]))
    header = json.dumps({"__metadata__": {**metadata, "checksum": checksum.text()}, **entries}).encode()
    header += b" " * (-len(header) % 8)
    yield memoryview(struct.pack("<Q", len(header)))
    yield memoryview(header)
    for name in names:
        yield _bytes_of(tensors[name])


def _flattened(state: LayerState) -> Iterator[Tuple[str, Tensor]]:
    for name, tensor in state.parameters.items():
        yield _joined("parameter", name), tensor
    for name, values in state.optimizer.items():
        for key, tensor in values.items():
            yield _joined("optimizer", name, key), tensor


def _joined(*parts: str) -> str:
    if any("/" in part or not part for part in parts):
        raise ValueError(f"names of tensors must not be empty or contain `/`: {parts}")
    return "/".join(parts)


def _on_cpu(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu").contiguous()


def _bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the CPU, which must outlive the result."""
    if sys.byteorder != "little":
        raise UserError("checkpoints need a little-endian machine")
    length = tensor.numel() * tensor.element_size()
    if length == 0:  # without an address
        return memoryview(bytearray())
    return memoryview((ctypes.c_char * length).from_address(tensor.data_ptr())).cast("B")


class _Checksum:
    """Of the header and the data of a file."""

    def __init__(self, metadata: Mapping[str, str], entries: Mapping[str, object]) -> None:
        self.hash_ = hashlib.blake2b(digest_size=16)
        self.hash_.update(json.dumps([metadata, entries], sort_keys=True).encode())

    def add(self, data: memoryview) -> None:
        self.hash_.update(data)

    def text(self) -> str:
        return self.hash_.hexdigest()


def _write_file(path: Path, pieces) -> None:
    """Writes a file under a temporary name and renames it when its data is on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Puts renames on the disk, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _writing(folder: os.PathLike) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{error.filename or folder} disappeared while a checkpoint was written: give every training "
                        "its own --checkpoint-dir") from None
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot write the checkpoint: {error.strerror}; earlier "
                        "checkpoints are unchanged") from None


# ---------------------------------------------------------------------------------------------------- reading

def latest(folder: os.PathLike) -> Optional[Tuple[int, dict]]:
    """The step to resume from and what `commit` was given, or None where there is no checkpoint."""
    folder = Path(folder)
    steps = _complete_steps(folder)
    if not steps:
        return None
    step = _latest_step(folder)
    # `latest` is written after the folder is renamed, so a step of which it knows nothing yet is complete, too.
    step = step if step in steps else max(steps)
    return step, _read_meta(_step_folder(folder, step) / "meta.json", step)


def require_empty(folder: os.PathLike) -> None:
    """For a training that starts anew: it must not mix its checkpoints with those of another one."""
    found = latest(folder)
    if found:
        raise UserError(f"{folder} has a checkpoint of step {found[0]}: add --resume to resume from it, or use "
                        "another --checkpoint-dir")


def require_same(folder: os.PathLike, meta: Mapping, **expected) -> None:
    """Compares keys of the metadata with this training's, for example `model`, and explains the first difference."""
    for key, value in expected.items():
        # Compared as JSON, in which tuples and lists are the same.
        if json.loads(json.dumps(value)) != meta.get(key):
            raise UserError(f"the checkpoint in {folder} belongs to a different {key}: "
                            f"{_difference(meta.get(key), value)}; {OTHER_PLAN}")


def _difference(theirs, ours) -> str:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            if theirs.get(key) != ours.get(key):
                there, here = _printable(theirs.get(key)), _printable(ours.get(key))
                return f"`{_printable(key)}` is {there} in the checkpoint and {here} in this plan"
    return f"{_printable(theirs)} in the checkpoint and {_printable(ours)} in this plan"


def _printable(value) -> str:
    text = value if isinstance(value, str) else "absent" if value is None else json.dumps(value)
    return printable(text)[:80]


def read_layer(folder: os.PathLike, step: int, layer: int,
               shapes: Optional[Mapping[str, Sequence[int]]] = None) -> LayerState:
    """Reads a layer of a complete checkpoint, on the CPU. `shapes`, if given, are those that its parameters must
    have; so a checkpoint of another model is an error."""
    path = _step_folder(folder, step) / _layer_file(layer)
    try:
        with _open(path) as file:
            state = _decoded(file, step, layer)
    except (OSError, _Damaged) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"{path}: {problem}; {_way_out(Path(folder), step)}") from None
    if shapes is not None:
        _require_shapes(path, {name: list(tensor.shape) for name, tensor in state.parameters.items()}, shapes)
    return state


def _open(path: Path):
    """Opens a regular file. Opening or reading a FIFO or a device could block forever."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is not a regular file")
    return open(path, "rb")


def _way_out(folder: Path, step: int) -> str:
    older = [s for s in _complete_steps(folder) if s < step]
    if not older:
        return "restore the file, or train from the start in another --checkpoint-dir"
    return f"restore the file, or remove {_step_folder(folder, step)} to resume from step {max(older)}"


def _require_shapes(path: Path, found: Mapping[str, Sequence[int]], expected: Mapping[str, Sequence[int]]) -> None:
    for name in sorted({*found, *expected}):
        theirs, ours = found.get(name), expected.get(name)
        if theirs is None or ours is None or list(theirs) != list(ours):
            raise UserError(f"{path} belongs to a different model: parameter `{_printable(name)}` is {_shape(theirs)} "
                            f"in the checkpoint and {_shape(ours)} in this plan; {OTHER_PLAN}")


def _shape(shape: Optional[Sequence[int]]) -> str:
    return "absent" if shape is None else "×".join(map(str, shape)) or "a number"


class _Damaged(Exception):
    """A file that is not as it was written; the text completes `FILE: `."""


def _decoded(file, step: int, layer: int) -> LayerState:
    length = os.fstat(file.fileno()).st_size
    metadata, entries, begin = _read_header(file, length)
    tensors = [_checked_entry(name, entry) for name, entry in entries.items()]
    tensors.sort(key=lambda tensor: tensor.begin)
    end = 0
    for tensor in tensors:
        if tensor.begin != end:
            raise _Damaged("its header is inconsistent")
        end = tensor.end
    if begin + end > length:
        raise _Damaged(f"is truncated ({length} of {begin + end} bytes)")
    if begin + end < length:
        raise _Damaged(f"is too long ({length} instead of {begin + end} bytes)")
    if (metadata.get("step"), metadata.get("layer")) != (str(step), str(layer)):
        raise _Damaged("belongs to another layer or step")
    return _read_tensors(file, metadata, entries, tensors)


def _read_header(file, length: int) -> Tuple[Dict[str, str], Dict[str, object], int]:
    start = file.read(8)
    if len(start) < 8:
        raise _Damaged(f"is truncated ({length} bytes)")
    header_length, = struct.unpack("<Q", start)
    if header_length > MAX_HEADER_BYTES:
        raise _Damaged("is not a layer of a checkpoint")
    if 8 + header_length > length:
        raise _Damaged(f"is truncated ({length} bytes; its header alone ends at {8 + header_length})")
    header = _parsed(file.read(header_length))
    metadata = header.pop("__metadata__", None) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or metadata.get("schema") != SCHEMA:
        raise _Damaged("is not a layer of a checkpoint")
    if len(header) > MAX_TENSORS:
        raise _Damaged("has too many tensors")
    return metadata, header, 8 + header_length


def _parsed(text: bytes):
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _Damaged("its header is damaged") from None


@dataclass
class _Entry:
    name: str
    dtype: torch.dtype
    shape: List[int]
    begin: int
    end: int


def _is_size(value) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


def _checked_entry(name: str, entry) -> _Entry:
    inconsistent = _Damaged("its header is inconsistent")
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise inconsistent
    name_of_dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(name_of_dtype, str) or name_of_dtype not in DTYPES:
        raise inconsistent
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not all(map(_is_size, shape)):
        raise inconsistent
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise inconsistent
    dtype = DTYPES[name_of_dtype]
    if offsets[1] - offsets[0] != math.prod(shape) * torch.empty((), dtype=dtype).element_size():
        raise inconsistent
    return _Entry(name, dtype, shape, *offsets)


def _read_tensors(file, metadata: Dict[str, str], entries: Mapping, tensors: Sequence[_Entry]) -> LayerState:
    expected = metadata.pop("checksum", None)
    checksum = _Checksum(metadata, entries)
    steps = metadata.get("steps")
    if not isinstance(steps, str) or not re.fullmatch("[0-9]{1,18}", steps):
        raise _Damaged("its header is inconsistent")
    state = LayerState({}, {}, int(steps))
    for entry in tensors:
        tensor = torch.empty(entry.shape, dtype=entry.dtype)
        memory = _bytes_of(tensor)
        if file.readinto(memory) != len(memory):
            raise _Damaged("was truncated while it was read")
        checksum.add(memory)
        _insert(state, entry.name, tensor)
    if checksum.text() != expected:
        raise _Damaged("is damaged (its checksum is wrong)")
    return state


def _insert(state: LayerState, name: str, tensor: Tensor) -> None:
    kind, *parts = name.split("/")
    if kind == "parameter" and len(parts) == 1:
        state.parameters[parts[0]] = tensor
    elif kind == "optimizer" and len(parts) == 2:
        state.optimizer.setdefault(parts[0], {})[parts[1]] = tensor
    else:
        raise _Damaged("its header is inconsistent")


# ------------------------------------------------------------------------------------------------ file names

def _step_folder(folder: os.PathLike, step: int) -> Path:
    return Path(folder) / f"step-{step:08}"


def _part_folder(folder: os.PathLike, step: int) -> Path:
    return Path(folder) / f"step-{step:08}.part"


def _layer_file(layer: int) -> str:
    return f"layer-{layer:05}.safetensors"


def _step_of(name: str, suffix: str = "") -> Optional[int]:
    match = re.fullmatch(f"step-([0-9]{{8,18}}){suffix}", name)
    return int(match[1]) if match else None


def _complete_steps(folder: Path) -> List[int]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"{folder}: cannot read the checkpoints: {error.strerror}") from None
    steps = (_step_of(name) for name in names if (folder / name / "meta.json").is_file())
    return [step for step in steps if step is not None]


def _latest_step(folder: Path) -> Optional[int]:
    try:
        with _open(folder / "latest") as file:
            return _step_of(file.read(64).decode(errors="replace").strip())
    except OSError:
        return None


def _read_meta(path: Path, step: int) -> dict:
    try:
        with _open(path) as file:
            text = file.read(MAX_META_BYTES + 1)
        meta = _parsed(text) if len(text) <= MAX_META_BYTES else None
    except (OSError, _Damaged):
        meta = None
    if not isinstance(meta, dict) or meta.get("schema") != SCHEMA or meta.get("step") != step:
        raise UserError(f"{path} is damaged; {_way_out(path.parents[1], step)}")
    return meta
