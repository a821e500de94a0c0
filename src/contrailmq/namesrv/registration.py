"""The values the route table is made of and speaks in."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.bodies.version import DataVersion

Address = tuple[str, str]
"""Cluster and ``ip:port``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much the table may hold; what would go beyond is refused with the number."""

    topics_max: int = 200_000
    brokers_max: int = 10_000
    name_size_max: int = 512
    filters_max: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker says about itself."""

    cluster: str
    broker_name: str
    address: str
    broker_id: int
    ha_address: str = ""
    lease_ms: int | None = None
    acting_master: bool | None = None  # None: a broker older than 5.0
    zone: str | None = None
    version: DataVersion = field(default_factory=DataVersion)
    topics: Mapping[str, TopicConfig] = field(default_factory=dict)
    mappings: Mapping[str, Any] = field(default_factory=dict)
    filters: list[str] | None = None
    owner: Hashable = None
    refuse_single_topic: bool = False


@dataclass(slots=True, kw_only=True)
class Lease:
    """One address that is alive."""

    broker_name: str
    heard_ms: int
    lease_ms: int
    version: DataVersion
    ha_address: str
    owner: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class MinIdChange:
    """The smallest id of a broker name changed: those who are to be told, and what."""

    broker_name: str
    min_id: int
    min_address: str
    offline_address: str | None
    ha_address: str | None
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """How a registration ended."""

    primary_address: str | None = None
    primary_ha_address: str | None = None
    is_new: bool = False
    is_ignored: bool = False  # another address holds this id with a newer state version
    change: MinIdChange | None = None
