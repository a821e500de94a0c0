"""The doctor's look at consumer groups: of one mind, moving, and not drowning in retries."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

from contrailmq.admin.client import AdminClient
from contrailmq.admin.doctor.findings import Chart, Severity, counted
from contrailmq.admin.doctor.uncommitted import Uncommitted, examine_absent, judge, look
from contrailmq.errors import BrokerError, ConsumerNotOnline, ContrailError, NetworkError
from contrailmq.protocol.bodies.clients import ConsumerConnection
from contrailmq.protocol.bodies.stats import ConsumeStats
from contrailmq.protocol.names import (
    dlq_topic,
    is_retry_or_dlq,
    is_retry_topic,
    is_system_group,
)
from contrailmq.protocol.queue import MessageQueue

LAG_NOTE: Final = 10_000
RETRY_LAG_WARNING: Final = 100


class GroupVisit:
    """What one group looked like at one moment."""

    def __init__(
        self, stats: ConsumeStats, connection: ConsumerConnection, uncommitted: Uncommitted
    ) -> None:
        self.stats = stats
        self.connection = connection
        self.uncommitted = uncommitted

    @property
    def is_absent(self) -> bool:
        """Whether nothing but its name is known."""
        return not self.connection.connection_set and not self.stats.offset_table

    @property
    def may_change(self) -> bool:
        """Whether a second look can tell more: something waits, or has been retried before."""
        has_retried = any(
            is_retry_topic(queue.topic) and offset.broker_offset > 0
            for queue, offset in self.stats.offset_table.items()
        )
        return self.stats.total_diff() > 0 or has_retried or bool(self.uncommitted.waiting)


async def examine_groups(admin: AdminClient, chart: Chart, *, watch_s: float) -> None:
    """Look at every group twice, a while apart: what does not move in between is stuck."""
    groups = [group for group in await admin.groups.names() if not is_system_group(group)]
    first = {group: await _visit(admin, group) for group in groups}
    if any(visit is not None and visit.may_change for visit in first.values()):
        await asyncio.sleep(watch_s)
    for group in groups:
        before = first[group]
        if before is None:
            continue
        await _disagreement(admin, chart, group, before.connection)
        after = await _visit(admin, group) if before.may_change else before
        if after is not None:
            _progress(chart, group, before, after)
            judge(chart, group, before.uncommitted, after.uncommitted)
            _retries(chart, group, before, after)
            if after.is_absent:
                await examine_absent(admin, chart, group)
        await _dead_letters(admin, chart, group)
    chart.ok("group", f"{counted(len(groups), 'group')} examined")


async def _visit(admin: AdminClient, group: str) -> GroupVisit | None:
    try:
        connection = await admin.groups.connection(group)
    except ConsumerNotOnline:
        connection = ConsumerConnection()
    except (BrokerError, NetworkError):
        return None
    try:
        stats = await admin.offsets.stats(group)
    except (BrokerError, NetworkError):
        stats = ConsumeStats()
    return GroupVisit(stats, connection, await look(admin, group, connection, stats))


async def _disagreement(
    admin: AdminClient, chart: Chart, group: str, connection: ConsumerConnection
) -> None:
    """Members that subscribe differently take messages from each other and drop them."""
    wanted: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    members = [member.client_id for member in connection.connection_set]
    if len(members) < 2:
        return
    for client_id in members:
        try:
            running = await admin.groups.running_info(group, client_id)
        except ContrailError:
            continue
        topics = {}
        for data in running.subscription_set:
            if not is_retry_or_dlq(data.topic):
                topics[data.topic] = f"{data.expression_type} {data.sub_string}"
        for topic in {*topics, *wanted}:
            wanted[topic][topics.get(topic, "nothing")].append(client_id)
    for topic, expressions in sorted(wanted.items()):
        if len(expressions) > 1:
            told = "; ".join(f"{text!r} by {', '.join(ids)}" for text, ids in expressions.items())
            chart.add(
                Severity.PROBLEM, "subscription", f"group {group} disagrees on {topic}: {told}",
                cause="members of one group must subscribe alike, or messages are lost",
                fix=f"contrail group show {group} lists its members; give programs that want other "
                "messages a group of their own",
            )  # fmt: skip
    if not chart.has("subscription", at_least=Severity.PROBLEM):
        chart.ok("subscription", f"the {len(members)} members of {group} agree")


def _progress(chart: Chart, group: str, before: GroupVisit, after: GroupVisit) -> None:
    members = len(after.connection.connection_set)
    stuck: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue, now in after.stats.offset_table.items():
        then = before.stats.offset_table.get(queue)
        lag = now.broker_offset - now.consumer_offset
        still = then is not None and then.consumer_offset == now.consumer_offset
        if lag > 0 and still and not is_retry_topic(queue.topic):
            stuck[queue.topic].append(queue)
    lag = after.stats.total_diff()
    if members == 0 and lag > 0:
        behind = sorted({
            queue.topic
            for queue, now in after.stats.offset_table.items()
            if now.broker_offset > now.consumer_offset
        })  # fmt: skip
        skips = " && ".join(f"contrail group reset {group} {topic} --to last" for topic in behind)
        chart.add(
            Severity.WARNING, "group", f"group {group} is {lag:,} behind, without a member",
            cause="its consumers are not running, or cannot reach the broker",
            fix=f"start them; or skip: {skips}",
        )  # fmt: skip
        return
    for topic, queues in stuck.items():
        places = ", ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in queues[:8])
        chart.add(
            Severity.WARNING, "queue", f"group {group} does not move in {topic}: {places}",
            cause="a handler hangs, the member that owns the queue is stopped, "
            "or offsets are committed only every five seconds",
            fix=f"contrail group show {group}; contrail admin consumerStatus -g {group} -s shows "
            f"where it hangs; restart it, or skip: contrail group reset {group} {topic} --to last",
        )  # fmt: skip
    if not stuck and lag >= LAG_NOTE:
        chart.add(
            Severity.NOTE, "group", f"group {group} is {lag:,} behind, and moving",
            cause="more comes than its members take, or they have just come back",
            fix="more members, up to one a queue; or more workers in each",
        )  # fmt: skip


def _retries(chart: Chart, group: str, before: GroupVisit, after: GroupVisit) -> None:
    for queue, now in after.stats.offset_table.items():
        if not is_retry_topic(queue.topic):
            continue
        then = before.stats.offset_table.get(queue)
        grown = now.broker_offset - then.broker_offset if then is not None else 0
        waiting = now.broker_offset - now.consumer_offset
        if grown > 0 or waiting > RETRY_LAG_WARNING:
            chart.add(
                Severity.WARNING, "retry",
                f"group {group}: {waiting:,} retries wait on {queue.broker_name}, {grown:,} came "
                "while we looked",
                cause="its handler fails on messages it gets",
                fix=f"contrail tail {queue.topic} shows them; the consumer's log says why",
            )  # fmt: skip


async def _dead_letters(admin: AdminClient, chart: Chart, group: str) -> None:
    topic = dlq_topic(group)
    try:
        stats = await admin.topics.stats(topic)
    except ContrailError:
        return
    count = sum(offset.max_offset - offset.min_offset for offset in stats.values())
    if count:
        chart.add(
            Severity.NOTE, "dead letter", f"group {group} has {counted(count, 'dead letter')}",
            cause="they failed at every attempt",
            fix=f"contrail tail {topic} --from first shows them; send them again: "
            f"contrail pipeline redrive {group}  (or, without Spark, to a topic of yours: "
            f"contrail tail {topic} --from first --json | contrail send TOPIC --json-lines -)",
        )  # fmt: skip
