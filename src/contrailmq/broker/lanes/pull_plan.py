"""May this consumer pull this topic, and what does it want?

The checks of a pull, in the order of the original and with its codes.  What was found out is a
``PullPlan`` that is reused while the broker's revision has not changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contrailmq.broker.config import permission
from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.tables.consumers import ConsumerTable
from contrailmq.broker.tables.filters import ConsumerFilters, TagMatcher, is_tag_type, tag_matcher
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.revision import Revision
from contrailmq.broker.tables.topics import TopicTable, topic_missing
from contrailmq.errors import (
    FilterDataNotExist,
    FilterDataNotLatest,
    FilterError,
    NoPermission,
    SubscriptionNotExist,
    SubscriptionNotLatest,
    SubscriptionParseFailed,
    SystemBusy,
    SystemFailure,
)
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.filter.tags import parse_tags
from contrailmq.protocol.headers.pull import SUBSCRIPTION_FLAG, PullMessageRequest
from contrailmq.store.types import Matcher

PLANS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What was found out about a consumer; true while the broker's revision is ``revision``."""

    revision: int
    topic: TopicConfig
    group: SubscriptionGroupConfig
    matcher: Matcher | None


class PullPlanner:
    """The checks of a pull, in the order of the original, with a memory."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerTable,
        *,
        filters: ConsumerFilters,
        live: LiveSettings,
        identity: Identity,
        revision: Revision,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._filters = filters
        self._revision = revision
        self._plans: dict[tuple[object, ...], PullPlan] = {}
        self.live = live
        self.identity = identity

    def plan(self, request: Command, header: PullMessageRequest, peer: Connection) -> PullPlan:
        """The plan of a pull that is allowed; raises the refusal of one that is not."""
        plan = self.decide(header, is_lite=request.code == RequestCode.LITE_PULL_MESSAGE)
        if not 0 <= header.queue_id < plan.topic.read_queue_nums:
            raise SystemFailure(
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{plan.topic.read_queue_nums}] consumer:[/{peer.peer}]"
            )
        return plan

    def decide(self, header: PullMessageRequest, *, is_lite: bool) -> PullPlan:
        """What is true for every queue of the topic; raises the refusal of a pull not allowed."""
        if header.sys_flag & SUBSCRIPTION_FLAG:
            key: tuple[object, ...] = (
                header.consumer_group,
                header.topic,
                header.subscription,
                header.expression_type,
                is_lite,
            )
        else:
            key = (header.consumer_group, header.topic, header.sub_version, is_lite)
        plan = self._plans.get(key)
        if plan is None or plan.revision != self._revision.value:
            plan = self._make(header, is_lite=is_lite)
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()  # the bound: everybody is checked anew
            self._plans[key] = plan
        return plan

    def _make(self, header: PullMessageRequest, *, is_lite: bool) -> PullPlan:
        settings, group, topic = self.live.now, header.consumer_group, header.topic
        if not self.live.permission.is_readable:
            raise NoPermission(f"the broker[{self.identity.address}] pulling message is forbidden")
        if is_lite and not settings.lite_pull:
            raise NoPermission(
                f"the broker[{self.identity.address}] for lite pull consumer is forbidden"
            )
        if not self.identity.is_known:
            raise SystemBusy("[REJECTREQUEST]this broker waits for a controller")
        if not self.identity.may_read:
            raise SystemBusy("[REJECTREQUEST]this replica waits for its primary's confirmation")
        group_config = self._groups.get_or_create(group, auto_create=settings.auto_create_group)
        if not group_config.consume_enable:
            raise NoPermission(f"subscription group no permission, {group}")
        topic_config = self._topics.find(topic)
        if topic_config is None:
            raise topic_missing(topic)
        if not permission.is_readable(topic_config.perm):
            raise NoPermission(f"the topic[{topic}] pulling message is forbidden")
        if header.sys_flag & SUBSCRIPTION_FLAG:
            matcher = self._matcher_of_request(header)
        else:
            matcher = self._matcher_of_session(header, group_config)
        return PullPlan(self._revision.value, topic_config, group_config, matcher)

    def _matcher_of_request(self, header: PullMessageRequest) -> Matcher | None:
        if is_tag_type(header.expression_type):
            try:
                tags = parse_tags(header.subscription)
            except FilterError as error:
                raise SubscriptionParseFailed("parse the consumer's subscription failed") from error
            return None if tags.is_all or not tags.codes else TagMatcher(tags.codes)
        self._check_type(header.expression_type)
        try:
            return self._filters.compile(header.subscription or "")
        except FilterError:
            return None  # as the original: only code 46 and heartbeats refuse a bad expression

    def _matcher_of_session(
        self, header: PullMessageRequest, config: SubscriptionGroupConfig
    ) -> Matcher | None:
        group, topic = header.consumer_group, header.topic
        session = self._consumers.find(group)
        if session is None:
            raise SubscriptionNotExist("the consumer's group info not exist")
        if not config.consume_broadcast_enable and session.is_broadcasting:
            raise NoPermission(f"the consumer group[{group}] can not consume by broadcast way")
        if self._groups.forbidden(group, topic) & 1:
            raise NoPermission(f"the consumer group[{group}] is forbidden for topic[{topic}]")
        subscription = session.subscriptions.get(topic)
        if subscription is None:
            raise SubscriptionNotExist("the consumer's subscription not exist")
        if subscription.sub_version < header.sub_version:
            raise SubscriptionNotLatest("the consumer's subscription not latest")
        if is_tag_type(subscription.expression_type):
            return tag_matcher(subscription)
        entry = self._filters.find(group, topic)
        if entry is None:
            raise FilterDataNotExist("the consumer's filter data not exist!")
        if entry.client_version < subscription.sub_version:
            raise FilterDataNotLatest("the consumer's consumer filter data not latest")
        self._check_type(subscription.expression_type)
        return entry.matcher

    def _check_type(self, expression_type: str | None) -> None:
        if not self.live.now.property_filter:
            raise SystemFailure(
                f"The broker does not support consumer to filter message by {expression_type}; "
                "enablePropertyFilter is false"
            )
