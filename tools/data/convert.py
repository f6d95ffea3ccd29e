"""A data set's files → a data folder: parquet splits, corpus, supporting passages, manifest."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tools.data.compose import Composed, compose
from tools.data.data_folder import replaced
from tools.data.deepresearcher import SOURCES, parse_deepresearcher
from tools.data.hotpotqa import parse_hotpotqa
from tools.data.load import Account, Parser, load_questions
from tools.data.manifest import write_manifest
from tools.data.musique import parse_musique
from tools.data.passages import write_corpus
from tools.data.plain import parse_plain
from tools.data.question import Question
from tools.data.records import DataError
from tools.data.schema import write_rows
from tools.data.twowiki import parse_twowiki, read_aliases

DATASETS: dict[str, Parser] = {
    "hotpotqa": parse_hotpotqa,
    "2wikimultihopqa": parse_twowiki,
    "musique": parse_musique,
    "deepresearcher": parse_deepresearcher,
    "jsonl": parse_plain,
}
FILES = ("train.parquet", "validation.parquet", "corpus.jsonl", "supporting.jsonl")
LISTED_PROBLEMS = 100  # in the manifest; all of them are counted


@dataclass(frozen=True)
class ConvertSettings:
    """What to convert and how.

    Attributes:
        dataset: a key of `DATASETS`.
        inputs: files of records: JSON list, JSON lines or parquet, also gzip-compressed.
        out: the data folder; its files are overwritten.
        validation_inputs: files whose questions validate. Without them, `validation_share` of the questions in
            `inputs` does, drawn by `seed`; at least enough for one row.
        objectives: questions per row.
        strict: malformed records are an error instead of being counted and left out.
        aliases: 2WikiMultihopQA's `id_aliases.json`.
        name: `data_source` of the rows, for `jsonl`; elsewhere the data set's own name.
        sources: the data sets to take out of a `deepresearcher` file; empty takes all.
        validation_only: every question of `inputs` validates, and there is no train split: an evaluation set.
    """

    dataset: str
    inputs: list[Path]
    out: Path
    validation_inputs: list[Path] = field(default_factory=list)
    validation_share: float = 0.1
    objectives: int = 1
    seed: int = 0
    strict: bool = False
    aliases: Path | None = None
    name: str | None = None
    sources: list[str] = field(default_factory=list)
    validation_only: bool = False

    def __post_init__(self) -> None:
        if self.dataset not in DATASETS:
            raise DataError(f"data set {self.dataset!r} is unknown; known are {', '.join(DATASETS)}")
        if not self.inputs:
            raise DataError("at least one input file is needed")
        if not 0 < self.validation_share < 1:
            raise DataError(f"validation share is {self.validation_share}, it must lie between 0 and 1")
        if self.objectives < 1:
            raise DataError(f"objectives is {self.objectives}, it must be at least 1")
        if self.aliases is not None and self.dataset != "2wikimultihopqa":
            raise DataError(
                f"an alias file belongs to 2wikimultihopqa; {self.dataset} has its aliases in its records"
            )
        unknown = [source for source in self.sources if source not in SOURCES.values()]
        if unknown:
            raise DataError(f"source {unknown[0]!r} is unknown; known are {', '.join(SOURCES.values())}")
        if self.validation_only and self.validation_inputs:
            raise DataError("with validation_only, every input validates: give the files as inputs")
        for path in (*self.inputs, *self.validation_inputs):
            if path.name in FILES and path.resolve().parent == self.out.resolve():
                raise DataError(f"{path} would be overwritten: choose another folder to write to")


def convert(settings: ConvertSettings) -> dict[str, Any]:
    """Writes `train.parquet`, `validation.parquet`, `corpus.jsonl`, `supporting.jsonl` and `manifest.json`.

    An evaluation set has no train.parquet, and questions that come without passages give no corpus.jsonl and
    supporting.jsonl. The same inputs and settings give the same bytes. The manifest is written last: a folder without
    one is unfinished.

    Returns:
        the manifest.

    Raises:
        DataError: an input cannot be read, `strict` met a malformed record, or a split would be empty.
    """
    account = Account()
    train, validation = _load(settings, account)
    if settings.strict and account.problems:
        raise DataError(
            f"{len(account.problems)} malformed record(s):\n" + "\n".join(account.problems[:LISTED_PROBLEMS])
        )
    questions_of = {"train": train, "validation": validation}
    if settings.validation_only:
        del questions_of["train"]
    splits, left_out = {}, {}
    for split, questions in questions_of.items():
        rng = random.Random(f"{settings.seed} {split}")
        splits[split], left_out[split] = compose(questions, settings.objectives, rng)
        if not splits[split]:
            raise DataError(
                f"{settings.out}: no {split} row can be made: {account.records} records "
                f"({len(account.problems)} malformed, {sum(account.unusable.values())} unusable) leave "
                f"{len(questions)} {split} question(s), a row takes {settings.objectives}; give more records"
                + "".join(f"\n{problem}" for problem in account.problems[:10])
            )
    with replaced(settings.out, _inputs(settings)) as folder:
        outputs, passages = _write(settings, folder, splits, [*train, *validation])
        counts = {
            "records": account.records,
            "malformed": dict(sorted(account.malformed.items())),
            "unusable": dict(sorted(account.unusable.items())),
            "questions": {split: len(questions) for split, questions in questions_of.items()},
            "left_out": left_out,
            "rows": {split: len(rows) for split, rows in splits.items()},
            **passages,
        }
        facts = {
            "dataset": settings.dataset,
            "seed": settings.seed,
            "settings": _plain(settings),
            "counts": counts,
            "problems": account.problems[:LISTED_PROBLEMS],
        }
        return write_manifest(folder, _inputs(settings), outputs, facts)


def _write(
    settings: ConvertSettings, out: Path, splits: dict[str, list[Composed]], questions: list[Question]
) -> tuple[list[Path], dict[str, int]]:
    """Writes all files but the manifest.

    Returns:
        the files, and the counts of `write_corpus`.
    """
    outputs = []
    for split, rows in splits.items():
        outputs.append(out / f"{split}.parquet")
        source = settings.name or settings.dataset
        write_rows(outputs[-1], (row.to_row(source, split, index) for index, row in enumerate(rows)))
    pages = [page for question in questions for page in question.paragraphs]
    if not pages:
        return outputs, {"passages": 0}
    passages = write_corpus(out / "corpus.jsonl", pages)
    _write_supporting(out / "supporting.jsonl", splits)
    return [*outputs, out / "corpus.jsonl", out / "supporting.jsonl"], passages


def _load(settings: ConvertSettings, account: Account) -> tuple[list[Question], list[Question]]:
    parse = DATASETS[settings.dataset]
    if settings.aliases is not None:
        parse = partial(parse_twowiki, by_answer_id=read_aliases(settings.aliases))
    if settings.sources:
        parse = partial(parse_deepresearcher, sources=settings.sources)
    seen: dict[str, str] = {}
    if settings.validation_inputs:  # read first, so that a question in both files stays held out
        validation = load_questions(settings.validation_inputs, parse, account, seen)
        return load_questions(settings.inputs, parse, account, seen), validation
    questions = load_questions(settings.inputs, parse, account, seen)
    if settings.validation_only:
        return [], questions
    size = min(max(settings.objectives, round(len(questions) * settings.validation_share)), len(questions))
    held_out = set(random.Random(f"{settings.seed} split").sample(range(len(questions)), size))
    train = [question for place, question in enumerate(questions) if place not in held_out]
    return train, [questions[place] for place in sorted(held_out)]


def _write_supporting(path: Path, splits: dict[str, list[Composed]]) -> None:
    """One line per row: `id, split, question, answer, questions, answers, paragraphs`.

    `questions` and `answers` have one entry per objective, `answer` joins the answers. `paragraphs` are `{title, text,
    objective}` in the order in which they are needed; the cold start writes its trajectories from them.
    """
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for split, rows in splits.items():
            for row in rows:
                file.write(json.dumps(row.to_supporting(split), ensure_ascii=False) + "\n")


def _inputs(settings: ConvertSettings) -> list[Path]:
    return [*settings.inputs, *settings.validation_inputs, *([settings.aliases] if settings.aliases else [])]


def _plain(settings: ConvertSettings) -> dict[str, Any]:
    """The settings without folders: names of files only, so that a manifest does not depend on where it was made."""
    plain = asdict(settings)
    for name in ("out", "seed", "dataset"):  # the last two stand on their own in the manifest
        del plain[name]
    for name in ("inputs", "validation_inputs"):
        plain[name] = [path.name for path in plain[name]]
    plain["aliases"] = settings.aliases.name if settings.aliases else None
    if settings.validation_inputs or settings.validation_only:
        plain["validation_share"] = None  # not used
    return plain
