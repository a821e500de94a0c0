"""The parts of a push consumer put together, and its life: start, rebalance, close.

``Engine`` owns every task of the consumer.  It is what the group's member hands queues to
(``Owner``), and what the broker's questions are answered from.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contrailmq.client.allocate import Strategy
from contrailmq.client.broker_calls import BrokerCalls
from contrailmq.client.consumer.delivery import BatchHandler, Workers
from contrailmq.client.consumer.holdings import Holdings
from contrailmq.client.consumer.inspection import Inspection
from contrailmq.client.consumer.locks import Locks
from contrailmq.client.consumer.loops import Lists, Loop, OneOfList, Singles
from contrailmq.client.consumer.member import BROADCASTING, CLUSTERING, Member
from contrailmq.client.consumer.mismatch import Mismatch
from contrailmq.client.consumer.pull_loop import PullLoop
from contrailmq.client.consumer.puller import Puller
from contrailmq.client.consumer.queue_work import Inbox, QueueWork
from contrailmq.client.consumer.send_back import SendBack
from contrailmq.client.consumer.settling import Settling
from contrailmq.client.consumer.subscription import StartPosition
from contrailmq.client.consumer.trace import ConsumerTrace
from contrailmq.client.crew import Crew, to_the_end
from contrailmq.client.message import ReceivedMessage
from contrailmq.client.offset_store import LocalOffsets, OffsetStore, RemoteOffsets
from contrailmq.client.producer.sender import Sender
from contrailmq.client.session import Session, wait_event
from contrailmq.client.settings import ClientSettings, ConsumerSettings, ProducerSettings, World
from contrailmq.errors import ClientError
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.names import CLIENT_INNER_PRODUCER_GROUP, retry_topic
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)

_ORDERED_DRAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What kind of push consumer is wanted."""

    group: str
    subscriptions: dict[str, SubscriptionData]
    start: StartPosition
    strategy: Strategy
    ordered: bool
    broadcast: bool
    handler: BatchHandler | None
    workers: int
    batch: int


class Engine:
    """A running push consumer without its public face."""

    def __init__(
        self,
        shape: Shape,
        *,
        name_servers: str | Sequence[str] | None,
        settings: ConsumerSettings,
        client: ClientSettings,
        world: World,
    ) -> None:
        self._shape = shape
        self._settings = settings
        self._session = Session(
            f"consumer {shape.group}",
            name_servers=name_servers,
            settings=client,
            world=world,
            stable_id=shape.broadcast,
        )
        if not shape.broadcast:
            topic = retry_topic(shape.group)
            shape.subscriptions[topic] = SubscriptionData(
                topic=topic, sub_string="*", sub_version=world.clock.now_ms()
            )
        name = f"consumer {shape.group}"
        self._crew = Crew(name)  # pulls, rebalance, commits
        self._hands = Crew(name)  # handlers
        self._errands = Crew(name)  # messages on their way back
        self._inbox = Inbox(ordered=shape.ordered)
        self._calls = BrokerCalls(self._session, shape.group)
        self._puller = Puller(self._session, shape.group)
        self._holdings = Holdings(
            self._crew,
            self._puller,
            group=shape.group,
            namespace=client.namespace,
            subscriptions=shape.subscriptions,
        )
        self._locks = Locks(self._calls, life_s=settings.lock_life_s)
        self._pulls = PullLoop(
            self._session,
            self._puller,
            self._inbox,
            settings,
            ordered=shape.ordered,
            commits=not shape.broadcast,
            on_moved=self._holdings.move,
        )
        self._member = Member(
            self._session,
            shape.group,
            subscriptions=shape.subscriptions,
            settings=settings,
            strategy=shape.strategy,
            start=shape.start,
            model=BROADCASTING if shape.broadcast else CLUSTERING,
            consume_type="CONSUME_PASSIVELY",
            calls=self._calls,
        )
        self._handing: dict[MessageQueue, QueueWork] = {}  # ordered queues on their way to others
        self._started = self._closed = False
        self._stopped = asyncio.Event()
        self.settling: Settling | None = None
        self._now: Callable[[], float] = lambda: 0.0  # the loop's, once there is one

    @property
    def client_id(self) -> str:
        """How brokers know this consumer."""
        return self._session.client_id

    async def start(self, *, loops: Sequence[Loop[Any]]) -> None:
        """Join the group; ``loops`` will be those whose messages can expire."""
        if self._started:
            raise ClientError("the consumer was started before; make a new one")
        self._started = True
        self._now = asyncio.get_running_loop().time
        shape, settings = self._shape, self._settings
        sender = Sender(self._session, CLIENT_INNER_PRODUCER_GROUP, ProducerSettings())
        send_back = SendBack(
            self._session,
            shape.group,
            calls=self._calls,
            sender=sender,
            retries_max=settings.retries_max,
        )
        if not shape.broadcast:
            self._pulls.bury = send_back.bury
        self.settling = Settling(
            self._inbox,
            settings,
            errands=self._errands,
            send_back=send_back,
            ordered=shape.ordered,
            broadcast=shape.broadcast,
            clock=self._session.world.clock,
        )
        workers = self._make_workers()
        inspection = Inspection(
            self, shape, self._session, settings=settings, workers=workers, wake=self._member.wake
        )
        await self._session.start(inspection.handlers(), beat=self._member.heartbeat)
        if settings.trace_topic is not None:
            trace = ConsumerTrace(self._session, shape.group, settings.trace_topic)
            self.settling.trace = trace
            trace.start()
        offsets = self._make_offsets()
        self._holdings.attach(self._pulls, offsets)
        self._member.attach(self, offsets)
        if workers is not None:
            workers.start(self._hands)
        await self._member.join()
        self._crew.start(self._member.run(), name="rebalance")
        self._crew.start(self._keep_committing(), name="offsets")
        self._crew.start(self._watch_hands(loops), name="consume timeout")
        if shape.ordered and not shape.broadcast:
            self._crew.start(self._keep_locks(), name="locks")

    async def aclose(self) -> None:
        """Stop pulling, drain, commit, unlock, leave."""
        if not self._closed:
            self._closed = True
            await to_the_end(self._close())

    async def _close(self) -> None:
        self._inbox.close()
        await self._crew.aclose()
        await self._hands.aclose(drain_s=self._settings.close_timeout_s)
        await self._errands.aclose(drain_s=self._settings.close_timeout_s)
        await self._holdings.commit(confirmed=True)
        if self._shape.ordered and not self._shape.broadcast:
            # Those on their way to another member, too: it waits for the lock.
            await self._locks.release(list({**self._handing, **self._holdings.works}))
        for work in self._holdings.works.values():
            work.dropped = True
        if self.settling is not None and self.settling.trace is not None:
            await self.settling.trace.aclose()
        await self._session.aclose(consumer_group=self._shape.group)
        self._stopped.set()

    def singles(self) -> Loop[ReceivedMessage]:
        """A new loop over single messages."""
        settling = self._open()
        kind = Singles if settling.is_plain else OneOfList
        return kind(self._inbox, settling, crew=self._crew, now=self._now)

    def lists(self, count: int) -> Loop[list[ReceivedMessage]]:
        """A new loop over lists of messages."""
        return Lists(self._inbox, self._open(), crew=self._crew, now=self._now, count=count)

    async def stopped(self) -> None:
        """Wait until the consumer is closed; raises the failure of one of its tasks."""
        while not self._stopped.is_set():
            self._crew.check()
            self._hands.check()
            try:
                async with asyncio.timeout(1.0):
                    await self._stopped.wait()
            except TimeoutError:
                continue

    def pause(self) -> None:
        """Stop pulling."""
        self._pulls.open.clear()

    def resume(self) -> None:
        """Pull again."""
        self._pulls.open.set()

    async def commit(self, *, confirmed: bool = False) -> None:
        """Store the offsets of all queues."""
        await self._holdings.commit(confirmed=confirmed)

    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now, without those of the retry topic."""
        retry = retry_topic(self._shape.group)
        return sorted(queue for queue in self._holdings.works if queue.topic != retry)

    async def wait_assigned(self) -> None:
        """Wait for the end of the first round that gave us queues."""
        await self._member.has_queues.wait()

    def works(self) -> dict[MessageQueue, QueueWork]:
        """All queues that are ours, with what is going on with them."""
        return self._holdings.works

    def mismatches(self) -> list[Mismatch]:
        """What the members of the group disagree on."""
        return self._member.mismatches.found

    async def reset(self, offsets: dict[MessageQueue, int]) -> None:
        """Go on at other offsets in the queues that are ours."""
        await self._holdings.reset(offsets)

    # -- Owner: queues come and go

    async def acquire(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """All of them, or for ordered consumption those that could be locked."""
        if not self._shape.ordered or self._shape.broadcast:
            return queues
        return await self._locks.acquire(queues)

    async def take(self, queue: MessageQueue, offset: int) -> None:
        """Begin to pull a queue."""
        self._locks.stamp(self._holdings.hold(queue, offset))

    async def revoke(self, queue: MessageQueue) -> None:
        """Stop pulling, commit, and let the queue go."""
        work = self._holdings.drop(queue)
        if work is None:
            return
        if self._shape.ordered and not self._shape.broadcast:
            # Handing it over before the message in hand is done would break the order.
            self._handing[queue] = work
            self._errands.spawn(self._hand_over(work), name=f"hand over {queue}")
        else:
            await self._holdings.commit_last(work)

    async def report_progress(self) -> None:
        """Commit, without waiting for answers."""
        await self._holdings.commit()

    # -- inside

    async def _hand_over(self, work: QueueWork) -> None:
        queue = work.queue
        try:
            await wait_event(work.idle, _ORDERED_DRAIN_S)
            if queue in self._holdings.works:
                return  # it came back to us meanwhile
            await self._holdings.commit_last(work)
            if queue not in self._holdings.works:
                await self._locks.release([queue])
        finally:
            if self._handing.get(queue) is work and not self._closed:
                del self._handing[queue]

    async def _keep_committing(self) -> None:
        while True:
            await asyncio.sleep(self._settings.commit_interval_s)
            await self.report_progress()

    async def _keep_locks(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lock_interval_s)
            for work in await self._locks.renew(list(self._holdings.works.values())):
                log.warning("lock lost, the queue is given up queue=%s", work.queue)
                self._holdings.drop(work.queue)
                self._member.assigned.pop(work.queue, None)
                self._member.wake()

    async def _watch_hands(self, loops: Sequence[Loop[Any]]) -> None:
        limit_s = self._settings.consume_timeout_s
        while True:
            await asyncio.sleep(min(limit_s, 60.0))
            for loop in () if self._shape.ordered else loops:
                since = loop.held_since()
                if since is not None and self._now() - since > limit_s:
                    for message in loop.release():
                        self._open().expired(message)

    def _open(self) -> Settling:
        if self.settling is None:
            raise ClientError("the consumer is not started; use `async with`, or await start()")
        return self.settling

    def _make_workers(self) -> Workers | None:
        if self._shape.handler is None:
            return None
        assert self.settling is not None
        return Workers(
            self._inbox,
            self.settling,
            handler=self._shape.handler,
            count=self._shape.workers,
            batch=self._shape.batch,
            timeout_s=self._settings.consume_timeout_s,
        )

    def _make_offsets(self) -> OffsetStore:
        if not self._shape.broadcast:
            return RemoteOffsets(fetch=self._calls.committed, commit=self._calls.commit)
        directory = self._settings.offset_directory
        return LocalOffsets(
            pathlib.Path(directory) if directory is not None else None,
            client_id=self._session.client_id,
            group=self._shape.group,
        )

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._started else "new"
        return f"{self._shape.group} {state} queues={len(self._holdings.works)}"
