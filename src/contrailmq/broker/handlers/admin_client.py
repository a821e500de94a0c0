"""Who is connected, and who consumes what: request codes 203, 204, 300, 328, 343 and 345."""

from __future__ import annotations

from contrailmq.broker.identity import Identity
from contrailmq.broker.tables.consumers import ConsumerTable, Member
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.producers import ProducerMember, ProducerTable
from contrailmq.errors import ConsumerNotOnline, SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies import clients
from contrailmq.protocol.bodies.group import GroupList, QuerySubscriptionResponse
from contrailmq.protocol.bodies.topic import TopicList
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.admin import (
    GetConsumerConnectionListRequest,
    GetProducerConnectionListRequest,
)
from contrailmq.protocol.headers.query import (
    QuerySubscriptionByConsumerRequest,
    QueryTopicConsumeByWhoRequest,
    QueryTopicsByConsumerRequest,
)


class Connections:
    """Request codes 203, 204 and 328: the clients of groups."""

    def __init__(self, consumers: ConsumerTable, producers: ProducerTable) -> None:
        self._consumers = consumers
        self._producers = producers

    def consumers(self, request: Command, connection: Connection) -> Command:
        """Code 203."""
        group = GetConsumerConnectionListRequest.from_fields(request.fields).consumer_group
        found = self._consumers.find(group)
        if found is None:
            raise ConsumerNotOnline(f"the consumer group[{group}] not online")
        body = clients.ConsumerConnection(
            connection_set=[_described(member) for member in found.members.values()],
            consume_from_where=found.consume_from_where or None,
            consume_type=found.consume_type or None,
            message_model=found.message_model or None,
            subscription_table=dict(found.subscriptions),
        )
        return request.reply(body=body.encode())

    def producers(self, request: Command, connection: Connection) -> Command:
        """Code 204."""
        group = GetProducerConnectionListRequest.from_fields(request.fields).producer_group
        members = self._producers.members(group)
        if not members:
            raise SystemFailure(f"the producer group[{group}] not exist")
        body = clients.ProducerConnection(connection_set=[_described(member) for member in members])
        return request.reply(body=body.encode())

    def all_producers(self, request: Command, connection: Connection) -> Command:
        """Code 328: every producer group."""
        body = clients.ProducerTableInfo(
            data={
                group: [
                    clients.ProducerInfo(
                        client_id=member.client_id,
                        language=member.language,
                        last_update_timestamp=member.seen_wall_ms,
                        remote_ip=f"/{member.connection.peer}",
                        version=member.version,
                    )
                    for member in members
                ]
                for group, members in self._producers.groups()
            }
        )
        return request.reply(body=body.encode())


class WhoConsumes:
    """Request codes 300, 343 and 345: groups of a topic, topics and subscriptions of a group."""

    def __init__(
        self, consumers: ConsumerTable, offsets: OffsetTable, *, identity: Identity
    ) -> None:
        self._consumers = consumers
        self._offsets = offsets
        self._identity = identity

    def groups(self, request: Command, connection: Connection) -> Command:
        """Code 300: connected subscribers, and groups with offsets in the topic."""
        topic = QueryTopicConsumeByWhoRequest.from_fields(request.fields).topic
        names = dict.fromkeys(self._consumers.groups_of_topic(topic))
        names.update(dict.fromkeys(self._offsets.groups_of(topic)))
        return request.reply(body=GroupList(group_list=list(names)).encode())

    def topics(self, request: Command, connection: Connection) -> Command:
        """Code 343: the topics a group has offsets in."""
        group = QueryTopicsByConsumerRequest.from_fields(request.fields).group
        body = TopicList(
            topic_list=self._offsets.topics_of(group), broker_addr=self._identity.address
        )
        return request.reply(body=body.encode())

    def subscription(self, request: Command, connection: Connection) -> Command:
        """Code 345: what a connected group subscribes to in a topic, if it does."""
        header = QuerySubscriptionByConsumerRequest.from_fields(request.fields)
        found = self._consumers.find(header.group)
        topic = header.topic or ""
        body = QuerySubscriptionResponse(
            group=header.group,
            topic=topic,
            subscription_data=None if found is None else found.subscriptions.get(topic),
        )
        return request.reply(body=body.encode())


def _described(member: Member | ProducerMember) -> clients.Connection:
    return clients.Connection(
        client_addr=member.connection.peer,
        client_id=member.client_id,
        language=member.language,
        version=member.version,
    )
