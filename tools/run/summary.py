"""summary.json: what a run did and what came of it, from the steps and the evaluations."""

from __future__ import annotations

from typing import Any

from tools.run.metrics import Step, edge_means, mean, reward_change, total, values

MODES = ("history", "window1", "rewritten")
EVAL_KEYS = (
    "em",
    "em_se",
    "f1",
    "f1_se",
    "n",
    "format_share",
    "turns",
    "peak_tokens",
    "failed",
    # where answers are boxed
    "boxed_exact",
    "boxed_em",
    "lenient",
    "missing_box",
)
PAIRED_KEYS = ("only_before", "only_after", "p")
# Parts of a step whose share of its seconds is reported: verl's timers (`timing_s/<name>`). Memory scoring is also part
# of `adv`; `save_checkpoint` comes on some steps only.
PARTS = (
    "gen",
    "old_log_prob",
    "ref",
    "adv",
    "memory_scoring",
    "update_actor",
    "update_weights",
    "save_checkpoint",
)
# By name, for a failure's cause may be called anything.
NO_COUNTS = {"dropped/reward_mean"}


def summarize(
    steps: list[Step],
    *,
    wall_s: float,
    stage_seconds: dict[str, float],
    before: dict[str, dict[str, Any]],
    after: dict[str, dict[str, Any]],
    pairs: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """The summary of a run.

    Args:
        steps: metrics.jsonl, one dict per step.
        wall_s: seconds of all starts of the run together.
        stage_seconds: by stage.
        before, after: evaluation summaries by mode; empty without evaluation.
        pairs: paired comparison by mode.
    """
    rewards = values(steps, "trajectory/reward_mean")
    return {
        "steps": len(steps),
        "wall_s": round(wall_s, 1),
        "stages_s": stage_seconds,
        "rows": {
            name: total(steps, f"rows/{name}")
            for name in ("produced", "dropped", "transferred", "consumed", "padding")
        },
        "dropped": _counts(steps, "dropped"),
        "memory": {
            name: total(steps, f"memory/{name}")
            for name in (
                "turns",
                "first",
                "scored",
                "no_signal",
                "unclosed",
                "missing",
                "too_long",
                "flat_groups",
                "gated_groups",
            )
        }
        | {
            "nonzero_share": mean(values(steps, "memory/nonzero_share")),
            "steps_with_nonzero_share_30": sum(
                share >= 0.3 for share in values(steps, "memory/nonzero_share")
            ),
        },
        "failures": _counts(steps, "failures"),
        "lost_loggers": sorted(_counts(steps, "loggers/lost")),
        "reward": reward_change(rewards) | edge_means(rewards, 10) | {"by_step": rewards},
        "format_failures": _format_failures(steps),
        "timing": timing(steps),
        "eval": {
            "before": {mode: _pick(before[mode], EVAL_KEYS) for mode in MODES if mode in before},
            "after": {mode: _pick(after[mode], EVAL_KEYS) for mode in MODES if mode in after},
            "paired": {mode: _pick(pairs[mode], PAIRED_KEYS) for mode in MODES if mode in pairs},
        },
    }


def timing(steps: list[Step]) -> dict[str, float | None]:
    """Mean seconds of a step, and the share that each part has in all steps' seconds."""
    seconds = values(steps, "timing_s/step")
    whole = sum(seconds)
    shares: dict[str, float | None] = {"step_s": mean(seconds)}
    for part in PARTS:
        spent = values(steps, f"timing_s/{part}")
        if spent and whole > 0:
            shares[f"{part}_share"] = round(sum(spent) / whole, 4)
    return shares


def _format_failures(steps: list[Step]) -> int:
    """Trajectories in the wrong format over all steps; of an agent that answers in a box, those without one."""
    counts, shares = values(steps, "trajectory/count"), values(steps, "trajectory/format_ok")
    return round(sum(count * (1 - share) for count, share in zip(counts, shares, strict=False)))


def _counts(steps: list[Step], family: str) -> dict[str, int | float]:
    """Totals of the counters `family/<name>`."""
    names = {name for step in steps for name in step if name.startswith(f"{family}/")} - NO_COUNTS
    return {name.removeprefix(f"{family}/"): total(steps, name) for name in sorted(names)}


def _pick(numbers: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: numbers[key] for key in keys if key in numbers}
