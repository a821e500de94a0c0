"""SQL over topics by DuckDB, in this process: a table of a query is a topic.

A name in a query becomes a table when DuckDB says that it does not know it, with the columns whose
names occur in the query.
A table that occurs once is streamed; one that occurs more often is held in memory.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TextIO, TypeAlias

from contrailmq.admin.output import json_line, write_table
from contrailmq.arrow.given import need_pyarrow
from contrailmq.errors import ClientError, ConfigError, NoRoute

TABLES_MAX: Final = 50
_UNKNOWN: Final = re.compile(r"Table with name (.+?) does not exist!", re.DOTALL)
_COUNT_ALL: Final = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)

Open: TypeAlias = Callable[[str, Sequence[str]], Any]


def run(
    query: str, out: TextIO, *, places: Sequence[Open], style: str, rows_max: int | None
) -> int:
    """Print the rows of a query as a table, as CSV or as JSON lines. Returns how many they were.

    A topic is taken from the first of ``places`` that has it.
    """
    need_duckdb()
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("set python_enable_replacements = false")
        connection.execute("set TimeZone = 'UTC'")
        try:
            found = _relation(connection, query, places)
            if found is None:
                raise ConfigError("the query has no rows to print; give one SELECT")
            return _print(found.columns, _rows(found, rows_max), out, style=style)
        except duckdb.Error as error:
            raise ClientError(" ".join(str(error).split())) from None


def need_duckdb() -> None:
    """Raise unless DuckDB and pyarrow are installed."""
    if importlib.util.find_spec("duckdb") is None:
        raise ConfigError(
            "--engine duckdb needs DuckDB, which is not installed; pip install duckdb"
        )
    need_pyarrow()


def columns_of(query: str) -> list[str]:
    """The columns a query can mean: all when it has a star or no SELECT, else those it names."""
    from contrailmq.arrow.schema import message_schema

    text = _COUNT_ALL.sub("count()", query).lower()
    words = set(re.findall(r"\w+", text))
    every = list(message_schema().names)
    if "*" in text or "select" not in words or "columns" in words:
        return every
    return [name for name in every if name in words] or ["queue_id"]


def _relation(connection: Any, query: str, places: Sequence[Open]) -> Any:
    """The query, with a table for each name that DuckDB says it does not know."""
    import duckdb

    opened: set[str] = set()
    while True:
        try:
            return connection.sql(query)
        except duckdb.CatalogException as error:
            found = _UNKNOWN.search(str(error))
            if found is None or found[1] in opened:
                raise
        if len(opened) == TABLES_MAX:
            raise ConfigError(f"the query has more than {TABLES_MAX} tables")
        name = found[1]
        reader = _table(name, places, columns_of(query))
        uses = len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", query, re.IGNORECASE))
        connection.register(name, reader if uses == 1 else reader.read_all())
        opened.add(name)


def _table(name: str, places: Sequence[Open], columns: Sequence[str]) -> Any:
    reasons = []
    for place in places:
        try:
            return place(name, columns)
        except (ConfigError, NoRoute) as error:
            reasons.append(str(error))
    raise ConfigError(f"there is no table {name!r}: {'; '.join(reasons)}")


def _rows(found: Any, rows_max: int | None) -> Iterator[list[Any]]:
    import pyarrow as pa

    left = rows_max
    limited = found if left is None else found.limit(left)
    for batch in limited.to_arrow_reader(10_000):
        columns = [
            [None if value is None else dict(value) for value in column.to_pylist()]
            if pa.types.is_map(column.type)
            else column.to_pylist()
            for column in batch.columns
        ]
        yield from map(list, zip(*columns, strict=True))


def _print(names: Sequence[str], rows: Iterator[list[Any]], out: TextIO, *, style: str) -> int:
    if style == "table":
        shown = [[_shown(value) for value in row] for row in rows]
        write_table(out, names, shown)
        return len(shown)
    writer = csv.writer(out, lineterminator="\n")
    if style == "csv":
        writer.writerow(names)
    count = 0
    for row in rows:
        if style == "csv":
            writer.writerow(["" if value is None else _shown(value) for value in row])
        else:
            out.write(json_line(dict(zip(names, map(_plain, row), strict=True))))
        count += 1
    return count


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes as text, times as DuckDB and Spark write them."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return str(value)


def _shown(value: Any) -> Any:
    found = _plain(value)
    return json.dumps(found, ensure_ascii=False) if isinstance(found, dict | list) else found
