"""8-bit block-wise quantization (Dettmers et al., arXiv 2110.02861, with evenly spaced values): blocks of 2048 values
share an fp32 scale, so a message has 8 + 32 / 2048 bits per value, as the planner counts."""
from __future__ import annotations

import torch

BLOCK = 2048
LEVELS = 127  # largest integer; the scale is that of the largest value


def compressed_bytes(values: int) -> int:
    return values + 4 * ((values + BLOCK - 1) // BLOCK)


def compress(values: torch.Tensor) -> torch.Tensor:
    """Returns the scales and the integers as one tensor of bytes. An error is at most half a step: the largest
    magnitude of the block / 254. Values that are not finite make their block so."""
    flat = values.detach().reshape(-1).float()
    blocks = (flat.numel() + BLOCK - 1) // BLOCK
    padded = torch.zeros(blocks * BLOCK, dtype=torch.float32, device=flat.device)
    padded[: flat.numel()] = flat
    padded = padded.view(blocks, BLOCK)
    scales = padded.abs().amax(dim=1) / LEVELS
    steps = torch.where(scales > 0, scales, torch.ones_like(scales))
    integers = (padded / steps[:, None]).round_().nan_to_num_(0, 0, 0).clamp_(-LEVELS, LEVELS).to(torch.int8)
    return torch.cat((scales.view(torch.uint8), integers.view(-1)[: flat.numel()].view(torch.uint8)))


def decompress(message: torch.Tensor, values: int, dtype: torch.dtype) -> torch.Tensor:
    """The `values` numbers of a message, flat."""
    blocks = (values + BLOCK - 1) // BLOCK
    scales = message[: 4 * blocks].clone().view(torch.float32)
    integers = message[4 * blocks:].view(torch.int8).float()
    return (integers * scales.repeat_interleave(BLOCK)[:values]).to(dtype)
