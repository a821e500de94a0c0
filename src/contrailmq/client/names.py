"""Names as a client uses them: checks that say what to do, and namespaces.

A namespace puts ``ns%`` before the name, behind a ``%RETRY%`` or ``%DLQ%`` prefix:
``%RETRY%ns%group``.  System names are never wrapped, wrapped names are left alone.
"""

from __future__ import annotations

from contrailmq.errors import ClientError
from contrailmq.protocol.names import (
    DEFAULT_CONSUMER_GROUP,
    DEFAULT_PRODUCER_GROUP,
    DLQ_PREFIX,
    RETRY_PREFIX,
    group_fault,
    is_send_forbidden,
    is_system_group,
    is_system_topic,
    topic_fault,
)

GRPC_PRODUCER_GROUP = "grpc-producer"


def check_topic(topic: str, *, for_sending: bool = False) -> None:
    """Raise unless the name can be a topic's (and, for sending, is open to users)."""
    fault = topic_fault(topic)
    if fault is not None:
        raise ClientError(f"topic {topic!r} cannot be used: {fault}")
    if for_sending and is_send_forbidden(topic):
        raise ClientError(f"topic {topic!r} belongs to the broker; send to one of your own")


def check_group(group: str) -> None:
    """Raise unless the name can be a producer's or consumer's group."""
    fault = group_fault(group)
    if fault is not None:
        raise ClientError(f"group {group!r} cannot be used: {fault}")
    if group in (DEFAULT_PRODUCER_GROUP, DEFAULT_CONSUMER_GROUP):
        raise ClientError(f"group {group!r} is reserved; name it after the application")


def producer_group(group: str, endpoints: object) -> str:
    """The group of a producer, checked; gRPC knows producers by topics and needs none."""
    if endpoints is not None and not group:
        return GRPC_PRODUCER_GROUP
    check_group(group)
    return group


def wrap(namespace: str, name: str) -> str:
    """The name inside a namespace (NamespaceUtil.wrapNamespace)."""
    if not namespace or not name or is_system_topic(name) or is_system_group(name):
        return name
    prefix, plain = _split_prefix(name)
    if plain.startswith(namespace + "%"):
        return name
    return f"{prefix}{namespace}%{plain}"


def unwrap(namespace: str, name: str) -> str:
    """The name without its namespace, if it has that one."""
    if not namespace:
        return name
    prefix, plain = _split_prefix(name)
    return prefix + plain.removeprefix(namespace + "%")


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
