"""May this group pop this topic, and what does it want?

The checks of POP, NOTIFICATION and PEEK, in the order of the original and with its codes.  What
was found out is reused while the broker's revision has not changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contrailmq.broker.config import permission
from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.tables.filters import ConsumerFilters, TagMatcher, is_tag_type
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.revision import Revision
from contrailmq.broker.tables.topics import TopicTable, topic_missing
from contrailmq.errors import (
    FilterError,
    NoPermission,
    SubscriptionParseFailed,
    SystemFailure,
)
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.filter.tags import parse_tags
from contrailmq.store.types import Matcher

PLANS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class PopPlan:
    """What was found out about a group; true while the broker's revision is ``revision``."""

    revision: int
    topic: TopicConfig
    matcher: Matcher | None


class PopPlanner:
    """The checks, with a memory."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        filters: ConsumerFilters,
        *,
        live: LiveSettings,
        identity: Identity,
        revision: Revision,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._filters = filters
        self._live = live
        self._identity = identity
        self._revision = revision
        self._plans: dict[tuple[str, str, str | None, str | None], PopPlan] = {}

    def plan(
        self, group: str, topic: str, queue_id: int, *,
        expression: str | None = None, expression_type: str | None = None, peer: object = "",
    ) -> PopPlan:  # fmt: skip
        """The plan of a request that is allowed; raises the refusal of one that is not."""
        key = (group, topic, expression, expression_type)
        plan = self._plans.get(key)
        if plan is not None and plan.revision == self._revision.value:
            config = plan.topic
        else:
            plan = None
            config = self._topic(topic)
        if queue_id >= config.read_queue_nums:
            raise SystemFailure(
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queue_nums}] consumer:[/{peer}]"
            )
        if plan is None:
            self._check_group(group)
            matcher = self._matcher(expression, expression_type)
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()  # the bound: all are checked anew
            plan = self._plans[key] = PopPlan(self._revision.value, config, matcher)
        return plan

    def check_readable(self, verb: str) -> None:
        """Raise unless this broker lets consumers read."""
        if not self._live.permission.is_readable:
            ip = self._identity.address.rpartition(":")[0]
            raise NoPermission(f"the broker[{ip}] {verb} message is forbidden")

    def _topic(self, topic: str) -> TopicConfig:
        config = self._topics.find(topic)
        if config is None:
            raise topic_missing(topic)
        if not permission.is_readable(config.perm):
            raise NoPermission(f"the topic[{topic}] peeking message is forbidden")
        return config

    def _check_group(self, group: str) -> None:
        auto_create = self._live.now.auto_create_group
        config = self._groups.get_or_create(group, auto_create=auto_create)
        if not config.consume_enable:
            raise NoPermission(f"subscription group no permission, {group}")

    def _matcher(self, expression: str | None, expression_type: str | None) -> Matcher | None:
        if not expression:
            return None
        try:
            if not is_tag_type(expression_type):
                return self._filters.compile(expression)
            tags = parse_tags(expression)
        except FilterError as error:
            raise SubscriptionParseFailed("parse the consumer's subscription failed") from error
        return None if tags.is_all or not tags.codes else TagMatcher(tags.codes)
