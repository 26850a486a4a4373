"""The functions of dtfm. Their keyword arguments are the options of the programs, which the library declares."""

from __future__ import annotations

import datetime
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dtfm import _core
from dtfm.errors import InputError
from dtfm.inputs import (
    Job,
    Scenario,
    Topology,
    is_document,
    json_text,
    located,
    model_text,
    path_text,
    plain,
    unicode_text,
)
from dtfm.measured_runs import table_of
from dtfm.progress import shown
from dtfm.results import Calibration, Comparison, Export, Plan, Simulation

# Kinds of inputs, as the library numbers them.
_NONE, _TOPOLOGY, _JOB, _PLAN, _TEXT = range(5)


def _word(name: str, value: Any) -> str:
    """A value in the notation of the command line."""
    value = plain(value, name) if not isinstance(value, datetime.timedelta) else value
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds()}s"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_word(name, item) for item in value)
    if isinstance(value, dict):
        raise InputError(name, "expected a string or a number; found a dict")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # 16.0 is a whole number
    return value if isinstance(value, str) else repr(value)


def _is_path(value: Any) -> bool:
    """Whether the value is a path. The library reads the file, together with `ranks`, and export does not overwrite
    it."""
    return isinstance(value, (str, os.PathLike)) and not is_document(value)


def _topology(value: Any) -> Any:
    if _is_path(value):
        return path_text(value, "topology")
    return (value if isinstance(value, Topology) else Topology(value))._core


def _job(value: Any) -> Any:
    return path_text(value, "job") if _is_path(value) else (value if isinstance(value, Job) else Job(value))._core


def _plan(value: Any) -> Any:
    return path_text(value, "plan") if _is_path(value) else (value if isinstance(value, Plan) else Plan(value))._file


def _text(name: str, value: Any, documents: dict[str, str]) -> Any:
    """A document whose meaning depends on other arguments: a scenario, a model, a calibration, …"""
    if isinstance(value, Scenario) or (name == "scenario" and isinstance(value, Mapping)):
        return _scenario(value if isinstance(value, Scenario) else Scenario(value), documents)
    if isinstance(value, (Plan, Calibration)):
        return _core.Text.make(value.to_json(), name)
    config = model_text(value) if name == "model" else None
    if config is not None:
        return _core.Text.make(config, "model")
    if isinstance(value, Mapping):
        documents[name] = json_text(value, name)
        return _core.Text.make(documents[name], name)
    if is_document(value):
        return _core.Text.make(unicode_text(value, name), name)
    if isinstance(value, (str, os.PathLike)):
        return path_text(value, name)
    raise InputError(name, f"expected a path, a string or a dict; found {type(value).__name__}")


def _scenario(scenario: Scenario, documents: dict[str, str]) -> Any:
    """Several have different names, which errors and results contain."""
    if scenario.path:
        return scenario.path
    number = sum(name.startswith("scenario") for name in documents)
    name = f"scenario[{number}]" if number else "scenario"
    documents[name] = scenario._text if scenario._is_dict else ""
    return _core.Text.make(scenario._text, name)


def _values(row: dict[str, Any], value: Any, documents: dict[str, str]) -> list[Any]:
    """What the library gets for one argument."""
    name, kind = row["name"], row["input"]
    if kind == _NONE:
        if row["may_repeat"] and isinstance(value, (list, tuple, range)):
            return [_word(name, item) for item in value]
        return [_word(name, value)]
    convert = {_TOPOLOGY: _topology, _JOB: _job, _PLAN: _plan}.get(kind, lambda item: _text(name, item, documents))
    many = row["may_repeat"] and isinstance(value, (list, tuple))
    return [convert(item) for item in (value if many else [value])]


def _arguments(function: str, given: Mapping[str, Any]) -> tuple[list[tuple[str, list[Any]]], dict[str, str]]:
    """The arguments for the library, and the texts of dicts among them, by name."""
    rows = {row["name"]: row for row in _core.options[function]}
    arguments: list[tuple[str, list[Any]]] = []
    documents: dict[str, str] = {}
    for name, value in given.items():
        row = rows.get(name)
        if value is None:
            continue
        if row is None:
            arguments.append((name, []))  # the library knows what is similar
        elif row["is_flag"]:
            value = plain(value, name)
            if not isinstance(value, bool):
                raise InputError(name, f"expected True or False; found {value!r}")
            if value:
                arguments.append((name, []))
        else:
            arguments.append((name, _values(row, value, documents)))
    return arguments, documents


def _describe(function: Callable, key: str, positional: tuple[str, ...], hidden: tuple[str, ...] = ()) -> Callable:
    """Gives a function the signature and the documentation of its options."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = inspect.signature(function).parameters
    parameters = [own[name] for name in positional]
    lines, heading = [], ""
    for row in _core.options[key]:
        if row["name"] in (*positional, *hidden):
            continue
        parameters.append(inspect.Parameter(row["name"], keyword, default=False if row["is_flag"] else None))
        if row["heading"] != heading:
            heading = row["heading"]
            lines.append(f"\n    {heading}:")
        values = row["values"] or "bool"
        lines.append(f"        {row['name']} ({values}): {row['help']}")
    parameters += [it for it in own.values() if it.kind is keyword]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nArguments:{chr(10).join(lines)}\n"
    return function


def _run(key: str, given: Mapping[str, Any], progress: Any) -> Any:
    arguments, documents = _arguments(key, given)
    with located(documents), shown(progress) as callback:
        return getattr(_core, key)(arguments, callback)


def plan(topology: Any = None, *, progress: Any = None, **options: Any) -> Plan:
    """Finds the best plan for a job on a topology, as dtfm-plan does.

    `topology` and documents such as `job` may be paths, dicts, texts or objects of this package; `model` also a
    Hugging Face config object. Ctrl-C ends the search and returns the best plan so far. `progress` is called with
    a dict of facts (evaluations, best_s, …); True shows a bar if tqdm is installed.

    Raises:
        InputError: an argument or a document is not valid.

    Example:
        >>> plan = dtfm.plan("worldwide.yaml", model="gpt3-xl", batch=1024, seed=1, evaluations=2000)
        >>> plan.iteration_time_s, plan.is_feasible
    """
    if options.get("score") is not None:
        raise InputError("score", "cannot be passed to plan(): call dtfm.score(topology, plan)")
    return Plan._of(_run("plan", {"topology": topology, **options}, progress))


def score(topology: Any, plan: Any, *, progress: Any = None, **options: Any) -> Plan:
    """Checks, estimates and simulates a given plan, as dtfm-plan --score does. Searches only with advise=True."""
    if plan is None:
        raise InputError("plan", "is missing")
    return Plan._of(_run("plan", {"topology": topology, "score": plan, **options}, progress))


def replan(topology: Any, running: Any, *, progress: Any = None, **options: Any) -> Plan:
    """Replans a running plan for the current devices and counts the cost of migration, as dtfm-plan --warm-start
    does.

    Without `job`, the job and its settings, such as the schedule, are those of the running plan; the numbers of
    stages and replicas are free. `schedule="auto"` lets the planner choose it again. `to_dict()["warm_start"]` tells what
    must be migrated, and when that pays off.
    """
    given = running if isinstance(running, Plan) else Plan(running)
    document = given.to_dict()
    job = document.get("job") if isinstance(document, dict) else None
    if options.get("job") is None and options.get("model") is None and isinstance(job, dict):
        parallelism = job.get("parallelism")
        for key in ("pipeline", "data"):
            if isinstance(parallelism, dict):
                parallelism.pop(key, None)
        options = {**options, "job": job}
    return Plan._of(_run("plan", {"topology": topology, "warm_start": given, **options}, progress))


def simulate(topology: Any, plan: Any = None, *, progress: Any = None, **options: Any) -> Simulation:
    """Simulates a plan, or a scheme, with discrete events under a scenario, as dtfm-sim does.

    `timeline=True` records the spans of the last iteration for Simulation.timeline and plot().

    Example:
        >>> run = dtfm.simulate("worldwide.yaml", plan, scenario={"version": 1, "compute_jitter": {"cv": 0.1}})
        >>> run.iteration_time_s["p95"]
    """
    return Simulation(_run("simulate", {"topology": topology, "plan": plan, **options}, progress))


def compare(topology: Any, *, progress: Any = None, **options: Any) -> Comparison:
    """Plans and simulates a job with every scheme on the same devices, as dtfm-compare does."""
    return Comparison(_run("compare", {"topology": topology, **options}, progress))


def calibrate(topology: Any, runs: Any, *, progress: Any = None, **options: Any) -> Calibration:
    """Fits the constants of the simulator to 1 to 200 measured iterations, as dtfm-calibrate does.

    `runs` is a path or the text of a table (docs/files/calibration.md), or a list of dicts with its columns, whose
    plans and jobs may be objects. Other functions take the result as `calibration`.

    Example:
        >>> fitted = dtfm.calibrate(topology, [{"plan": plan, "seconds": 12.31}, ...])
        >>> dtfm.simulate(topology, plan, calibration=fitted)
    """
    given = {"topology": topology, "runs": runs, **options}
    if runs is None or isinstance(runs, (str, os.PathLike)):
        return Calibration(_run("calibrate", given, progress))
    if isinstance(runs, Mapping) or not isinstance(runs, Iterable):
        raise InputError("runs", f"expected a path, a string or a list of dicts; found {type(runs).__name__}")
    with table_of(runs) as path:
        return Calibration(_run("calibrate", {**given, "runs": path}, progress))


def export(plan: Any, to: Any, folder: str | os.PathLike, **options: Any) -> Export:
    """Writes what trainers and launchers read into a folder, as dtfm-export does.

    Raises:
        InputError: an argument or a document is not valid, or the folder has other files (`force=True`).
        InfeasibleError: a trainer cannot run the plan.

    Example:
        >>> dtfm.export(plan, to=["pytorch", "torchrun"], folder="exported")
    """
    given = {"plan": plan, "to": to, "folder": folder, **options}
    arguments, documents = _arguments("export", given)
    with located(documents):
        return Export(_core.export(arguments))


_describe(plan, "plan", ("topology",), hidden=("score", "ranks", "advise"))
_describe(score, "plan", ("topology", "plan"), hidden=("score", "warm_start", "horizon"))
_describe(replan, "plan", ("topology", "running"), hidden=("score", "ranks", "advise", "warm_start"))
_describe(simulate, "simulate", ("topology", "plan"))
_describe(compare, "compare", ("topology",))
_describe(calibrate, "calibrate", ("topology", "runs"))
_describe(export, "export", ("plan", "to", "folder"))
