"""The send lane: the ordinary SEND_MESSAGE_V2 requests of one socket read, in one compiled call.

Theory of operation.  ``SendLane.run`` is what a connection calls, once per socket read.  It takes
whole frames from the read buffer as long as they are sends it knows all about: a topic the broker
has decided on (``host.decide``), a queue of it, a body, properties that ask for nothing special.
Each becomes a record in the log (``LogWriter.append_at``) and an answer in a buffer (``answers``).
The first frame that is anything else ends the run, and the ordinary handler takes it in its place
in the order: the lane has no opinion about errors, new topics, delays, transactions or full
segments, and no way to refuse.

The lane takes the time once per run, lets the store derive from what was appended before any
answer leaves, and hands out the answers as one object, or to ``held`` where answers wait for the
disk.  Its host is asked only for what is rare, or not its business: what to think of a topic, and
anything else than sends (``other``).  No Python object is made per message, but for a topic's name
that is not the same as the message's before.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import names, raw, system
from contrailmq._native.hosts import LanePeer, SendHost
from contrailmq._native.lanes.answers import AnswerWriter
from contrailmq._native.lanes.decided import LaneTopic
from contrailmq._native.lanes.fields import (
    HAS_KEY,
    IS_ACTED_ON,
    IS_KEY_ODD,
    IS_ODD,
    NO_WAIT,
    SendFields,
    SendProperties,
)
from contrailmq._native.lanes.inputs import SendInputs
from contrailmq._native.lanes.times import Times
from contrailmq._native.net.request import RequestScan
from contrailmq._native.store.log import Origin
from contrailmq._native.store.queues import QueueWriter

Bytes = bytes | bytearray | memoryview

_SEND_V2 = 310
_ANSWER_SIZE = 1024  # of an answer, but for the ids of a batch
_OUT_SIZE = 262144
_TEXT_SIZE = 65536
_ONEWAY = 2
_FRAMES_SIZE_MIN = 64  # shorter than any send
# The bounds of rocketmq_message_size.
_SIZE_0 = 1024
_SIZE_1 = 4096
_SIZE_2 = 524288
_SIZE_3 = 1048576
_SIZE_4 = 2097152
_SIZE_5 = 4194304
_SPECIAL = IS_ACTED_ON | IS_ODD | IS_KEY_ODD

# Why a run ended.
MORE = 0  # no whole frame is left
OTHER = 1  # the next frame is for the ordinary handler
FULL = 2  # the answers fill their buffer: fetch them and run again
_MORE = 0
_OTHER = 1
_FULL = 2
_HAS_KEY = HAS_KEY
_NO_WAIT = NO_WAIT


class SendLane:
    """Turns the sends of a read into records and answers.

    ``is_open``: it takes messages.  ``waits``: answers wait until the host says so.  ``taken``
    counts the messages it has stored, ``served`` the requests.  ``times`` are those of requests
    whose answers do not wait.
    """

    def __init__(self, host: SendHost, inputs: SendInputs) -> None:
        self.host = host
        self.log = inputs.log
        self.follower = inputs.follower
        self.now_ms = inputs.now_ms
        self.revision = inputs.revision
        self.queues = inputs.queues
        self.held = inputs.held
        self.kept_size = inputs.kept_size
        self.gate = inputs.gate
        self.scan = RequestScan()
        self.fields = SendFields(inputs.fields)
        self.properties = SendProperties(inputs.properties)
        id_prefix = inputs.store_host.hex().upper().encode()
        self.answers = AnswerWriter(_OUT_SIZE, id_prefix)
        self.json_answer = inputs.json_answer
        self.binary_answer = inputs.binary_answer
        self.topics: dict[bytes, LaneTopic] = {}
        self.touched: list[LaneTopic] = []
        self.decided_at = -1
        self.removals_at = -1
        self.is_open = False
        self.waits = False
        self.ended = _MORE
        self.taken = 0
        self.served = 0
        self.times: Times = inputs.times
        self._owner: Any = None
        self._buffer: Bytes = bytes(1)
        self._buffer_size = 0
        self._last = LaneTopic(b"", 0)
        self._unescaped = bytearray(_TEXT_SIZE)
        self._unescaped_address = raw.at_address(self._unescaped)
        self._text = self._unescaped_address
        self._text_at = 0
        self._text_end = 0

    def steer(self, is_open: bool, waits: bool) -> None:
        """Take messages or not; let answers wait for disk and replicas or not."""
        self.is_open = is_open
        self.waits = waits

    def take_touched(self) -> list[LaneTopic]:
        """Return the topics that were put into since the last call."""
        touched = self.touched
        self.touched = []
        for entry in touched:
            entry.is_touched = False
        return touched

    def release(self) -> None:
        """Let go of the buffer of the last run; a read buffer that is used again may be kept."""
        self._owner = None
        self._buffer = bytes(1)
        self._buffer_size = 0

    def forget(self) -> None:
        """Drop every decision about a topic."""
        self.topics = {}
        self._last = LaneTopic(b"", 0)

    def run(self, buffer: bytearray, start: int, end: int, peer: LanePeer, out: list[Bytes]) -> int:
        """Serve what is ordinary from ``start`` on; returns the position of the first frame left.

        This is the ``FastLane`` of a server's connections.
        """
        if buffer is not self._owner:
            self._use(buffer)
        if start < 0 or end > self._buffer_size:
            raise ValueError("range outside the buffer")
        if end - start < _FRAMES_SIZE_MIN or self._buffer[start] != 0:
            return start
        revision = self.revision.value
        removals = self.queues.removals
        if revision != self.decided_at or removals != self.removals_at:
            self.decided_at = revision
            self.removals_at = removals
            self.forget()
            self.host.decide_anew()
        if self.gate is not None:
            self.gate.enter(peer)
        while True:
            position = start
            self.ended = _OTHER
            if self.is_open and self.follower.is_ready():
                position = self._serve(start, end, peer, out)
            if position != end and self.ended == _OTHER:
                position = self.host.other(buffer, position, end, peer, out)
            if position == start or end - position < _FRAMES_SIZE_MIN:
                break
            start = position
        if self._buffer_size != self.kept_size:
            self.release()
            self.host.release()
        return position

    def take(self, buffer: Bytes, start: int, end: int, origin: Origin) -> int:
        """Store sends from ``start`` on; returns the position of the first frame left.

        The caller fetches the answers, and derives.
        """
        if buffer is not self._owner:
            self._use(buffer)
        if start < 0 or end > self._buffer_size:
            raise ValueError("range outside the buffer")
        return self._take(start, end, origin)

    def _use(self, buffer: Bytes) -> None:
        self._owner = buffer
        self._buffer = buffer
        self._buffer_size = len(buffer)

    def _serve(self, start: int, end: int, peer: LanePeer, out: list[Bytes]) -> int:
        origin = peer.lane_state
        if origin is None:
            origin = self.host.origin(peer)
        began_ns = system.monotonic_ns()
        served = self.served
        before_ms = self.log.store_ms
        self.log.store_ms = self.now_ms()
        self.answers.end = 0  # what an error kept from leaving belongs to another connection
        position = self._take(start, end, origin)
        if position == start:
            self.log.store_ms = before_ms  # nothing was stored: the checkpoint must not vouch
            return start
        while position != start:
            self.follower.appended()
            if self.answers.end:
                if self.waits:
                    self.held.hold(self.answers.take(), peer)
                else:
                    out.append(self.answers.take())
            if self.ended != _FULL:
                break
            start = position
            position = self._take(start, end, origin)
        if not self.waits:
            self.times.add(system.monotonic_ns() - began_ns, self.served - served)
        return position

    def _take(self, start: int, end: int, origin: Origin) -> int:
        data = raw.at_address(self._buffer)
        while True:
            found = self.scan.scan_at(data, start, end)
            if found == 0:
                self.ended = _MORE
                return start
            self.ended = _OTHER
            if found < 0 or not self._take_one(data, origin):
                return start
            self.served += 1
            start = self.scan.frame_end

    def _take_one(self, data: Any, origin: Origin) -> bool:
        """Store one send and answer it; False if it is not for the lane, or not now."""
        scan, fields = self.scan, self.fields
        if scan.code != _SEND_V2:
            return False
        entry = self._admit(data)
        if entry is None or fields.is_batch:
            return False
        found = self.properties.read(self._text, self._text_at, self._text_end)
        if found & (_SPECIAL | _HAS_KEY) != _HAS_KEY:
            return False
        if found & _NO_WAIT and self.waits:
            return False
        if self.answers.rest() < _ANSWER_SIZE:
            self.ended = _FULL
            return False
        if self.gate is not None and not self.gate.admits_send(scan, data, entry, False):
            return False
        queue = self._queue(entry)
        offset = self.log.base + self.log.position
        queue_offset = queue.next_offset
        written = self.log.append_at(
            queue, origin, data, scan.body_at, scan.frame_end - scan.body_at,
            self._text, self._text_at, self._text_end - self._text_at,
            fields.flag, fields.sys_flag, fields.born_ms, 0, 0,
        )  # fmt: skip
        if written <= 0:
            return False
        if not scan.flag & _ONEWAY:
            self.answers.key(self._text, self.properties.key_at, self.properties.key_size)
            self.answers.add_id(offset)
            self._answer(queue_offset)
        self._note(entry, 1, written)
        return True

    def _admit(self, data: Any) -> LaneTopic | None:
        """Read a send's header; returns its topic, or None if the send is not for a lane.

        Where its properties are is left in ``_text``.
        """
        scan, fields = self.scan, self.fields
        if scan.flag != 0 and scan.flag != _ONEWAY:
            return None
        if scan.frame_end == scan.body_at or not fields.read(scan, data):
            return None
        entry = self._topic(data, fields.topic)
        if entry is None or fields.queue_id >= entry.queue_count:
            return None
        at = scan.value_at[fields.properties]
        size = scan.value_size[fields.properties]
        self._text = data
        self._text_at = at
        self._text_end = at + size
        if scan.escaped[fields.properties]:
            if size > _TEXT_SIZE:
                return None
            size = scan.unescape_at(data, at, at + size, self._unescaped_address, 0)
            if size < 0:
                return None
            self._text = self._unescaped_address
            self._text_at = 0
            self._text_end = size
        return entry

    def _topic(self, data: Any, field: int) -> LaneTopic | None:
        scan = self.scan
        if scan.escaped[field]:
            return None
        at = scan.value_at[field]
        size = scan.value_size[field]
        last = self._last
        if size == last.topic_size and raw.same_bytes(data, at, last.topic_address, 0, size):
            return last
        name = bytes(data[at : at + size])
        entry = self.topics.get(name)
        if entry is None:
            entry = self.host.decide(name)
            if entry is None:
                return None
            self.topics[name] = entry
        self._last = entry
        return entry

    def _queue(self, entry: LaneTopic) -> QueueWriter:
        queue_id = self.fields.queue_id
        found: QueueWriter | None = entry.queues[queue_id]
        if found is None:
            found = self.host.queue(entry.topic, queue_id)
            entry.queues[queue_id] = found
        return found

    def _answer(self, queue_offset: int) -> None:
        answers, scan = self.answers, self.scan
        answers.numbers[names.QUEUE_ID] = self.fields.queue_id
        answers.numbers[names.QUEUE_OFFSET] = queue_offset
        answers.numbers[names.OPAQUE] = scan.opaque
        answers.write(self.binary_answer if scan.is_binary else self.json_answer, 0)

    def _note(self, entry: LaneTopic, count: int, size: int) -> None:
        """Count what was put into a queue."""
        queue_id = self.fields.queue_id
        entry.counts[queue_id] += count
        entry.sizes[queue_id] += size
        entry.calls[queue_id] += 1
        entry.spread[_size_step(size if count == 1 else size // count)] += count
        if not entry.is_touched:
            entry.is_touched = True
            self.touched.append(entry)
        self.taken += count


def _size_step(size: int) -> int:
    """Which bucket of ``message_size`` a record belongs to."""
    if size <= _SIZE_0:
        return 0
    if size <= _SIZE_1:
        return 1
    if size <= _SIZE_2:
        return 2
    if size <= _SIZE_3:
        return 3
    if size <= _SIZE_4:
        return 4
    return 5 if size <= _SIZE_5 else 6
