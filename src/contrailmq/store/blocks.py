"""Real blocks for the log's segments, in steps ahead of the writer.

A segment is a sparse file of full length, as Java wants it.  Blocks are reserved up to the
writer's ``ready``: by a thread (``ahead``), or by the log when the writer comes first.  So a store
that holds little takes little, and a full disk is noticed before a record is written, never by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from contrailmq._native.store.log import LogWriter
from contrailmq.store.files import Files, Segment

STEP: Final = 64 * 1024 * 1024


class Blocks:
    """Decides how far a segment of the log has blocks."""

    def __init__(
        self, writer: LogWriter, *, segment_size: int, record_size_max: int, whole: bool
    ) -> None:
        self._writer = writer
        self._size = segment_size
        self._whole = whole
        self.step = max(STEP, 2 * record_size_max)

    def after(self, position: int) -> int:
        """Where the step ends that follows a position; the segment's end if little is left."""
        is_last = self._whole or self._size - position < 2 * self.step
        return self._size if is_last else position + self.step

    @property
    def is_next_due(self) -> bool:
        """Whether the tail has so little left that the next segment is to be made."""
        return self._writer.size - self._writer.position <= 2 * self.step

    def make(self, files: Files, path: str) -> Segment:
        """Make a segment with the blocks of its first step. Blocks the caller."""
        segment = files.create(path, self._size, reserve=False)
        try:
            segment.reserve(0, self.after(0))
        except BaseException:
            segment.close()  # the file stays: another call may be using it by now
            raise
        return segment

    def grow(self, tail: Segment) -> bool:
        """Reserve another step of the tail; False if it has all its blocks. Raises DiskFull."""
        ready = self._writer.ready
        if ready >= self._writer.size:
            return False
        tail.reserve(ready, self.after(ready))
        self._writer.ready = self.after(ready)
        return True

    def work(self, tail: Segment) -> Callable[[], int] | None:
        """What a thread has to do so that the writer finds blocks; None when it does.

        The work returns the new value of ``ready``.
        """
        ready = self._writer.ready
        if ready >= self._writer.size or ready - self._writer.position > self.step // 2:
            return None
        end = self.after(ready)

        def work() -> int:
            tail.reserve(ready, end)
            return end

        return work
