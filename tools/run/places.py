"""Where the project's own files lie. Standard library only: --help reads it before anything is installed."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
DEFAULT = "cpu"
NOT_RECIPES = ("mempo_base",)  # a base, not a recipe


def recipes() -> list[str]:
    """Names of the recipes in configs/."""
    return sorted(path.stem for path in CONFIGS.glob("*.yaml") if path.stem not in NOT_RECIPES)
