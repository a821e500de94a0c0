"""Dead letters: which groups have some, and where each came from."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from contrailmq.console.settings import BULK_MAX
from contrailmq.console.web import answer, desk_of
from contrailmq.protocol.message import Record
from contrailmq.protocol.names import DLQ_PREFIX, is_retry_or_dlq
from contrailmq.protocol.properties import (
    PROPERTY_DLQ_ORIGIN_TOPIC,
    PROPERTY_REAL_TOPIC,
    PROPERTY_RETRY_TOPIC,
    RESERVED_PROPERTIES,
)


async def dead_letters(request: Request) -> Response:
    """Every dead-letter topic with messages, the fullest first."""
    desk = desk_of(request)
    await desk.view.fresh()
    names = [name for name, topic in desk.view.topics.items() if topic.kind == "dlq"]
    await desk.view.know_ends(names)
    rows: list[dict[str, Any]] = []
    for name in names:
        ends = desk.view.ends.get(name)
        if ends is not None and ends.count:
            rows.append(
                {
                    "topic": name,
                    "group": name.removeprefix(DLQ_PREFIX),
                    "count": ends.count,
                    "last": ends.last_ms,
                    "rate": ends.rate,
                }
            )
    rows.sort(key=lambda row: -int(row["count"]))
    return answer({"rows": rows, "topics": len(names), "bulk": BULK_MAX})


def origin_of(record: Record) -> str:
    """The topic a dead letter, or a retry, was sent to at first; "" if it does not say."""
    properties = record.properties
    for name in (PROPERTY_DLQ_ORIGIN_TOPIC, PROPERTY_RETRY_TOPIC, PROPERTY_REAL_TOPIC):
        topic = properties.get(name, "")
        if topic and not is_retry_or_dlq(topic):
            return topic
    return "" if is_retry_or_dlq(record.topic) else record.topic


def own_properties(record: Record) -> dict[str, str]:
    """The properties that its sender chose, without those of RocketMQ."""
    return {
        name: value
        for name, value in record.properties.items()
        if name not in RESERVED_PROPERTIES and value
    }
