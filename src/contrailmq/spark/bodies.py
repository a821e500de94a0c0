"""Bodies with structure: JSON text as columns, by a given schema or one found in a sample."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

SAMPLE_ROWS: Final = 1000


def json_body(
    df: DataFrame,
    schema: StructType | str | None = None,
    *,
    sample: DataFrame | str | None = None,
    column: str = "json",
    body: str = "body",
) -> DataFrame:
    """``df`` with the JSON of its bodies as a struct column; null where a body is no such JSON.

    Give a schema (DDL text or StructType), or a sample to find one in: a JSON text, or a DataFrame
    of messages such as a batch read of the same topic. Without either a batch ``df`` is its own
    sample; a stream needs one of them, for its rows cannot be looked at beforehand.
    """
    if schema is None:
        if sample is None and df.isStreaming:
            raise ValueError("a stream needs a schema or a sample, for example a batch read")
        schema = json_schema(df, df if sample is None else sample, body=body)
    return df.withColumn(column, F.from_json(text_of(body), schema))


def json_schema(
    df: DataFrame, sample: DataFrame | str, *, body: str = "body", rows: int = SAMPLE_ROWS
) -> StructType:
    """The schema of a JSON text, or of the bodies of the first ``rows`` rows of a DataFrame.

    Spark's own inference decides: fields of all texts together, the widest type of each.
    """
    if isinstance(sample, DataFrame):
        chosen = sample.select(text_of(body).alias("text")).where("text is not null").limit(rows)
        texts = [row["text"] for row in chosen.collect()]
    else:
        texts = [sample]
    texts = list(_objects(texts))
    if not texts:
        raise ValueError("no JSON object in the sample")
    spark = df.sparkSession
    together = spark.createDataFrame([("[" + ",".join(texts) + "]",)], "text string")
    found = together.select(F.schema_of_json(F.lit("[" + ",".join(texts) + "]")).alias("ddl"))
    row = found.first()
    assert row is not None
    parsed = together.select(F.from_json("text", row["ddl"]).alias("rows")).schema["rows"].dataType
    return parsed.elementType


def text_of(body: str = "body") -> Column:
    """The body as text."""
    return F.col(body).cast("string")


def _objects(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        try:
            if isinstance(json.loads(text), dict):
                yield text
        except ValueError:
            continue
