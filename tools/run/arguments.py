"""The command line of run_train.sh."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.run.errors import RunError
from tools.run.places import DEFAULT, recipes
from tools.run.quoting import quoted

HELP = """\
usage: ./run_train.sh [CONFIG] [KEY=VALUE ...] [--dry-run] [--search-url URL]

Trains a self-memory agent from beginning to end: installs what is missing, prepares data and model, starts a search
server, evaluates on held-out questions, trains with verl, evaluates again, and writes a report.

  CONFIG            a recipe in configs/ ({recipes}; default {default}) or the path of a YAML file
  KEY=VALUE         overrides in Hydra's syntax: our keys (task.* agent.* memory.* search.* run.* seed) and all of verl's
  --dry-run         resolve and check the config, print the plan, start nothing; works for GPU recipes anywhere
  --search-url URL  use a running search server instead of starting one (the same as search.url=URL)
  --help            this text

examples
  ./run_train.sh                                              the default: a tiny model on two CPU cores
  ./run_train.sh cpu run.name=gain memory.reference=previous_memory
  ./run_train.sh cpu task=hotpotqa task.input=hotpot.json     real questions and their paragraphs
  ./run_train.sh mempo task.input=hotpot_train_v1.1.json      Qwen2.5-7B on 8 GPUs
  ./run_train.sh published task.input=FILE --dry-run          check a GPU recipe on a laptop

Everything of a run lies in runs/<name>/ (run.name, by default <config>-<task>): the resolved config, metrics.jsonl,
TensorBoard events, trajectories, checkpoints, evaluations, summary.json, environment.json, report.html. The same command
resumes an interrupted run; another config under the same name is refused. Ctrl-C ends everything that was started.
With RAY_ADDRESS set the run joins that Ray cluster (docs/train.md). Exit codes: 0 done, 1 failed, 2 usage, 130 Ctrl-C.
"""


@dataclass(frozen=True)
class Arguments:
    """What the user asked for."""

    config: str = DEFAULT
    overrides: list[str] = field(default_factory=list)
    dry_run: bool = False
    help: bool = False


def help_text() -> str:
    """The text of --help."""
    return HELP.format(recipes=", ".join(recipes()), default=DEFAULT)


def parse(words: list[str]) -> Arguments:
    """Reads the command line; options may stand anywhere.

    Raises:
        RunError: an unknown option, an option without its value, or a second config.
    """
    config: str | None = None
    overrides: list[str] = []
    dry_run = asked_help = False
    rest = iter(words)
    for word in rest:
        if word in ("-h", "--help"):
            asked_help = True
        elif word == "--dry-run":
            dry_run = True
        elif word == "--search-url" or word.startswith("--search-url="):
            url = word.partition("=")[2] if "=" in word else next(rest, "")
            if not url:
                raise RunError("--search-url needs an address, e.g. --search-url http://host:8000")
            overrides.append(f"search.url={quoted(url)}")
        elif word.startswith("-"):
            raise RunError(f"unknown option {word}; see --help")
        elif "=" in word or word.startswith("~"):
            overrides.append(word)
        elif config is None:
            config = word
        else:
            raise RunError(f"two configs, {config!r} and {word!r}; an override has the form key=value")
    return Arguments(config or DEFAULT, overrides, dry_run, asked_help)
