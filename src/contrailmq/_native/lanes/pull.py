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

from contrailmq._native import names, raw, system
from contrailmq._native.hosts import PullCounters, PullHost
from contrailmq._native.lanes.answers import AnswerParts, AnswerWriter
from contrailmq._native.lanes.decided import LanePlan, LaneQueue
from contrailmq._native.lanes.fields import PullFields
from contrailmq._native.lanes.gate import Gate
from contrailmq._native.lanes.times import Times
from contrailmq._native.net.request import RequestScan
from contrailmq._native.store.gather import Gatherer, Limits

Bytes = bytes | bytearray | memoryview

_PULL = 11
_LITE_PULL = 361
_UNIT = 20
_COMMIT = 1
_SUBSCRIPTION = 4
_KEY_SIZE = 4096
_KEY_REST = 16  # more than what follows the last part
_GIVEN_MAX = 1048576  # bytes of the answers to one read
_HEAD_SIZE = 2048
_FOUND = 0
_NO_MATCH = 1

MORE = 0  # no whole frame is left
OTHER = 1  # the next frame is for the ordinary handler


class PullLane:
    """Answers pulls that find something; ``answered`` counts them."""

    def __init__(
        self,
        host: PullHost,
        gatherer: Gatherer,
        limits: Limits,
        fields: bytes,
        counters: PullCounters,
        gate: Gate | None = None,
    ) -> None:
        self.host = host
        self.gatherer = gatherer
        self.limits = limits
        self.counters = counters
        self.gate = gate
        self.fields = PullFields(fields)
        self.plans: dict[bytes, LanePlan] = {}
        self.ended = MORE
        self.answered = 0
        self.times = Times()
        self.scan = RequestScan()
        self.head = AnswerWriter(_HEAD_SIZE, b"")
        self._owner: Any = None
        self._buffer: Bytes = bytes(1)
        self._buffer_size = 0
        self._key = bytearray(_KEY_SIZE)
        self._key_address = raw.at_address(self._key)
        self._last_key = bytes(1)
        self._last_key_address = raw.at_address(self._last_key)
        self._last_key_size = 0
        self._last_plan: LanePlan | None = None

    def forget_plans(self, limits: Limits) -> None:
        """Drop every plan: the broker's tables have changed; the limits may have, too."""
        self.plans = {}
        self._last_plan = None
        self.limits = limits

    def release(self) -> None:
        """Let go of the buffer of the last run; a read buffer that is used again may be kept."""
        self._owner = None
        self._buffer = bytes(1)
        self._buffer_size = 0

    def run(self, buffer: Bytes, start: int, end: int, out: list[Bytes]) -> int:
        """Answer pulls from ``start`` on; returns the position of the first frame left."""
        if buffer is not self._owner:
            self._owner = buffer
            self._buffer = buffer
            self._buffer_size = len(buffer)
        if start < 0 or end > self._buffer_size:
            raise ValueError("range outside the buffer")
        began_ns = system.monotonic_ns()
        answered = self.answered
        start = self._run(start, end, out)
        if self.answered != answered:
            self.times.add(system.monotonic_ns() - began_ns, self.answered - answered)
        return start

    def _run(self, start: int, end: int, out: list[Bytes]) -> int:
        data = raw.at_address(self._buffer)
        given = 0
        while True:
            found = self.scan.scan_at(data, start, end)
            if found == 0:
                self.ended = MORE
                return start
            if found < 0 or not self._take(data, out):
                self.ended = OTHER
                return start
            self.answered += 1
            start = self.scan.frame_end
            given += self.gatherer.total
            if given > _GIVEN_MAX:  # who asks for more is asked first whether it reads
                self.ended = OTHER
                return start

    def _take(self, data: Any, out: list[Bytes]) -> bool:
        scan, fields = self.scan, self.fields
        if scan.code != _PULL and scan.code != _LITE_PULL:
            return False
        if scan.flag != 0 or scan.is_binary or not fields.read(scan, data):
            return False
        wanted = fields.version
        if fields.flags & _SUBSCRIPTION:
            wanted = fields.subscription
            if wanted < 0:
                return False
        plan = self._plan(data, wanted)
        if plan is None or fields.queue_id >= plan.queue_count:
            return False
        if self.gate is not None and not self.gate.admits_pull(scan, data, plan):
            return False
        return self._answer(plan, out)

    def _plan(self, data: Any, wanted: int) -> LanePlan | None:
        """Return the plan of a consumer: one for the same group, topic and subscription."""
        scan, fields = self.scan, self.fields
        size = self._part(data, 0, fields.group)
        size = self._part(data, size, fields.topic)
        size = self._part(data, size, wanted)
        size = self._part(data, size, fields.kind)
        if size < 0:
            return None
        key = self._key_address
        key[size] = ord("0") + (fields.flags & _SUBSCRIPTION)
        key[size + 1] = ord("1") if scan.code == _LITE_PULL else ord("0")
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
            if plan.found.size > _HEAD_SIZE // 2 or plan.missed.size > _HEAD_SIZE // 2:
                raise ValueError("a plan's answer is longer than the lane's buffer")
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
            if size > _KEY_SIZE - at - _KEY_REST:
                return -1
            raw.copy_bytes(self._key_address, at, data, self.scan.value_at[field], size)
        elif _KEY_SIZE - at < _KEY_REST:
            return -1
        self._key_address[at + size] = 0
        return at + size + 1

    def _answer(self, plan: LanePlan, out: list[Bytes]) -> bool:
        gatherer, fields = self.gatherer, self.fields
        queue_id = fields.queue_id
        found = plan.queues[queue_id]
        if found is None:
            found = self.host.lane_queue(plan.topic, queue_id)
            if found is None:
                return False
            plan.queues[queue_id] = found
        queue: LaneQueue = found
        high = queue.writer.max_offset
        low = queue.queue.min_offset
        if fields.offset < low or fields.offset >= high:
            return False
        seen = self._select(plan, queue, high)
        if seen < 0:
            return False
        if gatherer.touched >= 0:
            self.host.read_on()
        if gatherer.status == _NO_MATCH:
            self._head(plan.missed, fields.offset + seen, low, high, 0)
            out.append(self.head.take())
            self.counters.got_missed += 1
        elif gatherer.status == _FOUND:
            self._head(plan.found, fields.offset + seen, low, high, gatherer.total)
            out.append(gatherer.copy_behind(self.head.address, self.head.end))
            self.head.end = 0
            self._note(plan, queue, fields.offset + seen)
        else:
            return False
        if fields.flags & _COMMIT and fields.commit >= 0:
            self.host.commit(plan, queue_id, fields.commit)
        return True

    def _select(self, plan: LanePlan, queue: LaneQueue, high: int) -> int:
        """Select what the pull gets; returns the units looked at, -1 if they are not in memory."""
        gatherer, fields = self.gatherer, self.fields
        offset = fields.offset
        if offset < queue.first or offset >= queue.last:
            if not self.host.attach(queue, offset):
                return -1
            if offset < queue.first or offset >= queue.last:
                return -1
        end = queue.last if queue.last < high else high
        start = (offset - queue.first) * _UNIT
        stop = (end - queue.first) * _UNIT
        span = self.limits.span(fields.count)
        if stop > start + span:
            stop = start + span
        if gatherer.is_away(queue.view, start, stop, (end - queue.first) * _UNIT):
            return -1
        gatherer.watched = True
        seen = gatherer.select(
            queue.units, start, stop, fields.count, self.limits,
            self.limits.disk_before(gatherer.end_offset), plan.codes, plan.program,
        )  # fmt: skip
        gatherer.watched = False
        return seen

    def _note(self, plan: LanePlan, queue: LaneQueue, following: int) -> None:
        """Count what was selected, and how far the group has come."""
        queue_id = self.fields.queue_id
        if queue.tally is None:
            queue.tally = self.host.tally(plan, queue_id)
        if plan.pulls is None:
            plan.pulls = self.host.pulls_of(plan)
        plan.pulls[queue_id] = following
        queue.tally[0] += self.gatherer.count
        queue.tally[1] += self.gatherer.total
        queue.tally[2] += 1
        self.counters.got_found += 1
        self.counters.got_total += self.gatherer.count

    def _head(
        self, parts: AnswerParts, following: int, low: int, high: int, body_size: int
    ) -> None:
        """Write the head of an answer."""
        numbers = self.head.numbers
        numbers[names.NEXT_OFFSET] = following
        numbers[names.MIN_OFFSET] = low
        numbers[names.MAX_OFFSET] = high
        numbers[names.OPAQUE] = self.scan.opaque
        self.head.end = 0
        self.head.write(parts, body_size)
