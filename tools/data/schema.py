"""The parquet rows that training, evaluation and the generators of questions share.

One row is one question, in verl's schema. Columns:

    data_source   str                                     name of the data set
    agent_name    "mempo"                                 the agent loop that verl starts for the row
    prompt        list of {role, content}                 the bare question; the agent builds its own first prompt
    task          {id, question, objectives: int}         all that an agent may see; with `document` in files of long texts
    reference     {answers: list of lists, supporting}    gold; goes to reward, probe and metrics only
    reward_model  {style: "rule", ground_truth: str}      the answers as JSON, for verl's own tools
    extra_info    {index: int, split, hops: int, type}    position in the file and kind of question
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mempo.cells import record, text, whole_number
from mempo.question_rows import RowFaults
from mempo.task import Reference, Task

AGENT_NAME = "mempo"

COLUMNS = pa.schema(
    [
        ("data_source", pa.string()),
        ("agent_name", pa.string()),
        ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("task", pa.struct([("id", pa.string()), ("question", pa.string()), ("objectives", pa.int64())])),
        (
            "reference",
            pa.struct([("answers", pa.list_(pa.list_(pa.string()))), ("supporting", pa.list_(pa.string()))]),
        ),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        (
            "extra_info",
            pa.struct(
                [("index", pa.int64()), ("split", pa.string()), ("hops", pa.int64()), ("type", pa.string())]
            ),
        ),
    ]
)


GROUP_CHARACTERS = 1 << 28  # documents of one row group: pyarrow counts the bytes of a text column in 31 bits


class SchemaError(ValueError):
    """A parquet file or one of its rows does not follow the schema; the message names file, row and field."""


@dataclass(frozen=True)
class QuestionRow:
    """One question with its gold.

    Attributes:
        task: what an agent is asked.
        reference: gold answers (one alias list per objective) and titles of the gold paragraphs.
        data_source: name of the data set, e.g. `hotpotqa`.
        split: `train` or `validation`.
        index: position in its file, from 0.
        hops: number of gold paragraphs that the answer needs, summed over objectives; 0 if unknown.
        type: the data set's own kind of question, e.g. `bridge`; "" if it has none.
    """

    task: Task
    reference: Reference
    data_source: str
    split: str
    index: int
    hops: int = 0
    type: str = ""

    def __post_init__(self) -> None:
        if len(self.reference.answers) != self.task.objectives:
            raise ValueError(
                f"question {self.task.id!r}: {self.task.objectives} objectives but "
                f"{len(self.reference.answers)} lists of answers"
            )

    def to_columns(self) -> dict[str, Any]:
        """The row as plain Python values, one key per column."""
        answers = [list(aliases) for aliases in self.reference.answers]
        document = {"document": self.task.document} if self.task.document else {}
        return {
            "data_source": self.data_source,
            "agent_name": AGENT_NAME,
            "prompt": [{"role": "user", "content": self.task.question}],
            "task": {
                "id": self.task.id,
                "question": self.task.question,
                "objectives": self.task.objectives,
                **document,
            },
            "reference": {"answers": answers, "supporting": list(self.reference.supporting)},
            "reward_model": {"style": "rule", "ground_truth": json.dumps(answers, ensure_ascii=False)},
            "extra_info": {"index": self.index, "split": self.split, "hops": self.hops, "type": self.type},
        }

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> QuestionRow:
        """Builds a row from one row's columns, as pyarrow, pandas or a data loader give them.

        List columns may be lists, tuples or numpy arrays, and integers numpy integers.

        Raises:
            SchemaError: a column or field is missing or has the wrong type.
        """
        try:
            info = record(columns["extra_info"], "extra_info")
            return cls(
                task=Task.from_columns(record(columns["task"], "task")),
                reference=Reference.from_columns(record(columns["reference"], "reference")),
                data_source=text(columns["data_source"], "data_source"),
                split=text(info["split"], "extra_info.split"),
                index=whole_number(info["index"], "extra_info.index"),
                hops=whole_number(info["hops"], "extra_info.hops"),
                type=text(info["type"], "extra_info.type", blank=True),
            )
        except KeyError as error:
            raise SchemaError(f"field {error.args[0]!r} is missing") from error
        except ValueError as error:
            raise SchemaError(str(error)) from error


def write_rows(path: str | Path, rows: Iterable[QuestionRow]) -> int:
    """Writes rows as one parquet file and returns how many; the same rows give the same bytes.

    The first row says whether `task` has a document. Rows are taken one group at a time, so that long documents need not
    be in memory together.

    Raises:
        SchemaError: no rows, two rows with one task id, or rows with a document and rows without.
    """
    waiting = iter(rows)
    first = next(waiting, None)
    if first is None:
        raise SchemaError(f"{path}: no rows to write; a split needs at least one question")
    documents = bool(first.task.document)
    schema = with_documents(COLUMNS) if documents else COLUMNS
    seen: set[str] = set()
    group: list[dict[str, Any]] = []
    size = 0
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema) as writer:
        for row in chain([first], waiting):
            if row.task.id in seen:
                raise SchemaError(
                    f"{path}: two rows have the task id {row.task.id!r}; ids must be unique in a file"
                )
            if bool(row.task.document) != documents:
                raise SchemaError(
                    f"{path}: row {len(seen)}: rows with a document and rows without do not mix in a file"
                )
            seen.add(row.task.id)
            group.append(row.to_columns())
            size += len(row.task.document)
            if size >= GROUP_CHARACTERS:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                group, size = [], 0
        if group:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
    return len(seen)


def with_documents(schema: pa.Schema) -> pa.Schema:
    """The schema with `task.document`."""
    place = schema.get_field_index("task")
    return schema.set(
        place, pa.field("task", pa.struct([*schema.field(place).type, ("document", pa.string())]))
    )


def read_rows(path: str | Path) -> list[QuestionRow]:
    """Reads a parquet file of this schema.

    Raises:
        SchemaError: a column is missing, or rows do not follow the schema; names the file, and the row and field of the
            first faults.
    """
    table = pq.read_table(path)
    missing = [name for name in COLUMNS.names if name not in table.column_names]
    if missing:
        raise SchemaError(
            f"{path}: column {', '.join(missing)} missing; write the file with `mempo data` or `mempo world`"
        )
    faults, rows = RowFaults(path), []
    for number, columns in enumerate(table.to_pylist()):
        checked = faults.check(number, columns)
        if checked is not None:
            try:
                rows.append(QuestionRow.from_columns(columns))
            except SchemaError as error:
                faults.add(number, checked[0].id, str(error))
    if faults:
        raise SchemaError("\n".join(faults.lines))
    return rows
