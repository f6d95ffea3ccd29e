"""Which models the tree can score, and why not the others."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PretrainedConfig

_ROPES_BY_LENGTH = ("dynamic", "longrope")
_WITH_SINKS = ("gpt_oss",)


@dataclass(frozen=True)
class Refusal:
    """Why the tree does not run; `code` names it in metrics, `reason` in logs."""

    code: str
    reason: str


def tree_refusal(config: PretrainedConfig) -> Refusal | None:
    """None if a model of this config attends as the tree does: plainly, causally, by positions alone."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"]) - {"full_attention"}
    window = getattr(config, "sliding_window", None) if not hasattr(config, "layer_types") else None
    if window is not None and getattr(config, "use_sliding_window", True):
        kinds.add("sliding_attention")
    if kinds:
        return Refusal(
            "layer_types", f"it has layers of {', '.join(sorted(kinds))}, the tree only full attention"
        )
    if config.sub_configs:
        return Refusal("multimodal", f"{config.model_type} is made of several models")
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return Refusal("softcap", "it caps its attention scores")
    if config.model_type in _WITH_SINKS:
        return Refusal("sinks", "its softmax has attention sinks")
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind in _ROPES_BY_LENGTH:
        return Refusal("rope", f"its {kind} positions depend on the length of the whole sequence")
    return None
