"""Calls about subscription groups: what they may do, and who is connected."""

from __future__ import annotations

import logging

from contrailmq.admin.caller import AdminCaller
from contrailmq.admin.pages import PAGE, Page, read_pages
from contrailmq.errors import (
    CodeNotSupported,
    ConsumerNotOnline,
    NetworkError,
    NoRoute,
    SubscriptionGroupNotExist,
    SystemFailure,
)
from contrailmq.protocol.bodies.clients import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from contrailmq.protocol.bodies.group import (
    GroupForbidden,
    QuerySubscriptionResponse,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from contrailmq.protocol.bodies.queues import SetMessageRequestModeRequest
from contrailmq.protocol.bodies.topic import TopicList
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.headers.admin import (
    GetConsumerConnectionListRequest,
    GetProducerConnectionListRequest,
)
from contrailmq.protocol.headers.client import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
)
from contrailmq.protocol.headers.group import (
    DeleteSubscriptionGroupRequest,
    GetAllSubscriptionGroupRequest,
    GetAllSubscriptionGroupResponse,
    GetSubscriptionGroupConfigRequest,
    UpdateGroupForbiddenRequest,
)
from contrailmq.protocol.headers.query import (
    QuerySubscriptionByConsumerRequest,
    QueryTopicsByConsumerRequest,
)
from contrailmq.protocol.names import retry_topic

CLIENT_ANSWER_S = 12.0  # the broker waits ten seconds for a client

log = logging.getLogger(__name__)


class GroupCalls:
    """Calls about groups and their clients."""

    def __init__(self, caller: AdminCaller) -> None:
        self._caller = caller

    async def configs(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        """Every group of one broker."""

        async def ask(start: int, seen: str) -> Page[SubscriptionGroupConfig]:
            header = GetAllSubscriptionGroupRequest(
                group_seq=start, data_version=seen, max_group_num=PAGE
            )
            answer = await self._caller.ask(
                address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header
            )
            total = GetAllSubscriptionGroupResponse.from_fields(answer.fields).total_group_num
            found = SubscriptionGroupWrapper.decode(answer.body)
            return Page(found.data_version, found.subscription_group_table, total)

        return await read_pages(ask)

    async def names(self, cluster: str | None = None) -> list[str]:
        """The names of all groups of a cluster, or of all, sorted."""
        names: set[str] = set()
        for configs in (await self._caller.ask_masters(self.configs, cluster)).values():
            names.update(configs)
        return sorted(names)

    async def config(self, address: str, group: str) -> SubscriptionGroupConfig:
        """One group of one broker; raises SubscriptionGroupNotExist."""
        header = GetSubscriptionGroupConfigRequest(group=group)
        try:
            answer = await self._caller.ask(
                address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header
            )
        except CodeNotSupported:  # 4.9
            found = (await self.configs(address)).get(group)
            if found is None:
                raise SubscriptionGroupNotExist(f"{address} has no group [{group}]") from None
            return found
        except SystemFailure as error:  # 5.2
            raise SubscriptionGroupNotExist(error.remark) from error
        return SubscriptionGroupConfig.decode(answer.body)

    async def create_at(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Create or change a group at one broker."""
        await self._caller.ask(
            address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode()
        )

    async def create(
        self, group: str | SubscriptionGroupConfig, *, cluster: str | None = None
    ) -> dict[str, str]:
        """Create or update a group on all masters of a cluster, or of every cluster.

        Returns the brokers' addresses by name.
        """
        config = SubscriptionGroupConfig(group_name=group) if isinstance(group, str) else group
        masters = await self._caller.masters(cluster)
        for address in masters.values():
            await self.create_at(address, config)
        return masters

    async def delete_at(self, address: str, group: str, *, offsets: bool = False) -> None:
        """Delete a group at one broker, with its offsets if that is asked for."""
        header = DeleteSubscriptionGroupRequest(
            group_name=group, clean_offset=offsets, remove_offset=offsets
        )
        await self._caller.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def forbidden(
        self, address: str, group: str, topic: str, *, readable: bool | None = None
    ) -> bool:
        """Whether a group may read a topic, after setting it unless ``readable`` is None."""
        header = UpdateGroupForbiddenRequest(group=group, topic=topic, readable=readable)
        answer = await self._caller.ask(address, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
        return GroupForbidden.decode(answer.body).readable is not False

    async def set_consume_mode(
        self, address: str, group: str, topic: str, *, mode: str, pop_share_queues: int = 0
    ) -> None:
        """Let a group PULL or POP a topic."""
        body = SetMessageRequestModeRequest(
            consumer_group=group, topic=topic, mode=mode, pop_share_queue_num=pop_share_queues
        )
        await self._caller.ask(address, RequestCode.SET_MESSAGE_REQUEST_MODE, body=body.encode())

    async def addresses(self, group: str) -> list[str]:
        """The brokers that know a group, by the route of its retry topic; all, if none does."""
        try:
            return list((await self._caller.masters_of(retry_topic(group))).values())
        except NoRoute:
            return list((await self._caller.masters()).values())

    async def connection_at(self, address: str, group: str) -> ConsumerConnection:
        """The clients of a consumer group at one broker; raises ConsumerNotOnline."""
        header = GetConsumerConnectionListRequest(consumer_group=group)
        answer = await self._caller.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        return ConsumerConnection.decode(answer.body)

    async def connection(self, group: str) -> ConsumerConnection:
        """The clients of a consumer group; raises ConsumerNotOnline when there are none."""
        last = ConsumerNotOnline(f"no client of the group [{group}] is connected")
        for address in await self.addresses(group):
            try:
                return await self.connection_at(address, group)
            except ConsumerNotOnline as error:
                last = error
            except NetworkError as error:
                log.warning("broker %s does not answer and is left out: %s", address, error)
        raise last

    async def producer_connection(self, group: str, topic: str) -> ProducerConnection:
        """The clients of a producer group at the brokers of a topic."""
        header = GetProducerConnectionListRequest(producer_group=group)
        last: SystemFailure | None = None
        for address in (await self._caller.masters_of(topic)).values():
            try:
                code = RequestCode.GET_PRODUCER_CONNECTION_LIST
                answer = await self._caller.ask(address, code, header)
            except SystemFailure as error:
                last = error
                continue
            return ProducerConnection.decode(answer.body)
        raise last or SystemFailure(f"the producer group[{group}] not exist")

    async def producers(self, address: str) -> dict[str, list[ProducerInfo]]:
        """All producer groups of one broker."""
        answer = await self._caller.ask(address, RequestCode.GET_ALL_PRODUCER_INFO)
        return ProducerTableInfo.decode(answer.body).data

    async def running_info(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> ConsumerRunningInfo:
        """The inside of a running consumer, asked for through a broker."""
        header = GetConsumerRunningInfoRequest(
            consumer_group=group, client_id=client_id, jstack_enable=stacks
        )
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        last: SystemFailure | None = None
        for address in await self.addresses(group):
            try:
                answer = await self._caller.ask(address, code, header, timeout_s=CLIENT_ANSWER_S)
            except SystemFailure as error:
                last = error
                continue
            return ConsumerRunningInfo.decode(answer.body)
        raise last or SystemFailure(f"no broker knows the group [{group}]")

    async def consume_directly(
        self, address: str, group: str, *, client_id: str, topic: str, message_id: str
    ) -> ConsumeMessageDirectlyResult:
        """Let one client consume one message of this broker now, by its offset id."""
        header = ConsumeMessageDirectlyRequest(
            consumer_group=group, client_id=client_id, msg_id=message_id, topic=topic
        )
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        answer = await self._caller.ask(address, code, header, timeout_s=CLIENT_ANSWER_S)
        return ConsumeMessageDirectlyResult.decode(answer.body)

    async def topics(self, group: str) -> list[str]:
        """The topics a group has consumed."""
        header = QueryTopicsByConsumerRequest(group=group)
        topics: set[str] = set()
        for address in await self.addresses(group):
            answer = await self._caller.ask(address, RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
            topics.update(TopicList.decode(answer.body).topic_list)
        return sorted(topics)

    async def subscription(self, address: str, group: str, topic: str) -> QuerySubscriptionResponse:
        """What a group subscribes to in a topic, at one broker."""
        header = QuerySubscriptionByConsumerRequest(group=group, topic=topic)
        code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
        return QuerySubscriptionResponse.decode(
            (await self._caller.ask(address, code, header)).body
        )
