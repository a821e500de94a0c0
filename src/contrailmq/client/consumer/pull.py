"""The pull consumer: one pull at a time, offsets in the caller's hands."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import TracebackType

from contrailmq.client.broker_calls import BrokerCalls
from contrailmq.client.consumer.puller import Pulled, Puller, PullStatus, PullWish
from contrailmq.client.consumer.subscription import Expression, subscription
from contrailmq.client.crew import to_the_end
from contrailmq.client.message import Origin
from contrailmq.client.names import check_group, wrap
from contrailmq.client.session import Session
from contrailmq.client.settings import ClientSettings, World
from contrailmq.errors import ClientError, NoRoute
from contrailmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData
from contrailmq.protocol.queue import MessageQueue

_SLACK_S = 10.0

__all__ = ["PullConsumer", "PullStatus", "Pulled"]

log = logging.getLogger(__name__)


class PullConsumer:
    """Reads queues by offset; nothing happens in the background but heartbeats."""

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Sequence[str] | None = None,
        client: ClientSettings | None = None,
        world: World | None = None,
    ) -> None:
        check_group(group)
        client = client or ClientSettings()
        self._world = world or World()
        self.group = wrap(client.namespace, group)
        self._session = Session(
            f"pull consumer {group}",
            name_servers=name_servers,
            settings=client,
            world=self._world,
        )
        self._calls = BrokerCalls(self._session, self.group)
        self._puller = Puller(self._session, self.group)
        self._started = self._closed = False

    async def __aenter__(self) -> PullConsumer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Begin; brokers are contacted when a queue of theirs is read."""
        if self._started:
            raise ClientError("the consumer was started before; make a new one")
        self._started = True
        await self._session.start({}, beat=self._beat)

    async def aclose(self) -> None:
        """Leave the group and close."""
        if self._started and not self._closed:
            self._closed = True
            await to_the_end(self._session.aclose(consumer_group=self.group))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read."""
        self._check_open()
        found = await self._session.routes.subscribe(wrap(self._session.settings.namespace, topic))
        if found is None:
            raise NoRoute(
                f"topic {topic!r} does not exist at {self._session.name_servers}; create it first"
            )
        await self._session.introduce()
        return list(found)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        count: int = 32,
        expression: Expression = "*",
        wait_s: float = 0.0,
    ) -> Pulled:
        """Messages from an offset on; ``wait_s`` lets the broker wait for one to come.

        ``next_offset`` of the answer is where to go on, whatever its status. A message whose body
        cannot be opened says why in ``problem``.
        """
        self._check_open()
        if self._session.routes.find_reader(queue.broker_name) is None:
            await self._session.routes.subscribe(queue.topic)
        wish = PullWish(
            offset=max(offset, 0),  # brokers read a negative offset as "from the beginning"
            count=count,
            size=4 * 1024 * 1024,
            suspend_s=wait_s,
            timeout_s=wait_s + _SLACK_S,
            send_subscription=True,
        )
        wanted = subscription(queue.topic, expression, version_ms=self._world.clock.now_ms())
        origin = Origin(queue, self.group, self._session.settings.namespace)
        pulled = await self._puller.pull(queue, wish, origin=origin, subscription=wanted)
        for message in pulled.messages:
            if message.problem is not None:
                log.error(
                    "a message cannot be opened queue=%s offset=%s problem=%s",
                    queue, message.queue_offset, message.problem,
                )  # fmt: skip
        return pulled

    async def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """The offsets of the oldest and of the next message."""
        self._check_open()
        return await self._calls.min_offset(queue), await self._calls.max_offset(queue)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a moment."""
        self._check_open()
        return await self._calls.offset_at(queue, timestamp_ms)

    async def committed(self, queue: MessageQueue) -> int:
        """The group's stored offset; raises QueryNotFound when it has none."""
        self._check_open()
        return await self._calls.committed(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset and wait until it is kept."""
        self._check_open()
        await self._calls.commit(queue, offset, True)

    def _beat(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self._session.client_id,
            consumer_data_set=[
                ConsumerData(group_name=self.group, consume_type="CONSUME_ACTIVELY")
            ],
        )

    def _check_open(self) -> None:
        if not self._started:
            raise ClientError("the consumer is not started; use `async with`, or await start()")
        if self._closed:
            raise ClientError("the consumer is closed; make a new one")

    def __repr__(self) -> str:
        return f"<PullConsumer {self.group}>"
