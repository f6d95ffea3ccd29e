"""A data folder of generated texts of one kind and size."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mempo.task import Reference, Task
from tools.data.data_folder import replaced
from tools.data.generated_text import GeneratedText, TextMaker
from tools.data.manifest import write_manifest
from tools.data.records import DataError
from tools.data.schema import QuestionRow, write_rows
from tools.data.text_size import TextSize, largest

PLACES = "places.jsonl"


@dataclass(frozen=True)
class GeneratedSet:
    """What to make.

    Attributes:
        maker: makes the texts; a dataclass, whose fields go into the manifest.
        size: the limit of every text, which is used as far as whole parts of it go.
        questions: rows of validation.parquet, each with a text of its own.
        seed: draws everything; question i and its answers depend on the seed, the maker and i alone, so that sets of several
            sizes ask the same.
    """

    maker: TextMaker
    size: TextSize
    questions: int
    seed: int = 0

    def texts(self) -> Iterator[GeneratedText]:
        """One text per question, in order.

        Raises:
            DataError: the maker's shortest text is over the size.
        """
        for index in range(self.questions):
            yield self._largest(f"{self.seed} {self.maker.name} {index}")

    def _largest(self, key: str) -> GeneratedText:
        def made(parts: int) -> GeneratedText:
            return self.maker.make(parts, random.Random(key))

        def measured(parts: int) -> int:
            return self.size.measure(made(parts).text)

        maker, size = self.maker, self.size
        parts = largest(measured, size.limit, maker.least)
        if parts is None:
            remedy = f"raise it, or {maker.to_shorten}" if maker.to_shorten else "raise it"
            raise DataError(
                f"{maker.name}: the shortest text has {measured(maker.least)} {size.unit}, --{size.unit} is {size.limit}: "
                f"{remedy}"
            )
        return made(parts)

    def row(self, index: int, made: GeneratedText) -> QuestionRow:
        """The row of one text: one objective per answer."""
        name = self.maker.name
        task = Task(f"{name}-{index}", made.question, len(made.answers), document=made.text)
        return QuestionRow(task, Reference([[answer] for answer in made.answers]), name, "validation", index)


def write_generated_set(out: Path, made: GeneratedSet) -> dict[str, Any]:
    """Writes `validation.parquet` (`task.document` holds the text), `places.jsonl` and the manifest.

    `places.jsonl`: per question its id, the length of its text in the unit of the limit, where each answer stands in
    it (characters from 0), and the text's SHA-256. The same settings give the same bytes. An error leaves the folder as it
    was.

    Returns:
        the manifest.

    Raises:
        DataError: no text can be that short.
    """
    maker, size = made.maker, made.size
    with replaced(out) as folder:
        outputs = [folder / "validation.parquet", folder / PLACES]
        count = write_rows(outputs[0], _rows(made, outputs[1]))
        facts = {
            "dataset": maker.name,
            "seed": made.seed,
            "settings": {
                **vars(maker),
                size.unit: size.limit,
                "tokenizer": Path(size.tokenizer).name if size.tokenizer else None,
            },
            "counts": {"rows": {"validation": count}},
        }
        return write_manifest(folder, [], outputs, facts)


def _rows(made: GeneratedSet, places: Path) -> Iterator[QuestionRow]:
    """The rows; the line of each goes to `places`."""
    maker, size = made.maker, made.size
    with places.open("w", encoding="utf-8", newline="\n") as file:
        for index, text in enumerate(made.texts()):
            row = made.row(index, text)
            line = {
                "id": row.task.id,
                size.unit: size.measure(text.text),
                "places": {answer: maker.places(text.text, answer) for answer in text.answers},
                "sha256": hashlib.sha256(text.text.encode()).hexdigest(),
            }
            file.write(json.dumps(line) + "\n")
            yield row
