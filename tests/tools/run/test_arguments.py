"""The command line of run_train.sh."""

from __future__ import annotations

import pytest

from tools.run.arguments import help_text, parse
from tools.run.errors import RunError


def test_nothing_means_the_default_recipe() -> None:
    assert parse([]).config == "cpu"


def test_config_overrides_and_options_in_any_order() -> None:
    found = parse(["memory.weight=0", "--dry-run", "mempo", "task=hotpotqa", "--search-url", "http://a:1"])
    assert found.config == "mempo"
    assert found.overrides == ["memory.weight=0", "task=hotpotqa", 'search.url="http://a:1"']
    assert found.dry_run


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--fast"], "--fast"), (["cpu", "mempo"], "two configs"), (["--search-url"], "needs an address")],
)
def test_usage_errors_name_the_word(words: list[str], said: str) -> None:
    with pytest.raises(RunError, match=said):
        parse(words)


def test_help_names_every_recipe() -> None:
    assert all(name in help_text() for name in ("cpu", "mempo", "published", "--dry-run", "--search-url"))
