"""What Spark 4.0 to 4.3 have under different names, or not at all, in one form.

=====================  ======================================================================
since 4.1              filters for a reader (``pushDown``), Arrow batches for a stream's sink,
                       ``pyspark.pipelines``
since 4.2              limits of a micro-batch and ``SupportsTriggerAvailableNow``: before, a reader
                       is not told where the stream is nor which trigger it has
=====================  ======================================================================

The names of 4.2 are used everywhere; where Spark is older they are stand-ins from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from contrailmq.errors import ConfigError

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    from contrailmq.spark.older import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

__all__ = [
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "StreamArrowWriter",
    "SupportsTriggerAvailableNow",
]

ROWS_PER_BATCH: Final = 10_000


def version() -> tuple[int, int]:
    """Major and minor version of the PySpark that is installed."""
    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


HAS_FILTERS: Final = hasattr(datasource, "Filter")  # 4.1
HAS_ARROW_STREAM_WRITER: Final = hasattr(datasource, "DataSourceStreamArrowWriter")  # 4.1
HAS_LIMITS: Final = version() >= (4, 2)

StreamArrowWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)


def need(since: tuple[int, int], what: str) -> None:
    """Raise unless the PySpark that is installed has what came with a version."""
    if version() < since:
        least = ".".join(map(str, since))
        raise ConfigError(
            f"{what} needs PySpark {least} or later, this is {pyspark.__version__}; install a newer"
            f" one: pip install 'pyspark>={least}'"
        )


def arrow_schema(schema: StructType) -> Any:
    """The Arrow schema that Spark expects batches of a Python source to have."""
    if HAS_LIMITS:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def arrow_batches(rows: Iterator[Any], schema: StructType) -> Iterator[Any]:
    """What a stream's sink is given, as Arrow batches: before 4.1 it is given rows."""
    if HAS_ARROW_STREAM_WRITER:
        yield from rows
        return
    wanted = arrow_schema(schema)
    names = schema.fieldNames()
    while chosen := list(islice(rows, ROWS_PER_BATCH)):
        columns = zip(*chosen, strict=True)
        arrays = [
            pa.array(_plain(column), wanted.field(name).type)
            for name, column in zip(names, columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _plain(column: tuple[Any, ...]) -> list[Any]:
    """Values as Arrow takes them: maps as pairs."""
    return [list(value.items()) if isinstance(value, dict) else value for value in column]
