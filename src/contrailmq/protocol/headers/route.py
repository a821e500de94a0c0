"""Headers of routes and of the registration of brokers."""

from __future__ import annotations

from contrailmq.protocol.header import Header, Int32, RpcRequest, TopicRequest, wire


class GetRouteInfoRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 105: which brokers have this topic?"""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBrokerRequest(Header, frozen=True, kw_only=True):
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


class RegisterBrokerResponse(Header, frozen=True, kw_only=True):
    """For a replica: where its primary is."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerRequest(Header, frozen=True, kw_only=True):
    """RequestCode 104: this broker goes away."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


class QueryDataVersionRequest(Header, frozen=True, kw_only=True):
    """RequestCode 322: is the data version in the body the one the name server has?"""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


class QueryDataVersionResponse(Header, frozen=True, kw_only=True):
    """Whether the broker has to register again."""

    changed: bool


class BrokerHeartbeatRequest(Header, frozen=True, kw_only=True):
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


class GetBrokerMemberGroupRequest(Header, frozen=True, kw_only=True):
    """RequestCode 901: all addresses of one broker name."""

    cluster_name: str
    broker_name: str


class NotifyMinBrokerIdChangeRequest(Header, frozen=True, kw_only=True):
    """RequestCode 905, name server to broker, oneway: the smallest live broker id changed."""

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class WipeWritePermOfBrokerRequest(Header, frozen=True, kw_only=True):
    """RequestCode 205: no topic of this broker may be written any more."""

    broker_name: str


class WipeWritePermOfBrokerResponse(Header, frozen=True, kw_only=True):
    """How many topics that changed."""

    wipe_topic_count: Int32


class AddWritePermOfBrokerRequest(Header, frozen=True, kw_only=True):
    """RequestCode 327: all topics of this broker may be written again."""

    broker_name: str


class AddWritePermOfBrokerResponse(Header, frozen=True, kw_only=True):
    """How many topics that changed."""

    add_topic_count: Int32


class DeleteTopicFromNamesrvRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 216: forget the routes of a topic, of one cluster if it is named."""

    topic: str
    cluster_name: str | None = None


class RegisterTopicRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 217: add the routes in the body to a topic."""

    topic: str


class GetTopicsByClusterRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 224: all topics of a cluster."""

    cluster: str
