"""Is a store directory whole?

``check`` looks at everything that can be looked at without changing it: names and sizes of files,
every record of the log, every unit of every queue and the record it points at, every chain of the
index and the records its entries point at, the checkpoint, the configuration files.

A *damage* is named by file and position and means that something written was lost or altered, or
that the original would not start.  A *note* is worth knowing and repairs itself: a broker that
runs or was killed, queues that have not caught up with the log.
"""

from __future__ import annotations

import posixpath
from typing import Final

from contrailmq.errors import ProtocolError
from contrailmq.protocol import fastjson
from contrailmq.store.layout import CHECKPOINT_SIZE, find_segment_offset
from contrailmq.store.offline.check_index import check_index
from contrailmq.store.offline.check_log import LogFacts, check_log
from contrailmq.store.offline.check_queues import QueueEnds, check_nothing_missing, check_queues
from contrailmq.store.offline.findings import Report
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.recovery.horizon import MARGIN_MS

_CONFIG_FILES: Final = (
    "topics.json",
    "subscriptionGroup.json",
    "consumerOffset.json",
    "delayOffset.json",
    "consumerFilter.json",
)


def check(reader: StoreReader, *, deep: bool = True) -> Report:
    """Look at everything; not ``deep`` leaves out what takes long (checksums, tags, keys)."""
    report = Report()
    live = reader.is_live
    if not reader.log.segments and any(view.written() for view in reader.table.plain.values()):
        text = (
            "there is no log for these queues; if it lies elsewhere, name the broker.conf (--conf)"
        )
        report.damage(posixpath.join(reader.root, "commitlog"), -1, text)
        return report
    ends = QueueEnds(reader)
    facts = check_log(reader.log, report, check_crc=deep, live=live)
    check_queues(reader, ends, report, log_end=facts.end, deep=deep)
    if deep:
        check_nothing_missing(reader, ends, report)
    check_index(reader, report, log_end=facts.end, deep=deep)
    _check_kinds(reader, report)
    _check_marks(reader, report, facts)
    _check_config(reader, report)
    _note_state(reader, report, live=live)
    return report


def _check_kinds(reader: StoreReader, report: Report) -> None:
    """Find what has the name of a segment and is no file: readers pass over it."""
    queues = posixpath.join(reader.root, "consumequeue")
    places = list(reader.log.folders)
    for topic in reader.files.folders(queues):
        folder = posixpath.join(queues, topic)
        places += [posixpath.join(folder, name) for name in reader.files.folders(folder)]
    for place in places:
        for name in (*reader.files.folders(place), *reader.files.oddities(place)):
            if find_segment_offset(name) is not None:
                text = "has the name of a segment and is no file; put the file back from a copy"
                report.damage(posixpath.join(place, name), -1, text)


def _check_marks(reader: StoreReader, report: Report, facts: LogFacts) -> None:
    path = posixpath.join(reader.root, "checkpoint")
    data = reader.files.read(path)
    if data is None:
        if reader.log.segments:
            report.note(path, -1, "there is no checkpoint: recovery would walk the whole log")
        return
    if len(data) != CHECKPOINT_SIZE:
        report.damage(path, -1, f"{len(data)} bytes, must be {CHECKPOINT_SIZE}")
        return
    marks = reader.marks
    for position, name, value in (
        (0, "log", marks.log_ms),
        (8, "queues", marks.queues_ms),
        (16, "index", marks.index_ms),
    ):
        if value < 0:
            report.damage(path, position, f"the time of the {name} is {value}")
        elif value - MARGIN_MS > facts.last_store_ms > 0 and not reader.is_live:
            report.damage(
                path,
                position,
                f"vouches for the {name} up to {value}, the last record is of "
                f"{facts.last_store_ms}",
            )


def _check_config(reader: StoreReader, report: Report) -> None:
    for name in _CONFIG_FILES:
        path = posixpath.join(reader.root, "config", name)
        data = reader.files.read(path)
        if data is None:
            continue
        report.counts["config files"] += 1
        try:
            fastjson.loads(data)
        except ProtocolError as error:
            if reader.config(name) is None:
                report.damage(path, -1, f"cannot be read: {error}")
            else:
                report.note(path, -1, f"cannot be read ({error}); its .bak can")


def _note_state(reader: StoreReader, report: Report, *, live: bool) -> None:
    abort = posixpath.join(reader.root, "abort")
    if live:
        report.note(abort, -1, "a broker has this directory open")
    elif reader.was_killed:
        report.note(abort, -1, "the broker was not stopped cleanly: it will recover when it starts")
    behind = sum(
        queue.end - max(queue.base, view.written() if view else 0)
        for key, queue in reader.tail.queues.items()
        for view in [reader.table.plain.get(key)]
        if queue.end > (view.written() if view else 0)
    )
    if behind:
        report.note(
            posixpath.join(reader.root, "consumequeue"),
            -1,
            f"the log is ahead of the queues by {behind}: they catch up at the next start",
        )
