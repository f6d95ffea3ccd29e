"""Runs of tiny models with one and two ranks, and a release of one; made once."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
import torch.distributed as dist
from rich.console import Console

from tests.tools.release.runs import finish_run, shard_with_processes
from tests.tools.release.shard_rank import VARIANTS, save
from tools.release.model_release import ModelReleaseSettings, make_model_release

QUIET = Console(file=io.StringIO())


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs by variant, each with the shards of two ranks."""
    folder = tmp_path_factory.mktemp("two")
    shard_with_processes(folder, 2)
    return folder


@pytest.fixture(scope="session")
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with one rank, whose shards are DTensors too."""
    folder = tmp_path_factory.mktemp("one")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for variant in VARIANTS:
            save(folder, variant)
    finally:
        dist.destroy_process_group()
    for variant in VARIANTS:
        finish_run(folder / variant, variant)
    return folder


@pytest.fixture
def run(one_rank: Path, tmp_path: Path) -> Path:
    """A run of one's own to spoil; untied, fp32."""
    return Path(shutil.copytree(one_rank / "untied-fp32", tmp_path / "run"))


@pytest.fixture(scope="session")
def released(one_rank: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release; to be read only."""
    out = tmp_path_factory.mktemp("releases") / "tiny"
    make_model_release(ModelReleaseSettings(one_rank / "tied-fp32", out, vllm=False), QUIET)
    return out


@pytest.fixture
def release(released: Path, tmp_path: Path) -> Path:
    """A release of one's own to spoil."""
    return Path(shutil.copytree(released, tmp_path / "tiny"))
