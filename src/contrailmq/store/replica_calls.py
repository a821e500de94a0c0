"""What replication asks of a store: calls that a broker without replicas never makes.

**Standby.**  The store of a replica takes no messages.  It takes stretches of its primary's log at
its own end (``take``), byte for byte and cut anywhere, and derives whole records from them.

**Bound.**  With ``bind`` readers and derivation see only what ``confirm`` has confirmed.  A
confirmed offset may lie inside a record, which is then not readable yet.

**Cut.**  ``cut`` lets log, queues and index end at an earlier record.  Behind
the cut are zeros, which are durable before the next byte is taken: otherwise a power cut might
bring old records back to life behind new ones.

Any of these may change while the store serves; connections and their readers stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from contrailmq._native.store import scan
from contrailmq._native.store.follow import Follower
from contrailmq.errors import DiskFull, StoreError
from contrailmq.store.batch_queue import BatchQueues
from contrailmq.store.checkpoint import Checkpoint
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.consume_queue import ConsumeQueues
from contrailmq.store.derive import Derivation
from contrailmq.store.files import Files
from contrailmq.store.flush import Fence, LogFlush, blocking, sync_many
from contrailmq.store.index import Indexes
from contrailmq.store.read import Reading
from contrailmq.store.recovery.index_repair import cut_behind
from contrailmq.store.recovery.log_records import LogRecords
from contrailmq.store.recovery.queue_repair import first_behind, set_end
from contrailmq.store.settings import StoreSettings
from contrailmq.store.syncing import sync_all

log = logging.getLogger(__name__)


class ReplicaCalls:
    """The calls of replication. All on the loop; only ``cut`` waits."""

    settings: StoreSettings
    files: Files
    fence: Fence
    log: CommitLog
    queues: ConsumeQueues
    batches: BatchQueues
    indexes: Indexes | None
    derivation: Derivation
    reading: Reading
    follower: Follower
    standby: str | None  # why a replica takes no messages
    bound: int | None  # readers see nothing behind it; None without a bound
    _flush: LogFlush
    _checkpoint: Checkpoint | None
    _executor: ThreadPoolExecutor | None
    _is_sync: bool
    _steer: Callable[[], None]

    def stand_by(self, reason: str | None) -> None:
        """Take no messages, only the log of another store; None: take messages again.

        To take messages again the log must end with a whole record that is derived.
        """
        reached = self.log.flushed_offset if self._is_sync else self.log.end_offset
        if reason is None and self.derivation.derived_offset < self._limit(reached):
            raise StoreError(
                f"the log ends at {self.log.end_offset} and is derived up to "
                f"{self.derivation.derived_offset}: it cannot take messages yet"
            )
        self.standby = reason
        self.reading.stand_by(reason is not None)
        self._follow()
        self._steer()

    def bind(self, confirmed: int | None) -> None:
        """Let readers see what is confirmed only, so far this; None: everything again."""
        self.bound = confirmed
        self._follow()
        self.derive_readable()

    def confirm(self, offset: int) -> None:
        """Everything before ``offset`` is confirmed. It never falls, except by ``cut``."""
        if self.bound is not None and offset > self.bound:
            self.bound = offset
            if self._checkpoint is not None:
                self._checkpoint.confirmed_offset = offset
            self.derive_readable()

    def take(self, data: memoryview) -> None:
        """Put a stretch of the primary's log at the end, as it is."""
        if self.fence.reason is not None:
            raise StoreError(self.fence.reason)
        self.log.take(data)
        if self._is_sync:
            self._flush.wake()
        else:
            self.derive_readable()
        self.derivation.on_grown(self.log.end_offset)

    @property
    def confirmed_at_start(self) -> int:
        """What was confirmed when the store was closed, as far as the checkpoint knows."""
        return 0 if self._checkpoint is None else self._checkpoint.confirmed_offset

    def sendable_end(self) -> int:
        """Up to where the files have everything; what was appended is brought there first."""
        self.log.settle()
        if self.log.has_write_buffer:
            return self.log.committed_offset
        return self.log.writer.settled_offset()

    def begin_at(self, offset: int) -> None:
        """Let an empty log begin at a segment's first offset: its primary has no more before it."""
        if self.log.end_offset == self.log.min_offset:
            self.log.begin_at(offset)
            self.derivation.deriver.detach()
            self.derivation.start(offset)

    async def settle(self) -> None:
        """Make all of the log durable, and derive it: before a replica becomes primary."""
        await self._flush.flush()
        self.derive_readable()

    def derive_readable(self) -> None:
        """Let readers see, and derive, all that is written, certain and confirmed by now."""
        end = self.log.flushed_offset if self._is_sync else self.log.writer.settled_offset()
        if self.log.has_write_buffer:
            end = self.log.committed_offset
        end = self._limit(end)
        # What was derived stays readable: a pull passes over records it may not see.
        self.log.set_readable(max(end, self.derivation.derived_offset))
        try:
            self.derivation.run(end)
        except DiskFull as error:
            log.warning("queues fall behind the log: error=%s", error)
        writer = self.log.writer
        writer.store_ms = max(writer.store_ms, self.derivation.store_ms)

    def whole_end(self) -> int:
        """Where the last whole record of the log ends, or the segment behind it."""
        segments = self.log.segments
        end = self.log.end_offset
        offset = min(max(self.derivation.derived_offset, segments.first_offset), end)
        while offset < end:
            base = segments.base_of(offset)
            segment = segments.find(offset)
            if segment is None:
                break
            position, _, reason, _ = scan.walk(
                segment.buffer, offset - base, min(end - base, segment.size), base, False, 0
            )
            offset = base + position
            if reason != scan.BLANK:
                break
            offset = min(base + segment.size, end)
        return offset

    async def cut(self, offset: int) -> None:
        """Let the log, its queues and its index end at ``offset``, the beginning of a record."""
        if not self.log.min_offset <= offset <= self.log.end_offset:
            raise StoreError(
                f"cannot cut at {offset}: the log has {self.log.min_offset} to "
                f"{self.log.end_offset}"
            )
        if offset == self.log.end_offset:
            return
        async with self._flush.held():
            removed = self.log.end_offset - offset
            changed = self._cut_parts(offset)
            tail = self.log.segments.find(offset)
            works = [partial(sync_many, self.files, changed, [])]
            if tail is not None:
                works.append(partial(sync_all, [tail]))
            await blocking(self._executor, *works, fence=self.fence, what="cut of the log")
            await blocking(
                self._executor, self.log.sync_folders, fence=self.fence, what="cut of the log"
            )
            self.log.flushed_offset = max(self.log.flushed_offset, offset)
        log.warning("log was cut back: end=%s removed=%s", offset, removed)

    def _cut_parts(self, offset: int) -> list[str]:
        changed: list[str] = []
        records = LogRecords(self.log.segments)
        if self.indexes is not None:
            cut_behind(self.indexes, self.settings, from_offset=offset, store_ms=records.store_ms)
        self.derivation.deriver.detach()
        self.log.cut(offset)
        last_ms = 0
        for queue in self.queues:
            if queue.writer.log_end > offset:
                kept = first_behind(queue, offset, queue.max_offset)
                changed += set_end(queue, kept, clear=True)
            else:
                queue.writer.next_offset = queue.writer.max_offset
            if queue.writer.log_end and queue.max_offset > queue.min_offset:
                unit = queue.unit(queue.max_offset - 1)
                if unit is not None:
                    last_ms = max(last_ms, records.store_ms(unit[0]))
        changed += self.batches.truncate(offset)
        self.derivation.start(min(self.derivation.derived_offset, offset))
        if self.bound is not None:
            self.bound = min(self.bound, offset)
        self._vouch_less(last_ms)
        self.derive_readable()
        return changed

    def _vouch_less(self, store_ms: int) -> None:
        """The checkpoint must not vouch for times of records that are gone."""
        checkpoint = self._checkpoint
        if checkpoint is not None:
            checkpoint.log_ms = min(checkpoint.log_ms, store_ms)
            checkpoint.queues_ms = min(checkpoint.queues_ms, store_ms)
            checkpoint.index_ms = min(checkpoint.index_ms, store_ms)
            checkpoint.confirmed_offset = min(checkpoint.confirmed_offset, self.log.end_offset)
            checkpoint.write()
        self.log.writer.store_ms = store_ms

    def _limit(self, offset: int) -> int:
        return offset if self.bound is None else min(offset, self.bound)

    def _follow(self) -> None:
        """Who derives: an append itself, or what comes after it."""
        is_held = self.standby is not None or self.bound is not None
        self.derivation.deriver.takes_parts = is_held
        self.follower.follows = not (self._is_sync or self.log.has_write_buffer or is_held)
