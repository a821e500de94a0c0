"""Read any RocketMQ store directory, ours or Java's, of a live or a dead broker, changing nothing.

Files are opened for reading, no lock is taken, nothing is created.  What is read is what the
broker serves, or would serve after recovery:

* the log is the truth; a record is returned only if it is whole and in its place (by choice with
  the checksum of its body), so that one still being written is not seen;
* a queue is its files, plus what the log has and the files have not (``LogTail``): of a live or
  cleanly stopped broker that is what follows the newest unit, of a dead one what follows the point
  its checkpoint vouches for.

``refresh`` looks again.  Between two calls the picture stands still, except for what retention
takes away at the old end.  Sizes of segments, queue files and index tables are inferred.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from contrailmq.errors import CorruptRecord, ProtocolError, StoreError
from contrailmq.protocol import fastjson
from contrailmq.protocol.message import Record, decode_record
from contrailmq.store.files import Files, OsFiles
from contrailmq.store.layout import QUEUE_UNIT
from contrailmq.store.offline.lock_probe import is_locked
from contrailmq.store.offline.plan import QueueKey, Split, plan
from contrailmq.store.offline.view_index import COUNT_MAX, IndexView
from contrailmq.store.offline.view_log import LogView
from contrailmq.store.offline.view_queues import FILLER_SIZE, UNIT, BatchUnit, ExtUnit, ExtView
from contrailmq.store.offline.view_table import QueueTable
from contrailmq.store.offline.view_tail import LogTail
from contrailmq.store.recovery.horizon import Marks, find_start

FOREVER_MS: Final = (1 << 63) - 1
_UNITS_AT_ONCE: Final = 4096
_PARTS: Final = ("commitlog", "consumequeue", "checkpoint")  # a new broker has one of these


class StoreReader:
    """A store directory at one moment; ``refresh`` moves to the present."""

    def __init__(
        self,
        directory: str | Path,
        *,
        files: Files | None = None,
        commit_logs: Sequence[str] = (),
        index_slots: int | None = None,
    ) -> None:
        """Open ``directory``; ``commit_logs`` when the log is elsewhere (storePathCommitLog)."""
        self.root = str(directory)
        self.files: Files = files if files is not None else OsFiles()
        self.log = LogView(self.files, commit_logs or (self._path("commitlog"),))
        self.index = IndexView(self.files, self._path("index"), slots=index_slots)
        self.table = QueueTable(
            self.files, self._path("consumequeue"), self._path("batchconsumequeue")
        )
        self._exts: dict[QueueKey, ExtView] = {}
        self._tail: LogTail | None = None
        self._bounds: dict[QueueKey, tuple[int, int]] = {}
        if not self.log.segments and not any(self.files.exists(self._path(n)) for n in _PARTS):
            raise StoreError(
                f"{self.root} is not a store directory: there is no commitlog in it; "
                "give storePathRootDir of a broker"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget every mapping; views already handed out stay valid."""
        self._exts, self._bounds, self._tail = {}, {}, None
        self.table.clear()

    def refresh(self) -> None:
        """Look again: new files, new messages, deleted files."""
        self.log.refresh()
        self.index.refresh()
        self._tail = None
        self._bounds = {}
        self._exts = {}
        self.table.refresh()

    # The state of the directory

    @property
    def is_live(self) -> bool:
        """Whether a broker has the directory open now."""
        return is_locked(self._path("lock"))

    @property
    def was_killed(self) -> bool:
        """Whether the abort file is there: a broker runs, or did not stop cleanly."""
        return self.files.exists(self._path("abort"))

    @property
    def marks(self) -> Marks:
        """The checkpoint."""
        return Marks.decode(self.files.read(self._path("checkpoint")))

    def config(self, name: str) -> Any:
        """A file of ``config/`` such as ``topics.json``, or its ``.bak``; None without either."""
        for suffix in ("", ".bak"):
            data = self.files.read(posixpath.join(self._path("config"), name + suffix))
            if data and data.strip():
                try:
                    return fastjson.loads(data)
                except ProtocolError:
                    continue
        return None

    @property
    def min_offset(self) -> int:
        """Where the log begins."""
        return self.log.min_offset

    @property
    def max_offset(self) -> int:
        """Where the whole records of the log end."""
        return self.tail.end

    @property
    def tail(self) -> LogTail:
        """What the log has and the queue files may not have."""
        if self._tail is None:
            crash = self.was_killed and not self.is_live
            start = self._crash_start() if crash else self._derived_end()
            self._tail = LogTail.derive(self.log, start, check_crc=crash)
        return self._tail

    # Queues

    def topics(self) -> list[str]:
        """Every topic that has a queue, sorted."""
        return sorted({topic for topic, _ in self.queues()})

    def queues(self, topic: str | None = None) -> list[QueueKey]:
        """Every queue, or those of a topic, sorted."""
        found = {*self.table.plain, *self.table.batches, *self.tail.queues, *self.tail.batches}
        return sorted(key for key in found if topic is None or key[0] == topic)

    def is_batch(self, topic: str, queue_id: int) -> bool:
        """Whether this queue has the 46-byte units of whole batches."""
        key = (topic, queue_id)
        return key in self.table.batches or key in self.tail.batches

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first queue offset that can be read, and the one after the last."""
        key = (topic, queue_id)
        found = self._bounds.get(key)
        if found is None:
            found = self._bounds[key] = (
                self._batch_bounds(key) if self.is_batch(*key) else self._plain_bounds(key)
            )
        return found

    def queue_units(self, topic: str, queue_id: int, *, start: int, end: int) -> bytes:
        """Raw 20-byte units (log offset, size, tags code) of a range of queue offsets."""
        key = (topic, queue_id)
        tail = self.tail.queues.get(key)
        view = self.table.plain.get(key)
        if tail is None or end <= tail.base:
            return view.units(start, end) if view else bytes((end - start) * QUEUE_UNIT)
        border = max(start, tail.base)
        before = view.units(start, border) if view else bytes((border - start) * QUEUE_UNIT)
        first, last = (border - tail.base) * QUEUE_UNIT, (end - tail.base) * QUEUE_UNIT
        return before + bytes(tail.units[first:last]).ljust(last - first, b"\0")

    def batch_units(self, topic: str, queue_id: int) -> list[BatchUnit]:
        """The units of a batch queue whose records the log still has."""
        key = (topic, queue_id)
        view = self.table.batches.get(key)
        units = {unit.base: unit for unit in view.units()} if view else {}
        units.update({unit.base: unit for unit in self.tail.batches.get(key, ())})
        end = self.max_offset
        return [unit for _, unit in sorted(units.items()) if self.min_offset <= unit.offset < end]

    def ext_unit(self, topic: str, queue_id: int, address: int) -> ExtUnit | None:
        """The unit of the queue's extension that a tags code points at."""
        view = self._exts.get((topic, queue_id))
        if view is None:
            folder = posixpath.join(self._path("consumequeue_ext"), topic, str(queue_id))
            view = self._exts[topic, queue_id] = ExtView(self.files, folder)
        return view.unit(address)

    # Messages

    def places(
        self, topic: str, queue_id: int, *, start: int, end: int
    ) -> Iterator[tuple[int, int, int]]:
        """Queue offset, log offset and size of every record of a range."""
        if self.is_batch(topic, queue_id):
            for unit in self.batch_units(topic, queue_id):
                if unit.base < end and unit.base + unit.messages > start:
                    yield unit.base, unit.offset, unit.size
            return
        while start < end:
            until = min(end, start + _UNITS_AT_ONCE)
            units = self.queue_units(topic, queue_id, start=start, end=until)
            for number, (offset, size, _) in enumerate(UNIT.iter_unpack(units)):
                if size != FILLER_SIZE:
                    yield start + number, offset, size
            start = until

    def raw_records(
        self,
        topic: str,
        queue_id: int,
        *,
        start: int = 0,
        end: int | None = None,
        check_crc: bool = False,
    ) -> Iterator[tuple[int, memoryview]]:
        """Queue offset and bytes of the records of a queue; of a batch queue, of whole batches.

        CorruptRecord when a unit points at something that is not its record.
        """
        low, high = self.bounds(topic, queue_id)
        start, end = max(start, low), high if end is None else min(end, high)
        for queue_offset, offset, size in self.places(topic, queue_id, start=start, end=end):
            record = self.log.find_record(offset, check_crc=check_crc)
            if record is None or len(record) != size:
                segment = self.log.find_segment(offset)
                if segment is None and offset < self.log.file_end:
                    continue  # retention took it meanwhile
                place = f"{segment.path} at {offset - segment.offset}" if segment else "the log"
                raise CorruptRecord(
                    f"{topic} queue {queue_id} offset {queue_offset}: no whole record of "
                    f"{size} bytes in {place}",
                    offset=offset,
                )
            yield queue_offset, record

    def records(
        self,
        topic: str,
        queue_id: int,
        *,
        start: int = 0,
        end: int | None = None,
        check_crc: bool = False,
    ) -> Iterator[Record]:
        """The messages of a queue, decoded."""
        found = self.raw_records(topic, queue_id, start=start, end=end, check_crc=check_crc)
        for _, record in found:
            yield decode_record(record)

    def log_records(
        self, *, start: int | None = None, end: int | None = None, check_crc: bool = False
    ) -> Iterator[tuple[int, memoryview]]:
        """Every record of the log in its order, with its offset."""
        first = self.min_offset if start is None else start
        return self.log.records(first, end, check_crc=check_crc)

    def record_at(self, offset: int, *, check_crc: bool = False) -> memoryview | None:
        """The whole record at a log offset."""
        return self.log.find_record(offset, check_crc=check_crc)

    # Searching

    def store_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """When a queue's message was stored; -1 when it cannot be read."""
        for _, offset, _ in self.places(topic, queue_id, start=queue_offset, end=queue_offset + 1):
            return self.log.store_ms(offset)
        return -1

    def offset_by_time(
        self, topic: str, queue_id: int, store_ms: int, *, upper: bool = False
    ) -> int:
        """The first queue offset stored at ``store_ms`` or later; the end without one.

        With ``upper`` the last one stored at ``store_ms`` or before; the beginning without one.
        """
        low, high = self.bounds(topic, queue_id)
        if self.is_batch(topic, queue_id):
            bases = [unit.base for unit in self.batch_units(topic, queue_id)]
        else:
            bases = None
        first, limit = (0, len(bases)) if bases is not None else (low, high)
        border = store_ms + 1 if upper else store_ms
        begin, end = first, limit
        while begin < end:
            middle = (begin + end) // 2
            queue_offset = middle if bases is None else bases[middle]
            if self.store_ms(topic, queue_id, queue_offset) < border:
                begin = middle + 1
            else:
                end = middle
        if upper:
            begin = max(begin - 1, first)
        if bases is None:
            return begin
        return bases[begin] if begin < limit else high

    def query_key(
        self,
        topic: str,
        key: str,
        *,
        count: int = COUNT_MAX,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[int]:
        """Log offsets of the newest ``count`` messages of a topic with a key, in log order.

        Only the hash of the key is indexed: compare the record's own keys.
        """
        count = min(count, COUNT_MAX)
        newer = self._unindexed(topic, key, begin_ms=begin_ms, end_ms=end_ms)[-count:]
        found = self.index.lookup(
            topic, key, count=count - len(newer), begin_ms=begin_ms, end_ms=end_ms
        )
        return sorted(found) + newer

    def plan(
        self,
        topics: Sequence[str] | None = None,
        *,
        splits: int,
        starts: Mapping[QueueKey, int] | None = None,
        ends: Mapping[QueueKey, int] | None = None,
        begin_ms: int | None = None,
        end_ms: int | None = None,
    ) -> list[Split]:
        """Divide the queues of some topics into about ``splits`` parts of like size.

        A queue's range is its bounds, narrowed by ``starts``/``ends`` (queue offsets) and by the
        store times from ``begin_ms`` to before ``end_ms``. Order within a queue is kept: parts of
        one queue follow each other in the answer.
        """
        return plan(
            self,
            topics,
            splits=splits,
            starts=starts or {},
            ends=ends or {},
            begin_ms=begin_ms,
            end_ms=end_ms,
        )

    # Inside

    def _unindexed(self, topic: str, key: str, *, begin_ms: int, end_ms: int) -> list[int]:
        """Records of the log's tail that the index does not know yet."""
        indexed = self.index.end_offset
        return [
            offset
            for offset, raw in self.log.records(max(self.tail.start, indexed), self.tail.end)
            if offset > indexed
            for record in [decode_record(raw)]
            if record.topic == topic
            and begin_ms <= record.store_ms <= end_ms
            and key in (*record.keys, record.unique_key)
        ]

    def _plain_bounds(self, key: QueueKey) -> tuple[int, int]:
        view, tail = self.table.plain.get(key), self.tail.queues.get(key)
        if view is None:
            return (tail.base, tail.end) if tail else (0, 0)
        high = view.first_at_or_after(self.tail.end, view.written())
        low = view.first_at_or_after(self.min_offset, high)
        if tail is None:
            return low, high
        return min(low, tail.base) if low < high else tail.base, tail.end

    def _batch_bounds(self, key: QueueKey) -> tuple[int, int]:
        units = self.batch_units(*key)
        return (units[0].base, units[-1].base + units[-1].messages) if units else (0, 0)

    def _derived_end(self) -> int:
        """The end of the newest record that a queue file knows of."""
        end = max(self.table.derived_end(), self.min_offset)
        return end if self.log.find_segment(end) else min(end, self.log.file_end)

    def _crash_start(self) -> int:
        segments = list(self.log.buffers())
        if not segments:
            return self.min_offset
        return segments[find_start(segments, self.marks.trusted_ms())][0]

    def _path(self, name: str) -> str:
        return posixpath.join(self.root, name)
