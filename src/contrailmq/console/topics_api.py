"""Topics: the list, and one topic with its queues, its groups and its settings."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from contrailmq.console.listing import Window, chosen_topics, cut, topic_row
from contrailmq.console.settings import WINDOW_MAX
from contrailmq.console.web import Refused, answer, desk_of, text_of, whole_of
from contrailmq.protocol.bodies.topic import TopicConfig


def window_of(request: Request, sort: str) -> Window:
    """The window of a list that a query asks for."""
    return Window(
        offset=whole_of(request, "offset", 0),
        limit=whole_of(request, "limit", 100, low=1, high=WINDOW_MAX),
        sort=text_of(request, "sort", sort) or sort,
        words=text_of(request, "filter"),
        kind=text_of(request, "kind"),
    )


async def topics(request: Request) -> Response:
    """A window of the list; figures are fetched for its rows only."""
    desk = desk_of(request)
    await desk.view.fresh()
    window = window_of(request, "name")
    found = chosen_topics(desk, window)
    rows = cut(found, window)
    await desk.view.know_ends(topic.name for topic in rows)
    for topic in rows:
        ends = desk.view.ends.get(topic.name)
        if ends is not None and ends.rate is not None:
            desk.history.add(f"rate:{topic.name}", ends.at_ms, ends.rate)
    return answer(
        {
            "total": len(found),
            "all": len(desk.view.topics),
            "at": desk.view.tables_ms,
            "faults": desk.view.faults,
            "rows": [topic_row(desk, topic) for topic in rows],
        }
    )


async def topic(request: Request) -> Response:
    """One topic."""
    desk = desk_of(request)
    name = request.path_params["name"]
    await desk.view.fresh()
    if name not in desk.view.topics:
        await desk.view.tables()  # it may be new
    found = desk.view.topics.get(name)
    if found is None:
        raise Refused(f"there is no topic {name!r}", 404)
    await desk.view.know_ends([name])
    ends = desk.view.ends.get(name)
    if ends is not None and ends.rate is not None:
        desk.history.add(f"rate:{name}", ends.at_ms, ends.rate)
    total = ends.count if ends is not None else 0
    queues = [
        {
            "broker": place.broker,
            "queue": place.queue,
            "low": bounds.low,
            "high": bounds.high,
            "last": bounds.last_ms,
            "share": (bounds.high - bounds.low) / total if total else 0.0,
        }
        for place, bounds in sorted(ends.queues.items() if ends is not None else ())
    ]
    groups = [
        {
            "name": group,
            "lag": desk.view.lag(desk.view.groups[group], name),
            "stuck": desk.is_stuck(group),
        }
        for group in sorted(found.groups)
        if group in desk.view.groups
    ]
    return answer(
        {
            **topic_row(desk, found),
            "at": ends.at_ms if ends is not None else 0,
            "queue_rows": queues,
            "group_rows": groups,
            "configs": {b: config_row(c) for b, c in sorted(found.configs.items())},
            "series": {"rate": desk.history.points(f"rate:{name}")},
        }
    )


def config_row(config: TopicConfig) -> dict[str, Any]:
    """The settings of a topic at one broker."""
    return {
        "readQueues": config.read_queue_nums,
        "writeQueues": config.write_queue_nums,
        "perm": config.perm,
        "order": bool(config.order),
        "filter": config.topic_filter_type,
        "attributes": dict(config.attributes),
    }
