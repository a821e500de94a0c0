"""Groups: the list, one group with its queues and members, and what a reset would do."""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from contrailmq.admin.moments import moment
from contrailmq.console.cluster import Group, Place
from contrailmq.console.desk import Desk
from contrailmq.console.listing import chosen_groups, cut, group_row
from contrailmq.console.topics_api import window_of
from contrailmq.console.web import Refused, answer, desk_of, text_of
from contrailmq.errors import ConsumerNotOnline, ContrailError
from contrailmq.protocol.bodies.clients import ConsumerConnection
from contrailmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, is_retry_or_dlq
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.versions import version_name

ROWS_MAX: Final = 2000
MEMBERS_ASKED: Final = 20


async def groups(request: Request) -> Response:
    """A window of the list; members are counted for its rows only."""
    desk = desk_of(request)
    await desk.view.fresh()
    window = window_of(request, "name")
    found = chosen_groups(desk, window)
    rows = cut(found, window)
    topics = {topic for group in rows for topic in group.committed}
    topics.update(DLQ_PREFIX + group.name for group in rows)
    await desk.view.know_ends(topics, age_s=10.0)
    return answer(
        {
            "total": len(found),
            "at": desk.view.tables_ms,
            "faults": desk.view.faults,
            "rows": [group_row(desk, group) for group in rows],
        }
    )


async def group(request: Request) -> Response:
    """One group: how far it is in every queue, who its members are, what they subscribe to."""
    desk = desk_of(request)
    found = await _known(desk, request.path_params["name"])
    await desk.view.know_ends([*found.committed, DLQ_PREFIX + found.name])
    read_ms = await desk.view.know_progress(found)
    try:
        connection = await desk.admin.groups.connection(found.name)
        fault = ""
    except ConsumerNotOnline:
        connection, fault = ConsumerConnection(), ""
    except ContrailError as error:
        connection, fault = ConsumerConnection(), str(error)
    config = next(iter(found.configs.values()), None)
    return answer(
        {
            **group_row(desk, found),
            "at": desk.view.now_ms(),
            "queues": _queue_rows(desk, found, read_ms),
            "members": [
                {
                    "id": member.client_id,
                    "address": member.client_addr,
                    "language": member.language,
                    "version": version_name(member.version),
                }
                for member in connection.connection_set
            ],
            "model": connection.message_model or "",
            "type": connection.consume_type or "",
            "start": connection.consume_from_where or "",
            "subscriptions": [
                {"topic": topic, "expression": data.sub_string, "kind": data.expression_type}
                for topic, data in sorted(connection.subscription_table.items())
            ],
            "fault": fault,
            "config": None
            if config is None
            else {
                "consumeEnable": config.consume_enable,
                "broadcast": config.consume_broadcast_enable,
                "orderly": config.consume_message_orderly,
                "retryMax": config.retry_max_times,
                "retryQueues": config.retry_queue_nums,
            },
            "series": {"lag": desk.history.points(f"lag:{found.name}")},
        }
    )


async def members(request: Request) -> Response:
    """What running members say about themselves; asked for by a button, since it asks clients."""
    desk = desk_of(request)
    found = await _known(desk, request.path_params["name"])
    client = text_of(request, "client")
    connection = await desk.admin.groups.connection(found.name)
    rows: list[dict[str, Any]] = []
    wanted: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for member in connection.connection_set[:MEMBERS_ASKED]:
        if client and member.client_id != client:
            continue
        try:
            running = await desk.admin.groups.running_info(
                found.name, member.client_id, stacks=bool(client)
            )
        except ContrailError as error:
            rows.append({"id": member.client_id, "fault": str(error)})
            continue
        for data in running.subscription_set:
            if not is_retry_or_dlq(data.topic):
                text = f"{data.expression_type} {data.sub_string}"
                wanted[data.topic][text].append(member.client_id)
        rows.append(
            {
                "id": member.client_id,
                "queues": [
                    {"topic": q.topic, "broker": q.broker_name, "queue": q.queue_id,
                     "held": p.cached_msg_count, "consumed": p.last_consume_timestamp}
                    for q, p in running.mq_table.items()
                ],
                "stacks": (running.jstack or "")[:65536],
                "rates": {
                    topic: {"ok": s.consume_ok_tps, "failed": s.consume_failed_tps,
                            "ms": s.consume_rt}
                    for topic, s in running.status_table.items()
                },
            }
        )  # fmt: skip
    mismatches = [
        {"topic": topic, "expressions": dict(texts)}
        for topic, texts in sorted(wanted.items())
        if len(texts) > 1
    ]
    return answer({"members": rows, "mismatches": mismatches})


async def reset_preview(request: Request) -> Response:
    """For each queue of a topic where a group is, where a reset would put it, what is between."""
    desk = desk_of(request)
    found = await _known(desk, request.path_params["name"])
    rows = await preview_rows(desk, found, text_of(request, "topic"), text_of(request, "to"))
    return answer({"rows": rows})


async def preview_rows(desk: Desk, group: Group, topic: str, to: str) -> list[dict[str, Any]]:
    """The rows of a preview: ``to`` is first, last, or a moment."""
    target = read_target(to)
    await desk.view.know_ends([topic], age_s=0)
    ends = desk.view.ends.get(topic)
    if ends is None:
        raise Refused(f"there is no topic {topic!r}", 404)
    rows = []
    for place, bounds in sorted(ends.queues.items()):
        queue = MessageQueue(topic, place.broker, place.queue)
        address = desk.view.addresses[place.broker]
        before = await desk.admin.offsets.committed(queue, group.name, address=address)
        if target == "first":
            after = bounds.low
        elif target == "last":
            after = bounds.high
        else:
            assert isinstance(target, int)
            after = await desk.admin.offsets.at_time(queue, target, address=address)
        rows.append({"broker": place.broker, "queue": place.queue, "before": before,
                     "after": after, "low": bounds.low, "high": bounds.high})  # fmt: skip
    return rows


def read_target(text: str) -> str | int:
    """``first``, ``last``, or a moment in milliseconds; raises Refused."""
    if text in ("first", "last"):
        return text
    try:
        return moment(text)
    except argparse.ArgumentTypeError as error:
        raise Refused(str(error)) from None


async def _known(desk: Desk, name: str) -> Group:
    await desk.view.fresh()
    if name not in desk.view.groups:
        await desk.view.tables()  # it may be new
    found = desk.view.groups.get(name)
    if found is None:
        raise Refused(f"there is no group {name!r}", 404)
    return found


def _queue_rows(
    desk: Desk, group: Group, read_ms: dict[tuple[str, Place], int]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for topic, committed in sorted(group.committed.items()):
        ends = desk.view.ends.get(topic)
        for place, offset in sorted(committed.items()):
            bounds = ends.queues.get(place) if ends is not None else None
            rows.append(
                {
                    "topic": topic,
                    "retry": topic.startswith(RETRY_PREFIX),
                    "broker": place.broker,
                    "queue": place.queue,
                    "committed": offset,
                    "low": None if bounds is None else bounds.low,
                    "high": None if bounds is None else bounds.high,
                    "lag": None if bounds is None else max(bounds.high - offset, 0),
                    "last": 0 if bounds is None else bounds.last_ms,
                    "read": read_ms.get((topic, place), 0),
                }
            )
            if len(rows) >= ROWS_MAX:
                return rows
    return rows
