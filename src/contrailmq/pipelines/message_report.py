"""Report rows, one a message, as a file: CSV, JSON lines or Parquet by the file's name."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from contrailmq.admin.output import json_line
from contrailmq.errors import ConfigError

SUFFIXES: Final = (".csv", ".json", ".jsonl", ".parquet")


def write(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows that have the same names."""
    names = list(rows[0]) if rows else []
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix in (".json", ".jsonl"):
        path.write_text("".join(map(json_line, rows)), encoding="utf-8")
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
    else:
        raise ConfigError(f"{path}: a report is .csv, .json or .parquet")
