"""The parts of one broker, built bottom up; each knows only what its constructor names.

``Tables`` needs nothing but a clock; ``Parts`` adds what works on the tables and the store.  Only
the composition root and the tables of handlers look at these objects; no part ever gets one.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from contrailmq._native.lanes.gate import Gate
from contrailmq.broker.config.configuration import Configuration
from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.config.offset_file import offset_file
from contrailmq.broker.config.saving import Saving
from contrailmq.broker.config.settings import BrokerSettings
from contrailmq.broker.handlers.client import Clients
from contrailmq.broker.handlers.pull import PullMessage
from contrailmq.broker.handlers.send import SendMessage
from contrailmq.broker.identity import Identity
from contrailmq.broker.lanes.pull import BrokerPullLane
from contrailmq.broker.lanes.pull_plan import PullPlanner
from contrailmq.broker.lanes.send import BrokerLane
from contrailmq.broker.pop.build import PopParts, PopTables, build_pop
from contrailmq.broker.pop.holdback import HoldBack
from contrailmq.broker.pop.timers import PopTimers
from contrailmq.broker.services.delay import DelayLevels
from contrailmq.broker.services.filter_work import FilterWork
from contrailmq.broker.services.halves import HalfMessages
from contrailmq.broker.services.longpoll import LongPolls
from contrailmq.broker.services.offset_moved import OffsetMovedEvents
from contrailmq.broker.services.putting import Putting
from contrailmq.broker.services.rebalance_notices import IdsChanged
from contrailmq.broker.services.registration import FIRST_SEND_TIMEOUT_S, Registration
from contrailmq.broker.services.runtime import Runtime
from contrailmq.broker.services.stats import Stats
from contrailmq.broker.services.timers import Timers
from contrailmq.broker.services.timing import Timing
from contrailmq.broker.services.transactions import TransactionChecks
from contrailmq.broker.tables.consumers import ConsumerTable
from contrailmq.broker.tables.counters import Counters
from contrailmq.broker.tables.filters import ConsumerFilters
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.locks import QueueLocks
from contrailmq.broker.tables.modes import RequestModes
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.producers import ProducerTable
from contrailmq.broker.tables.revision import Revision
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.ids import UniqueIds
from contrailmq.store.store import Store
from contrailmq.store.timers.timers import StoreTimers


class Tables:
    """The pure tables of a broker, and the revision they share."""

    def __init__(
        self, settings: BrokerSettings, clock: Clock, flushed_offset: Callable[[], int]
    ) -> None:
        self.clock = clock
        self.hold_back = HoldBack(flushed_offset)
        self.revision = Revision()
        self.live = LiveSettings(settings, self.revision)
        self.topics = TopicTable(clock, self.revision)
        self.groups = GroupTable(clock, self.revision)
        self.offsets = OffsetTable()
        self.locks = QueueLocks(clock, life_ms=settings.lock_life_ms)
        self.filters = ConsumerFilters(clock)
        self.consumers = ConsumerTable(clock, self.revision)
        self.producers = ProducerTable(clock)
        self.modes = RequestModes()
        self.counters = Counters()


@dataclass(slots=True, kw_only=True)
class Parts:
    """Everything a handler of this broker may be given."""

    tables: Tables
    identity: Identity
    store: Store
    saving: Saving
    registration: Registration
    client: RemotingClient
    putting: Putting
    polls: LongPolls
    clients: Clients
    filter_work: FilterWork
    send: SendMessage
    pull: PullMessage
    delay: DelayLevels
    wheel: StoreTimers
    timers: Timers
    halves: HalfMessages
    checks: TransactionChecks
    pop: PopParts
    stats: Stats
    runtime: Runtime
    configuration: Configuration
    clock: Clock
    rng: random.Random


def build_parts(
    tables: Tables, store: Store, saving: Saving, *,
    identity: Identity, client: RemotingClient, configuration: Configuration, rng: random.Random,
) -> Parts:  # fmt: skip
    """Build what works on the tables; needs the running loop, starts nothing."""
    loop = asyncio.get_running_loop()
    live, clock = tables.live, tables.clock
    registration = Registration(client, tables.topics, identity=identity, live=live, clock=clock)
    wheel = StoreTimers(store)
    wheel.on_delivered = tables.counters.put_timed
    putting = _putting(tables, store, wheel, rng=rng)
    polls = LongPolls(loop, waiters_max=live.now.held_pulls_max)
    made = partial(_topic_made, saving, registration)
    send = _send_handler(tables, putting, identity, made=made, rng=rng)
    pull = _pull_handler(tables, store, polls, putting=putting, identity=identity)
    delay = DelayLevels(
        store, putting,
        delay_ms=store.settings.delay_ms_by_level(), store_host=identity.store_host, clock=clock,
    )  # fmt: skip
    halves = HalfMessages(
        store, putting, tables.topics,
        identity=identity, tally=tables.counters.transactions, clock=clock,
    )  # fmt: skip
    checks = TransactionChecks(
        halves,
        tables.offsets,
        tables.producers,
        live=live,
        identity=identity,
        clock=clock,
        rng=rng,
        keep_ms=lambda: store.settings.retention_hours * 3_600_000,
    )
    clients = Clients(
        tables.consumers,
        tables.producers,
        tables.filters,
        groups=tables.groups,
        live=live,
        notices=IdsChanged(loop, tables.consumers),
    )
    pop = _pop_parts(tables, store, putting, wheel=wheel, identity=identity, saving=saving, rng=rng)
    return Parts(
        tables=tables,
        identity=identity,
        store=store,
        saving=saving,
        registration=registration,
        client=client,
        putting=putting,
        polls=polls,
        clients=clients,
        filter_work=FilterWork(tables.filters, clock),
        send=send,
        pull=pull,
        delay=delay,
        wheel=wheel,
        timers=Timers(wheel, clock=clock, flush_ms=store.settings.timer_flush_ms),
        halves=halves,
        checks=checks,
        pop=pop,
        stats=Stats(tables.counters, cluster=identity.cluster_name),
        runtime=Runtime(store, tables.counters, delay, timers=wheel, live=live, clock=clock),
        configuration=configuration,
        clock=clock,
        rng=rng,
    )


def _putting(tables: Tables, store: Store, wheel: StoreTimers, *, rng: random.Random) -> Putting:
    timing = Timing(
        wheel,
        settings=lambda: store.settings,
        tally=tables.counters.timers,
        clock=tables.clock,
        rng=rng,
    )
    return Putting(
        store,
        tables.counters,
        timing=timing,
        message_size_max=store.settings.message_size_max,
        delay_level_max=len(store.settings.delay_ms_by_level()),
    )


def _pop_parts(
    tables: Tables, store: Store, putting: Putting, *,
    wheel: StoreTimers, identity: Identity, saving: Saving, rng: random.Random,
) -> PopParts:  # fmt: skip
    own = PopTables(
        offsets=tables.offsets,
        topics=tables.topics,
        groups=tables.groups,
        filters=tables.filters,
        counters=tables.counters,
        hold_back=tables.hold_back,
        live=tables.live,
        revision=tables.revision,
    )
    return build_pop(
        own,
        store,
        putting,
        timers=PopTimers(
            wheel,
            settings=lambda: store.settings,
            store_time=store.store_time,
            clock=tables.clock,
        ),
        identity=identity,
        clock=tables.clock,
        rng=rng,
        save_offsets=lambda: saving.hurry(offset_file(has_lights=store.settings.lmq_enable)),
    )


async def _topic_made(saving: Saving, registration: Registration, topic: str) -> None:
    announced = registration.announce(topic, timeout_s=FIRST_SEND_TIMEOUT_S)
    await asyncio.gather(saving.saved(), announced)


def _send_handler(
    tables: Tables, putting: Putting, identity: Identity, *,
    made: Callable[[str], Awaitable[None]], rng: random.Random,
) -> SendMessage:  # fmt: skip
    return SendMessage(
        putting,
        tables.topics,
        tables.groups,
        live=tables.live,
        locks=tables.locks,
        identity=identity,
        revision=tables.revision,
        clock=tables.clock,
        rng=rng,
        ids=UniqueIds(identity.store_host[:-4], clock=tables.clock, pid=os.getpid(), rng=rng),
        made=made,
    )


def _pull_handler(
    tables: Tables, store: Store, polls: LongPolls, *, putting: Putting, identity: Identity
) -> PullMessage:
    planner = PullPlanner(
        tables.topics,
        tables.groups,
        tables.consumers,
        filters=tables.filters,
        live=tables.live,
        identity=identity,
        revision=tables.revision,
    )
    return PullMessage(
        store,
        polls,
        planner=planner,
        offsets=tables.offsets,
        counters=tables.counters,
        on_offset_moved=OffsetMovedEvents(putting, tables.topics, identity, clock=tables.clock),
    )


def build_lane(parts: Parts, gate: Gate | None = None) -> BrokerLane:
    """The fast lane of all connections; a gate checks what comes into it."""
    tables, store = parts.tables, parts.store
    pulls = BrokerPullLane(
        store,
        parts.pull.planner,
        offsets=tables.offsets,
        counters=tables.counters,
        identity=parts.identity,
        gate=gate,
    )
    return BrokerLane(
        store,
        parts.send,
        pulls,
        counters=tables.counters,
        revision=tables.revision,
        live=tables.live,
        identity=parts.identity,
        clock=parts.clock,
        gate=gate,
    )
