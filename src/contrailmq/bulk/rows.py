"""The columns of a message in Arrow, and records as Arrow batches of them.

``Rows`` takes the bytes of records, from a pull or from a segment, and where each begins; it makes
one ``RecordBatch`` of them with exactly the columns a query asked for.  The copying is compiled
(``protocol.columns``); here the buffers only get their Arrow types.

A message of a batch that the broker keeps whole (BatchCQ topics of 5.x) becomes a row of its own.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from contrailmq.protocol.batch import decode_batch
from contrailmq.protocol.columns import MapColumn, NumberColumn, RecordColumns, TextColumn
from contrailmq.protocol.message import Buffer, Record, decode_record, encode_record
from contrailmq.protocol.properties import PROPERTY_SHARDING_KEY, RESERVED_PROPERTIES
from contrailmq.protocol.sysflag import COMPRESSED, INNER_BATCH

DAMAGE: Final = "damage"
# What producers' and brokers' own code puts among the properties; the sink leaves out the same.
MADE_PROPERTIES: Final = RESERVED_PROPERTIES - {PROPERTY_SHARDING_KEY}

log = logging.getLogger(__name__)


class Rows:
    """Makes Arrow batches of records for one query; keeps memory from batch to batch."""

    def __init__(
        self,
        schema: Any,
        *,
        tags: Sequence[str] = (),
        own_properties: bool = False,
        on_bad: str = "fail",
    ) -> None:
        """``schema``: a ``pyarrow.Schema``, a choice of the columns of a message.

        ``tags``: rows with other tags are left out (brokers compare only hash codes).

        ``own_properties``: the column ``properties`` has none of MADE_PROPERTIES. ``on_bad``: what
        becomes of a message whose body cannot be opened (fail, report, skip).
        """
        self.schema = schema
        self._tags = pa.array(list(tags), pa.string()) if tags else None
        stored = [name for name in schema.names if name not in ("broker", DAMAGE)]
        if tags and "tags" not in stored:
            stored.append("tags")
        without = MADE_PROPERTIES if own_properties else ()
        self._columns = RecordColumns(
            stored or ["queue_id"], without=without, unfold=_unfold, on_bad=on_bad
        )
        self._columns.on_bad_message = _log_bad

    def batch(self, data: Buffer, positions: array[int], *, broker: str) -> Any:
        """The records of ``data`` at some positions, as one ``pyarrow.RecordBatch``.

        CorruptRecord, with the position, where no whole record is.
        """
        columns = self._columns.read(data, positions)
        count = self._columns.row_count
        arrays = [self._array(field, columns, count, broker) for field in self.schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if self._tags is None:
            return batch
        import pyarrow.compute as pc  # takes a twentieth of a second, and few queries need it

        tags = _array(columns["tags"], pa.string(), count)
        return batch.filter(pc.is_in(tags, value_set=self._tags))

    def damaged(self, rows: Sequence[dict[str, Any]]) -> Any:
        """Rows for records that cannot be read: what is known of them, and the damage."""
        arrays = [
            pa.array([row.get(field.name) for row in rows], field.type) for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, field: Any, columns: dict[str, Any], count: int, broker: str) -> Any:
        if field.name == "broker":
            return pa.repeat(pa.scalar(broker, pa.string()), count)
        if field.name == DAMAGE:
            return pa.nulls(count, pa.string())
        return _array(columns[field.name], field.type, count)


def _array(column: NumberColumn | TextColumn | MapColumn, kind: Any, count: int) -> Any:
    if isinstance(column, NumberColumn):
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(column.data)])
    if isinstance(column, TextColumn):
        validity = None if column.validity is None else pa.py_buffer(column.validity)
        buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
        return pa.Array.from_buffers(kind, count, buffers, column.gap_count)
    names = _array(column.names, pa.string(), column.entry_count)
    values = _array(column.values, pa.string(), column.entry_count)
    entries = pa.StructArray.from_arrays([names, values], fields=[kind.key_field, kind.item_field])
    offsets = pa.py_buffer(column.offsets)
    return pa.Array.from_buffers(kind, count, [None, offsets], children=[entries])


def _log_bad(place: str, reason: str) -> None:
    log.warning("a message cannot be opened %s reason=%s", place, reason)


def _unfold(data: Buffer, positions: array[int]) -> tuple[Buffer, array[int]]:
    """Replace batches that were kept whole by their messages."""
    pieces: list[bytes | bytearray] = []
    for position in positions:
        record = decode_record(data, position)
        if record.sys_flag & INNER_BATCH:
            pieces += _messages(record)
        else:
            size = record.store_size
            pieces.append(bytes(memoryview(data)[position : position + size]))
    starts, at = array("q"), 0
    for piece in pieces:
        starts.append(at)
        at += len(piece)
    return b"".join(pieces), starts


def _messages(record: Record) -> list[bytearray]:
    """The messages of a whole batch as records of their own, with their own queue offsets."""
    return [
        encode_record(
            topic=record.topic,
            body=inner.body,
            properties=inner.properties,
            born_ms=record.born_ms,
            born_host=record.born_host_bytes,
            store_host=record.store_host_bytes,
            queue_id=record.queue_id,
            queue_offset=record.queue_offset + number,
            commit_log_offset=record.commit_log_offset,
            store_ms=record.store_ms,
            flag=inner.flag,
            sys_flag=record.sys_flag & ~(INNER_BATCH | COMPRESSED),
            reconsume_times=record.reconsume_times,
            prepared_transaction_offset=record.prepared_transaction_offset,
        )
        for number, inner in enumerate(decode_batch(record.payload()))
    ]
