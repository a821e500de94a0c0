"""The batch lane: batches of messages, each frame one run of appends and one answer.

Theory of operation.  It is a ``SendLane`` for other frames: SEND_BATCH_MESSAGE, and SEND_MESSAGE_V2
whose header says it is a batch.  The body of such a frame holds whole messages; ``LogWriter``
measures them first, every length and every limit, and then writes each as a record of its own.
The properties of the frame itself stand behind those of every message, but for the unique key,
which is the answer's.  Clients that care for Java's 5.2.0 send none (there it would take the place
of every message's own); one is made for the answer then.  What the properties come to, with what
the broker adds, is decided by the ordinary handler's own code (``host.batch_origin``) once for each
different text, and kept; so there is no Python object per message, and few per batch.

Whatever is not ordinary ends the run, as in the send lane: the handler takes it in its place.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw
from contrailmq._native.lane import LaneTopic, SendLane
from contrailmq._native.log import LogWriter, Origin
from contrailmq._native.queues import QueueWriter

Bytes = bytes | bytearray | memoryview

_SEND_V2 = 310
_SEND_BATCH = 320
_ANSWER_SIZE = 1024  # of an answer, but for the ids
_TEXT_SIZE = 65536
_ONEWAY = 2
_NAME_END = 1
_VALUE_END = 2
_ALLOWED_SYS_FLAGS = 0x701
_UNIQUE_KEY_MAX = 255
_TOPIC_SIZE_MAX = 127
_ORIGINS_MAX = 4096
_HOST_SIZE_MAX = 20
_INT_MAX = 0x7FFFFFFF
_MORE = 0
_OTHER = 1
_FULL = 2


class BatchLane(SendLane):
    """Turns the batches of a read into records and answers."""

    def __init__(
        self,
        log: LogWriter,
        host: Any,
        store_host: bytes,
        body_size_max: int,
        head: dict[str, bytes],
    ) -> None:
        super().__init__(log, host, store_host, body_size_max, head)
        self._origins: dict[bytes, Origin] = {}
        self._rest = bytearray(_HOST_SIZE_MAX + _TEXT_SIZE + 1)
        self._rest_address = raw.at_address(self._rest)
        self._key = bytearray(_UNIQUE_KEY_MAX)
        self._key_address = raw.at_address(self._key)
        self._inner = 0
        self._queue: Any = None  # of the batch being answered
        self._origin: Any = None

    def forget(self) -> None:
        """The broker's tables have changed: decide anew."""
        self.topics = {}
        self._last = LaneTopic(b"", 0)

    def serve_batches(
        self, buffer: bytearray, start: int, end: int, connection: Any, out: list[Any]
    ) -> int:
        """Take batches from ``start``; where the first frame lies that was not taken."""
        if not self.is_open or not self.follower.is_ready():
            return start
        if buffer is not self._owner:
            self._use(buffer)
        if start < 0 or end > self._buffer_size:
            raise ValueError("range outside the buffer")
        return self._serve_sends(start, end, connection, out)

    def _run(self, start: int, end: int, origin: Origin) -> int:
        self.count = 0
        data = raw.at_address(self._buffer)
        while True:
            found = self.scan.scan_at(data, start, end)
            if found == 0:
                self.ended = _MORE
                return start
            self.ended = _OTHER
            if found < 0 or not self._take(self._buffer, data, origin):
                return start
            start = self.scan.frame_end

    def _take(self, buffer: Bytes, data: Any, origin: Origin) -> bool:
        """Append one batch and write its answer; False if it is not for the lane, or not now."""
        scan = self.scan
        if scan.code != _SEND_BATCH and scan.code != _SEND_V2:
            return False
        if scan.flag != 0 and scan.flag != _ONEWAY:
            return False
        size = scan.frame_end - scan.body_at
        if size < 1 or size > self.body_size_max:
            return False
        topic_field = queue_field = properties_field = -1
        is_batch = scan.code == _SEND_BATCH
        sys_flag = 0
        flag = 0
        born_ms = 0
        seen = 0
        for number in range(scan.field_count):
            if scan.key_size[number] != 1:
                continue
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
            elif letter == 104:  # h, flag: each message has its own, but this must be a number
                flag = scan.number_at(data, scan.value_at[number], scan.value_size[number])
                seen += 1
            elif letter == 106:  # j, reconsumeTimes
                if scan.value_size[number] != 1 or data[scan.value_at[number]] != 48:
                    return False
            elif letter == 109:  # m, batch
                if scan.value_size[number] == 4 and data[scan.value_at[number]] == 116:
                    is_batch = True
                elif scan.value_size[number] != 5 or data[scan.value_at[number]] != 102:
                    return False
            elif letter == 107:  # k, unitMode
                if scan.value_size[number] != 5 or data[scan.value_at[number]] != 102:
                    return False
            elif letter == 97:  # a, producerGroup
                seen += 1
        if topic_field < 0 or queue_field < 0 or properties_field < 0 or seen != 4 or not is_batch:
            return False
        if sys_flag & ~_ALLOWED_SYS_FLAGS or born_ms < 0:
            return False
        if flag > _INT_MAX or flag < -_INT_MAX - 1:
            return False
        entry = self._topic(data, topic_field)
        if entry is None or entry.topic_size > _TOPIC_SIZE_MAX:
            return False
        queue_id = scan.number_at(data, scan.value_at[queue_field], scan.value_size[queue_field])
        if queue_id < 0 or queue_id >= entry.queue_count:
            return False
        at = scan.value_at[properties_field]
        size = scan.value_size[properties_field]
        if not scan.escaped[properties_field]:
            return self._put(buffer, data, origin, entry, queue_id, at, size, sys_flag, born_ms)
        if size > _TEXT_SIZE:
            return False
        size = scan.unescape_at(data, at, at + size, self._text_address)
        return size >= 0 and self._put(
            buffer, self._text_address, origin, entry, queue_id, 0, size, sys_flag, born_ms
        )

    def _put(
        self,
        buffer: Bytes,
        text: Any,
        origin: Origin,
        entry: LaneTopic,
        queue_id: int,
        at: int,
        size: int,
        sys_flag: int,
        born_ms: int,
    ) -> bool:
        scan, log = self.scan, self.log
        behind = self._behind(text, at, at + size, origin)
        if behind is None:
            return False
        found = entry.queues[queue_id]
        if found is None:
            found = self.host.queue(entry.topic, queue_id)
            entry.queues[queue_id] = found
        queue: QueueWriter = found
        total = log.measure_batch(queue, behind, buffer, scan.body_at, scan.frame_end)
        if total <= 0 or not log.has_room(total):
            return False
        if not scan.flag & _ONEWAY:
            needed = _ANSWER_SIZE + log.batch_count * (self._id_prefix_size + 17)
            if needed > self._out_size - self._out_at:
                if self._out_at > 0:
                    self.ended = _FULL
                return False
            if self._unique_size == 0:
                self._make_key()
                text = self._key_address
        offset = log.base + log.position
        queue_offset = queue.next_offset
        inner = raw.at_address(buffer)
        log.write_batch(queue, behind, inner, scan.body_at, scan.frame_end, sys_flag, born_ms, 0)
        if not scan.flag & _ONEWAY:
            self._inner = scan.body_at
            self._queue = queue
            self._origin = behind
            self._answer(text, queue_id, queue_offset, offset)
        entry.counts[queue_id] += log.batch_count
        entry.sizes[queue_id] += total
        if not entry.is_touched:
            entry.is_touched = True
            self.touched.append(entry)
        self.count += log.batch_count
        return True

    def _behind(self, text: Any, at: int, end: int, origin: Origin) -> Origin | None:
        """What stands behind the properties of each message; finds a unique key on the way."""
        if end - at > _TEXT_SIZE:
            return None
        rest = self._rest_address
        raw.copy_bytes(rest, 0, origin.born_host_address, 0, origin.born_size)
        rest_at = origin.born_size
        self._unique_size = 0
        while at < end:
            middle = raw.find_byte(text, at, end, _NAME_END)
            if middle < 0:
                return None
            stop = raw.find_byte(text, middle + 1, end, _VALUE_END)
            if stop < 0:
                stop = end
            # A separator out of place: the ordinary handler knows what Java makes of it.
            if raw.find_byte(text, at, middle, _VALUE_END) >= 0:
                return None
            if raw.find_byte(text, middle + 1, stop, _NAME_END) >= 0:
                return None
            if middle - at == 8 and raw.get_i64(text, at) == 0x554E49515F4B4559:  # UNIQ_KEY
                if self._unique_size or not self._is_plain_key(text, middle + 1, stop):
                    return None
            else:
                raw.copy_bytes(rest, rest_at, text, at, stop - at)
                rest_at += stop - at
                rest[rest_at] = _VALUE_END
                rest_at += 1
            at = stop + 1
        key = bytes(rest[:rest_at])
        found = self._origins.get(key)
        if found is None:
            found = self.host.batch_origin(key[origin.born_size :], key[: origin.born_size])
            if found is None:
                return None
            if len(self._origins) >= _ORIGINS_MAX:
                self._origins.clear()  # the busy ones are back at once
            self._origins[key] = found
        return found

    def _make_key(self) -> None:
        """A unique key for the answer to a batch that has none."""
        made = self.host.unique_key()
        size = len(made)
        if size > _UNIQUE_KEY_MAX:
            raise ValueError(f"a unique key of {size} bytes")
        for place in range(size):
            self._key[place] = made[place]
        self._unique = 0
        self._unique_size = size

    def _is_plain_key(self, text: Any, at: int, end: int) -> bool:
        """Whether a unique key can be answered as it is."""
        if end - at < 1 or end - at > _UNIQUE_KEY_MAX:
            return False
        for place in range(at, end):
            if text[place] < 48 or text[place] > 122 or text[place] == 92:
                return False
        self._unique = at
        self._unique_size = end - at
        return True

    def _message_id(self, at: int, offset: int) -> int:
        """The ids of all messages of the batch, with commas between."""
        out = self._out_address
        data = raw.at_address(self._buffer)
        inner, end = self._inner, self.scan.frame_end
        while inner < end:
            if inner != self._inner:
                out[at] = 44
                at += 1
            raw.copy_bytes(out, at, self._id_prefix_address, 0, self._id_prefix_size)
            at += self._id_prefix_size
            rest = offset
            for step in range(16):
                digit = rest & 15
                out[at + 15 - step] = digit + 48 if digit < 10 else digit + 55
                rest >>= 4
            at += 16
            offset += self.log.inner_record_size(self._queue, self._origin, data, inner)
            inner += raw.get_u32(data, inner)
        return at
