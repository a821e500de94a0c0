"""What the consumers that pop have in common: topics, brokers, and a place in the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contrailmq.client.consumer.member import CLUSTERING
from contrailmq.client.consumer.pops import PoppedMessage, Pops, pop_queues
from contrailmq.client.consumer.subscription import Topics, start_position, subscriptions
from contrailmq.client.names import check_group, wrap
from contrailmq.client.session import Session
from contrailmq.client.settings import ClientSettings, World
from contrailmq.errors import ClientError, NoRoute
from contrailmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData
from contrailmq.protocol.queue import MessageQueue

_PASSIVE: Final = "CONSUME_PASSIVELY"


class PopMember:
    """One member of a group whose members share all queues."""

    def __init__(
        self,
        group: str,
        topics: Topics,
        *,
        name_servers: str | Sequence[str] | None,
        endpoints: str | Sequence[str] | None,
        start_from: str,
        client: ClientSettings | None,
        world: World | None,
        kind: type[PoppedMessage],
    ) -> None:
        check_group(group)
        start = start_position(start_from)
        if start.word not in ("first", "last"):
            raise ClientError(f"start_from is {start_from!r}; who pops gives 'first' or 'last'")
        client, world = client or ClientSettings(), world or World()
        self.group = wrap(client.namespace, group)
        self.start = start
        self.subscriptions = subscriptions(
            topics, namespace=client.namespace, version_ms=world.clock.now_ms()
        )
        self.session = Session(
            f"pop consumer {group}",
            name_servers=name_servers,
            settings=client,
            world=world,
            endpoints=endpoints,
        )
        self.pops = Pops(
            self.session,
            self.group,
            namespace=client.namespace,
            from_first=start.word == "first",
            kind=kind,
        )

    async def join(self) -> None:
        """Find the routes and be known at the brokers."""
        await self.session.start({}, beat=self._heartbeat)
        for topic in self.subscriptions:
            await self.session.routes.subscribe(topic)
        await self.session.heartbeat()

    async def leave(self) -> None:
        """Leave the group and close the connections."""
        await self.session.aclose(consumer_group=self.group)

    async def queues(self) -> list[MessageQueue]:
        """What can be popped now; raises NoRoute when no topic has a broker."""
        found = [queue for topic in self.subscriptions for queue in pop_queues(self.session, topic)]
        if found:
            return found
        for topic in self.subscriptions:
            if await self.session.routes.refresh(topic):
                await self.session.introduce()
                found += pop_queues(self.session, topic)
        if not found:
            raise NoRoute(
                f"no name server knows a broker for {', '.join(self.subscriptions)}; "
                "create the topic, or send a message to it first"
            )
        return found

    def _heartbeat(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self.session.client_id,
            consumer_data_set=[
                ConsumerData(
                    consume_from_where=self.start.wire_name,
                    consume_type=_PASSIVE,
                    group_name=self.group,
                    message_model=CLUSTERING,
                    subscription_data_set=list(self.subscriptions.values()),
                )
            ],
        )
