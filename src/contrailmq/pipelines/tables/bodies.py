"""Bodies of messages as columns of a table; what does not decode, with the reason.

A decoded row has the fields of its body by their names, and what belongs to the message with an
underscore before its name (``_topic``, ``_store_time`` …).  A field whose name a table cannot have
gets underscores for what is wrong with it.

JSON.  The columns that the table has keep their types; fields that come new in a batch are added,
with the type that Spark finds in all rows of the batch.  A row that is no JSON object, or has a
value that does not fit its column, is bad.

Avro.  The writer's schema is in a file, or in a registry: then every body begins with a zero byte
and the number of its schema (Confluent's form), and each number of a batch is asked for once.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from contrailmq.errors import ConfigError

META: Final = (
    "topic", "broker", "queue_id", "queue_offset", "keys", "tags", "born_time", "store_time",
    "unique_key", "properties",
)  # fmt: skip
REASON: Final = "reason"
REGISTRY_S: Final = 10.0
_CORRUPT: Final = "__corrupt"
_HEADER_SIZE: Final = 5  # of Confluent's form: a zero byte and the number of the schema
_PERMISSIVE: Final = {"mode": "PERMISSIVE"}


class Decoded(NamedTuple):
    """Rows for the table, and messages for the quarantine."""

    good: DataFrame
    bad: DataFrame | None


class RawBodies:
    """Messages as they are."""

    def decode(self, frame: DataFrame, known: StructType | None) -> Decoded:
        """All rows are good."""
        return Decoded(frame, None)


class JsonBodies:
    """JSON objects as columns, with a given schema or the one that is found."""

    def __init__(self, schema: StructType | None, *, keep_body: bool) -> None:
        self._schema = schema
        self._keep_body = keep_body

    def decode(self, frame: DataFrame, known: StructType | None) -> Decoded:
        """Parse the bodies of a batch; ``known``: the columns of the table."""
        text = F.col("body").cast("string")
        found = self._schema if self._schema is not None else _inferred(frame, text)
        wanted = _joined(_fields_of(known), found)
        parse = StructType([*wanted.fields, StructField(_CORRUPT, StringType())])
        options = {**_PERMISSIVE, "columnNameOfCorruptRecord": _CORRUPT}
        parsed = frame.withColumn("__value", F.from_json(text, parse, options))
        is_object = F.from_json(text, "map<string,string>").isNotNull()
        fault = F.when(~is_object, F.lit("the body is no JSON object")).when(
            F.col("__value").isNull() | F.col(f"__value.{_CORRUPT}").isNotNull(),
            F.lit("a value does not fit the type of its column"),
        )
        return _divided(parsed, fault, wanted, keep_body=self._keep_body)


class AvroBodies:
    """Avro records as columns, through Spark's ``from_avro``."""

    def __init__(
        self, schema: str | None, *, registry: Callable[[int], str] | None, keep_body: bool
    ) -> None:
        self._schema = schema
        self._registry = registry
        self._keep_body = keep_body

    def decode(self, frame: DataFrame, known: StructType | None) -> Decoded:
        """Decode the bodies of a batch."""
        if self._registry is None:
            assert self._schema is not None
            return self._with(frame, F.col("body"), self._schema)
        is_ours = (F.octet_length("body") >= _HEADER_SIZE) & (
            F.hex(F.substring("body", 1, 1)) == "00"
        )
        number = F.conv(F.hex(F.substring("body", 2, 4)), 16, 10).cast("int")
        marked = frame.withColumn("__id", F.when(is_ours, number))
        ids = sorted(
            row[0] for row in marked.select("__id").distinct().collect() if row[0] is not None
        )
        rest = marked.where("__id is null").drop("__id")
        bad = rest.withColumn(REASON, F.lit("the body does not begin with the number of a schema"))
        good: DataFrame | None = None
        for one in ids:
            part = marked.where(F.col("__id") == one).drop("__id")
            data = F.expr(f"substring(body, {_HEADER_SIZE + 1})")
            decoded = self._with(part, data, self._registry(one))
            good = decoded.good if good is None else _united(good, decoded.good)
            assert decoded.bad is not None
            bad = bad.unionByName(decoded.bad)
        if good is None:
            good = frame.where("false").select(*_meta(keep_body=self._keep_body))
        return Decoded(good, bad)

    def _with(self, frame: DataFrame, data: Column, schema: str) -> Decoded:
        from pyspark.sql.avro.functions import from_avro

        parsed = frame.withColumn("__value", from_avro(data, schema, _PERMISSIVE))
        kind = parsed.schema["__value"].dataType
        if not isinstance(kind, StructType):
            raise ConfigError(f"the Avro schema is {kind.simpleString()}, expected a record")
        # A record that cannot be read has null for all its fields, or is null itself.
        nulls = [F.col(f"__value.`{name}`").isNull() for name in kind.fieldNames()]
        is_null = F.col("__value").isNull()
        if nulls:
            every = nulls[0]
            for one in nulls[1:]:
                every = every & one
            is_null = is_null | every
        fault = F.when(is_null, F.lit("the body is no record of its Avro schema"))
        return _divided(parsed, fault, kind, keep_body=self._keep_body)


def registry(url: str) -> Callable[[int], str]:
    """Schemas of a Confluent-compatible registry by their number, each asked for once."""
    known: dict[int, str] = {}

    def find(number: int) -> str:
        if number not in known:
            place = f"{url.rstrip('/')}/schemas/ids/{number}"
            try:
                with urllib.request.urlopen(place, timeout=REGISTRY_S) as answer:
                    known[number] = str(json.load(answer)["schema"])
            except (OSError, urllib.error.URLError, ValueError, KeyError) as error:
                raise ConfigError(
                    f"schema {number} cannot be had from the registry {url}: {error}; check"
                    " --registry, and that the registry has this number"
                ) from None
        return known[number]

    return find


def column_names(fields: StructType) -> Mapping[str, str]:
    """Names of fields to names of columns: clean, and none twice whatever the case of letters."""
    taken = {f"_{name}" for name in (*META, "body", "day", "deleted")}
    found: dict[str, str] = {}
    for name in fields.fieldNames():
        clean = re.sub(r"[ ,;{}()\n\t=.`]", "_", name) or "_"
        while clean.lower() in taken:
            clean += "_"
        taken.add(clean.lower())
        found[name] = clean
    return found


def _divided(parsed: DataFrame, fault: Column, fields: StructType, *, keep_body: bool) -> Decoded:
    marked = parsed.withColumn(REASON, fault)
    names = column_names(fields)
    chosen = [F.col(f"__value.`{name}`").alias(clean) for name, clean in names.items()]
    good = marked.where(F.col(REASON).isNull()).select(*_meta(keep_body=keep_body), *chosen)
    bad = marked.where(F.col(REASON).isNotNull()).drop("__value")
    return Decoded(good, bad)


def _meta(*, keep_body: bool) -> list[Column]:
    names = (*META, "body") if keep_body else META
    return [F.col(name).alias(f"_{name}") for name in names]


def _fields_of(known: StructType | None) -> StructType:
    """The columns of a table that came from bodies."""
    own = {f"_{name}" for name in (*META, "body", "day")}
    fields = [] if known is None else [f for f in known.fields if f.name not in own]
    return StructType(fields)


def _joined(known: StructType, found: StructType) -> StructType:
    """What is known, in its types, and what is new."""
    clean = column_names(found)
    by_name = {field.name.lower(): field for field in known.fields}
    fields: list[StructField] = []
    for field in found.fields:
        mine = by_name.pop(clean[field.name].lower(), None)
        kind = field.dataType if mine is None else _joined_type(mine.dataType, field.dataType)
        fields.append(StructField(field.name, kind))
    return StructType([*by_name.values(), *fields])


def _joined_type(known: DataType, found: DataType) -> DataType:
    if isinstance(known, StructType) and isinstance(found, StructType):
        mine = {field.name.lower(): field for field in known.fields}
        new = [field for field in found.fields if field.name.lower() not in mine]
        pairs = {field.name.lower(): field.dataType for field in found.fields}
        old = [
            StructField(f.name, _joined_type(f.dataType, pairs.get(f.name.lower(), f.dataType)))
            for f in known.fields
        ]
        return StructType([*old, *new])
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(_joined_type(known.elementType, found.elementType))
    return known


def _inferred(frame: DataFrame, text: Column) -> StructType:
    """The schema of all JSON objects of a batch, found by Spark's own reader."""
    spark: SparkSession = frame.sparkSession
    objects = frame.select(text.alias("value")).where(
        F.from_json("value", "map<string,string>").isNotNull()
    )
    encoder = spark._jvm.org.apache.spark.sql.Encoders.STRING()
    texts = getattr(objects._jdf, "as")(encoder)
    found = DataFrame(spark._jsparkSession.read().json(texts), spark).schema
    return StructType([field for field in found.fields if field.name != "_corrupt_record"])


def _united(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.unionByName(right, allowMissingColumns=True)
