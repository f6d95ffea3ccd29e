"""Whatever a path is called, Hydra reads it back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from tools.run.quoting import quoted
from tools.run.settings import find_recipe, load_config


# No interpolation, and no control characters, which are in no path that can be typed.
@given(st.text(st.characters(exclude_characters="$", exclude_categories=["C"])))
def test_a_quoted_text_is_read_back_as_it_was(text: str) -> None:
    override = OverridesParser.create().parse_override(f"key={quoted(text)}")
    assert override.value() == text


@pytest.mark.parametrize("folder", ["mein Prüfstand", "a,b", "[x]", "k=v", "日本語"])
def test_a_recipe_of_ones_own_may_lie_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    from tools.run import settings

    project = tmp_path / folder
    project.mkdir()
    (project / "configs").symlink_to(settings.CONFIGS)
    monkeypatch.setattr(settings, "CONFIGS", project / "configs")  # the project's own path is odd too
    (project / "mine.yaml").write_text("defaults: [cpu, _self_]\nmemory: {weight: 0.25}\n")
    assert load_config(find_recipe(str(project / "mine.yaml")), []).memory.weight == 0.25
