"""A producer's requests as calls: routes, sends, ends of transactions, recalls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from contrailmq.errors import ClientError
from contrailmq.grpc.converting import HIDDEN_PROPERTIES, kind_of
from contrailmq.grpc.messages import (
    Address,
    Encoding,
    Endpoints,
    MessageQueue,
    MessageType,
    Moment,
    Permission,
    QueryRouteRequest,
    Resource,
    Scheme,
    SystemProperties,
    WireMessage,
)
from contrailmq.protocol import properties as names
from contrailmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from contrailmq.protocol.command import Command
from contrailmq.protocol.compression import compression_of, decompress
from contrailmq.protocol.headers.send import SendMessageRequest, SendMessageRequestV2
from contrailmq.protocol.hosts import split_address
from contrailmq.protocol.properties import decode_properties_text, split_keys
from contrailmq.protocol.sysflag import is_compressed

PERM_READ: Final = 4
PERM_WRITE: Final = 2
NO_OFFSET_ID: Final = "0" * 32  # the service does not say where a message lies


def endpoints_of(address: str) -> Endpoints:
    """One address as endpoints."""
    host, port = split_address(address)
    if ":" in host:
        scheme = Scheme.IPV6
    elif host.replace(".", "").isdecimal():
        scheme = Scheme.IPV4
    else:
        scheme = Scheme.DOMAIN_NAME
    return Endpoints(scheme, [Address(host, port)])


def address_of(endpoints: Endpoints | None) -> str:
    """The first address of endpoints; empty without one."""
    if endpoints is None or not endpoints.addresses:
        return ""
    first = endpoints.addresses[0]
    return f"[{first.host}]:{first.port}" if ":" in first.host else f"{first.host}:{first.port}"


def route_request(topic: str, address: str) -> QueryRouteRequest:
    """Ask where a topic is."""
    return QueryRouteRequest(Resource(name=topic), endpoints_of(address))


def route_data(queues: Iterable[MessageQueue], asked: str) -> TopicRouteData:
    """A route as name servers give it."""
    brokers: dict[str, dict[int, str]] = {}
    counts: dict[str, list[int]] = {}
    for queue in queues:
        broker = queue.broker
        if broker is None:
            continue
        brokers.setdefault(broker.name, {})[broker.id] = address_of(broker.endpoints) or asked
        if broker.id != 0:
            continue
        count = counts.setdefault(broker.name, [0, 0])
        count[0] += queue.permission in (Permission.READ, Permission.READ_WRITE)
        count[1] += queue.permission in (Permission.WRITE, Permission.READ_WRITE)
    return TopicRouteData(
        broker_datas=[
            BrokerData(broker_name=name, broker_addrs=addresses, cluster="grpc")
            for name, addresses in brokers.items()
        ],
        queue_datas=[
            QueueData(
                broker_name=name,
                read_queue_nums=reads,
                write_queue_nums=writes,
                perm=(PERM_READ if reads else 0) | (PERM_WRITE if writes else 0),
            )
            for name, (reads, writes) in counts.items()
        ],
    )


def send_header(command: Command) -> SendMessageRequest:
    """The header of a send of either form; raises for what the service has no call for."""
    if "b" in command.fields:
        header = SendMessageRequestV2.from_fields(command.fields).v1()
    else:
        header = SendMessageRequest.from_fields(command.fields)
    if header.batch:
        raise ClientError("a batch cannot be sent by gRPC; send its messages one by one")
    return header


def wire_message(header: SendMessageRequest, body: bytes) -> WireMessage:
    """A message to send, with its body plain."""
    found = decode_properties_text(header.properties or "")
    if is_compressed(header.sys_flag):
        body = decompress(body, compression_of(header.sys_flag))
    kind = kind_of(found)
    keys = found.get(names.PROPERTY_KEYS)
    due = found.get(names.PROPERTY_TIMER_DELIVER_MS)
    seconds = found.get(names.PROPERTY_TIMER_DELAY_SEC)
    if due is None and seconds is not None:
        due = str(header.born_timestamp + int(seconds) * 1000)
    if due is None and names.PROPERTY_DELAY in found:
        raise ClientError("a delay level cannot be sent by gRPC; give delay_s or deliver_at_ms")
    system = SystemProperties(
        tag=found.get(names.PROPERTY_TAGS),
        keys=split_keys(keys) if keys else [],
        message_id=found.get(names.PROPERTY_UNIQUE_KEY, ""),
        body_encoding=Encoding.IDENTITY,
        message_type=kind,
        born_timestamp=Moment.of_ms(header.born_timestamp),
        queue_id=max(header.queue_id, 0),
        delivery_timestamp=Moment.of_ms(int(due)) if due is not None else None,
        message_group=found.get(names.PROPERTY_SHARDING_KEY),
        trace_context=found.get(names.PROPERTY_TRACE_CONTEXT),
    )
    immunity = found.get(names.PROPERTY_CHECK_IMMUNITY_TIME)
    if kind == MessageType.TRANSACTION and immunity is not None:
        system.orphaned_transaction_recovery_duration = Moment(int(immunity))
    hidden = HIDDEN_PROPERTIES
    user = {name: value for name, value in found.items() if name not in hidden}
    return WireMessage(Resource(name=header.topic), user, system, body)
