"""What is stored and not yet visible: delayed messages by level, timers, half transactions."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from contrailmq.console.desk import Desk, first_number
from contrailmq.console.web import answer, desk_of
from contrailmq.errors import ContrailError
from contrailmq.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, TRANSACTION_GROUP
from contrailmq.protocol.queue import MessageQueue


async def waiting(request: Request) -> Response:
    """For each master the delay levels with messages, the timer's, and half messages."""
    desk = desk_of(request)
    await desk.view.fresh()
    await desk.view.know_ends([SCHEDULE_TOPIC, HALF_TOPIC, TIMER_TOPIC])
    names = list(desk.view.masters)
    found = await asyncio.gather(*(_at(desk, name) for name in names))
    return answer({"brokers": found, "at": desk.view.now_ms()})


async def _at(desk: Desk, name: str) -> dict[str, Any]:
    address = desk.view.masters[name]
    row: dict[str, Any] = {"broker": name, "levels": [], "half": 0, "timer": {}, "fault": ""}
    try:
        config = await desk.admin.brokers.config(address)
        delivered = await desk.admin.offsets.delay_levels(address)
        row["levels"] = _levels(desk, name, config.get("messageDelayLevel", ""), delivered)
        row["half"] = await _half(desk, name, address)
        row["check"] = config.get("transactionCheckInterval", "")
        row["timeout"] = config.get("transactionTimeOut", "")
    except ContrailError as error:
        row["fault"] = str(error)
    runtime = next(m.runtime for m in desk.view.members if m.address == address)
    row["timer"] = {
        "congested": int(first_number(runtime.get("timerCongestNum"))),
        "enqueue": first_number(runtime.get("timerEnqueueTps")),
        "dequeue": first_number(runtime.get("timerDequeueTps")),
        "behind": int(first_number(runtime.get("timerReadBehind"))),
    }
    return row


def _levels(desk: Desk, name: str, texts: str, delivered: dict[int, int]) -> list[dict[str, Any]]:
    ends = desk.view.ends.get(SCHEDULE_TOPIC)
    spans = texts.split()
    rows = []
    for place, bounds in sorted(ends.queues.items()) if ends is not None else ():
        level = place.queue + 1  # ScheduleMessageService.delayLevel2QueueId
        if place.broker != name or level > len(spans):
            continue
        count = max(bounds.high - delivered.get(level, bounds.low), 0)
        rows.append({
            "level": level, "delay": spans[level - 1], "waiting": count,
            "delivered": delivered.get(level, 0), "last": bounds.last_ms,
        })  # fmt: skip
    return rows


async def _half(desk: Desk, name: str, address: str) -> int:
    ends = desk.view.ends.get(HALF_TOPIC)
    count = 0
    for place, bounds in ends.queues.items() if ends is not None else ():
        if place.broker != name:
            continue
        queue = MessageQueue(HALF_TOPIC, name, place.queue)
        done = await desk.admin.offsets.committed(queue, TRANSACTION_GROUP, address=address)
        count += max(bounds.high - (bounds.low if done is None else done), 0)
    return count
