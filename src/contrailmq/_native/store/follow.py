# cython: annotation_typing=False
# ruff: noqa: ERA001
"""What follows an append, with no step through Python where nothing special happens.

``Follower.appended`` is called once for each socket read or put that appended records to the log:
they are brought into its segment, readers may see them, queues and index are derived from them,
and whoever waits on a queue that grew is told.  Its owner, the host, is called for what is rare:
a run too long to be copied (``write_out``), records that are not in the stage any more
(``derive``), an error on the way (``stumbled``), and every quarter of a megabyte, so that the
ground ahead of the writer can be prepared (``grown``).  Where readers wait for the disk nothing
follows but the word that there is something to flush (``unread``): who flushes writes it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contrailmq._native.store.gather import Gatherer
from contrailmq._native.store.log import LogWriter
from contrailmq._native.store.queues import Deriver, QueueWriter

Bytes = bytes | bytearray | memoryview

_CHECK_SIZE = 262144
_ALWAYS_TOLD = b"SCHEDULE_TOPIC_XXXX"  # delayed messages wait for the time, not for a pull
_TIMERS = b"rmq_sys_wheel_timer"  # so do these


class Follower:
    """Keeps readers, queues and index at the end of the log.

    ``follows``: derivation follows the append (it does not where readers wait for the disk).
    ``is_open``: the store takes messages.  ``derived_offset``: what is derived ends here.
    ``dirty``: the queues with units that are not yet flushed.  ``on_readable`` is told of queues
    that grew, where ``awaited`` is given only of those whose key it has or whose topic is in
    ``topics``.  ``on_appended`` is told of the log's new end, last of all; replication sets it,
    without replicas it is None.
    """

    def __init__(self, log: LogWriter, gatherer: Gatherer, deriver: Deriver, host: Any) -> None:
        self.log = log
        self.gatherer = gatherer
        self.deriver = deriver
        self.host = host
        self.follows = False
        self.is_open = False
        self.derived_offset = 0
        self.dirty: dict[QueueWriter, None] = {}
        self.on_readable: Callable[[str, int, int], None] | None = None
        self.awaited: dict[tuple[str, int], Any] | None = None
        self.on_appended: Callable[[int], None] | None = None
        self.topics: dict[str, Any] | None = None
        self._check_at = 0

    def is_ready(self) -> bool:
        """Whether a message can be put now."""
        return self.is_open and (
            not self.follows or self.derived_offset == self.log.base + self.log.position
        )

    def appended(self) -> None:
        """Records were appended to the log: everything that follows from it."""
        if not self.follows:
            end = self.log.base + self.log.position
            self.host.unread()
        else:
            base = self.log.base
            start = self.log.start
            stage = self.log.buffer  # settling may go on in another one
            if self.log.settle() > 0:
                self.host.write_out()  # a long run: through the file
            end = base + self.log.position
            self.gatherer.end_offset = end
            if self.derived_offset == base + start:
                self._derive(stage, base + start, end - base - start)
            else:
                self.host.derive(end)  # behind, or in a segment that is new or not staged
        if end >= self._check_at:
            self._check_at = end + _CHECK_SIZE
            self.host.grown(end)
        if self.on_appended is not None:
            self.on_appended(end)

    def _derive(self, stage: Bytes, base: int, size: int) -> None:
        """Derive from what was staged: it is in the processor's cache, its pages need no fault."""
        try:
            self.deriver.run(stage, base, 0, size)
        except BaseException as error:
            self.derived_offset = base + self.deriver.position
            self.deriver.base = -1  # the next run looks into the segment again
            self.tell()
            self.host.stumbled(error)
        else:
            self.derived_offset = base + size
            self.deriver.base = -1
            self.tell()

    def tell(self) -> None:
        """The deriver has run: note the queues it wrote to, tell who waits on them."""
        touched = self.deriver.take_touched()
        for queue in touched:
            self.dirty[queue] = None
        if self.on_readable is not None:
            for queue in touched:
                if self._is_awaited(queue):
                    self.on_readable(queue.owner.topic, queue.queue_id, queue.max_offset)

    def _is_awaited(self, queue: QueueWriter) -> bool:
        if self.awaited is None or queue.topic == _ALWAYS_TOLD or queue.topic == _TIMERS:
            return True
        if len(self.awaited) > 0 and (queue.owner.topic, queue.queue_id) in self.awaited:
            return True
        return self.topics is not None and len(self.topics) > 0 and queue.owner.topic in self.topics
