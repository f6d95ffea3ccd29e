"""The largest memory that a piece of work holds beyond what was held before it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import torch


def peak_mib(work: Callable[[], object], device: torch.device) -> float | None:
    """Runs `work` once; MiB on the accelerator, or of the process on a CPU (None where the system does not tell)."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, the peak of the resident memory
        before = _status_kib("VmRSS")
        work()
        return (_status_kib("VmHWM") - before) / 1024
    except OSError:
        work()
        return None


def _status_kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
