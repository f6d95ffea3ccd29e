"""`python -m tools.run`: what run_train.sh starts once the environment is there."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from tools.run.arguments import Arguments, help_text, parse
from tools.run.errors import ConfigFaults, RunError
from tools.user_folders import FolderError, apply_usable_folders


def main(words: list[str]) -> int:
    """Runs the command; returns its exit code (0 done, 1 failed, 2 usage, 130 interrupted)."""
    try:
        arguments = parse(words)
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if arguments.help:
        print(help_text(), end="")
        return 0
    try:
        return run(arguments)
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command resumes", file=sys.stderr)
        return 130


def run(arguments: Arguments) -> int:
    """Plans, checks and carries out a run. Raises RunError."""
    from rich.console import Console

    from tools.run.machine import environment_for
    from tools.run.settings import find_recipe, load_config

    config = load_config(find_recipe(arguments.config), arguments.overrides)
    try:
        for note in apply_usable_folders(Path(config.run.cache)):
            print(f"note: {note}", flush=True)
    except FolderError as error:
        raise RunError(str(error)) from error
    # verl picks its platform when it is first imported, and the checks import parts of it.
    os.environ.update(environment_for(str(config.trainer.device)))
    from tools.run.plan import make_plan, ready
    from tools.run.processes import guarded
    from tools.run.progress import Teller

    plan = make_plan(config)
    print(f"{arguments.config}:\n{plan.text()}", flush=True)
    problems = plan.problems if arguments.dry_run else plan.problems + ready(config)
    if problems:
        raise ConfigFaults(problems)
    if arguments.dry_run:
        print("the config is complete and consistent; nothing was started")
        return 0
    from tools.run.pipeline import Pipeline

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it logs every index at its own level, DEBUG
    with guarded():
        Pipeline(config, Teller(Console())).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
