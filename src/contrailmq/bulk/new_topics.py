"""Topics that a write makes: by ``createTopic``, or as every producer of RocketMQ makes them.

With ``createTopic=8`` a topic that no name server knows is created on every broker, with so many
queues on each.  Without it the route of the template ``TBW102`` decides: brokers with
``autoCreateTopicEnable`` have it, and make the topic in its image when its first message comes.
Until that has happened every task has to see the same queues, so the driver finds them once, before
the tasks begin, for a topic that is named by option.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from contrailmq.bulk.cluster import Brokers, Patience
from contrailmq.bulk.options import SinkOptions
from contrailmq.client.routes import inherited, publish_route
from contrailmq.clock import Clock
from contrailmq.errors import ConfigError, ContrailError, NoRoute, error_of
from contrailmq.protocol.bodies.route import ClusterInfo, TopicRouteData
from contrailmq.protocol.bodies.topic import PERM_INHERIT, PERM_READ, PERM_WRITE
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.topic import CreateTopicRequest
from contrailmq.protocol.names import AUTO_CREATE_TOPIC
from contrailmq.protocol.queue import MessageQueue

QUEUES_OF_NEW: Final = 4  # defaultTopicQueueNums of Java's producer
APPEAR_S: Final = 10.0  # a broker tells its name servers at once; a busy one takes its time
_MASTER: Final = 0


def queues_to_write(brokers: Brokers, topic: str, *, create: int | None) -> list[MessageQueue]:
    """The queues of a topic, in an order all tasks agree on; a topic that is unknown is made.

    NoRoute, with both ways to make it, where neither is open.
    """
    route = brokers.find_route(topic)
    if route is None and create is not None:
        create_topic(brokers, topic, queue_count=create)
        route = brokers.find_route(topic)
    if route is None:
        template = brokers.find_route(AUTO_CREATE_TOPIC)
        if template is None or not any(data.perm & PERM_INHERIT for data in template.queue_datas):
            raise NoRoute(unknown_text(topic, brokers.access.name_servers))
        route = inherited(template, QUEUES_OF_NEW)
        brokers.expect(topic, route)
    queues = list(publish_route(topic, route).queues)
    if not queues:
        raise ConfigError(f"topic {topic!r} has no queue that can be written to")
    return queues


def find_expected(options: SinkOptions, *, patient: bool) -> TopicRouteData | None:
    """Make the topic of a write, on the driver; the route to expect where its first message does.

    ``patient``: a topic that nobody makes may come back with its broker, so it is no error yet.
    """
    topic = options.topic
    if topic is None:
        return None
    with closing(Brokers(options.access)) as brokers:
        try:
            brokers.patiently(lambda: queues_to_write(brokers, topic, create=options.create_topic))
        except NoRoute:
            if patient:
                return None
            raise
        return brokers.find_route(topic) if brokers.is_expected(topic) else None


def create_topic(
    brokers: Brokers, topic: str, *, queue_count: int, clock: Clock | None = None
) -> None:
    """Create a topic on every broker, and wait until the name servers know it from all of them."""
    info = ClusterInfo.decode(
        brokers.ask_name_server(Command.request(RequestCode.GET_BROKER_CLUSTER_INFO)).body
    )
    masters = {
        name: data.broker_addrs[_MASTER]
        for name, data in sorted(info.broker_addr_table.items())
        if _MASTER in data.broker_addrs
    }
    header = CreateTopicRequest(
        topic=topic,
        read_queue_nums=queue_count,
        write_queue_nums=queue_count,
        perm=PERM_READ | PERM_WRITE,
    )
    for name, address in masters.items():
        request = Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        answer = brokers.wire(address).call(request)
        if answer.code != 0:
            error = error_of(answer.code, answer.remark)
            error.add_note(f"createTopic={queue_count}: creating topic {topic!r} on broker {name}")
            raise error
    patience = Patience(APPEAR_S, clock=clock)
    while masters:
        route = brokers.find_route(topic)
        known = set() if route is None else {data.broker_name for data in route.queue_datas}
        if known >= masters.keys():
            return
        brokers.forget(topic)
        patience.pause(NoRoute(f"topic {topic!r} was created, and name servers do not know it yet"))


def unknown_text(topic: str, name_servers: tuple[str, ...]) -> str:
    """What is said of a topic that no name server knows and no broker makes."""
    return (
        f"topic {topic!r} is not known to the name servers {';'.join(name_servers)}, and no broker"
        " makes topics at their first message; write with the option createTopic=8 to make it with"
        " 8 queues on each broker, or set autoCreateTopicEnable=true in the brokers"
    )


def refused_text(topic: str, error: ContrailError) -> str:
    """What is said when the broker did not make a topic although it has the template."""
    return (
        f"the broker did not make topic {topic!r} at its first message ({error}); write with the"
        " option createTopic=8 to make it with 8 queues on each broker, or set"
        " autoCreateTopicEnable=true in the brokers"
    )
