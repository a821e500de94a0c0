"""The checkpoint file: up to which store time everything has reached the disk.

4096 bytes, of which the first forty are five numbers (docs/store-format.md): store time of the
last record flushed in the log, in the queues, in the index; the master's flushed offset and the
confirmed offset, which only replication uses.  Recovery after a crash begins at the newest
segment that is older than all of them.
"""

from __future__ import annotations

import struct
from typing import Final

from contrailmq.store.files import Files, Segment
from contrailmq.store.layout import CHECKPOINT_SIZE
from contrailmq.store.recovery.horizon import Marks

_FIELDS: Final = struct.Struct(">5q")


class Checkpoint:
    """The open checkpoint. Numbers only grow, and are written before they are synced."""

    def __init__(self, files: Files, path: str) -> None:
        self._segment: Segment = files.create(path, CHECKPOINT_SIZE)
        marks = Marks.decode(bytes(self._segment.buffer[: _FIELDS.size]))
        self.log_ms = marks.log_ms
        self.queues_ms = marks.queues_ms
        self.index_ms = marks.index_ms
        self.master_flushed_offset = marks.replicated_offset
        self.confirmed_offset = marks.confirmed_offset

    @property
    def marks(self) -> Marks:
        """The numbers as recovery uses them."""
        return Marks(
            self.log_ms,
            self.queues_ms,
            self.index_ms,
            self.master_flushed_offset,
            self.confirmed_offset,
        )

    def write(self) -> None:
        """Put the numbers into the file, not yet on disk."""
        _FIELDS.pack_into(self._segment.buffer, 0, *self.marks)

    def sync(self) -> None:
        """Make what was written last durable. Blocks."""
        self._segment.sync()

    def close(self) -> None:
        """Give up the file."""
        self._segment.close()
