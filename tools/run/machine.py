"""What the machine and the environment are: which set is installed, how many GPUs, what a run writes down about them."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import psutil

from tools.run.errors import RunError
from tools.run.places import ROOT
from tools.run.shadows import shadows
from tools.run.versions import VersionMismatch, check_lock

# Small tensors on few cores: one thread per process is fastest, and vLLM must not pin Ray's workers to one core.
CPU_ENVIRONMENT = {
    "VERL_PLATFORM": "cpu",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCHDYNAMO_DISABLE": "1",  # compiling vLLM's sampler takes half a minute and gains nothing here
    "HF_HUB_OFFLINE": "1",  # the CPU recipe needs nothing from a hub
    "RAY_memory_monitor_refresh_ms": "0",  # counts the page cache as used and kills workers on small machines
}
COMMON_ENVIRONMENT = {
    "PYTHONSAFEPATH": "1",  # -P for every Python that a child starts: the current folder holds no packages
    "VERL_USE_EXTERNAL_MODULES": "verl_patches.plugin",
    "TOKENIZERS_PARALLELISM": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HYDRA_FULL_ERROR": "1",
}


def gpus() -> list[str]:
    """One line per GPU that nvidia-smi lists; empty without a GPU."""
    if shutil.which("nvidia-smi") is None:
        return []
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.split(" (UUID")[0] for line in listing.stdout.splitlines() if line.startswith("GPU")]


def installed_set() -> str | None:
    """`cpu` or `gpu`: the set that setup.sh installed here; None for an environment made by hand."""
    try:
        return (Path(sys.prefix) / "mempo-set-up").read_text(encoding="utf-8").split()[0]
    except (FileNotFoundError, IndexError):
        return None


def set_up_seconds() -> float | None:
    """How long setup.sh took, if it made this environment."""
    try:
        return float((Path(sys.prefix) / "mempo-set-up").read_text(encoding="utf-8").split()[2])
    except (FileNotFoundError, IndexError, ValueError):
        return None


def check_installation(device: str) -> str:
    """Checks that the installed packages are the tested set for a device (`cpu` or `cuda`); says what was checked.

    Raises:
        RunError: another set is installed, versions differ from its lock, or PYTHONPATH has other copies.
    """
    wanted = "cpu" if device == "cpu" else "gpu"
    have = installed_set()
    if have is not None and have != wanted:
        raise RunError(
            f"this config runs on {device}, but .venv holds the {have} set. "
            f"Run ./setup.sh --{wanted} first, or choose a config for {have}."
        )
    try:
        check_lock(ROOT / "requirements" / f"{wanted}.lock")
    except VersionMismatch as error:
        raise RunError(str(error)) from error
    if hidden := shadows(os.environ.get("PYTHONPATH", "")):
        raise RunError("\n".join(hidden))
    return f"the installed packages are those of requirements/{wanted}.lock"


def environment_for(device: str, base: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of the training process; what the user has set stays.

    Folders on PYTHONPATH become absolute: children start elsewhere.
    """
    ours = COMMON_ENVIRONMENT | (CPU_ENVIRONMENT if device == "cpu" else {})
    ours |= dict(os.environ) if base is None else base
    folders = [os.path.abspath(entry) for entry in ours.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return ours | ({"PYTHONPATH": os.pathsep.join(folders)} if folders else {})


def describe() -> dict[str, Any]:
    """Versions, commit and hardware, for environment.json. Holds no names of people or hosts."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "commit": git_commit(),
        "set": installed_set(),
        "set_up_s": set_up_seconds(),
        "cpus": os.cpu_count(),
        "cpu": _cpu_name(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": gpus(),
        "versions": dict(sorted((dist.metadata["Name"], dist.version) for dist in distributions())),
    }


def git_commit() -> str | None:
    """The commit of the project, with `+changes` if tracked files differ from it; None outside of git."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    return f"{commit}+changes" if commit and git("status", "--porcelain", "--untracked-files=no") else commit


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()
