"""Headers of administration: connections, statistics, configuration, replication."""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerConnectionListRequest(RpcRequest):
    """RequestCode 203: the clients of a consumer group."""

    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetProducerConnectionListRequest(RpcRequest):
    """RequestCode 204: the clients of a producer group."""

    producer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStatsRequest(TopicRequest):
    """RequestCode 208: offsets of a group; ``topic_list`` is separated by semicolons."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBrokerStatsRequest(RpcRequest):
    """RequestCode 315: one statistic by name and key (ViewBrokerStatsDataRequestHeader)."""

    stats_name: str
    stats_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerConsumeStatsRequest(RpcRequest):
    """RequestCode 317: offsets of all groups (GetConsumeStatsInBrokerHeader)."""

    is_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerConfigResponse(Header):
    """RequestCode 26's answer: the data version of the configuration, as JSON text."""

    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCommitLogReadModeRequest(RpcRequest):
    """RequestCode 2004: 0 normal, 1 random reads of the log."""

    read_ahead_mode: str | None = wire("READ_AHEAD_MODE", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeHARequest(Header):
    """RequestCode 906, replica to primary; empty asks only (ExchangeHAInfoRequestHeader)."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeHAResponse(Header):
    """The primary's own addresses and flushed offset (ExchangeHAInfoResponseHeader)."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMasterFlushOffsetRequest(Header):
    """RequestCode 908: what the primary has flushed."""

    master_flush_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyBrokerRoleChangedRequest(Header):
    """RequestCode 1008, controller to broker: who is primary now; the body has the in-sync set."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddBrokerRequest(Header):
    """RequestCode 902, to a broker container: start a broker from this configuration file."""

    config_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveBrokerRequest(Header):
    """RequestCode 903, to a broker container: stop one of its brokers."""

    broker_name: str
    broker_cluster_name: str
    broker_id: int
