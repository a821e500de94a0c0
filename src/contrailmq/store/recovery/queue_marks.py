"""How far every queue had come: the file ``queuemarks``, by which lost queue files are noticed.

A queue can be made again from the log, but to see that one is missing, or ends too early, somebody
must remember that it was there.  The log remembers, and reading ten gigabytes of it at every start
is too slow; so a store writes down where each of its queues begins and ends, when it is ready and
when it stops.  A queue only grows, so what was written down stays true when more was stored
since, by us or by another broker, and even after a crash: a queue that now has less has lost it.

The file is ours alone; other brokers leave it be.  Its first line is a checksum of the rest, which
is JSON: where the log began and ended then, a checksum of the log's last bytes before that end, and
for each queue its first byte, its end and the end of the last record it has.  A file that is
damaged, or was written for another log, counts for nothing.

A queue that was deleted on purpose is struck out.  One that another broker deleted is not; there
``topics.json`` decides, for a topic that is gone from it was deleted.  A deleted topic leaves a
note of where the log ended then: after a crash its records are derived again, and a queue that has
only records from before the note is deleted once more.
"""

from __future__ import annotations

import json
import logging
import posixpath
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from contrailmq.errors import ProtocolError, StoreError
from contrailmq.protocol import fastjson
from contrailmq.store.consume_queue import ConsumeQueue, ConsumeQueues
from contrailmq.store.files import Files
from contrailmq.store.layout import Layout
from contrailmq.store.segments import Segments

log = logging.getLogger(__name__)

_VERSION: Final = 1
_TAIL: Final = 4096
_DELETED_MAX: Final = 100_000  # topics; beyond, the oldest is forgotten and may return by a crash
_SYSTEM: Final = ("rmq_sys_", "RMQ_SYS_", "SCHEDULE_TOPIC_XXXX", "TRANS_CHECK_MAX_TIME_TOPIC")
_NOT_DERIVED: Final = "%LMQ%"  # queues of another broker's making, which the log alone cannot give


class QueueMark(NamedTuple):
    """One queue: its first byte on disk, its end, and the end of the last record it has."""

    first: int
    max_offset: int
    log_end: int


class QueueMarks:
    """The marks of a store at one moment."""

    def __init__(
        self, log_range: tuple[int, int], tail: int, queues: dict[str, dict[int, QueueMark]]
    ) -> None:
        self.log_min, self.log_end = log_range
        self.tail = tail
        self.queues = queues
        self.deleted: dict[str, int] = {}  # topic -> where the log ended when it was deleted

    @classmethod
    def take(cls, segments: Segments, end: int, queues: Iterable[ConsumeQueue]) -> QueueMarks:
        """The present state; ``end`` is where the log ends, all of which is derived."""
        table: dict[str, dict[int, QueueMark]] = {}
        for queue in queues:
            if queue.max_offset and not queue.topic.startswith(_NOT_DERIVED):
                mark = QueueMark(
                    queue.segments.first_offset, queue.max_offset, queue.writer.log_end
                )
                table.setdefault(queue.topic, {})[queue.queue_id] = mark
        return cls((segments.first_offset, end), _tail(segments, end), table)

    @classmethod
    def decode(cls, data: bytes | None) -> QueueMarks | None:
        """Read the file; None when there is none, or it is not whole."""
        check, _, text = (data or b"").partition(b"\n")
        try:
            if int(check, 16) != zlib.crc32(text):
                return None
            found: dict[str, Any] = json.loads(text)
            if found["version"] != _VERSION:
                return None
            queues = {
                str(topic): {int(number): QueueMark(*map(int, m)) for number, m in ids.items()}
                for topic, ids in found["queues"].items()
            }
            marks = cls((int(found["logMin"]), int(found["logEnd"])), int(found["tail"]), queues)
            deleted = found.get("deleted", {})
            marks.deleted = {str(topic): int(end) for topic, end in deleted.items()}
            return marks
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def encode(self) -> bytes:
        """The bytes of the file; the same for the same state."""
        value: dict[str, object] = {
            "version": _VERSION,
            "logMin": self.log_min,
            "logEnd": self.log_end,
            "tail": self.tail,
            "queues": {
                topic: {str(number): list(mark) for number, mark in sorted(ids.items())}
                for topic, ids in sorted(self.queues.items())
            },
        }
        if self.deleted:
            value["deleted"] = self.deleted
        text = json.dumps(value, separators=(",", ":")).encode() + b"\n"
        return b"%08x\n" % zlib.crc32(text) + text

    def fits(self, segments: Segments) -> bool:
        """Whether they were taken of this log: its bytes before the end then are the same."""
        if not segments.first_offset <= self.log_end <= segments.limit_offset:
            return False
        return _tail(segments, self.log_end) == self.tail

    def has(self, topic: str, queue_id: int) -> bool:
        """Whether the queue was there then: one that was not, was deleted or had nothing yet."""
        return queue_id in self.queues.get(topic, {})

    def forget(self, queues: Iterable[ConsumeQueue], deleted: Mapping[str, int]) -> bool:
        """Strike out queues, and note topics, that were deleted. Returns whether that is news."""
        changed = bool(deleted)
        for queue in queues:
            changed |= self.queues.get(queue.topic, {}).pop(queue.queue_id, None) is not None
        for topic, end in deleted.items():
            self.deleted.pop(topic, None)
            self.deleted[topic] = end
        while len(self.deleted) > _DELETED_MAX:
            del self.deleted[next(iter(self.deleted))]
        return changed

    def is_deleted(self, queue: ConsumeQueue) -> bool:
        """Whether a queue has only records from before its topic was deleted."""
        return queue.writer.log_end <= self.deleted.get(queue.topic, -1)

    def __iter__(self) -> Iterator[tuple[str, int, QueueMark]]:
        for topic, ids in self.queues.items():
            for number, mark in ids.items():
                yield topic, number, mark

    def __repr__(self) -> str:
        count = sum(map(len, self.queues.values()))
        return f"<QueueMarks log={self.log_min}..{self.log_end} queues={count}>"


class MarksFile:
    """The marks on disk. Owned by the loop."""

    def __init__(self, files: Files, layout: Layout) -> None:
        self._files = files
        self._layout = layout
        self._path = posixpath.join(layout.root, "queuemarks")
        self._now: QueueMarks | None = None
        self._named: Container[str] | None = None

    def read(self, segments: Segments) -> QueueMarks | None:
        """The marks, if they are whole and of this log."""
        found = QueueMarks.decode(self._files.read(self._path))
        return found if found is not None and found.fits(segments) else None

    def note(self, segments: Segments, end: int, queues: Iterable[ConsumeQueue]) -> None:
        """Take the marks now; ``end`` is the end of the log, all of which is derived."""
        marks = QueueMarks.take(segments, end, queues)
        known = self._now or self.read(segments)
        if known is not None:
            first = segments.first_offset
            marks.deleted = {topic: at for topic, at in known.deleted.items() if at > first}
        self._write(marks)

    def _write(self, marks: QueueMarks) -> None:
        # Where it fails the old marks stay, which are true as well.
        self._now = marks
        data = marks.encode()
        if data == self._files.read(self._path):
            return
        try:
            self._files.replace(self._path, data)
        except (OSError, StoreError) as error:
            log.warning("marks of the queues not written: error=%s", error)

    def forget(self, queues: Iterable[ConsumeQueue], deleted: Mapping[str, int]) -> None:
        """Note that queues are deleted, and where the log ends for topics deleted as a whole."""
        if self._now is not None and self._now.forget(queues, deleted):
            self._write(self._now)

    def is_missed(self, queues: ConsumeQueues, topic: str) -> bool:
        """Whether a topic without a single queue has lost them: it was not simply deleted."""
        if queues.of_topic(topic) or topic.startswith(_SYSTEM):
            return True
        if self._named is None:
            data = self._files.read(posixpath.join(self._layout.config, "topics.json"))
            self._named = _Every() if data is None else _named_topics(data)
        return topic in self._named


class _Every:
    """What holds everything: no table of topics says otherwise."""

    def __contains__(self, item: object) -> bool:
        return True


def _named_topics(data: bytes) -> Container[str]:
    try:
        table: dict[str, Any] = fastjson.loads(data)["topicConfigTable"]
    except (ProtocolError, KeyError, TypeError):
        return _Every()
    return table


def _tail(segments: Segments, end: int) -> int:
    """A checksum of the log's last bytes before an offset, of one segment."""
    segment = segments.find(end - 1) if end > segments.first_offset else None
    if segment is None:
        return 0
    return tail_crc(segment.buffer, segments.base_of(end - 1), end)


def tail_crc(buffer: memoryview, base: int, end: int) -> int:
    """The checksum of the bytes before an offset, of the segment that begins at ``base``."""
    return zlib.crc32(buffer[max(end - base - _TAIL, 0) : end - base])
