"""Weights against the config's model, and which dtype may be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.tools.release.runs import actor_of
from tests.tools.release.shard_rank import tiny_config, tiny_model
from tools.release.errors import ReleaseError
from tools.release.weights import Weights, cast, fitted, load_weights, target_dtype

LM_HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def state_of(variant: str) -> dict[str, torch.Tensor]:
    return dict(tiny_model(variant).state_dict())


def weights_of(variant: str) -> Weights:
    state = state_of(variant)
    return Weights(state, "bfloat16" if variant.endswith("bf16") else "float32", False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("model.layers.1.mlp.up_proj.weight"), "1 tensors are missing.*up_proj"),
        (
            lambda state: state.update({"model.extra": torch.ones(1)}),
            r"1 tensors are unexpected.*model\.extra",
        ),
        (
            lambda state: state.update({"model.norm.weight": torch.ones(3)}),
            r"model\.norm\.weight has the shape",
        ),
        (lambda state: state["model.norm.weight"].fill_(float("nan")), r"model\.norm\.weight holds values"),
        (lambda state: state.pop(LM_HEAD), "1 tensors are missing.*lm_head"),
    ],
    ids=["missing", "unexpected", "shape", "nan", "untied head"],
)
def test_what_is_not_the_configs_model_is_named(change: object, message: str) -> None:
    state = state_of("untied-fp32")
    change(state)  # type: ignore[operator]
    with pytest.raises(ReleaseError, match=message):
        fitted(state, tiny_config(tied=False), "here")


@pytest.mark.parametrize("left", [(LM_HEAD,), (EMBEDDING,), (LM_HEAD, EMBEDDING)])
def test_a_tied_tensor_has_one_name_whichever_was_saved(left: tuple[str, ...]) -> None:
    state = state_of("tied-fp32")
    kept = {name: state[name] for name in state if name not in (LM_HEAD, EMBEDDING) or name in left}
    whole = fitted(kept, tiny_config(tied=True), "here")
    assert LM_HEAD not in whole
    assert torch.equal(whole[EMBEDDING], state[EMBEDDING])


def test_tensors_that_should_be_tied_and_differ_are_named() -> None:
    state = {name: tensor.clone() for name, tensor in state_of("tied-fp32").items()}
    state[LM_HEAD] += 1
    with pytest.raises(ReleaseError, match=r"embed_tokens\.weight and lm_head\.weight differ"):
        fitted(state, tiny_config(tied=True), "here")


@pytest.mark.parametrize(
    ("variant", "asked", "written"),
    [
        ("untied-fp32", "auto", "float32"),
        ("untied-fp32", "fp32", "float32"),
        ("untied-fp32", "bf16", "bfloat16"),
        ("untied-bf16", "auto", "bfloat16"),
        ("untied-bf16", "bf16", "bfloat16"),
    ],
)
def test_the_dtype_is_that_of_the_shards_or_coarser(variant: str, asked: str, written: str) -> None:
    assert target_dtype(weights_of(variant), asked) == written


def test_fp32_is_not_written_from_bf16() -> None:
    with pytest.raises(ReleaseError, match="the shards are bfloat16"):
        target_dtype(weights_of("untied-bf16"), "fp32")


def test_fp32_is_not_written_from_fp32_that_has_been_through_bf16() -> None:
    """What verl's merger makes of fp32 shards, cast back."""
    weights = weights_of("untied-fp32")
    rounded = Weights(cast(cast(weights.state, "bfloat16"), "float32"), "float32", False)
    assert target_dtype(rounded, "auto") == "bfloat16"
    with pytest.raises(ReleaseError, match="have been through bf16"):
        target_dtype(rounded, "fp32")


@pytest.mark.parametrize("variant", ["lora-fp32", "lora-bf16"])
def test_adapters_are_merged_in_fp32(one_rank: Path, variant: str) -> None:
    actor = actor_of(one_rank / variant)
    merged = load_weights(actor, tiny_config(tied=False))
    assert merged.had_adapters
    saved = torch.load(one_rank / variant / "whole.pt", weights_only=True)
    place = "base_model.model.model.layers.0.self_attn.q_proj"
    a, b = (saved[f"{place}.lora_{side}.default.weight"].float() for side in "AB")
    expected = saved[f"{place}.base_layer.weight"].float() + 4.0 * b @ a  # alpha / r = 12 / 3
    found = merged.state["model.layers.0.self_attn.q_proj.weight"]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    untouched = merged.state["model.layers.0.self_attn.k_proj.weight"]
    assert torch.equal(untouched, saved["base_model.model.model.layers.0.self_attn.k_proj.weight"].float())


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (None, "must tell the adapters' r and lora_alpha"),
        ({"r": 3}, "must tell"),
        ({"r": 5, "lora_alpha": 12}, "says rank 5"),
    ],
)
def test_adapters_of_unknown_scale_are_not_merged(
    one_rank: Path, tmp_path: Path, meta: dict[str, int] | None, message: str
) -> None:
    import shutil

    actor = Path(shutil.copytree(actor_of(one_rank / "lora-fp32"), tmp_path / "actor"))
    (actor / "lora_train_meta.json").unlink()
    if meta is not None:
        (actor / "lora_train_meta.json").write_text(json.dumps(meta))
    with pytest.raises(ReleaseError, match=message):
        load_weights(actor, tiny_config(tied=False))


def test_adapters_alone_are_no_model(one_rank: Path, tmp_path: Path) -> None:
    import shutil

    actor = Path(shutil.copytree(actor_of(one_rank / "lora-fp32"), tmp_path / "actor"))
    shard = actor / "model_world_size_1_rank_0.pt"
    content = torch.load(shard, weights_only=True)
    torch.save({name: tensor for name, tensor in content.items() if "lora_" in name}, shard)
    with pytest.raises(ReleaseError, match="adapters only.*save_lora_only"):
        load_weights(actor, tiny_config(tied=False))
