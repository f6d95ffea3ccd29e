"""Loaded in every process by `VERL_USE_EXTERNAL_MODULES=verl_patches.plugin`.

Registers the agent loop `mempo` and gives the sockets of the weight sync names of the run's own; with `VERL_PLATFORM=cpu`
also the CPU platform and its patches. On a GPU nothing else.
"""

from __future__ import annotations

import os
from types import ModuleType

from verl_patches.hooks import after_import
from verl_patches.weight_sockets import SOCKETS, name_sockets
from verl_patches.wiring import AGENT_LOOP


def _register_agent_loop(module: ModuleType) -> None:
    module._agent_loop_registry[AGENT_LOOP] = {"_target_": "verl_patches.agent_loop.MempoAgentLoop"}


after_import("verl.experimental.agent_loop.agent_loop", _register_agent_loop)
after_import(SOCKETS, name_sockets)

if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu":
    from verl_patches.patches import apply_cpu_patches
    from verl_patches.platform import complete_torch_cpu

    complete_torch_cpu()
    apply_cpu_patches()
