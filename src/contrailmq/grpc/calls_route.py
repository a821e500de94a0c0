"""QueryRoute and QueryAssignment: where a topic is, and what a push consumer receives from."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from contrailmq.errors import BrokerError, NoRoute
from contrailmq.grpc import checks
from contrailmq.grpc.backend import Backend, Need, awaited
from contrailmq.grpc.caller import Caller
from contrailmq.grpc.codes import Code, Refusal, ok
from contrailmq.grpc.converting import TYPES
from contrailmq.grpc.messages import (
    Address,
    Assignment,
    Broker,
    Endpoints,
    MessageQueue,
    MessageType,
    Permission,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    Resource,
    Scheme,
)
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.bodies.topic import PERM_READ, PERM_WRITE
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.hosts import split_address
from contrailmq.protocol.names import MASTER_ID

QUEUES_MAX: Final = 65_536  # of one answer; a route with more is cut
ALL_QUEUES: Final = -1


def endpoints_of(addresses: list[tuple[str, int]]) -> Endpoints:
    """Endpoints whose scheme says what the first host is."""
    return Endpoints(scheme_of(addresses[0][0]), [Address(host, port) for host, port in addresses])


def scheme_of(host: str) -> Scheme:
    """Whether a host is an address or a name."""
    try:
        version = ipaddress.ip_address(host.strip("[]")).version
    except ValueError:
        return Scheme.DOMAIN_NAME
    return Scheme.IPV4 if version == 4 else Scheme.IPV6


@dataclass(slots=True)
class Places:
    """Which endpoints clients are told for a broker.

    A client that reached this server is told the endpoints it used: they work for it.  Without
    ``own_name`` that holds for all brokers, since this server stands for all of them.
    """

    own_name: str = ""
    own_host: str = "127.0.0.1"
    port: int = 8081
    advertised: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def of(self, broker: BrokerData, broker_id: int, asked: Endpoints | None) -> Endpoints:
        """The endpoints of one member of a broker name."""
        if broker.broker_name in self.advertised:
            return endpoints_of([self.advertised[broker.broker_name]])
        is_own = not self.own_name or (broker.broker_name == self.own_name and not broker_id)
        if is_own:
            if asked is not None and asked.addresses:
                return asked
            return endpoints_of([(self.own_host, self.port)])
        try:
            host = split_address(broker.broker_addrs[broker_id])[0]
        except (KeyError, ValueError):
            host = self.own_host
        return endpoints_of([(host, self.port)])


class RouteCalls:
    """QueryRoute and QueryAssignment."""

    def __init__(self, backend: Backend, places: Places) -> None:
        self._backend = backend
        self._places = places

    def route_needs(self, request: QueryRouteRequest) -> list[Need]:
        """Any account may ask where a topic is."""
        return []

    async def route(self, context: Caller, request: QueryRouteRequest) -> QueryRouteResponse:
        """Every queue of a topic, on primaries and replicas."""
        topic = checks.topic_of(request.topic)
        route = await self._route(topic)
        accepted = accepted_types(await awaited(self._backend.message_type(topic)))
        brokers = {broker.broker_name: broker for broker in route.broker_datas}
        resource = Resource(request.topic.resource_namespace if request.topic else "", topic)
        found: list[MessageQueue] = []
        for queues in route.queue_datas:
            broker = brokers.get(queues.broker_name)
            for broker_id in sorted(broker.broker_addrs) if broker is not None else ():
                assert broker is not None
                endpoints = self._places.of(broker, broker_id, request.endpoints)
                member = Broker(broker.broker_name, broker_id, endpoints)
                found += [
                    MessageQueue(resource, number, permission, member, accepted)
                    for number, permission in enumerate(permissions(queues))
                ]
        return QueryRouteResponse(ok(), found[:QUEUES_MAX])

    def assignment_needs(self, request: QueryAssignmentRequest) -> list[Need]:
        """The group consumes the topic."""
        return [consuming(request.topic, request.group)]

    async def assignment(
        self, context: Caller, request: QueryAssignmentRequest
    ) -> QueryAssignmentResponse:
        """One queue for all of a broker; ordered groups get each readable queue."""
        topic, group = checks.topic_of(request.topic), checks.group_of(request.group)
        route = await self._route(topic)
        config = await awaited(self._backend.find_group(group))
        is_ordered = config is not None and config.consume_message_orderly
        brokers = {broker.broker_name: broker for broker in route.broker_datas}
        resource = Resource(request.topic.resource_namespace if request.topic else "", topic)
        found: list[Assignment] = []
        for queues in route.queue_datas:
            broker = brokers.get(queues.broker_name)
            if broker is None or MASTER_ID not in broker.broker_addrs:
                continue
            readable = queues.read_queue_nums if queues.perm & PERM_READ else 0
            if not readable:
                continue
            endpoints = self._places.of(broker, MASTER_ID, request.endpoints)
            member = Broker(broker.broker_name, MASTER_ID, endpoints)
            is_writable = bool(queues.perm & PERM_WRITE)
            permission = Permission.READ_WRITE if is_writable else Permission.READ
            numbers = range(readable) if is_ordered else (ALL_QUEUES,)
            found += [
                Assignment(MessageQueue(resource, number, permission, member)) for number in numbers
            ]
        if not found:
            raise Refusal(Code.FORBIDDEN, "no readable queue")
        return QueryAssignmentResponse(ok(), found[:QUEUES_MAX])

    async def _route(self, topic: str) -> TopicRouteData:
        try:
            return await awaited(self._backend.route(topic))
        except NoRoute as error:
            raise Refusal(Code.TOPIC_NOT_FOUND, str(error)) from None
        except BrokerError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            raise Refusal(
                Code.TOPIC_NOT_FOUND, f"CODE: {error.code}  DESC: {error.remark}"
            ) from None


def consuming(topic: Resource | None, group: Resource | None) -> Need:
    """The need of a consumer."""
    return Need(
        topic=topic.name if topic is not None else "", group=group.name if group is not None else ""
    )


def permissions(queues: QueueData) -> list[Permission]:
    """What each queue is for: those only for reading, those only for writing, those for both."""
    is_readable, is_writable = bool(queues.perm & PERM_READ), bool(queues.perm & PERM_WRITE)
    reads = queues.read_queue_nums if is_readable else 0
    writes = queues.write_queue_nums if is_writable else 0
    both = min(reads, writes)
    return (
        [Permission.READ] * (reads - both)
        + [Permission.WRITE] * (writes - both)
        + [Permission.READ_WRITE] * both
    )[:QUEUES_MAX]


def accepted_types(name: str) -> list[int]:
    """The kinds of messages a topic takes."""
    if name == "MIXED":
        return [int(kind) for kind in MessageType]
    kind = TYPES.get(name)
    return [int(kind)] if kind is not None else [0]
