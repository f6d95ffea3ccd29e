"""The `mempo` command: its parts are loaded when they are asked for, so that `mempo eval --help` needs no verl."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tools.run.places import ROOT
from tools.user_folders import FolderError, apply_usable_folders

if TYPE_CHECKING:
    import typer

# name: module that holds a typer app named `app`, one line for the list.
PARTS = {
    "bench": ("tools.bench.cli", "Measure what the parts cost, as ratios on this machine."),
    "data": ("tools.data.cli", "Convert public question sets and your own into data folders."),
    "eval": ("eval.cli", "Evaluate a model behind any OpenAI-compatible endpoint, and compare runs."),
    "experiment": (
        "tools.experiment.cli",
        "Compare arms of a frozen protocol over paired seeds, and report what came of it.",
    ),
    "release": ("tools.release.cli", "Make, verify and publish a release of a trained model."),
    "release-data": ("tools.release.data_cli", "Make, verify and publish a release of a data folder."),
    "read": (
        "eval.read_cli",
        "Ask one question of one text of any length, over any OpenAI-compatible endpoint.",
    ),
    "replay": (
        "tools.run.replay_cli",
        "Rebuild a step's training rows from its trajectories, and compare them.",
    ),
    "search": ("tools.search.cli", "Build and serve search over a corpus of passages, or the web."),
    "sft": ("tools.sft.cli", "Write oracle trajectories and train a cold start on them."),
    "train": ("tools.run.cli", "Train from beginning to end; what run_train.sh starts."),
    "view": ("tools.view.cli", "Read the trajectories of a run on one page, turn by turn."),
    "world": ("tools.world.cli", "Generate the fictional encyclopedia: pages, questions, tokenizer, model."),
}


def help_text() -> str:
    """The text of `mempo --help`; made from the table, so that it imports no part."""
    width = max(map(len, PARTS))
    lines = [f"  {name:<{width}}  {line}" for name, (_, line) in sorted(PARTS.items())]
    return (
        "usage: mempo PART ...\n\nTrains and evaluates language-model agents that keep their own memory.\n\n"
        + "\n".join(lines)
        + "\n\n`mempo PART --help` tells what a part does, with examples.\n"
    )


def main(words: Sequence[str] | None = None) -> None:
    """The console script: hands the words after the part's name to that part. Ends the process."""
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("-h", "--help"):
        print(help_text(), end="")
        raise SystemExit(0 if words else 2)
    part, *rest = words
    if part not in PARTS:
        print(f"mempo: no part {part!r}; there are {', '.join(sorted(PARTS))}", file=sys.stderr)
        raise SystemExit(2)
    try:
        for note in apply_usable_folders(ROOT / "cache"):
            print(f"note: {note}", file=sys.stderr)
    except FolderError as error:
        print(f"mempo: {error}", file=sys.stderr)
        raise SystemExit(1) from error
    # Dispatched here rather than by a typer group, which would import every part to list them.
    app: typer.Typer = importlib.import_module(PARTS[part][0]).app
    app(args=rest, prog_name=f"mempo {part}")


if __name__ == "__main__":
    main()
