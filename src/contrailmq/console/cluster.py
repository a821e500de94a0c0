"""What the console knows about a cluster: one bounded snapshot, fresh while somebody looks.

Theory of operation.  ``pulse`` asks each broker what it is doing (code 28). ``tables`` fetches all
topics, groups and committed offsets of each master (21, 201, 43). Neither asks anything per topic
or per group.  The bounds of queues cost a request per topic (202), so ``Ends`` fetches them for the
rows on screen first, and for topics that groups consume in the background, at most ``CRAWL`` per
second.  Lag is computed from both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from contrailmq.admin.client import AdminClient
from contrailmq.console.settings import CALL_S
from contrailmq.errors import ContrailError
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.names import (
    DLQ_PREFIX,
    MASTER_ID,
    REPLY_TOPIC_SUFFIX,
    RETRY_PREFIX,
    is_system_group,
    is_system_topic,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
TABLES_S: Final = 10.0
SMALL_TABLES_S: Final = 2.0  # of a cluster with few topics and groups
SMALL: Final = 500
ENDS_S: Final = 2.0  # bounds younger than this are not asked for again
AT_ONCE: Final = 16
MESSAGE_TYPE: Final = "message.type"


class Place(NamedTuple):
    """A queue of a topic: the broker's name and the queue's number."""

    broker: str
    queue: int


class Bounds(NamedTuple):
    """First offset, end, and when the last message came (0: never)."""

    low: int
    high: int
    last_ms: int


@dataclass(slots=True)
class Member:
    """One broker process: a name and an id at an address."""

    cluster: str
    name: str
    number: int
    address: str
    runtime: dict[str, str] = field(default_factory=dict)
    fault: str = ""

    @property
    def is_master(self) -> bool:
        """Whether it takes messages."""
        return self.number == MASTER_ID


@dataclass(slots=True)
class Topic:
    """A topic over all brokers that have it."""

    name: str
    kind: str
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)

    @property
    def queues(self) -> int:
        """Queues that messages can be read from."""
        return sum(config.read_queue_nums for config in self.configs.values())


@dataclass(slots=True)
class Group:
    """A consumer group over all brokers that know it."""

    name: str
    configs: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    committed: dict[str, dict[Place, int]] = field(default_factory=dict)  # by topic


@dataclass(slots=True)
class Ends:
    """The bounds of one topic's queues at a moment, and how fast they grew since the last one."""

    at_ms: int
    queues: dict[Place, Bounds]
    rate: float | None = None

    @property
    def count(self) -> int:
        """Messages there are."""
        return sum(bounds.high - bounds.low for bounds in self.queues.values())

    @property
    def last_ms(self) -> int:
        """When the last message came; 0: never."""
        return max((bounds.last_ms for bounds in self.queues.values()), default=0)


def kind_of(topic: str, config: TopicConfig, reserved: set[str]) -> str:
    """What a topic is for: normal, fifo, delay, transaction, retry, dlq or system."""
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DLQ_PREFIX):
        return "dlq"
    if is_system_topic(topic) or topic in reserved or topic.endswith(REPLY_TOPIC_SUFFIX):
        return "system"
    kind = config.attributes.get(MESSAGE_TYPE, "NORMAL").lower()
    return "normal" if kind in ("normal", "unspecified") else kind


class ClusterView:
    """The snapshot; every method that asks the cluster bounds its wait."""

    def __init__(self, admin: AdminClient) -> None:
        self.admin = admin
        self._clock = admin.world.clock
        self.members: list[Member] = []
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.ends: dict[str, Ends] = {}
        self.faults: list[str] = []
        self.pulse_ms = 0
        self.tables_ms = 0
        self.revision = 0
        self._reading: asyncio.Lock = asyncio.Lock()

    def now_ms(self) -> int:
        """The wall clock."""
        return self._clock.now_ms()

    @property
    def masters(self) -> dict[str, str]:
        """Addresses of masters by broker name."""
        return {member.name: member.address for member in self.members if member.is_master}

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each broker name: its master's, or of the smallest id."""
        found: dict[str, str] = {}
        for member in sorted(self.members, key=lambda member: member.number):
            found.setdefault(member.name, member.address)
        return found

    async def pulse(self) -> None:
        """Ask every broker what it is doing; one that does not answer keeps what it said last."""
        info = await self.admin.cluster_info()
        before = {member.address: member for member in self.members}
        members = [
            Member(data.cluster, name, int(number), address)
            for name, data in sorted(info.broker_addr_table.items())
            for number, address in sorted(data.broker_addrs.items())
        ]
        faults = []
        answers = await asyncio.gather(
            *(_within(self.admin.brokers.runtime(member.address)) for member in members)
        )
        for member, answer in zip(members, answers, strict=True):
            if isinstance(answer, str):
                member.fault = answer
                faults.append(f"{member.name} at {member.address}: {answer}")
                if member.address in before:
                    member.runtime = before[member.address].runtime
            else:
                member.runtime = answer
        self.members, self.faults = members, faults
        self.pulse_ms = self.now_ms()

    async def tables(self) -> None:
        """Fetch topics, groups and offsets of all masters; one caller at a time does it."""
        if self._reading.locked():
            async with self._reading:
                return
        async with self._reading:
            if not self.members:
                await self.pulse()
            await self._read_tables()

    async def _read_tables(self) -> None:
        topics: dict[str, Topic] = {}
        groups: dict[str, Group] = {}
        reserved = {m.name for m in self.members} | {m.cluster for m in self.members}
        asked = answered = 0
        for name, address in self.masters.items():
            asked += 1
            configs = await _within(self.admin.topics.configs(address), 3 * CALL_S)
            if isinstance(configs, str):
                continue
            answered += 1
            for topic, config in configs.items():
                found = topics.get(topic)
                if found is None:
                    found = topics[topic] = Topic(topic, kind_of(topic, config, reserved))
                found.configs[name] = config
            subscribed = await _within(self.admin.groups.configs(address), 3 * CALL_S)
            if not isinstance(subscribed, str):
                for group, setting in subscribed.items():
                    groups.setdefault(group, Group(group)).configs[name] = setting
            offsets = await _within(self.admin.offsets.table(address), 3 * CALL_S)
            if not isinstance(offsets, str):
                self._take_offsets(name, offsets, topics, groups)
            await asyncio.sleep(0)
        if answered or not asked:
            self.topics, self.groups = topics, groups
            self.ends = {topic: ends for topic, ends in self.ends.items() if topic in topics}
        self.tables_ms = self.now_ms()
        self.revision += 1

    def _take_offsets(
        self,
        broker: str,
        offsets: dict[str, dict[int, int]],
        topics: dict[str, Topic],
        groups: dict[str, Group],
    ) -> None:
        for pair, queues in offsets.items():
            topic, is_pair, group = pair.partition("@")
            if not is_pair or topic not in topics or is_system_group(group):
                continue
            found = groups.setdefault(group, Group(group))
            committed = found.committed.setdefault(topic, {})
            for queue, offset in queues.items():
                committed[Place(broker, queue)] = offset
            topics[topic].groups.add(group)

    async def fresh(self) -> None:
        """Have tables that are not older than their interval."""
        is_small = len(self.topics) + len(self.groups) < SMALL
        interval_s = SMALL_TABLES_S if is_small else TABLES_S
        if self.now_ms() - self.tables_ms > interval_s * 1000:
            await self.tables()

    async def know_progress(self, group: Group) -> dict[tuple[str, Place], int]:
        """Ask where a group is now, its offsets and the ends of its queues in one answer (208).

        Returns when the last message it has read was stored, by topic and queue.
        """
        read_ms: dict[tuple[str, Place], int] = {}
        for address in self.masters.values():
            found = await _within(self.admin.offsets.stats_at(address, group.name))
            if isinstance(found, str):
                continue
            for queue, offset in found.offset_table.items():
                place = Place(queue.broker_name, queue.queue_id)
                group.committed.setdefault(queue.topic, {})[place] = offset.consumer_offset
                read_ms[queue.topic, place] = offset.last_timestamp
                ends = self.ends.get(queue.topic)
                if ends is not None and place in ends.queues:
                    bounds = ends.queues[place]
                    high = max(offset.broker_offset, bounds.low)
                    ends.queues[place] = bounds._replace(high=high)
        return read_ms

    async def know_ends(self, topics: Iterable[str], *, age_s: float = ENDS_S) -> None:
        """Fetch the bounds of these topics' queues unless they are known and young."""
        limit = self.now_ms() - int(age_s * 1000)
        wanted = [
            topic
            for topic in topics
            if topic in self.topics and (topic not in self.ends or self.ends[topic].at_ms < limit)
        ]
        for start in range(0, len(wanted), AT_ONCE):
            await asyncio.gather(*(self._ask_ends(t) for t in wanted[start : start + AT_ONCE]))

    async def _ask_ends(self, topic: str) -> None:
        addresses = self.addresses
        queues: dict[Place, Bounds] = {}
        for name in self.topics[topic].configs:
            if name not in addresses:
                continue
            found = await _within(self.admin.topics.stats_at(addresses[name], topic))
            if isinstance(found, str):
                continue
            for queue, offset in found.offset_table.items():
                place = Place(queue.broker_name, queue.queue_id)
                queues[place] = Bounds(
                    offset.min_offset, offset.max_offset, offset.last_update_timestamp
                )
        before, now = self.ends.get(topic), self.now_ms()
        rate = None
        if before is not None and now > before.at_ms:
            grown = sum(b.high - before.queues[p].high for p, b in queues.items()
                        if p in before.queues)  # fmt: skip
            rate = max(grown, 0) * 1000 / (now - before.at_ms)
        if topic in self.topics:
            self.ends[topic] = Ends(now, queues, rate)

    def lag(self, group: Group, topic: str | None = None) -> int | None:
        """Messages that a group has before it; None if no bounds are known yet."""
        whole: int | None = None if group.committed else 0
        for name, committed in group.committed.items():
            ends = self.ends.get(name)
            if ends is None or (topic is not None and name != topic):
                continue
            whole = (whole or 0) + sum(
                max(ends.queues[place].high - offset, 0)
                for place, offset in committed.items()
                if place in ends.queues
            )
        return whole

    def watched_topics(self) -> list[str]:
        """Topics of users and of dead letters, those whose bounds are oldest first."""
        names = [
            name
            for name, topic in self.topics.items()
            if topic.groups or topic.kind not in ("retry", "system")
        ]
        return sorted(names, key=lambda name: self.ends[name].at_ms if name in self.ends else 0)


async def _within(work: Awaitable[T], timeout_s: float = CALL_S) -> T | str:
    """What a server answers, or in words why there is no answer."""
    try:
        async with asyncio.timeout(timeout_s):
            return await work
    except TimeoutError:
        return f"no answer in {timeout_s:g} s"
    except ContrailError as error:
        return str(error)
