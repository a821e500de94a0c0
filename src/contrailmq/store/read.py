"""Reading: pulls, bounds, times, single records.

All of it happens on the loop, in the page cache; what a pull may take is limited (count, bytes,
units looked at), and less is allowed where records have probably left memory.
"""

from __future__ import annotations

from typing import Final

from contrailmq._native.store.gather import COLD, FOUND, NO_MATCH, REMOVING, Limits, LogView
from contrailmq._native.store.scan import store_time
from contrailmq.store.batch_queue import BatchQueue, BatchQueues
from contrailmq.store.commit_log import CommitLog
from contrailmq.store.consume_queue import ConsumeQueue, ConsumeQueues
from contrailmq.store.gaps import FILL_SIZE, UNIT
from contrailmq.store.layout import QUEUE_UNIT
from contrailmq.store.queue_ext import is_address
from contrailmq.store.settings import TRANSFER_COUNT_MAX, BrokerRole, StoreSettings
from contrailmq.store.types import GetResult, GetStatus, Matcher, QueueExt

_STATUS: Final = {
    FOUND: GetStatus.FOUND,
    NO_MATCH: GetStatus.NO_MATCHED_MESSAGE,
    REMOVING: GetStatus.MESSAGE_WAS_REMOVING,
}


class Reading:
    """The read side of a store. Owned by the loop."""

    def __init__(
        self,
        settings: StoreSettings,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        *,
        batches: BatchQueues,
        memory_size: int,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._batches = batches
        self._machine_memory = memory_size
        self._is_replica = settings.broker_role is BrokerRole.SLAVE
        self.set(settings)

    def set(self, settings: StoreSettings) -> None:
        """Use other limits from now on."""
        self.settings = settings
        self.limits = Limits(
            settings.transfer_count_in_memory,
            settings.transfer_bytes_in_memory,
            settings.filter_scan_size,
            self._machine_memory * settings.memory_ratio_percent // 100,
        )
        self.limits.on_disk(settings.transfer_count_on_disk, settings.transfer_bytes_on_disk)
        self._corrects = not self._is_replica or settings.offset_check_in_slave

    def stand_by(self, is_replica: bool) -> None:
        """Whether this is the store of a replica: it leaves offsets outside a queue as they are."""
        self._is_replica = is_replica
        self.set(self.settings)

    def get(
        self, topic: str, queue_id: int, offset: int, *, count: int, matcher: Matcher | None
    ) -> GetResult:
        """Up to ``count`` records from a queue offset on (DefaultMessageStore.getMessage)."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            batches = self._batches.find(topic, queue_id)
            if batches is not None:
                return self._get_batches(batches, offset, count=count, matcher=matcher)
            return self._nothing(GetStatus.NO_MATCHED_LOGIC_QUEUE, offset, 0, (0, 0))
        low, high = bounds = queue.min_offset, queue.writer.max_offset
        if not low <= offset < high:
            return self._outside(offset, bounds)
        units = queue.units(offset)
        if units is None:
            in_file = queue.segments.size // QUEUE_UNIT
            after = offset - offset % in_file + in_file
            return self._nothing(GetStatus.OFFSET_FOUND_NULL, offset, after, bounds)
        gatherer = self._log.gatherer
        # What has left memory ends a pull; only for the first record is the disk waited for.
        seen = self._choose(queue, units, count=count, matcher=matcher, watched=True)
        if gatherer.status == COLD:
            seen = self._choose(queue, units, count=count, matcher=matcher, watched=False)
        return self._gathered(offset + seen, bounds)

    def _outside(self, offset: int, bounds: tuple[int, int]) -> GetResult:
        low, high = bounds
        if high == 0:
            return self._nothing(GetStatus.NO_MESSAGE_IN_QUEUE, offset, 0, bounds)
        if offset < low:
            return self._nothing(GetStatus.OFFSET_TOO_SMALL, offset, low, bounds)
        if offset == high:
            return self._nothing(GetStatus.OFFSET_OVERFLOW_ONE, offset, offset, bounds)
        return self._nothing(GetStatus.OFFSET_OVERFLOW_BADLY, offset, high, bounds)

    def _get_batches(
        self, queue: BatchQueue, offset: int, *, count: int, matcher: Matcher | None
    ) -> GetResult:
        """The same of a batch queue: ``count`` is of messages, whose records come whole.

        A record is taken while all of its messages fit, the first one always.
        """
        low, high = bounds = queue.min_offset, queue.max_offset
        if not low <= offset < high:
            return self._outside(offset, bounds)
        gatherer, disk_before = self._log.gatherer, self.disk_before
        gatherer.begin(min(high - offset, TRANSFER_COUNT_MAX))
        after, taken = offset, 0
        for looked, unit in enumerate(queue.units(offset)):
            is_full = gatherer.is_full(unit.size, count, self.limits, unit.log_offset < disk_before)
            if is_full or (taken and taken + unit.messages > count):
                break
            if looked >= self.limits.span(count) // QUEUE_UNIT:
                break
            after = unit.base + unit.messages
            gatherer.last_offset = unit.log_offset
            missed = self._miss(queue, (unit.log_offset, unit.size, unit.code), matcher)
            if missed is None:
                gatherer.choose(unit.log_offset, unit.size)
                taken += unit.messages
            elif gatherer.count == 0:
                gatherer.status = missed
        return self._gathered(after, bounds)

    def _gathered(self, after: int, bounds: tuple[int, int]) -> GetResult:
        gatherer = self._log.gatherer
        return GetResult(
            _STATUS.get(gatherer.status, GetStatus.NO_MATCHED_MESSAGE),
            after,
            *bounds,
            gatherer.copy(),
            gatherer.count,
            0 <= gatherer.last_offset < self.disk_before,
        )

    def find_cold(
        self, topic: str, queue_id: int, offset: int, *, count: int, matcher: Matcher | None
    ) -> tuple[ConsumeQueue | None, int] | None:
        """What must be loaded before this pull can be answered at once; None: nothing.

        A queue and a byte offset of its files, or None and an offset of the log.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.writer.max_offset:
            return None
        units = queue.units(offset)
        segment = queue.segments.find(offset * QUEUE_UNIT)
        if units is None or segment is None:
            return None
        buffer, start, end = units
        gatherer = self._log.gatherer
        stop = min(end, start + self.limits.span(count))
        if gatherer.is_away(LogView(buffer, 0, segment.is_mapped), start, stop, end):
            return queue, offset * QUEUE_UNIT - start + gatherer.away_at
        self._choose(queue, units, count=count, matcher=matcher, watched=True)
        return (None, gatherer.cold_offset) if gatherer.status == COLD else None

    def _choose(
        self,
        queue: ConsumeQueue,
        units: tuple[memoryview, int, int],
        *,
        count: int,
        matcher: Matcher | None,
        watched: bool,
    ) -> int:
        """Select what a pull may have; how many units were looked at."""
        buffer, start, end = units
        end = min(end, start + self.limits.span(count))
        codes = program = None
        if matcher is not None:
            if queue.ext is not None or (matcher.record_matters and matcher.program is None):
                return self._select(
                    queue, (buffer, start, end), count=count, matcher=matcher, watched=watched
                )
            codes = matcher.tag_codes
            program = matcher.program if matcher.record_matters else None
        gatherer = self._log.gatherer
        gatherer.watched = watched
        return gatherer.select(
            buffer, start, end, count, self.limits, self.disk_before, codes, program
        )

    @property
    def disk_before(self) -> int:
        """Records before this log offset have probably left memory."""
        return self.limits.disk_before(self._log.gatherer.end_offset)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last; (0, 0) for no queue."""
        queue = self._find(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def _find(self, topic: str, queue_id: int) -> ConsumeQueue | BatchQueue | None:
        return self._queues.find(topic, queue_id) or self._batches.find(topic, queue_id)

    def unit(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int] | None:
        """Log offset, size and tag code of one message of a queue; None when it is not there."""
        queue = self._find(topic, queue_id)
        return None if queue is None else queue.unit(offset)

    def is_in_memory(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message is so new that it is probably still in the page cache."""
        queue = self._find(topic, queue_id)
        unit = None if queue is None else queue.unit(offset)
        return unit is not None and self._log.end_offset - unit[0] <= self.limits.memory_size

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message at a queue offset was stored; -1 when it is not there."""
        queue = self._find(topic, queue_id)
        return -1 if queue is None else self._store_ms(queue, offset)

    def offset_by_time(self, topic: str, queue_id: int, ms: int, *, upper: bool) -> int:
        """The first queue offset stored at ``ms`` or later, or the last at ``ms`` or before.

        Lower: the end of the queue when all is older.  Upper: the start when all is newer.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            batches = self._batches.find(topic, queue_id)
            return 0 if batches is None else batches.offset_by_time(ms, upper=upper)
        low, high = queue.min_offset, queue.max_offset
        while low < high:
            middle = place = (low + high) // 2
            at = self._store_ms(queue, place)
            while at < 0 and place + 1 < high:
                place += 1  # a gap: what follows it decides
                at = self._store_ms(queue, place)
            if at < ms or (upper and at == ms):
                low = place + 1
            else:
                high = middle
        return max(low - 1, queue.min_offset) if upper else low

    def earliest_time(self, topic: str | None, queue_id: int | None) -> int:
        """When the oldest message of a queue, or of the whole store, was stored; -1 for none."""
        if topic is not None and queue_id is not None:
            queue = self._find(topic, queue_id)
            return -1 if queue is None else self._store_ms(queue, queue.min_offset)
        record = self._log.record(self._log.min_offset)
        return -1 if record is None else store_time(record, 0)

    def _store_ms(self, queue: ConsumeQueue | BatchQueue, offset: int) -> int:
        unit = queue.unit(offset)
        record = None if unit is None else self._log.record(unit[0], unit[1])
        return -1 if record is None else store_time(record, 0)

    def _nothing(
        self, status: GetStatus, offset: int, better: int, bounds: tuple[int, int]
    ) -> GetResult:
        # A replica may simply not have come so far: it does not send consumers elsewhere.
        return GetResult(status, better if self._corrects else offset, *bounds)

    def _select(
        self,
        queue: ConsumeQueue,
        units: tuple[memoryview, int, int],
        *,
        count: int,
        matcher: Matcher,
        watched: bool,
    ) -> int:
        """What ``Gatherer.select`` does, for filters that look at records or bit maps."""
        gatherer = self._log.gatherer
        disk_before = self.disk_before
        buffer, start, end = units
        gatherer.begin((end - start) // QUEUE_UNIT)
        at = start
        while end - at >= QUEUE_UNIT:
            log_offset, size, code = UNIT.unpack_from(buffer, at)
            if gatherer.is_full(size, count, self.limits, log_offset < disk_before):
                break
            if watched and gatherer.is_cold(log_offset, size):
                if gatherer.count == 0:
                    gatherer.status = COLD
                break
            at += QUEUE_UNIT
            gatherer.last_offset = log_offset
            missed = self._miss(queue, (log_offset, size, code), matcher)
            if missed is None:
                gatherer.choose(log_offset, size)
            elif gatherer.count == 0:
                gatherer.status = missed
        return (at - start) // QUEUE_UNIT

    def _miss(
        self, queue: ConsumeQueue | BatchQueue, unit: tuple[int, int, int], matcher: Matcher | None
    ) -> int | None:
        log_offset, size, code = unit
        if size == FILL_SIZE:
            return REMOVING
        ext: QueueExt | None = None
        if is_address(code) and queue.ext is not None:
            ext = queue.ext.find(code)
            if ext is not None:
                code = ext.tags_code
        if matcher is not None and matcher.tag_codes is not None and code not in matcher.tag_codes:
            return NO_MATCH
        if matcher is not None and ext is not None and not matcher.may_match(ext):
            return NO_MATCH
        gatherer = self._log.gatherer
        if gatherer.find(log_offset, size) is None:
            if log_offset >= gatherer.min_offset:
                gatherer.unreadable += 1
                gatherer.unreadable_at = log_offset
            return REMOVING
        if matcher is not None and matcher.record_matters:
            record = self._log.record(log_offset, size)
            if record is None:
                return REMOVING
            if not matcher.matches(record):
                return NO_MATCH
        return None
