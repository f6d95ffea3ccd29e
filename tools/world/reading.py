"""Long documents of the fictional world: questions whose facts stand in hop order among others, for an agent that reads.

Facts are written as an index would (`director Amber Lantern Mira Voss.`): a small model finds the value right after the name, and
its lesson here is another one, to keep in memory what the next chunk no longer shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from mempo.prompts import READING_PROMPTS
from mempo.task import Reference, Task
from mempo.tokens import ChatTokens
from tools.data.manifest import write_manifest
from tools.data.schema import QuestionRow, write_rows
from tools.world.cache import build_once
from tools.world.facts import World, make_world
from tools.world.model import ModelShape, make_model
from tools.world.names import Entity
from tools.world.questions import Chain, draw_chain
from tools.world.relations import RELATIONS
from tools.world.tokenizer import tie_embeddings, train_tokenizer
from tools.world.vocabulary import vocabulary_texts

CODE = ("tools/world", "tools/data/schema.py", "mempo/prompts.py", "mempo/probe.py")
UNKNOWN = "unknown"  # what the demonstrator writes in the place of a fact that it has not met


@dataclass(frozen=True)
class ReadingSettings:
    """What a folder of documents is made from.

    Attributes:
        seed: draws the world, its questions, its documents and the model's first weights.
        counts: pages per kind.
        hops: number of hops → weight of such questions.
        chunk_tokens: the reader's chunk; no page that the answer needs is cut by the border of one.
        chunks: chunks per document, each as likely as the others.
        train, validation: questions per split; no question is in both.
        shape: sizes of the model. With two layers it learns the form of a memory long before it finds the right value.
    """

    seed: int = 0
    counts: dict[str, int] = field(
        default_factory=lambda: {"person": 300, "film": 200, "novel": 150, "town": 120, "company": 130}
    )
    hops: dict[int, float] = field(default_factory=lambda: {1: 2.0, 2: 1.0})
    chunk_tokens: int = 96
    chunks: tuple[int, ...] = (2, 3, 4)
    train: int = 1200
    validation: int = 300
    shape: ModelShape = field(default_factory=lambda: ModelShape(layers=3))


@dataclass(frozen=True)
class Reading:
    """One question with its document; `gold` are the titles that it needs, in hop order."""

    chain: Chain
    document: str
    gold: list[str]


def fact_text(entity: Entity, relation: str, value: str) -> str:
    """One entry of a page, and of a memory."""
    return f"{relation} {entity.name} {value}."


def page_text(world: World, entity: Entity) -> str:
    """The page of an entity as it stands in a document: one line."""
    facts = (
        fact_text(entity, relation, world.facts[entity, relation].name) for relation in RELATIONS[entity.kind]
    )
    return f"{entity.kind}: {' '.join(facts)}\n"


def draw_readings(
    world: World, tokens: ChatTokens, settings: ReadingSettings, rng: Random
) -> Iterator[Reading]:
    """Questions without end, each with a document of its own."""
    pages = {entity: page_text(world, entity) for entity in world.pages}
    while True:
        hops = rng.choices(list(settings.hops), weights=list(settings.hops.values()))[0]
        chain = draw_chain(world, hops, rng)
        gold = [pages[entity] for entity in chain.visited]
        wanted = rng.choice(settings.chunks)
        document = None
        while document is None:
            document = _document(list(pages.values()), gold, tokens, settings.chunk_tokens, wanted, rng)
        yield Reading(chain, document, [world.pages[entity].title for entity in chain.visited])


def _document(
    pages: list[str], gold: list[str], tokens: ChatTokens, chunk_tokens: int, chunks: int, rng: Random
) -> str | None:
    """The gold pages in their order among others, `chunks` chunks long; None if a border would cut one of them."""
    others, size = [], sum(len(tokens.encode_inert(page)) for page in gold)
    target = rng.randint((chunks - 1) * chunk_tokens + 1, chunks * chunk_tokens)
    while True:
        page = rng.choice(pages)
        size += len(tokens.encode_inert(page))
        if size > target:
            break
        if page not in gold and page not in others:
            others.append(page)
    order = [*others]
    for place, page in zip(sorted(rng.sample(range(len(others) + len(gold)), len(gold))), gold, strict=True):
        order.insert(place, page)
    document = "".join(order)
    found = [tokens.decode(ids) for ids in tokens.chunks(document, chunk_tokens)]
    whole = all(any(page in chunk for chunk in found) for page in gold)
    return document if whole and len(found) == chunks else None


def build_reading_world(out: Path, settings: ReadingSettings) -> Path:
    """Writes train.parquet, validation.parquet, manifest.json and model/ into `out`, unless they are there already."""
    return build_once(out, asdict(settings), CODE, lambda folder: _write(folder, settings))


def _write(folder: Path, settings: ReadingSettings) -> None:
    tokens = ChatTokens(write_reading_model(folder / "model", settings))
    rng = Random(settings.seed)
    world = make_world(settings.counts, rng)
    seen: dict[str, Reading] = {}
    readings = draw_readings(world, tokens, settings, rng)
    while len(seen) < settings.train + settings.validation:
        reading = next(readings)
        seen.setdefault(reading.chain.text, reading)
    members = list(seen.values())
    splits = {"train": members[: settings.train], "validation": members[settings.train :]}
    outputs = [folder / f"{split}.parquet" for split in splits]
    for path, (split, part) in zip(outputs, splits.items(), strict=True):
        write_rows(path, (_row(reading, split, index) for index, reading in enumerate(part)))
    facts = {
        "dataset": "reading",
        "seed": settings.seed,
        "settings": asdict(settings),
        "counts": {"pages": len(world.pages), **{split: len(part) for split, part in splits.items()}},
    }
    write_manifest(folder, [], outputs, facts)


def write_reading_model(folder: Path, settings: ReadingSettings) -> Any:
    """An untrained model whose tokenizer has the words of the world and of the reader; returns the tokenizer."""
    brief = READING_PROMPTS["brief"]
    words = [
        *brief.reading,
        *brief.answering,
        brief.no_memory,
        f"\\boxed{{{UNKNOWN}}}",
        f"Known: {UNKNOWN}.",
    ]
    tokenizer: Any = train_tokenizer([*vocabulary_texts(), *words])
    model = make_model(tokenizer, settings.shape, settings.seed)
    tie_embeddings(model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def _row(reading: Reading, split: str, index: int) -> QuestionRow:
    return QuestionRow(
        task=Task(f"reading-{split}-{index}", reading.chain.text, document=reading.document),
        reference=Reference([[reading.chain.answer]], reading.gold),
        data_source="reading",
        split=split,
        index=index,
        hops=len(reading.chain.relations),
        type=f"chain{len(reading.chain.relations)}",
    )
