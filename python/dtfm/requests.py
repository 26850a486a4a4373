"""The functions of dtfm. Their keyword arguments are the options of the programs, which the library declares."""

from __future__ import annotations

import datetime
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

from dtfm import _core
from dtfm.errors import InputError
from dtfm.inputs import Job, Scenario, Topology, is_document, json_text, model_text, plain
from dtfm.progress import shown
from dtfm.results import Comparison, Export, Plan, Simulation

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
        raise InputError(name, "expected a text or a number; found a dict")
    return str(value) if isinstance(value, str) else repr(value)


def _topology(value: Any) -> Any:
    return (value if isinstance(value, Topology) else Topology(value))._core


def _job(value: Any) -> Any:
    return (value if isinstance(value, Job) else Job(value))._core


def _plan(value: Any) -> Any:
    return (value if isinstance(value, Plan) else Plan(value))._file


def _text(name: str, value: Any) -> Any:
    """A document whose meaning depends on other arguments: a scenario, a model, a calibration, …"""
    if isinstance(value, Scenario):
        return value.path or value._core
    if isinstance(value, Plan):
        return _core.Text.make(value.to_json(), "plan")
    config = model_text(value) if name == "model" else None
    if config is not None:
        return _core.Text.make(config, "model")
    if isinstance(value, Mapping):
        return _core.Text.make(json_text(value, name), name)
    if is_document(value):
        return _core.Text.make(value, name)
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    raise InputError(name, f"expected a path, a text or a dict; found {type(value).__name__}")


def _values(row: dict[str, Any], value: Any) -> list[Any]:
    """What the library gets for one argument."""
    name, kind = row["name"], row["input"]
    if kind == _NONE:
        if row["may_repeat"] and isinstance(value, (list, tuple)):
            return [_word(name, item) for item in value]
        return [_word(name, value)]
    convert = {_TOPOLOGY: _topology, _JOB: _job, _PLAN: _plan}.get(kind, lambda item: _text(name, item))
    many = row["may_repeat"] and isinstance(value, (list, tuple))
    return [convert(item) for item in (value if many else [value])]


def _arguments(function: str, given: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
    rows = {row["name"]: row for row in _core.options[function]}
    arguments = []
    for name, value in given.items():
        row = rows.get(name)
        if value is None:
            continue
        if row is None:
            arguments.append((name, []))  # the library knows what is similar
        elif row["is_flag"]:
            if not isinstance(value, bool):
                raise InputError(name, f"expected True or False; found {value!r}")
            if value:
                arguments.append((name, []))
        else:
            arguments.append((name, _values(row, value)))
    return arguments


def _describe(function: Callable, key: str, positional: tuple[str, ...], hidden: tuple[str, ...] = ()) -> Callable:
    """Gives a function the signature and the documentation of its options."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in positional]
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
    parameters += [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is keyword
    ]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nArguments:{chr(10).join(lines)}\n"
    return function


def _run_plan(options: Mapping[str, Any], progress: Any) -> Plan:
    arguments = _arguments("plan", options)
    with shown(progress) as callback:
        return Plan._of(_core.plan(arguments, callback))


def plan(topology: Any, *, progress: Any = None, **options: Any) -> Plan:
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
        raise InputError("score", "is a function: dtfm.score(topology, plan)")
    return _run_plan({"topology": topology, **options}, progress)


def score(topology: Any, plan: Any, *, progress: Any = None, **options: Any) -> Plan:
    """Checks, estimates and simulates a plan from anywhere, as dtfm-plan --score does. Takes no time to search."""
    return _run_plan({"topology": topology, "score": plan, **options}, progress)


def replan(topology: Any, running: Any, *, progress: Any = None, **options: Any) -> Plan:
    """Plans anew from a running plan on the devices of today, and counts the cost of migration, as
    dtfm-plan --warm-start does.

    The job is that of the running plan, unless `job` is given. `to_dict()["warm_start"]` tells what must be
    migrated, and when that pays off.
    """
    given = running if isinstance(running, Plan) else Plan(running)
    if options.get("job") is None and options.get("model") is None and "job" in given.to_dict():
        options = {**options, "job": given.to_dict()["job"]}
    return _run_plan({"topology": topology, "warm_start": given, **options}, progress)


def simulate(topology: Any, plan: Any = None, *, progress: Any = None, **options: Any) -> Simulation:
    """Simulates a plan, or a scheme, with discrete events under a scenario, as dtfm-sim does.

    `timeline=True` records the spans of the last iteration for Simulation.timeline and plot().

    Example:
        >>> run = dtfm.simulate("worldwide.yaml", plan, scenario={"version": 1, "compute_jitter": {"cv": 0.1}})
        >>> run.iteration_time_s["p95"]
    """
    arguments = _arguments("simulate", {"topology": topology, "plan": plan, **options})
    with shown(progress) as callback:
        return Simulation(_core.simulate(arguments, callback))


def compare(topology: Any, *, progress: Any = None, **options: Any) -> Comparison:
    """Plans and simulates a job with every scheme on the same devices, as dtfm-compare does."""
    with shown(progress) as callback:
        return Comparison(_core.compare(_arguments("compare", {"topology": topology, **options}), callback))


def export(plan: Any, to: Any, folder: str | os.PathLike, **options: Any) -> Export:
    """Writes what trainers and launchers read into a folder, as dtfm-export does.

    Raises:
        InputError: an argument or a document is not valid, or the folder has other files (`force=True`).
        InfeasibleError: a trainer cannot run the plan.

    Example:
        >>> dtfm.export(plan, to=["pytorch", "torchrun"], folder="exported")
    """
    given = {"plan": plan, "to": to, "folder": folder, **options}
    return Export(_core.export(_arguments("export", given)))


_describe(plan, "plan", ("topology",), hidden=("score", "ranks", "advise"))
_describe(score, "plan", ("topology", "plan"), hidden=("score", "warm_start", "horizon"))
_describe(replan, "plan", ("topology", "running"), hidden=("score", "ranks", "advise", "warm_start"))
_describe(simulate, "simulate", ("topology", "plan"))
_describe(compare, "compare", ("topology",))
_describe(export, "export", ("plan", "to", "folder"))
