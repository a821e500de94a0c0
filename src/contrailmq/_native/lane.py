"""The send lane: the ordinary SEND_MESSAGE_V2 requests of one socket read, in one compiled call.

Theory of operation.  ``SendLane.run`` takes whole frames from a read buffer as long as they are
sends it knows all about: a topic the broker has decided on (``host.decide``), a queue of it, a
body within the limit, properties that ask for nothing special.  Each becomes a record in the log
(``LogWriter.append``) and an answer in the reply buffer.  The first frame that is anything else
ends the run, and the ordinary handler takes it in its place in the order: the lane has no opinion
about errors, new topics, delays, transactions or full segments, and no way to refuse.

``SendLane.serve`` is what a connection calls, once per socket read: it takes the time, runs, lets
the store derive from what was appended before any answer leaves, and hands out the answers as one
object.  Its host is asked only for what is rare, or not its business: what to think of a topic,
anything else than sends (``other``), answers that wait for the disk (``hold``).  No Python object
is made per message, but for a topic's name that is not the same as the message's before.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw
from contrailmq._native.log import LogWriter, Origin
from contrailmq._native.queues import QueueWriter
from contrailmq._native.request import RequestScan

Bytes = bytes | bytearray | memoryview

_SEND_V2 = 310
_REPLY_SIZE_MAX = 1024
_OUT_SIZE = 262144
_TEXT_SIZE = 65536
_PROPERTIES_MAX = 32767
_ONEWAY = 2
_NAME_END = 1
_VALUE_END = 2
_ALLOWED_SYS_FLAGS = 0x701  # compressed, and how
_UNIQUE_KEY_MAX = 255
_INT_MAX = 0x7FFFFFFF
_FRAMES_SIZE_MIN = 64  # shorter than any send

# Why a run ended.
MORE = 0  # no whole frame is left
OTHER = 1  # the next frame is for the ordinary handler
FULL = 2  # the reply buffer is full: fetch it and run again
_MORE = 0
_OTHER = 1
_FULL = 2


class LaneTopic:
    """What the broker has decided about a topic, and what has been put into it since."""

    def __init__(self, topic: bytes, queue_count: int) -> None:
        self.topic = topic
        self.topic_view = topic
        self.topic_address = raw.at_address(topic)
        self.topic_size = len(topic)
        self.queues: list[Any] = [None] * queue_count  # a QueueWriter once it is used
        self.queue_count = queue_count
        self.counts = memoryview(bytearray(8 * queue_count or 8)).cast("q")
        self.sizes = memoryview(bytearray(8 * queue_count or 8)).cast("q")
        self.is_touched = False

    def take(self, queue_id: int) -> tuple[int, int]:
        """Messages and bytes put into a queue since the last call."""
        count, size = self.counts[queue_id], self.sizes[queue_id]
        self.counts[queue_id] = 0
        self.sizes[queue_id] = 0
        return count, size


class SendLane:
    """Turns the sends of a read into records and answers."""

    def __init__(
        self,
        log: LogWriter,
        host: Any,
        store_host: bytes,
        body_size_max: int,
        head: dict[str, bytes],
    ) -> None:
        self.log = log
        self.host = host
        self.scan = RequestScan()
        self.body_size_max = body_size_max
        self.topics: dict[bytes, LaneTopic] = {}
        self.touched: list[LaneTopic] = []
        self.wait_matters = False
        self.follower: Any = None  # a Follower before ``serve`` is called
        self.now_ms: Any = None
        self.revision: Any = None
        self.queues: Any = None
        self.decided_at = -1
        self.removals_at = -1
        self.is_open = False
        self.kept_size = -1
        self.ended = _MORE
        self.count = 0
        self._owner: Any = None
        self._buffer: Bytes = bytes(1)
        self._buffer_size = 0
        self._last = LaneTopic(b"", 0)
        self._text = bytearray(_TEXT_SIZE)
        self._text_address = raw.at_address(self._text)
        self._out = bytearray(_OUT_SIZE)
        self._out_size = _OUT_SIZE
        self._out_address = raw.at_address(self._out)
        self._out_at = 0
        self._id_prefix = store_host.hex().upper().encode()
        self._id_prefix_size = len(self._id_prefix)
        self._json_parts = b"".join(
            (head["1"], head["2"], head["3"], head["4"], head["5"], head["6"])
        )
        self._json_1 = len(head["1"])
        self._json_2 = self._json_1 + len(head["2"])
        self._json_3 = self._json_2 + len(head["3"])
        self._json_4 = self._json_3 + len(head["4"])
        self._json_5 = self._json_4 + len(head["5"])
        self._json_6 = self._json_5 + len(head["6"])
        self._binary_tail = head["binary"]
        self._binary_tail_size = len(head["binary"])
        self._language = head["language"][0]
        self._version = head["version"][0] * 256 + head["version"][1]
        self._name_queueid = b"queueId"
        self._name_queueoffset = b"queueOffset"
        self._name_msgid = b"msgId"
        self._name_transactionid = b"transactionId"
        self._json_address = raw.at_address(self._json_parts)
        self._binary_tail_address = raw.at_address(self._binary_tail)
        self._id_prefix_address = raw.at_address(self._id_prefix)
        self._unique = 0
        self._unique_size = 0
        self._digits = bytearray(24)
        self._digits_address = raw.at_address(self._digits)

    def take_touched(self) -> list[LaneTopic]:
        """The topics that were put into since the last call."""
        touched = self.touched
        self.touched = []
        for entry in touched:
            entry.is_touched = False
        return touched

    def reply(self) -> bytes:
        """The answers written since the last call."""
        out = raw.copy_of(self._out_address, 0, self._out_at)
        self._out_at = 0
        return out

    def release(self) -> None:
        """Let go of the buffer of the last run; a read buffer that is used again may be kept."""
        self._owner = None
        self._buffer = bytes(1)
        self._buffer_size = 0

    def serve(
        self, buffer: bytearray, start: int, end: int, connection: Any, out: list[Any]
    ) -> int:
        """Take what is ordinary at ``start``; where the first frame lies that was not taken."""
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
            self.topics = {}
            self._last = LaneTopic(b"", 0)
            self.host.decide_anew()
        while True:
            position = start
            self.ended = _OTHER
            if self.is_open and self.follower.is_ready():
                position = self._serve_sends(start, end, connection, out)
            if position != end and self.ended == _OTHER:
                position = self.host.other(buffer, position, end, connection, out)
            if position == start or end - position < _FRAMES_SIZE_MIN:
                break
            start = position
        if self._buffer_size != self.kept_size:
            self.release()
            self.host.release()
        return position

    def _serve_sends(self, start: int, end: int, connection: Any, out: list[Any]) -> int:
        origin = connection.lane_state
        if origin is None:
            origin = self.host.origin(connection)
        before_ms = self.log.store_ms
        self.log.store_ms = self.now_ms()
        self._out_at = 0  # what an error kept from leaving belongs to another connection
        position = self._run(start, end, origin)
        if position == start:
            self.log.store_ms = before_ms  # nothing was stored: the checkpoint must not vouch
            return start
        while position != start:
            self.follower.appended()
            if self._out_at:
                if self.wait_matters:
                    self.host.hold(self.reply(), connection)
                else:
                    out.append(self.reply())
            if self.ended != _FULL:
                break
            start = position
            position = self._run(start, end, origin)
        return position

    def _use(self, buffer: Bytes) -> None:
        self._owner = buffer
        self._buffer = buffer
        self._buffer_size = len(buffer)

    def run(self, buffer: Bytes, start: int, end: int, origin: Origin) -> int:
        """Take sends from ``start``; where the first frame lies that was not taken."""
        if buffer is not self._owner:
            self._use(buffer)
        if start < 0 or end > self._buffer_size:
            raise ValueError("range outside the buffer")
        return self._run(start, end, origin)

    def _run(self, start: int, end: int, origin: Origin) -> int:
        self.count = 0
        data = raw.at_address(self._buffer)
        while True:
            if self._out_size - self._out_at < _REPLY_SIZE_MAX:
                self.ended = _FULL
                return start
            found = self.scan.scan_at(data, start, end)
            if found == 0:
                self.ended = _MORE
                return start
            if (
                found < 0
                or self.scan.code != _SEND_V2
                or not self._take(self._buffer, data, origin)
            ):
                self.ended = _OTHER
                return start
            start = self.scan.frame_end

    def _take(self, buffer: Bytes, data: Any, origin: Origin) -> bool:
        """Append one send and write its answer; False if it is not for the lane."""
        scan = self.scan
        if scan.flag != 0 and scan.flag != _ONEWAY:
            return False
        body_size = scan.frame_end - scan.body_at
        if body_size < 1 or body_size > self.body_size_max:
            return False
        topic_field = queue_field = properties_field = -1
        sys_flag = 0
        flag = 0
        born_ms = 0
        seen = 0
        for number in range(scan.field_count):
            if scan.key_size[number] != 1:
                continue  # names of other letters are ignored, as everywhere
            letter = data[scan.key_at[number]]
            if letter == 98:  # b, topic
                topic_field = number
            elif letter == 101:  # e, queueId
                queue_field = number
            elif letter == 105:  # i, properties
                properties_field = number
            elif letter == 102:  # f, sysFlag
                sys_flag = scan.number_at(data, scan.value_at[number], scan.value_size[number])
                seen += 1
            elif letter == 103:  # g, bornTimestamp
                born_ms = scan.number_at(data, scan.value_at[number], scan.value_size[number])
                seen += 1
            elif letter == 104:  # h, flag
                flag = scan.number_at(data, scan.value_at[number], scan.value_size[number])
                seen += 1
            elif letter == 106:  # j, reconsumeTimes
                if scan.value_size[number] != 1 or data[scan.value_at[number]] != 48:
                    return False
            elif letter == 109 or letter == 107:  # m, batch; k, unitMode
                if scan.value_size[number] != 5 or data[scan.value_at[number]] != 102:
                    return False
            elif letter == 97:  # a, producerGroup
                seen += 1
        if topic_field < 0 or queue_field < 0 or properties_field < 0 or seen != 4:
            return False
        if sys_flag & ~_ALLOWED_SYS_FLAGS or born_ms < 0:
            return False
        if flag > _INT_MAX or flag < -_INT_MAX - 1:
            return False
        entry = self._topic(data, topic_field)
        if entry is None:
            return False
        queue_id = scan.number_at(data, scan.value_at[queue_field], scan.value_size[queue_field])
        if queue_id < 0 or queue_id >= entry.queue_count:
            return False
        return self._append(
            buffer, data, origin, entry, queue_id, properties_field, flag, sys_flag, born_ms
        )

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

    def _append(
        self,
        buffer: Bytes,
        data: Any,
        origin: Origin,
        entry: LaneTopic,
        queue_id: int,
        field: int,
        flag: int,
        sys_flag: int,
        born_ms: int,
    ) -> bool:
        scan = self.scan
        at = scan.value_at[field]
        size = scan.value_size[field]
        found = entry.queues[queue_id]
        if found is None:
            found = self.host.queue(entry.topic, queue_id)
            entry.queues[queue_id] = found
        queue: QueueWriter = found
        offset = self.log.base + self.log.position
        queue_offset = queue.next_offset
        if scan.escaped[field]:
            if size > _TEXT_SIZE:
                return False
            size = scan.unescape_at(data, at, at + size, self._text_address)
            if size < 0 or not self._is_plain(self._text_address, 0, size):
                return False
            written = self.log.append(
                queue, origin, buffer, scan.body_at, scan.frame_end - scan.body_at,
                self._text, 0, size, flag, sys_flag, born_ms, 0, 0,
            )  # fmt: skip
            if written <= 0:
                return False
            if not scan.flag & _ONEWAY:
                self._answer(self._text_address, queue_id, queue_offset, offset)
        else:
            if not self._is_plain(data, at, at + size):
                return False
            written = self.log.append(
                queue, origin, buffer, scan.body_at, scan.frame_end - scan.body_at,
                buffer, at, size, flag, sys_flag, born_ms, 0, 0,
            )  # fmt: skip
            if written <= 0:
                return False
            if not scan.flag & _ONEWAY:
                self._answer(data, queue_id, queue_offset, offset)
        entry.counts[queue_id] += 1
        entry.sizes[queue_id] += written
        if not entry.is_touched:
            entry.is_touched = True
            self.touched.append(entry)
        self.count += 1
        return True

    def _is_plain(self, text: Any, at: int, end: int) -> bool:
        """Whether the properties ask for nothing special; finds the unique key on the way."""
        self._unique_size = 0
        while at < end:
            middle = raw.find_byte(text, at, end, _NAME_END)
            if middle < 0:
                return False
            stop = raw.find_byte(text, middle + 1, end, _VALUE_END)
            if stop < 0:
                stop = end
            # A separator out of place: the ordinary handler knows what Java makes of it.
            if raw.find_byte(text, at, middle, _VALUE_END) >= 0:
                return False
            if raw.find_byte(text, middle + 1, stop, _NAME_END) >= 0:
                return False
            if not self._is_plain_pair(text, at, middle, stop):
                return False
            at = stop + 1
        return self._unique_size > 0

    def _is_plain_pair(self, text: Any, name: int, middle: int, stop: int) -> bool:
        size = middle - name
        value_size = stop - middle - 1
        if size == 0 or value_size == 0:
            return False  # the ordinary handler re-encodes it
        first = text[name]
        if (
            first == 85 and size == 8 and text[name + 1] == 78 and text[name + 2] == 73
            and text[name + 3] == 81 and text[name + 4] == 95 and text[name + 5] == 75
            and text[name + 6] == 69 and text[name + 7] == 89
        ):  # UNIQ_KEY  # fmt: skip
            if value_size > _UNIQUE_KEY_MAX:
                return False
            for at in range(middle + 1, stop):
                if text[at] < 48 or text[at] > 122 or text[at] == 92:
                    return False  # would need an escape in the answer
            self._unique = middle + 1
            self._unique_size = value_size
            return True
        if first == 87 and size == 4:  # WAIT
            return text[middle + 1] == 116 or not self.wait_matters
        if first == 84:  # TAGS is plain; TRAN_MSG, TIMER_..., TRACE_ON, TTL are not
            return size == 4 and text[name + 1] == 65 and text[name + 3] == 83
        if first == 75:  # KEYS
            return True
        # Names the broker or the store itself gives a meaning to begin with one of these:
        # CLUSTER, CHECK_IMMUNITY..., CORRELATION_ID, DELAY, INNER_..., INSTANCE_ID, MSG_...,
        # MAX_..., POP_..., PGROUP, REAL_..., RETRY_..., RECONSUME_..., REPLY_..., ORIGIN_..., __...
        return not (
            first == 67 or first == 68 or first == 73 or first == 77 or first == 80
            or first == 82 or first == 79 or first == 95 or first == 66 or first == 49
        )  # fmt: skip

    def _answer(self, unique: Any, queue_id: int, queue_offset: int, offset: int) -> None:
        start = self._out_at
        out = self._out_address
        at = start + 8
        if self.scan.is_binary:
            at = self._binary_answer(at, unique, queue_id, queue_offset, offset)
        else:
            at = self._parts(at, 0, self._json_1)
            at = self._number(at, queue_id)
            at = self._parts(at, self._json_1, self._json_2)
            at = self._unique_key(at, unique)
            at = self._parts(at, self._json_2, self._json_3)
            at = self._message_id(at, offset)
            at = self._parts(at, self._json_3, self._json_4)
            at = self._number(at, queue_offset)
            at = self._parts(at, self._json_4, self._json_5)
            at = self._number(at, self.scan.opaque)
            at = self._parts(at, self._json_5, self._json_6)
        raw.put_u32(self._out_address, start, at - start - 4)
        raw.put_u32(self._out_address, start + 4, at - start - 8)
        if self.scan.is_binary:
            out[start + 4] = 1
        self._out_at = at

    def _binary_answer(
        self, at: int, unique: Any, queue_id: int, queue_offset: int, offset: int
    ) -> int:
        out = self._out_address
        raw.put_u16(out, at, 0)
        out[at + 2] = self._language
        raw.put_u16(out, at + 3, self._version)
        raw.put_u32(self._out_address, at + 5, self.scan.opaque)
        raw.put_u32(self._out_address, at + 9, 1)
        raw.put_u32(self._out_address, at + 13, 0)
        ext = at + 17
        at = self._name(ext + 4, self._name_queueid, 7)
        value = at
        at = self._number(at + 4, queue_id)
        raw.put_u32(self._out_address, value, at - value - 4)
        at = self._name(at, self._name_queueoffset, 11)
        value = at
        at = self._number(at + 4, queue_offset)
        raw.put_u32(self._out_address, value, at - value - 4)
        at = self._name(at, self._name_msgid, 5)
        value = at
        at = self._message_id(at + 4, offset)
        raw.put_u32(self._out_address, value, at - value - 4)
        at = self._name(at, self._name_transactionid, 13)
        value = at
        at = self._unique_key(at + 4, unique)
        raw.put_u32(self._out_address, value, at - value - 4)
        raw.copy_bytes(out, at, self._binary_tail_address, 0, self._binary_tail_size)
        at += self._binary_tail_size
        raw.put_u32(self._out_address, ext, at - ext - 4)
        return at

    def _parts(self, at: int, start: int, end: int) -> int:
        raw.copy_bytes(self._out_address, at, self._json_address, start, end - start)
        return at + end - start

    def _name(self, at: int, name: Bytes, size: int) -> int:
        raw.put_u16(self._out_address, at, size)
        raw.copy_bytes(self._out_address, at + 2, raw.at_address(name), 0, size)
        return at + 2 + size

    def _unique_key(self, at: int, unique: Any) -> int:
        raw.copy_bytes(self._out_address, at, unique, self._unique, self._unique_size)
        return at + self._unique_size

    def _message_id(self, at: int, offset: int) -> int:
        out = self._out_address
        raw.copy_bytes(out, at, self._id_prefix_address, 0, self._id_prefix_size)
        at += self._id_prefix_size
        for step in range(16):
            digit = offset & 15
            out[at + 15 - step] = digit + 48 if digit < 10 else digit + 55
            offset >>= 4
        return at + 16

    def _number(self, at: int, value: int) -> int:
        out = self._out_address
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
