"""Ranges of queues on their way: what of them was asked for, came in, and was given out."""

from __future__ import annotations

from collections import deque

from contrailmq.spark.planning import QueueRange
from contrailmq.spark.wire import Arena


class Chunk:
    """Offsets ``at`` to before ``end``; ``bodies`` came in and were not given out yet."""

    __slots__ = ("asked", "at", "bodies", "end")

    def __init__(self, at: int, end: int) -> None:
        self.at = at
        self.end = end
        self.asked = 0
        self.bodies: list[tuple[Arena, int, int]] = []


class Line:
    """One range on its way: its chunks under way, and where the next one begins."""

    __slots__ = ("chained", "chunks", "given", "gone_to", "next", "part", "template")

    def __init__(self, part: QueueRange, *, chained: bool) -> None:
        self.part = part
        self.chained = chained
        self.chunks: deque[Chunk] = deque()
        self.next = part.start
        self.given = part.start  # everything before was given out
        self.gone_to = part.start  # everything before was given out, or said to be deleted
        self.template = b""

    @property
    def is_done(self) -> bool:
        """Whether everything was asked for and given out."""
        return self.next >= self.part.end and not self.chunks

    def cut(self, stride: int) -> Chunk | None:
        """The next chunk to ask for."""
        if self.next >= self.part.end:
            return None
        end = self.part.end if self.chained else min(self.part.end, self.next + stride)
        chunk = Chunk(self.next, end)
        self.chunks.append(chunk)
        self.next = end
        return chunk

    def rewind(self) -> None:
        """Forget what is under way: the connection is gone."""
        if self.chunks:
            self.next = self.given
            self.chunks.clear()
