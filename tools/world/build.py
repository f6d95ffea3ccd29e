"""A world folder: questions, corpus, manifest, and a tokenizer with an untrained model."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from mempo.task import Reference, Task
from tools.data.manifest import write_manifest
from tools.data.schema import QuestionRow, write_rows
from tools.world.cache import build_once
from tools.world.facts import World, make_world
from tools.world.model import make_model
from tools.world.questions import Question, draw_questions
from tools.world.settings import WorldSettings
from tools.world.tokenizer import tie_embeddings, train_tokenizer
from tools.world.vocabulary import vocabulary_texts

CODE = ("tools/world", "tools/data/schema.py", "mempo/prompts.py", "mempo/probe.py")


def build_world(out: Path, settings: WorldSettings) -> Path:
    """Writes the world folder `out`, unless it holds one of the same settings and code.

    Files: train.parquet, validation.parquet, corpus.jsonl, manifest.json, model/ (tokenizer and random weights).

    Raises:
        ValueError: the settings ask for more names or questions than there are.
    """
    return build_once(out, asdict(settings), CODE, lambda folder: _write(folder, settings))


def _write(folder: Path, settings: WorldSettings) -> None:
    rng = Random(settings.seed)
    world = make_world(settings.counts, rng)
    questions = draw_questions(world, settings.mixture, settings.train + settings.validation, rng)
    splits = {"train": questions[: settings.train], "validation": questions[settings.train :]}
    outputs = [folder / f"{split}.parquet" for split in splits]
    for path, (split, members) in zip(outputs, splits.items(), strict=True):
        write_rows(path, [_row(world, question, split, index) for index, question in enumerate(members)])
    outputs.append(folder / "corpus.jsonl")
    with outputs[-1].open("w", encoding="utf-8") as file:
        for number, page in enumerate(world.pages.values()):
            file.write(json.dumps({"id": f"world-{number}", "title": page.title, "text": page.text}) + "\n")
    write_model(folder / "model", settings)
    facts = {
        "dataset": "world",
        "seed": settings.seed,
        "settings": asdict(settings),
        "counts": {"pages": len(world.pages), **{split: len(members) for split, members in splits.items()}},
    }
    write_manifest(folder, [], outputs, facts)


def write_model(folder: Path, settings: WorldSettings) -> None:
    """The tokenizer and an untrained model as one Hugging Face folder."""
    tokenizer: Any = train_tokenizer(vocabulary_texts())
    model = make_model(tokenizer, settings.shape, settings.seed)
    tie_embeddings(model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _row(world: World, question: Question, split: str, index: int) -> QuestionRow:
    titles = [world.pages[entity].title for chain in question.chains for entity in chain.visited]
    return QuestionRow(
        task=Task(f"world-{split}-{index}", question.text, len(question.chains)),
        reference=Reference([[chain.answer] for chain in question.chains], list(dict.fromkeys(titles))),
        data_source="world",
        split=split,
        index=index,
        hops=question.hops,
        type=question.type,
    )
