"""What every request code needs: a permission on topics and groups, an administrator, or a name.

The table knows every code of ``RequestCode``; a code that is served and not in it is refused, so
that a new one is closed until it is decided on.  Where the original asks nothing (``NONE`` in
PlainAccessResource), this asks what the same data costs elsewhere: a lite pull, a pop and a batch
are as guarded as a pull and a send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.bodies.body import Body
from contrailmq.protocol.bodies.heartbeat import HeartbeatData
from contrailmq.protocol.bodies.queues import BatchAckMessageRequest
from contrailmq.protocol.codes import RequestCode as C
from contrailmq.protocol.command import Command
from contrailmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from contrailmq.security.account import GROUP, TOPIC, Need
from contrailmq.security.permission import ANY, PUB, SUB

Rule = Callable[[Command], list[Need]]
_B = TypeVar("_B", bound=Body)


class BadRequest(Exception):
    """The body that names the resources cannot be read; the text is what the peer is told."""


class _GroupOf(Body):
    """The group a body speaks of, under whichever name."""

    consumer_group: str = ""
    group: str = ""
    topic: str = ""


def needs_of(request: Command) -> list[Need] | None:
    """What a request needs; None means an administrator. Raises BadRequest."""
    rule = RULES.get(request.code)
    return rule(request) if rule is not None else None


def is_known(code: int) -> bool:
    """Whether the table has decided on a code."""
    return code in RULES or code in ADMIN_CODES


def topic_need(topic: str, bits: int) -> Need:
    """The need for a topic; a retry or dead-letter topic is its group's (never the sender's)."""
    if topic.startswith(RETRY_PREFIX):
        return Need(GROUP, topic[len(RETRY_PREFIX) :], SUB)
    return Need(TOPIC, topic, bits)


def group_of_dlq(need: Need) -> Need | None:
    """Whoever may read a group may also read its dead letters: the need that does as well."""
    if need.kind == TOPIC and need.bits == SUB and need.name.startswith(DLQ_PREFIX):
        return Need(GROUP, need.name[len(DLQ_PREFIX) :], SUB)
    return None


def _topic(field: str, bits: int) -> Rule:
    return lambda request: [topic_need(request.fields.get(field, ""), bits)]


def _group(field: str) -> Rule:
    return lambda request: [_group_need(request.fields.get(field, ""))]


def _group_need(name: str) -> Need:
    return Need(GROUP, name.removeprefix(RETRY_PREFIX), SUB)


def _both(request: Command) -> list[Need]:
    fields = request.fields
    return read_needs(fields.get("topic", ""), fields.get("consumerGroup", ""))


def _pop(request: Command) -> list[Need]:
    fields = request.fields
    return _pop_needs(fields.get("topic", ""), fields.get("consumerGroup", ""))


def read_needs(topic: str, group: str) -> list[Need]:
    """What reading a topic for a group needs."""
    return list(dict.fromkeys((topic_need(topic, SUB), _group_need(group))))


def _pop_needs(topic: str, group: str) -> list[Need]:
    """As for a pull; the retry topics of pops have both names in theirs (KeyBuilder)."""
    rest = topic.removeprefix(RETRY_PREFIX)
    if rest != topic and group and rest.startswith((f"{group}_", f"{group}+")):
        topic = rest[len(group) + 1 :]
    return read_needs(topic, group)


def _group_if_given(request: Command) -> list[Need]:
    group = request.fields.get("consumerGroup")
    return [_group_need(group)] if group else []


def _group_and_topic_if_given(request: Command) -> list[Need]:
    fields = request.fields
    needs = [_group_need(fields.get("consumerGroup", ""))]
    if fields.get("topic"):
        needs.append(topic_need(fields["topic"], ANY))
    return list(dict.fromkeys(needs))


def _topic_or_group(request: Command) -> list[Need]:
    """Who asks by topic, group or both; nothing given is nothing shown."""
    fields = request.fields
    group = fields.get("consumerGroup") or fields.get("group")
    needs = [_group_need(group)] if group else []
    if fields.get("topic"):
        needs.append(topic_need(fields["topic"], ANY))
    return list(dict.fromkeys(needs))


def _heartbeat(request: Command) -> list[Need]:
    data = _decoded(HeartbeatData, request)
    needs: dict[Need, None] = {}
    for consumer in data.consumer_data_set:
        needs[_group_need(consumer.group_name)] = None
        for subscription in consumer.subscription_data_set:
            needs[topic_need(subscription.topic, SUB)] = None
    return list(needs)


def _body_group(request: Command) -> list[Need]:
    found = _decoded(_GroupOf, request)
    return [_group_need(found.consumer_group or found.group)]


def _body_group_and_topic(request: Command) -> list[Need]:
    found = _decoded(_GroupOf, request)
    return read_needs(found.topic, found.consumer_group or found.group)


def _batch_ack(request: Command) -> list[Need]:
    needs: dict[Need, None] = {}
    for ack in _decoded(BatchAckMessageRequest, request).acks:
        needs.update(dict.fromkeys(_pop_needs(ack.topic, ack.consumer_group)))
    return list(needs)


def _decoded(kind: type[_B], request: Command) -> _B:
    if not request.body:
        raise BadRequest(f"the request {request.code} has no body")
    try:
        return kind.decode(request.body)
    except RemoteProtocolError as error:
        raise BadRequest(str(error)) from None


def _nothing(request: Command) -> list[Need]:
    """A name is enough: what is reached so is no one's, or is looked at when it is found."""
    return []


RULES: Final[dict[int, Rule]] = {
    C.SEND_MESSAGE: _topic("topic", PUB),
    C.SEND_MESSAGE_V2: _topic("b", PUB),
    C.SEND_BATCH_MESSAGE: _topic("b", PUB),
    C.RECALL_MESSAGE: _topic("topic", PUB),
    C.SEND_REPLY_MESSAGE: _nothing,  # to the one client that asked
    C.SEND_REPLY_MESSAGE_V2: _nothing,
    C.END_TRANSACTION: _nothing,  # the topic of the half message is looked at by its handler
    C.CONSUMER_SEND_MSG_BACK: _group("group"),
    C.PULL_MESSAGE: _both,
    C.LITE_PULL_MESSAGE: _both,
    C.POP_MESSAGE: _pop,
    C.PEEK_MESSAGE: _pop,
    C.ACK_MESSAGE: _pop,
    C.BATCH_ACK_MESSAGE: _batch_ack,
    C.CHANGE_MESSAGE_INVISIBLETIME: _pop,
    C.NOTIFICATION: _pop,
    C.POLLING_INFO: _pop,
    C.QUERY_MESSAGE: _topic("topic", SUB),
    C.VIEW_MESSAGE_BY_ID: _nothing,  # the topic of what is found is looked at by its handler
    C.QUERY_CONSUME_QUEUE: _topic("topic", SUB),
    C.QUERY_CONSUMER_OFFSET: _group("consumerGroup"),
    C.UPDATE_CONSUMER_OFFSET: _both,
    C.SEARCH_OFFSET_BY_TIMESTAMP: _topic("topic", ANY),
    C.GET_MAX_OFFSET: _topic("topic", ANY),
    C.GET_MIN_OFFSET: _topic("topic", ANY),
    C.GET_EARLIEST_MSG_STORETIME: _topic("topic", ANY),
    C.HEART_BEAT: _heartbeat,
    C.UNREGISTER_CLIENT: _group_if_given,
    C.GET_CONSUMER_LIST_BY_GROUP: _group("consumerGroup"),
    C.CHECK_CLIENT_CONFIG: _body_group,
    C.LOCK_BATCH_MQ: _body_group,
    C.UNLOCK_BATCH_MQ: _body_group,
    C.QUERY_ASSIGNMENT: _body_group_and_topic,
    C.GET_BROKER_RUNTIME_INFO: _nothing,
    C.GET_TOPIC_STATS_INFO: _topic("topic", ANY),
    C.GET_TOPIC_CONFIG: _topic("topic", ANY),
    C.QUERY_TOPIC_CONSUME_BY_WHO: _topic("topic", ANY),
    C.GET_SUBSCRIPTIONGROUP_CONFIG: _group("group"),
    C.GET_CONSUMER_CONNECTION_LIST: _group("consumerGroup"),
    C.GET_CONSUME_STATS: _group_and_topic_if_given,
    C.GET_CONSUMER_RUNNING_INFO: _group("consumerGroup"),
    C.CONSUME_MESSAGE_DIRECTLY: _group("consumerGroup"),
    C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _group("group"),
    C.QUERY_CONSUME_TIME_SPAN: _topic_or_group,
    C.QUERY_TOPICS_BY_CONSUMER: _group("group"),
    C.QUERY_SUBSCRIPTION_BY_CONSUMER: _group("group"),
    C.QUERY_CORRECTION_OFFSET: _group("compareGroup"),
}
ADMIN_CODES: Final = frozenset(int(code) for code in C) - frozenset(int(code) for code in RULES)
