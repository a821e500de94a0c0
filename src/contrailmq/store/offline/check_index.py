"""Check the index files: sizes, heads, chains, and that every entry points at a record."""

from __future__ import annotations

import posixpath
from typing import Final

from contrailmq._native.store import index as native
from contrailmq.protocol.ids import index_key_hash
from contrailmq.protocol.message import decode_record
from contrailmq.store.offline.findings import Report
from contrailmq.store.offline.reader import StoreReader
from contrailmq.store.offline.view_index import IndexFileView, IndexHead
from contrailmq.store.settings import INT_MAX

_FAULTS: Final = {
    1: "leads to an entry that does not exist",
    2: "does not lead back",
    3: "runs into another chain",
    4: "has an entry of another slot",
}


def check_index(reader: StoreReader, report: Report, *, log_end: int, deep: bool) -> None:
    """Check every index file; ``deep`` compares entries with the keys of their records."""
    index = reader.index
    size = max((len(view.data) for view in index.files), default=0)
    for view in index.files:
        report.counts["index files"] += 1
        if len(view.data) != size:
            report.damage(view.path, -1, f"{len(view.data)} bytes, the other files have {size}")
            continue
        head = view.head
        if head.next_entry <= 1:
            continue
        if not index.slots:
            report.damage(view.path, 0, "no number of slots makes sense of this file")
            return
        if head.next_entry > view.entries_max(index.slots):
            report.damage(
                view.path,
                36,
                f"says {head.next_entry} entries, {view.entries_max(index.slots)} have room",
            )
            continue
        report.counts["index entries"] += head.next_entry - 1
        if not reader.is_live:
            _check_chains(view, head, index.slots, report)
        _check_entries(reader, view, report, log_end=log_end, deep=deep)


def _check_chains(view: IndexFileView, head: IndexHead, slots: int, report: Report) -> None:
    seen = bytearray(head.next_entry)
    fault, slot, entry = native.check_chains(view.data, slots, head.next_entry, seen)
    if fault:
        report.damage(
            view.path,
            view.entry_position(slots, entry) if fault > 1 else 40 + 4 * slot,
            f"the chain of slot {slot} {_FAULTS[fault]} (entry {entry})",
        )
        return
    if entry != head.next_entry - 1:
        lost = seen.index(0, 1)
        report.damage(view.path, view.entry_position(slots, lost), f"no chain reaches entry {lost}")
    if slot != head.slots_used:
        report.damage(view.path, 32, f"says {head.slots_used} slots are used, {slot} are")


def _check_entries(
    reader: StoreReader, view: IndexFileView, report: Report, *, log_end: int, deep: bool
) -> None:
    head, slots = view.head, reader.index.slots
    if not head.begin_ms <= head.end_ms or not head.begin_offset <= head.end_offset:
        report.damage(view.path, 0, "ends before it begins")
    lost = _quarantined(reader)
    step = 1 if deep else max(1, head.next_entry // 1000)
    for number in range(1, head.next_entry, step):
        entry = view.find_entry(slots, number)
        if entry is None or 0 <= entry.offset < reader.min_offset:
            continue
        if any(start <= entry.offset < end for start, end in lost):
            report.counts["index entries of damaged records"] += 1
            continue
        position = view.entry_position(slots, number)
        if entry.offset >= log_end:
            report.damage(
                view.path, position, f"points at {entry.offset}, the log ends at {log_end}"
            )
            continue
        raw = reader.log.find_record(entry.offset)
        if raw is None:
            report.damage(view.path, position, f"points at {entry.offset}, no record is there")
            continue
        record = decode_record(raw)
        keys = [*record.keys, record.unique_key]
        if not any(index_key_hash(f"{record.topic}#{key}") == entry.key_hash for key in keys):
            report.damage(
                view.path, position, f"the record at {entry.offset} has no key with this hash"
            )
        seconds = min(max(record.store_ms - head.begin_ms, 0) // 1000, INT_MAX)
        if number > 1 and head.begin_ms > 0 and entry.seconds != seconds:
            # (The first one counts from the file before.)
            report.damage(
                view.path, position, f"says {entry.seconds} s, the record is of second {seconds}"
            )


def _quarantined(reader: StoreReader) -> list[tuple[int, int]]:
    """Return the ranges of the log that recovery found damaged and kept aside."""
    return [
        (int(entry.name), int(entry.name) + entry.size)
        for entry in reader.files.entries(posixpath.join(reader.root, "quarantine"))
        if entry.name.isascii() and entry.name.isdigit()
    ]
