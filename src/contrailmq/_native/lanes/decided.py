"""What the broker has decided about topics and consumers, in the form the lanes keep it.

A decision holds until the broker's tables change; the lanes then drop all of them and ask again.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw
from contrailmq._native.lanes.answers import AnswerParts
from contrailmq._native.sql import SqlProgram
from contrailmq._native.store.gather import LogView
from contrailmq._native.store.queues import QueueWriter

Bytes = bytes | bytearray | memoryview

_UNIT = 20
_SIZE_STEPS = 7


class LaneTopic:
    """A topic messages may be sent to, and what has been put into it since."""

    def __init__(self, topic: bytes, queue_count: int) -> None:
        self.topic = topic
        self.topic_view = topic
        self.topic_address = raw.at_address(topic)
        self.topic_size = len(topic)
        self.queues: list[Any] = [None] * queue_count  # a QueueWriter once it is used
        self.queue_count = queue_count
        self.counts = memoryview(bytearray(8 * queue_count or 8)).cast("q")
        self.sizes = memoryview(bytearray(8 * queue_count or 8)).cast("q")
        self.calls = memoryview(bytearray(8 * queue_count or 8)).cast("q")
        self.spread = memoryview(bytearray(8 * _SIZE_STEPS)).cast("q")
        self.is_touched = False

    def take(self, queue_id: int) -> tuple[int, int, int]:
        """Return the messages, bytes and requests put into a queue since the last call."""
        count, size, calls = self.counts[queue_id], self.sizes[queue_id], self.calls[queue_id]
        self.counts[queue_id] = 0
        self.sizes[queue_id] = 0
        self.calls[queue_id] = 0
        return count, size, calls

    def take_spread(self) -> list[int]:
        """Return the messages put since the last call, by their size."""
        found = list(self.spread)
        for step in range(_SIZE_STEPS):
            self.spread[step] = 0
        return found


class LaneQueue:
    """A queue of a plan: its end as the store knows it, and the file last read."""

    def __init__(self, queue: Any, writer: QueueWriter) -> None:
        self.queue = queue
        self.writer = writer
        self.units = bytes(1)
        self.view = LogView(self.units, 0, False)
        self.first = 0  # queue offset of the file's first unit
        self.last = 0  # of the first unit after the file
        self.tally: list[int] | None = None  # messages and bytes handed out

    def attach(self, units: Bytes, first: int, is_mapped: bool) -> None:
        """Read from this file, whose first unit has this queue offset."""
        self.units = units  # type: ignore[assignment]
        self.view = LogView(units, 0, is_mapped)
        self.first = first
        self.last = first + len(units) // _UNIT


class LanePlan:
    """What a consumer may pull, and how it is answered.

    ``codes`` are the tag codes it wants, None for all; ``program`` is the condition messages must
    fulfil.  ``found`` is the answer with messages, ``missed`` the one to a pull none of whose
    messages matched.
    """

    def __init__(
        self,
        group: str,
        topic: str,
        queue_count: int,
        codes: Any,
        program: SqlProgram | None,
        found: AnswerParts,
        missed: AnswerParts,
    ) -> None:
        self.group = group
        self.topic = topic
        self.queue_count = queue_count
        self.codes = codes
        self.program = program
        self.found = found
        self.missed = missed
        self.queues: list[Any] = [None] * queue_count
        self.pulls: dict[int, int] | None = None  # how far each queue was pulled
