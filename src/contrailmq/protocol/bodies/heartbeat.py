"""Bodies clients tell brokers about themselves, and the subscriptions in them."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from contrailmq.protocol.bodies.body import Body, Int, Long


class SubscriptionData(Body):
    """One subscription: which messages of a topic, and when it was made (``sub_version``)."""

    class_filter_mode: bool = False
    code_set: list[Int] = []
    expression_type: str = "TAG"
    sub_string: str = ""
    sub_version: Long = 0
    tags_set: list[str] = []
    topic: str = ""


class ProducerData(Body):
    """One producer group of a client."""

    group_name: str = ""


class ConsumerData(Body):
    """One consumer group of a client, with all it subscribes to."""

    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    consume_type: str = "CONSUME_PASSIVELY"
    group_name: str = ""
    message_model: str = "CLUSTERING"
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class HeartbeatData(Body):
    """Code 34's request: all groups of one client."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"heartbeat_fingerprint", "without_sub"})
    ALIASES: ClassVar[dict[str, str]] = {"clientId": "clientID"}

    client_id: str = msgspec.field(name="clientID", default="")
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: Int = 0
    producer_data_set: list[ProducerData] = []
    without_sub: bool = False


class CheckClientRequest(Body):
    """Code 46's request: may this group subscribe like this?"""

    client_id: str = ""
    group: str = ""
    namespace: str | None = None
    subscription_data: SubscriptionData | None = None
