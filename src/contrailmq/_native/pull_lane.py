"""The pull lane: pulls that find something, answered from the read buffer in one compiled call.

Theory of operation.  ``PullLane.run`` takes PULL_MESSAGE and LITE_PULL_MESSAGE requests as long as
they are ones it knows all about: a consumer the broker has decided on (``host.decide_pull``, by
group, topic and what is subscribed to), a queue with messages at the offset asked for, a filter of
tags or an SQL condition.  The records are gathered by the store's own ``Gatherer``, as far as they
are in memory: a lane does not wait for the disk.  A pull that
finds nothing new, or is anything else, ends the run, and the ordinary handler takes it in its place
in the order: it waits, refuses and explains; the lane does not.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw
from contrailmq._native.gather import Gatherer, Limits, LogView
from contrailmq._native.queues import QueueWriter
from contrailmq._native.request import RequestScan
from contrailmq._native.sql import SqlProgram

Bytes = bytes | bytearray | memoryview

_PULL = 11
_LITE_PULL = 361
_UNIT = 20
_COMMIT = 1
_SUBSCRIPTION = 4
_KEY_SIZE = 4096
_HEAD_SIZE = 2048
_FOUND = 0
_NO_MATCH = 1
_COUNT_MAX = 32767

MORE = 0  # no whole frame is left
OTHER = 1  # the next frame is for the ordinary handler


class LaneQueue:
    """A queue of a plan: its end as the store knows it, and the file last read."""

    def __init__(self, queue: Any, writer: QueueWriter) -> None:
        self.queue = queue
        self.writer = writer
        self.units = bytes(1)
        self.view = LogView(self.units, 0, False)
        self.first = 0  # queue offset of the file's first unit
        self.last = 0  # of the first unit behind the file
        self.tally: list[int] | None = None  # messages and bytes handed out

    def attach(self, units: Bytes, first: int, is_mapped: bool) -> None:
        """Read from this file, whose first unit has this queue offset."""
        self.units = units  # type: ignore[assignment]
        self.view = LogView(units, 0, is_mapped)
        self.first = first
        self.last = first + len(units) // _UNIT


class LanePlan:
    """What the broker has decided about a consumer's pulls."""

    def __init__(self, group: str, topic: str, queue_count: int, codes: Any, tail: bytes) -> None:
        self.group = group
        self.topic = topic
        self.queue_count = queue_count
        self.codes = codes  # tag codes wanted, or None for all
        self.tail = tail  # the broker's constant ext fields, as JSON members
        self.program: SqlProgram | None = None  # the condition messages must fulfil
        self.queues: list[Any] = [None] * queue_count
        self.pulls: dict[int, int] | None = None  # how far each queue was pulled


class PullLane:
    """Answers pulls that find something."""

    def __init__(
        self, gatherer: Gatherer, host: Any, head: dict[str, bytes], counters: Any
    ) -> None:
        self.gatherer = gatherer
        self.host = host
        self.counters = counters
        self.limits = Limits(1, 1)
        self.scan_size = 0
        self.memory_size = 0  # how much of the log's end is probably in memory
        self.plans: dict[bytes, LanePlan] = {}
        self.ended = MORE
        self.scan = RequestScan()
        self._owner: Any = None
        self._buffer: Bytes = bytes(1)
        self._buffer_size = 0
        self._key = bytearray(_KEY_SIZE)
        self._key_address = raw.at_address(self._key)
        self._last_key = bytes(1)
        self._last_key_address = raw.at_address(self._last_key)
        self._last_key_size = 0
        self._last_plan: LanePlan | None = None
        self._head = bytearray(_HEAD_SIZE)
        self._head_address = raw.at_address(self._head)
        self._next = head["next"]
        self._min = head["min"]
        self._max = head["max"]
        self._opaque = head["opaque"]
        self._close = head["close"]
        self._missed = head["missed"]
        self._missed_close = head["missed close"]
        self._digits = bytearray(24)
        self._digits_address = raw.at_address(self._digits)

    def forget_plans(self) -> None:
        """The broker's tables have changed: decide anew."""
        self.plans = {}
        self._last_plan = None

    def release(self) -> None:
        """Let go of the buffer of the last run; a read buffer that is used again may be kept."""
        self._owner = None
        self._buffer = bytes(1)
        self._buffer_size = 0

    def run(self, buffer: Bytes, start: int, end: int, out: list[Any]) -> int:
        """Answer pulls from ``start``; where the first frame lies that was not taken."""
        if buffer is not self._owner:
            self._owner = buffer
            self._buffer = buffer
            self._buffer_size = len(buffer)
        if start < 0 or end > self._buffer_size:
            raise ValueError("range outside the buffer")
        data = raw.at_address(self._buffer)
        while True:
            found = self.scan.scan_at(data, start, end)
            if found == 0:
                self.ended = MORE
                return start
            if found < 0 or not self._take(data, out):
                self.ended = OTHER
                return start
            start = self.scan.frame_end

    def _take(self, data: Any, out: list[Any]) -> bool:
        scan = self.scan
        if scan.code != _PULL and scan.code != _LITE_PULL:
            return False
        if scan.flag != 0 or scan.is_binary:
            return False
        queue_id = -1
        offset = -1
        count = -1
        flags = -1
        commit = -1
        group = topic = subscription = version = kind = -1
        for number in range(scan.field_count):
            size = scan.key_size[number]
            first = data[scan.key_at[number]] if size else 0
            at = scan.value_at[number]
            value_size = scan.value_size[number]
            if size == 7:
                if first == 113:  # queueId
                    queue_id = scan.number_at(data, at, value_size)
                elif first == 115:  # sysFlag
                    flags = scan.number_at(data, at, value_size)
            elif size == 11:
                if first == 113:  # queueOffset
                    offset = scan.number_at(data, at, value_size)
            elif size == 10:
                if first == 109:  # maxMsgNums
                    count = scan.number_at(data, at, value_size)
                elif first == 115:  # subVersion
                    version = number
            elif size == 12:
                if first == 99:  # commitOffset
                    commit = scan.number_at(data, at, value_size)
                elif first == 115:  # subscription
                    subscription = number
            elif size == 13:
                if first == 99:  # consumerGroup
                    group = number
            elif size == 14:
                if first == 101:  # expressionType
                    kind = number
            elif size == 5 and first == 116:  # topic
                topic = number
        if queue_id < 0 or offset < 0 or count < 1 or count > _COUNT_MAX or flags < 0:
            return False
        if group < 0 or topic < 0:
            return False
        if flags & _SUBSCRIPTION and subscription < 0:
            return False
        plan = self._plan(data, group, topic, subscription if flags & _SUBSCRIPTION else version,
                          kind, flags)  # fmt: skip
        if plan is None or queue_id >= plan.queue_count:
            return False
        return self._answer(plan, queue_id, offset, count, commit if flags & _COMMIT else -1, out)

    def _plan(
        self, data: Any, group: int, topic: int, wanted: int, kind: int, flags: int
    ) -> LanePlan | None:
        """The plan of a consumer; made once for the same group, topic and subscription."""
        scan = self.scan
        size = self._part(data, 0, group)
        size = self._part(data, size, topic)
        size = self._part(data, size, wanted)
        size = self._part(data, size, kind)
        if size < 0:
            return None
        key = self._key_address
        key[size] = 48 + (flags & _SUBSCRIPTION)
        key[size + 1] = 49 if scan.code == _LITE_PULL else 48
        size += 2
        last = self._last_plan
        if (
            last is not None
            and size == self._last_key_size
            and raw.same_bytes(key, 0, self._last_key_address, 0, size)
        ):
            return last
        name = bytes(key[:size])
        plan = self.plans.get(name)
        if plan is None:
            plan = self.host.decide_pull(name)
            if plan is None:
                return None
            self.plans[name] = plan
        self._last_plan = plan
        self._last_key = name
        self._last_key_address = raw.at_address(self._last_key)
        self._last_key_size = size
        return plan

    def _part(self, data: Any, at: int, field: int) -> int:
        """Add an ext field and a separator to the key; -1 when it does not fit or is escaped."""
        if at < 0:
            return -1
        size = 0
        if field >= 0:
            if self.scan.escaped[field]:
                return -1
            size = self.scan.value_size[field]
            if size > _KEY_SIZE - at - 16:
                return -1
            raw.copy_bytes(self._key_address, at, data, self.scan.value_at[field], size)
        elif _KEY_SIZE - at < 16:
            return -1
        self._key_address[at + size] = 0
        return at + size + 1

    def _answer(
        self, plan: LanePlan, queue_id: int, offset: int, count: int, commit: int, out: list[Any]
    ) -> bool:
        found = plan.queues[queue_id]
        if found is None:
            found = self.host.lane_queue(plan.topic, queue_id)
            if found is None:
                return False
            plan.queues[queue_id] = found
        queue: LaneQueue = found
        high = queue.writer.max_offset
        low = queue.queue.min_offset
        if offset < low or offset >= high:
            return False
        if offset < queue.first or offset >= queue.last:
            if not self.host.attach(queue, offset):
                return False
            if offset < queue.first or offset >= queue.last:
                return False
        end = queue.last if queue.last < high else high
        span = count * _UNIT
        if span < self.scan_size:
            span = self.scan_size
        start = (offset - queue.first) * _UNIT
        stop = (end - queue.first) * _UNIT
        if stop > start + span:
            stop = start + span
        gatherer = self.gatherer
        if gatherer.is_away(queue.view, start, stop, (end - queue.first) * _UNIT):
            return False
        gatherer.watched = True
        seen = gatherer.select(
            queue.units, start, stop, count, self.limits, gatherer.end_offset - self.memory_size,
            plan.codes, plan.program,
        )  # fmt: skip
        gatherer.watched = False
        if gatherer.touched >= 0:
            self.host.read_on()
        if gatherer.status == _NO_MATCH:
            self.counters.got_missed += 1
            if commit >= 0:
                self.host.commit(plan, queue_id, commit)
            size = self._header(plan, offset + seen, low, high, -1)
            out.append(raw.copy_of(self._head_address, 0, size))
            return True
        if gatherer.status != _FOUND:
            return False
        size = self._header(plan, offset + seen, low, high, gatherer.total)
        answer = gatherer.copy_behind(self._head_address, size)
        self._note(plan, queue, queue_id, offset + seen)
        if commit >= 0:
            self.host.commit(plan, queue_id, commit)
        out.append(answer)
        return True

    def _note(self, plan: LanePlan, queue: LaneQueue, queue_id: int, following: int) -> None:
        """Count what was selected, and how far the group has come."""
        if queue.tally is None:
            queue.tally = self.host.tally(plan, queue_id)
        if plan.pulls is None:
            plan.pulls = self.host.pulls_of(plan)
        plan.pulls[queue_id] = following
        queue.tally[0] += self.gatherer.count
        queue.tally[1] += self.gatherer.total
        self.counters.got_found += 1
        self.counters.got_total += self.gatherer.count

    def _header(self, plan: LanePlan, following: int, low: int, high: int, body_size: int) -> int:
        """Write the head of an answer, its size; a body size of -1: nothing matched."""
        at = self._text(8, self._next if body_size >= 0 else self._missed)
        at = self._number(at, following)
        at = self._text(at, self._min)
        at = self._number(at, low)
        at = self._text(at, self._max)
        at = self._number(at, high)
        at = self._text(at, plan.tail)
        at = self._text(at, self._opaque)
        at = self._number(at, self.scan.opaque)
        at = self._text(at, self._close if body_size >= 0 else self._missed_close)
        if body_size < 0:
            body_size = 0
        raw.put_u32(self._head_address, 0, at - 4 + body_size)
        raw.put_u32(self._head_address, 4, at - 8)
        return at

    def _text(self, at: int, text: bytes) -> int:
        size = len(text)
        raw.copy_bytes(self._head_address, at, raw.at_address(text), 0, size)
        return at + size

    def _number(self, at: int, value: int) -> int:
        out = self._head_address
        digits = self._digits_address
        if value < 0:
            out[at] = 45
            at += 1
            value = -value
        count = 0
        while True:
            digits[count] = 48 + value % 10
            count += 1
            value //= 10
            if value == 0:
                break
        for step in range(count):
            out[at + step] = digits[count - 1 - step]
        return at + count
