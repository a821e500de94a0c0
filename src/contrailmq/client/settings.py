"""What can be chosen about a client, a producer and a consumer, with Java's defaults.

Three frozen objects: ``ClientSettings`` (who we are and how to reach the cluster) is shared by all
kinds of client, ``ProducerSettings`` and ``ConsumerSettings`` add their own.  ``World`` holds what
tests replace: network, clock, randomness.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from contrailmq.client.access import Credentials, Tls
from contrailmq.client.producer.settings import ProducerSettings
from contrailmq.clock import Clock, SystemClock
from contrailmq.net.network import AsyncioNetwork, Network
from contrailmq.net.settings import ClientNetSettings
from contrailmq.protocol.command import Serialization

__all__ = [
    "ClientSettings",
    "ConsumerSettings",
    "Credentials",
    "ProducerSettings",
    "Tls",
    "World",
    "network_of",
]

SERIALIZATION_VARIABLE: Final = "ROCKETMQ_SERIALIZE_TYPE"


def _serialization() -> Serialization:
    text = os.environ.get(SERIALIZATION_VARIABLE, "JSON").upper()
    return Serialization.ROCKETMQ if text == "ROCKETMQ" else Serialization.JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Who a client is, and how it talks to name servers and brokers (ClientConfig)."""

    instance_name: str | None = None
    """The last part of the client's id. None makes a unique one from process and time."""
    unit_name: str | None = None
    """The unit of a multi-unit deployment. It becomes part of the client's id and of the discovery
    address."""
    client_ip: str | None = None
    """The address in the client's id. None: the address this machine uses to reach others."""
    namespace: str = ""
    """A prefix for all topics and groups of this client, as in RocketMQ's namespaces."""
    credentials: Credentials | None = None
    """The account that signs requests. None sends them unsigned."""
    tls: Tls | None = None
    """How connections are protected. None makes plain ones."""
    vip_channel: bool = False
    """Whether to send to the broker's second port (its port minus 2)."""
    serialization: Serialization = field(default_factory=_serialization)
    """The form of request headers. The default follows `ROCKETMQ_SERIALIZE_TYPE`."""
    discovery_url: str | None = None
    """An HTTP address that answers with the list of name servers."""
    discovery_interval_s: float = 120.0
    """Pause between two requests to `discovery_url`."""
    call_timeout_s: float = 3.0
    """How long a request to a server may take."""
    route_interval_s: float = 30.0
    """Pause between two refreshes of the known routes."""
    heartbeat_interval_s: float = 30.0
    """Pause between two heartbeats to each broker."""
    net: ClientNetSettings = field(default_factory=ClientNetSettings)
    """Bounds and timeouts of connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """How a consumer pulls, holds and settles messages (DefaultMQPushConsumer)."""

    pull_count: int = 32
    """Most messages per pull."""
    pull_size: int = 256 * 1024
    """Most bytes per pull, where the broker supports it."""
    pull_interval_s: float = 0.0
    """Pause between two pulls of one queue."""
    suspend_s: float = 15.0
    """How long a broker may hold a pull that finds no message."""
    pull_timeout_s: float = 30.0
    """How long a pull may take, including the time it is held."""
    queue_count_max: int = 1000
    """Messages per queue that may wait in the consumer; at this number pulling pauses."""
    queue_size_max: int = 100 * 1024 * 1024
    """Bytes per queue that may wait in the consumer; at this size pulling pauses."""
    queue_span_max: int = 2000
    """Largest distance between the first and the last unsettled offset of a queue. Beyond it
    pulling pauses. Ordered consumption has no such limit."""
    consume_timeout_s: float = 900.0
    """A handler that takes longer than this loses its message: it is sent back for a retry."""
    retries_max: int = -1
    """How often a message is delivered again before it becomes a dead letter. -1 means 16 times,
    and without end for ordered consumption."""
    suspend_ordered_s: float = 1.0
    """Pause before an ordered queue tries a failed message again."""
    rebalance_interval_s: float = 20.0
    """Pause between two checks of which queues belong to this member."""
    lock_interval_s: float = 20.0
    """Pause between two renewals of the queue locks of ordered consumption."""
    lock_life_s: float = 30.0
    """How long a queue lock counts without a renewal."""
    commit_interval_s: float = 5.0
    """Pause between two commits of consumed offsets."""
    error_pause_s: float = 1.0
    """Pause before a failed pull is tried again."""
    close_timeout_s: float = 10.0
    """How long closing waits for handlers that are running."""
    offset_directory: str | None = None
    """The folder for offsets of broadcast consumption. None: `~/.rocketmq_offsets`."""
    trace_topic: str | None = None
    """The topic for message traces, for example `RMQ_SYS_TRACE_TOPIC`. None sends no traces."""
    poll_batch: int = 32
    """Most messages per poll of a lite pull consumer."""
    on_bad_message: Literal["dead_letter", "deliver", "skip"] = "dead_letter"
    """What becomes of a message whose body cannot be opened (wrong checksum, unknown compression).
    It becomes a dead letter at once (lite pull and broadcast consumers skip it), is delivered with
    `problem` set, or is skipped. Each is logged with queue and offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The outside world of a client: replaced by simulations."""

    network: Network = field(default_factory=AsyncioNetwork)
    """How connections are made."""
    clock: Clock = field(default_factory=SystemClock)
    """The wall clock and the monotonic clock."""
    rng: random.Random = field(default_factory=random.Random)
    """The source of random choices."""


def network_of(settings: ClientSettings, world: World, *, alpn: Sequence[str] = ()) -> Network:
    """Return where the connections of a client come from: the world's network, or TLS over it.

    ``alpn`` names the protocols that are spoken over TLS.
    """
    if settings.tls is None:
        return world.network
    context = settings.tls.context()
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return AsyncioNetwork(client_tls=context)
