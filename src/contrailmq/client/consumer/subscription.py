"""What a consumer wants of a topic: tags or an SQL expression, and where to start.

A subscription is given as text (``"paid || refunded"``, ``"*"``) or as ``Sql("amount > 10")``.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from contrailmq.client.names import check_topic, wrap
from contrailmq.errors import ClientError, ContrailError
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.filter.sql import compile_sql
from contrailmq.protocol.filter.tags import parse_tags

TAG: Final = "TAG"
SQL92: Final = "SQL92"


@dataclass(frozen=True, slots=True)
class Sql:
    """A filter over message properties, judged by the broker."""

    expression: str


Expression = str | Sql
Topics = Mapping[str, Expression] | Iterable[str] | str


def subscriptions(
    topics: Topics, *, namespace: str, version_ms: int
) -> dict[str, SubscriptionData]:
    """The subscriptions of a consumer by wire topic; raises for what no broker would take."""
    if isinstance(topics, str):
        topics = {topics: "*"}
    elif not isinstance(topics, Mapping):
        topics = dict.fromkeys(topics, "*")
    if not topics:
        raise ClientError("a consumer needs at least one topic, for example {'orders': '*'}")
    found = {}
    for topic, expression in topics.items():
        check_topic(topic)
        name = wrap(namespace, topic)
        found[name] = subscription(name, expression, version_ms=version_ms)
    return found


def subscription(topic: str, expression: Expression, *, version_ms: int) -> SubscriptionData:
    """One subscription; an expression that does not parse is refused here already."""
    try:
        if isinstance(expression, Sql):
            compile_sql(expression.expression)
            return SubscriptionData(
                topic=topic,
                expression_type=SQL92,
                sub_string=expression.expression,
                sub_version=version_ms,
            )
        tags = parse_tags(expression)
        return SubscriptionData(
            topic=topic,
            sub_string=tags.expression,
            tags_set=list(tags.tags),
            code_set=list(tags.codes),
            sub_version=version_ms,
        )
    except ContrailError as error:
        text = expression.expression if isinstance(expression, Sql) else expression
        raise ClientError(f"subscription {text!r} to topic {topic!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where a group begins in a queue it has no offset in."""

    word: str
    timestamp_ms: int = 0

    @property
    def wire_name(self) -> str:
        """What the heartbeat says (ConsumeFromWhere)."""
        return {
            "first": "CONSUME_FROM_FIRST_OFFSET",
            "last": "CONSUME_FROM_LAST_OFFSET",
            "timestamp": "CONSUME_FROM_TIMESTAMP",
        }[self.word]


def start_position(start_from: str | int | datetime.datetime) -> StartPosition:
    """``"first"``, ``"last"``, a moment as a datetime, or in ms since 1970."""
    if isinstance(start_from, datetime.datetime):
        if start_from.tzinfo is None:
            raise ClientError(f"start_from {start_from} has no time zone; give it one")
        return StartPosition("timestamp", int(start_from.timestamp() * 1000))
    if isinstance(start_from, int):
        return StartPosition("timestamp", start_from)
    if start_from in ("first", "last"):
        return StartPosition(start_from)
    raise ClientError(
        f"start_from is {start_from!r}; give 'first', 'last', a datetime or ms since 1970"
    )
