"""Members of one group that subscribe to different things: found and reported.

Queues are divided among all members, so a member that does not want a topic, or wants other
tags, silently eats the messages of those who do.  A broker keeps one subscription table per group;
where it differs from ours, another member said something else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from contrailmq.client.session import Session
from contrailmq.errors import ContrailError
from contrailmq.protocol.bodies.clients import ConsumerConnection
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.admin import GetConsumerConnectionListRequest

log = logging.getLogger(__name__)

_NONE: Final = "no subscription"


class Mismatch(NamedTuple):
    """A topic on which the members of a group disagree."""

    topic: str
    ours: str
    theirs: str


def compare(
    ours: Mapping[str, SubscriptionData], theirs: Mapping[str, SubscriptionData]
) -> list[Mismatch]:
    """The topics whose subscriptions differ between us and the broker's table."""
    found = []
    for topic in sorted({*ours, *theirs}):
        mine, other = _text(ours.get(topic)), _text(theirs.get(topic))
        if mine != other:
            found.append(Mismatch(topic, mine, other))
    return found


class MismatchWatch:
    """Asks a broker for the group's subscriptions whenever the members changed."""

    def __init__(
        self, session: Session, group: str, subscriptions: Mapping[str, SubscriptionData]
    ) -> None:
        self._session = session
        self._group = group
        self._subscriptions = subscriptions
        self._members: list[str] = []
        self.found: list[Mismatch] = []

    async def look(self, broker_name: str, *, members: Sequence[str]) -> None:
        """Compare once per set of members; a difference is logged and kept in ``found``."""
        if list(members) == self._members:
            return
        self._members = list(members)
        try:
            header = GetConsumerConnectionListRequest(consumer_group=self._group)
            answer = await self._session.ask(
                self._session.keeper(broker_name),
                Command.request(RequestCode.GET_CONSUMER_CONNECTION_LIST, header),
            )
            table = ConsumerConnection.decode(answer.body).subscription_table
        except ContrailError as error:
            log.debug("subscriptions not compared group=%s error=%s", self._group, error)
            return
        self.found = compare(self._subscriptions, table)
        for topic, ours, theirs in self.found:
            log.warning(
                "members of one group subscribe differently, messages will be missed:"
                " group=%s topic=%s ours=%s theirs=%s members=%s",
                self._group, topic, ours, theirs, self._members,
            )  # fmt: skip


def _text(subscription: SubscriptionData | None) -> str:
    if subscription is None:
        return _NONE
    if subscription.expression_type == "TAG":
        tags = sorted(subscription.tags_set)
        return " || ".join(tags) if tags else subscription.sub_string
    return f"{subscription.expression_type}: {subscription.sub_string}"
