"""What the functions of dtfm return. Numbers carry their units in their names; to_dict has all of them."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dtfm import _core
from dtfm.errors import InputError
from dtfm.inputs import is_document, json_text, path_text, unicode_text

_MAX_NOTEBOOK_PAGE = 8 << 20  # characters; notebooks keep what they show


@dataclass(frozen=True)
class _Pickled:
    """Replaces what the library has of a result after pickling."""

    text: str
    is_feasible: bool
    is_interrupted: bool
    pareto_text: str | None
    columns: dict[str, Any]
    constant_rows: list[tuple[str, float, float, float]]

    def json(self) -> str:
        return self.text

    def pareto_json(self) -> str | None:
        return self.pareto_text

    def timeline(self) -> dict[str, Any]:
        return self.columns

    def constants(self) -> list[tuple[str, float, float, float]]:
        return self.constant_rows


class _Document:
    """A result whose JSON is written on first use."""

    def __init__(self, core: Any) -> None:
        self._core = core

    @classmethod
    def _of(cls, core: Any) -> Any:
        result = cls.__new__(cls)
        _Document.__init__(result, core)
        return result

    @cached_property
    def _json(self) -> str:
        return self._core.json()

    @cached_property
    def _dict(self) -> dict[str, Any]:
        return self.to_dict()

    def to_json(self) -> str:
        """The file that the program writes, byte for byte."""
        return self._json

    def to_dict(self) -> dict[str, Any]:
        """A copy of all numbers. Raises InputError for a plan from a file that is not JSON."""
        try:
            document = json.loads(self._json)
        except ValueError as error:
            raise InputError("plan", f"is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise InputError("plan", "is not a JSON object")
        return document

    def save(self, path: str | os.PathLike) -> None:
        """Writes the JSON to a file, which appears whole or not at all."""
        _write(path, self._json)

    @property
    def notes(self) -> list[str]:
        """What the user should know besides the numbers."""
        return list(self._dict.get("warnings", [])) + list(self._dict.get("notes", []))

    def __copy__(self) -> Any:
        copy = type(self).__new__(type(self))
        vars(copy).update((name, value) for name, value in vars(self).items() if name != "_dict")
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.__copy__()  # what the library has does not change

    def __reduce__(self) -> tuple:
        core = self._core
        parts = _Pickled(
            self._json,
            getattr(core, "is_feasible", True),
            getattr(core, "is_interrupted", False),
            core.pareto_json() if hasattr(core, "pareto_json") else None,
            core.timeline() if hasattr(core, "timeline") else {},
            core.constants() if hasattr(core, "constants") else [],
        )
        return type(self)._of, (parts,)

    def _rows(self) -> list[tuple[str, str]]:
        return []

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self._rows()
        )
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return f"<table>{rows}</table>" + (f"<ul>{notes}</ul>" if notes else "")


class _Result(_Document):
    """A result with a report page."""

    @property
    def is_feasible(self) -> bool:
        """Whether the plan fits in memory and completes an iteration; of a comparison, whether any scheme does."""
        return self._core.is_feasible

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended the work early: this is the best result so far."""
        return self._core.is_interrupted

    def report(self) -> str:
        """A page with charts, as the programs write with --report: one HTML document, which needs no network.

        Raises InputError for a plan from a file (`dtfm.score(topology, plan).report()` has its page), for a result
        that was pickled, and if the package was built without npm.
        """
        if isinstance(self._core, _Pickled):
            raise InputError("report", "a pickled result has no page: make the report before")
        if self._core is None:
            raise InputError("report", "a plan from a file has no page: use dtfm.score(topology, plan).report()")
        page = self._core.report()
        if page is None:
            raise InputError("report", "requires npm: install it, then build the package again")
        return page

    def save_report(self, path: str | os.PathLike) -> None:
        """Writes the page of `report` to a file, which appears whole or not at all."""
        _write(path, self.report())

    def _repr_html_(self) -> str:
        """The page in a frame or, without one and for very large ones, a table."""
        page = self._core.report() if hasattr(self._core, "report") else None
        if page is None or len(page) > _MAX_NOTEBOOK_PAGE:
            try:
                return super()._repr_html_()
            except InputError:  # a plan from a file that is not valid
                return html.escape(repr(self))
        source = page.replace("&", "&amp;").replace("'", "&#39;")
        return f"<iframe sandbox='allow-scripts' style='width:100%;height:800px;border:0' srcdoc='{source}'></iframe>"


class Plan(_Result):
    """Which device trains which layers, and what is known about it.

    Args:
        source: a path, the text of a plan file, or a dict; {"pipelines": [...]} is enough if a job is given.
    """

    def __init__(self, source: str | os.PathLike | Mapping) -> None:
        if isinstance(source, Mapping):
            text, name = json_text(source, "plan"), "plan"
        elif is_document(source):
            text, name = unicode_text(str(source), "plan"), "plan"
        elif isinstance(source, (str, os.PathLike)):
            name = path_text(source, "plan")
            try:
                text = Path(name).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError, ValueError) as error:
                raise InputError(name, f"cannot be read: {error}") from None
        else:
            raise InputError("plan", f"expected a path, a string or a dict; found {type(source).__name__}")
        super().__init__(None)
        self._file = _core.PlanFile.make(text, name)
        self._json = text

    @cached_property
    def _file(self) -> Any:
        return _core.PlanFile.make(self._json, "plan")

    @property
    def is_feasible(self) -> bool:
        """Whether the plan fits in memory and completes an iteration, as far as its file says."""
        if self._core:
            return self._core.is_feasible
        self._pipelines()
        try:
            return all(it["needed_bytes"] <= it["capacity_bytes"] for it in self.memory)
        except (KeyError, TypeError):
            raise InputError("plan.estimate.memory", "is not a list of needed_bytes and capacity_bytes") from None

    @property
    def is_interrupted(self) -> bool:
        return bool(self._core and self._core.is_interrupted)

    @property
    def estimate(self) -> dict[str, Any]:
        """`estimate` of the plan file; empty if it has none."""
        estimate = self._dict.get("estimate", {})
        if not isinstance(estimate, dict):
            raise InputError("plan.estimate", "is not a JSON object")
        return estimate

    @property
    def iteration_time_s(self) -> float | None:
        """Estimated time of an iteration; None with objective="comm-cost", and in files without estimate."""
        time = self.estimate.get("iteration_time_s")
        if time is not None and not isinstance(time, (int, float)):
            raise InputError("plan.estimate.iteration_time_s", "is not a number")
        return time

    @property
    def memory(self) -> list[dict[str, Any]]:
        """device, needed_bytes, capacity_bytes and verdict (fits, near-limit, exceeds) of each device."""
        return self.estimate.get("memory", [])

    @property
    def pipelines(self) -> list[dict[str, Any]]:
        """micro_batches and stages of each pipeline; a stage has layers [first, end) and devices."""
        return self._pipelines()

    @property
    def stages(self) -> int:
        """Stages of each pipeline."""
        return len(self.pipelines[0]["stages"]) if self.pipelines else 0

    @property
    def pareto_front(self) -> dict[str, Any] | None:
        """The Pareto front of time, cost and devices, of plan(pareto=True)."""
        text = self._core.pareto_json() if self._core else None
        return json.loads(text) if text else None

    def _pipelines(self) -> list[dict[str, Any]]:
        pipelines = self.to_dict().get("pipelines")
        for pipeline in pipelines if isinstance(pipelines, list) else [None]:
            if not isinstance(pipeline, dict) or not isinstance(pipeline.get("stages"), list):
                raise InputError("plan", "has no pipelines with stages")
        return pipelines

    def __reduce__(self) -> tuple:
        return super().__reduce__() if self._core else (Plan, (self._json,))

    def _rows(self) -> list[tuple[str, str]]:
        time = self.iteration_time_s
        execution = self._dict.get("execution", {})
        return [
            ("iteration", f"{time:.4g} s" if time else "not estimated"),
            ("pipelines × stages", f"{len(self.pipelines)} × {self.stages}"),
            ("schedule", str(execution.get("schedule", "of the job"))),
            ("fits in memory", "yes" if self.is_feasible else "no"),
        ]

    def __repr__(self) -> str:
        try:
            time, count, stages, is_feasible = self.iteration_time_s, len(self.pipelines), self.stages, self.is_feasible
        except InputError:
            return "Plan(not valid, or not in JSON)"
        text = f"Plan({count} pipeline{'s' * (count != 1)} of {stages} stage{'s' * (stages != 1)}"
        text += f", {time:.4g} s per iteration" if time else ""
        return text + (")" if is_feasible else ", infeasible)")

    def plot(self, ax: Any = None) -> Any:
        """Draws which device has which layers with matplotlib. Returns the axes."""
        import matplotlib.pyplot as plt

        ax = ax or plt.subplots()[1]
        names = []
        for pipeline, color in zip(self.pipelines, _colors(len(self.pipelines))):
            for stage in pipeline["stages"]:
                for device in stage["devices"]:
                    first, end = stage["layers"][0], stage["layers"][1]
                    ax.barh(len(names), end - first, left=first, color=color, edgecolor="white")
                    names.append(device)
        ax.set(xlabel="layers", yticks=range(len(names)), yticklabels=names)
        ax.invert_yaxis()
        return ax


class Simulation(_Result):
    """The result of a simulation, schema dtfm-sim."""

    @property
    def iteration_time_s(self) -> dict[str, float]:
        """mean, p50, p95, min and max of the completed iterations."""
        return self._dict["iteration_time_s"]

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens, or images, per second; None if no iteration was completed."""
        return self._dict.get("tokens_per_s", self._dict.get("images_per_s"))

    @property
    def events(self) -> list[dict[str, Any]]:
        """Events of the run: failures, joins and replans."""
        return self._dict["events"]

    @cached_property
    def timeline(self) -> dict[str, Any]:
        """Arrays of equal length, one element per span of the recorded iteration (simulate(timeline=True)):
        device (index), track (compute, send, receive), kind, micro_batch (-1: several), start_s, end_s."""
        import numpy as np

        return {name: np.asarray(values) for name, values in self._core.timeline().items()}

    def _rows(self) -> list[tuple[str, str]]:
        times = self._dict.get("iteration_time_s") or {}
        rows = [(f"iteration, {name}", f"{value:.4g} s") for name, value in times.items() if value is not None]
        rate = self.tokens_per_s
        return [*rows, ("throughput", f"{rate:,.0f} per s")] if rate is not None else rows

    def __repr__(self) -> str:
        mean = (self._dict.get("iteration_time_s") or {}).get("mean")
        stopped = ", stopped early" if self._dict.get("stopped") else ""
        return f"Simulation({mean:.4g} s per iteration{stopped})" if mean else "Simulation(no iteration completed)"

    def plot(self, ax: Any = None) -> Any:
        """Draws the timeline of simulate(timeline=True) with matplotlib. Returns the axes."""
        import matplotlib.pyplot as plt

        spans = self.timeline
        if not spans:
            raise InputError("timeline", "was not recorded: call simulate with timeline=True")
        ax = ax or plt.subplots()[1]
        kinds = sorted(set(spans["kind"][spans["track"] == "compute"]))
        for kind, color in zip(kinds, _colors(len(kinds))):
            chosen = (spans["kind"] == kind) & (spans["track"] == "compute")
            ax.barh(
                spans["device"][chosen],
                (spans["end_s"] - spans["start_s"])[chosen],
                left=spans["start_s"][chosen],
                color=color,
                label=kind,
            )
        ax.set(xlabel="s", ylabel="device")
        ax.invert_yaxis()
        ax.legend()
        return ax


class Comparison(_Result):
    """Schemes for one job on one topology, schema dtfm-compare."""

    @property
    def schemes(self) -> list[dict[str, Any]]:
        return self._dict["schemes"]

    def _rows(self) -> list[tuple[str, str]]:
        return [(it["scheme"], _seconds_per_batch(it)) for it in self.schemes]

    def __repr__(self) -> str:
        return f"Comparison({len(self.schemes)} schemes)"


class Calibration(_Document):
    """Constants of the simulator, fitted to measured iterations, schema dtfm-calibration."""

    @property
    def constants(self) -> dict[str, float]:
        """By name, with the unit in it: message_overhead_s."""
        return {name: value for name, value, *_ in self._core.constants()}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95 % interval of each constant; as wide as that of the prior where the runs do not identify it."""
        return {name: (low, high) for name, _, low, high in self._core.constants()}

    @property
    def mean_absolute_error(self) -> dict[str, float]:
        """Relative error of simulated times: fitted, leave_one_out (each run left out of the fit), prior."""
        return self._dict["fit"]["mean_absolute_error"]

    @property
    def runs(self) -> list[dict[str, Any]]:
        """measured_s, simulated_s, leave_one_out_s, outlier, … of each run."""
        return self._dict["fit"]["runs"]

    @property
    def notes(self) -> list[str]:
        return list(self._dict["fit"]["notes"])

    def _rows(self) -> list[tuple[str, str]]:
        return [(name, f"{value:.4g} ({low:.4g} … {high:.4g})") for name, value, low, high in self._core.constants()]

    def __repr__(self) -> str:
        errors = self.mean_absolute_error
        return f"Calibration({len(self.runs)} runs, mean error {100 * errors['leave_one_out']:.1f} %)"


class Export:
    """What was exported: folder, files, notes, and what the trainer makes of the plan."""

    def __init__(self, text: str) -> None:
        self._json = text
        facts = json.loads(text)
        self.folder = Path(facts["folder"])
        self.files: list[str] = facts["files"]
        self.notes: list[str] = facts["notes"]
        self.trainer: dict[str, Any] | None = facts.get("trainer")

    def to_json(self) -> str:
        return self._json

    def to_dict(self) -> dict[str, Any]:
        return json.loads(self._json)

    def __repr__(self) -> str:
        return f"Export({str(self.folder)!r}: {', '.join(self.files)})"


def _write(path: str | os.PathLike, text: str) -> None:
    """Writes a file, which appears whole or not at all. A device or a pipe is written to."""
    target = Path(path_text(path, "path"))
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _seconds_per_batch(scheme: dict[str, Any]) -> str:
    runs = scheme.get("runs") or [{}]
    seconds = runs[0].get("seconds_per_batch")
    return f"{seconds:.4g} s per batch" if seconds else "no result"


def _colors(count: int) -> list[Any]:
    import matplotlib

    return [matplotlib.colormaps["tab20"](i % 20) for i in range(count)]
