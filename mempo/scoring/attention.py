"""Exact attention over a packed tree: every row attends to its own sequence's past and to nothing else.

Nothing of the size N × N is ever held: a segment meets only the rows before it and its own, and the square part is a
causal kernel's. Registered with transformers' attention interface under `NAME`, and with no mask function, so that
transformers builds no mask for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.utils import is_flash_attn_2_available

from mempo.scoring.tree import Interval, Segment

NAME = "mempo_tree"

# A segment of more rows than this is computed as the end of its whole sequence, by a causal kernel that needs no mask.
MASKED_ROWS = 256


class TreeAttention:
    """Attention for the segments of one tree.

    Args:
        segments: they tile the packed sequence, in order.
        flash: use flash-attn's variable-length kernel, one call for all segments, where it is installed and takes the
            tensors (CUDA, half precision).
    """

    def __init__(self, segments: Sequence[Segment], device: torch.device, flash: bool = True) -> None:
        self._segments, self._device, self._flash = segments, device, flash
        self._masks: dict[tuple[int, int], torch.Tensor] = {}

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        """[1, N, H, D] from query [1, H, N, D], key and value [1, H_kv, N, D] (H a multiple of H_kv)."""
        if self._flash and flash_takes(query):
            return self._all_at_once(query, key, value, scale)
        output = torch.empty_like(query)
        for segment in self._segments:
            start, end = segment.rows
            output[:, :, start:end] = self._segment(segment, query, key, value, scale)
        return output.transpose(1, 2)

    def _segment(
        self,
        segment: Segment,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
    ) -> torch.Tensor:
        path = (*segment.before, segment.rows)
        keys, values = _rows(key, path), _rows(value, path)
        own, groups = _rows(query, (segment.rows,)), query.shape[1] // key.shape[1]
        if not segment.before or len(segment) > MASKED_ROWS:
            whole = scaled_dot_product_attention(
                _rows(query, path), keys, values, is_causal=True, scale=scale, enable_gqa=groups > 1
            )
            return whole[:, :, segment.depth :]
        # Query heads that share a key head become more rows of one head: with a mask, torch has no kernel for grouped
        # heads that would hold neither every score nor copies of the keys.
        output = scaled_dot_product_attention(
            own.reshape(1, key.shape[1], groups * len(segment), -1),
            keys,
            values,
            attn_mask=self._mask(segment.depth, len(segment), groups),
            scale=scale,
        )
        return output.reshape(own.shape)

    def _mask(self, depth: int, size: int, groups: int) -> torch.Tensor:
        """[groups * size, depth + size], True where a row may attend: before the segment, and up to itself within it."""
        if (depth, size) not in self._masks:
            full = torch.ones(size, depth + size, dtype=torch.bool, device=self._device)
            self._masks[depth, size] = full.tril(depth).repeat(groups, 1)
        return self._masks[depth, size]

    def _all_at_once(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        from flash_attn import flash_attn_varlen_func

        path, query_starts, key_starts, longest_query, longest_key = self._layout
        # From version 2.1 on, its causal mask is aligned to the last query and the last key: just the tree's.
        output = flash_attn_varlen_func(
            query[0].transpose(0, 1),
            key[0].transpose(0, 1)[path],
            value[0].transpose(0, 1)[path],
            cu_seqlens_q=query_starts,
            cu_seqlens_k=key_starts,
            max_seqlen_q=longest_query,
            max_seqlen_k=longest_key,
            softmax_scale=scale,
            causal=True,
        )
        return output[None]

    @cached_property
    def _layout(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int]:
        """Rows of every segment's sequence, one after another, with the cumulative lengths that the kernel asks for."""
        rows = [
            torch.arange(*interval)
            for segment in self._segments
            for interval in (*segment.before, segment.rows)
        ]
        sizes = [len(segment) for segment in self._segments]
        lengths = [segment.depth + len(segment) for segment in self._segments]
        return (
            torch.cat(rows).to(self._device),
            _starts(sizes).to(self._device),
            _starts(lengths).to(self._device),
            max(sizes),
            max(lengths),
        )


def flash_takes(states: torch.Tensor) -> bool:
    """Whether flash-attn's kernels are installed and take tensors like this one."""
    return states.is_cuda and states.dtype in (torch.float16, torch.bfloat16) and is_flash_attn_2_available()


def _rows(states: torch.Tensor, intervals: Sequence[Interval]) -> torch.Tensor:
    """The rows of [1, H, N, D] in the intervals, in order; neighbours are not copied apart."""
    joined: list[Interval] = []
    for start, end in intervals:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    parts = [states[:, :, start:end] for start, end in joined]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def _starts(lengths: Sequence[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)


def tree_attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    tree: TreeAttention | None = None,
    **extras: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention function: what the model passes on as `tree` does the work.

    Raises:
        ValueError: if the model asks for more than plain causal attention, or does not pass `tree` on.
    """
    if tree is None:
        raise ValueError(f"{type(module).__name__} does not pass keyword arguments on to its attention")
    asked = [name for name in ("sliding_window", "softcap", "s_aux") if extras.get(name) is not None]
    if asked or attention_mask is not None:
        raise ValueError(
            f"{type(module).__name__} attends with {', '.join(asked) or 'a mask'}, tree attention does not"
        )
    return tree(query, key, value, scaling), None


@contextmanager
def attending_as_trees(model: torch.nn.Module) -> Iterator[None]:
    """Inside, every layer of `model` attends through `tree_attention_forward`; afterwards as before."""
    found = (getattr(part, "config", None) for part in model.modules())
    configs: dict[int, Any] = {
        id(config): config for config in found if hasattr(config, "_attn_implementation")
    }
    before = {key: config._attn_implementation for key, config in configs.items()}
    try:
        for config in configs.values():
            config._attn_implementation = NAME
        yield
    finally:
        for key, config in configs.items():
            config._attn_implementation = before[key]


AttentionInterface.register(NAME, tree_attention_forward)
