"""`sft.parquet`: chat rows for verl's SFT trainer and for our own short loop.

Columns: id, messages (list of {role, content}), context (`history` or `window:k`: what the row shows of earlier turns),
train_last_only (True: only the last message is trained; False: every assistant message).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("context", pa.string()),
        ("train_last_only", pa.bool_()),
    ]
)


def write_sft_rows(path: str | Path, rows: Iterable[dict[str, Any]]) -> int:
    """Writes rows and returns how many. Raises ValueError if there are none."""
    records = list(rows)
    if not records:
        raise ValueError(
            f"{path}: no demonstrations to write; the data need supporting facts for every question"
        )
    pq.write_table(pa.Table.from_pylist(records, schema=COLUMNS), path, compression="zstd")
    return len(records)


def read_sft_rows(path: str | Path) -> list[dict[str, Any]]:
    """Reads all rows. Raises ValueError naming the file and the missing columns."""
    table = pq.read_table(path)
    missing = [name for name in COLUMNS.names if name not in table.column_names]
    if missing:
        raise ValueError(
            f"{path}: column {', '.join(missing)} missing; write the file with `mempo sft oracle`"
        )
    return table.to_pylist()
