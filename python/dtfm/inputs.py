"""Topologies, jobs and scenarios, from files, dicts, YAML or JSON text, numpy arrays, and Hugging Face configs."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dtfm import _core
from dtfm.errors import InfeasibleError, InputError

_core.set_exceptions(InputError, InfeasibleError)


def unicode_text(text: str, where: str) -> str:
    """`text`. Raises InputError for surrogates, which UTF-8 does not have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(where, "contains text that is not valid Unicode") from None
    return text


def path_text(path: str | os.PathLike, where: str) -> str:
    if not isinstance(path, (str, os.PathLike)) or not isinstance(name := os.fspath(path), str):
        raise InputError(where, f"expected a string as path; found {type(path).__name__}")
    if not name or "\0" in name:
        raise InputError(where, f"expected the name of a file; found {name!r}")
    return unicode_text(name, where)


def plain(value: Any, where: str = "") -> Any:
    """`value` as JSON has it: numpy scalars and arrays as numbers and lists, tuples as lists, paths as text.

    Raises InputError for a value that JSON cannot have: NaN, infinity, sets, keys that are not text, cycles.
    """
    return _plain(value, where, ())


def _plain(value: Any, where: str, parents: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return unicode_text(value, where)
    if hasattr(value, "tolist"):  # numpy
        return _plain(value.tolist(), where, parents)
    if isinstance(value, (int, float)):
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(where, f"must be finite; found {value}")
        return value
    if isinstance(value, os.PathLike):
        return path_text(value, where)
    if not isinstance(value, (Mapping, list, tuple, range)):
        raise InputError(where, f"expected a number, a string, a list or a dict; found {type(value).__name__}")
    if id(value) in parents:
        raise InputError(where, "contains itself")
    if len(parents) > 100:
        raise InputError(where, "is nested more than 100 levels deep")
    parents += (id(value),)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(where, f"keys must be strings; found {key!r}")
            unicode_text(key, where)
        return {key: _plain(item, f"{where}.{key}" if where else key, parents) for key, item in value.items()}
    return [_plain(item, f"{where}[{i}]", parents) for i, item in enumerate(value)]


def json_text(value: Mapping, name: str) -> str:
    """A dict as JSON, one value per line, so that line numbers of errors tell values apart."""
    return json.dumps(plain(value, name), indent=1, ensure_ascii=False)


def key_at(text: str, line: int) -> str:
    """The keys that lead to a line of `json_text`: "devices[0].gpu"; empty for its first line."""
    path: list[str] = []
    items: list[int] = []  # elements seen so far, by depth
    for row in text.splitlines()[:line]:
        content = row.lstrip(" ")
        depth = len(row) - len(content)
        if content[:1] in ("}", "]") or depth == 0:
            continue
        del path[depth - 1 :], items[depth:]
        items += [0] * (depth - len(items))
        key = re.match(r'"((?:[^"\\]|\\.)*)": ', content)
        path.append("." + json.loads(f'"{key[1]}"') if key else f"[{items[depth - 1]}]")
        items[depth - 1] += 1
    return "".join(path).lstrip(".")


@contextmanager
def located(documents: Mapping[str, str]) -> Iterator[None]:
    """Replaces, in errors, line numbers of the JSON of a dict, which the user never sees, by the key."""
    try:
        yield
    except InputError as error:
        text = documents.get(error.file or "")
        if not text or error.line is None:
            raise
        key = key_at(text, error.line)
        raise InputError(f"{error.file}.{key}" if key else str(error.file), error.problem) from None


def versioned(document: Mapping) -> dict:
    """The document, with `"version": 1` if it has no version."""
    return dict(document) if "version" in document else {"version": 1, **document}


def is_document(value: Any) -> bool:
    """Whether `value` is text of a document rather than the name of a file."""
    return isinstance(value, str) and ("\n" in value or value.lstrip().startswith("{"))


class Topology:
    """Devices and the network between them, validated once.

    Args:
        source: a path, the text of a file, or a dict with the keys of a topology file (docs/files/topology.md):
            {"devices": [{"site": "oregon", "count": 4, "gpu": "T4"}], "links": [...]}.
        latency_s, bandwidth_bps: instead of links: one-way latencies in seconds and bandwidths in bit/s as
            arrays of shape (devices, devices), row = sender. Diagonals are ignored.
        folder: to which relative file names in a dict or text refer.

    Raises:
        InputError: at the place of what is not valid.

    Example:
        >>> Topology({"devices": [{"site": "lab", "count": 2, "gpu": "T4"}]},
        ...          latency_s=[[0, 1e-3], [1e-3, 0]], bandwidth_bps=[[0, 1e10], [1e10, 0]])
        Topology('topology': 2 devices in 1 site)
    """

    def __init__(
        self,
        source: str | os.PathLike | Mapping,
        *,
        latency_s: Any = None,
        bandwidth_bps: Any = None,
        folder: str | os.PathLike = ".",
    ) -> None:
        if (latency_s is None) != (bandwidth_bps is None):
            raise InputError("", "latency_s and bandwidth_bps must be given together")
        name, folder = "topology", path_text(folder, "folder")
        if latency_s is None and isinstance(source, (str, os.PathLike)) and not is_document(source):
            name = path_text(source, "topology")
            text, folder = _core.read_text(name), os.path.dirname(name)
        elif isinstance(source, Mapping):
            document = versioned(source)
            if latency_s is not None:
                for key in ("links", "measured"):
                    if key in document:
                        raise InputError(f"topology.{key}", "cannot be combined with latency_s and bandwidth_bps")
                # Replaced below; valid for any devices.
                document["links"] = [{"between": ["*", "*"], "latency": "1 s", "bandwidth": "1 bps"}]
            text = json_text(document, "topology").encode()
        elif is_document(source) and latency_s is None:
            text = unicode_text(str(source), "topology").encode()
        else:
            found = f"found {type(source).__name__}"
            if latency_s is None:
                raise InputError("topology", f"expected a path, a string or a dict; {found}")
            raise InputError("topology", f"latency_s and bandwidth_bps require a dict; {found}")
        matrices = _matrix(latency_s, "latency_s"), _matrix(bandwidth_bps, "bandwidth_bps")
        with located({"topology": text.decode()} if isinstance(source, Mapping) else {}):
            self._core = _core.Topology.make(text, name, folder, *matrices)
        self._source = (text, name, os.path.abspath(folder), *matrices)
        self._removed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def devices(self) -> list[dict[str, Any]]:
        """One dict per device: id, site, host, gpu, memory_bytes, speed, price_usd_per_h; without what is unknown."""
        return self._core.devices()

    @property
    def latency_s(self):
        """One-way latencies as an array of shape (devices, devices), row = sender; 0 on the diagonal."""
        return self._core.latency_s()

    @property
    def bandwidth_bps(self):
        """Bandwidths of single flows in bit/s, of shape (devices, devices), row = sender; 0 on the diagonal."""
        return self._core.bandwidth_bps()

    @property
    def fingerprint(self) -> str:
        """Equal for topologies with equal devices and links."""
        return self._core.fingerprint

    def without(self, devices: Iterable[str]) -> Topology:
        """The topology without the given devices (ids), such as failed ones. Raises InputError if none is left."""
        if isinstance(devices, str) or not isinstance(devices, Iterable):
            raise InputError("devices", f"expected a list of ids; found {devices!r}")
        removed = [unicode_text(str(device), "devices") for device in devices]
        part = Topology.__new__(Topology)
        part._core = self._core.without(removed)
        part._source, part._removed = self._source, (*self._removed, *removed)
        return part

    def __reduce__(self) -> tuple:
        return _restored, (self._source, self._removed, self.fingerprint)

    def to_dict(self) -> dict[str, Any]:
        """Name, fingerprint and devices, without the links."""
        return {"name": self.name, "fingerprint": self.fingerprint, "devices": self.devices}

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        sites = len({device["site"] for device in self.devices})
        return (
            f"Topology({self.name!r}: {len(self)} device{'s' * (len(self) != 1)} in {sites} site{'s' * (sites != 1)})"
        )

    def plot(self, ax: Any = None) -> Any:
        """Draws the bandwidth between all devices with matplotlib. Returns the axes."""
        import matplotlib.pyplot as plt
        import numpy as np

        ax = ax or plt.subplots()[1]
        bandwidth = np.where(self.bandwidth_bps > 0, self.bandwidth_bps, np.nan)
        image = ax.imshow(np.log10(bandwidth), cmap="viridis")
        ax.figure.colorbar(image, ax=ax, label="log10 of the bandwidth in bit/s")
        ax.set(title=self.name, xlabel="to device", ylabel="from device")
        return ax


def _restored(source: tuple, removed: tuple[str, ...], fingerprint: str) -> Topology:
    """A topology that was pickled. The files that its text names, such as measured matrices, are read again."""
    topology = Topology.__new__(Topology)
    topology._core = _core.Topology.make(*source)
    topology._source, topology._removed = source, ()
    topology = topology.without(removed) if removed else topology
    if topology.fingerprint != fingerprint:
        raise InputError(source[1], "refers to files that have changed since: read the topology again")
    return topology


def _matrix(values: Any, name: str) -> Any:
    if values is None:
        return None
    import numpy as np

    try:
        matrix = np.asarray(values)
        if matrix.dtype.kind not in "fiu":
            raise TypeError(f"found {matrix.dtype}")
        matrix = matrix.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(name, f"expected an array of numbers: {error}") from None
    if matrix.ndim != 2:
        raise InputError(name, f"expected an array of shape (devices, devices); found shape {matrix.shape}")
    return matrix


class Job:
    """What is trained and how: model, batch, parallelism, precision (docs/files/job.md).

    Args:
        source: a path, the text of a file, or a dict with the keys of a job file.

    Raises:
        InputError: at the place of what is not valid.
    """

    def __init__(self, source: str | os.PathLike | Mapping) -> None:
        if isinstance(source, Mapping):
            text = json_text(versioned(source), "job")
            with located({"job": text}):
                self._core = _core.Job.make(text, "job")
        elif is_document(source):
            self._core = _core.Job.make(unicode_text(str(source), "job"), "job")
        elif isinstance(source, (str, os.PathLike)):
            self._core = _core.Job.read(path_text(source, "job"))
        else:
            raise InputError("job", f"expected a path, a string or a dict; found {type(source).__name__}")

    @property
    def name(self) -> str:
        return self._core.name

    def to_json(self) -> str:
        return self._core.json()

    def to_dict(self) -> dict[str, Any]:
        """The job with all defaults, as in plan files."""
        return json.loads(self.to_json())

    def __reduce__(self) -> tuple:
        return Job, (self.to_json(),)

    def __repr__(self) -> str:
        return f"Job({self.name!r})"


class Scenario:
    """Failures, traces and jitter during a run (docs/files/scenario.md). It is checked against a topology when used.

    Args:
        source: a path, the text of a file, or a dict with the keys of a scenario file.
    """

    def __init__(self, source: str | os.PathLike | Mapping) -> None:
        self.path: str | None = None
        self._text = ""
        self._is_dict = isinstance(source, Mapping)
        if isinstance(source, Mapping):
            self._text = json_text(versioned(source), "scenario")
        elif is_document(source):
            self._text = unicode_text(str(source), "scenario")
        elif isinstance(source, (str, os.PathLike)):
            self.path = path_text(source, "scenario")
        else:
            raise InputError("scenario", f"expected a path, a string or a dict; found {type(source).__name__}")

    def __repr__(self) -> str:
        return f"Scenario({self.path!r})" if self.path else "Scenario(…)"


def model_text(config: Any) -> str | None:
    """The config.json of a Hugging Face config object or dict; None if `config` is neither."""
    if isinstance(config, Mapping):
        return json_text(config, "model")
    if hasattr(config, "to_json_string"):
        return config.to_json_string(use_diff=False)
    return None
