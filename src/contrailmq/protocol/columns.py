"""Many records as columns: the buffers of Arrow arrays, with no object a record.

``RecordColumns`` gives buffers only; whoever has pyarrow makes arrays of them::

    pa.Array.from_buffers(pa.string(), count, [validity, offsets, data])

Numbers are in the machine's byte order, offsets are 32-bit, validity bits count from the lowest.
A compressed body is decompressed, text that is not UTF-8 is repaired as everywhere else; both take
a slower way, record by record, and the other records of the call are copied once for it.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
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
    ) -> None:
        """``without``: names of properties that the column ``properties`` leaves out."""
        unknown = sorted(set(wanted) - set(COLUMNS))
        if unknown:
            raise ValueError(f"no such columns: {', '.join(unknown)}")
        self._wanted = tuple(wanted)
        self._with_pairs = "properties" in wanted
        self._without = _Names(without) if without else None
        self._body_size_max = body_size_max
        self._kept = _Scratch()
        self._places = _Scratch()
        self._pairs = _Scratch()
        self._hits = _Scratch()

    def read(self, data: Buffer, positions: Iterable[int]) -> dict[str, Column]:
        """The wanted columns, in the order they were named, of the records at some positions.

        CorruptRecord, with its position as offset, for the first position where no whole record
        is; RemoteProtocolError for a compressed body that cannot be restored.
        """
        starts = positions if isinstance(positions, array) else array("q", positions)
        chunk = self._locate(data, starts)
        if self._with_pairs:
            view = self._pairs.of(arrow.PAIR_WIDTH * chunk.pair_max)
            firsts = memoryview(chunk.firsts).cast("i")
            counts = arrow.split(chunk.data, chunk.places, firsts, view)
            chunk = chunk._replace(pairs=view, pair_count=counts[0], pair_sizes=counts[1:])
        return {name: self._column(name, chunk) for name in self._wanted}

    def _locate(self, data: Buffer, positions: array[int], *, repaired: bool = False) -> _Chunk:
        count = len(positions)
        places = self._places.of(arrow.PLACE_WIDTH * count)
        odd = bytearray(count)
        damaged, odd_count, *counts = arrow.locate(data, positions, places, odd)
        if damaged >= 0:
            position = positions[damaged]
            decode_record(data, position)  # says what is wrong there
            raise CorruptRecord(f"no whole record at {position}", offset=position)
        if odd_count and not repaired:
            return self._locate(*self._repair(data, positions, odd), repaired=True)
        if max(counts) > COLUMN_SIZE_MAX:
            raise ValueError(f"column of {max(counts)} bytes, at most {COLUMN_SIZE_MAX}")
        return _Chunk(
            data=data,
            size=count,
            places=places,
            body_size=counts[0],
            topic_size=counts[1],
            pair_max=counts[2],
            born_v6=counts[3],
            store_v6=counts[4],
            firsts=bytearray(4 * (count + 1)),
        )

    def _repair(
        self, data: Buffer, positions: array[int], odd: bytearray
    ) -> tuple[bytes, array[int]]:
        """Copy the records, the odd ones in plain form (their flags stay as they are)."""
        view = memoryview(data)
        pieces: list[Buffer] = []
        starts, start = array("q"), 0
        for position, is_odd in zip(positions, odd, strict=True):
            size = int.from_bytes(view[position : position + 4], "big")
            piece: Buffer = view[position : position + size]
            if is_odd:
                record = decode_record(piece)
                piece = _plain(record, self._body_size_max, with_body="body" in self._wanted)
            pieces.append(piece)
            starts.append(start)
            start += len(piece)
        return b"".join(pieces), starts

    def _column(self, name: str, chunk: _Chunk) -> Column:
        if name in _I32:
            numbers = bytearray(4 * chunk.size)
            arrow_fill.fill_i32(
                chunk.data, chunk.places, *_I32[name], memoryview(numbers).cast("i")
            )
            return NumberColumn(4, numbers)
        if name in _I64:
            numbers = bytearray(8 * chunk.size)
            arrow_fill.fill_i64(
                chunk.data, chunk.places, *_I64[name], memoryview(numbers).cast("q")
            )
            return NumberColumn(8, numbers)
        if name in _PROPERTIES:
            return self._property(_PROPERTIES[name], chunk)
        if name == "properties":
            return _map(chunk if self._without is None else self._leave_out(self._without, chunk))
        return _text(name, chunk)

    def _leave_out(self, names: _Names, chunk: _Chunk) -> _Chunk:
        kept = self._kept.of(arrow.PAIR_WIDTH * chunk.pair_count)
        firsts = bytearray(len(chunk.firsts))
        views = [memoryview(numbers).cast("i") for numbers in (chunk.firsts, firsts)]
        counts = arrow.leave_out(
            chunk.data, views[0], chunk.pairs, names.text, names.borders, views[1], kept
        )
        return chunk._replace(
            firsts=firsts, pairs=kept, pair_count=counts[0], pair_sizes=counts[1:]
        )

    def _property(self, name: bytes, chunk: _Chunk) -> TextColumn:
        hits = self._hits.of(chunk.size)
        pairs = chunk.pairs
        if self._with_pairs:
            firsts = memoryview(chunk.firsts).cast("i")
            size, gaps = arrow_fill.find_pairs(chunk.data, firsts, pairs, name, hits)
        else:
            pairs = self._pairs.of(arrow.PAIR_WIDTH * chunk.size)
            size, gaps = arrow_fill.find_values(
                chunk.data, chunk.places, chunk.size, name, pairs, hits
            )
        offsets, text = bytearray(4 * (chunk.size + 1)), bytearray(size)
        arrow_fill.fill_hits(chunk.data, pairs, hits, memoryview(offsets).cast("i"), text)
        if not gaps:
            return TextColumn(offsets, text)
        validity = bytearray((chunk.size + 7) // 8)
        arrow_fill.fill_validity(hits, chunk.size, validity)
        return TextColumn(offsets, text, validity, gaps)


class _Chunk(NamedTuple):
    """What is known of the records of one call before their columns are made."""

    data: Buffer
    size: int
    places: memoryview
    body_size: int
    topic_size: int
    pair_max: int
    born_v6: int
    store_v6: int
    firsts: bytearray
    pairs: memoryview = memoryview(b"")
    pair_count: int = 0
    pair_sizes: tuple[int, ...] = (0, 0)


class _Names:
    """Names as ``arrow.leave_out`` takes them."""

    __slots__ = ("borders", "text")

    def __init__(self, names: Collection[str]) -> None:
        encoded = sorted((name.encode() for name in names), key=len)
        self.text = b"".join(encoded)
        longest = len(encoded[-1])
        self.borders = array(
            "i",
            (sum(len(name) for name in encoded if len(name) < size) for size in range(longest + 2)),
        )


class _Scratch:
    """Memory for 64-bit numbers that grows and is used again."""

    __slots__ = ("_memory",)

    def __init__(self) -> None:
        self._memory = memoryview(bytearray()).cast("q")

    def of(self, count: int) -> memoryview:
        """Room for ``count`` numbers at least, with whatever was in it."""
        if len(self._memory) < count:
            self._memory = memoryview(bytearray(8 * (count + count // 4))).cast("q")
        return self._memory


def _text(name: str, chunk: _Chunk) -> TextColumn:
    offsets = bytearray(4 * (chunk.size + 1))
    view = memoryview(offsets).cast("i")
    if name in _SPANS:
        text = bytearray(chunk.body_size if name == "body" else chunk.topic_size)
        arrow_fill.fill_spans(chunk.data, chunk.places, _SPANS[name], view, text)
    elif name == "message_id":
        text = bytearray(32 * chunk.size + 24 * chunk.store_v6)
        arrow_fill.fill_message_ids(chunk.data, chunk.places, view, text)
    else:
        text = bytearray(27 * chunk.size + 24 * chunk.born_v6)
        size = arrow_fill.fill_born_hosts(chunk.data, chunk.places, view, text)
        del text[size:]
    return TextColumn(offsets, text)


def _map(chunk: _Chunk) -> MapColumn:
    columns = []
    fills = (arrow_fill.fill_names, arrow_fill.fill_values)
    for size, fill in zip(chunk.pair_sizes, fills, strict=True):
        offsets, text = bytearray(4 * (chunk.pair_count + 1)), bytearray(size)
        fill(chunk.data, chunk.pairs, memoryview(offsets).cast("i"), text)
        columns.append(TextColumn(offsets, text))
    return MapColumn(chunk.firsts, chunk.pair_count, *columns)


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
