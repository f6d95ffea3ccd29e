"""`sft.parquet`: chat rows for verl's SFT trainer and for our own short loop.

Columns: id, messages (list of {role, content}), context (`history` or `window:k`: what the row shows of earlier turns),
train_last_only (True: only the last message is trained; False: every assistant message).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SEAL = b"mempo.sft.sha256"  # in the file's metadata: the hash of its rows, by which a file of ours is known

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("context", pa.string()),
        ("train_last_only", pa.bool_()),
    ]
)


def write_sft_rows(path: str | Path, rows: Iterable[dict[str, Any]]) -> int:
    """Writes rows, whole or not at all, and returns how many.

    Raises:
        ValueError: there are none, or the file is there and not as this function wrote it.
    """
    path = Path(path)
    if path.exists() and not is_own(path):
        raise ValueError(
            f"{path} is there already, and not as `mempo sft oracle` wrote it: give another --out, or move it away"
        )
    records = list(rows)
    if not records:
        raise ValueError(
            f"{path}: no demonstrations to write; the data need supporting facts for every question"
        )
    table = pa.Table.from_pylist(records, schema=COLUMNS)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    pq.write_table(table.replace_schema_metadata({SEAL: _hash(table)}), scratch, compression="zstd")
    scratch.replace(path)
    return len(records)


def is_own(path: Path) -> bool:
    """Whether a file is what `write_sft_rows` wrote, and nobody changed it."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return False
    return (table.schema.metadata or {}).get(SEAL) == _hash(table)


def _hash(table: pa.Table) -> bytes:
    return hashlib.sha256(json.dumps(table.to_pylist(), sort_keys=True).encode()).hexdigest().encode()


def read_sft_rows(path: str | Path) -> list[dict[str, Any]]:
    """Reads all rows. Raises ValueError naming the file and the missing columns."""
    table = pq.read_table(path)
    missing = [name for name in COLUMNS.names if name not in table.column_names]
    if missing:
        raise ValueError(
            f"{path}: column {', '.join(missing)} missing; write the file with `mempo sft oracle`"
        )
    return table.to_pylist()
