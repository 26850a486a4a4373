"""The PyTorch runtime that trains plans (docs/pytorch.md), under another name. Needs torch.

`dtfm.runtime.training` is `dtfm_runtime.training`, whose name exported folders have. `python -m dtfm.runtime` trains a
plan and replans after failures, as dtfm.train does.
"""

import importlib
import pkgutil
import sys
from contextlib import suppress

import dtfm_runtime

if __name__ == "__main__":
    from dtfm.elastic import main

    sys.exit(main())

for _module in pkgutil.iter_modules(dtfm_runtime.__path__):
    with suppress(ModuleNotFoundError):  # those that need torch, without it
        sys.modules[f"{__name__}.{_module.name}"] = importlib.import_module(f"dtfm_runtime.{_module.name}")
sys.modules[__name__] = dtfm_runtime
