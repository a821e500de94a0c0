"""What names, times and messages must be before anything is done with them.

The order of the checks is the original's (GrpcValidator, SendMessageActivity): a client sees the
first that fails.
"""

from __future__ import annotations

import re
from typing import Final

from contrailmq.grpc.codes import Code, Refusal
from contrailmq.grpc.messages import MessageType, Moment, Resource, WireMessage
from contrailmq.protocol.names import (
    SYSTEM_GROUP_PREFIX,
    group_fault,
    is_system_topic,
    topic_fault,
)
from contrailmq.protocol.properties import RESERVED_PROPERTIES

BODY_SIZE_MAX: Final = 4 * 1024 * 1024
PROPERTIES_MAX: Final = 128
PROPERTIES_SIZE_MAX: Final = 16 * 1024
MESSAGE_GROUP_SIZE_MAX: Final = 64
RECOVERY_S_MAX: Final = 3600
DELAY_MS_MAX: Final = 24 * 3_600_000
INVISIBLE_MS_MIN: Final = 10_000
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Names that ordinary clients may set, though our own producer keeps them for itself.
FORBIDDEN_PROPERTIES: Final = frozenset(
    name
    for name in RESERVED_PROPERTIES
    if name
    not in (
        "__SHARDINGKEY",
        "TRACE_CONTEXT",
        "__transactionId__",
        "TRANSACTION_CHECK_TIMES",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "PROPERTY_FORWARD_QUEUE_ID",
        "REDIRECT",
        "INNER_MULTI_DISPATCH",
        "INNER_BASE",
    )
)


def topic_of(resource: Resource | None) -> str:
    """The name of a topic; refuses one that is illegal or the system's own."""
    name = resource.name if resource is not None else ""
    fault = topic_fault(name)
    if fault is not None:
        raise Refusal(Code.ILLEGAL_TOPIC, fault)
    if is_system_topic(name):
        raise Refusal(Code.ILLEGAL_TOPIC, f"cannot access system topic {name}")
    return name


def group_of(resource: Resource | None) -> str:
    """The name of a consumer group; refuses one that is illegal or the system's own."""
    name = resource.name if resource is not None else ""
    fault = group_fault(name)
    if fault is not None:
        raise Refusal(Code.ILLEGAL_CONSUMER_GROUP, fault)
    if name.startswith(SYSTEM_GROUP_PREFIX):
        raise Refusal(Code.ILLEGAL_CONSUMER_GROUP, f"cannot use system consumer group {name}")
    return name


def invisible_ms(duration: Moment | None, *, least_ms: int = 0) -> int:
    """How long a message is to be hidden; refuses too short and too long."""
    ms = duration.ms if duration is not None else 0
    if ms < least_ms:
        raise Refusal(
            Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {least_ms}"
        )
    if ms > INVISIBLE_MS_MAX:
        raise Refusal(
            Code.ILLEGAL_INVISIBLE_TIME,
            f"the invisibleTime is too large. max is {INVISIBLE_MS_MAX}",
        )
    return ms


def check_message(message: WireMessage, *, body_size_max: int, now_ms: int) -> None:
    """Refuse a message that breaks a limit."""
    size = len(message.body)
    if size > body_size_max:
        raise Refusal(
            Code.MESSAGE_BODY_TOO_LARGE,
            f"message body of {size} bytes cannot exceed the max {body_size_max}",
        )
    if not size:
        raise Refusal(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    system = message.system_properties
    total = _check_user_properties(message.user_properties) if message.user_properties else 0
    if system is None:
        raise Refusal(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    if system.tag:
        _check_tag(system.tag)
        total += len(system.tag.encode())
    for key in system.keys:
        _check_text(Code.ILLEGAL_MESSAGE_KEY, "key", key)
        total += len(key.encode())
    if total > PROPERTIES_SIZE_MAX:
        raise Refusal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the total size of user property is {total}, max is {PROPERTIES_SIZE_MAX}",
        )
    if not system.message_id.strip():
        raise Refusal(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    recovery = system.orphaned_transaction_recovery_duration
    is_half = system.message_type == MessageType.TRANSACTION
    if is_half and recovery is not None and recovery.seconds > RECOVERY_S_MAX:
        raise Refusal(
            Code.BAD_REQUEST,
            f"transaction recovery time cannot exceed the max {RECOVERY_S_MAX}",
        )
    due = system.delivery_timestamp
    if due is not None and due.ms - now_ms > DELAY_MS_MAX:
        raise Refusal(
            Code.ILLEGAL_DELIVERY_TIME,
            f"the max delay time of message is too large, max is {DELAY_MS_MAX}",
        )
    if system.message_group:
        _check_message_group(system.message_group)


def _check_user_properties(properties: dict[str, str]) -> int:
    if len(properties) > PROPERTIES_MAX:
        raise Refusal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"too many user properties, {len(properties)}, max is {PROPERTIES_MAX}",
        )
    total = 0
    for name, value in properties.items():
        if name in FORBIDDEN_PROPERTIES:
            raise Refusal(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}")
        if _CONTROL.search(name):
            raise Refusal(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
                "the key of property cannot contain control character",
            )
        if _CONTROL.search(value):
            raise Refusal(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
                "the value of property cannot contain control character",
            )
        total += len(name.encode()) + len(value.encode())
    return total


def _check_tag(tag: str) -> None:
    if not tag.strip():
        raise Refusal(Code.ILLEGAL_MESSAGE_TAG, "tag cannot be the char sequence of whitespace")
    if "|" in tag:
        raise Refusal(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    if _CONTROL.search(tag):
        raise Refusal(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain control character")


def _check_text(code: Code, what: str, text: str) -> None:
    if text and not text.strip():
        raise Refusal(code, f"{what} cannot be the char sequence of whitespace")
    if _CONTROL.search(text):
        raise Refusal(code, f"{what} cannot contain control character")


def _check_message_group(name: str) -> None:
    if not name.strip():
        raise Refusal(
            Code.ILLEGAL_MESSAGE_GROUP, "message group cannot be the char sequence of whitespace"
        )
    if len(name.encode()) >= MESSAGE_GROUP_SIZE_MAX:
        raise Refusal(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"message group exceed the max size {MESSAGE_GROUP_SIZE_MAX}",
        )
    if _CONTROL.search(name):
        raise Refusal(Code.ILLEGAL_MESSAGE_GROUP, "message group cannot contain control character")
