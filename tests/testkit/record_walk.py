"""Where records are, found by the plain side of the map: what tests compare compiled loops with."""

from __future__ import annotations

from contrailmq._native import record


def record_positions(data: bytes, start: int = 0, end: int | None = None) -> list[int]:
    """Return the positions of the records back to back between two positions."""
    return walk_records(data, start, end)[0]


def walk_records(data: bytes, start: int = 0, end: int | None = None) -> tuple[list[int], int, int]:
    """Return the positions of records, where they stop, and why."""
    limit = len(data) if end is None else end
    found: list[int] = []
    at = start
    while at < limit:
        reason = _reason(data, at, limit)
        if reason != record.END:
            return found, at, reason
        found.append(at)
        at += record.size_of(data, at)
    return found, at, record.END


def _reason(data: bytes, at: int, limit: int) -> int:
    if limit - at < record.START_SIZE:
        return record.CUT
    size, magic = record.size_of(data, at), record.magic(data, at)
    if magic == record.MAGIC_BLANK:
        return record.BLANK
    if not record.is_record(magic):
        return record.BAD_MAGIC if size or magic else record.EMPTY
    if not record.SIZE_MIN <= size <= record.SIZE_MAX:
        return record.BAD_SIZE
    if size > limit - at:
        return record.CUT
    spans = record.locate(data, at, size)
    return record.END if spans.size > 0 and spans.end == at + size else record.BAD_FIELDS
