"""A checkpoint as verl leaves it."""

import json

import torch
from safetensors.torch import save_file

from verl_patches.resume import TRACKER


def checkpoint(folder, step, ranks=1, queue=False):
    """What verl writes, in its order."""
    path = folder / f"global_step_{step}"
    model = path / "actor" / "huggingface"
    model.mkdir(parents=True)
    for rank in range(ranks):
        for kind in ("model", "optim", "extra_state"):
            torch.save({"step": step}, path / "actor" / f"{kind}_world_size_{ranks}_rank_{rank}.pt")
    (path / "actor" / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": ranks}))
    save_file({"weight": torch.zeros(8)}, model / "model.safetensors")
    torch.save({"served": step}, path / "data.pt")
    if queue:
        (path / "transfer_queue").mkdir()
    (folder / TRACKER).write_text(str(step))
    return path
