"""The doctor's look at queues in which a group has never committed an offset.

A broker's figures about a group begin with its first commit, so a group that hangs at its very
first message is not behind anywhere: it is just not there.  Its subscriptions and the bounds of
the queues say what waits, and its members say what they hold of it.  A queue of which a member
holds nothing is none: its consumer began at the end and waits for what comes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from contrailmq.admin.client import AdminClient
from contrailmq.admin.doctor.findings import Chart, Severity
from contrailmq.errors import ContrailError
from contrailmq.protocol.bodies.clients import ConsumerConnection, ProcessQueueInfo
from contrailmq.protocol.bodies.stats import ConsumeStats
from contrailmq.protocol.names import is_retry_or_dlq, retry_topic
from contrailmq.protocol.queue import MessageQueue

BROADCASTING: Final = "BROADCASTING"  # each member keeps its own offsets, at its own place
PUSHING: Final = "CONSUME_PASSIVELY"  # those that pull choose their queues themselves
PLACES_SHOWN: Final = 8


@dataclass(slots=True, kw_only=True)
class Uncommitted:
    """Queues with messages and without an offset, and what members hold of them, at one moment.

    ``held`` has the first offset a member holds of a queue, None when it owns the queue and holds
    nothing.
    """

    waiting: dict[MessageQueue, int] = field(default_factory=dict)
    held: dict[MessageQueue, int | None] = field(default_factory=dict)
    are_told: bool = True


async def look(
    admin: AdminClient, group: str, connection: ConsumerConnection, stats: ConsumeStats
) -> Uncommitted:
    """What a connected group has never committed to; nothing for one that broadcasts."""
    found = Uncommitted()
    if connection.message_model == BROADCASTING or not connection.connection_set:
        return found
    for topic in sorted(connection.subscription_table):
        if is_retry_or_dlq(topic):
            continue
        for queue, count in (await _messages(admin, topic)).items():
            if count and queue not in stats.offset_table:
                found.waiting[queue] = count
    if not found.waiting:
        return found
    for member in connection.connection_set:
        try:
            running = await admin.groups.running_info(group, member.client_id)
        except ContrailError:
            found.are_told = False
            continue
        found.held.update({queue: _first(one) for queue, one in running.mq_table.items()})
        found.held.update(dict.fromkeys(running.mq_pop_table, None))
    found.are_told = found.are_told and connection.consume_type == PUSHING
    return found


def judge(chart: Chart, group: str, before: Uncommitted, after: Uncommitted) -> None:
    """Say what did not move from one moment to the next."""
    still = [queue for queue in after.waiting if queue in before.waiting]
    hanging = [
        queue
        for queue in still
        if after.held.get(queue) is not None and before.held.get(queue) == after.held[queue]
    ]
    for topic, queues in _by_topic(hanging).items():
        first = after.held[queues[0]]
        chart.add(
            Severity.WARNING, "queue",
            f"group {group} has never committed an offset in {topic}: {_places(queues)}; "
            f"{_waiting(after, queues)}",
            cause=f"a handler hangs at the first message it got (offset {first} of "
            f"{_places(queues[:1])}), or takes longer than we looked",
            fix=f"contrail admin consumerStatus -g {group} -s shows where; then restart that "
            f"member, or skip: contrail group reset {group} {topic} --to last",
        )  # fmt: skip
    loose = [queue for queue in still if queue not in after.held and queue not in before.held]
    for topic, queues in _by_topic(loose).items():
        is_sure = before.are_told and after.are_told
        chart.add(
            Severity.WARNING if is_sure else Severity.NOTE, "queue",
            f"group {group} has never committed an offset in {topic}: {_places(queues)}; "
            f"{_waiting(after, queues)}",
            cause="no member has taken these queues: there are fewer queues to read than to write, "
            "or members do not see this broker"
            if is_sure
            else "its members do not say what they hold: they pull by themselves, or hang",
            fix=f"contrail topic show {topic}; contrail admin consumerStatus -g {group}",
        )  # fmt: skip


async def examine_absent(admin: AdminClient, chart: Chart, group: str) -> None:
    """A group without a member that has no offset anywhere: what it wanted nobody knows."""
    retries = sum((await _messages(admin, retry_topic(group))).values())
    if retries:
        chart.add(
            Severity.WARNING, "group",
            f"group {group} has never committed an offset, and no member; {retries:,} retries wait",
            cause="its consumers stopped before they finished a message",
            fix=f"start them; contrail tail {retry_topic(group)} shows what they failed at",
        )  # fmt: skip
        return
    chart.add(
        Severity.NOTE, "group", f"group {group} has never committed an offset, and no member",
        cause="it was created ahead, or its consumers stopped before they finished a message",
        fix="start its consumers; or forget it: "
        f"contrail admin deleteSubGroup -c CLUSTER -g {group}",
    )  # fmt: skip


async def _messages(admin: AdminClient, topic: str) -> dict[MessageQueue, int]:
    """How many messages each queue of a topic has; nothing of a topic that nobody has."""
    try:
        stats = await admin.topics.stats(topic)
    except ContrailError:
        return {}
    return {queue: offset.max_offset - offset.min_offset for queue, offset in stats.items()}


def _first(held: ProcessQueueInfo) -> int | None:
    """The first offset of what a consumer holds; messages under way in order are apart."""
    firsts = [held.cached_msg_min_offset] if held.cached_msg_count else []
    firsts += [held.transaction_msg_min_offset] if held.transaction_msg_count else []
    return min(firsts, default=None)


def _by_topic(queues: Iterable[MessageQueue]) -> Mapping[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        found[queue.topic].append(queue)
    return found


def _places(queues: list[MessageQueue]) -> str:
    shown = [f"{queue.broker_name}/{queue.queue_id}" for queue in queues[:PLACES_SHOWN]]
    return ", ".join(shown) + (", …" if len(queues) > PLACES_SHOWN else "")


def _waiting(seen: Uncommitted, queues: list[MessageQueue]) -> str:
    return f"{sum(seen.waiting[queue] for queue in queues):,} messages wait"
