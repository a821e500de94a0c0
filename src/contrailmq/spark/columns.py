"""The columns of a message in a DataFrame, and checks of a schema that a user gives."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from contrailmq.bulk.rows import DAMAGE
from contrailmq.errors import ConfigError

_TYPES: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "broker": StringType(),
    "queue_id": IntegerType(),
    "queue_offset": LongType(),
    "body": BinaryType(),
    "keys": StringType(),
    "tags": StringType(),
    "born_time": TimestampType(),
    "store_time": TimestampType(),
    "born_host": StringType(),
    "message_id": StringType(),
    "unique_key": StringType(),
    "properties": MapType(StringType(), StringType()),
    "reconsume_times": IntegerType(),
    "sys_flag": IntegerType(),
    "commit_log_offset": LongType(),
}
COLUMN_NAMES: Final = tuple(_TYPES)


def message_schema(*, with_damage: bool = False) -> StructType:
    """The columns of a message; with ``with_damage`` also what is wrong with a record."""
    fields = [StructField(name, kind) for name, kind in _TYPES.items()]
    if with_damage:
        fields.append(StructField(DAMAGE, StringType()))
    return StructType(fields)


def check_schema(schema: StructType, *, with_damage: bool = False) -> None:
    """Raise unless a given schema is a choice of our columns with our types."""
    types = {**_TYPES, DAMAGE: StringType()} if with_damage else _TYPES
    for field in schema.fields:
        kind = types.get(field.name)
        if kind is None:
            raise ConfigError(f"no column {field.name!r}; there are {', '.join(types)}")
        if field.dataType != kind:
            raise ConfigError(
                f"column {field.name} is {kind.simpleString().upper()},"
                f" not {field.dataType.simpleString().upper()}; cast it after reading"
            )
        if not field.nullable:
            raise ConfigError(f"column {field.name} has to be nullable in a given schema")
