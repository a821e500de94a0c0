"""Store directories as queues with bounds, and ranges of them as raw records.

A range is read along its consume queue: each unit is checked against the record it points at
(whole, in its place, of this queue and offset) before anything is made of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from contrailmq._native.store import scan
from contrailmq.bulk.planning import QueueRange
from contrailmq.errors import CorruptRecord
from contrailmq.protocol.message import Buffer
from contrailmq.protocol.names import is_lmq
from contrailmq.protocol.queue import MessageQueue
from contrailmq.store.layout import QUEUE_UNIT
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.offline.view_queues import EXT_BORDER, FILLER_SIZE

UNITS_AT_ONCE: Final = 8192
_UNIT: Final = np.dtype([("offset", ">i8"), ("size", ">i4"), ("code", ">i8")])


class Piece(NamedTuple):
    """Records in one buffer, in the order of their queue."""

    data: Buffer
    positions: array[int]


class Damage(NamedTuple):
    """A message that its queue has and the log has not whole."""

    queue_offset: int
    log_offset: int
    text: str


class Gone(NamedTuple):
    """Messages whose segment was deleted: queue offsets ``start`` to before ``end``."""

    start: int
    end: int


class Directories:
    """One store directory a broker, opened when it is first needed."""

    def __init__(self, paths: Sequence[tuple[str, str]]) -> None:
        self._paths = {broker: path for path, broker in paths}
        self._readers: dict[str, StoreReader] = {}

    def close(self) -> None:
        """Forget every mapping."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def refresh(self) -> None:
        """Look again: what was written since, what was deleted."""
        for reader in self._readers.values():
            reader.refresh()

    def reader(self, broker: str) -> StoreReader:
        """The directory of a broker."""
        found = self._readers.get(broker)
        if found is None:
            found = self._readers[broker] = StoreReader(self._paths[broker])
        return found

    def queues(self, topics: Sequence[str]) -> list[MessageQueue]:
        """The queues of some topics, or of all, sorted."""
        return sorted(
            MessageQueue(topic, broker, queue_id)
            for broker in self._paths
            for topic, queue_id in self.reader(broker).queues()
            if not topics or topic in topics
        )

    def configured_topics(self) -> set[str]:
        """The topics the brokers knew when they last saved that: some have no messages."""
        found: set[str] = set()
        for broker in self._paths:
            saved = self.reader(broker).config("topics.json") or {}
            found.update(saved.get("topicConfigTable", {}))
        return found

    def first_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The first offset of each queue."""
        return {queue: self._bounds(queue)[0] for queue in queues}

    def end_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The offset after the last message of each queue."""
        return {queue: self._bounds(queue)[1] for queue in queues}

    def offsets_at(self, queues: Sequence[MessageQueue], ms: int) -> dict[MessageQueue, int]:
        """The offset of the first message stored at a time or later; the end without one."""
        return {
            queue: self.reader(queue.broker_name).offset_by_time(queue.topic, queue.queue_id, ms)
            for queue in queues
        }

    def committed(self, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """Where a group stood when its broker last saved that (consumerOffset.json)."""
        found: dict[MessageQueue, int] = {}
        for queue in queues:
            saved = self.reader(queue.broker_name).config("consumerOffset.json") or {}
            offsets: dict[Any, Any] = saved.get("offsetTable", {}).get(f"{queue.topic}@{group}", {})
            at = offsets.get(queue.queue_id, offsets.get(str(queue.queue_id)))
            if at is not None:
                found[queue] = int(at)
        return found

    def pieces(
        self, part: QueueRange, *, codes: frozenset[int] | None = None, check_crc: bool = False
    ) -> Iterator[Piece | Damage | Gone]:
        """The records of a range; with ``codes`` only those whose tags may have such a code."""
        queue = part.queue
        reader = self.reader(queue.broker_name)
        if reader.is_batch(queue.topic, queue.queue_id) or is_lmq(queue.topic):
            return _single(reader, part, check_crc=check_crc)
        return _along(reader, part, codes=codes, check_crc=check_crc)

    def _bounds(self, queue: MessageQueue) -> tuple[int, int]:
        return self.reader(queue.broker_name).bounds(queue.topic, queue.queue_id)


def _along(
    reader: StoreReader, part: QueueRange, *, codes: frozenset[int] | None, check_crc: bool
) -> Iterator[Piece | Damage | Gone]:
    (name, _, queue_id), start, end = part
    topic = name.encode()
    while start < end:
        until = min(end, start + UNITS_AT_ONCE)
        raw = reader.queue_units(name, queue_id, start=start, end=until)
        units = np.frombuffer(raw, _UNIT)
        index = 0
        while index < len(units):
            offset = int(units["offset"][index])
            segment = reader.log.find_segment(offset)
            data = reader.log.buffer(segment) if segment is not None else None
            if segment is None or data is None:
                following = _next_there(reader, units, index)
                if offset < reader.log.file_end:
                    yield Gone(start + index, start + following)
                else:
                    yield from _beyond(start, units, index, following)
                index = following
                continue
            stop, reason = scan.match_units(
                raw, index, start, data, segment.offset, queue_id, topic
            )
            if stop > index:
                first = (start + index, segment.offset)
                yield from _checked(
                    data, units[index:stop], first, codes=codes, check_crc=check_crc
                )
            if reason:
                yield _damage(start + stop, units[stop], reason)
                stop += 1
            index = stop
        start = until


def _checked(
    data: Buffer,
    units: Any,
    first: tuple[int, int],
    *,
    codes: frozenset[int] | None,
    check_crc: bool,
) -> Iterator[Piece | Damage]:
    """Units of one segment that point at their records."""
    queue_offset, base = first
    numbers = np.arange(queue_offset, queue_offset + len(units))
    if codes is not None:
        found = units["code"].astype(np.int64)
        chosen = np.isin(found, list(codes)) | (found <= EXT_BORDER)
        units, numbers = units[chosen], numbers[chosen]
    places = units["offset"].astype(np.int64) - base
    if check_crc:
        broken = [
            scan.check(data, int(place), len(data), base, True) <= 0 for place in places.tolist()
        ]
        if any(broken):
            for unit, number in zip(units[broken], numbers[broken], strict=True):
                yield Damage(
                    int(number), int(unit["offset"]), "the body does not have its checksum"
                )
            places = places[~np.array(broken)]
    if len(places):
        positions = array("q")
        positions.frombytes(places.tobytes())
        yield Piece(data, positions)


def _next_there(reader: StoreReader, units: Any, index: int) -> int:
    """The first unit from ``index`` on whose segment is there."""
    following = index + 1
    while following < len(units):
        if reader.log.find_segment(int(units["offset"][following])) is not None:
            break
        following += 1
    return following


def _beyond(start: int, units: Any, index: int, following: int) -> Iterator[Damage]:
    for number in range(index, following):
        offset, size = int(units["offset"][number]), int(units["size"][number])
        text = f"the log has nothing at {offset} ({size} bytes)"
        yield Damage(start + number, offset, text)


def _damage(queue_offset: int, unit: Any, reason: int) -> Damage:
    offset, size = int(unit["offset"]), int(unit["size"])
    if size in (0, FILLER_SIZE):
        return Damage(queue_offset, offset, "the queue has no entry here")
    why = scan.DAMAGE.get(reason, "nothing was written there")
    text = f"no whole record of {size} bytes at {offset} of the log ({why})"
    return Damage(queue_offset, offset, text)


def _single(
    reader: StoreReader, part: QueueRange, *, check_crc: bool
) -> Iterator[Piece | Damage | Gone]:
    """One record after the other, for queues whose units are not records of their own."""
    (name, _, queue_id), start, end = part
    for queue_offset, offset, size in reader.places(name, queue_id, start=start, end=end):
        if queue_offset < start:
            continue  # the batch began in the range before and belongs to it
        try:
            record = reader.record_at(offset, check_crc=check_crc)
        except CorruptRecord as error:
            yield Damage(queue_offset, offset, str(error))
            continue
        if record is not None and len(record) == size:
            yield Piece(record, array("q", [0]))
        elif reader.log.find_segment(offset) is None and offset < reader.log.file_end:
            yield Gone(queue_offset, queue_offset + 1)
        else:
            text = f"no whole record of {size} bytes at {offset} of the log"
            yield Damage(queue_offset, offset, text)


assert _UNIT.itemsize == QUEUE_UNIT
