"""The lite pull consumer: messages are pulled ahead in the background and fetched by ``poll``.

Either ``topics`` are given and the group divides the queues, or the caller takes queues with
``assign``.  What a poll returned counts as consumed at the next poll; that is also when
``async for`` counts it.  Offsets are committed every five seconds unless ``auto_commit`` is off.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterable, Sequence
from types import TracebackType

from contrailmq.client.allocate import Strategy, strategy_of
from contrailmq.client.broker_calls import BrokerCalls
from contrailmq.client.consumer.holdings import Holdings
from contrailmq.client.consumer.member import CLUSTERING, Member
from contrailmq.client.consumer.pull_loop import PullLoop
from contrailmq.client.consumer.puller import Puller
from contrailmq.client.consumer.queue_work import Inbox, QueueWork
from contrailmq.client.consumer.subscription import (
    Expression,
    Topics,
    start_position,
    subscription,
    subscriptions,
)
from contrailmq.client.crew import Crew, to_the_end
from contrailmq.client.message import ReceivedMessage
from contrailmq.client.names import check_group, wrap
from contrailmq.client.offset_store import RemoteOffsets
from contrailmq.client.session import Session
from contrailmq.client.settings import ClientSettings, ConsumerSettings, World
from contrailmq.errors import ClientError, NoRoute
from contrailmq.net.connection import Connection
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.queue import MessageQueue


class LitePullConsumer:
    """A consumer that is asked for messages."""

    def __init__(
        self,
        group: str,
        *,
        topics: Topics | None = None,
        name_servers: str | Sequence[str] | None = None,
        start_from: str | int | datetime.datetime = "last",
        auto_commit: bool = True,
        strategy: str | Strategy = "AVG",
        settings: ConsumerSettings | None = None,
        client: ClientSettings | None = None,
        world: World | None = None,
    ) -> None:
        check_group(group)
        client = client or ClientSettings()
        world = world or World()
        self._world = world
        self._settings = settings or ConsumerSettings()
        self._auto_commit = auto_commit
        self.group = wrap(client.namespace, group)
        self._divides = topics is not None
        self._subscriptions = (
            subscriptions(topics, namespace=client.namespace, version_ms=world.clock.now_ms())
            if topics is not None
            else {}
        )
        self._session = Session(
            f"lite consumer {group}", name_servers=name_servers, settings=client, world=world
        )
        self._crew = Crew(f"lite consumer {group}")
        self._calls = BrokerCalls(self._session, self.group)
        puller = Puller(self._session, self.group)
        self._inbox = Inbox(ordered=False)
        self._holdings = Holdings(
            self._crew,
            puller,
            group=self.group,
            namespace=client.namespace,
            subscriptions=self._subscriptions,
        )
        self._pulls = PullLoop(
            self._session,
            puller,
            self._inbox,
            self._settings,
            ordered=False,
            commits=False,
            on_moved=self._holdings.move,
            lite=True,
        )
        self._offsets = RemoteOffsets(fetch=self._calls.committed, commit=self._calls.commit)
        self._member = Member(
            self._session,
            self.group,
            subscriptions=self._subscriptions,
            settings=self._settings,
            strategy=strategy_of(strategy),
            start=start_position(start_from),
            model=CLUSTERING,
            consume_type="CONSUME_ACTIVELY",
            calls=self._calls,
        )
        self._polled: list[ReceivedMessage] = []
        self._started = self._closed = False

    async def __aenter__(self) -> LitePullConsumer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose(error=error)

    async def start(self) -> None:
        """Begin; with topics, join the group."""
        if self._started:
            raise ClientError("the consumer was started before; make a new one")
        self._started = True
        self._holdings.attach(self._pulls, self._offsets)
        self._member.attach(self, self._offsets)
        try:
            await self._session.start(
                {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed},
                beat=self._member.heartbeat,
            )
            if self._divides:
                await self._member.join()
                self._crew.start(self._member.run(), name="rebalance")
            if self._auto_commit:
                self._crew.start(self._keep_committing(), name="offsets")
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self, *, error: BaseException | None = None) -> None:
        """Commit (if automatic, and counting the last poll unless there was an error) and leave."""
        if not self._started or self._closed:
            return
        self._closed = True
        if error is None:
            self._settle_polled()
        await to_the_end(self._close())

    async def _close(self) -> None:
        self._inbox.close()
        await self._crew.aclose()
        if self._auto_commit:
            await self._holdings.commit(confirmed=True)
        await self._session.aclose(consumer_group=self.group)

    # -- messages

    async def poll(
        self, timeout_s: float = 5.0, *, count: int | None = None
    ) -> list[ReceivedMessage]:
        """Up to ``count`` messages of one queue, or none within the timeout.

        What the poll before returned counts as consumed now.
        """
        self._check_open()
        self._settle_polled()
        count = count or self._settings.poll_batch
        taken = self._inbox.take(count)
        if not taken and timeout_s > 0:
            try:
                async with asyncio.timeout(timeout_s):
                    while not taken and not self._inbox.closed:
                        await self._inbox.wait()
                        taken = self._inbox.take(count)
            except TimeoutError:
                self._crew.check()
                return []
        self._polled = taken
        return taken

    def __aiter__(self) -> LitePullConsumer:
        return self

    async def __anext__(self) -> ReceivedMessage:
        """The next message, waiting for it as long as need be."""
        self._check_open()
        self._settle_polled()
        taken = self._inbox.take(1)
        while not taken:
            if self._inbox.closed:
                raise StopAsyncIteration
            await self._inbox.wait()
            self._crew.check()
            taken = self._inbox.take(1)
        self._polled = taken
        return taken[0]

    # -- queues and offsets

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read."""
        self._check_open()
        name = wrap(self._session.settings.namespace, topic)
        found = await self._session.routes.subscribe(name)
        if found is None:
            raise NoRoute(
                f"topic {topic!r} does not exist at {self._session.name_servers}; create it first"
            )
        return list(found)

    async def assign(self, queues: Iterable[MessageQueue], *, expression: Expression = "*") -> None:
        """Take exactly these queues, without the group's consent; instead of ``topics``."""
        self._check_open()
        if self._divides:
            raise ClientError("the group divides the queues of this consumer; leave out topics")
        wanted = list(dict.fromkeys(queues))
        now_ms = self._world.clock.now_ms()
        for topic in {queue.topic for queue in wanted}:
            self._subscriptions[topic] = subscription(topic, expression, version_ms=now_ms)
            await self._session.routes.subscribe(topic)
        await self._session.heartbeat()
        for queue in [queue for queue in self._holdings.works if queue not in wanted]:
            await self.revoke(queue)
        for queue in wanted:
            if queue not in self._holdings.works:
                self._holdings.hold(queue, await self._member.start_offset(queue))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now."""
        return sorted(self._holdings.works)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset; what is pulled and not polled is forgotten."""
        work = self._held(queue)
        low, high = await self.bounds(queue)
        if not low <= offset <= high:
            raise ClientError(f"offset {offset} is outside of {queue}: {low} to {high}")
        await self._holdings.move(work, offset)

    async def seek_to_first(self, queue: MessageQueue) -> None:
        """Go on at the oldest message."""
        await self._holdings.move(self._held(queue), await self._calls.min_offset(queue))

    async def seek_to_last(self, queue: MessageQueue) -> None:
        """Go on at the next message that comes."""
        await self._holdings.move(self._held(queue), await self._calls.max_offset(queue))

    async def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """The offsets of the oldest and of the next message."""
        self._check_open()
        return await self._calls.min_offset(queue), await self._calls.max_offset(queue)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at or after a moment."""
        self._check_open()
        return await self._calls.offset_at(queue, timestamp_ms)

    def position(self, queue: MessageQueue) -> int:
        """The offset of the first message not consumed."""
        return self._held(queue).cache.commit_offset()

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Neither pull nor hand out these queues until resumed."""
        for queue in queues:
            self._held(queue).paused = True

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on with paused queues."""
        for queue in queues:
            work = self._held(queue)
            work.paused = False
            work.room.set()
            self._inbox.offer(work)

    async def commit(self) -> None:
        """Store the offsets of what was polled and is consumed, and wait until they are kept."""
        self._check_open()
        await self._holdings.commit(confirmed=True)

    async def committed(self, queue: MessageQueue) -> int:
        """The group's stored offset; raises QueryNotFound when it has none."""
        self._check_open()
        return await self._calls.committed(queue)

    @property
    def client_id(self) -> str:
        """How brokers and the other members know this consumer."""
        return self._session.client_id

    # -- Owner: queues come and go by the group's division

    async def acquire(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """All of them."""
        return queues

    async def revoke(self, queue: MessageQueue) -> None:
        """Stop pulling a queue; commit it if that is automatic."""
        work = self._holdings.drop(queue)
        if work is not None and self._auto_commit:
            await self._holdings.commit_last(work)

    async def take(self, queue: MessageQueue, offset: int) -> None:
        """A queue is ours from this offset on."""
        self._holdings.hold(queue, offset)

    async def report_progress(self) -> None:
        """Commit, if that is automatic."""
        if self._auto_commit:
            await self._holdings.commit()

    # -- inside

    def _settle_polled(self) -> None:
        if self._polled:
            work = self._polled[0].origin
            assert isinstance(work, QueueWork)
            work.settle_all(self._polled, self._settings)
            self._polled = []

    async def _keep_committing(self) -> None:
        while True:
            await asyncio.sleep(self._settings.commit_interval_s)
            await self.report_progress()

    def _members_changed(self, request: Command, connection: Connection) -> None:
        self._member.wake()

    def _held(self, queue: MessageQueue) -> QueueWork:
        self._check_open()
        work = self._holdings.works.get(queue)
        if work is None:
            raise ClientError(f"{queue} is not assigned to this consumer")
        return work

    def _check_open(self) -> None:
        if not self._started:
            raise ClientError("the consumer is not started; use `async with`, or await start()")
        if self._closed:
            raise ClientError("the consumer is closed; make a new one")
        self._crew.check()

    def __repr__(self) -> str:
        return f"<LitePullConsumer {self.group} queues={len(self._holdings.works)}>"
