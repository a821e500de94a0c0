"""What a topic's route means for a client: queues to send to, queues to read, addresses.

Pure functions over the route body of the name server.  ``PublishRoute`` is what a producer
chooses from; ``subscribe_queues`` is what a group divides; ``broker_address`` finds a broker.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.names import MASTER_ID
from contrailmq.protocol.queue import MessageQueue

PERM_READ: Final = 4
PERM_WRITE: Final = 2
# Of one topic at one broker; a broker refuses to make more, so a larger number is not its own.
QUEUES_MAX: Final = 65_536
ROUTE_QUEUES_MAX: Final = 262_144  # of one topic at all brokers; the rest is left out


@dataclasses.dataclass(frozen=True, slots=True)
class PublishRoute:
    """The queues a producer may send to, in Java's order, and whether the order is fixed."""

    topic: str
    queues: tuple[MessageQueue, ...]
    ordered: bool = False

    def has_broker(self, broker_name: str) -> bool:
        """Whether a broker has a queue of the topic."""
        return any(queue.broker_name == broker_name for queue in self.queues)


def publish_route(topic: str, route: TopicRouteData) -> PublishRoute:
    """Queues with a writable master, sorted by broker name (topicRouteData2TopicPublishInfo)."""
    if route.order_topic_conf:
        queues = _bounded(
            MessageQueue(topic, broker_name, queue_id)
            for broker_name, count in _order_conf(route.order_topic_conf)
            for queue_id in range(min(count, QUEUES_MAX))
        )
        return PublishRoute(topic, queues, ordered=True)
    with_master = {
        broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs
    }
    queues = _bounded(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
        if data.perm & PERM_WRITE and data.broker_name in with_master
        for queue_id in range(min(data.write_queue_nums, QUEUES_MAX))
    )
    return PublishRoute(topic, queues)


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """All readable queues, sorted (topicRouteData2TopicSubscribeInfo)."""
    return sorted(
        _bounded(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in route.queue_datas
            if data.perm & PERM_READ
            for queue_id in range(min(data.read_queue_nums, QUEUES_MAX))
        )
    )


def inherited(route: TopicRouteData, queue_count_max: int) -> TopicRouteData:
    """The route a topic will have once the broker creates it after the default topic's."""
    queue_datas = []
    for data in route.queue_datas:
        count = min(queue_count_max, data.read_queue_nums)
        queue_datas.append(
            msgspec.structs.replace(data, read_queue_nums=count, write_queue_nums=count)
        )
    return msgspec.structs.replace(route, queue_datas=queue_datas)


def is_same(left: TopicRouteData, right: TopicRouteData) -> bool:
    """Whether two routes say the same; the order of their lists does not matter."""
    return (
        left.order_topic_conf == right.order_topic_conf
        and sorted(map(_queue_key, left.queue_datas)) == sorted(map(_queue_key, right.queue_datas))
        and sorted(map(_broker_key, left.broker_datas))
        == sorted(map(_broker_key, right.broker_datas))
    )


def reading_address(
    addresses: Mapping[int, str], broker_id: int, *, only_this: bool = False
) -> tuple[int, str] | None:
    """Which member of a broker to read from: the wanted one, else the next, else any."""
    if broker_id in addresses:
        return broker_id, addresses[broker_id]
    if only_this or not addresses:
        return None
    if broker_id != MASTER_ID and broker_id + 1 in addresses:
        return broker_id + 1, addresses[broker_id + 1]
    first = min(addresses)
    return first, addresses[first]


def vip(address: str) -> str:
    """The same broker's second listener, two ports below (MixAll.brokerVIPChannel)."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"


def _bounded(queues: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
    return tuple(itertools.islice(queues, ROUTE_QUEUES_MAX))


def _order_conf(text: str) -> list[tuple[str, int]]:
    pairs = []
    for part in text.split(";"):
        name, _, count = part.partition(":")
        if name and count.isdigit():
            pairs.append((name, int(count)))
    return pairs


def _queue_key(data: QueueData) -> tuple[str, int, int, int]:
    return data.broker_name, data.read_queue_nums, data.write_queue_nums, data.perm


def _broker_key(data: BrokerData) -> tuple[str, str, list[tuple[int, str]]]:
    return data.broker_name, data.cluster, sorted(data.broker_addrs.items())
