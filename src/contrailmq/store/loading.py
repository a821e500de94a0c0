"""Old messages come back from the disk in a thread, so that the loop never waits for them.

A consumer that is far behind reads parts of the log, and of its queue, that have left memory.  To
touch one of their pages is to wait for the disk, and on the loop everybody waits with it.  So pulls
look first (the ``Gatherer`` asks the kernel once a second for each chunk of 256 KiB that is read);
what is not in memory is loaded by a thread (``load_thread.py``), a block at a time.  All who wait
for the same block wait for one load.

Whoever is behind goes on from block to block.  So a block of the log that was loaded is marked, and
with the first pull that comes to the mark the next ``AHEAD`` blocks are loaded too: the disk works
while messages are sent, and a consumer that catches up seldom waits.  Units take a fiftieth of the
room of their messages; they are loaded by longer stretches, and nothing ahead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from contrailmq.store.commit_log import CommitLog
from contrailmq.store.consume_queue import ConsumeQueue
from contrailmq.store.files import Segment
from contrailmq.store.layout import QUEUE_UNIT
from contrailmq.store.load_thread import LoadThread

STEP: Final = 1024 * 1024  # a block
AHEAD: Final = 4
TICK_S: Final = 1.0
_LOADS_MAX: Final = 64  # of those nobody waits for yet

log = logging.getLogger(__name__)


class Loading:
    """Loads parts of the log and of queues. Owned by the loop."""

    def __init__(self, commit_log: CommitLog) -> None:
        self._log = commit_log
        self._thread: LoadThread | None = None
        self._loads: dict[tuple[str, int], asyncio.Future[None]] = {}

    async def run(self) -> None:
        """Let the knowledge of what is in memory grow old; until cancelled."""
        known = 0
        while True:
            await asyncio.sleep(TICK_S)
            gatherer = self._log.gatherer
            gatherer.age()
            if gatherer.unreadable != known:
                log.error(
                    "pulls stepped over records that cannot be read: times=%s last_log_offset=%s; "
                    "look with `contrail store check`",
                    gatherer.unreadable - known,
                    gatherer.unreadable_at,
                )
                known = gatherer.unreadable

    def load(self, offset: int) -> asyncio.Future[None] | None:
        """Have the block with an offset of the log loaded; done when it is. None without one."""
        segments = self._log.segments
        segment = segments.find(offset)
        base = segments.base_of(offset)
        start = (offset - base) // STEP * STEP
        if segment is None or base + start >= self._log.gatherer.end_offset:
            return None
        load = self._load_block(segment, base, start)
        self._read_ahead(offset)
        return load

    def load_units(self, queue: ConsumeQueue, at: int) -> asyncio.Future[None] | None:
        """The same for units of a queue, by the byte offset in its files."""
        segment = queue.segments.find(at)
        if segment is None:
            return None
        base = queue.segments.base_of(at)
        start = (at - base) // STEP * STEP
        end = min(start + STEP, segment.size, queue.max_offset * QUEUE_UNIT - base)
        return self._start(segment, start, end, None)

    @property
    def under_way(self) -> list[asyncio.Future[None]]:
        """The loads that are not done."""
        return list(self._loads.values())

    def read_on(self) -> None:
        """Load ahead of the reader who has come to a mark, if one has."""
        offset = self._log.gatherer.touched
        if offset >= 0:
            self._log.gatherer.touched = -1
            self._read_ahead(offset)

    def _read_ahead(self, offset: int) -> None:
        segments, gatherer = self._log.segments, self._log.gatherer
        for _ in range(AHEAD):
            base = segments.base_of(offset)
            start = (offset - base) // STEP * STEP + STEP
            if start >= segments.size:
                base, start = base + segments.size, 0
            offset = base + start
            segment = segments.find(offset)
            if segment is None or offset >= gatherer.end_offset or len(self._loads) >= _LOADS_MAX:
                break
            if (segment.path, start) not in self._loads:
                end = min(start + STEP, segment.size, gatherer.end_offset - base)
                if gatherer.must_load(offset, base + end):
                    self._load_block(segment, base, start)
        gatherer.touched = -1  # marks that were passed in looking

    def _load_block(self, segment: Segment, base: int, start: int) -> asyncio.Future[None]:
        gatherer = self._log.gatherer
        end = min(start + STEP, segment.size, gatherer.end_offset - base)
        return self._start(
            segment, start, end, lambda: gatherer.note_loaded(base + start, base + end)
        )

    def _start(
        self, segment: Segment, start: int, end: int, note: Callable[[], None] | None
    ) -> asyncio.Future[None]:
        key = (segment.path, start)
        running = self._loads.get(key)
        if running is not None:
            return running

        def done(finished: asyncio.Future[None]) -> None:
            del self._loads[key]
            if note is not None and not finished.cancelled() and finished.exception() is None:
                note()

        if self._thread is None:
            self._thread = LoadThread()
        load = self._loads[key] = self._thread.load(segment, start, end)
        load.add_done_callback(done)
        return load

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None
