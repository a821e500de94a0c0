"""Index files after a crash: which of them can be kept, and where they have to end.

Pages of a file that were not flushed may have gone back to what they were: entries to zeros, slots
to older heads, the head to an older count.  Each of these breaks a rule that a whole file keeps:
every entry is reached by exactly one chain, entries point ever further into the log, as many
slots are used as the head says.  A file that keeps all of them is kept; one that does not is
deleted and its entries are derived again.

Entries are added like cards to a stack, so they can be taken off again: the last record's, which
may have been indexed only in part, and those that point behind the end of the log.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Final, Protocol

from contrailmq._native.store import index as native
from contrailmq.store.index import Indexes
from contrailmq.store.layout import INDEX_ENTRY, INDEX_HEAD, INDEX_SLOT
from contrailmq.store.settings import StoreSettings

log = logging.getLogger(__name__)

_HEAD: Final = struct.Struct(">qqqqii")
_ENTRY: Final = struct.Struct(">iqii")
_SLOT: Final = struct.Struct(">i")


class IndexedLog(Protocol):
    """What is asked about the log while its index is looked at."""

    def store_ms(self, offset: int) -> int:
        """The store time of the record at an offset; 0 without one."""
        ...

    def key_count(self, offset: int) -> int:
        """How many entries the record at an offset has in the index; 0 without a record."""
        ...

    def next_keyed(self, offset: int) -> int:
        """The first record behind an offset (-1: of all) that has a key; -1 without one."""
        ...


def keep_sound(
    indexes: Indexes, settings: StoreSettings, *, safe_ms: int, indexed: IndexedLog
) -> tuple[int, int]:
    """After a crash: delete what is not sound.

    Files that end at ``safe_ms`` or before were flushed, and are believed.  The answer is the log
    offset from which keys have to be derived again, and up to when files are vouched for now.
    """
    kept, end, is_complete = 0, -1, True
    for file in indexes.indexes:
        writer = file.writer
        if not is_complete:
            break  # the file before this one was full once, and is not any more
        if (writer.end_ms > safe_ms or writer.count <= 1) and not is_sound(
            file.segment.buffer, slots=settings.index_slots, entries=settings.index_entries
        ):
            break
        # A file before this one may be lost: then its entries would be missing for ever.
        if writer.begin_offset != end and writer.begin_offset > indexed.next_keyed(end):
            break
        kept, end, is_complete = kept + 1, writer.end_offset, writer.is_full()
    while len(indexes.indexes) > kept:
        log.warning("index file is not whole: path=%s", indexes.indexes[-1].segment.path)
        indexes.drop_last()
    # What is believed without having been vouched for has to reach the disk like new files do.
    indexes.full += [file for file in indexes.indexes[:-1] if file.writer.end_ms > safe_ms]
    if end >= 0 and _entries_of(indexes, settings, end) != indexed.key_count(end):
        cut_behind(indexes, settings, from_offset=end, store_ms=indexed.store_ms)
    return max(end, 0), min(safe_ms, vouchable_ms(indexes))


def _entries_of(indexes: Indexes, settings: StoreSettings, offset: int) -> int:
    """How many entries at the end of the index point at an offset."""
    found = 0
    for file in reversed(indexes.indexes):
        for number in range(file.writer.count - 1, 0, -1):
            if _entry_offset(file.segment.buffer, settings.index_slots, number) != offset:
                return found
            found += 1
    return found


def vouchable_ms(indexes: Indexes) -> int:
    """The store time of the last record that is indexed; 0 without one."""
    last = indexes.last()
    return 0 if last is None else last.writer.end_ms


def cut_behind(
    indexes: Indexes,
    settings: StoreSettings,
    *,
    from_offset: int,
    store_ms: Callable[[int], int],
) -> None:
    """Take off every entry that points at ``from_offset`` of the log or behind."""
    while (last := indexes.last()) is not None:
        if last.writer.count > 1 and last.writer.end_offset < from_offset:
            return
        buffer = last.segment.buffer
        if cut(buffer, slots=settings.index_slots, from_offset=from_offset, store_ms=store_ms):
            indexes.read_last_again()
            return
        indexes.drop_last()


def is_sound(data: memoryview, *, slots: int, entries: int) -> bool:
    """Whether an index file keeps every rule; one without entries is not worth keeping."""
    _, _, begin_offset, end_offset, slots_used, count = _HEAD.unpack_from(data, 0)
    if not 1 < count <= entries:
        return False
    fault, used, reached = native.check_chains(data, slots, count, bytearray(count))
    if fault or used != slots_used or reached != count - 1:
        return False
    if native.find_disorder(data, slots, count):
        return False
    first = _entry_offset(data, slots, 1)
    return bool(first == begin_offset and _entry_offset(data, slots, count - 1) == end_offset)


def cut(data: memoryview, *, slots: int, from_offset: int, store_ms: Callable[[int], int]) -> bool:
    """Take off every entry that points at ``from_offset`` or behind; whether any is left.

    ``store_ms`` gives the store time of the record at a log offset.
    """
    begin_ms, end_ms, begin_offset, end_offset, used, count = _HEAD.unpack_from(data, 0)
    if count <= 1 or end_offset < from_offset:
        return bool(count > 1)
    while count > 1:
        at = INDEX_HEAD + INDEX_SLOT * slots + INDEX_ENTRY * (count - 1)
        key_hash, offset, _, before = _ENTRY.unpack_from(data, at)
        if offset < from_offset:
            end_offset, end_ms = offset, store_ms(offset)
            break
        slot_at = INDEX_HEAD + INDEX_SLOT * (key_hash % slots)
        _SLOT.pack_into(data, slot_at, before)
        used -= before == 0
        data[at : at + INDEX_ENTRY] = bytes(INDEX_ENTRY)
        count -= 1
    _HEAD.pack_into(data, 0, begin_ms, end_ms, begin_offset, end_offset, used, count)
    return bool(count > 1)


def _entry_offset(data: memoryview, slots: int, number: int) -> int:
    at = INDEX_HEAD + INDEX_SLOT * slots + INDEX_ENTRY * number
    offset: int = _ENTRY.unpack_from(data, at)[1]
    return offset
