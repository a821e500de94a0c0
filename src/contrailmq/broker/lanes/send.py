"""The broker's fast lane: runs of ordinary sends and pulls, answered from the read buffer.

Theory of operation.  For every socket read the connection offers its frames to ``entry``, the
compiled ``SendLane``.  It takes the sends it knows all about; everything else stays where
it is, and the ordinary handler takes it in its turn.  The lane decides once per topic (``decide``,
by the ordinary handler's own rules) and decides anew whenever the broker's ``Revision`` has moved,
so a topic that is deleted or closed to writing is seen by the very next read.

Answers leave when the ordinary path's would: at once, or under synchronous flush when the disk is
certain.  Then those of one turn of the loop wait together for the last record of that turn.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any, Final

from contrailmq._native import names
from contrailmq._native.hosts import LanePeer
from contrailmq._native.lanes.answers import AnswerParts
from contrailmq._native.lanes.batch import BatchLane
from contrailmq._native.lanes.decided import LaneTopic
from contrailmq._native.lanes.gate import Gate
from contrailmq._native.lanes.held import Held
from contrailmq._native.lanes.inputs import SendInputs
from contrailmq._native.lanes.send import SendLane
from contrailmq._native.store.log import Origin
from contrailmq._native.store.queues import QueueWriter
from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.handlers.send import SendMessage
from contrailmq.broker.identity import Identity
from contrailmq.broker.lanes.parts import cut
from contrailmq.broker.lanes.pull import BrokerPullLane
from contrailmq.broker.lanes.tables import SEND_FIELDS, SEND_PROPERTIES
from contrailmq.broker.services.putting import recode
from contrailmq.broker.tables.counters import Counters
from contrailmq.broker.tables.revision import Revision
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError
from contrailmq.net.connection import Connection
from contrailmq.net.endpoint import READ_SIZE, Buffer, FastLane
from contrailmq.protocol.command import Serialization, decode
from contrailmq.protocol.frame import FrameDecoder
from contrailmq.protocol.names import is_retry_topic
from contrailmq.protocol.properties import decode_properties_text, is_waiting
from contrailmq.store.certainty import Outcome
from contrailmq.store.store import Store

HELD_SIZE_MAX: Final = 32 * 1024 * 1024  # answers that wait for the disk; beyond: the ordinary path

OUT_FEW: Final = 3  # answers, of any size
OUT_SIZE_MAX: Final = 1024 * 1024


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
        gate: Gate | None = None,
    ) -> None:
        self._store = store
        self._send = send
        self.pulls = pulls
        self._counters = counters
        self._live = live
        self._identity = identity
        self._gate = gate
        self._writer = store.log.writer
        self._accept_ms = 0
        self._held_at = 0.0  # when the first answer of this turn was held
        self._noted = 0  # requests whose times are counted, or about to be
        self._held = Held(self, HELD_SIZE_MAX)
        inputs = SendInputs(
            log=self._writer,
            follower=store.follower,
            revision=revision,
            queues=store.queues,
            now_ms=clock.now_ms,
            store_host=identity.store_host,
            fields=SEND_FIELDS,
            properties=SEND_PROPERTIES,
            json_answer=send_answer(send, Serialization.JSON),
            binary_answer=send_answer(send, Serialization.ROCKETMQ),
            held=self._held,
            kept_size=READ_SIZE,
            gate=gate,
            times=counters.send_times,
        )
        self.sends = SendLane(self, inputs)
        self.batches = BatchLane(self, replace(inputs, times=counters.batch_times))
        counters.before_read = self.settle

    @property
    def entry(self) -> FastLane[Connection]:
        """What connections call: compiled code, without a step between it and a read."""
        return self.sends

    def decide_anew(self) -> None:
        """The broker's tables, or the store's queues, have changed."""
        self.batches.forget()
        self.pulls.forget()
        if self._gate is not None:
            self._gate.forget()
        # A broker told to wait before it accepts sends has no lane for them; it is restarted, or
        # told otherwise, and then decides anew.
        self._accept_ms = self._live.now.start_accept_send_ms
        self.steer()

    def other(
        self, buffer: bytearray, start: int, end: int, peer: LanePeer, out: list[Buffer]
    ) -> int:
        """Serve frames other than single sends; returns the position of the first one left."""
        if len(out) > OUT_FEW and sum(map(len, out)) > OUT_SIZE_MAX:
            return start  # whoever asks for more is asked first whether it reads
        position = self.pulls.core.run(buffer, start, end, out) if self.pulls.is_open else start
        if position == start:
            position = self.batches.serve_batches(buffer, start, end, peer, out)
        return position

    def release(self) -> None:
        """The buffer of the last read may be resized now."""
        self.pulls.release()
        self.batches.release()

    def origin(self, peer: LanePeer) -> Origin:
        """Return what all records of a connection share, and keep it with the connection."""
        origin = Origin(peer.peer_host, self._identity.store_host, self._send.suffix)
        peer.lane_state = origin
        return origin

    def decide(self, topic: bytes) -> LaneTopic | None:
        """What the compiled loop needs to know of a topic; None leaves it to the handler."""
        try:
            name = topic.decode()
            decision = None if is_retry_topic(name) else self._send.decide(name)
        except (UnicodeDecodeError, BrokerError):
            return None
        if decision is None or decision.sys_flag or decision.is_batch:
            return None
        return LaneTopic(topic, decision.queue_limit)

    def batch_origin(self, text: bytes, born_host: bytes) -> Origin | None:
        """What stands behind the properties of each message of a batch whose own are ``text``."""
        try:
            properties = decode_properties_text(text.decode())
            suffix = self._send.batch_suffix(properties)
        except (UnicodeDecodeError, BrokerError):
            return None
        if self._store.is_awaited and not is_waiting(properties):
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
        for entry in (*self.sends.take_touched(), *self.batches.take_touched()):
            topic = entry.topic.decode()
            for queue_id in range(entry.queue_count):
                count, size, calls = entry.take(queue_id)
                if count:
                    self._counters.put_run(topic, queue_id, count=count, size=size, calls=calls)
            self._counters.put_sizes(topic, entry.take_spread())

    def held(self) -> None:
        """An answer is held, the first of this turn of the loop."""
        loop = asyncio.get_running_loop()
        self._held_at = loop.time()
        loop.call_soon(self._wait)

    def _wait(self) -> None:
        group = self._held.take()
        served = self.sends.served + self.batches.served
        count, self._noted = served - self._noted, served
        released = partial(self._time_held, self._held_at, count, group)
        self._store.when_flushed(self._writer.end_offset(), released)

    def steer(self) -> None:
        """Open or close the lanes, and say whether their answers wait for disk or replicas."""
        is_open = self._held.size <= HELD_SIZE_MAX and not self._accept_ms
        if not self.sends.waits:  # up to here the lanes have counted themselves
            self._noted = self.sends.served + self.batches.served
        for lane in (self.sends, self.batches):
            lane.steer(is_open, self._store.is_awaited)

    def _time_held(self, began: float, count: int, group: list[Any], outcome: Outcome) -> None:
        took_s = asyncio.get_running_loop().time() - began
        self._counters.send_times.add(round(took_s * 1e9), count)
        self._release(group, outcome)

    def _release(self, group: list[Any], outcome: Outcome) -> None:
        if outcome is True:
            self._held.answer(group)
            return
        self._held.drop(group)
        for peer, replies in zip(group[::2], group[1::2], strict=True):
            peer.send(_recoded(replies, outcome))


def _recoded(replies: bytes, outcome: Outcome) -> list[Buffer]:
    """Return the same answers with the code for what became of their waits."""
    out: list[Buffer] = []
    for frame in FrameDecoder().feed(replies):
        answer = decode(frame)
        recode(answer, outcome)
        out.append(answer.encode())
    return out


def send_answer(send: SendMessage, serialization: Serialization) -> AnswerParts:
    """Return the answer to a send, cut where a lane writes values of its own."""
    return cut(
        send.sample(serialization),
        {
            "queueId": names.QUEUE_ID,
            "transactionId": names.TRANSACTION_ID,
            "msgId": names.MESSAGE_IDS,
            "queueOffset": names.QUEUE_OFFSET,
        },
    )
