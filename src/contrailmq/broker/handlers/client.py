"""Clients and their groups: heartbeats (34), goodbyes (35), checks (46), lists (38)."""

from __future__ import annotations

from typing import Final

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.services.filter_work import FilterWork
from contrailmq.broker.services.rebalance_notices import IdsChanged
from contrailmq.broker.tables.consumers import ConsumerTable, Membership
from contrailmq.broker.tables.filters import ConsumerFilters, is_tag_type
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.link import ClientLink
from contrailmq.broker.tables.producers import ProducerTable
from contrailmq.broker.tables.topics import UNIT_SUB_FLAG, TopicTable
from contrailmq.errors import FilterError, SubscriptionParseFailed, SystemFailure
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.group import ConsumerListBody
from contrailmq.protocol.bodies.heartbeat import CheckClientRequest, ConsumerData, HeartbeatData
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.client import HeartbeatResponse, UnregisterClientRequest
from contrailmq.protocol.headers.group import GetConsumerListByGroupRequest
from contrailmq.protocol.names import retry_topic

CLIENT_ID_LENGTH_MAX: Final = 1024


class Clients:
    """The connected clients of a broker as one: who comes, who goes, whom to tell."""

    def __init__(
        self,
        consumers: ConsumerTable,
        producers: ProducerTable,
        filters: ConsumerFilters,
        *,
        groups: GroupTable,
        live: LiveSettings,
        notices: IdsChanged,
    ) -> None:
        self.consumers = consumers
        self.producers = producers
        self._filters = filters
        self._groups = groups
        self._live = live
        self._notices = notices
        self._watched: dict[ClientLink, None] = {}

    def watch(self, connection: ClientLink) -> None:
        """Forget a client as soon as its connection ends."""
        if connection not in self._watched:
            self._watched[connection] = None
            connection.on_close(self.drop)

    def drop(self, connection: ClientLink) -> None:
        """A connection has ended: its groups rebalance."""
        self._watched.pop(connection, None)
        self.producers.drop(connection)
        groups = self.consumers.groups_of(connection)
        for group in self.consumers.drop(connection):
            self.announce(group)
        self.bury(groups)

    def bury(self, groups: list[str]) -> None:
        """The filters of groups without consumers are no longer alive."""
        for group in groups:
            if self.consumers.find(group) is None:
                self._filters.unregister(group)

    def announce(self, group: str) -> None:
        """Tell the clients of a group to rebalance, if the group wants to be told."""
        config = self._groups.find(group)
        if not self._live.now.notify_ids_changed:
            return
        if config is None or config.notify_consumer_ids_changed_enable:
            self._notices.announce(group)

    def expire(self) -> None:
        """Close what has not been heard of for ``channelExpiredTimeout``."""
        silent_ms = self._live.now.channel_expired_ms
        late = self.consumers.expired(silent_ms=silent_ms)
        late += self.producers.expired(silent_ms=silent_ms)
        for connection in dict.fromkeys(late):
            connection.close(f"no heartbeat for {silent_ms} ms")
            self.drop(connection)


class Heartbeat:
    """Request code 34."""

    def __init__(
        self,
        clients: Clients,
        topics: TopicTable,
        groups: GroupTable,
        *,
        filters: FilterWork,
        live: LiveSettings,
    ) -> None:
        self._clients = clients
        self._topics = topics
        self._groups = groups
        self._filters = filters
        self._live = live

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Register everything the client says about itself."""
        beat = HeartbeatData.decode_request(request.body)
        if len(beat.client_id) > CLIENT_ID_LENGTH_MAX:
            raise SystemFailure(
                f"a client id of {len(beat.client_id)} characters, at most {CLIENT_ID_LENGTH_MAX}"
            )
        self._clients.watch(connection)
        unknown = False
        for consumer in beat.consumer_data_set:
            if consumer.group_name:
                unknown |= self._register_consumer(request, beat, consumer, connection=connection)
        for producer in beat.producer_data_set:
            if producer.group_name:
                self._clients.producers.register(
                    connection,
                    beat.client_id,
                    producer.group_name,
                    language=request.language,
                    version=request.version,
                )
        # A client of heartbeat V2 leaves its subscriptions out until it is told to send them.
        is_sub_change = unknown if beat.heartbeat_fingerprint else True
        return request.reply(
            HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=is_sub_change)
        )

    def _register_consumer(
        self,
        request: Command,
        beat: HeartbeatData,
        consumer: ConsumerData,
        *,
        connection: Connection,
    ) -> bool:
        """True when the broker has no subscriptions of this group and needs them."""
        name = consumer.group_name
        auto_create = self._live.now.auto_create_group
        config = self._groups.find_or_create(name, auto_create=auto_create)
        if config is None:
            return False  # skipped in silence, as the original does
        consumers = self._clients.consumers
        if beat.without_sub:
            known = consumers.find(name)
            if known is None or not known.subscriptions:
                return True
            subscriptions = None
        else:
            subscriptions = consumer.subscription_data_set
            self._make_retry_topic(consumer, config.retry_queue_nums)
        changed = consumers.register(
            connection,
            beat.client_id,
            Membership(
                group=name,
                consume_type=consumer.consume_type,
                message_model=consumer.message_model,
                consume_from_where=consumer.consume_from_where,
                subscriptions=subscriptions,
            ),
            language=request.language,
            version=request.version,
        )
        if subscriptions is not None:
            self._filters.register(name, subscriptions)
        if changed:
            self._clients.announce(name)
        return False

    def _make_retry_topic(self, consumer: ConsumerData, queue_nums: int) -> None:
        topic = retry_topic(consumer.group_name)
        if queue_nums > 0 and self._topics.find(topic) is None:
            subscribed = consumer.subscription_data_set
            self._topics.create_internal(
                topic,
                queue_nums=queue_nums,
                sys_flag=UNIT_SUB_FLAG if consumer.unit_mode else 0,
                order=any(self._topics.is_order(s.topic) for s in subscribed),
            )


class UnregisterClient:
    """Request code 35."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def __call__(self, request: Command, connection: Connection) -> Command:
        """A client leaves its groups."""
        header = UnregisterClientRequest.from_fields(request.fields)
        clients = self._clients
        if header.producer_group:
            clients.producers.unregister(connection, header.producer_group)
        if header.consumer_group:
            group = header.consumer_group
            if clients.consumers.unregister(connection, header.client_id, group):
                clients.announce(group)
            clients.bury([group])
        return request.reply()


class CheckClientConfig:
    """Request code 46."""

    def __init__(self, filters: ConsumerFilters, live: LiveSettings) -> None:
        self._filters = filters
        self._live = live

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Whether a subscription could be served."""
        body = CheckClientRequest.decode_request(request.body)
        subscription = body.subscription_data
        if subscription is None or is_tag_type(subscription.expression_type):
            return request.reply()
        if not self._live.now.property_filter:
            raise SystemFailure(
                "The broker does not support consumer to filter message by "
                f"{subscription.expression_type}"
            )
        try:
            self._filters.compile(subscription.sub_string)
        except FilterError as error:
            raise SubscriptionParseFailed(str(error)) from error
        return request.reply()


class GetConsumerList:
    """Request code 38."""

    def __init__(self, consumers: ConsumerTable) -> None:
        self._consumers = consumers

    def __call__(self, request: Command, connection: Connection) -> Command:
        """The ids of the clients of a group."""
        header = GetConsumerListByGroupRequest.from_fields(request.fields)
        group = self._consumers.find(header.consumer_group)
        if group is None:
            raise SystemFailure(f"no consumer for this group, {header.consumer_group}")
        return request.reply(body=ConsumerListBody(consumer_id_list=group.client_ids()).encode())
