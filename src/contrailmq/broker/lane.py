"""The broker's fast lane: runs of ordinary sends and pulls, answered from the read buffer.

Theory of operation.  For every socket read the connection offers its frames to ``run``, which is
the compiled ``SendLane.serve``.  It takes the sends it knows all about; everything else stays where
it is, and the ordinary handler takes it in its turn.  The lane decides once per topic (``decide``,
by the ordinary handler's own rules) and decides anew whenever the broker's ``Revision`` has moved,
so a topic that is deleted or closed to writing is seen by the very next read.

Answers leave when the ordinary path's would: at once, or under synchronous flush when the disk is
certain.  Then those of one turn of the loop wait together for the last record of that turn.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from contrailmq._native.batch_lane import BatchLane
from contrailmq._native.held import Held
from contrailmq._native.lane import LaneTopic, SendLane
from contrailmq._native.log import Origin
from contrailmq._native.queues import QueueWriter
from contrailmq.broker.counters import Counters
from contrailmq.broker.handlers.send import SendMessage
from contrailmq.broker.identity import Identity
from contrailmq.broker.live import LiveSettings
from contrailmq.broker.pull_lane import BrokerPullLane
from contrailmq.broker.revision import Revision
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError
from contrailmq.net.connection import Connection
from contrailmq.net.endpoint import READ_SIZE, Buffer
from contrailmq.protocol.codes import Language, ResponseCode
from contrailmq.protocol.command import RESPONSE_FLAG, VERSION_ORDINAL, Command, decode
from contrailmq.protocol.frame import FrameDecoder
from contrailmq.protocol.names import is_retry_topic
from contrailmq.protocol.properties import PROPERTY_WAIT, decode_properties_text
from contrailmq.store.group_commit import Outcome
from contrailmq.store.settings import FlushDiskType
from contrailmq.store.store import Store

HELD_SIZE_MAX: Final = 32 * 1024 * 1024  # answers that wait for the disk; beyond: the ordinary path


class BrokerLane:
    """The fast lane of one broker; all its connections share it."""

    def __init__(
        self,
        store: Store,
        send: SendMessage,
        pulls: BrokerPullLane,
        *,
        counters: Counters,
        revision: Revision,
        live: LiveSettings,
        identity: Identity,
        clock: Clock,
    ) -> None:
        self._store = store
        self._send = send
        self._pulls = pulls
        self._counters = counters
        self._live = live
        self._identity = identity
        self._writer = store.log.writer
        self._accept_ms = 0
        self._held = Held(self, HELD_SIZE_MAX)
        self.hold = self._held.hold  # compiled code calls compiled code
        limit, parts = store.settings.message_size_max, _answer_parts(send.answer_fields)
        self._core = core = SendLane(self._writer, self, identity.store_host, limit, parts)
        self._batches = BatchLane(self._writer, self, identity.store_host, limit, parts)
        for lane in (core, self._batches):
            lane.wait_matters = store.settings.flush_disk_type is FlushDiskType.SYNC
            lane.follower = store.follower
            lane.now_ms = clock.now_ms
        core.revision = revision
        core.queues = store.queues
        core.kept_size = READ_SIZE
        counters.before_read = self.settle
        self.run = core.serve  # as ``FastLane`` has it: no step between a read and compiled code

    def decide_anew(self) -> None:
        """The broker's tables, or the store's queues, have changed."""
        limit = self._store.settings.message_size_max
        self._core.body_size_max = self._batches.body_size_max = limit
        self._batches.forget()
        self._pulls.forget()
        # A broker told to wait before it accepts sends has no lane for them; it is restarted, or
        # told otherwise, and then decides anew.
        self._accept_ms = self._live.now.start_accept_send_ms
        self.steer()

    def other(
        self, buffer: bytearray, start: int, end: int, connection: Connection, out: list[Buffer]
    ) -> int:
        """Take what is no single send; where the first frame lies that was not taken."""
        position = self._pulls.run(buffer, start, end, out=out) if self._pulls.is_open else start
        if position == start:
            position = self._batches.serve_batches(buffer, start, end, connection, out)
        return position

    def release(self) -> None:
        """The buffer of the last read may be resized now."""
        self._pulls.release()
        self._batches.release()

    def origin(self, connection: Connection) -> Origin:
        """What all records of a connection share; kept with it."""
        origin = Origin(connection.peer_host, self._identity.store_host, self._send.suffix)
        connection.lane_state = origin
        return origin

    def decide(self, topic: bytes) -> LaneTopic | None:
        """What the compiled loop needs to know of a topic; None leaves it to the handler."""
        try:
            name = topic.decode()
            decision = None if is_retry_topic(name) else self._send.decide(name)
        except (UnicodeDecodeError, BrokerError):
            return None
        if decision is None or decision.sys_flag:
            return None
        return LaneTopic(topic, decision.queue_limit)

    def batch_origin(self, text: bytes, born_host: bytes) -> Origin | None:
        """What stands behind the properties of each message of a batch whose own are ``text``."""
        try:
            properties = decode_properties_text(text.decode())
            suffix = self._send.batch_suffix(properties)
        except (UnicodeDecodeError, BrokerError):
            return None
        if self._core.wait_matters and properties.get(PROPERTY_WAIT) == "false":
            return None
        return Origin(born_host, self._identity.store_host, suffix)

    def unique_key(self) -> bytes:
        """For the answer to a batch that has none."""
        return self._send.unique_key().encode()

    def queue(self, topic: bytes, queue_id: int) -> QueueWriter:
        """The queue a message goes to."""
        return self._store.writing.queue(topic.decode(), queue_id)

    def settle(self) -> None:
        """Hand what was counted here to the broker's counters."""
        for entry in (*self._core.take_touched(), *self._batches.take_touched()):
            topic = entry.topic.decode()
            for queue_id in range(entry.queue_count):
                count, size = entry.take(queue_id)
                if count:
                    self._counters.put(topic, queue_id, count=count, size=size)

    def held(self) -> None:
        """An answer is held, the first of this turn of the loop."""
        asyncio.get_running_loop().call_soon(self._wait)

    def _wait(self) -> None:
        group = self._held.take()
        self._store.when_flushed(self._writer.end_offset(), partial(self._release, group))

    def steer(self) -> None:
        """Whether sends are taken here may have changed."""
        is_open = self._held.size <= HELD_SIZE_MAX and not self._accept_ms
        self._core.is_open = self._batches.is_open = is_open

    def _release(self, group: list[Any], outcome: Outcome) -> None:
        if outcome is True:
            self._held.answer(group)
            return
        self._held.drop(group)
        code, text = ResponseCode.SERVICE_NOT_AVAILABLE, "the store stopped before its disk"
        if outcome is False:
            code = ResponseCode.FLUSH_DISK_TIMEOUT
            text = "stored, but the disk was not certain in time"
        for connection, reply in zip(group[::2], group[1::2], strict=True):
            connection.send(_recoded(reply, code, text))


def _recoded(reply: bytes, code: ResponseCode, remark: str) -> list[Buffer]:
    """The same answers with another outcome."""
    out: list[Buffer] = []
    for frame in FrameDecoder().feed(reply):
        answer = decode(frame)
        answer.code = int(code)
        answer.remark = remark
        out.append(answer.encode())
    return out


def _answer_parts(added: dict[str, str]) -> dict[str, bytes]:
    """The constant stretches of an answer, cut where the compiled loop writes its numbers."""
    sample = Command(
        0,
        fields={"queueId": "@", "transactionId": "@", "msgId": "@", **added, "queueOffset": "@"},
        flag=RESPONSE_FLAG,
        opaque=0,
    )
    text = sample.encode_head()[8:]
    before, after = text.split(b'"opaque":0', 1)
    pieces = [*before.split(b"@"), after]
    assert len(pieces) == 6
    entries = b"".join(
        len(name).to_bytes(2, "big") + name + len(value).to_bytes(4, "big") + value
        for name, value in ((n.encode(), v.encode()) for n, v in added.items())
    )
    return {
        "1": pieces[0],
        "2": pieces[1],
        "3": pieces[2],
        "4": pieces[3],
        "5": pieces[4] + b'"opaque":',
        "6": pieces[5],
        "binary": entries,
        "language": bytes((Language.PYTHON,)),
        "version": VERSION_ORDINAL.to_bytes(2, "big"),
    }
