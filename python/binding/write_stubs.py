"""Writes requests.pyi: the functions of dtfm.requests with all their options, for type checkers and editors.

usage: write_stubs.py PACKAGE-FOLDER    (the folder `dtfm` with the built extension module)
"""

import inspect
import sys
from pathlib import Path

sys.dont_write_bytecode = True
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder.parent))

from dtfm import requests

RESULTS = {
    "plan": "Plan",
    "score": "Plan",
    "replan": "Plan",
    "simulate": "Simulation",
    "compare": "Comparison",
    "calibrate": "Calibration",
    "export": "Export",
}


def annotation(parameter: inspect.Parameter) -> str:
    return "bool" if isinstance(parameter.default, bool) else "Any"


def stub(name: str) -> str:
    function = getattr(requests, name)
    parameters = []
    for it in inspect.signature(function).parameters.values():
        if it.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        default = "" if it.default is inspect.Parameter.empty else f" = {it.default!r}"
        parameters.append(f"{it.name}: {annotation(it)}{default}")
    lines = "".join(f"    {parameter},\n" for parameter in parameters)
    text = function.__doc__.replace("\\", "\\\\")
    body = "\n".join(f"    {line}".rstrip() for line in f'"""{text}"""'.splitlines())
    return f"def {name}(\n{lines}) -> {RESULTS[name]}:\n{body}\n"


header = "from typing import Any\n\nfrom dtfm.results import Calibration, Comparison, Export, Plan, Simulation\n\n"
(folder / "requests.pyi").write_text(header + "\n".join(stub(name) for name in RESULTS), encoding="utf-8")
