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
from typing import Any, Final, NamedTuple, TypeAlias

from contrailmq._native import record
from contrailmq._native.spark import arrow, arrow_fill, place
from contrailmq._native.store.scan import find_wrong_bodies
from contrailmq.errors import CorruptRecord, RemoteProtocolError
from contrailmq.protocol.compression import BODY_SIZE_MAX
from contrailmq.protocol.message import Buffer, Record, decode_record, encode_record
from contrailmq.protocol.properties import (
    PROPERTIES_SIZE_MAX,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQUE_KEY,
)
from contrailmq.protocol.sysflag import INNER_BATCH


class NumberColumn(NamedTuple):
    """Numbers of ``width`` bytes each."""

    width: int
    data: Buffer


class TextColumn(NamedTuple):
    """Strings or bytes; without ``validity`` there are no gaps."""

    offsets: Buffer
    data: Buffer
    validity: Buffer | None = None
    gap_count: int = 0


class MapColumn(NamedTuple):
    """A map a record: ``offsets`` count entries of ``names`` and ``values``."""

    offsets: Buffer
    entry_count: int
    names: TextColumn
    values: TextColumn


PROBLEM: Final = "BAD_MESSAGE"  # the property of a row whose body could not be opened

Column: TypeAlias = NumberColumn | TextColumn | MapColumn
Unfold: TypeAlias = Callable[[Buffer, "array[int]"], tuple[Buffer, "array[int]"]]

_I32: Final = {
    "queue_id": (place.RECORD, record.QUEUE_ID_AT),
    "sys_flag": (place.RECORD, record.SYS_FLAG_AT),
    "reconsume_times": (place.BODY, record.RECONSUME_TIMES_AT - record.BODY_AT),
}
_I64: Final = {
    "queue_offset": (place.RECORD, record.QUEUE_OFFSET_AT, 1),
    "commit_log_offset": (place.RECORD, record.LOG_OFFSET_AT, 1),
    "born_time": (place.RECORD, record.BORN_MS_AT, 1000),  # milliseconds stored, microseconds given
    "store_time": (place.STORE_MS, 0, 1000),
}
_SPANS: Final = {"topic": place.TOPIC, "body": place.BODY}
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
        on_bad: str = "fail",
    ) -> None:
        """``without``: names of properties that the column ``properties`` leaves out.

        ``unfold`` replaces records of which one is a batch that was kept whole (INNER_BATCH).
        ``on_bad``: a body that cannot be opened is an error ("fail"), a row without a body whose
        property BAD_MESSAGE says why ("report"), or left out ("skip").
        """
        unknown = sorted(set(wanted) - set(COLUMNS))
        if unknown:
            raise ValueError(f"no such columns: {', '.join(unknown)}")
        self._wanted = tuple(wanted)
        texts = [name for name in self._wanted if name in _PROPERTIES]
        self._survey = arrow.Survey(
            [_PROPERTIES[name] for name in texts],
            [name.encode() for name in without],
            "properties" in wanted,
        )
        self._fills = {name: _fills(name, texts) for name in self._wanted}
        self._body_size_max = body_size_max
        self._on_bad = on_bad
        self.on_bad_message: Callable[[str, str], None] = lambda place, reason: None
        self._unfold = unfold
        self.row_count = 0  # of what was read last

    def read(self, data: Buffer, positions: Iterable[int]) -> dict[str, Column]:
        """The wanted columns, in the order they were named, of the records at some positions.

        CorruptRecord, with its position as offset, for the first position where no whole record
        is, and, unless ``on_bad`` says otherwise, for a body that cannot be opened.
        """
        starts = positions if isinstance(positions, array) else array("q", positions)
        survey = self._survey
        try:
            self._fill(data, starts)
            if self._unfold is not None and survey.flags & INNER_BATCH:
                data, starts = self._unfold(data, starts)
                self._fill(data, starts)
            wrong = find_wrong_bodies(data, starts) if "body" in self._wanted else ()
            if survey.odd or wrong:
                self._fill(*self._repair(data, starts, survey.odd, wrong), is_plain=True)
            self.row_count = survey.rows
            return {name: self._column(name) for name in self._wanted}
        finally:
            survey.release()

    def _fill(self, data: Buffer, positions: array[int], *, is_plain: bool = False) -> None:
        survey = self._survey
        survey.begin(data, positions)
        arrow_fill.fill(
            survey, [fill for fills in self._fills.values() for fill in fills], is_plain
        )
        if survey.damaged >= 0:
            position = positions[survey.damaged]
            decode_record(data, position)  # says what is wrong there
            raise CorruptRecord(f"no whole record at {position}", offset=position)

    def _repair(
        self, data: Buffer, positions: array[int], odd: Collection[int], wrong: Collection[int]
    ) -> tuple[bytes, array[int]]:
        """Copy the records, the odd ones in plain form (their flags stay as they are).

        Bodies that are ``wrong``, or cannot be unpacked, are treated as ``on_bad`` says.
        """
        view = memoryview(data)
        pieces: list[Buffer] = []
        starts, start, odd = array("q"), 0, frozenset(odd)
        for index, position in enumerate(positions):
            size = int.from_bytes(view[position : position + 4], "big")
            piece: Buffer = view[position : position + size]
            if index in wrong:
                found = self._bad(decode_record(piece), "the body does not have its checksum")
            elif index in odd:
                found = self._opened(decode_record(piece))
            else:
                found = piece
            if found is None:
                continue
            piece = found
            pieces.append(piece)
            starts.append(start)
            start += len(piece)
        return b"".join(pieces), starts

    def _opened(self, record: Record) -> Buffer | None:
        try:
            return _plain(record, self._body_size_max, with_body="body" in self._wanted)
        except RemoteProtocolError as error:
            return self._bad(record, str(error))

    def _bad(self, record: Record, reason: str) -> Buffer | None:
        """A record whose body cannot be opened: an error, a row that says so, or nothing."""
        place = f"topic {record.topic} queue {record.queue_id} offset {record.queue_offset}"
        if self._on_bad == "fail":
            raise CorruptRecord(
                f"{place}: the message cannot be opened: {reason}; read with onBadMessage=report"
                " to get its row without a body, or with onBadMessage=skip to leave it out",
                offset=record.commit_log_offset,
            )
        self.on_bad_message(place, reason)
        if self._on_bad == "skip":
            return None
        return _plain(record, self._body_size_max, with_body=False, problem=reason)

    def _column(self, name: str) -> Column:
        fills = self._fills[name]
        fill = fills[0]
        if isinstance(fill, arrow_fill.Ints):
            return NumberColumn(4, fill.data)
        if isinstance(fill, arrow_fill.Longs):
            return NumberColumn(8, fill.data)
        if isinstance(fill, arrow_fill.Hits) and fill.gap_count:
            return TextColumn(*fill.take(), fill.validity, fill.gap_count)
        texts = [TextColumn(*text.take()) for text in fills]
        if name != "properties":
            return texts[0]
        return MapColumn(self._survey.firsts, len(texts[0].offsets) // 4 - 1, *texts)


def _fills(name: str, texts: list[str]) -> list[Any]:
    """What fills a column; ``texts`` are the columns that are made of one property."""
    if name in _I32:
        return [arrow_fill.Ints(*_I32[name])]
    if name in _I64:
        return [arrow_fill.Longs(*_I64[name])]
    if name in _SPANS:
        return [arrow_fill.Spans(_SPANS[name])]
    if name in texts:
        return [arrow_fill.Hits(texts.index(name))]
    if name == "properties":
        return [arrow_fill.Names(), arrow_fill.Values()]
    return [arrow_fill.MessageIds() if name == "message_id" else arrow_fill.BornHosts()]


def _plain(record: Record, body_size_max: int, *, with_body: bool, problem: str = "") -> bytearray:
    """The record with its body decompressed and its text made UTF-8."""
    told = {PROBLEM: problem} if problem else {}
    pairs = [
        f"{name}\x01{value}\x02".encode() for name, value in {**told, **record.properties}.items()
    ]
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
