"""``write_table``: rows of a table, a reader or a data frame as messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Unpack

from contrailmq.arrow.given import WriteOptions, need_pyarrow, option_texts
from contrailmq.bulk.options import SINK_NAMES, sink_options
from contrailmq.errors import ConfigError

ROWS_AT_ONCE: Final = 65_536
GROUP: Final = "arrow_writer"
_WRITTEN: Final = (
    "body", "keys", "tags", "topic", "unique_key", "properties", "deliver_at", "delay_level",
)  # fmt: skip


def write_table(
    table: Any,
    topic: str | None = None,
    *,
    name_servers: str | Sequence[str] | None = None,
    **options: Unpack[WriteOptions],
) -> int:
    """Send each row as a message. Returns how many were sent, when the brokers have them.

    ``table`` is whatever gives Arrow batches: a Table, a RecordBatchReader, a data frame of Polars
    or pandas, a relation of DuckDB. Without ``topic`` a column ``topic`` says where a row goes.
    Columns are those of Spark's sink; others are not written.
    """
    need_pyarrow()
    from contrailmq.bulk.new_topics import find_expected
    from contrailmq.bulk.sending import send_batches

    named = {"topic": topic, "nameServers": name_servers, "group": GROUP}
    chosen = sink_options(option_texts({**named, **options}, SINK_NAMES))
    if chosen.once and chosen.query_id is None:
        raise ConfigError(
            "delivery=effectively-once needs query_id: a name that is the same when this write is"
            " repeated, and another for any other write"
        )
    reader = _reader(table)
    kinds = _kinds(reader.schema, topic=topic)
    done = send_batches(
        _plain(reader, kinds),
        chosen,
        query=chosen.query_id,
        batch="0",
        expected=find_expected(chosen, patient=False),
    )
    return done.sent


def _reader(table: Any) -> Any:
    import pyarrow as pa

    if isinstance(table, pa.RecordBatchReader):
        return table
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return table.to_reader(max_chunksize=ROWS_AT_ONCE)
    if hasattr(table, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(table)
    raise ConfigError(
        f"a table is {type(table).__name__}, expected a pyarrow.Table, a RecordBatchReader or a"
        " data frame that gives Arrow batches (__arrow_c_stream__)"
    )


def _kinds(schema: Any, *, topic: str | None) -> dict[str, Any]:
    """The type that each column is written as; raises unless messages can be made of them."""
    names = list(schema.names)
    if "body" not in names:
        raise ConfigError(f"a column body is needed; there are {', '.join(names)}")
    if topic is None and "topic" not in names:
        raise ConfigError("give topic, or a column topic")
    return {name: _kind(name, schema.field(name).type) for name in _WRITTEN if name in names}


def _kind(name: str, given: Any) -> Any:
    import pyarrow as pa

    is_map = pa.types.is_map(given)
    is_list = pa.types.is_list(given) or pa.types.is_large_list(given)
    parts = {
        "properties": is_map and _is_text(given.key_type) and _is_text(given.item_type),
        "keys": _is_text(given) or (is_list and not is_map and _is_text(given.value_type)),
        "body": _is_text(given) or _is_binary(given),
        "deliver_at": pa.types.is_timestamp(given) or pa.types.is_int64(given),
        "delay_level": pa.types.is_integer(given),
    }
    if not parts.get(name, _is_text(given)) and not pa.types.is_null(given):
        expected = {
            "properties": "map<string, string>",
            "keys": "string or list<string>",
            "body": "binary or string",
            "deliver_at": "timestamp or int64 (milliseconds)",
            "delay_level": "a whole number",
        }.get(name, "string")
        raise ConfigError(f"column {name} is {given}, expected {expected}; cast it before writing")
    if name == "properties":
        return pa.map_(pa.string(), pa.string())
    if name == "keys" and is_list:
        return pa.list_(pa.string())
    if name == "body" and _is_binary(given):
        return pa.binary()
    if name == "deliver_at":
        return given if pa.types.is_timestamp(given) else pa.int64()
    return pa.int64() if name == "delay_level" else pa.string()


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _is_binary(kind: Any) -> bool:
    import pyarrow as pa

    tests = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )
    return any(test(kind) for test in tests)


def _plain(reader: Any, kinds: dict[str, Any]) -> Iterator[Any]:
    """Batches of the columns that are written, of the types and sizes that the sink takes."""
    import pyarrow as pa

    schema = pa.schema(list(kinds.items()))
    for batch in reader:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            part = batch.slice(start, ROWS_AT_ONCE)
            columns = [_cast(part.column(name), kind) for name, kind in kinds.items()]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: Any, kind: Any) -> Any:
    return column if column.type == kind else column.cast(kind)
