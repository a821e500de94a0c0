"""The batch lane: batches of messages, each frame one run of appends and one answer.

Theory of operation.  It is a ``SendLane`` for other frames: SEND_BATCH_MESSAGE, and SEND_MESSAGE_V2
whose header says it is a batch.  The body of such a frame holds whole messages; ``LogWriter``
measures them first, every length and every limit, and then writes each as a record of its own.
The properties of the frame itself stand after those of every message, but for the unique key,
which is the answer's.  Clients that care for Java's 5.2.0 send none (there it would take the place
of every message's own); one is made for the answer then.  What the properties come to, with what
the broker adds, is decided by the ordinary handler's own code (``host.batch_origin``) once for each
different text, and kept; so there is no Python object per message, and few per batch.

Whatever is not ordinary ends the run, as in the send lane: the handler takes it in its place.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw, text
from contrailmq._native.hosts import BatchHost, LanePeer
from contrailmq._native.lanes.fields import HAS_KEY, IS_KEY_ODD, IS_ODD
from contrailmq._native.lanes.inputs import SendInputs
from contrailmq._native.lanes.send import SendLane
from contrailmq._native.store.log import Origin

Bytes = bytes | bytearray | memoryview

_SEND_V2 = 310
_SEND_BATCH = 320
_ANSWER_SIZE = 1024  # of an answer, but for the ids
_ONEWAY = 2
_NAME_KEY_SIZE = 9  # UNIQ_KEY and the separator after it
_UNIQUE_KEY_MAX = 255
_TOPIC_SIZE_MAX = 127
_ORIGINS_MAX = 4096
_HOST_SIZE_MAX = 20
_REST_SIZE = 65536
_FULL = 2
_HAS_KEY = HAS_KEY
_ODD = IS_ODD | IS_KEY_ODD


class BatchLane(SendLane):
    """Turns the batches of a read into records and answers."""

    def __init__(self, host: BatchHost, inputs: SendInputs) -> None:
        super().__init__(host, inputs)
        self.batch_host = host
        self._origins: dict[bytes, Origin] = {}
        self._rest = bytearray(_HOST_SIZE_MAX + _REST_SIZE + 1)
        self._rest_address = raw.at_address(self._rest)
        self._key = bytearray(_UNIQUE_KEY_MAX)
        self._key_address = raw.at_address(self._key)

    def serve_batches(
        self, buffer: bytearray, start: int, end: int, peer: LanePeer, out: list[Bytes]
    ) -> int:
        """Serve batches from ``start`` on; returns the position of the first frame left."""
        if not self.is_open or not self.follower.is_ready():
            return start
        if buffer is not self._owner:
            self._use(buffer)
        if start < 0 or end > self._buffer_size:
            raise ValueError("range outside the buffer")
        return self._serve(start, end, peer, out)

    def _take_one(self, data: Any, origin: Origin) -> bool:
        """Store one batch and answer it; False if it is not for the lane, or not now."""
        scan, log, fields, answers = self.scan, self.log, self.fields, self.answers
        if scan.code != _SEND_BATCH and scan.code != _SEND_V2:
            return False
        entry = self._admit(data)
        if entry is None or entry.topic_size > _TOPIC_SIZE_MAX:
            return False
        if scan.code != _SEND_BATCH and not fields.is_batch:
            return False
        found = self.properties.read(self._text, self._text_at, self._text_end)
        if found & _ODD:
            return False
        after = self._after(origin, found & _HAS_KEY)
        if after is None:
            return False
        queue = self._queue(entry)
        total = log.measure_batch(queue, after, self._buffer, scan.body_at, scan.frame_end)
        if total <= 0 or not log.has_room(total):
            return False
        if self.gate is not None and not self.gate.admits_send(scan, data, entry, True):
            return False
        if not scan.flag & _ONEWAY:
            if _ANSWER_SIZE + log.batch_count * answers.id_size > answers.rest():
                if answers.end > 0:
                    self.ended = _FULL
                return False
            if found & _HAS_KEY:
                answers.key(self._text, self.properties.key_at, self.properties.key_size)
            else:
                self._make_key()
            offset = log.base + log.position
            inner = scan.body_at
            while inner < scan.frame_end:
                answers.add_id(offset)
                offset += log.inner_record_size(queue, after, data, inner)
                inner += raw.get_u32(data, inner)
        queue_offset = queue.next_offset
        log.write_batch(
            queue, after, data, scan.body_at, scan.frame_end, fields.sys_flag, fields.born_ms, 0
        )
        if not scan.flag & _ONEWAY:
            self._answer(queue_offset)
        self._note(entry, log.batch_count, total)
        return True

    def _after(self, origin: Origin, has_key: int) -> Origin | None:
        """Return what stands after the properties of each message: the batch's, but for its key."""
        data, at, end = self._text, self._text_at, self._text_end
        if end - at > _REST_SIZE:
            return None
        rest = self._rest_address
        raw.copy_bytes(rest, 0, origin.born_host_address, 0, origin.born_size)
        size = origin.born_size
        if has_key:
            start = self.properties.key_at - _NAME_KEY_SIZE
            raw.copy_bytes(rest, size, data, at, start - at)
            size += start - at
            at = self.properties.key_at + self.properties.key_size + 1
        if at < end:
            raw.copy_bytes(rest, size, data, at, end - at)
            size += end - at
        if size > origin.born_size and rest[size - 1] != text.VALUE_END:
            rest[size] = text.VALUE_END
            size += 1
        key = bytes(rest[:size])
        found = self._origins.get(key)
        if found is None:
            found = self.batch_host.batch_origin(key[origin.born_size :], key[: origin.born_size])
            if found is None:
                return None
            if len(self._origins) >= _ORIGINS_MAX:
                self._origins.clear()  # the busy ones are back at once
            self._origins[key] = found
        return found

    def _make_key(self) -> None:
        """Answer a batch that has no unique key with a new one."""
        made = self.batch_host.unique_key()
        size = len(made)
        if size > _UNIQUE_KEY_MAX:
            raise ValueError(f"a unique key of {size} bytes, at most {_UNIQUE_KEY_MAX}")
        for place in range(size):
            self._key[place] = made[place]
        self.answers.key(self._key_address, 0, size)
