"""verl's merger of FSDP shards, keeping the shards' dtype and refusing what is not whole.

verl's own casts every shard to bf16, reads as many files as the first tensor by name lets it guess, and unpickles them
without restriction.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

# Importing it also tells torch which classes of DTensor shards a load with `weights_only` may build.
from torch.distributed.tensor import DTensor
from verl.model_merger.base_model_merger import ModelMergerConfig
from verl.model_merger.fsdp_model_merger import FSDPModelMerger, merge_non_dtensor_shards

SHARD = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt")
RUNTIME = "fsdp_config.json"
Shard = dict[str, torch.Tensor]


class MergeError(RuntimeError):
    """Shards that make no whole model; the message names the file or the tensor."""


def merge_shards(actor: Path) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint's `actor` folder, whole, in the dtype that each was saved in.

    Args:
        actor: with `fsdp_config.json`, `model_world_size_W_rank_R.pt` for every rank, and `huggingface/`.

    Raises:
        MergeError: a file is missing, unreadable or too many, or the ranks do not fit together.
    """
    settings = ModelMergerConfig(
        operation="merge",
        backend="fsdp",
        local_dir=str(actor),
        hf_model_config_path=str(actor / "huggingface"),
    )
    return ShardMerger(settings).merge()


class ShardMerger(FSDPModelMerger):
    """See `merge_shards`."""

    def merge(self) -> dict[str, torch.Tensor]:
        """The whole weights; verl's `merge_and_save` would write them with its own idea of the dtype."""
        world = self._get_world_size()
        self._check_files(world)
        first = self._load_rank_zero_state_dict(world)
        mesh, names = self._extract_device_mesh_info(first, world)
        try:
            shards, shape = self._calculate_shard_configuration(mesh, names)
        except AssertionError as error:
            raise MergeError(
                f"{self._folder}: shards over a mesh {names} cannot be merged: {error}"
            ) from error
        return self._load_and_merge_state_dicts(world, shards, shape, names)

    @property
    def _folder(self) -> Path:
        return Path(self.config.local_dir)

    def _get_world_size(self) -> int:
        path = self._folder / RUNTIME
        try:
            return int(json.loads(path.read_text(encoding="utf-8"))["world_size"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MergeError(f"{path}: the number of ranks cannot be read ({error!r})") from error

    def _check_files(self, world: int) -> None:
        found = [match for path in self._folder.iterdir() if (match := SHARD.fullmatch(path.name))]
        foreign = sorted(match[0] for match in found if int(match[1]) != world)
        if foreign:
            raise MergeError(
                f"{self._folder}: {RUNTIME} says {world} ranks, but there is {foreign[0]}: shards of two runs lie in "
                "one folder; take the others away"
            )
        ranks = {int(match[2]) for match in found}
        missing = [rank for rank in range(world) if rank not in ranks]
        if missing:
            raise MergeError(
                f"{self._folder}: {_shard_name(world, missing[0])} is missing ({len(missing)} of {world} shards are): "
                "copy the shards of all nodes into the folder"
            )

    def _load(self, world: int, rank: int) -> Shard:
        path = self._folder / _shard_name(world, rank)
        try:
            # Only tensors and what DTensors are made of: a shard that came from elsewhere must not run code here.
            return dict(torch.load(path, map_location="cpu", weights_only=True))
        except Exception as error:  # torn zip files and forbidden classes come as many types
            raise MergeError(f"{path}: not a readable shard ({type(error).__name__}: {error})") from error

    def _load_rank_zero_state_dict(self, world_size: int) -> Shard:
        return self._load(world_size, 0)

    def _extract_device_mesh_info(self, state_dict: Shard, world_size: int) -> tuple[Any, tuple[str, ...]]:
        """Of the first sharded tensor; verl asks the first tensor by name, which may be a replicated buffer."""
        for name in sorted(state_dict):
            tensor = state_dict[name]
            if isinstance(tensor, DTensor):
                return tensor.device_mesh.mesh, tensor.device_mesh.mesh_dim_names or ("fsdp",)
        return np.arange(world_size), ("fsdp",)

    def _load_and_merge_state_dicts(
        self, world_size: int, total_shards: int, mesh_shape: tuple[int, ...], mesh_dim_names: tuple[str, ...]
    ) -> dict[str, torch.Tensor]:
        shards = [self._load(world_size, rank) for rank in range(total_shards)]
        names = set(shards[0])
        for rank, shard in enumerate(shards):
            odd = sorted(names ^ set(shard))
            if odd:
                raise MergeError(
                    f"{self._folder}: {odd[0]} is not in the shards of rank 0 and rank {rank} alike "
                    f"({len(odd)} such tensors): they are of different models or steps"
                )
        replicated = mesh_dim_names[0] in ("dp", "ddp")
        merged = {}
        for name in sorted(names):
            # Taken out one by one, so that no tensor is held twice for long.
            merged[name] = self._merge_one(name, [shard.pop(name) for shard in shards], replicated)
        return merged

    def _merge_one(self, name: str, parts: list[torch.Tensor], replicated: bool) -> torch.Tensor:
        kinds = Counter(str(part.dtype) for part in parts)
        if len(kinds) > 1:
            raise MergeError(f"{self._folder}: {name} has several dtypes over the ranks: {', '.join(kinds)}")
        if not any(isinstance(part, DTensor) for part in parts):
            return self._checked(name, lambda: merge_non_dtensor_shards(name, parts))
        if not all(isinstance(part, DTensor) for part in parts):
            raise MergeError(f"{self._folder}: {name} is sharded on some ranks and whole on others")
        # With two mesh dimensions the first replicates, and the shards of one replica are the whole.
        placements = {tuple(part.placements)[1 if replicated else 0 :] for part in parts}  # type: ignore[attr-defined]
        if len(placements) != 1 or len(next(iter(placements))) != 1:
            raise MergeError(f"{self._folder}: {name} is placed as {placements}, one placement is expected")
        local = [part.to_local() for part in parts]  # type: ignore[attr-defined]
        whole = self._checked(name, lambda: self._merge_by_placement(local, next(iter(placements))[0]))
        if whole.shape != parts[0].shape:
            raise MergeError(
                f"{self._folder}: the shards of {name} make up {tuple(whole.shape)}, the tensor is "
                f"{tuple(parts[0].shape)}: a shard is missing or cut"
            )
        return whole

    def _checked(self, name: str, merge: Callable[[], torch.Tensor]) -> torch.Tensor:
        try:
            return merge()
        except (ValueError, RuntimeError) as error:
            raise MergeError(f"{self._folder}: {name} cannot be merged: {error}") from error


def _shard_name(world: int, rank: int) -> str:
    return f"model_world_size_{world}_rank_{rank}.pt"
