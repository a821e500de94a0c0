"""A consumer's place in its group: which queues are its own, and where it begins in them.

Theory of operation.  ``rebalance`` looks at every subscribed topic: its queues (from the route) and
the group's members (from a broker), sorted; the strategy says which queues are ours.  Queues that
are no longer ours are handed to ``on_revoke``, new ones, with the offset to begin at, to
``on_assign``.  What could not be done in a round (a topic without a route, ourselves not in the
member list yet, a lock somebody else has) makes it *unsettled*, and the next round follows soon.

Rounds run at the start, when a broker says that members came or went, when a route changes, and
every 20 s.  Notifications that come while a round runs lead to exactly one more.  A round that
was asked for begins by committing, so that a new member starts where we are.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from contrailmq.client.allocate import Strategy
from contrailmq.client.broker_calls import BrokerCalls
from contrailmq.client.consumer.mismatch import MismatchWatch
from contrailmq.client.consumer.subscription import StartPosition
from contrailmq.client.offset_store import NOT_FOUND, OffsetStore
from contrailmq.client.session import Session, wait_event
from contrailmq.client.settings import ConsumerSettings
from contrailmq.errors import ClientError, ContrailError
from contrailmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from contrailmq.protocol.names import is_retry_topic
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)

CLUSTERING: Final = "CLUSTERING"
BROADCASTING: Final = "BROADCASTING"
_UNSETTLED_S: Final = (0.1, 0.3, 1.0, 1.0, 1.0, 2.0, 5.0)
_COMMIT_FIRST_S: Final = 0.5


class Owner(Protocol):
    """What becomes of queues that come and go."""

    async def acquire(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Which of these new queues may be used (ordered consumers lock them first)."""
        ...

    async def take(self, queue: MessageQueue, offset: int) -> None:
        """A queue is ours from this offset on."""
        ...

    async def revoke(self, queue: MessageQueue) -> None:
        """A queue is no longer ours: commit and let go."""
        ...

    async def report_progress(self) -> None:
        """Tell the brokers how far we are in our queues, without waiting for their answers."""
        ...


class Member:
    """One consumer among the members of its group."""

    def __init__(
        self,
        session: Session,
        group: str,
        *,
        subscriptions: dict[str, SubscriptionData],
        settings: ConsumerSettings,
        strategy: Strategy,
        start: StartPosition,
        model: str,
        consume_type: str,
        calls: BrokerCalls,
    ) -> None:
        self._session = session
        self._settings = settings
        self._strategy = strategy
        self._start = start
        self._calls = calls
        self._consume_type = consume_type
        self._owner: Owner | None = None
        self._offsets: OffsetStore | None = None
        self._wake = asyncio.Event()
        self._known: dict[str, set[MessageQueue]] = {}  # the queues of a topic when we first looked
        self._absent: set[str] = set()  # topics that did not exist when we first looked
        self._ids: list[str] = []
        self._failed_rounds = 0
        self.group = group
        self.model = model
        self.subscriptions = subscriptions
        self.assigned: dict[MessageQueue, None] = {}
        self.has_queues = asyncio.Event()  # a round is over in which topics gave us queues
        self.mismatches = MismatchWatch(session, group, subscriptions)

    def attach(self, owner: Owner, offsets: OffsetStore) -> None:
        """Say who takes the queues and where offsets are kept."""
        self._owner, self._offsets = owner, offsets

    def heartbeat(self) -> HeartbeatData:
        """What the brokers are told about us."""
        return HeartbeatData(
            client_id=self._session.client_id,
            consumer_data_set=[
                ConsumerData(
                    consume_from_where=self._start.wire_name,
                    consume_type=self._consume_type,
                    group_name=self.group,
                    message_model=self.model,
                    subscription_data_set=list(self.subscriptions.values()),
                )
            ],
        )

    def wake(self) -> None:
        """Something changed: rebalance now."""
        self._wake.set()

    async def join(self) -> None:
        """Find the routes, let a broker judge SQL, be known at the brokers, take the queues."""
        for topic, subscription in self.subscriptions.items():
            if is_retry_topic(topic):
                continue
            queues = await self._session.routes.subscribe(topic)
            if queues is None:
                self._absent.add(topic)
                log.warning(
                    "topic does not exist yet, waiting for it topic=%s name_servers=%s",
                    topic, self._session.name_servers,
                )  # fmt: skip
            elif subscription.expression_type != "TAG":
                await self._check(topic, subscription)
        await self._session.heartbeat()
        self._session.routes.on_change = lambda topic: self._route_changed()
        await self.rebalance()

    async def run(self) -> None:
        """Rebalance whenever there is a reason, until cancelled."""
        while True:
            pause_s = self._settings.rebalance_interval_s
            if self._failed_rounds:
                pause_s = min(
                    pause_s, _UNSETTLED_S[min(self._failed_rounds, len(_UNSETTLED_S)) - 1]
                )
            told = await wait_event(self._wake, pause_s)
            self._wake.clear()
            if told:
                await self._commit_first()
            await self.rebalance()

    async def _commit_first(self) -> None:
        """Members may have come: let them find how far we are before they ask for it.

        A new member begins where the group's offset is when it looks, and it looks as soon as it
        has joined; what was consumed and not committed by then would be delivered twice.
        """
        assert self._owner is not None
        try:
            async with asyncio.timeout(_COMMIT_FIRST_S):
                await self._owner.report_progress()
        except TimeoutError:
            log.info("offsets not committed before the rebalance group=%s", self.group)

    async def rebalance(self) -> None:
        """One round over all topics."""
        settled = True
        for topic in list(self.subscriptions):
            try:
                settled &= await self._rebalance_topic(topic)
            except ContrailError as error:
                settled = False
                log.warning("rebalance failed topic=%s error=%s", topic, error)
        self._failed_rounds = 0 if settled else self._failed_rounds + 1
        if any(not is_retry_topic(queue.topic) for queue in self.assigned):
            self.has_queues.set()
        if self._owner is not None and len(self._ids) > 1:
            await self.mismatches.look(self._any_broker(), members=self._ids)

    async def _rebalance_topic(self, topic: str) -> bool:
        routes = self._session.routes
        queues = routes.find_subscribe(topic)
        if queues is None:
            if not await routes.refresh(topic):
                return False
            await self._session.introduce()
            queues = routes.find_subscribe(topic) or []
        self._known.setdefault(topic, set(queues))
        if self.model == BROADCASTING:
            mine = list(queues)
        else:
            ids = await self._calls.members(self._session.pick(routes.brokers_of(topic)))
            self._ids = ids
            if self._session.client_id not in ids:
                self._session.beat_soon()
                return False
            mine = self._strategy.allocate(self._session.client_id, queues, ids)
        return await self._apply(topic, mine)

    async def _apply(self, topic: str, mine: list[MessageQueue]) -> bool:
        assert self._owner is not None
        wanted = set(mine)
        gone = [q for q in self.assigned if q.topic == topic and q not in wanted]
        for queue in gone:
            del self.assigned[queue]
            await self._owner.revoke(queue)
        fresh = [queue for queue in mine if queue not in self.assigned]
        usable = await self._owner.acquire(fresh) if fresh else []
        settled = len(usable) == len(fresh)
        for queue in usable:
            try:
                offset = await self.start_offset(queue)
            except ContrailError as error:
                settled = False
                log.warning("no offset to begin at queue=%s error=%s", queue, error)
                continue
            self.assigned[queue] = None
            await self._owner.take(queue, offset)
        if gone or usable:
            log.info(
                "assignment changed group=%s topic=%s queues=%s gained=%s lost=%s",
                self.group, topic, len(mine), len(usable), len(gone),
            )  # fmt: skip
        return settled

    async def start_offset(self, queue: MessageQueue) -> int:
        """Where to begin: the group's offset, else by the start position."""
        assert self._offsets is not None
        stored = await self._offsets.read(queue)
        if stored != NOT_FOUND:
            return stored
        is_retry = is_retry_topic(queue.topic)
        if queue.topic in self._absent or queue not in self._known.get(queue.topic, {queue}):
            return 0  # the topic, or the queue, came to be while we waited: all of it is new
        if self._start.word == "first" or (is_retry and self._start.word == "last"):
            return 0
        if self._start.word == "last" or is_retry:
            return await self._calls.max_offset(queue)
        return await self._calls.offset_at(queue, self._start.timestamp_ms)

    async def _check(self, topic: str, subscription: SubscriptionData) -> None:
        broker = self._session.pick(self._session.routes.brokers_of(topic))
        try:
            await self._calls.check_subscription(broker, subscription)
        except ContrailError as error:
            raise ClientError(
                f"broker {broker} refuses the subscription {subscription.sub_string!r} to topic"
                f" {topic!r}: {error}; SQL needs enablePropertyFilter=true in broker.conf"
            ) from error

    def _any_broker(self) -> str:
        return self._session.pick(sorted(self._session.routes.brokers()))

    def _route_changed(self) -> None:
        self._session.beat_soon()
        self._wake.set()
