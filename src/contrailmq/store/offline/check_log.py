"""Check the commit log: names, sizes, every record, blank records, what follows the last."""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq._native.store import scan
from contrailmq.store.offline.findings import Report
from contrailmq.store.offline.view_log import LogSegment, LogView


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Where the whole records of the log end, and when the last of them was stored."""

    end: int
    last_store_ms: int


def check_log(log: LogView, report: Report, *, check_crc: bool, live: bool) -> LogFacts:
    """Walk every segment. Of a live log the record at the very end may be half written."""
    _check_names(log, report)
    end, last_ms, ended = log.min_offset, 0, False
    for segment in log.segments:
        data = log.buffer(segment)
        if data is None:
            continue  # retention took it meanwhile
        position, count, reason, store_ms = scan.walk(
            data, 0, len(data), segment.offset, check_crc, scan.NO_DOUBT
        )
        report.counts["segments"] += 1
        report.counts["records"] += count
        report.counts["record bytes"] += position
        if ended:
            if count:
                report.damage(
                    segment.path, 0, f"{count} records after a place where the log is broken off"
                )
            continue
        if count:
            end, last_ms = segment.offset + position, store_ms
        if reason == scan.BLANK:
            end = segment.end_offset
            size = int.from_bytes(data[position : position + 4], "big")
            if size != len(data) - position:
                report.damage(
                    segment.path,
                    position,
                    f"blank record of {size} bytes, {len(data) - position} are left",
                )
        elif reason == scan.END:
            end = segment.end_offset
        else:
            ended = True
            _check_end(segment, data, position, why=(reason, live), report=report)
    return LogFacts(end, last_ms)


def _check_end(
    segment: LogSegment,
    data: memoryview,
    position: int,
    *,
    why: tuple[int, bool],
    report: Report,
) -> None:
    reason, live = why
    if reason in scan.DAMAGE:
        text = f"{scan.DAMAGE[reason]}; whole records end here"
        if live and not _written_again(data, position):
            report.note(segment.path, position, f"{text} (the broker may be writing it)")
        else:
            report.damage(segment.path, position, text)
    elif not live and any(data[position : position + 3 * scan.PAGE]):
        report.damage(segment.path, position, "something was written after the last record")


def _written_again(data: memoryview, position: int) -> bool:
    """Whether a record follows the broken place within the same segment: it is no tail."""
    size = int.from_bytes(data[position : position + 4], "big")
    after = position + size
    if size == 0 or after + 8 > len(data):
        return False
    return any(data[after : after + 8])


def _check_names(log: LogView, report: Report) -> None:
    size = log.segment_size
    for number, segment in enumerate(log.segments):
        if segment.size != size:
            report.damage(segment.path, -1, f"{segment.size} bytes, the other segments have {size}")
        if number and segment.offset != log.segments[number - 1].end_offset:
            before = log.segments[number - 1]
            report.damage(
                segment.path, -1, f"begins at {segment.offset}, {before.path} ends at "
                f"{before.end_offset}"
            )  # fmt: skip
