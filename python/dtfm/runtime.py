"""The PyTorch runtime that trains plans (docs/pytorch.md), under another name. Needs torch.

`dtfm.runtime.training` is `dtfm_runtime.training`, whose name exported folders have.
"""

import sys

import dtfm_runtime

sys.modules[__name__] = dtfm_runtime
