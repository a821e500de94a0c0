"""Check the consume queues: names, sizes, holes, and that every unit points at its own record."""

from __future__ import annotations

import posixpath
from typing import Final

from contrailmq._native.store import scan
from contrailmq.protocol.ids import tags_code
from contrailmq.protocol.names import SCHEDULE_TOPIC
from contrailmq.protocol.properties import PROPERTY_TAGS, decode_properties
from contrailmq.store.layout import BATCH_QUEUE_UNIT, QUEUE_UNIT
from contrailmq.store.offline.findings import Report
from contrailmq.store.offline.plan import QueueKey
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.offline.view_queues import (
    FILLER_SIZE,
    UNIT,
    BatchQueueView,
    QueueFiles,
    QueueView,
    Unit,
)
from contrailmq.store.offline.view_tail import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    LogTail,
)
from contrailmq.store.recovery.queue_marks import QueueMarks, tail_crc

_UNITS_AT_ONCE: Final = 8192
_WRONG: Final = {
    scan.BAD_SIZE: "the record there has another size",
    scan.BAD_PLACE: "the record there has another queue or queue offset",
    scan.BAD_FIELDS: "the record there is of another topic",
}


class QueueEnds:
    """How far every queue reached before the log was looked at.

    A live broker goes on writing: what came after this moment is not checked.
    """

    def __init__(self, reader: StoreReader) -> None:
        self.plain = {key: view.written() for key, view in reader.table.plain.items()}
        self.batches = {key: list(view.units()) for key, view in reader.table.batches.items()}


def check_queues(
    reader: StoreReader, ends: QueueEnds, report: Report, *, log_end: int, deep: bool
) -> None:
    """Check every queue file; ``deep`` compares tags codes with the records' own tags."""
    for key, view in sorted(reader.table.plain.items()):
        checker = _QueueCheck(reader, view, report, log_end=log_end)
        checker.check(ends.plain[key], deep=deep)
    for _, batch in sorted(reader.table.batches.items()):
        _check_files(batch.files, BATCH_QUEUE_UNIT, report)
        _check_batches(reader, batch, ends, report)
        report.counts["batch queues"] += 1


def check_nothing_missing(reader: StoreReader, ends: QueueEnds, report: Report) -> None:
    """Every record of the log that belongs into a queue must be there.

    Of a broker that runs or was killed, what the newest unit of all queues does not reach is late,
    not missing; a clean stop leaves nothing behind.  Records older than the newest of their queue
    may be of a topic that was deleted and created again; of one that has no message since, only
    our own marks know it.
    """
    late = reader.tail.start if reader.was_killed else reader.max_offset
    known, marks = _known_topics(reader), _find_marks(reader)
    missing: dict[QueueKey, tuple[int, int]] = {}
    for offset, record in reader.log_records(end=min(late, reader.max_offset)):
        facts = scan.fields(record, 0)
        if facts[3] & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
            continue
        topic = bytes(record[facts[7] : facts[7] + facts[8]]).decode("utf-8", "replace")
        key = (topic, facts[1])
        is_batch = bool(facts[3] & INNER_BATCH)
        if key in missing or topic not in known or (key in ends.batches and not is_batch):
            continue  # a topic of batches has no place for anything else
        if marks and not is_batch and offset < marks.log_end and not marks.has(*key):
            continue
        end, newest = _last_of_batches(ends, key) if is_batch else _last(reader, ends, key)
        if facts[2] >= end and offset > newest:
            missing[key] = offset, end
    for key, (offset, end) in sorted(missing.items()):
        segment = reader.log.find_segment(offset)
        assert segment is not None
        text = f"this record is not in {key[0]} queue {key[1]}, which ends at {end}"
        report.damage(segment.path, offset - segment.offset, text)


def _last(reader: StoreReader, ends: QueueEnds, key: QueueKey) -> tuple[int, int]:
    """The queue offset a queue ends at, and the log offset of its last record; -1 without one."""
    view, end = reader.table.plain.get(key), ends.plain.get(key, 0)
    return end, -1 if view is None or end <= view.first else view.unit(end - 1).offset


def _last_of_batches(ends: QueueEnds, key: QueueKey) -> tuple[int, int]:
    units = ends.batches.get(key)
    return (units[-1].base + units[-1].messages, units[-1].offset) if units else (0, -1)


def _find_marks(reader: StoreReader) -> QueueMarks | None:
    """What a broker of ours has noted of its queues, if it is of this log."""
    marks = QueueMarks.decode(reader.files.read(posixpath.join(reader.root, "queuemarks")))
    segment = reader.log.find_segment(marks.log_end - 1) if marks is not None else None
    data = reader.log.buffer(segment) if segment is not None else None
    if marks is None or segment is None or data is None:
        return None
    return marks if tail_crc(data, segment.offset, marks.log_end) == marks.tail else None


def _known_topics(reader: StoreReader) -> set[str]:
    """Topics that exist; records of others were left behind when their topic was deleted."""
    config = reader.config("topics.json")
    table = config.get("topicConfigTable") if isinstance(config, dict) else None
    return {topic for topic, _ in (*reader.table.plain, *reader.table.batches)} | set(table or ())


class _QueueCheck:
    def __init__(
        self, reader: StoreReader, view: QueueView, report: Report, *, log_end: int
    ) -> None:
        self._reader = reader
        self._view = view
        self._report = report
        self._log_end = log_end
        self._topic = view.topic.encode()

    def check(self, written: int, *, deep: bool) -> None:
        """Check the units before ``written``."""
        self._report.counts["queues"] += 1
        _check_files(self._view.files, QUEUE_UNIT, self._report)
        start = self._view.first_at_or_after(self._reader.min_offset, written)
        if deep:
            self._check_expired(start)
        self._report.counts["units"] += written - start
        while start < written:
            end = min(written, start + _UNITS_AT_ONCE)
            self._check_run(start, self._view.units(start, end))
            if deep:
                self._check_tags(start, end)
            start = end
        self._check_holes(written)

    def _check_expired(self, end: int) -> None:
        """Units before ``end`` point at what is gone from the log, or fill the place."""
        for start in range(self._view.first, end, _UNITS_AT_ONCE):
            units = self._view.units(start, min(end, start + _UNITS_AT_ONCE))
            for number, values in enumerate(UNIT.iter_unpack(units)):
                unit = Unit(*values)
                is_gone = unit.size > 0 and 0 <= unit.offset < self._reader.min_offset
                if not is_gone and unit.size != FILLER_SIZE:
                    self._wrong(start + number, unit, "units after it point before the log")

    def _check_run(self, start: int, units: bytes) -> None:
        index, count = 0, len(units) // QUEUE_UNIT
        while index < count:
            unit = Unit(*UNIT.unpack_from(units, index * QUEUE_UNIT))
            if unit.size == FILLER_SIZE:
                self._report.counts["gaps"] += 1  # the log had no such message, or lost it
                index += 1
                continue
            segment = self._reader.log.find_segment(unit.offset)
            data = self._reader.log.buffer(segment) if segment else None
            if segment is None or data is None or unit.offset >= self._log_end:
                self._wrong(start + index, unit, self._why_outside(unit))
                index += 1
                continue
            limit = data[: self._log_end - segment.offset]
            index, reason = scan.match_units(
                units, index, start, limit, segment.offset, self._view.queue_id, self._topic
            )
            if reason != scan.END:
                unit = Unit(*UNIT.unpack_from(units, index * QUEUE_UNIT))
                if unit.size == FILLER_SIZE:
                    continue
                self._wrong(start + index, unit, _WRONG.get(reason, "no whole record is there"))
                index += 1

    def _why_outside(self, unit: Unit) -> str:
        if unit.size <= 0:
            return "the unit was never written, though later ones were"
        if unit.offset >= self._log_end:
            return f"the log ends at {self._log_end}"
        return f"the log begins at {self._reader.min_offset}"

    def _wrong(self, queue_offset: int, unit: Unit, why: str) -> None:
        path, position = self._view.place(queue_offset)
        self._report.damage(
            path,
            position,
            f"queue offset {queue_offset} points at {unit.size} bytes at {unit.offset}: {why}",
        )

    def _check_tags(self, start: int, end: int) -> None:
        units = self._view.units(start, end)
        for number, values in enumerate(UNIT.iter_unpack(units)):
            unit = Unit(*values)
            record = self._reader.log.find_record(unit.offset)
            if record is None or unit.size == FILLER_SIZE:
                continue
            facts = scan.fields(record, 0)
            code = unit.tags_code
            if unit.is_ext:
                ext = self._reader.ext_unit(self._view.topic, self._view.queue_id, code)
                if ext is None or ext.store_ms != facts[4]:
                    self._wrong(start + number, unit, f"its extension is not at the address {code}")
                    continue
                code = ext.tags_code
            properties = decode_properties(record[facts[9] : facts[9] + facts[10]])
            if self._view.topic == SCHEDULE_TOPIC and "DELAY" in properties:
                right = code >= facts[4]  # the time of delivery
            else:
                right = code == tags_code(properties.get(PROPERTY_TAGS))
            if not right:
                self._wrong(start + number, unit, f"{code} is not the code of the record's tags")

    def _check_holes(self, written: int) -> None:
        """After the last unit everything must be untouched."""
        if self._reader.is_live:
            return
        files = self._view.files
        for start in files.starts:
            data = files.data(start)
            if data is None:
                continue
            rest = bytes(data[max(written * QUEUE_UNIT - start, 0) :])
            if rest == bytes(len(rest)):
                continue
            queue_offset = (start + len(data) - len(rest.lstrip(b"\0"))) // QUEUE_UNIT
            path, position = self._view.place(queue_offset)
            self._report.damage(
                path, position, f"a unit at queue offset {queue_offset}, after unwritten ones"
            )
            return


def _check_files(files: QueueFiles, unit_size: int, report: Report) -> None:
    for number, start in enumerate(files.starts):
        data = files.data(start)
        if data is None:
            continue
        if len(data) != files.file_size:
            report.damage(
                files.path(start), -1, f"{len(data)} bytes, the other files have {files.file_size}"
            )
        if len(data) % unit_size:
            report.damage(
                files.path(start),
                -1,
                f"{len(data)} bytes are not a number of {unit_size}-byte units",
            )
        if number and start != files.starts[number - 1] + files.file_size:
            report.damage(files.path(start), -1, "the file before it is missing")


def _check_batches(
    reader: StoreReader, view: BatchQueueView, ends: QueueEnds, report: Report
) -> None:
    following: int | None = None
    for number, unit in enumerate(ends.batches[view.topic, view.queue_id]):
        report.counts["batch units"] += 1
        path, position = view.place(number)
        if unit.offset < reader.min_offset:
            continue
        record = reader.log.find_record(unit.offset)
        if record is None or len(record) != unit.size:
            report.damage(path, position, f"no record of {unit.size} bytes at {unit.offset}")
            continue
        derived = LogTail(unit.offset)
        derived.add(unit.offset, record)
        wanted = derived.batches.get((view.topic, view.queue_id))
        if wanted is None or wanted[0].base != unit.base:
            report.damage(path, position, f"the record at {unit.offset} is of another batch")
        elif wanted[0]._replace(compacted=unit.compacted, reserved=unit.reserved) != unit:
            report.damage(path, position, f"is not what the record at {unit.offset} says")
        if following is not None and unit.base != following:
            report.damage(path, position, f"begins with {unit.base}, {following} is next")
        following = unit.base + unit.messages
