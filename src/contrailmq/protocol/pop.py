"""POP on the wire and in the log: handles, offset texts, checkpoint and acknowledgement bodies.

Theory of operation.  A pop takes messages of one queue away from all others for a while.  What it
took is a *checkpoint*; what the consumer has settled are *acknowledgements*.  Both are records of
the revive topic with a JSON body, whose short names are the original's (PopCheckPoint, AckMsg,
BatchAckMsg).  An acknowledgement finds its checkpoint by topic, group, queue, start offset and
time of the pop: all five are in the message's *handle*, which its consumer gives back as it got it:

    startOffset popTime invisibleTime reviveQueue flag brokerName queueId offset

``flag`` says which topic the message really lies in: 0 the one that was asked for, 1 and 2 the
group's retry topic of that topic, by its first and by its second naming.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.names import (
    is_retry_topic,
    pop_retry_topic,
    pop_retry_topic_v2,
)

NORMAL: Final = "0"
RETRY_V1: Final = "1"
RETRY_V2: Final = "2"
ORDER_REVIVE_QUEUE: Final = 999  # KeyBuilder.POP_ORDER_REVIVE_QUEUE: no revive, order info instead
POP_COUNT_MAX: Final = 32
CHECKPOINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
_PARTS_MIN: Final = 6


class Handle(NamedTuple):
    """What names one popped message to its broker."""

    start_offset: int
    pop_ms: int
    invisible_ms: int
    revive_queue: int
    flag: str
    broker_name: str
    queue_id: int = -1
    offset: int = -1

    def text(self) -> str:
        """The handle as messages and requests carry it (ExtraInfoUtil.buildExtraInfo)."""
        return " ".join(map(str, self))


def parse_handle(text: str | None) -> Handle:
    """Read a handle of six to eight parts; RemoteProtocolError for anything else."""
    if text is None:
        raise RemoteProtocolError("extraInfo is missing: expected the handle of a popped message")
    parts = text.split(" ")
    try:
        if len(parts) >= _PARTS_MIN:
            start, pop, invisible, revive = (int(part) for part in parts[:4])
            queue_id = int(parts[6]) if len(parts) > 6 else -1
            offset = int(parts[7]) if len(parts) > 7 else -1
            return Handle(start, pop, invisible, revive, parts[4], parts[5], queue_id, offset)
    except ValueError:
        pass
    raise RemoteProtocolError(
        f"extraInfo {text[:100]!r}: expected startOffset popTime invisibleTime reviveQueue flag "
        "brokerName queueId offset"
    )


def flag_of(topic: str) -> str:
    """The flag of handles whose message lies in this topic (ExtraInfoUtil.getRetry)."""
    if not is_retry_topic(topic):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def real_topic(topic: str, group: str, flag: str) -> str:
    """The topic a message of a handle lies in, from the one its consumer subscribed to."""
    if flag == RETRY_V1:
        return pop_retry_topic(topic, group)
    if flag == RETRY_V2:
        return pop_retry_topic_v2(topic, group)
    return topic


class Offsets(NamedTuple):
    """One queue's part of the answer to a pop: where it began and which offsets it gave."""

    flag: str
    queue_id: int
    start_offset: int
    offsets: Sequence[int]


def start_offset_info(found: Iterable[Offsets]) -> str:
    """``startOffsetInfo`` of an answer."""
    return ";".join(f"{part.flag} {part.queue_id} {part.start_offset}" for part in found)


def msg_offset_info(found: Iterable[Offsets]) -> str:
    """``msgOffsetInfo`` of an answer."""
    return ";".join(
        f"{part.flag} {part.queue_id} {','.join(map(str, part.offsets))}" for part in found
    )


def parse_offsets(starts: str | None, offsets: str | None) -> list[Offsets]:
    """Both texts of an answer, queue by queue; RemoteProtocolError when they do not fit."""
    try:
        begin = {}
        for piece in filter(None, (starts or "").split(";")):
            flag, queue_id, start = piece.split(" ")
            begin[flag, int(queue_id)] = int(start)
        found = []
        for piece in filter(None, (offsets or "").split(";")):
            flag, queue_id, numbers = piece.split(" ")
            place = (flag, int(queue_id))
            found.append(Offsets(*place, begin[place], [int(n) for n in numbers.split(",")]))
    except (ValueError, KeyError) as error:
        raise RemoteProtocolError(
            f"startOffsetInfo {starts!r} and msgOffsetInfo {offsets!r} do not fit"
        ) from error
    return found


class CheckPoint(msgspec.Struct, kw_only=True):
    """What one pop of one queue gave out (PopCheckPoint); names in the original's order."""

    bit_map: int = msgspec.field(name="bm", default=0)
    broker_name: str | None = msgspec.field(name="bn", default=None)
    group: str = msgspec.field(name="c")
    differences: list[int] | None = msgspec.field(name="d", default=None)
    invisible_ms: int = msgspec.field(name="it")
    count: int = msgspec.field(name="n", default=0)
    pop_ms: int = msgspec.field(name="pt")
    queue_id: int = msgspec.field(name="q")
    revive_ms: int = msgspec.field(name="reviveTime", default=0)
    revive_offset: int = msgspec.field(name="ro", default=0)
    start_offset: int = msgspec.field(name="so")
    topic: str = msgspec.field(name="t")

    @property
    def due_ms(self) -> int:
        """When what is not settled becomes visible again."""
        return self.pop_ms + self.invisible_ms

    def offsets(self) -> list[int]:
        """The queue offsets given out; without ``d`` (old writers) they follow one another."""
        if self.differences is None:
            return [self.start_offset + index for index in range(max(self.count, 0))]
        return [self.start_offset + difference for difference in self.differences]

    def key(self) -> AckKey:
        """What its acknowledgements find it by."""
        return (self.topic, self.group, self.queue_id, self.start_offset, self.pop_ms)

    def unique_key(self) -> str:
        """The UNIQ_KEY of its record."""
        return (
            f"{self.topic}@{self.queue_id}@{self.start_offset}@{self.group}@{self.pop_ms}"
            f"@{self.broker_name}@ck"
        )


AckKey = tuple[str, str, int, int, int]


class Ack(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One settled message, or with ``offsets`` several (AckMsg, BatchAckMsg)."""

    offsets: list[int] | None = msgspec.field(name="aol", default=None)
    offset: int = msgspec.field(name="ao")
    broker_name: str | None = msgspec.field(name="bn", default=None)
    group: str = msgspec.field(name="c")
    pop_ms: int = msgspec.field(name="pt")
    queue_id: int = msgspec.field(name="q")
    start_offset: int = msgspec.field(name="so")
    topic: str = msgspec.field(name="t")

    def key(self) -> AckKey:
        """What it finds its checkpoint by."""
        return (self.topic, self.group, self.queue_id, self.start_offset, self.pop_ms)

    def settled(self) -> list[int]:
        """The queue offsets it settles."""
        return [self.offset] if self.offsets is None else self.offsets

    def unique_key(self) -> str:
        """The UNIQ_KEY of its record."""
        return (
            f"{self.topic}@{self.queue_id}@{self.offset}@{self.group}@{self.pop_ms}"
            f"@{self.broker_name}@ack"
        )


encode_body = msgspec.json.Encoder().encode
_decode_check_point = msgspec.json.Decoder(CheckPoint).decode
_decode_ack = msgspec.json.Decoder(Ack).decode


def find_check_point(body: bytes) -> CheckPoint | None:
    """The checkpoint a record's body holds; None for one that is not whole."""
    try:
        return _decode_check_point(body)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def find_ack(body: bytes) -> Ack | None:
    """The acknowledgement a record's body holds; None for one that is not whole."""
    try:
        return _decode_ack(body)
    except (msgspec.MsgspecError, UnicodeError):
        return None
