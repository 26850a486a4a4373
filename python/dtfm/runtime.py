"""The PyTorch runtime that trains plans (docs/pytorch.md), under another name. Needs torch.

`dtfm.runtime.training` is `dtfm_runtime.training`, whose name exported folders have.
"""

import importlib
import pkgutil
import sys
from contextlib import suppress

import dtfm_runtime

for _module in pkgutil.iter_modules(dtfm_runtime.__path__):
    with suppress(ModuleNotFoundError):  # those that need torch, without it
        sys.modules[f"{__name__}.{_module.name}"] = importlib.import_module(f"dtfm_runtime.{_module.name}")
sys.modules[__name__] = dtfm_runtime
