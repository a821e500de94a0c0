"""A send lane by itself: what it is built from when there is no broker around it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from contrailmq._native import names
from contrailmq._native.hosts import HeldHost, LanePeer
from contrailmq._native.lanes.decided import LaneTopic
from contrailmq._native.lanes.gate import Gate
from contrailmq._native.lanes.held import Held
from contrailmq._native.lanes.inputs import SendInputs
from contrailmq._native.lanes.times import Times
from contrailmq._native.store.follow import Follower
from contrailmq._native.store.gather import Gatherer
from contrailmq._native.store.log import LogWriter, Origin
from contrailmq._native.store.queues import Deriver, QueueWriter
from contrailmq.broker.lanes.parts import cut
from contrailmq.broker.lanes.tables import SEND_FIELDS, SEND_PROPERTIES
from contrailmq.protocol.command import Command, Serialization

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
TIME_MS = 1700000000123
FIELDS = {
    "a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0",
    "g": "1700000000000", "h": "7", "i": "", "j": "0", "k": "false", "m": "false",
}  # fmt: skip


class OneTopic:
    """A host that knows the topic "orders", with four queues."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.is_refused = False
        self.made = 0

    def decide(self, topic: bytes) -> LaneTopic | None:
        """Return what is known about a topic."""
        self.asked.append(topic)
        return LaneTopic(topic, 4) if topic in (b"orders", b"o" * 128) else None

    def decide_anew(self) -> None:
        """Decide as before."""

    def queue(self, topic: bytes, queue_id: int) -> QueueWriter:
        """Return a new queue each time; a lane keeps it."""
        return QueueWriter(None, topic, queue_id)

    def origin(self, peer: LanePeer) -> Origin:
        """Return what all records share."""
        return Origin(HOST, HOST, b"")

    def other(self, buffer: bytearray, start: int, end: int, peer: LanePeer, out: list[Any]) -> int:
        """Serve nothing."""
        return start

    def release(self) -> None:
        """Keep nothing."""

    def batch_origin(self, text: bytes, born_host: bytes) -> Origin | None:
        """Return what follows the properties of a batch's messages."""
        self.asked.append(text)
        return None if self.is_refused else Origin(born_host, HOST, text + b"CLUSTER\x01C\x02")

    def unique_key(self) -> bytes:
        """Return a key that counts."""
        self.made += 1
        return b"MADE%d" % self.made


class Patient:
    """A host of held answers that does nothing about them."""

    def held(self) -> None:
        """Take no group."""

    def steer(self) -> None:
        """Open and close nothing."""


def lane_inputs(log: LogWriter, gate: Gate | None = None) -> SendInputs:
    """Return inputs with the broker's own rules, over a log that nothing follows."""
    host: HeldHost = Patient()
    return SendInputs(
        log=log,
        follower=Follower(log, Gatherer(1 << 20), Deriver(None), None),
        revision=SimpleNamespace(value=0),
        queues=SimpleNamespace(removals=0),
        now_ms=lambda: TIME_MS,
        store_host=HOST,
        fields=SEND_FIELDS,
        properties=SEND_PROPERTIES,
        json_answer=_answer(Serialization.JSON),
        binary_answer=_answer(Serialization.ROCKETMQ),
        held=Held(host, 1 << 20),
        kept_size=-1,
        gate=gate,
        times=Times(),
    )


def _answer(serialization: Serialization) -> Any:
    added = {"TRACE_ON": "true", "MSG_REGION": "R"}
    return cut(
        Command(310, serialization=serialization).reply(fields=added),
        {
            "queueId": names.QUEUE_ID,
            "transactionId": names.TRANSACTION_ID,
            "msgId": names.MESSAGE_IDS,
            "queueOffset": names.QUEUE_OFFSET,
        },
    )
