"""The messages of telemetry: settings of clients, and what server and client ask each other."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from contrailmq.grpc.messages import (
    Endpoints,
    FilterExpression,
    Message,
    Moment,
    Resource,
    Status,
    WireMessage,
)


class ClientType(enum.IntEnum):
    """The kinds of clients."""

    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4


class ExponentialBackoff(Message):
    """Waiting times that grow by a factor."""

    initial: Annotated[Moment | None, 1] = None
    max: Annotated[Moment | None, 2] = None
    multiplier: Annotated[float, 3] = 0.0


class CustomizedBackoff(Message):
    """Waiting times one by one."""

    next: Annotated[list[Moment], 1] = msgspec.field(default_factory=list)


class RetryPolicy(Message):
    """How often and when a client tries again."""

    max_attempts: Annotated[int, 1] = 0
    exponential_backoff: Annotated[ExponentialBackoff | None, 2] = None
    customized_backoff: Annotated[CustomizedBackoff | None, 3] = None


class Publishing(Message):
    """The settings of a producer."""

    topics: Annotated[list[Resource], 1] = msgspec.field(default_factory=list)
    max_body_size: Annotated[int, 2] = 0
    validate_message_type: Annotated[bool, 3] = False


class SubscriptionEntry(Message):
    """One topic of a consumer."""

    topic: Annotated[Resource | None, 1] = None
    expression: Annotated[FilterExpression | None, 2] = None


class Subscription(Message):
    """The settings of a consumer."""

    group: Annotated[Resource | None, 1] = None
    subscriptions: Annotated[list[SubscriptionEntry], 2] = msgspec.field(default_factory=list)
    fifo: Annotated[bool | None, 3] = None
    receive_batch_size: Annotated[int | None, 4] = None
    long_polling_timeout: Annotated[Moment | None, 5] = None


class UserAgent(Message):
    """Which program a client is."""

    language: Annotated[int, 1] = 0
    version: Annotated[str, 2] = ""
    platform: Annotated[str, 3] = ""
    hostname: Annotated[str, 4] = ""


class Metric(Message):
    """Whether a client exports metrics, and where to."""

    on: Annotated[bool, 1] = False
    endpoints: Annotated[Endpoints | None, 2] = None


class Settings(Message):
    """What a client and its server agree on."""

    client_type: Annotated[int | None, 1] = None
    access_point: Annotated[Endpoints | None, 2] = None
    backoff_policy: Annotated[RetryPolicy | None, 3] = None
    request_timeout: Annotated[Moment | None, 4] = None
    publishing: Annotated[Publishing | None, 5] = None
    subscription: Annotated[Subscription | None, 6] = None
    user_agent: Annotated[UserAgent | None, 7] = None
    metric: Annotated[Metric | None, 8] = None


class ThreadStackTrace(Message):
    """A client's threads."""

    nonce: Annotated[str, 1] = ""
    thread_stack_trace: Annotated[str | None, 2] = None


class Nonce(Message):
    """A question or an answer that is nothing but its number (several commands)."""

    nonce: Annotated[str, 1] = ""


class OrphanedTransaction(Message):
    """The question how a transaction ended (RecoverOrphanedTransactionCommand)."""

    message: Annotated[WireMessage | None, 1] = None
    transaction_id: Annotated[str, 2] = ""


class VerifyMessage(Message):
    """The wish that a client consumes a message now (VerifyMessageCommand)."""

    nonce: Annotated[str, 1] = ""
    message: Annotated[WireMessage | None, 2] = None


class TelemetryCommand(Message):
    """One thing said on a telemetry stream, in either direction."""

    status: Annotated[Status | None, 1] = None
    settings: Annotated[Settings | None, 2] = None
    thread_stack_trace: Annotated[ThreadStackTrace | None, 3] = None
    verify_message_result: Annotated[Nonce | None, 4] = None
    recover_orphaned_transaction_command: Annotated[OrphanedTransaction | None, 5] = None
    print_thread_stack_trace_command: Annotated[Nonce | None, 6] = None
    verify_message_command: Annotated[VerifyMessage | None, 7] = None
    reconnect_endpoints_command: Annotated[Nonce | None, 8] = None
