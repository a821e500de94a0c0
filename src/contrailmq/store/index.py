"""Index files: from a message's keys to its place in the log.

Each file is a hash table of ``maxHashSlotNum`` slots and ``maxIndexNum`` entries, named after the
time of its creation (docs/store-format.md).  Only hashes are kept: whoever asks has to look at the
messages found.  Files are filled one after another; a full one is flushed and never changes.
"""

from __future__ import annotations

import logging
import posixpath
from typing import Final

from contrailmq._native import hashing
from contrailmq._native.store import index as native
from contrailmq.clock import Clock
from contrailmq.store.files import Files, Segment
from contrailmq.store.layout import (
    INDEX_ENTRY,
    INDEX_HEAD,
    INDEX_SLOT,
    Layout,
    index_name,
    is_index_name,
)
from contrailmq.store.settings import StoreSettings
from contrailmq.store.types import KeyMatches

log = logging.getLogger(__name__)
_RESERVE_ENTRIES: Final = 50_000


class IndexFile:
    """One file, open."""

    def __init__(self, segment: Segment, settings: StoreSettings) -> None:
        self.segment = segment
        self.writer = native.IndexWriter(
            segment.buffer, settings.index_slots, settings.index_entries
        )
        self._entries_at = INDEX_HEAD + INDEX_SLOT * settings.index_slots

    def reserve(self) -> None:
        """Real blocks for the next entries."""
        writer = self.writer
        limit = min(writer.count + _RESERVE_ENTRIES, writer.entries)
        self.segment.reserve(
            self._entries_at + INDEX_ENTRY * writer.count, self._entries_at + INDEX_ENTRY * limit
        )
        writer.limit = limit

    def covers(self, begin_ms: int, end_ms: int) -> bool:
        """Whether anything of that time may be in it."""
        return self.writer.begin_ms <= end_ms and self.writer.end_ms >= begin_ms


class Indexes:
    """All index files, oldest first. Owned by the loop."""

    def __init__(
        self, settings: StoreSettings, layout: Layout, files: Files, *, clock: Clock
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._files = files
        self._clock = clock
        self.indexes: list[IndexFile] = []
        self.full: list[IndexFile] = []  # written and not yet flushed
        self._is_renamed = False

    def load(self, *, safe_ms: int | None = None) -> None:
        """Open the files; after a crash those with entries newer than ``safe_ms`` are deleted."""
        for name, size in self._files.entries(self._layout.indexes):
            path = posixpath.join(self._layout.indexes, name)
            if not is_index_name(name) or size != self._layout.index_file_size:
                log.warning("not an index file of this store, left alone: path=%s", path)
                continue
            index = IndexFile(self._files.open(path), self._settings)
            if safe_ms is not None and index.writer.end_ms > safe_ms:
                self._drop(index)
                continue
            self.indexes.append(index)

    def last(self) -> IndexFile | None:
        """The newest file."""
        return self.indexes[-1] if self.indexes else None

    def room(self, writer: native.IndexWriter | None) -> native.IndexWriter:
        """A writer with a place for at least one entry: the deriver's call."""
        last = self.last()
        if last is None or last.writer.is_full():
            last = self._new(last)
        last.reserve()
        return last.writer

    def drop_last(self) -> None:
        """Delete the newest file."""
        self._drop(self.indexes.pop())

    def read_last_again(self) -> None:
        """The bytes of the newest file were changed: begin with what they say now."""
        self.indexes[-1] = IndexFile(self.indexes[-1].segment, self._settings)

    def query(self, topic: str, key: str, *, count: int, begin_ms: int, end_ms: int) -> KeyMatches:
        """Log offsets of the newest messages whose topic and key have this hash, in log order."""
        text = f"{topic}#{key}".encode()
        value = native.key_hash(hashing.java_hash(text, 0, len(text), 0))
        found: list[int] = []
        for index in reversed(self.indexes):
            if len(found) >= count:
                break
            if index.covers(begin_ms, end_ms):
                found += native.find(
                    index.segment.buffer,
                    self._settings.index_slots,
                    self._settings.index_entries,
                    value,
                    begin_ms,
                    end_ms,
                    count - len(found),
                )
            if index.writer.begin_ms < begin_ms:
                break
        found.sort()  # DefaultMessageStore.queryMessage
        last = self.last()
        if last is None:
            return KeyMatches(found, 0, 0)
        return KeyMatches(found, last.writer.end_ms, last.writer.end_offset)

    def forget_before(self, log_min: int) -> list[str]:
        """Let go of files all of whose entries lie before the log's start, never the last."""
        paths = []
        while len(self.indexes) > 1 and self.indexes[0].writer.end_offset < log_min:
            index = self.indexes.pop(0)
            index.segment.close()
            paths.append(index.segment.path)
        return paths

    def doubt_names(self) -> None:
        """Whether the names of these files are on disk is not known: count them as new."""
        self._is_renamed = bool(self.indexes)

    def take_renamed(self) -> set[str]:
        """The folder, if files were made or removed in it since the last call."""
        is_renamed, self._is_renamed = self._is_renamed, False
        return {self._layout.indexes} if is_renamed else set()

    def take_full(self) -> list[IndexFile]:
        """Files that became full since the last call; the caller syncs them."""
        full, self.full = self.full, []
        return full

    def close(self) -> None:
        """Unmap everything."""
        for index in self.indexes:
            index.segment.close()
        self.indexes.clear()

    def _new(self, last: IndexFile | None) -> IndexFile:
        now_ms = self._clock.now_ms()
        name = index_name(now_ms)
        while last is not None and name <= posixpath.basename(last.segment.path):
            # Two files within a millisecond, or a clock that was set back.
            name = f"{int(posixpath.basename(last.segment.path)) + 1:017d}"
        segment = self._files.create(
            posixpath.join(self._layout.indexes, name), self._layout.index_file_size, reserve=False
        )
        segment.reserve(0, INDEX_HEAD + INDEX_SLOT * self._settings.index_slots)
        self._is_renamed = True
        index = IndexFile(segment, self._settings)
        if last is None:
            index.writer.begin(0, 0)
        else:
            index.writer.begin(last.writer.end_ms, last.writer.end_offset)
            self.full.append(last)
        self.indexes.append(index)
        return index

    def _drop(self, index: IndexFile) -> None:
        path = index.segment.path
        index.segment.close()
        self._files.remove(path)
        self._is_renamed = True
