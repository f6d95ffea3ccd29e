"""The `mempo` command: parts on demand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import cli

HEAVY = ("verl", "vllm", "ray", "torch")


def run_code(root: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=100, check=False
    )


def test_help_lists_every_part_and_imports_none(root: Path) -> None:
    code = (
        "import sys\nfrom tools.cli import main, PARTS\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "loaded = {module for module, _ in PARTS.values()} & set(sys.modules)\nassert not loaded, loaded\n"
    )
    done = run_code(root, code)
    assert done.returncode == 0, done.stderr
    assert all(f"  {part} " in done.stdout for part in cli.PARTS)


@pytest.mark.parametrize("part", ["eval", "data", "search"])
def test_help_of_a_part_needs_no_trainer(root: Path, part: str) -> None:
    code = (
        f"import sys\nfrom tools.cli import main\n"
        f"try:\n    main(['{part}', '--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        f"heavy = set({HEAVY!r}) & set(sys.modules)\nassert not heavy, heavy\n"
    )
    done = run_code(root, code)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_an_unknown_part_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["trian"])
    assert end.value.code == 2
    assert "'trian'" in capsys.readouterr().err


def test_train_hands_on_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["train", "--help"])
    assert end.value.code == 0
    assert "--search-url" in capsys.readouterr().out
