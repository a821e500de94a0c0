"""From what is on disk to a store that can go on: where does the log end, what follows from it?

The log is the truth; queues, extension and index are made from it.  The theory is in
docs/recovery.md, in short:

**After a clean stop** everything on disk is as it was.  Queues end with their last unit; the log is
walked from the newest record that a queue knows.  What was stored since the marks of the queues
were taken (``queue_marks``), and without marks all of the log, is derived once more, which must
change nothing.

**After a crash** (the abort file is there) what the checkpoint vouches for is as it was, and
nothing else is believed.  The log is walked from the last segment that begins with a vouched
record, every body's checksum is checked, and the first thing that is not a whole record ends it,
unless it is damage with whole records behind it that can be believed (``damage``).
Queues are cut back to where that walk begins and derived again; without marks all of the log is.
Index files newer than the checkpoint are kept if they are sound (``index_repair``).

Either way a queue that has less than its mark says, that lacks its first file, or whose records of
the log do not join on to what it has, has lost something and is made again (``queue_loss``).

Either way what stands behind the end of the log is wiped out and the wiping made durable before the
first new record: otherwise a later crash might bring old records back to life behind new ones.
Doing all of it a second time changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

from contrailmq._native.store import scan
from contrailmq.clock import Clock
from contrailmq.errors import StoreError
from contrailmq.lifecycle import uninterrupted
from contrailmq.store.batch_queue import BatchQueues
from contrailmq.store.checkpoint import Checkpoint
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.consume_queue import ConsumeQueue, ConsumeQueues
from contrailmq.store.derive import Derivation
from contrailmq.store.files import Files, Segment
from contrailmq.store.index import Indexes
from contrailmq.store.layout import QUEUE_UNIT
from contrailmq.store.recovery.certainty import is_dirty_behind, make_certain
from contrailmq.store.recovery.damage import Mending, report_lost
from contrailmq.store.recovery.horizon import find_start
from contrailmq.store.recovery.index_repair import cut_behind, keep_sound, vouchable_ms
from contrailmq.store.recovery.log_records import LogRecords
from contrailmq.store.recovery.queue_loss import delete_again, find_lost, keep_ends
from contrailmq.store.recovery.queue_marks import MarksFile
from contrailmq.store.recovery.queue_repair import (
    drop_behind_hole,
    ends_on_disk,
    first_behind,
    set_end,
    written_end,
)
from contrailmq.store.settings import StoreSettings

log = logging.getLogger(__name__)

SYNC_FAILED: Final = b"a flush has failed"  # what the abort file says then
_STEP: Final = 8 * 1024 * 1024  # bytes of log between two turns of the loop
_QUEUES_A_TURN: Final = 500
_PROGRESS_MS: Final = 5000


class Recovered(NamedTuple):
    """What recovery found: where the log ends, how much was walked, and why it ended there."""

    end_offset: int
    start_offset: int
    records: int
    reason: int
    was_killed: bool

    @property
    def has_dirty_tail(self) -> bool:
        """Whether something that is no whole record was cut off."""
        return self.reason in scan.DAMAGE


class Recovery:
    """Recovers once. The parts are loaded; afterwards they are ready to serve."""

    def __init__(
        self,
        settings: StoreSettings,
        *,
        files: Files,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        batches: BatchQueues,
        indexes: Indexes | None,
        derivation: Derivation,
        marks: MarksFile,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._files = files
        self._log = commit_log
        self._queues = queues
        self._batches = batches
        self._indexes = indexes
        self._derivation = derivation
        self._marks = marks
        self._clock = clock
        self._records = LogRecords(commit_log.segments)
        self._progress_ms = clock.monotonic_ms()
        self._sync_failed = False
        self._mending: Mending | None = None
        self._changed: dict[str, None] = {}  # paths of queue files, cut or written

    async def run(
        self, checkpoint: Checkpoint, quarantine: str, *, left: bytes | None
    ) -> Recovered:
        """Find the end of the log, and bring everything into step with it.

        ``left`` is what the abort file says, None without one. It names the boot in which the
        broker was killed. After a failed flush it says so: the kernel takes pages for written
        that are not, and they are written once more.
        """
        was_killed, boot = left is not None, self._files.boot_id()
        self._sync_failed = left == SYNC_FAILED
        self._mending = Mending(
            self._files,
            quarantine,
            self._log.segments,
            same_boot=bool(boot) and left == boot,
            synced_ms=checkpoint.log_ms,
        )
        begun_ms = self._progress_ms = self._clock.monotonic_ms()
        if not self._log.segments.offsets:
            found = self._begin_empty(was_killed=was_killed)
        elif was_killed:
            found = await self._after_crash(checkpoint)
        else:
            found = await self._after_stop()
        log.info(
            "store recovered: killed=%s start=%s end=%s records=%s ms=%s%s",
            was_killed,
            found.start_offset,
            found.end_offset,
            found.records,
            self._clock.monotonic_ms() - begun_ms,
            f" cut={scan.DAMAGE[found.reason]}" if found.has_dirty_tail else "",
        )
        return found

    # Nothing there

    def _begin_empty(self, *, was_killed: bool) -> Recovered:
        for queue in self._queues:
            self._queues.remove(queue)
        self._batches.clear()
        if self._indexes is not None:
            cut_behind(
                self._indexes, self._settings, from_offset=0, store_ms=self._records.store_ms
            )
        self._log.start(0)
        self._derivation.start(0)
        return Recovered(0, 0, 0, scan.END, was_killed)

    # After a clean stop

    async def _after_stop(self) -> Recovered:
        derived = first = self._log.segments.first_offset
        async for queue in self._each_queue():
            drop_behind_hole(queue)
            end = written_end(queue)
            if end * QUEUE_UNIT == queue.segments.first_offset:
                self._empty(queue)
            else:
                set_end(queue, end, clear=False)
                queue.writer.floor = queue.segments.first_offset // QUEUE_UNIT
            derived = max(derived, queue.writer.log_end)
        derived = min(derived, self._log.segments.limit_offset)
        if self._log.segments.find(derived) is not None and not self._records.is_border(derived):
            log.warning("queues do not fit the log, everything is derived again: at=%s", derived)
            await self._cut_queues(first)
            derived = first
        marks = self._marks.read(self._log.segments)
        start = first if marks is None else max(first, min(marks.log_end, derived))
        self._derivation.start(start)
        await self._walk(start, until=derived, doubt_ms=scan.NO_DOUBT, check_crc=False)
        walked = await self._walk(derived, until=None, doubt_ms=0, check_crc=True)
        await self._make_whole(walked.end_offset, walked_from=start)
        return await self._finish(walked._replace(start_offset=start), sync_from=derived)

    async def _make_whole(self, end: int, *, walked_from: int) -> None:
        """Make queues that have lost something again, from what the log has of them."""
        first = self._log.segments.first_offset
        marks = self._marks.read(self._log.segments)
        if marks is not None:
            delete_again(self._queues, marks, self._derivation.forget)
        lost = find_lost(self._queues, marks, self._marks, log_min=first, walked_from=walked_from)
        if lost:
            begin = end
            for queue, is_front_lost in lost:
                log.warning(
                    "queue has lost messages and is made again: topic=%s queue=%s end=%s",
                    queue.topic,
                    queue.queue_id,
                    queue.max_offset,
                )
                if is_front_lost:
                    self._empty(queue)
                begin = min(begin, max(queue.writer.log_end, first))
            self._derivation.pass_by(unknown=True)  # what was deleted stays deleted
            self._derivation.start(begin)
            await self._walk(begin, until=end, doubt_ms=scan.NO_DOUBT, check_crc=False)
            self._derivation.pass_by(unknown=False)
        for writer in self._derivation.dirty:
            self._changed |= dict.fromkeys(writer.owner.dirty())
        if marks is not None:
            keep_ends(self._queues, marks)

    def _empty(self, queue: ConsumeQueue) -> None:
        queue.remove_files()
        queue.min_offset = 0
        queue.set_end(0, 0)
        queue.has_gap = queue.writer.is_floorless = False
        queue.writer.floor = 0
        if queue.ext is not None:
            queue.ext.truncate(0)

    # After a crash

    async def _after_crash(self, checkpoint: Checkpoint) -> Recovered:
        marks = checkpoint.marks
        with_index = self._settings.index_enable and self._settings.index_safe
        trusted_ms = marks.trusted_ms(with_index=with_index)
        segments = self._log.segments
        place = find_start(
            [(base, segment.buffer) for base, segment in self._each_segment()], trusted_ms
        )
        start = segments.offsets[place]
        log.info("recovering after a crash: start=%s of %s", start, segments.limit_offset)
        ends = {}
        if self._mending is not None and self._mending.same_boot:
            async for queue in self._each_queue():
                ends[queue] = ends_on_disk(queue)
        await self._cut_queues(start)
        begin = start
        if self._indexes is not None:
            again, safe_ms = keep_sound(
                self._indexes, self._settings, safe_ms=marks.index_ms, indexed=self._records
            )
            # What is made anew below is not what the checkpoint vouches for.
            await self._vouch_less(checkpoint, safe_ms)
            begin = min(max(again, segments.first_offset), start)
        if self._marks.read(segments) is None:
            begin = segments.first_offset  # nobody else remembers a queue that is gone
        self._derivation.start(begin)
        if begin < start:
            await self._walk(begin, until=start, doubt_ms=scan.NO_DOUBT, check_crc=False)
        walked = await self._walk(
            start,
            until=None,
            doubt_ms=trusted_ms,
            check_crc=self._settings.check_crc_on_recover,
        )
        if self._mending is not None and self._mending.found:
            report_lost(ends)
        await self._make_whole(walked.end_offset, walked_from=begin)
        found = await self._finish(walked._replace(was_killed=True), sync_from=start)
        if self._indexes is not None:
            await self._vouch_less(checkpoint, vouchable_ms(self._indexes))
        return found

    async def _vouch_less(self, checkpoint: Checkpoint, index_ms: int) -> None:
        if index_ms < checkpoint.index_ms:
            checkpoint.index_ms = index_ms
            checkpoint.write()
            loop = asyncio.get_running_loop()
            await uninterrupted(loop.run_in_executor(None, checkpoint.sync))

    async def _cut_queues(self, log_offset: int) -> None:
        """Let every queue end before the first record at or behind ``log_offset``."""
        self._changed |= dict.fromkeys(self._batches.truncate(log_offset))
        async for queue in self._each_queue():
            drop_behind_hole(queue)
            limit = queue.segments.limit_offset // QUEUE_UNIT
            end = first_behind(queue, log_offset, limit)
            if end * QUEUE_UNIT == queue.segments.first_offset:
                self._empty(queue)  # its first file may be lost: let the log say where it begins
            else:
                self._changed |= dict.fromkeys(set_end(queue, end, clear=True))
                queue.writer.floor = queue.segments.first_offset // QUEUE_UNIT

    # Both

    async def _walk(
        self, start: int, *, until: int | None, doubt_ms: int, check_crc: bool
    ) -> Recovered:
        """Check and derive record after record; where the whole records end."""
        segments = self._log.segments
        offset, records, reason, covered = start, 0, scan.END, 0
        limit = segments.limit_offset if until is None else until
        while offset < limit:
            base = segments.base_of(offset)
            segment = segments.find(offset)
            if segment is None:
                break
            stop = min(offset - base + _STEP, limit - base, segment.size)
            position, count, reason, _ = scan.walk(
                segment.buffer, offset - base, stop, base, check_crc, doubt_ms
            )
            records += count
            covered += base + position - offset
            self._derivation.run(base + position)
            offset = base + position
            if reason == scan.BLANK:
                offset = self._derivation.derived_offset = base + segment.size
            elif reason != scan.END and not self._mend(offset, reason, until):
                break
            self._report(offset, limit)
            await asyncio.sleep(0)
        return Recovered(offset, start, records, reason, was_killed=False)

    def _mend(self, offset: int, reason: int, until: int | None) -> bool:
        """Close a gap in the log. Returns False if it ends here."""
        if self._mending is None or until is not None:
            return False
        last_ms = self._derivation.store_ms
        return self._mending.mend(offset, reason=reason, last_ms=last_ms)

    async def _finish(self, walked: Recovered, *, sync_from: int) -> Recovered:
        """Make the end the end: of the log, the queues and the index."""
        end = walked.end_offset
        if walked.has_dirty_tail:
            segments = self._log.segments
            log.warning(
                "log has a dirty tail, cut: end=%s reason=%s files_removed=%s",
                end,
                scan.DAMAGE[walked.reason],
                sum(base > end for base in segments.offsets),
            )
        if self._indexes is not None:
            cut_behind(
                self._indexes, self._settings, from_offset=end, store_ms=self._records.store_ms
            )
        if walked.was_killed and self._indexes is not None and self._indexes.indexes:
            self._changed[self._indexes.indexes[-1].segment.path] = None
        is_dirty = walked.was_killed or is_dirty_behind(self._log.segments, end)
        self._changed |= dict.fromkeys(self._batches.end_at(end, self._log.segments.first_offset))
        self._log.start(end)  # it clears what stands behind the end, too
        async for queue in self._each_queue():
            if queue.writer.log_end > end:
                kept = first_behind(queue, end, queue.max_offset)
                self._changed |= dict.fromkeys(set_end(queue, kept, clear=True))
            queue.correct_min(self._log.segments.first_offset)
        self._derivation.start(end)
        self._log.writer.store_ms = max(self._log.writer.store_ms, self._derivation.store_ms)
        parts = (*self._queues, *self._batches, self._indexes)
        if is_dirty or self._changed:
            await make_certain(
                self._files,
                self._log,
                [
                    segment
                    for base, segment in self._each_segment()
                    if base + segment.size > sync_from
                ],
                changed=list(self._changed),
                derived=[part for part in parts if part is not None],
                write_again=self._sync_failed,
            )
        if walked.was_killed:
            self._doubt_names()
        return walked

    def _doubt_names(self) -> None:
        """Files found and never vouched for: the next flush makes their names certain."""
        for writer in self._derivation.dirty:
            writer.owner.doubt_names()
        if self._indexes is not None:
            self._indexes.doubt_names()

    def _each_segment(self) -> Iterator[tuple[int, Segment]]:
        for base in list(self._log.segments.offsets):
            segment = self._log.segments.find(base)
            if segment is None:
                raise StoreError(f"{self._log.segments.path(base)} has gone")
            yield base, segment

    async def _each_queue(self) -> AsyncIterator[ConsumeQueue]:
        for number, queue in enumerate(self._queues):
            yield queue
            if number % _QUEUES_A_TURN == _QUEUES_A_TURN - 1:
                await asyncio.sleep(0)

    def _report(self, offset: int, limit: int) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._progress_ms >= _PROGRESS_MS:
            self._progress_ms = now_ms
            first = self._log.segments.first_offset
            percent = 100 * (offset - first) // max(1, limit - first)
            log.info("recovering: at=%s of=%s percent=%s", offset, limit, percent)
