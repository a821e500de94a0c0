"""What can be chosen about a client, a producer and a consumer, with Java's defaults.

Three frozen objects: ``ClientSettings`` (who we are and how to reach the cluster) is shared by all
kinds of client, ``ProducerSettings`` and ``ConsumerSettings`` add their own.  ``World`` holds what
tests replace: network, clock, randomness.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import Final

from contrailmq.client.access import Credentials
from contrailmq.client.producer_settings import ProducerSettings
from contrailmq.clock import Clock, SystemClock
from contrailmq.net.network import AsyncioNetwork, Network
from contrailmq.net.settings import ClientNetSettings
from contrailmq.protocol.command import Serialization

__all__ = ["ClientSettings", "ConsumerSettings", "Credentials", "ProducerSettings", "World"]

SERIALIZATION_VARIABLE: Final = "ROCKETMQ_SERIALIZE_TYPE"


def _serialization() -> Serialization:
    text = os.environ.get(SERIALIZATION_VARIABLE, "JSON").upper()
    return Serialization.ROCKETMQ if text == "ROCKETMQ" else Serialization.JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Who a client is, and how it talks to name servers and brokers (ClientConfig)."""

    instance_name: str | None = None  # None: unlike any other, from process and moment
    unit_name: str | None = None
    client_ip: str | None = None  # None: the address the machine uses to reach others
    namespace: str = ""
    credentials: Credentials | None = None
    vip_channel: bool = False
    serialization: Serialization = field(default_factory=_serialization)
    discovery_url: str | None = None  # an HTTP address that answers with the name servers
    discovery_interval_s: float = 120.0
    call_timeout_s: float = 3.0
    route_interval_s: float = 30.0
    heartbeat_interval_s: float = 30.0
    net: ClientNetSettings = field(default_factory=ClientNetSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """How a consumer pulls, holds and settles messages (DefaultMQPushConsumer)."""

    pull_count: int = 32
    pull_size: int = 256 * 1024
    pull_interval_s: float = 0.0
    suspend_s: float = 15.0
    pull_timeout_s: float = 30.0
    queue_count_max: int = 1000
    queue_size_max: int = 100 * 1024 * 1024
    queue_span_max: int = 2000
    consume_timeout_s: float = 900.0
    retries_max: int = -1  # -1: 16 for concurrent, endless for ordered consumption
    suspend_ordered_s: float = 1.0
    rebalance_interval_s: float = 20.0
    lock_interval_s: float = 20.0
    lock_life_s: float = 30.0
    commit_interval_s: float = 5.0
    error_pause_s: float = 1.0
    close_timeout_s: float = 10.0
    offset_directory: str | None = None  # None: ~/.rocketmq_offsets
    trace_topic: str | None = None
    poll_batch: int = 32  # lite pull: messages of one poll at most


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The outside world of a client: replaced by simulations."""

    network: Network = field(default_factory=AsyncioNetwork)
    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.Random)
