"""Long documents: the gold paragraphs of a question hidden among distractors, at drawn and recorded places (MemAgent)."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mempo.task import Reference, Task
from tools.data.convert import DATASETS
from tools.data.data_folder import replaced
from tools.data.hidden_paragraphs import Distractors, LongDocument, document_text, gold_of, hide
from tools.data.known import read_right
from tools.data.load import Account, load_questions
from tools.data.manifest import write_manifest
from tools.data.question import Paragraph, Question
from tools.data.records import DataError, read_records
from tools.data.ruler_hqa import ruler_hqa_record
from tools.data.schema import QuestionRow, write_rows
from tools.data.token_counter import CountTokens, token_counter

PLACES = "places.jsonl"


@dataclass(frozen=True)
class LongContextSettings:
    """What to make.

    Attributes:
        dataset: a key of `tools.data.convert.DATASETS` whose records hold paragraphs.
        inputs: files of records.
        out: the data folder; what an earlier command wrote there is replaced.
        documents: paragraphs per document, or None.
        tokens: the most tokens per document (with `tokenizer`), or None; one of the two is given.
        tokenizer: folder or name of a Hugging Face tokenizer.
        corpora: `{title, text}` lines with further distractors.
        known: samples.jsonl of evaluations without any document; questions answered rightly there are left out.
        train, validation: questions per split; validation comes first, and None takes the rest for training.
        seed: draws the splits, the distractors and the places.
        name: `data_source` of all rows. None: the data set's, and without questions to train on the evaluation's, size
            included: `ruler_hqa_50`, for other sets than HotpotQA `musique_50`, for a limit in tokens `ruler_hqa_2000_tokens`.
    """

    dataset: str
    inputs: list[Path]
    out: Path
    documents: int | None = None
    tokens: int | None = None
    tokenizer: str | None = None
    corpora: list[Path] = field(default_factory=list)
    known: list[Path] = field(default_factory=list)
    train: int | None = None
    validation: int = 100
    seed: int = 0
    name: str | None = None

    def __post_init__(self) -> None:
        if self.dataset not in DATASETS:
            raise DataError(f"data set {self.dataset!r} is unknown; known are {', '.join(DATASETS)}")
        if (self.documents is None) == (self.tokens is None):
            raise DataError("a document's length: give exactly one of --documents and --tokens")
        if self.tokens is not None and self.tokenizer is None:
            raise DataError("--tokens counts with a tokenizer: give --tokenizer")

    @property
    def evaluation_name(self) -> str:
        """Of an evaluation set, so that several sizes can be told apart in a report."""
        task = "ruler_hqa" if self.dataset == "hotpotqa" else self.dataset
        return f"{task}_{self.documents}" if self.documents else f"{task}_{self.tokens}_tokens"


def make_long_context(settings: LongContextSettings) -> dict[str, Any]:
    """Writes the splits (`task.document` holds the text), `places.jsonl`, an evaluation file and the manifest.

    `places.jsonl`: per question its id, split, number of paragraphs, places of the gold ones, and the document's SHA-256.
    `eval_N.jsonl`: the validation split in the layout of RULER-HQA (`tools.data.ruler_hqa`); N is the number of
    documents, or of tokens.

    Returns:
        the manifest.

    Raises:
        DataError: an input cannot be read, or there is not enough of something; says of what.
    """
    account, seen = Account(), dict[str, str]()
    questions = load_questions(settings.inputs, DATASETS[settings.dataset], account, seen)
    right = read_right(settings.known)
    known = [question for question in questions if question.id in right]
    count = token_counter(settings.tokenizer) if settings.tokenizer else len
    unknown = [question for question in questions if question.gold and question.id not in right]
    most = settings.tokens
    usable = [each for each in unknown if most is None or count(document_text(gold_of(each))) <= most]
    too_long = len(unknown) - len(usable)
    random.Random(f"{settings.seed} split").shuffle(usable)
    train = len(usable) - settings.validation if settings.train is None else settings.train
    if min(train, settings.validation) < 0 or settings.validation + train > len(usable):
        raise DataError(
            f"{len(usable)} usable questions ({len(known)} are answered without a document, {too_long} have gold paragraphs "
            f"over --tokens, {len(account.problems)} records malformed): {settings.validation} for validation and {train} for "
            "training cannot be taken; give more --input, or lower --validation or --train"
        )
    if not train and not settings.validation:
        raise DataError("nothing to write: --train and --validation are both 0")
    parts = {
        "validation": usable[: settings.validation],
        "train": usable[settings.validation : settings.validation + train],
    }
    distractors = Distractors(
        [*(page for q in questions for page in q.paragraphs), *_corpora(settings.corpora)]
    )
    source = settings.name or (settings.dataset if train else settings.evaluation_name)
    facts = {
        "dataset": settings.dataset,
        "seed": settings.seed,
        "settings": {
            "documents": settings.documents,
            "tokens": settings.tokens,
            "tokenizer": Path(settings.tokenizer).name if settings.tokenizer else None,
            "name": source,
        },
        "counts": {
            "records": account.records,
            "malformed": dict(sorted(account.malformed.items())),
            "without_gold": sum(not question.gold for question in questions),
            "known": len(known),
            "gold_too_long": too_long,
            "distractors": len(distractors),
            "rows": {split: len(part) for split, part in parts.items()},
        },
        "problems": account.problems[:100],
    }
    inputs = [*settings.inputs, *settings.corpora, *settings.known]
    with replaced(settings.out, inputs) as folder:
        written = {split: part for split, part in parts.items() if part}
        outputs = _write(settings, folder, source, written, distractors, count)
        return write_manifest(folder, inputs, outputs, facts)


def _write(
    settings: LongContextSettings,
    out: Path,
    source: str,
    parts: Mapping[str, Sequence[Question]],
    distractors: Distractors,
    count: CountTokens,
) -> list[Path]:
    outputs = [out / PLACES]
    with outputs[0].open("w", encoding="utf-8", newline="\n") as places:

        def made(split: str, index: int, question: Question) -> tuple[QuestionRow, LongDocument]:
            rng = random.Random(f"{settings.seed} {question.id}")
            document = hide(
                question,
                distractors,
                rng,
                documents=settings.documents,
                tokens=settings.tokens,
                count=count,
            )
            line = {
                "id": question.id,
                "split": split,
                "paragraphs": document.paragraphs,
                "gold": [page.title for page in question.gold],
                "places": document.places,
                "sha256": hashlib.sha256(document.text.encode()).hexdigest(),
            }
            places.write(json.dumps(line, ensure_ascii=False) + "\n")
            return _row(source, split, index, question, document), document

        for split, part in parts.items():
            outputs.append(out / f"{split}.parquet")
            if split != "validation":
                write_rows(outputs[-1], (made(split, i, q)[0] for i, q in enumerate(part)))
                continue
            evaluation = out / f"eval_{settings.documents or settings.tokens}.jsonl"
            outputs.append(evaluation)
            with evaluation.open("w", encoding="utf-8", newline="\n") as file:

                def rows(split: str = split, part: Sequence[Question] = part) -> Iterator[QuestionRow]:
                    for index, question in enumerate(part):
                        row, document = made(split, index, question)
                        record = ruler_hqa_record(row, document.paragraphs)
                        file.write(json.dumps(record, ensure_ascii=False) + "\n")
                        yield row

                write_rows(out / f"{split}.parquet", rows())
    return outputs


def _row(source: str, split: str, index: int, question: Question, document: LongDocument) -> QuestionRow:
    return QuestionRow(
        task=Task(question.id, question.question, document=document.text),
        reference=Reference([question.answers], list(dict.fromkeys(page.title for page in question.gold))),
        data_source=source,
        split=split,
        index=index,
        hops=question.hops,
        type=question.type,
    )


def _corpora(paths: Iterable[Path]) -> Iterator[Paragraph]:
    for path in paths:
        for place, record in read_records(path):
            if not isinstance(record, dict) or not all(
                isinstance(record.get(name), str) for name in ("title", "text")
            ):
                raise DataError(f"{path}: {place} is no passage with `title` and `text`")
            yield Paragraph(record["title"], record["text"])
