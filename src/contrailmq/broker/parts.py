"""The parts of one broker, built bottom up; each knows only what its constructor names.

``Tables`` needs nothing but a clock; ``Parts`` adds what works on the tables and the store.  Only
the composition root and the tables of handlers look at these objects; no part ever gets one.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass

from contrailmq.broker.configuration import Configuration
from contrailmq.broker.consumers import ConsumerTable
from contrailmq.broker.counters import Counters
from contrailmq.broker.delay import DelayLevels
from contrailmq.broker.filters import ConsumerFilters
from contrailmq.broker.groups import GroupTable
from contrailmq.broker.halves import HalfMessages
from contrailmq.broker.handlers.client import Clients
from contrailmq.broker.handlers.pull import PullMessage
from contrailmq.broker.handlers.send import SendMessage
from contrailmq.broker.identity import Identity
from contrailmq.broker.lane import BrokerLane
from contrailmq.broker.live import LiveSettings
from contrailmq.broker.locks import QueueLocks
from contrailmq.broker.longpoll import LongPolls
from contrailmq.broker.moved import OffsetMovedEvents
from contrailmq.broker.notices import IdsChanged
from contrailmq.broker.offsets import OffsetTable
from contrailmq.broker.producers import ProducerTable
from contrailmq.broker.pull_lane import BrokerPullLane
from contrailmq.broker.pull_plan import PullPlanner
from contrailmq.broker.putting import Putting
from contrailmq.broker.registration import Registration
from contrailmq.broker.revision import Revision
from contrailmq.broker.runtime import Runtime
from contrailmq.broker.saving import Saving
from contrailmq.broker.settings import BrokerSettings
from contrailmq.broker.stats import Stats
from contrailmq.broker.topics import TopicTable
from contrailmq.broker.transactions import TransactionChecks
from contrailmq.clock import Clock
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.ids import UniqueIds
from contrailmq.store.store import Store


class Tables:
    """The pure tables of a broker, and the revision they share."""

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self.clock = clock
        self.revision = Revision()
        self.live = LiveSettings(settings, self.revision)
        self.topics = TopicTable(clock, self.revision)
        self.groups = GroupTable(clock, self.revision)
        self.offsets = OffsetTable()
        self.locks = QueueLocks(clock, life_ms=settings.lock_life_ms)
        self.filters = ConsumerFilters(clock)
        self.consumers = ConsumerTable(clock, self.revision)
        self.producers = ProducerTable(clock)
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
    send: SendMessage
    pull: PullMessage
    delay: DelayLevels
    halves: HalfMessages
    checks: TransactionChecks
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
    putting = Putting(
        store,
        tables.counters,
        message_size_max=store.settings.message_size_max,
        delay_level_max=len(store.settings.delay_ms_by_level()),
    )
    polls = LongPolls(loop, waiters_max=live.now.held_pulls_max)
    send = _send_handler(tables, putting, identity, saving=saving, rng=rng)
    pull = _pull_handler(tables, store, polls, putting=putting, identity=identity)
    delay = DelayLevels(
        store,
        putting,
        delay_ms=store.settings.delay_ms_by_level(),
        store_host=identity.store_host,
        clock=clock,
    )
    halves = HalfMessages(store, putting, tables.topics, identity=identity, clock=clock)
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
        send=send,
        pull=pull,
        delay=delay,
        halves=halves,
        checks=checks,
        stats=Stats(tables.counters, cluster=identity.cluster_name),
        runtime=Runtime(store, tables.counters, delay, live=live, clock=clock),
        configuration=configuration,
        clock=clock,
        rng=rng,
    )


def _send_handler(
    tables: Tables, putting: Putting, identity: Identity, *, saving: Saving, rng: random.Random
) -> SendMessage:
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
        saved=saving.saved,
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


def build_lane(parts: Parts) -> BrokerLane:
    """The fast lane of all connections."""
    tables, store = parts.tables, parts.store
    pulls = BrokerPullLane(
        store,
        parts.pull.planner,
        offsets=tables.offsets,
        counters=tables.counters,
        identity=parts.identity,
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
    )
