"""The topics this broker serves: their queues and permissions, and which appear by themselves.

The table of ``topics.json``.  A change bumps its data version (name servers compare it), ends the
cached decisions of the hot paths, and is reported by ``on_change`` so that it is saved and
registered.  Reading back an older file keeps what the file says of system topics too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from contrailmq.broker.config import permission
from contrailmq.broker.config.settings import BrokerSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.tables.attributes import BATCH_QUEUE, QUEUE_TYPE
from contrailmq.broker.tables.revision import Revision
from contrailmq.broker.tables.versions import VersionCounter
from contrailmq.clock import Clock
from contrailmq.errors import NoPermission, SystemBusy, SystemFailure, TopicNotExist
from contrailmq.protocol.bodies.topic import TopicConfig, TopicConfigWrapper
from contrailmq.protocol.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_EVENT,
    REVIVE_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    is_lmq,
    is_send_forbidden,
    is_system_topic,
    reply_topic,
    stored_topic_fault,
)

TOPICS_MAX: Final = 100_000
SCHEDULE_QUEUES: Final = 18
READ_WRITE: Final = permission.READ | permission.WRITE
TEMPLATE: Final = READ_WRITE | permission.INHERIT
UNIT_FLAG: Final = 1
UNIT_SUB_FLAG: Final = 2


def topic_missing(topic: str) -> TopicNotExist:
    """The refusal for a topic nobody made."""
    return TopicNotExist(f"topic[{topic}] not exist, apply first please!")


def check_sendable(topic: str) -> None:
    """Raise unless users may send to a topic of this name."""
    fault = stored_topic_fault(topic)
    if fault is not None:
        raise SystemFailure(fault)
    if is_send_forbidden(topic):
        raise NoPermission(f"Sending message to topic[{topic}] is forbidden.")


def has_batch_queues(config: TopicConfig | None) -> bool:
    """Whether batches of a topic are kept whole (``queue.type=BatchCQ``)."""
    return config is not None and config.attributes.get(QUEUE_TYPE) == BATCH_QUEUE


def describe(config: TopicConfig) -> str:
    """A topic in the words of the original's refusals (TopicConfig.toString)."""
    order = "true" if config.order else "false"
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={permission.text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={order}]"
    )


class TopicTable:
    """Every topic of a broker. At most ``topics_max``; further ones are refused by name."""

    def __init__(self, clock: Clock, revision: Revision, *, topics_max: int = TOPICS_MAX) -> None:
        self._table: dict[str, TopicConfig] = {}
        self._system: dict[str, None] = {}
        self._revision = revision
        self._topics_max = topics_max
        self.version = VersionCounter(clock)
        self.has_lights = False  # topics %LMQ%… exist without being made
        self.on_change: Callable[[str], None] = lambda topic: None

    def find(self, topic: str) -> TopicConfig | None:
        """A topic's configuration, or None."""
        config = self._table.get(topic)
        if config is None and self.has_lights and is_lmq(topic):
            config = TopicConfig(
                topic_name=topic, read_queue_nums=1, write_queue_nums=1, perm=READ_WRITE
            )
        return config

    def is_batch(self, topic: str) -> bool:
        """Whether batches of a topic are kept whole."""
        return has_batch_queues(self._table.get(topic))

    def is_system(self, topic: str) -> bool:
        """Whether users may not change or delete a topic."""
        return topic in self._system or is_system_topic(topic)

    def is_order(self, topic: str) -> bool:
        """Whether a topic is declared to be consumed in order."""
        config = self._table.get(topic)
        return config is not None and bool(config.order)

    def put(self, config: TopicConfig) -> bool:
        """Add or replace a topic; False when nothing changed. A light queue's is as it is."""
        name = config.topic_name
        if self.has_lights and is_lmq(name):
            return False
        if self._table.get(name) == config:
            return False
        if name not in self._table and len(self._table) >= self._topics_max:
            raise SystemBusy(f"{len(self._table)} topics exist, at most {self._topics_max}")
        self._table[name] = config
        self._changed(name)
        return True

    def delete(self, topic: str) -> bool:
        """Remove a topic; False when it was not there."""
        if self._table.pop(topic, None) is None:
            return False
        self._changed(topic)
        return True

    def create_for_send(
        self, topic: str, default_topic: str, *,
        queue_nums: int, sys_flag: int = 0, auto_create: bool = True,
    ) -> TopicConfig | None:  # fmt: skip
        """Make a topic in the image of ``default_topic``, if that allows it (rules in §4.1).

        The template must be inheritable; TBW102 is so only while ``autoCreateTopicEnable`` holds.
        """
        template = self._table.get(default_topic)
        if template is None or not permission.is_inherited(template.perm):
            return None
        if default_topic == AUTO_CREATE_TOPIC and not auto_create:
            return None
        queues = max(0, min(queue_nums, template.write_queue_nums))
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=template.perm & ~permission.INHERIT,
            topic_filter_type=template.topic_filter_type,
            topic_sys_flag=sys_flag,
        )
        self.put(config)
        return config

    def create_internal(
        self, topic: str, *, queue_nums: int, perm: int = READ_WRITE, sys_flag: int = 0,
        order: bool = False,
    ) -> TopicConfig:  # fmt: skip
        """The topic, made if need be: retry, dead-letter and other topics nobody asks for."""
        config = self._table.get(topic)
        if config is None:
            config = TopicConfig(
                topic_name=topic,
                read_queue_nums=queue_nums,
                write_queue_nums=queue_nums,
                perm=perm,
                topic_sys_flag=sys_flag,
                order=order,
            )
            self.put(config)
        return config

    def install_system_topics(self, settings: BrokerSettings, identity: Identity) -> None:
        """Make the topics every broker has, where the file did not have them."""
        cluster, name = identity.cluster_name, identity.broker_name
        wanted = [
            (SELF_TEST_TOPIC, 1, READ_WRITE),
            (BENCHMARK_TOPIC, 1024, READ_WRITE),
            (cluster, 16, TEMPLATE if settings.cluster_topic else permission.INHERIT),
            (name, 1, TEMPLATE if settings.broker_topic else permission.INHERIT),
            (OFFSET_MOVED_EVENT, 1, READ_WRITE),
            (SCHEDULE_TOPIC, SCHEDULE_QUEUES, READ_WRITE),
            (reply_topic(cluster), 1, READ_WRITE),
            (HALF_TOPIC, 1, READ_WRITE),
            (REVIVE_TOPIC_PREFIX + cluster, settings.revive_queue_nums, READ_WRITE),
        ]
        if settings.auto_create_topic:
            wanted.append((AUTO_CREATE_TOPIC, settings.default_topic_queue_nums, TEMPLATE))
        if settings.trace_topic:
            wanted.append((settings.trace_topic_name, 1, READ_WRITE))
        for topic, queues, perm in wanted:
            self._system[topic] = None
            self.create_internal(topic, queue_nums=queues, perm=perm)

    def set_template(self, queue_nums: int) -> None:
        """Give topics that appear by themselves at most so many queues from now on."""
        self._system[AUTO_CREATE_TOPIC] = None
        config = self.create_internal(AUTO_CREATE_TOPIC, queue_nums=queue_nums, perm=TEMPLATE)
        self.put(
            msgspec.structs.replace(config, read_queue_nums=queue_nums, write_queue_nums=queue_nums)
        )

    def apply_order_topics(self, ordered: Mapping[str, str]) -> None:
        """Follow the name server's order configuration: its topics are ordered, others not.

        An empty table says nothing (a name server without the configuration answers so).
        """
        if not ordered:
            return
        for name, config in list(self._table.items()):
            order = name in ordered
            if order != bool(config.order):
                self.put(msgspec.structs.replace(config, order=order))

    def registered(self, broker_perm: int, *, only: str | None = None) -> TopicConfigWrapper:
        """What name servers are told: permissions are cut down to the broker's own."""
        names = list(self._table) if only is None else [only] if only in self._table else []
        table = {}
        for name in names:
            config = self._table[name]
            if broker_perm & READ_WRITE != READ_WRITE:
                config = msgspec.structs.replace(config, perm=config.perm & broker_perm)
            table[name] = config
        return TopicConfigWrapper(data_version=self.version.value, topic_config_table=table)

    def wrapper(self) -> TopicConfigWrapper:
        """The whole table as ``topics.json`` and code 21 have it."""
        return TopicConfigWrapper(
            data_version=self.version.value, topic_config_table=dict(self._table)
        )

    def load(self, wrapper: TopicConfigWrapper) -> None:
        """Take over what a file, or a primary broker, holds."""
        self._table = dict(wrapper.topic_config_table)
        self.version.value = wrapper.data_version
        self._revision.bump()

    def set_state_version(self, epoch: int) -> None:
        """Tables registered under an older epoch count no more (stateVersion)."""
        self.version.raise_state(epoch)

    def names(self) -> Iterator[str]:
        """Every topic's name, in the order they came."""
        yield from self._table

    def system_names(self) -> list[str]:
        """The topics the broker made for itself."""
        return list(self._system)

    def _changed(self, topic: str) -> None:
        self.version.bump()
        self._revision.bump()
        self.on_change(topic)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<TopicTable topics={len(self._table)} version={self.version.value}>"
