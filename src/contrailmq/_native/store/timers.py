# cython: annotation_typing=False
# ruff: noqa: ERA001
"""Timer messages into the wheel and out of it, without a Python object for each.

``TimerLoop.enqueue`` takes units of the timer topic's queue and adds each message to the wheel, or
delivers it at once when its time has passed.  A ``SlotLoad`` holds the one slot that is being
delivered.  ``TimerLoop.deliver``
appends what is due to the log, as a message of its real topic.  What a peer sent or a disk holds is
checked here before it is read.

The log may have no room for the next record: a loop then ends with ``NO_ROOM`` and its caller makes
room and calls again.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import hashing, raw
from contrailmq._native.store.gather import Gatherer, LogView
from contrailmq._native.store.log import LogWriter, Origin
from contrailmq._native.store.queues import QueueWriter
from contrailmq._native.store.slots import SlotLoad
from contrailmq._native.store.timer_record import TimerRecord
from contrailmq._native.store.wheel import Wheel

Bytes = bytes | bytearray | memoryview

DONE = 0
NO_ROOM = 1  # of the log
NO_UNIT = 2  # of the timer log: its file is full
BUSY = 3  # there is more to do
_DONE = 0
_NO_ROOM = 1
_NO_UNIT = 2
_BUSY = 3

CANCELS = 1 << 20  # of one slot; the others have no effect
_CANCELS = 1 << 20
_WINDOW = 1 << 20  # as slots.WINDOW
_UNIT = 20
_ROLL = 2
_DELETE = 4
_MAX_MS = 0x7FFFFFFFFFFFFFFF  # TIMER_ENQUEUE_MS of a message that never was in the wheel
_TARGETS_MAX = 65536
_ORIGINS_MAX = 65536


class Target:
    """A queue that timer messages are delivered to, and what went there since it was asked."""

    def __init__(self, queue: QueueWriter, topic: bytes) -> None:
        self.queue = queue
        self.topic = topic
        self.count = 0
        self.size = 0


class TimerLoop:
    """Moves timer messages between the log and the wheel."""

    def __init__(
        self, log: LogWriter, gatherer: Gatherer, wheel: Wheel, host: Any, timer_topic: bytes
    ) -> None:
        self.log = log
        self.gatherer = gatherer
        self.wheel = wheel
        self.host = host
        self.timer_topic = timer_topic
        self.now_ms = 0
        self.window_ms = 0
        self.known: set[int] = set()  # log offsets that are in the wheel already, after a crash
        self.replay_before = 0  # queue offsets before it: only what waits from replay_ms on
        self.replay_ms = 0
        self.targets: dict[tuple[bytes, int], Target] = {}
        self.touched: list[Target] = []
        self.origins: dict[bytes, Origin] = {}
        self.counts: dict[bytes, int] = {}  # by real topic: more or fewer that wait
        self.delivered = 0
        self.cancelled = 0
        self.rolled = 0
        self.bad = 0
        self.taken = 0
        self.found = TimerRecord()

    def _scan(self, view: LogView, offset: int, size: int) -> bool:
        """Look at a record; False when it is no timer message."""
        return self.found.scan(view.address, offset - view.base, size, self.wheel.precision_ms)

    # Into the wheel

    def enqueue(self, units: Bytes, start: int, end: int, queue_offset: int, read_ms: int) -> int:
        """Take units of the timer topic's queue; ``taken`` says how many bytes of them."""
        if start < 0 or end > len(units):
            raise ValueError("enqueue: range outside the view")
        address = raw.at_address(units)
        write_ms = self.wheel.floor(self.now_ms)
        self.taken = 0
        at = start
        while end - at >= _UNIT:
            offset = raw.get_i64(address, at)
            ended = self._enqueue(
                offset, raw.get_u32(address, at + 8), queue_offset, write_ms, read_ms
            )
            if ended != _DONE:
                return ended
            at += _UNIT
            queue_offset += 1
            self.taken = at - start
        return _DONE

    def _enqueue(
        self, offset: int, size: int, queue_offset: int, write_ms: int, read_ms: int
    ) -> int:
        found = self.found
        view = self.gatherer.find(offset, size)
        if view is None or not self._scan(view, offset, size):
            self.bad += 1
            return _DONE
        if self.known and offset in self.known:
            return _DONE
        out_ms = self.wheel.floor(found.out_ms)
        if queue_offset < self.replay_before and not self._still_waits(out_ms):
            return _DONE
        if out_ms < write_ms or out_ms < read_ms:
            if found.cancel_size > 0:
                return _DONE  # too late for what it was to cancel
            return self._append(view, _MAX_MS, False)
        magic = 1
        slot_ms = out_ms
        ahead = out_ms - write_ms
        if ahead >= self.window_ms:
            magic |= _ROLL
            slot_ms = write_ms + self._roll_ms(ahead)
        if found.cancel_size > 0:
            magic |= _DELETE
        hashed = hashing.hash_at(view.address, found.topic, found.topic + found.topic_size, 0)
        if self.wheel.append(slot_ms, write_ms, magic, offset, size, hashed) < 0:
            return _NO_UNIT
        self._count(view.address, -1 if found.cancel_size > 0 else 1)
        return _DONE

    def _roll_ms(self, ahead: int) -> int:
        """How far ahead a message waits whose time is behind the window."""
        half = self.window_ms // 2
        if ahead - self.window_ms < self.window_ms // 3:
            return half - half % self.wheel.precision_ms
        return self.window_ms

    def _still_waits(self, out_ms: int) -> bool:
        """Whether a message that was in a lost timer log is not delivered, and not put again."""
        found = self.found
        if out_ms < self.replay_ms:
            return False
        write_ms = self.wheel.floor(found.store_ms)
        if out_ms - write_ms < self.window_ms:
            return True
        return write_ms + self._roll_ms(out_ms - write_ms) >= self.replay_ms

    # Out of the wheel

    def load(self, slot: SlotLoad, steps: int) -> bool:
        """Look at units of a slot, newest first, not more than ``steps``; whether all are known."""
        if slot.cursor < 0:
            if slot.pauses:
                if slot.left > 0:
                    return True  # one window at a time
                slot.walk_top = slot.pauses.pop()
            else:
                slot.walk_top = self.wheel.last(slot.slot_ms)
            if slot.walk_top <= slot.top:
                return True
            slot.cursor = slot.walk_top
        while steps > 0:
            steps -= 1
            if slot.cursor <= slot.top or slot.cursor < 0:
                slot.settle()
                return not slot.pauses or slot.left > 0
            if slot.stack_size >= _WINDOW:
                slot.pauses.append(slot.walk_top)
                slot.walk_top = slot.cursor
                slot.stack_size = 0
            slot.cursor = self._look(slot, slot.cursor)
        return False

    def _look(self, slot: SlotLoad, position: int) -> int:
        """Look at one unit; the position of the one before it."""
        found = self.found
        file = self.wheel.find(position)
        if file is None:
            return -1  # retention has removed the rest of the chain
        at = position - file.base
        before = raw.get_i64(file.address, at + 4)
        magic = raw.get_u32(file.address, at + 12)
        offset = raw.get_i64(file.address, at + 28)
        size = raw.get_u32(file.address, at + 36)
        view = self.gatherer.find(offset, size)
        if view is None or not self._scan(view, offset, size):
            slot.gone += 1
        elif magic & _ROLL:
            slot.push(position, 1)
        elif magic & _DELETE:
            if len(slot.cancels) < _CANCELS:
                slot.cancels.add(raw.copy_of(view.address, found.cancel, found.cancel_size))
            else:
                slot.cancels_ignored += 1
        else:
            place = found.due_ms - slot.slot_ms
            slot.push(position, max(1, min(place, slot.precision_ms)))
        return before if before < position else -1

    def deliver(self, slot: SlotLoad, until: int, count: int) -> int:
        """Append what is due up to a millisecond of the slot; DONE, BUSY or NO_ROOM."""
        until = min(until, slot.precision_ms)
        while slot.mark <= until:
            entry = slot.heads[slot.mark]
            if entry < 0:
                slot.late_unit = -1
                if slot.mark == until:
                    break
                slot.mark += 1
                slot.mark_unit = -1
                continue
            if count <= 0:
                return _BUSY
            count -= 1
            if self._release(slot, slot.units[entry]) != _DONE:
                return _NO_ROOM
            slot.mark_unit = slot.units[entry]
            slot.heads[slot.mark] = slot.nexts[entry]
            slot.left -= 1
            slot.given += 1
        return _DONE

    def _release(self, slot: SlotLoad, position: int) -> int:
        file = self.wheel.find(position)
        if file is None:
            self.bad += 1
            return _DONE
        at = position - file.base
        magic = raw.get_u32(file.address, at + 12)
        write_ms = raw.get_i64(file.address, at + 16)
        offset = raw.get_i64(file.address, at + 28)
        size = raw.get_u32(file.address, at + 36)
        view = self.gatherer.find(offset, size)
        if view is None or not self._scan(view, offset, size):
            self.bad += 1
            return _DONE
        if slot.cancels and not magic & _ROLL and self._is_cancelled(slot, view):
            self.cancelled += 1
            return _DONE  # its cancel was counted against it already
        ended = self._append(view, write_ms, magic & _ROLL != 0)
        if ended == _DONE:
            self._count(view.address, 1 if magic & _DELETE else -1)
        return ended

    def _is_cancelled(self, slot: SlotLoad, view: LogView) -> bool:
        """5.2.0 names the unique key alone, later versions topic and key."""
        found = self.found
        unique = raw.copy_of(view.address, found.unique, found.unique_size)
        if unique in slot.cancels:
            return True
        topic = raw.copy_of(view.address, found.topic, found.topic_size)
        return topic + b"+" + unique in slot.cancels

    def _append(self, view: LogView, enqueue_ms: int, is_roll: bool) -> int:
        """Put the message just scanned into its real topic, or into the timer topic again."""
        found = self.found
        size = found.rewrite(view.address, enqueue_ms, self.now_ms, is_roll)
        target = self._target(view.address, is_roll)
        if target is None or size < 0:
            self.bad += 1
            return _DONE
        if found.is_light and not is_roll:
            return self._put_light(view, target, size)
        written = self.log.append_at(
            target.queue, self._origin(view.address), view.address, found.body, found.body_size,
            found.out_address, 0, size, found.flag, found.sys_flag, found.born_ms,
            found.reconsume, 0,
        )  # fmt: skip
        return self._stored(target, written, is_roll)

    def _put_light(self, view: LogView, target: Target, size: int) -> int:
        """Let the host store a message that is in light queues, too, or that only says so."""
        found = self.found
        written = self.host.put_light(
            (target.topic, found.queue_id),
            (raw.copy_of(view.address, found.body, found.body_size), bytes(found.out[:size])),
            (found.flag, found.sys_flag, found.born_ms, found.reconsume),
            (
                raw.copy_of(view.address, found.born, found.born_size),
                raw.copy_of(view.address, found.store, found.store_size),
            ),
        )
        return self._stored(target, written, False)

    def _stored(self, target: Target, written: int, is_roll: bool) -> int:
        """Count what an append has written; 0 is no room, less a refusal."""
        if written == 0:
            return _NO_ROOM
        if written < 0:
            self.bad += 1
            return _DONE
        if target.count == 0:
            self.touched.append(target)
        target.count += 1
        target.size += written
        if is_roll:
            self.rolled += 1
        else:
            self.delivered += 1
        return _DONE

    def _target(self, data: Any, is_roll: bool) -> Target | None:
        found = self.found
        topic = self.timer_topic
        queue_id = 0
        if not is_roll:
            topic = raw.copy_of(data, found.topic, found.topic_size)
            queue_id = found.queue_id
        target = self.targets.get((topic, queue_id))
        if target is None:
            queue = self.host.queue(topic, queue_id)
            if queue is None:
                return None
            if len(self.targets) >= _TARGETS_MAX:
                self.targets.clear()  # a cache
            target = Target(queue, topic)
            self.targets[topic, queue_id] = target
        return target

    def _origin(self, data: Any) -> Origin:
        found = self.found
        born = raw.copy_of(data, found.born, found.born_size)
        store = raw.copy_of(data, found.store, found.store_size)
        origin = self.origins.get(born + store)
        if origin is None:
            if len(self.origins) >= _ORIGINS_MAX:
                self.origins.clear()  # a cache
            origin = Origin(born, store, b"")
            self.origins[born + store] = origin
        return origin

    def _count(self, data: Any, change: int) -> None:
        found = self.found
        topic = raw.copy_of(data, found.topic, found.topic_size)
        self.counts[topic] = self.counts.get(topic, 0) + change

    def take_touched(self) -> list[tuple[bytes, int, int, int]]:
        """Topic, queue id, count and bytes of everything delivered since the last call."""
        found = [
            (target.topic, target.queue.queue_id, target.count, target.size)
            for target in self.touched
        ]
        for target in self.touched:
            target.count = 0
            target.size = 0
        self.touched = []
        return found

    def forget_queues(self) -> None:
        """Queues were removed: look for each again."""
        self.targets.clear()
        self.touched.clear()
