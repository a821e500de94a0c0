"""Bodies about queues: locks, assignments, offsets."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from contrailmq.protocol.bodies.body import Body, Int, Long
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.fastjson import loads
from contrailmq.protocol.queue import MessageQueue

_NO_QUEUE = MessageQueue("", "", 0)


class LockBatchRequest(Body):
    """Code 41's request: this client wants these queues for itself."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"only_this_broker"})

    client_id: str = ""
    consumer_group: str = ""
    mq_set: list[MessageQueue] = []
    only_this_broker: bool = False


class UnlockBatchRequest(Body):
    """Code 42's request: this client gives these queues back."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"only_this_broker"})

    client_id: str = ""
    consumer_group: str = ""
    mq_set: list[MessageQueue] = []
    only_this_broker: bool = False


class LockBatchResponse(Body):
    """Code 41's answer: the queues that are locked now."""

    lock_ok_mq_set: list[MessageQueue] = msgspec.field(name="lockOKMQSet", default_factory=list)


class QueryAssignmentRequest(Body):
    """Code 400's request: which queues shall this client consume?"""

    client_id: str = ""
    consumer_group: str = ""
    message_model: str = "CLUSTERING"
    strategy_name: str = ""
    topic: str = ""


class MessageQueueAssignment(Body):
    """One queue for a client, and whether it pulls or pops it."""

    attachments: dict[str, str] | None = None
    message_queue: MessageQueue = _NO_QUEUE
    mode: str = "PULL"


class QueryAssignmentResponse(Body):
    """Code 400's answer; without a list for a client that is not in the group."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestModeRequest(Body):
    """Code 401's request: this group pulls or pops this topic."""

    consumer_group: str = ""
    mode: str = "PULL"
    pop_share_queue_num: Int = 0
    topic: str = ""


class MessageRequestModes(Body):
    """``messageRequestMode.json`` and the answer to code 402: modes by topic and group."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequest]] = {}


class BatchAck(Body):
    """Acks of one pop: ``bits`` is a BitSet, least significant bit first, from ``start_offset``."""

    ALIASES: ClassVar[dict[str, str]] = {
        "consumerGroup": "c",
        "topic": "t",
        "retry": "r",
        "startOffset": "so",
        "queueId": "q",
        "reviveQueueId": "rq",
        "popTime": "pt",
        "invisibleTime": "it",
        "bitSet": "b",
    }

    consumer_group: str = msgspec.field(name="c", default="")
    topic: str = msgspec.field(name="t", default="")
    retry: str = msgspec.field(name="r", default="0")
    start_offset: Long = msgspec.field(name="so", default=0)
    queue_id: Int = msgspec.field(name="q", default=0)
    revive_queue_id: Int = msgspec.field(name="rq", default=0)
    pop_time: Long = msgspec.field(name="pt", default=0)
    invisible_time: Long = msgspec.field(name="it", default=0)
    bits: bytes = msgspec.field(name="b", default=b"")

    def offsets(self) -> list[int]:
        """The queue offsets that are acknowledged."""
        return [
            self.start_offset + index * 8 + bit
            for index, byte in enumerate(self.bits)
            for bit in range(8)
            if byte >> bit & 1
        ]

    @staticmethod
    def bits_of(offsets: list[int], start_offset: int) -> bytes:
        """The bits for a list of queue offsets, none of them before ``start_offset``."""
        whole = 0
        for offset in offsets:
            whole |= 1 << (offset - start_offset)
        return whole.to_bytes((whole.bit_length() + 7) // 8, "little")


class BatchAckMessageRequest(Body):
    """Code 200151's request."""

    acks: list[BatchAck] = []
    broker_name: str = ""


class ResetOffsetBody(Body):
    """Codes 220 and 222: the offsets queues are set to."""

    offset_table: dict[MessageQueue, Long] = {}

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview | str) -> ResetOffsetBody:
        """Read the table; also as the list that is written for C++ clients."""
        value = loads(data)
        table = value.get("offsetTable") if isinstance(value, dict) else None
        if not isinstance(table, list):
            return cls.of(value)
        rows = _OffsetRows.of(value).offset_table
        return cls(
            offset_table={MessageQueue(r.topic, r.broker_name, r.queue_id): r.offset for r in rows}
        )

    def encode_for_c(self) -> bytes:
        """The list form, for clients whose JSON has no objects as keys."""
        rows = [
            _OffsetRow(
                broker_name=queue.broker_name,
                offset=offset,
                queue_id=queue.queue_id,
                topic=queue.topic,
            )
            for queue, offset in self.offset_table.items()
        ]
        return _OffsetRows(offset_table=rows).encode()


class _OffsetRow(Body):
    broker_name: str = ""
    offset: Long = 0
    queue_id: Int = 0
    topic: str = ""


class _OffsetRows(Body):
    offset_table: list[_OffsetRow] = []


class GetConsumerStatusBody(Body):
    """Codes 221 and 223: where the queues of clients stand."""

    consumer_table: dict[str, dict[MessageQueue, Long]] = {}
    message_queue_table: dict[MessageQueue, Long] = {}


class QueryCorrectionOffsetBody(Body):
    """Code 308's answer: an offset by queue id."""

    correction_offsets: dict[Int, Long] = {}


class ConsumerOffsets(Body):
    """``consumerOffset.json`` and the answer to code 43: offsets by ``topic@group``."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"data_version", "group_topic_map"})

    data_version: DataVersion | None = None
    group_topic_map: dict[str, list[str]] | None = None
    offset_table: dict[str, dict[Int, Long]] = {}


class LightOffsets(ConsumerOffsets):
    """``lmqConsumerOffset.json``: light groups have one offset per ``topic@group``."""

    lmq_offset_table: dict[str, Long] = {}


class DelayOffsets(Body):
    """``delayOffset.json`` and the answer to code 45: offsets by delay level."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"data_version"})

    data_version: DataVersion | None = None
    offset_table: dict[Int, Long] = {}


class ConsumeQueueData(Body):
    """One raw entry of a consume queue."""

    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Long = 0
    physic_size: Int = 0
    tags_code: Long = 0


class QueryConsumeQueueResponse(Body):
    """Code 321's answer."""

    filter_data: str | None = None
    max_queue_index: Long = 0
    min_queue_index: Long = 0
    queue_data: list[ConsumeQueueData] | None = None
    subscription_data: SubscriptionData | None = None


class TimerMetric(Body):
    """How many timer messages of a topic wait."""

    count: Long = 0
    time_stamp: Long = 0


class TimerMetrics(Body):
    """Code 61's answer: waiting timer messages by topic."""

    data_version: DataVersion | None = None
    timing_count: dict[str, TimerMetric] = {}


class ColdDataFlow(Body):
    """Code 2003's answer, passed on as it is."""

    cg_cold_read_threshold: Long = 0
    config_table: dict[str, Any] = {}
    global_acc: Long = 0
    global_cold_read_threshold: Long = 0
    runtime_table: dict[str, Any] = {}
