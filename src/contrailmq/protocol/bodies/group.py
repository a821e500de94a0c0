"""Bodies of subscription groups."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from contrailmq.protocol.bodies.body import Body, Int, Long
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.bodies.version import DataVersion


class CustomizedRetryPolicy(Body):
    """Waiting times, in milliseconds, of the first, second, … retry."""

    next: list[Long] = []


class ExponentialRetryPolicy(Body):
    """Waiting times that grow by a factor, in milliseconds."""

    initial: Long = 5_000
    max: Long = 7_200_000
    multiplier: Long = 2


class GroupRetryPolicy(Body):
    """How POP retries; ``type`` is CUSTOMIZED or EXPONENTIAL."""

    customized_retry_policy: CustomizedRetryPolicy | None = None
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    type: str = "CUSTOMIZED"


class SimpleSubscription(Body):
    """A subscription that is part of a group's configuration (SimpleSubscriptionData)."""

    expression: str = ""
    expression_type: str = "TAG"
    topic: str = ""
    version: Long = 0


class SubscriptionGroupConfig(Body):
    """One consumer group: whether and how it may consume."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset(
        {
            "attributes",
            "consume_message_orderly",
            "consume_timeout_minute",
            "group_retry_policy",
            "group_sys_flag",
            "subscription_data_set",
        }
    )

    attributes: dict[str, str] = {}
    broker_id: Long = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: Int = 15
    group_name: str = ""
    group_retry_policy: GroupRetryPolicy = msgspec.field(default_factory=GroupRetryPolicy)
    group_sys_flag: Int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int = 16
    retry_queue_nums: Int = 1
    subscription_data_set: list[SimpleSubscription] | None = None
    which_broker_when_consume_slowly: Long = 1


class SubscriptionGroupWrapper(Body):
    """All groups of a broker: ``subscriptionGroup.json`` and the answer to code 201."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"forbidden_table"})

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, Int]] | None = None
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}


class SubscriptionGroupList(Body):
    """Code 225's request: several groups at once."""

    group_config_list: list[SubscriptionGroupConfig] = []


class GroupForbidden(Body):
    """Code 353's answer: may this group read this topic?"""

    group: str = ""
    readable: bool | None = None
    topic: str = ""


class ConsumerListBody(Body):
    """Code 38's answer: the ids of the clients in a group."""

    consumer_id_list: list[str] = []


class GroupList(Body):
    """Code 300's answer: names of groups."""

    group_list: list[str] = []


class QuerySubscriptionResponse(Body):
    """Code 345's answer: what a group subscribes to."""

    group: str = ""
    subscription_data: SubscriptionData | None = None
    topic: str = ""
