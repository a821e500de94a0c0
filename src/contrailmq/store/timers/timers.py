"""The timers of a store: messages that wait for a moment of their own, to the millisecond.

Theory of operation.  A timer message is a record of ``rmq_sys_wheel_timer``.  ``step`` follows that
topic's queue and adds each message to the wheel, in the slot (one second, by default) before its
moment; then it delivers what is due.  The slot of this second is held in memory, by millisecond,
and the next one is loaded before its time comes; nothing else is.  A slot is done when its second
is over and all of it is in the log.  Then the *read time* moves on: the original does the same,
only that it delivers a slot as a whole when its second is over.

The queue offset and the read time are saved after everything they vouch for is on disk.  How far a
slot is delivered is noted without any flush after each step (see ``check``), so a kill
delivers nothing twice; after a power cut what was delivered since the last flush comes again.
A stop in good order ends between two slots, since another broker cannot know what lies between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from contrailmq._native.store.queues import QueueWriter
from contrailmq._native.store.slots import SlotLoad
from contrailmq._native.store.timers import BUSY, NO_ROOM, NO_UNIT, TimerLoop
from contrailmq.errors import DiskFull, StoreClosed, StoreRefusal
from contrailmq.lifecycle import raise_cancellation
from contrailmq.store.lights import light_size_max
from contrailmq.store.store import Store
from contrailmq.store.timers.check import Progress
from contrailmq.store.timers.files import TimerFiles
from contrailmq.store.types import NewMessage

log = logging.getLogger(__name__)
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
UNIT: Final = 20
ENQUEUE_BATCH: Final = 1024  # messages of a step: others want the loop too
DELIVER_BATCH: Final = 512
LOAD_STEPS: Final = 8192
SLOTS_A_STEP: Final = 64
RETRY_S: Final = 0.5
PRELOAD_S: Final = 0.005
JITTER_MS: Final = 100  # a clock set back by less is waited for
CHECK_NUMBERS: Final = 56  # bytes
OLD_MS: Final = 11 * 86_400_000  # older slots may be where new ones go: they are emptied first


class Delivered(Protocol):
    """Hears what was delivered."""

    def __call__(self, topic: str, queue_id: int, *, count: int, size: int) -> None:
        """So many messages and bytes went to a queue."""
        ...


class StoreTimers:
    """Moves timer messages in and out of the wheel. Owned by the loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files = TimerFiles(store.settings, store.layout, store.files)
        self._loop: TimerLoop | None = None
        self._slot: SlotLoad | None = None
        self._next: SlotLoad | None = None
        self._kept: SlotLoad | None = None  # half delivered when the clock was set back
        self._removals = 0
        self._is_dirty = False
        self._last_bad = 0
        self.queue_offset = 0
        self.read_ms = 0
        self.delivered_ms = 0  # all that is in the wheel and due before it has been delivered
        self.counts: dict[str, int] = {}  # how many wait, by topic
        self.on_delivered: Delivered = lambda topic, queue_id, *, count, size: None
        self.on_lost: Callable[[int], None] = lambda count: None

    @property
    def is_open(self) -> bool:
        """Whether there are timers at all; their files are made with the first."""
        return self._loop is not None

    @property
    def is_writable(self) -> bool:
        """Whether the store takes messages of its own; a full disk counts as yes."""
        return self._store.standby is None

    def exist(self) -> bool:
        """Whether the store has timers, or messages that were to become some."""
        return self._files.exist() or self._store.bounds(TIMER_TOPIC, 0)[1] > 0

    def open(self, now_ms: int) -> None:
        """Open or make the files; what is on disk is recovered. A replica's stay closed."""
        if self._loop is not None:
            return
        store = self._store
        if store.standby is not None:
            raise StoreClosed(store.standby)
        self._files.open(log_end=store.log.end_offset, now_ms=now_ms)
        files, progress = self._files, self._files.progress
        loop = TimerLoop(store.log.writer, store.log.gatherer, files.wheel, self, _TOPIC)
        loop.window_ms = store.settings.timer_window_ms
        loop.known = files.known
        self.queue_offset, self.read_ms = progress.queue_offset, progress.read_ms
        if files.is_lost:
            loop.replay_before = progress.queue_offset
            loop.replay_ms = progress.read_ms
            self.queue_offset = 0
        if progress.mark >= 0:
            slot = SlotLoad(progress.read_ms, files.wheel.precision_ms)
            slot.skip_mark, slot.skip_unit = progress.mark, progress.mark_unit
            slot.skip_before = progress.skip_before
            self._slot = slot
        self._loop = loop
        self._is_dirty = True
        log.info(
            "timers open: queue_offset=%s read_ms=%s units=%s",
            self.queue_offset,
            self.read_ms,
            files.wheel.end - files.wheel.first,
        )

    def queue(self, topic: bytes, queue_id: int) -> QueueWriter | None:
        """The queue a message is delivered to; the compiled loop's call."""
        try:
            return self._store.writing.queue(topic.decode("utf-8", "replace"), queue_id)
        except StoreRefusal:
            return None

    def put_light(
        self,
        place: tuple[bytes, int],
        parts: tuple[bytes, bytes],
        numbers: tuple[int, int, int, int],
        hosts: tuple[bytes, bytes],
    ) -> int:
        """Store a message of light queues; its size, 0 without room: the compiled loop's call."""
        topic, queue_id = place
        message = NewMessage(topic.decode("utf-8", "replace"), queue_id, *parts)
        message.flag, message.sys_flag, message.born_ms, message.reconsume_times = numbers
        message.born_host, message.store_host = hosts
        writer = self._store.log.writer
        if light_size_max(message) > writer.size - writer.position:
            return 0
        try:
            return self._store.writing.put(message).size
        except StoreRefusal:
            return -1

    # Moving

    def step(self, now_ms: int) -> float:
        """Take what is new, deliver what is due; seconds until there is more to do."""
        loop = self._loop
        assert loop is not None, "no timers yet"
        try:
            self._store.check_writable()
        except (DiskFull, StoreClosed):
            return RETRY_S
        if self._removals != self._store.queues.removals:
            self._removals = self._store.queues.removals
            loop.forget_queues()
        writer = self._store.log.writer
        before_ms, end = writer.store_ms, writer.end_offset()
        writer.store_ms = loop.now_ms = now_ms
        wait_s = 0.0
        try:
            is_behind = self._enqueue(loop, now_ms)
            wait_s = self._deliver(loop, now_ms)
            if is_behind:
                wait_s = 0.0
        except DiskFull as error:
            log.warning("timers wait for room on disk: error=%s", error)
            wait_s = RETRY_S
        finally:
            if writer.end_offset() == end:
                writer.store_ms = before_ms  # nothing was stored: nothing may vouch for the time
            self._settle(loop)
        return wait_s

    def _settle(self, loop: TimerLoop) -> None:
        """Let what was appended be read, count it, note how far we are."""
        touched = loop.take_touched()
        if touched:
            self._store.appended()
            self._is_dirty = True
        for topic, queue_id, count, size in touched:
            name = topic.decode("utf-8", "replace")
            self.on_delivered(name, queue_id, count=count, size=size)
        for topic, change in loop.counts.items():
            name = topic.decode("utf-8", "replace")
            self.counts[name] = max(self.counts.get(name, 0) + change, 0)
        loop.counts.clear()
        if loop.bad != self._last_bad:
            log.error("timer messages are gone from the log: count=%s", loop.bad - self._last_bad)
            self.on_lost(loop.bad - self._last_bad)
            self._last_bad = loop.bad
        self._files.check.note(self._progress())

    def _progress(self) -> Progress:
        wheel, slot = self._files.wheel, self._slot
        log_end = self._store.log.end_offset
        if slot is None or slot.slot_ms != self.read_ms:
            return Progress(self.queue_offset, self.read_ms, units_end=wheel.end, log_end=log_end)
        mark, unit = slot.mark, slot.mark_unit
        skip_before = slot.late_unit if slot.late_unit >= 0 else slot.top + 1
        if (slot.skip_mark, slot.skip_unit) > (mark, unit):
            # What an earlier run has delivered counts until this one is behind it.
            mark, unit, skip_before = slot.skip_mark, slot.skip_unit, slot.skip_before
        return Progress(
            self.queue_offset, self.read_ms, mark, unit, skip_before, wheel.end, log_end
        )

    def _enqueue(self, loop: TimerLoop, now_ms: int) -> bool:
        """Follow the timer topic's queue; whether there is more."""
        store = self._store
        queue = store.queues.find(TIMER_TOPIC, 0)
        is_blocked = store.settings.timer_stop_enqueue or self.read_ms < now_ms - OLD_MS
        if queue is None or is_blocked:
            return False
        self.queue_offset = max(self.queue_offset, queue.min_offset)
        if self.queue_offset >= queue.max_offset:
            self.queue_offset = queue.max_offset  # a crash took the end of the log
            loop.known = set()
            loop.replay_before = 0
            return False
        left = ENQUEUE_BATCH
        while left > 0 and self.queue_offset < queue.max_offset:
            units = queue.units(self.queue_offset)
            if units is None:
                break
            buffer, start, end = units
            end = min(end, start + left * UNIT)
            ended = loop.enqueue(buffer, start, end, self.queue_offset, self.read_ms)
            self.queue_offset += loop.taken // UNIT
            left -= loop.taken // UNIT
            self._is_dirty = True
            if ended == NO_ROOM:
                self._roll()
            elif ended == NO_UNIT:
                self._files.make_room()
        return self.queue_offset < queue.max_offset

    def _deliver(self, loop: TimerLoop, now_ms: int) -> float:
        """Deliver what is due; seconds until more is."""
        wheel = loop.wheel
        write_ms, precision = wheel.floor(now_ms), wheel.precision_ms
        if self._store.settings.timer_stop_dequeue:
            return precision / 1000
        if self.read_ms > write_ms:
            if self.read_ms - now_ms <= JITTER_MS:
                return (self.read_ms - now_ms) / 1000
            self._turn_back(write_ms)
        for _ in range(SLOTS_A_STEP):
            slot = self._current(loop, write_ms)
            if not loop.load(slot, LOAD_STEPS):
                return 0.0
            is_over = self.read_ms < write_ms
            until = precision if is_over else now_ms - self.read_ms
            ended = loop.deliver(slot, until, DELIVER_BATCH)
            if ended == NO_ROOM:
                self._roll()
                continue
            if ended == BUSY:
                return 0.0
            if not is_over:
                self.delivered_ms = now_ms
                return self._wait(loop, slot, now_ms)
            if slot.left == 0 and slot.is_loaded(wheel):
                self._close_slot(loop, slot)
        return 0.0

    def _current(self, loop: TimerLoop, write_ms: int) -> SlotLoad:
        """The slot at the read time, which moves over empty ones."""
        slot = self._slot
        if slot is not None and slot.slot_ms == self.read_ms:
            return slot
        if self.read_ms < write_ms:
            self.read_ms = loop.wheel.next_used(self.read_ms, write_ms)
        slot, self._next = self._next, None
        if self._kept is not None and self._kept.slot_ms == self.read_ms:
            slot, self._kept = self._kept, None
        if slot is None or slot.slot_ms != self.read_ms:
            slot = SlotLoad(self.read_ms, loop.wheel.precision_ms)
        self._slot = slot
        return slot

    def _close_slot(self, loop: TimerLoop, slot: SlotLoad) -> None:
        if slot.gone or slot.cancels_ignored:
            log.error(
                "timer messages are gone from the log: count=%s, cancels without effect: %s",
                slot.gone,
                slot.cancels_ignored,
            )
        if slot.top >= 0:
            self._is_dirty = True
        loop.wheel.clear(slot.slot_ms)
        self.read_ms = slot.slot_ms + loop.wheel.precision_ms
        self._slot = None

    def _turn_back(self, write_ms: int) -> None:
        """The clock was set back: slots that were read are empty and can be read again."""
        log.warning("the clock was set back: read_ms=%s now=%s", self.read_ms, write_ms)
        self._kept = self._slot if self._slot is not None and self._slot.given else None
        self.read_ms = write_ms
        self._slot = self._next = None

    def _wait(self, loop: TimerLoop, slot: SlotLoad, now_ms: int) -> float:
        """Seconds until the next message is due or the slot is over; loads the next slot early."""
        end_ms = slot.slot_ms + slot.precision_ms
        due = slot.next_due()
        wait_s = ((slot.slot_ms + due if due >= 0 else end_ms) - now_ms) / 1000
        if self._next is None or self._next.slot_ms != end_ms:
            self._next = SlotLoad(end_ms, slot.precision_ms)
        if not self._next.is_loaded(loop.wheel) and not loop.load(self._next, LOAD_STEPS):
            return min(wait_s, PRELOAD_S)
        return wait_s

    def _roll(self) -> None:
        self._store.appended()
        self._store.writing.on_roll()

    # Asking

    def waits_in_slot(self, slot_ms: int) -> int:
        """How many messages a slot has; 0 before there are timers."""
        return 0 if self._loop is None else self._files.wheel.count(slot_ms)

    def total(self, since_ms: int | None = None) -> int:
        """How many messages wait in the wheel, from a time on. Walks the wheel: 3 ms."""
        if self._loop is None:
            return 0
        return max(self._files.wheel.total(self.read_ms if since_ms is None else since_ms), 0)

    def behind(self) -> int:
        """How many messages of the timer topic's queue are not in the wheel yet."""
        return max(self._store.bounds(TIMER_TOPIC, 0)[1] - self.queue_offset, 0)

    def late_s(self, now_ms: int) -> int:
        """How many seconds delivery is behind the clock."""
        return max(now_ms - self.read_ms, 0) // 1000 if self._loop is not None else 0

    def check_bytes(self) -> bytes:
        """What code 60 answers."""
        return bytes(56) if self._loop is None else self._files.check.encode()

    def adopt(self, check: bytes) -> None:
        """Take a primary's 56 bytes (code 60), for a replica that may become one.

        When its timers open, what waits is taken from the timer topic's queue by them.
        """
        if self._loop is None and not self.is_writable and len(check) == CHECK_NUMBERS:
            self._files.adopt(check)

    # Ending

    async def flush(self) -> None:
        """Make everything durable, and then say so in ``timercheck``."""
        if self._loop is None or not self._is_dirty:
            return
        files, store = self._files, self._store
        queue_offset, read_ms, end = self.queue_offset, self.read_ms, files.wheel.end
        self._is_dirty = False
        segments, folders = files.dirty(end)
        try:
            is_certain = await store.flush_log()
            await store.sync_files(segments, folders)
        except StoreClosed:
            raise_cancellation()
            return  # what ended the store says so itself
        if not is_certain:
            self._is_dirty = True
            return
        check = files.check
        check.read_ms, check.flushed = read_ms, end
        check.queue_offset = check.master_queue_offset = queue_offset
        check.write(store.clock.now_ms())
        check.note(self._progress())
        await store.certain(check.sync)
        files.trim(store.log.min_offset)

    def leave_slot(self) -> bool:
        """Before a stop: leave a slot that is delivered to its end; False if more of it waits."""
        loop, slot = self._loop, self._slot
        if loop is None or slot is None or slot.slot_ms != self.read_ms:
            return True
        if slot.given == 0 and slot.skip_mark < 0:
            return True
        if not slot.is_loaded(loop.wheel) or slot.left > 0:
            return False
        self._close_slot(loop, slot)
        return True

    def close(self) -> None:
        """Unmap the files."""
        if self._loop is not None:
            self._loop = None
            self._slot = self._next = None
            self._files.close()


_TOPIC: Final = TIMER_TOPIC.encode()
