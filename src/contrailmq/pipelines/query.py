"""``sql``: Spark SQL in which a table is a topic, of a cluster, of store directories or an archive.

A name in a query becomes a view when Spark says that it does not know it, so nothing is looked up
that the query does not use.  The views have only the columns whose names occur in the query, and
push its conditions down to the source where the table occurs once (``spark.filters`` says why).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final, TextIO

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from contrailmq.admin.output import json_line, write_table
from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.options import source_options
from contrailmq.errors import ConfigError
from contrailmq.pipelines.places import Archive, Cluster, Place, Stores, read_messages
from contrailmq.spark.columns import COLUMN_NAMES
from contrailmq.store.offline.reader import StoreReader

TABLES_MAX: Final = 50
_UNKNOWN: Final = "TABLE_OR_VIEW_NOT_FOUND"
_COUNT_ALL: Final = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)
_GUESS: Final = re.compile(r" Did you mean one of the following\? \[.*?\]\.")
FORMATS: Final = ("table", "csv", "json")


def run(spark: SparkSession, query: str, *, places: Sequence[Place]) -> DataFrame:
    """The rows of a query. A topic is taken from the first of ``places`` that has it."""
    defined: set[str] = set()
    while True:
        try:
            frame = spark.sql(query)
            _ = frame.schema  # a remote session looks at the query only now
            return frame
        except AnalysisException as error:
            name = _unknown_table(error)
            if name is None or name in defined:
                raise ConfigError(_explained(error)) from None
        if len(defined) == TABLES_MAX:
            raise ConfigError(f"the query has more than {TABLES_MAX} tables")
        table = _table(spark, name, query, places)
        table.createOrReplaceTempView(f"`{name}`")
        defined.add(name)


def columns_of(query: str) -> list[str]:
    """The columns a query can mean: all when it has a star, else those it names."""
    text = _COUNT_ALL.sub("count(1)", query).lower()
    if "*" in text:
        return list(COLUMN_NAMES)
    words = set(re.findall(r"\w+", text))
    return [name for name in COLUMN_NAMES if name in words] or ["queue_id"]


def write_rows(frame: DataFrame, out: TextIO, *, style: str, rows_max: int | None = None) -> int:
    """Print a result as a table, as CSV or as JSON lines; how many rows there were."""
    names = list(frame.columns)
    limited = _with_times_as_text(frame if rows_max is None else frame.limit(rows_max))
    count = 0
    if style == "table":
        rows = [[_shown(row[i]) for i in range(len(names))] for row in limited.collect()]
        write_table(out, names, rows)
        return len(rows)
    writer = csv.writer(out, lineterminator="\n")
    if style == "csv":
        writer.writerow(names)
    for values in _values(limited):
        if style == "csv":
            writer.writerow([_csv_cell(value) for value in values])
        else:
            out.write(json_line(dict(zip(names, map(_json_value, values), strict=True))))
        count += 1
    return count


def _with_times_as_text(frame: DataFrame) -> DataFrame:
    """Times as a query writes them, in the session's time zone; Python would show local ones."""
    fields = frame.schema.fields
    if not any(isinstance(field.dataType, TimestampType) for field in fields):
        return frame
    names = [f"column_{number}" for number in range(len(fields))]  # a query may name two alike
    return frame.toDF(*names).select(
        *(
            F.col(name).cast("string") if isinstance(field.dataType, TimestampType) else name
            for name, field in zip(names, fields, strict=True)
        )
    )


def _values(frame: DataFrame) -> Iterator[list[Any]]:
    for row in frame.toLocalIterator():
        yield [row[i] for i in range(len(row))]


def _table(spark: SparkSession, name: str, query: str, places: Sequence[Place]) -> DataFrame:
    uses = len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", query, re.IGNORECASE))
    reasons = []
    for place in places:
        options: dict[str, Any] = {}
        if not isinstance(place, Archive):
            options["pushDown"] = "true" if uses == 1 else "false"
        topic = find_topic(spark, place, name)
        if topic is None:
            reasons.append(f"not in {place}")
            continue
        return read_messages(spark, place, topics=[topic], columns=columns_of(query), **options)
    raise ConfigError(f"there is no topic {name!r}: {'; '.join(reasons) or 'no place to look in'}")


def find_topic(spark: SparkSession, place: Place, name: str) -> str | None:
    """The topic a table name means; a directory or archive can say that it has none."""
    if isinstance(place, Cluster):
        access = source_options({**place.options(), "topics": name}).access
        with closing(Brokers(access)) as brokers:
            return None if brokers.find_route(name) is None else name
    if isinstance(place, Stores):
        topics: set[str] = set()
        for path in place.paths:
            with StoreReader(path) as reader:
                topics.update(reader.topics())
    else:
        frame = read_messages(spark, place, topics=[], columns=["topic"])
        topics = {row.topic for row in frame.distinct().collect()}
    return name if name in topics else None


def _unknown_table(error: AnalysisException) -> str | None:
    if error.getCondition() != _UNKNOWN:
        return None
    parameters = error.getMessageParameters() or {}
    name = parameters.get("relationName", "")
    parts = re.findall(r"`((?:[^`]|``)*)`", name)
    return parts[0].replace("``", "`") if len(parts) == 1 else None


def _plain(error: AnalysisException) -> str:
    """What is wrong with a query, without the plan Spark prints after it."""
    return str(error).split("\n\nJVM stacktrace", 1)[0].split(";\n'", 1)[0].strip()


def _explained(error: AnalysisException) -> str:
    """A name that is no column: a view has only those that the query has, so Spark guesses ill."""
    text = _plain(error)
    if not str(error.getCondition()).startswith("UNRESOLVED_COLUMN"):
        return text
    return f"{_GUESS.sub('', text)}; a message has {', '.join(COLUMN_NAMES)}"


def _shown(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value


def _csv_cell(value: Any) -> Any:
    return "" if value is None else _shown(value)


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value
