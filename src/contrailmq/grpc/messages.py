"""The messages of ``apache.rocketmq.v2``: resources, routes, messages and the unary calls.

Names and numbers are those of the service's definition.  Settings and telemetry are in
``settings``.  Unknown fields of newer clients are skipped.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec


class Message(msgspec.Struct):
    """Base of all messages."""


class Resource(Message):
    """A topic or a group."""

    resource_namespace: Annotated[str, 1] = ""
    name: Annotated[str, 2] = ""


class Status(Message):
    """How a call, or one entry of it, ended (``codes.Code``)."""

    code: Annotated[int, 1] = 0
    message: Annotated[str, 2] = ""


class Moment(Message):
    """A Duration, or a Timestamp since 1970."""

    seconds: Annotated[int, 1] = 0
    nanos: Annotated[int, 2] = 0

    @property
    def ms(self) -> int:
        """Whole milliseconds."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    @classmethod
    def of_ms(cls, ms: int) -> Moment:
        """Make one of milliseconds."""
        return cls(ms // 1000, ms % 1000 * 1_000_000)


class Scheme(enum.IntEnum):
    """What the hosts of endpoints are."""

    IPV4 = 1
    IPV6 = 2
    DOMAIN_NAME = 3


class Address(Message):
    """One place to connect to."""

    host: Annotated[str, 1] = ""
    port: Annotated[int, 2] = 0


class Endpoints(Message):
    """Places of one server."""

    scheme: Annotated[int, 1] = 0
    addresses: Annotated[list[Address], 2] = []


class Broker(Message):
    """A broker of a route; id 0 is the master."""

    name: Annotated[str, 1] = ""
    id: Annotated[int, 2] = 0
    endpoints: Annotated[Endpoints | None, 3] = None


class Permission(enum.IntEnum):
    """What a queue is for."""

    NONE = 1
    READ = 2
    WRITE = 3
    READ_WRITE = 4


class MessageType(enum.IntEnum):
    """The kinds of messages."""

    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4


class MessageQueue(Message):
    """One queue of a route or of an assignment."""

    topic: Annotated[Resource | None, 1] = None
    id: Annotated[int, 2] = 0
    permission: Annotated[int, 3] = 0
    broker: Annotated[Broker | None, 4] = None
    accept_message_types: Annotated[list[int], 5] = []


class DigestType(enum.IntEnum):
    """How a body's digest was made."""

    CRC32 = 1
    MD5 = 2
    SHA1 = 3


class Digest(Message):
    """The digest of a body."""

    type: Annotated[int, 1] = 0
    checksum: Annotated[str, 2] = ""


class Encoding(enum.IntEnum):
    """How a body is encoded."""

    IDENTITY = 1
    GZIP = 2


class DeadLetterQueue(Message):
    """Where a dead letter came from."""

    topic: Annotated[str, 1] = ""
    message_id: Annotated[str, 2] = ""


class SystemProperties(Message):
    """What a message says about itself besides the user's properties."""

    tag: Annotated[str | None, 1] = None
    keys: Annotated[list[str], 2] = []
    message_id: Annotated[str, 3] = ""
    body_digest: Annotated[Digest | None, 4] = None
    body_encoding: Annotated[int, 5] = 0
    message_type: Annotated[int, 6] = 0
    born_timestamp: Annotated[Moment | None, 7] = None
    born_host: Annotated[str, 8] = ""
    store_timestamp: Annotated[Moment | None, 9] = None
    store_host: Annotated[str, 10] = ""
    delivery_timestamp: Annotated[Moment | None, 11] = None
    receipt_handle: Annotated[str | None, 12] = None
    queue_id: Annotated[int, 13] = 0
    queue_offset: Annotated[int | None, 14] = None
    invisible_duration: Annotated[Moment | None, 15] = None
    delivery_attempt: Annotated[int | None, 16] = None
    message_group: Annotated[str | None, 17] = None
    trace_context: Annotated[str | None, 18] = None
    orphaned_transaction_recovery_duration: Annotated[Moment | None, 19] = None
    dead_letter_queue: Annotated[DeadLetterQueue | None, 20] = None


class WireMessage(Message):
    """One message of a user (``Message`` in the definition)."""

    topic: Annotated[Resource | None, 1] = None
    user_properties: Annotated[dict[str, str], 2] = {}
    system_properties: Annotated[SystemProperties | None, 3] = None
    body: Annotated[bytes, 4] = b""


class FilterType(enum.IntEnum):
    """The languages of filters."""

    TAG = 1
    SQL = 2


class FilterExpression(Message):
    """Which messages a consumer wants."""

    type: Annotated[int, 1] = 0
    expression: Annotated[str, 2] = ""


class QueryRouteRequest(Message):
    """Where is a topic?"""

    topic: Annotated[Resource | None, 1] = None
    endpoints: Annotated[Endpoints | None, 2] = None


class QueryRouteResponse(Message):
    """A topic's queues."""

    status: Annotated[Status | None, 1] = None
    message_queues: Annotated[list[MessageQueue], 2] = []


class SendMessageRequest(Message):
    """Messages of one topic."""

    messages: Annotated[list[WireMessage], 1] = []


class SendResultEntry(Message):
    """What became of one message."""

    status: Annotated[Status | None, 1] = None
    message_id: Annotated[str, 2] = ""
    transaction_id: Annotated[str, 3] = ""
    offset: Annotated[int, 4] = 0
    recall_handle: Annotated[str, 5] = ""


class SendMessageResponse(Message):
    """What became of the messages."""

    status: Annotated[Status | None, 1] = None
    entries: Annotated[list[SendResultEntry], 2] = []


class QueryAssignmentRequest(Message):
    """Which queues shall this consumer receive from?"""

    topic: Annotated[Resource | None, 1] = None
    group: Annotated[Resource | None, 2] = None
    endpoints: Annotated[Endpoints | None, 3] = None


class Assignment(Message):
    """One queue to receive from."""

    message_queue: Annotated[MessageQueue | None, 1] = None


class QueryAssignmentResponse(Message):
    """The queues to receive from."""

    status: Annotated[Status | None, 1] = None
    assignments: Annotated[list[Assignment], 2] = []


class ReceiveMessageRequest(Message):
    """Give out messages, and wait for the first."""

    group: Annotated[Resource | None, 1] = None
    message_queue: Annotated[MessageQueue | None, 2] = None
    filter_expression: Annotated[FilterExpression | None, 3] = None
    batch_size: Annotated[int, 4] = 0
    invisible_duration: Annotated[Moment | None, 5] = None
    auto_renew: Annotated[bool, 6] = False
    long_polling_timeout: Annotated[Moment | None, 7] = None
    attempt_id: Annotated[str | None, 8] = None


class ReceiveMessageResponse(Message):
    """One of the answers to a receive: exactly one field is set."""

    status: Annotated[Status | None, 1] = None
    message: Annotated[WireMessage | None, 2] = None
    delivery_timestamp: Annotated[Moment | None, 3] = None


class AckMessageEntry(Message):
    """One message that is settled."""

    message_id: Annotated[str, 1] = ""
    receipt_handle: Annotated[str, 2] = ""


class AckMessageRequest(Message):
    """Messages of one topic that are settled."""

    group: Annotated[Resource | None, 1] = None
    topic: Annotated[Resource | None, 2] = None
    entries: Annotated[list[AckMessageEntry], 3] = []


class AckMessageResultEntry(Message):
    """What became of one acknowledgement."""

    message_id: Annotated[str, 1] = ""
    receipt_handle: Annotated[str, 2] = ""
    status: Annotated[Status | None, 3] = None


class AckMessageResponse(Message):
    """What became of the acknowledgements."""

    status: Annotated[Status | None, 1] = None
    entries: Annotated[list[AckMessageResultEntry], 2] = []


class ForwardRequest(Message):
    """Put a message to the dead letters (ForwardMessageToDeadLetterQueueRequest)."""

    group: Annotated[Resource | None, 1] = None
    topic: Annotated[Resource | None, 2] = None
    receipt_handle: Annotated[str, 3] = ""
    message_id: Annotated[str, 4] = ""
    delivery_attempt: Annotated[int, 5] = 0
    max_delivery_attempts: Annotated[int, 6] = 0


class StatusResponse(Message):
    """The answer of calls that have nothing else to say."""

    status: Annotated[Status | None, 1] = None


class ChangeInvisibleDurationRequest(Message):
    """Hide a message for another while."""

    group: Annotated[Resource | None, 1] = None
    topic: Annotated[Resource | None, 2] = None
    receipt_handle: Annotated[str, 3] = ""
    invisible_duration: Annotated[Moment | None, 4] = None
    message_id: Annotated[str, 5] = ""


class ChangeInvisibleDurationResponse(Message):
    """The message's new handle."""

    status: Annotated[Status | None, 1] = None
    receipt_handle: Annotated[str, 2] = ""


class HeartbeatRequest(Message):
    """A client lives."""

    group: Annotated[Resource | None, 1] = None
    client_type: Annotated[int, 2] = 0


class TerminationRequest(Message):
    """A client goes (NotifyClientTerminationRequest)."""

    group: Annotated[Resource | None, 1] = None


class Resolution(enum.IntEnum):
    """How a transaction ends."""

    COMMIT = 1
    ROLLBACK = 2


class Source(enum.IntEnum):
    """Why a transaction ends: the client's own code, or a question of the server."""

    CLIENT = 1
    SERVER_CHECK = 2


class EndTransactionRequest(Message):
    """The end of a transaction."""

    topic: Annotated[Resource | None, 1] = None
    message_id: Annotated[str, 2] = ""
    transaction_id: Annotated[str, 3] = ""
    resolution: Annotated[int, 4] = 0
    source: Annotated[int, 5] = 0
    trace_context: Annotated[str, 6] = ""


class RecallMessageRequest(Message):
    """Take back a delayed message."""

    topic: Annotated[Resource | None, 1] = None
    recall_handle: Annotated[str, 2] = ""


class RecallMessageResponse(Message):
    """The id of the message that is taken back."""

    status: Annotated[Status | None, 1] = None
    message_id: Annotated[str, 2] = ""
