"""Batches into a folder of Parquet files.

A file has a name that ends with ``.parquet`` only when it is whole: a run that was interrupted
leaves whole files and one with another name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from contrailmq.errors import ConfigError

ROWS_PER_GROUP: Final = 128 * 1024
GROUP_SIZE: Final = 64 * 1024 * 1024


class Files(NamedTuple):
    """What was written."""

    rows: int
    files: int
    size: int


def write_files(
    read: Callable[[], Any],
    folder: str | Path,
    *,
    rows_per_file: int,
    compression: str | None = "zstd",
) -> Files:
    """Write the batches that ``read`` opens to an empty folder; no messages make one empty file."""
    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ConfigError(f"{place} is not an empty folder; name a new one")
    reader = read()
    place.mkdir(parents=True, exist_ok=True)
    rows = files = size = 0
    left = iter(_groups(reader, most=min(ROWS_PER_GROUP, rows_per_file)))
    table = next(left, reader.schema.empty_table())
    while table is not None:
        path = place / f"part-{files:05d}.parquet"
        partial = path.with_suffix(".partial")
        in_file = 0
        with pq.ParquetWriter(partial, reader.schema, compression=compression or "none") as writer:
            while table is not None and (not in_file or in_file + table.num_rows <= rows_per_file):
                writer.write_table(table)
                in_file += table.num_rows
                table = next(left, None)
        partial.rename(path)
        rows, files, size = rows + in_file, files + 1, size + path.stat().st_size
    return Files(rows, files, size)


def _groups(reader: Any, *, most: int) -> Iterator[Any]:
    """Batches joined to row groups of about ``most`` rows, or of ``GROUP_SIZE`` bytes."""
    held: list[Any] = []
    rows = size = 0
    for batch in reader:
        for start in range(0, batch.num_rows, most):
            part = batch.slice(start, most)
            if held and (rows + part.num_rows > most or size >= GROUP_SIZE):
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
            held.append(part)
            rows += part.num_rows
            size += part.nbytes
    if held:
        yield pa.Table.from_batches(held)
