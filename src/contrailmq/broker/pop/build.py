"""The parts of POP, built bottom up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.config.saving import Saving
from contrailmq.broker.identity import Identity
from contrailmq.broker.pop.holdback import HoldBack
from contrailmq.broker.pop.inflight import InFlight
from contrailmq.broker.pop.order import OrderTable
from contrailmq.broker.pop.plan import PopPlanner
from contrailmq.broker.pop.polls import PopPolls
from contrailmq.broker.pop.popping import Popping
from contrailmq.broker.pop.recovery import recent_retries, restore_offsets
from contrailmq.broker.pop.revive import Revive, ReviveTables
from contrailmq.broker.pop.revive_log import ReviveLog
from contrailmq.broker.pop.service import PopService
from contrailmq.broker.pop.settling import Settling
from contrailmq.broker.pop.timers import PopTimers
from contrailmq.broker.services.putting import Putting
from contrailmq.broker.tables.counters import Counters
from contrailmq.broker.tables.filters import ConsumerFilters
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.revision import Revision
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.protocol.bodies.order import OrderInfos
from contrailmq.protocol.names import is_retry_topic
from contrailmq.store.store import Store

ORDER_INFO_S = 1.0  # the original: 10; what is not saved is given out again after a kill


@dataclass(slots=True, kw_only=True)
class PopTables:
    """The tables of the broker that POP works on."""

    offsets: OffsetTable
    topics: TopicTable
    groups: GroupTable
    filters: ConsumerFilters
    counters: Counters
    hold_back: HoldBack
    live: LiveSettings
    revision: Revision


@dataclass(slots=True, kw_only=True)
class PopParts:
    """POP on one broker."""

    service: PopService
    polls: PopPolls
    order: OrderTable
    in_flight: InFlight
    revive: Revive
    hold_back: HoldBack
    timers: PopTimers
    tables: PopTables
    store: Store

    def close(self) -> None:
        """Answer all who wait; the store is flushed before the broker has stopped."""
        self.polls.close()
        self.hold_back.release()

    def wake(self, topic: str, queue_id: int) -> None:
        """A queue grew."""
        self.polls.wake(topic, queue_id)
        if topic == self.revive.topic:
            self.revive.wake()

    def recover(self, *, since_ms: int) -> None:
        """Put right what a kill has left; ``since_ms``: when offsets were saved last."""
        store, tables, revive = self.store, self.tables, self.revive
        self.in_flight.reset()
        if store.was_killed:
            restore_offsets(
                store, tables.offsets, revive.topic,
                queue_nums=len(revive.queues), since_ms=since_ms,
            )  # fmt: skip
            revive.revived = recent_retries(
                store, (name for name in tables.topics.names() if is_retry_topic(name))
            )
        revive.start_at_committed()

    def keep(self, saving: Saving) -> None:
        """Load ``consumerOrderInfo.json``, and keep it."""
        found = saving.file("consumerOrderInfo.json").read(OrderInfos.decode)
        if found is not None:
            self.order.load(found)

        def encode() -> bytes:
            self.order.clean(self._queue_count)
            return self.order.saved().encode(pretty=True)

        saving.add(
            "consumerOrderInfo.json",
            encode,
            revision=lambda: self.order.revision,
            interval_s=ORDER_INFO_S,
        )

    def forget(self, *, topic: str | None = None, group: str | None = None) -> None:
        """A topic or a group was deleted."""
        self.in_flight.forget(topic=topic, group=group)
        self.order.clean(self._queue_count)

    def _queue_count(self, topic: str, group: str) -> int:
        config = self.tables.topics.find(topic)
        if config is None or self.tables.groups.find(group) is None:
            return 0
        return config.read_queue_nums


def build_pop(
    tables: PopTables, store: Store, putting: Putting, *,
    timers: PopTimers, identity: Identity, clock: Clock, rng: random.Random,
    save_offsets: Callable[[], None],
) -> PopParts:  # fmt: skip
    """Build POP; needs the running loop, starts nothing."""
    live = tables.live
    order, in_flight = OrderTable(clock), InFlight()
    polls = PopPolls(
        asyncio.get_running_loop(),
        waiters_max=live.now.pop_waiters_max,
        waiters_max_per_key=live.now.pop_waiters_max_per_key,
    )
    revive_log = ReviveLog(
        putting, timers, identity=identity, tally=tables.counters.revives, clock=clock
    )
    popping = Popping(
        store, tables.offsets, revive_log,
        topics=tables.topics, order=order, in_flight=in_flight, hold_back=tables.hold_back,
        counters=tables.counters, live=live, identity=identity, clock=clock, rng=rng,
        is_in_memory=store.reading.is_in_memory,
    )  # fmt: skip
    settling = Settling(
        store, tables.offsets, revive_log,
        topics=tables.topics, order=order, in_flight=in_flight, polls=polls,
        counters=tables.counters, identity=identity, clock=clock,
    )  # fmt: skip
    planner = PopPlanner(
        tables.topics, tables.groups, tables.filters,
        live=live, identity=identity, revision=tables.revision,
    )  # fmt: skip
    service = PopService(
        popping, settling, polls,
        planner=planner, order=order, topics=tables.topics,
        wait_flushed=store.wait_flushed, clock=clock,
    )  # fmt: skip
    revive = Revive(
        store,
        putting,
        ReviveTables(
            offsets=tables.offsets, topics=tables.topics, groups=tables.groups,
            in_flight=in_flight, hold_back=tables.hold_back, tally=tables.counters.revives,
        ),
        identity=identity,
        queue_nums=live.now.revive_queue_nums,
        delivered_until_ms=timers.delivered_until_ms,
        uses_v2=lambda: live.now.retry_topic_v2,
        save_offsets=save_offsets,
    )  # fmt: skip
    polls.listen(revive.topic)
    store.follower.topics = polls.topics
    return PopParts(
        service=service, polls=polls, order=order, in_flight=in_flight, revive=revive,
        hold_back=tables.hold_back, timers=timers, tables=tables, store=store,
    )  # fmt: skip
