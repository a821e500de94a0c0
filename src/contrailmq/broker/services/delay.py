"""Delay levels: messages that wait in the schedule topic until they are due.

Theory of operation.  Each level is one queue of SCHEDULE_TOPIC_XXXX.  All messages of a level have
the same delay, so they become due in the order they lie in: a level needs one cursor (its offset
in ``delayOffset.json``) and one timer, armed for the message at the cursor.  A level whose queue is
exhausted has no timer at all; the store's ``on_readable`` arms it again.  Serving a level puts
every due message into its real topic, as a new record with the stored properties as they are, and
moves the cursor behind it.

A crash forgets at most what the cursor moved since the file was last saved; those messages are
delivered again, none is lost.  For that the file never runs ahead of the disk: it holds the cursor
up to which the delivered copies are flushed (``saved``), not the one in memory.  And a cursor that
lies behind the end of its queue, because a crash took the end of the log, starts at the end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol

from contrailmq.broker.services.putting import Putting
from contrailmq.broker.tables.versions import VersionCounter
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, CorruptRecord, RemoteProtocolError
from contrailmq.protocol.bodies.queues import DelayOffsets
from contrailmq.protocol.message import Record, decode_record
from contrailmq.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from contrailmq.protocol.properties import PROPERTY_REAL_QUEUE_ID, PROPERTY_REAL_TOPIC
from contrailmq.store.types import NewMessage

log = logging.getLogger(__name__)

# Messages of one level delivered before others get the loop: more when the level is behind, since
# what is due goes before what comes in, or senders could keep it late for ever.
BATCH: Final = 256
BATCH_BEHIND: Final = 1024
TIMER_MAX_S: Final = 60.0  # a longer wait is looked at again: the wall clock may have jumped
FAILED_RETRY_S: Final = 10.0  # ScheduleMessageService.DELAY_FOR_A_PERIOD

LEVELS_LOOKED_AT: Final = 64


class ScheduleQueues(Protocol):
    """What this module needs of the store."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First queue offset, and the one behind the last."""
        ...

    def unit(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int] | None:
        """Log offset, size and tag code of one message."""
        ...

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        """A copy of a record."""
        ...

    @property
    def flushed_offset(self) -> int:
        """Up to where the log is certain to be on disk."""
        ...


class DelayLevels:
    """Delivers what is due. Runs on the loop; ``run`` owns its timers."""

    def __init__(
        self,
        queues: ScheduleQueues,
        putting: Putting,
        *,
        delay_ms: Mapping[int, int],
        store_host: bytes,
        clock: Clock,
    ) -> None:
        self._queues = queues
        self._putting = putting
        self._delay_ms = dict(delay_ms)
        self._store_host = store_host
        self._clock = clock
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._behind: dict[int, None] = {}
        self._is_running = False
        self._safe: dict[int, int] = {}  # cursors before which every delivery is on disk
        self._unsafe: dict[int, deque[tuple[int, int]]] = {}  # (cursor, end of its last delivery)
        self.offsets: dict[int, int] = {}
        self.version = VersionCounter(clock)

    def load(self, found: DelayOffsets) -> None:
        """Take the cursors of an earlier run, ours or Java's."""
        if found.data_version is not None:
            self.version.value = found.data_version
        for level, offset in found.offset_table.items():
            first, end = self._queues.bounds(SCHEDULE_TOPIC, level - 1)
            corrected = min(max(offset, first, 0), end)
            if corrected != offset:
                log.warning("a cursor is moved: level=%s from=%s to=%s", level, offset, corrected)
            self.offsets[level] = self._safe[level] = corrected

    def saved(self) -> DelayOffsets:
        """What ``delayOffset.json`` may say now: everything before these cursors is on disk."""
        for level in self._unsafe:
            self._note_flushed(level)
        return DelayOffsets(
            data_version=self.version.value, offset_table=dict(sorted(self._safe.items()))
        )

    @property
    def revision(self) -> object:
        """Changes whenever ``saved`` may say something else."""
        return self.version.value, sum(self._safe.values())

    def _warn_of_removed_levels(self) -> None:
        """Name levels that have messages and are not configured any more: they wait for ever."""
        for level in range(1, LEVELS_LOOKED_AT + 1):
            _, end = self._queues.bounds(SCHEDULE_TOPIC, level - 1)
            waiting = end - self.offsets.get(level, 0)
            if level not in self._delay_ms and waiting > 0:
                log.warning(
                    "messages wait in a delay level that messageDelayLevel no longer has: "
                    "level=%s messages=%s; add the level again to deliver them",
                    level,
                    waiting,
                )

    async def run(self) -> None:
        """Deliver until cancelled."""
        self._is_running = True
        self._warn_of_removed_levels()
        try:
            for level in self._delay_ms:
                self._arm(level, 0.0)
            await asyncio.get_running_loop().create_future()
        finally:
            self._is_running = False
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
            # A stop in good order: the store flushes before it ends.
            self._safe.update(self.offsets)
            self._unsafe.clear()

    def wake(self, topic: str, queue_id: int, offset: int) -> None:
        """The store has new messages in a queue; only those of an idle level matter here."""
        level = queue_id + 1
        if topic == SCHEDULE_TOPIC and self._is_running and level not in self._timers:
            self._arm(level, 0.0)

    def waiting(self, level: int) -> tuple[int, int]:
        """The cursor of a level and the end of its queue."""
        return self.offsets.get(level, 0), self._queues.bounds(SCHEDULE_TOPIC, level - 1)[1]

    @property
    def timer_count(self) -> int:
        """How many levels have a message to wait for."""
        return len(self._timers)

    def levels(self) -> list[int]:
        """The levels there are."""
        return list(self._delay_ms)

    def _arm(self, level: int, delay_s: float) -> None:
        if level in self._delay_ms:
            self._timers[level] = asyncio.get_running_loop().call_later(delay_s, self._serve, level)

    def _serve(self, level: int) -> None:
        del self._timers[level]
        offset = self.offsets.get(level, 0)
        first, end = self._queues.bounds(SCHEDULE_TOPIC, level - 1)
        if offset < first:
            log.warning("delayed messages are gone: level=%s from=%s to=%s", level, offset, first)
            offset = first
        again_s: float | None = None
        end_offset = 0
        for _ in range(BATCH_BEHIND if level in self._behind else BATCH):
            if offset >= end:
                break
            unit = self._queues.unit(SCHEDULE_TOPIC, level - 1, offset)
            if unit is not None:
                wait_ms = self._due_ms(level, unit) - self._clock.now_ms()
                if wait_ms > 0:
                    again_s = min(wait_ms / 1000, TIMER_MAX_S)
                    break
                try:
                    end_offset = self._deliver(level, unit) or end_offset
                except BrokerError as error:
                    log.warning("a delayed message cannot be delivered: error=%s", error)
                    again_s = FAILED_RETRY_S
                    break
            offset += 1
        else:
            again_s = 0.0
        if again_s == 0.0:
            self._behind[level] = None
        else:
            self._behind.pop(level, None)
        if offset != self.offsets.get(level, 0):
            self._moved(level, offset, end_offset)
        if again_s is not None:
            self._arm(level, again_s)
        elif self._queues.bounds(SCHEDULE_TOPIC, level - 1)[1] > offset:
            self._arm(level, 0.0)  # delivering has delayed something anew

    def _moved(self, level: int, offset: int, end_offset: int) -> None:
        self.offsets[level] = offset
        self._unsafe.setdefault(level, deque()).append((offset, end_offset))
        self._note_flushed(level)
        self.version.bump()

    def _note_flushed(self, level: int) -> None:
        unsafe, flushed = self._unsafe[level], self._queues.flushed_offset
        while unsafe and unsafe[0][1] <= flushed:
            self._safe[level] = unsafe.popleft()[0]

    def _due_ms(self, level: int, unit: tuple[int, int, int]) -> int:
        _, _, code = unit
        due_ms = code
        if due_ms <= 0:  # the address of an extension unit: the record itself knows
            record = self._record(unit)
            due_ms = record.store_ms + self._delay_ms[level] if record is not None else 0
        if due_ms > self._clock.now_ms() + self._delay_ms[level]:
            return 0  # the clock was set back: a message never waits longer than its level
        return due_ms

    def _record(self, unit: tuple[int, int, int]) -> Record | None:
        log_offset, size, _ = unit
        data = self._queues.record_at(log_offset, size)
        try:
            return None if data is None else decode_record(data)
        except (CorruptRecord, RemoteProtocolError):
            return None

    def _deliver(self, level: int, unit: tuple[int, int, int]) -> int:
        """Where the delivered copy ends in the log; 0 for a message that is given up."""
        record = self._record(unit)
        if record is None:
            log.error("a delayed message is lost: level=%s log_offset=%s", level, unit[0])
            return 0
        topic = record.properties.get(PROPERTY_REAL_TOPIC, "")
        queue_id = record.properties.get(PROPERTY_REAL_QUEUE_ID, "")
        if topic in ("", HALF_TOPIC, SCHEDULE_TOPIC) or not queue_id.isdecimal():
            log.error("a delayed message has no target: topic=%s queue=%s", topic, queue_id)
            return 0
        delivered = self._putting.put(
            NewMessage(
                topic,
                int(queue_id),
                record.body,
                # As stored, DELAY and REAL_TOPIC included: consumers of the original see them.
                record.properties_bytes,
                flag=record.flag,
                sys_flag=record.sys_flag,
                born_ms=record.born_ms,
                born_host=record.born_host_bytes,
                store_host=self._store_host,
                reconsume_times=record.reconsume_times,
                wait=False,
            ),
            is_delayed=True,
        )
        return delivered.end_offset
