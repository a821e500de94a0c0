"""Headers of routes and of the registration of brokers."""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRouteInfoRequest(TopicRequest):
    """RequestCode 105: which brokers have this topic?"""

    topic: str
    accept_standard_json_only: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRequest(Header):
    """RequestCode 103: here is a broker, its topics are in the body."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str = ""
    broker_id: int
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = wire("bodyCrc32", default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerResponse(Header):
    """For a replica: where its primary is."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest(Header):
    """RequestCode 104: this broker goes away."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDataVersionRequest(Header):
    """RequestCode 322: is the data version in the body the one the name server has?"""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDataVersionResponse(Header):
    """Whether the broker has to register again."""

    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequest(Header):
    """RequestCode 904: this broker is alive."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int | None = None
    epoch: Int32 | None = None
    max_offset: int | None = None
    confirm_offset: int | None = None
    heartbeat_timeout_mills: int | None = None
    election_priority: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerMemberGroupRequest(Header):
    """RequestCode 901: all addresses of one broker name."""

    cluster_name: str
    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyMinBrokerIdChangeRequest(Header):
    """RequestCode 905, name server to broker, oneway: the smallest live broker id changed."""

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeWritePermOfBrokerRequest(Header):
    """RequestCode 205: no topic of this broker may be written any more."""

    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeWritePermOfBrokerResponse(Header):
    """How many topics that changed."""

    wipe_topic_count: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWritePermOfBrokerRequest(Header):
    """RequestCode 327: all topics of this broker may be written again."""

    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWritePermOfBrokerResponse(Header):
    """How many topics that changed."""

    add_topic_count: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicFromNamesrvRequest(TopicRequest):
    """RequestCode 216: forget the routes of a topic, of one cluster if it is named."""

    topic: str
    cluster_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTopicRequest(TopicRequest):
    """RequestCode 217: add the routes in the body to a topic."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicsByClusterRequest(RpcRequest):
    """RequestCode 224: all topics of a cluster."""

    cluster: str
