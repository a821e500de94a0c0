"""Bodies of routes and clusters."""

from __future__ import annotations

from typing import Any, ClassVar

from contrailmq.protocol.bodies.body import Body, Int, Long


class BrokerData(Body):
    """The addresses of one broker name by broker id; 0 is the primary."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"enable_acting_master", "zone_name"})

    broker_addrs: dict[Long, str] = {}
    broker_name: str = ""
    cluster: str = ""
    enable_acting_master: bool = False
    zone_name: str | None = None


class QueueData(Body):
    """How many queues of a topic one broker name has, and what may be done with them."""

    ALIASES: ClassVar[dict[str, str]] = {"topicSynFlag": "topicSysFlag"}

    broker_name: str = ""
    perm: Int = 0
    read_queue_nums: Int = 0
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 0


class TopicRouteData(Body):
    """Where a topic lives (code 105)."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"topic_queue_mapping_by_broker"})

    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []
    topic_queue_mapping_by_broker: dict[str, Any] | None = None

    def encode(self, *, legacy: bool = False, standard: bool = True, pretty: bool = False) -> bytes:
        """The body's bytes, by default as standard JSON, which every client reads."""
        return Body.encode(self, legacy=legacy, standard=standard, pretty=pretty)


class ClusterInfo(Body):
    """All brokers and clusters a name server knows (code 106)."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroup(Body):
    """All addresses of one broker name."""

    broker_addrs: dict[Long, str] = {}
    broker_name: str = ""
    cluster: str = ""


class GetBrokerMemberGroupResponse(Body):
    """Code 901's answer."""

    broker_member_group: BrokerMemberGroup | None = None


class KVTable(Body):
    """A table of text: KV configuration, runtime information."""

    table: dict[str, str] = {}


class KVConfigTable(Body):
    """The name server's ``kvConfig.json``: values by key by namespace."""

    config_table: dict[str, dict[str, str]] = {}
