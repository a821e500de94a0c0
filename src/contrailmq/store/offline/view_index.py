"""Index files of a store directory, for reading only.

A file is a head, a table of slots and a list of entries; entries whose key hash falls into one
slot are chained from the newest back.  How many slots a file has is not written in it: the
default sizes are recognised, any other is found by looking for the one number of slots with which
the newest entry of the fullest file heads its chain.
"""

from __future__ import annotations

import itertools
import posixpath
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from contrailmq.protocol.ids import index_key_hash
from contrailmq.store.files import Files
from contrailmq.store.layout import INDEX_ENTRY, INDEX_HEAD, INDEX_SLOT, is_index_name

_HEAD: Final = struct.Struct(">qqqqii")
ENTRY: Final = struct.Struct(">iqii")
_DEFAULT_SLOTS: Final = 5_000_000
_DEFAULT_ENTRIES: Final = 20_000_000
COUNT_MAX: Final = 64


class IndexHead(NamedTuple):
    """The first 40 bytes; ``next_entry`` is one more than the number of entries."""

    begin_ms: int
    end_ms: int
    begin_offset: int
    end_offset: int
    slots_used: int
    next_entry: int


class Entry(NamedTuple):
    """One entry: ``seconds`` after the head's begin, ``previous`` in the chain or 0."""

    key_hash: int
    offset: int
    seconds: int
    previous: int


class IndexFileView:
    """One index file."""

    def __init__(self, path: str, data: memoryview) -> None:
        self.path = path
        self.data = data

    @property
    def head(self) -> IndexHead:
        """The head as it is now."""
        return IndexHead(*_HEAD.unpack_from(self.data, 0))

    def entry_position(self, slots: int, number: int) -> int:
        """Where an entry is in the file."""
        return INDEX_HEAD + INDEX_SLOT * slots + INDEX_ENTRY * number

    def entries_max(self, slots: int) -> int:
        """How many entries have room."""
        return (len(self.data) - INDEX_HEAD - INDEX_SLOT * slots) // INDEX_ENTRY

    def slot(self, number: int) -> int:
        """The newest entry of a slot, or 0."""
        at = INDEX_HEAD + INDEX_SLOT * number
        return int.from_bytes(self.data[at : at + INDEX_SLOT], "big", signed=True)

    def find_entry(self, slots: int, number: int) -> Entry | None:
        """An entry by its number; None when it lies outside the file."""
        at = self.entry_position(slots, number)
        if number < 0 or at + INDEX_ENTRY > len(self.data):
            return None
        return Entry(*ENTRY.unpack_from(self.data, at))

    def chain(self, slots: int, key_hash: int) -> Iterator[tuple[int, Entry]]:
        """The entries of a hash's slot from the newest back; ends at anything impossible."""
        if slots <= 0:
            return
        count = self.head.next_entry
        number = self.slot(key_hash % slots)
        while 0 < number <= count:
            entry = self.find_entry(slots, number)
            if entry is None:
                return
            yield number, entry
            if entry.previous >= number:  # a chain only leads back
                return
            number = entry.previous


class IndexView:
    """All index files, oldest first."""

    def __init__(self, files: Files, folder: str, *, slots: int | None = None) -> None:
        self._files = files
        self._folder = folder
        self._slots_given = slots
        self._slots: int | None = None
        self.files: list[IndexFileView] = []
        self.refresh()

    def refresh(self) -> None:
        """List the files again."""
        known = {view.path: view for view in self.files}
        self.files = []
        for name, size in self._files.entries(self._folder):
            path = posixpath.join(self._folder, name)
            if not is_index_name(name) or size < INDEX_HEAD:
                continue
            view = known.get(path)
            if view is None:
                try:
                    opened = self._files.open(path, writable=False, hold=False)
                except FileNotFoundError:
                    continue
                view = IndexFileView(path, opened.buffer)
                opened.close()
            self.files.append(view)
        self._slots = self._slots_given

    @property
    def slots(self) -> int:
        """Slots of every file; 0 when it cannot be told (nothing is indexed)."""
        found = self._slots
        if found is None:
            found = self._slots = _infer_slots(self.files)
        return found

    @property
    def end_offset(self) -> int:
        """The log offset of the newest record that is indexed; -1 without one."""
        heads = [view.head for view in self.files]
        return max((head.end_offset for head in heads if head.next_entry > 1), default=-1)

    def lookup(
        self, topic: str, key: str, *, count: int, begin_ms: int = 0, end_ms: int = (1 << 63) - 1
    ) -> list[int]:
        """Log offsets of entries with the key's hash, newest first (IndexService.queryOffset).

        Another key may have the same hash: whoever asks has to look at the record.
        """
        key_hash = index_key_hash(f"{topic}#{key}")
        count = min(count, COUNT_MAX)
        found: list[int] = []
        for view in reversed(self.files):
            head = view.head
            if head.next_entry > 1 and _overlaps(head, begin_ms, end_ms):
                for _, entry in view.chain(self.slots, key_hash):
                    if len(found) >= count:
                        break
                    if entry.seconds < 0:
                        break
                    entry_ms = head.begin_ms + entry.seconds * 1000
                    if entry.key_hash == key_hash and begin_ms <= entry_ms <= end_ms:
                        found.append(entry.offset)
                    if entry_ms < begin_ms:
                        break
            if len(found) >= count or head.begin_ms < begin_ms:
                break
        return found


def _overlaps(head: IndexHead, begin_ms: int, end_ms: int) -> bool:
    # IndexFile.isTimeMatched
    return begin_ms <= head.end_ms and end_ms >= head.begin_ms


def _infer_slots(files: list[IndexFileView]) -> int:
    """Slots of the files, by the fullest of them that makes sense."""
    filled = [view for view in files if view.head.next_entry > 1]
    for view in sorted(filled, key=lambda view: view.head.next_entry, reverse=True):
        slots = _slots_of(view)
        if slots:
            return slots
    return 0


def _slots_of(view: IndexFileView) -> int:
    room = len(view.data) - INDEX_HEAD
    if room == INDEX_SLOT * _DEFAULT_SLOTS + INDEX_ENTRY * _DEFAULT_ENTRIES:
        return _DEFAULT_SLOTS
    # The default's one slot to four entries first, then everything that fits.
    likely = room // (INDEX_SLOT + 4 * INDEX_ENTRY)
    others = range(1, (room - INDEX_ENTRY * view.head.next_entry) // INDEX_SLOT + 1)
    for slots in itertools.chain((likely,), others):
        if (room - INDEX_SLOT * slots) % INDEX_ENTRY == 0 and _fits(view, slots):
            return slots
    return 0


def _fits(view: IndexFileView, slots: int) -> bool:
    """Whether the last entries are where they must be with this many slots."""
    head = view.head
    newest = view.find_entry(slots, head.next_entry - 1)
    if slots <= 0 or newest is None or newest.key_hash < 0 or newest.offset != head.end_offset:
        return False
    if view.slot(newest.key_hash % slots) != head.next_entry - 1:
        return False
    used = 0
    for number in range(head.next_entry - 1, max(0, head.next_entry - 64), -1):
        entry = view.find_entry(slots, number)
        if entry is None or entry.key_hash < 0 or not 0 <= entry.previous < number:
            return False
        used += any(found == number for found, _ in view.chain(slots, entry.key_hash))
    return used == head.next_entry - 1 - max(0, head.next_entry - 64)
