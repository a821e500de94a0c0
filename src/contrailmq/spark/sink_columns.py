"""Which columns a DataFrame needs, of which types, to be written to topics."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from contrailmq.errors import ConfigError

_EXPECTED: Final[dict[type[DataType], str]] = {
    ArrayType: "array<string>",
    MapType: "map<string,string>",
}


def check_columns(schema: StructType, *, topic: str | None) -> None:
    """Raise unless messages can be made of rows of this schema."""
    kinds: dict[str, DataType] = {field.name: field.dataType for field in schema.fields}
    wanted: dict[str, tuple[type[DataType], ...]] = {
        "body": (BinaryType, StringType),
        "keys": (StringType, ArrayType),
        "tags": (StringType,),
        "topic": (StringType,),
        "unique_key": (StringType,),
        "properties": (MapType,),
        "deliver_at": (TimestampType, LongType),
        "delay_level": (IntegerType, LongType),
    }
    if "body" not in kinds:
        raise ConfigError(f"a column body is needed; there are {', '.join(kinds)}")
    if topic is None and "topic" not in kinds:
        raise ConfigError("give the option topic, or a column topic")
    for name, allowed in wanted.items():
        if name in kinds and not (isinstance(kinds[name], allowed) and _has_texts(kinds[name])):
            names = " or ".join(_EXPECTED.get(kind, kind.typeName()) for kind in allowed)
            raise ConfigError(f"column {name} is {kinds[name].simpleString()}, expected {names}")


def _has_texts(kind: DataType) -> bool:
    """Whether what an array or a map has in it is text, too."""
    if isinstance(kind, ArrayType):
        return isinstance(kind.elementType, StringType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    return True
