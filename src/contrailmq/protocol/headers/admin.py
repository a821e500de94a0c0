"""Headers of administration: connections, statistics, configuration, replication."""

from __future__ import annotations

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest, wire


class GetConsumerConnectionListRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 203: the clients of a consumer group."""

    consumer_group: str


class GetProducerConnectionListRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 204: the clients of a producer group."""

    producer_group: str


class GetConsumeStatsRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 208: offsets of a group; ``topic_list`` is separated by semicolons."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class ViewBrokerStatsRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 315: one statistic by name and key (ViewBrokerStatsDataRequestHeader)."""

    stats_name: str
    stats_key: str


class GetBrokerConsumeStatsRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 317: offsets of all groups (GetConsumeStatsInBrokerHeader)."""

    is_order: bool


class GetBrokerConfigResponse(Header, frozen=True, kw_only=True):
    """RequestCode 26's answer: the data version of the configuration, as JSON text."""

    version: str


class SetCommitLogReadModeRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 2004: 0 normal, 1 random reads of the log."""

    read_ahead_mode: str | None = wire("READ_AHEAD_MODE", default=None)


class ExchangeHARequest(Header, frozen=True, kw_only=True):
    """RequestCode 906, replica to primary; empty asks only (ExchangeHAInfoRequestHeader)."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


class ExchangeHAResponse(Header, frozen=True, kw_only=True):
    """The primary's own addresses and flushed offset (ExchangeHAInfoResponseHeader)."""

    master_ha_address: str | None = None
    master_flush_offset: int | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetRequest(Header, frozen=True, kw_only=True):
    """RequestCode 908: what the primary has flushed."""

    master_flush_offset: int


class NotifyBrokerRoleChangedRequest(Header, frozen=True, kw_only=True):
    """RequestCode 1008, controller to broker: who is primary now; the body has the in-sync set."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: int | None = None


class AddBrokerRequest(Header, frozen=True, kw_only=True):
    """RequestCode 902, to a broker container: start a broker from this configuration file."""

    config_path: str | None = None


class RemoveBrokerRequest(Header, frozen=True, kw_only=True):
    """RequestCode 903, to a broker container: stop one of its brokers."""

    broker_name: str
    broker_cluster_name: str
    broker_id: int
