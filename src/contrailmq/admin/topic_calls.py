"""Calls about topics."""

from __future__ import annotations

from contrailmq.admin.caller import AdminCaller
from contrailmq.admin.names_calls import ORDER_TOPIC_CONFIG, NameServerCalls
from contrailmq.admin.pages import PAGE, Page, read_pages
from contrailmq.errors import ClientError, CodeNotSupported, TopicNotExist
from contrailmq.protocol.bodies.group import GroupList
from contrailmq.protocol.bodies.stats import TopicOffset, TopicStatsTable
from contrailmq.protocol.bodies.topic import TopicConfig, TopicConfigWrapper, TopicList
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.headers.query import QueryTopicConsumeByWhoRequest
from contrailmq.protocol.headers.route import (
    DeleteTopicFromNamesrvRequest,
    GetTopicsByClusterRequest,
)
from contrailmq.protocol.headers.topic import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetAllTopicConfigRequest,
    GetAllTopicConfigResponse,
    GetTopicConfigRequest,
    GetTopicStatsInfoRequest,
)
from contrailmq.protocol.queue import MessageQueue


class TopicCalls:
    """Calls about topics, to name servers and brokers."""

    def __init__(self, caller: AdminCaller, names: NameServerCalls) -> None:
        self._caller = caller
        self._names = names

    async def names(self) -> list[str]:
        """All topics there are, sorted."""
        answer = await self._caller.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(TopicList.decode(answer.body).topic_list)

    async def of_cluster(self, cluster: str) -> list[str]:
        """The topics of one cluster, sorted."""
        header = GetTopicsByClusterRequest(cluster=cluster)
        answer = await self._caller.ask_name_server(RequestCode.GET_TOPICS_BY_CLUSTER, header)
        return sorted(TopicList.decode(answer.body).topic_list)

    async def system(self) -> list[str]:
        """What the name server counts as system topics: clusters and brokers."""
        answer = await self._caller.ask_name_server(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        return sorted(TopicList.decode(answer.body).topic_list)

    async def system_at(self, address: str) -> list[str]:
        """The topics a broker made for itself."""
        answer = await self._caller.ask(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        return sorted(TopicList.decode(answer.body).topic_list)

    async def configs(self, address: str) -> dict[str, TopicConfig]:
        """Every topic of one broker."""

        async def ask(start: int, seen: str) -> Page[TopicConfig]:
            header = GetAllTopicConfigRequest(
                topic_seq=start, data_version=seen, max_topic_num=PAGE
            )
            answer = await self._caller.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG, header)
            total = GetAllTopicConfigResponse.from_fields(answer.fields).total_topic_num
            found = TopicConfigWrapper.decode(answer.body)
            return Page(found.data_version, found.topic_config_table, total)

        return await read_pages(ask)

    async def config(self, address: str, topic: str) -> TopicConfig:
        """One topic of one broker; raises TopicNotExist."""
        header = GetTopicConfigRequest(topic=topic)
        try:
            answer = await self._caller.ask(address, RequestCode.GET_TOPIC_CONFIG, header)
        except CodeNotSupported:  # 4.9
            found = (await self.configs(address)).get(topic)
            if found is None:
                raise TopicNotExist(f"{address} has no topic [{topic}]") from None
            return found
        return TopicConfig.decode(answer.body)

    async def create_at(
        self, address: str, config: TopicConfig, *, attributes: str | None = None
    ) -> None:
        """Create or change a topic at one broker; ``attributes`` are ``+key=value,-key``."""
        if attributes is None and config.attributes:
            attributes = ",".join(f"+{name}={value}" for name, value in config.attributes.items())
        header = CreateTopicRequest(
            topic=config.topic_name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=bool(config.order),
            attributes=attributes,
        )
        await self._caller.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def create(
        self, topic: str | TopicConfig, *, queues: int = 8, cluster: str | None = None
    ) -> dict[str, str]:
        """Create or update a topic on all masters of a cluster, or of every cluster.

        A name gets ``queues`` queues on each broker. Returns the brokers' addresses by name.
        """
        config = (
            TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
            if isinstance(topic, str)
            else topic
        )
        masters = await self._caller.masters(cluster)
        for address in masters.values():
            await self.create_at(address, config)
        return masters

    async def delete_at(self, address: str, topic: str) -> None:
        """Delete a topic at one broker; name servers keep its route until the next registration."""
        header = DeleteTopicRequest(topic=topic)
        await self._caller.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, header)

    async def delete(self, topic: str, *, cluster: str | None = None) -> dict[str, str]:
        """Delete a topic at every master of a cluster, or of all, and its routes."""
        masters = await self._caller.masters(cluster)
        for address in masters.values():
            await self.delete_at(address, topic)
        header = DeleteTopicFromNamesrvRequest(topic=topic, cluster_name=cluster)
        await self._caller.ask_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)
        return masters

    async def stats_at(self, address: str, topic: str) -> TopicStatsTable:
        """Bounds and last write of a topic's queues at one broker."""
        header = GetTopicStatsInfoRequest(topic=topic)
        answer = await self._caller.ask(address, RequestCode.GET_TOPIC_STATS_INFO, header)
        return TopicStatsTable.decode(answer.body)

    async def stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """Bounds and last write of every queue of a topic, sorted by queue."""
        found: dict[MessageQueue, TopicOffset] = {}
        for address in (await self._caller.masters_of(topic)).values():
            found.update((await self.stats_at(address, topic)).offset_table)
        return dict(sorted(found.items()))

    async def clusters(self, topic: str) -> list[str]:
        """The clusters that have a topic."""
        return sorted({data.cluster for data in (await self._caller.route(topic)).broker_datas})

    async def groups(self, topic: str) -> list[str]:
        """The groups that consume a topic: connected ones and ones with offsets in it."""
        header = QueryTopicConsumeByWhoRequest(topic=topic)
        groups: set[str] = set()
        for address in (await self._caller.masters_of(topic)).values():
            answer = await self._caller.ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
            groups.update(GroupList.decode(answer.body).group_list)
        return sorted(groups)

    async def order_conf(self, topic: str) -> str | None:
        """The order configuration of a topic, ``broker:queues;broker:queues``."""
        return await self._names.kv_get(ORDER_TOPIC_CONFIG, topic)

    async def put_order_conf(self, topic: str, text: str) -> None:
        """Set the order configuration of a topic."""
        for part in filter(None, text.split(";")):
            name, _, queues = part.rpartition(":")
            if not name or not queues.isdecimal():
                raise ClientError(f"order configuration {part!r}: expected broker:queues")
        await self._names.kv_put(ORDER_TOPIC_CONFIG, topic, text)

    async def delete_order_conf(self, topic: str) -> None:
        """Remove the order configuration of a topic."""
        await self._names.kv_delete(ORDER_TOPIC_CONFIG, topic)
