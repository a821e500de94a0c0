"""Many records as columns: the buffers of Arrow arrays, with no object a record.

``RecordColumns`` gives buffers only; whoever has pyarrow makes arrays of them::

    pa.Array.from_buffers(pa.string(), count, [validity, offsets, data])

Numbers are in the machine's byte order, offsets are 32-bit, validity bits count from the lowest.
A compressed body is decompressed, text that is not UTF-8 is repaired as everywhere else; both take
a slower way, record by record, and the other records of the call are copied once for it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple, TypeAlias

from contrailmq._native import arrow, arrow_fill
from contrailmq.errors import CorruptRecord
from contrailmq.protocol.compression import BODY_SIZE_MAX
from contrailmq.protocol.message import Buffer, Record, decode_record, encode_record
from contrailmq.protocol.properties import (
    PROPERTIES_SIZE_MAX,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQUE_KEY,
)
from contrailmq.protocol.sysflag import INNER_BATCH

COLUMN_SIZE_MAX: Final = 2**31 - 1  # what a 32-bit offset reaches


class NumberColumn(NamedTuple):
    """Numbers of ``width`` bytes each."""

    width: int
    data: bytearray


class TextColumn(NamedTuple):
    """Strings or bytes; without ``validity`` there are no gaps."""

    offsets: bytearray
    data: bytearray
    validity: bytearray | None = None
    gap_count: int = 0


class MapColumn(NamedTuple):
    """A map a record: ``offsets`` count entries of ``names`` and ``values``."""

    offsets: bytearray
    entry_count: int
    names: TextColumn
    values: TextColumn


Column: TypeAlias = NumberColumn | TextColumn | MapColumn
Unfold: TypeAlias = Callable[[Buffer, "array[int]"], tuple[Buffer, "array[int]"]]

_I32: Final = {
    "queue_id": (arrow.AT, 12),
    "sys_flag": (arrow.AT, 36),
    "reconsume_times": (arrow.BODY_AT, -16),
}
_I64: Final = {
    "queue_offset": (arrow.AT, 20, 1),
    "commit_log_offset": (arrow.AT, 28, 1),
    "born_time": (arrow.AT, 40, 1000),  # milliseconds stored, microseconds given
    "store_time": (arrow.STORE_MS_AT, 0, 1000),
}
_SPANS: Final = {"topic": arrow.TOPIC_AT, "body": arrow.BODY_AT}
_PROPERTIES: Final = {
    "keys": PROPERTY_KEYS.encode(),
    "tags": PROPERTY_TAGS.encode(),
    "unique_key": PROPERTY_UNIQUE_KEY.encode(),
}
COLUMNS: Final = (
    *_I32,
    *_I64,
    *_SPANS,
    *_PROPERTIES,
    "born_host",
    "message_id",
    "properties",
)


class RecordColumns:
    """Makes columns of chunks of records; its scratch memory serves one chunk after the other.

    Chunks of 1,000 to 10,000 records are fastest: fresh memory is what costs most.
    """

    def __init__(
        self,
        wanted: Collection[str],
        *,
        without: Collection[str] = (),
        body_size_max: int = BODY_SIZE_MAX,
        unfold: Unfold | None = None,
    ) -> None:
        """``without``: names of properties that the column ``properties`` leaves out.

        ``unfold`` replaces records of which one is a batch that was kept whole (INNER_BATCH).
        """
        unknown = sorted(set(wanted) - set(COLUMNS))
        if unknown:
            raise ValueError(f"no such columns: {', '.join(unknown)}")
        self._wanted = tuple(wanted)
        self._texts = [name for name in self._wanted if name in _PROPERTIES]
        self._survey = arrow.Survey(
            [_PROPERTIES[name] for name in self._texts],
            [name.encode() for name in without],
            "properties" in wanted,
        )
        self._body_size_max = body_size_max
        self._unfold = unfold
        self.row_count = 0  # of what was read last

    def read(self, data: Buffer, positions: Iterable[int]) -> dict[str, Column]:
        """The wanted columns, in the order they were named, of the records at some positions.

        CorruptRecord, with its position as offset, for the first position where no whole record
        is; RemoteProtocolError for a compressed body that cannot be restored.
        """
        starts = positions if isinstance(positions, array) else array("q", positions)
        try:
            self._locate(data, starts)
            return {name: self._column(name) for name in self._wanted}
        finally:
            self._survey.release()

    def _locate(self, data: Buffer, positions: array[int]) -> None:
        """Survey the records, or what has to be put in their place."""
        survey = self._survey
        self._find(data, positions)
        if self._unfold is not None and survey.flags & INNER_BATCH:
            data, positions = self._unfold(data, positions)
            self._find(data, positions)
        if survey.odd:
            data, positions = self._repair(data, positions, survey.odd)
            self._find(data, positions)
        most = max(survey.body_size, survey.topic_size, survey.name_size, survey.value_size)
        if most > COLUMN_SIZE_MAX:
            raise ValueError(f"column of {most} bytes, at most {COLUMN_SIZE_MAX}")
        self.row_count = survey.count

    def _find(self, data: Buffer, positions: array[int]) -> None:
        damaged = self._survey.read(data, positions)
        if damaged >= 0:
            position = positions[damaged]
            decode_record(data, position)  # says what is wrong there
            raise CorruptRecord(f"no whole record at {position}", offset=position)

    def _repair(
        self, data: Buffer, positions: array[int], odd: Collection[int]
    ) -> tuple[bytes, array[int]]:
        """Copy the records, the odd ones in plain form (their flags stay as they are)."""
        view = memoryview(data)
        pieces: list[Buffer] = []
        starts, start, odd = array("q"), 0, frozenset(odd)
        for index, position in enumerate(positions):
            size = int.from_bytes(view[position : position + 4], "big")
            piece: Buffer = view[position : position + size]
            if index in odd:
                record = decode_record(piece)
                piece = _plain(record, self._body_size_max, with_body="body" in self._wanted)
            pieces.append(piece)
            starts.append(start)
            start += len(piece)
        return b"".join(pieces), starts

    def _column(self, name: str) -> Column:
        survey = self._survey
        if name in _I32:
            numbers = arrow.new_buffer(4 * survey.count)
            arrow_fill.fill_i32(survey, *_I32[name], memoryview(numbers).cast("i"))
            return NumberColumn(4, numbers)
        if name in _I64:
            numbers = arrow.new_buffer(8 * survey.count)
            arrow_fill.fill_i64(survey, *_I64[name], memoryview(numbers).cast("q"))
            return NumberColumn(8, numbers)
        if name in _PROPERTIES:
            return self._property(self._texts.index(name))
        if name == "properties":
            return self._map()
        return self._text(name)

    def _property(self, number: int) -> TextColumn:
        survey = self._survey
        size, gaps = survey.value_sizes(number)
        offsets, text = arrow.new_buffer(4 * (survey.count + 1)), arrow.new_buffer(size)
        arrow_fill.fill_hits(survey, number, memoryview(offsets).cast("i"), text)
        if not gaps:
            return TextColumn(offsets, text)
        validity = bytearray((survey.count + 7) // 8)
        arrow_fill.fill_validity(survey, number, validity)
        return TextColumn(offsets, text, validity, gaps)

    def _text(self, name: str) -> TextColumn:
        survey = self._survey
        offsets = arrow.new_buffer(4 * (survey.count + 1))
        view = memoryview(offsets).cast("i")
        if name in _SPANS:
            text = arrow.new_buffer(survey.body_size if name == "body" else survey.topic_size)
            arrow_fill.fill_spans(survey, _SPANS[name], view, text)
        elif name == "message_id":
            text = arrow.new_buffer(32 * survey.count + 24 * survey.store_v6)
            arrow_fill.fill_message_ids(survey, view, text)
        else:
            text = arrow.new_buffer(27 * survey.count + 24 * survey.born_v6)
            size = arrow_fill.fill_born_hosts(survey, view, text)
            del text[size:]
        return TextColumn(offsets, text)

    def _map(self) -> MapColumn:
        survey = self._survey
        columns = []
        for size, fill in (
            (survey.name_size, arrow_fill.fill_names),
            (survey.value_size, arrow_fill.fill_values),
        ):
            offsets, text = arrow.new_buffer(4 * (survey.pair_count + 1)), arrow.new_buffer(size)
            fill(survey, memoryview(offsets).cast("i"), text)
            columns.append(TextColumn(offsets, text))
        return MapColumn(survey.firsts, survey.pair_count, *columns)


def _plain(record: Record, body_size_max: int, *, with_body: bool) -> bytearray:
    """The record with its body decompressed and its text made UTF-8."""
    pairs = [f"{name}\x01{value}\x02".encode() for name, value in record.properties.items()]
    while sum(map(len, pairs)) > PROPERTIES_SIZE_MAX:
        pairs.pop()  # repaired text is longer than the damaged; what still fits is kept
    return encode_record(
        topic=record.topic,
        body=record.payload(body_size_max) if with_body else b"",
        properties=b"".join(pairs),
        born_ms=record.born_ms,
        born_host=record.born_host_bytes,
        store_host=record.store_host_bytes,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        commit_log_offset=record.commit_log_offset,
        store_ms=record.store_ms,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
    )
