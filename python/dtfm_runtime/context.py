"""Context parallelism: ranks have different tokens of the same sequences, and pass keys and values around a ring."""
from __future__ import annotations

import math
from typing import Iterator

import torch
import torch.distributed as dist


class TokenRing:
    """Of the 2 n equal parts of every sequence, rank r of n has parts r and 2 n − 1 − r. So under a causal mask, every rank
    computes as much as the others in every step (Brandon et al., arXiv 2311.09431, section 3.1, with two contiguous chunks
    per rank as in Megatron-LM)."""

    def __init__(self, group: dist.ProcessGroup):
        self.group, self.rank, self.size = group, dist.get_rank(group), dist.get_world_size(group)

    def positions(self, sequence: int, device: torch.device) -> torch.Tensor:
        """Those of the tokens of this rank. `sequence` must be a multiple of 2 n."""
        part = sequence // (2 * self.size)
        return torch.cat([torch.arange(first * part, (first + 1) * part, device=device)
                          for first in (self.rank, 2 * self.size - 1 - self.rank)])

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Causal attention over the sequences of all ranks. `query`: (batch, heads, tokens of this rank, width); `key` and
        `value` may have fewer heads."""
        return RingAttention.apply(query, key, value, self)

    def exchange(self, *tensors: torch.Tensor) -> tuple[list[torch.Tensor], list[dist.Work]]:
        """Begins to send tensors to the next rank. Returns those of the rank before, and what to wait for."""
        received = [torch.empty_like(it) for it in tensors]
        to, source = (dist.get_global_rank(self.group, (self.rank + step) % self.size) for step in (1, -1))
        sends = [dist.P2POp(dist.isend, it, to, self.group) for it in tensors]
        receives = [dist.P2POp(dist.irecv, it, source, self.group) for it in received]
        return received, dist.batch_isend_irecv(sends + receives)  # else a ring of NCCL would deadlock

    def blocks(self, key: torch.Tensor, value: torch.Tensor) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """The keys and values of all ranks, with the number of the rank: first those of this rank. The next ones arrive while
        the caller computes."""
        for step in range(self.size):
            arriving, works = ([], []) if step + 1 == self.size else self.exchange(key, value)
            yield (self.rank - step) % self.size, key, value
            for work in works:
                work.wait()
            if arriving:
                key, value = arriving


def _overlap(of: int, rank: int, tokens: int) -> tuple[slice, slice]:
    """Which queries of `rank` attend to which keys of rank `of`: each of these to each of those, so that no mask is needed."""
    half = tokens // 2
    return (slice(None), slice(half)) if of < rank else (slice(half, None), slice(None))


def _scores(query: torch.Tensor, key: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """In fp32, with the heads of the keys as a dimension of their own: (batch, key heads, group, queries, keys)."""
    scores = torch.einsum("bhgqd,bhkd->bhgqk", query, key).float() / math.sqrt(query.shape[-1])
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1), float("-inf"))
    return scores


class RingAttention(torch.autograd.Function):
    """Liu et al., arXiv 2310.01889. Nothing of size tokens² is kept: the backward computes the scores again."""

    @staticmethod
    def forward(ctx, query, key, value, ring):
        key, value = key.contiguous(), value.contiguous()
        grouped = query.unflatten(1, (key.shape[1], -1))
        output = torch.zeros(grouped.shape, dtype=torch.float32, device=query.device)
        total = torch.full(grouped.shape[:-1], float("-inf"), dtype=torch.float32, device=query.device)  # log of the sums
        for of, its_key, its_value in ring.blocks(key, value):
            rows, columns = (slice(None),) * 2 if of == ring.rank else _overlap(of, ring.rank, key.shape[2])
            scores = _scores(grouped[..., rows, :], its_key[..., columns, :], of == ring.rank)
            before, added = total[..., rows], scores.logsumexp(-1)
            after = torch.logaddexp(before, added)
            part = torch.einsum("bhgqk,bhkd->bhgqd", (scores - after[..., None]).exp().to(value.dtype), its_value[..., columns, :])
            output[..., rows, :] = output[..., rows, :] * (before - after).exp()[..., None] + part
            total[..., rows] = after
        output = output.to(query.dtype)
        ctx.ring = ring
        ctx.save_for_backward(query, key, value, output, total)
        return output.flatten(1, 2)

    @staticmethod
    def backward(ctx, gradient):
        query, key, value, output, total = ctx.saved_tensors
        ring = ctx.ring
        grouped, gradient = (it.unflatten(1, (key.shape[1], -1)) for it in (query, gradient))
        common = (gradient * output).sum(-1, dtype=torch.float32, keepdim=True)
        of_query = torch.zeros(grouped.shape, dtype=torch.float32, device=query.device)
        of_own, of_others, works = None, [], []
        for of, its_key, its_value in ring.blocks(key, value):
            rows, columns = (slice(None),) * 2 if of == ring.rank else _overlap(of, ring.rank, key.shape[2])
            its_key, its_value, its_gradient = its_key[..., columns, :], its_value[..., columns, :], gradient[..., rows, :]
            scores = (_scores(grouped[..., rows, :], its_key, of == ring.rank) - total[..., rows, None]).exp()
            of_value = torch.einsum("bhgqk,bhgqd->bhkd", scores.to(value.dtype), its_gradient)
            of_scores = scores * (torch.einsum("bhgqd,bhkd->bhgqk", its_gradient, its_value).float() - common[..., rows, :])
            of_scores = (of_scores / math.sqrt(query.shape[-1])).to(query.dtype)
            of_query[..., rows, :] += torch.einsum("bhgqk,bhkd->bhgqd", of_scores, its_key)
            of_key = torch.einsum("bhgqk,bhgqd->bhkd", of_scores, grouped[..., rows, :])
            if of == ring.rank:
                of_own = of_key, of_value
                continue
            # Gradients follow their keys and values around the ring: those from the rank before lack the part of this rank.
            for work in works:
                work.wait()
            if not of_others:
                of_others = [torch.zeros_like(key), torch.zeros_like(value)]
            for its, part in zip(of_others, (of_key, of_value)):
                its[..., columns, :] += part
            of_others, works = ring.exchange(*of_others)
        for work in works:
            work.wait()
        of_key, of_value = (own if not of_others else own + other for own, other in zip(of_own, of_others or of_own))
        return of_query.flatten(1, 2).to(query.dtype), of_key, of_value, None
