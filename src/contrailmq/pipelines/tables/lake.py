"""One lakehouse table: made, widened, appended to, merged into, kept in order.

Exactly once.  Spark may run a micro-batch again that was written already, if the driver died before
the checkpoint had it.  Every append therefore carries name and number of its batch into the very
commit that adds the rows: as Delta's ``txnAppId`` and ``txnVersion``, with which Delta itself skips
what it has; as properties of an Iceberg snapshot, which are looked for before an append.  A merge
needs no such mark: the newest row per key is the same however often it is merged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from contrailmq.errors import ConfigError
from contrailmq.pipelines.tables.jars import CATALOG, DELTA, ICEBERG

_NAME: Final = "contrail.name"
_BATCH: Final = "contrail.batch"
_DAY_MS: Final = 86_400_000
_MISSING: Final = ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")


def is_path(text: str) -> bool:
    """Whether a table is given by its folder, not by its name in a catalog."""
    return "/" in text


def plain_name(topic: str) -> str:
    """A topic as a part of a table's name."""
    return re.sub(r"\W", "_", topic)


class Table:
    """A table of one format, by folder or by name."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind = kind
        self.place = place.rstrip("/")
        if not is_path(place):
            self.name = ".".join(f"`{part}`" for part in place.split("."))
        elif kind == DELTA:
            self.name = f"delta.`{self.place}`"
        else:
            self.name = f"{CATALOG}.`{self.place.rsplit('/', 1)[1]}`"

    def beside(self, suffix: str) -> Table:
        """Another table next to this one."""
        return Table(self.kind, self.place + suffix)

    def find_schema(self, spark: SparkSession) -> StructType | None:
        """The columns, or None if there is no such table."""
        from pyspark.errors import AnalysisException

        try:
            return spark.table(self.name).schema
        except AnalysisException as error:
            if _is_missing(error):
                return None
            raise

    def ensure(
        self, spark: SparkSession, wanted: StructType, partition: Sequence[str]
    ) -> StructType:
        """Make the table, or add the columns that it does not have. Returns its columns then."""
        there = self.find_schema(spark)
        if there is None:
            columns = ", ".join(f"`{f.name}` {_ddl(f.dataType)}" for f in wanted.fields)
            divided = f" PARTITIONED BY ({', '.join(partition)})" if partition else ""
            spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING {self.kind}{divided}"
            )
            return spark.table(self.name).schema
        new = list(_missing(there, wanted))
        if not new:
            return there
        columns = ", ".join(f"{path} {_ddl(kind)}" for path, kind in new)
        spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({columns})")
        if self.kind == ICEBERG:
            spark.sql(f"REFRESH TABLE {self.name}")
        return spark.table(self.name).schema

    def append(self, frame: DataFrame, *, name: str, batch: int) -> bool:
        """Add rows, unless this batch has been added. Returns whether they were."""
        spark = frame.sparkSession
        if self.kind == DELTA:
            writer = frame.write.format("delta").mode("append")
            writer = writer.option("txnAppId", name).option("txnVersion", batch)
            if is_path(self.place):
                writer.save(self.place)
            else:
                writer.saveAsTable(self.place)
            return True
        if self._has_batch(spark, name, batch):
            return False
        writer2 = frame.writeTo(self.name).option("fanout-enabled", "true")
        writer2 = writer2.option(f"snapshot-property.{_NAME}", name)
        writer2.option(f"snapshot-property.{_BATCH}", str(batch)).append()
        return True

    def merge(self, frame: DataFrame, *, keys: Sequence[str], order: Sequence[str]) -> None:
        """Keep the newest row per key; a row whose ``_deleted`` is true removes its key."""
        view = "contrail_batch"
        position = F.struct(*(F.col(f"`{name}`") for name in order))
        newest = frame.groupBy(
            *(F.col(f"`{key}`").alias(f"_key_{n}") for n, key in enumerate(keys))
        )
        rows = newest.agg(F.max_by(F.struct("*"), position).alias("_row")).select("_row.*")
        rows.createOrReplaceTempView(view)
        same = " AND ".join(f"t.`{key}` <=> s.`{key}`" for key in keys)
        newer = _not_older(order)
        columns = [name for name in frame.columns if name != "_deleted"]
        sets = ", ".join(f"t.`{name}` = s.`{name}`" for name in columns)
        names = ", ".join(f"`{name}`" for name in columns)
        values = ", ".join(f"s.`{name}`" for name in columns)
        spark = frame.sparkSession
        try:
            spark.sql(
                f"MERGE INTO {self.name} t USING {view} s ON {same}"
                f" WHEN MATCHED AND s._deleted AND {newer} THEN DELETE"
                f" WHEN MATCHED AND NOT s._deleted AND {newer} THEN UPDATE SET {sets}"
                f" WHEN NOT MATCHED AND NOT s._deleted THEN INSERT ({names}) VALUES ({values})"
            )
        finally:
            spark.catalog.dropTempView(view)

    def count(self, spark: SparkSession) -> int:
        """How many rows it has now."""
        if self.kind == ICEBERG:
            spark.sql(f"REFRESH TABLE {self.name}")
        return int(spark.table(self.name).count())

    def maintain(self, spark: SparkSession, *, keep_days: int, now_ms: int) -> dict[str, int]:
        """Merge small files; forget versions older than ``keep_days``. Returns what was done."""
        if self.kind == DELTA:
            row = spark.sql(f"OPTIMIZE {self.name}").select("metrics.*").first()
            spark.sql(f"VACUUM {self.name} RETAIN {24 * keep_days} HOURS")
            assert row is not None
            return {"merged": int(row["numFilesRemoved"]), "into": int(row["numFilesAdded"])}
        catalog, _, rest = self.name.replace("`", "").partition(".")
        done = spark.sql(
            f"CALL {catalog}.system.rewrite_data_files(table => '{rest}',"
            " options => map('min-input-files', '2'))"
        ).first()
        before = f"timestamp_millis({now_ms - keep_days * _DAY_MS})"
        spark.sql(
            f"CALL {catalog}.system.expire_snapshots(table => '{rest}',"
            f" older_than => {before}, retain_last => 10)"
        )
        assert done is not None
        return {
            "merged": int(done["rewritten_data_files_count"]),
            "into": int(done["added_data_files_count"]),
        }

    def _has_batch(self, spark: SparkSession, name: str, batch: int) -> bool:
        marks = spark.sql(
            f"SELECT 1 FROM {self.name}.snapshots"
            f" WHERE summary['{_NAME}'] = '{name}' AND summary['{_BATCH}'] = '{batch}'"
        )
        return bool(marks.take(1))


def check_keep_days(kind: str, days: int) -> None:
    """Raise where so short a memory would take files from readers."""
    if kind == DELTA and days < 7:
        raise ConfigError(
            f"--keep-days {days}: Delta keeps removed files for at least 7 days, since readers and"
            " writers may still use them; to go lower set"
            " spark.databricks.delta.retentionDurationCheck.enabled=false and run VACUUM yourself"
        )


def _not_older(order: Sequence[str]) -> str:
    """``s`` is not older than ``t`` by these columns, in SQL."""
    parts: list[str] = []
    for number, name in enumerate(order):
        mark = ">=" if number == len(order) - 1 else ">"
        same = [f"s.`{before}` = t.`{before}`" for before in order[:number]]
        parts.append(" AND ".join([*same, f"s.`{name}` {mark} t.`{name}`"]))
    return "(" + " OR ".join(f"({part})" for part in parts) + ")"


def _missing(
    there: StructType, wanted: StructType, path: str = ""
) -> Iterator[tuple[str, DataType]]:
    """Columns and fields that a table has not, as paths, with their types."""
    known = {field.name.lower(): field for field in there.fields}
    for field in wanted.fields:
        mine = known.get(field.name.lower())
        if mine is None:
            yield f"{path}`{field.name}`", field.dataType
        else:
            yield from _inside(mine, field, f"{path}`{mine.name}`")


def _inside(mine: StructField, wanted: StructField, path: str) -> Iterator[tuple[str, DataType]]:
    left, right = mine.dataType, wanted.dataType
    while isinstance(left, ArrayType) and isinstance(right, ArrayType):
        left, right, path = left.elementType, right.elementType, f"{path}.element"
    if isinstance(left, StructType) and isinstance(right, StructType):
        yield from _missing(left, right, f"{path}.")


def _ddl(kind: DataType) -> str:
    """A type as SQL, with every name quoted."""
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'`{f.name}`: {_ddl(f.dataType)}' for f in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_ddl(kind.keyType)}, {_ddl(kind.valueType)}>"
    return str(kind.simpleString())


def _is_missing(error: Exception) -> bool:
    return any(mark in str(error) for mark in _MISSING)
