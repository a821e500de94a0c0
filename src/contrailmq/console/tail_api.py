"""The live tail: messages as they come, by server-sent events.

Messages are pulled, never consumed.  A frame has at most ``FRAME_COUNT`` messages and comes at
most ``FRAMES_PER_S`` times per second; what is beyond is skipped and counted exactly.  The next
pull waits until the last frame is written, so a reader that does not drain stops it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from contrailmq.console.browse import Query, message_row
from contrailmq.console.cluster import Place
from contrailmq.console.desk import Desk
from contrailmq.console.messages_api import query_of
from contrailmq.console.settings import STREAM_S
from contrailmq.console.web import Refused, desk_of
from contrailmq.errors import ContrailError
from contrailmq.protocol.queue import MessageQueue

FRAME_COUNT: Final = 50
FRAMES_PER_S: Final = 5
QUEUES_MAX: Final = 128
TOUCH_FRAMES: Final = 25


async def tail(request: Request) -> Response:
    """A stream of frames: ``{"rows":[…],"skipped":n,"rate":x}``."""
    desk = desk_of(request)
    query = query_of(request)
    await desk.view.fresh()
    if query.topic not in desk.view.topics:
        raise Refused(f"there is no topic {query.topic!r}", 404)
    if desk.streams.locked():
        raise Refused("too many live views are open; close one", 429)
    ends = await _ends(desk, query)
    if len(ends) > QUEUES_MAX:
        raise Refused(f"{len(ends)} queues, at most {QUEUES_MAX} at a time; choose a queue")
    return StreamingResponse(
        _frames(desk, query, ends), media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )  # fmt: skip


async def _frames(desk: Desk, query: Query, at: dict[Place, int]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    until = loop.time() + STREAM_S
    frame = 0
    async with desk.streams:
        yield b"retry: 3000\n\n"
        while loop.time() < until:
            began = loop.time()
            try:
                rows, skipped = await _step(desk, query, at)
            except ContrailError as error:
                yield _event("fault", {"error": str(error)})
                return
            frame += 1
            if frame % TOUCH_FRAMES == 0:
                desk.touch()
            if rows or skipped:
                yield _event("rows", {"rows": rows, "skipped": skipped})
            elif frame % TOUCH_FRAMES == 0:
                yield b": alive\n\n"
            await asyncio.sleep(max(1 / FRAMES_PER_S - (loop.time() - began), 0))
        yield _event("over", {"after": int(STREAM_S)})


async def _step(desk: Desk, query: Query, at: dict[Place, int]) -> tuple[list[dict[str, Any]], int]:
    """What came since the last step, at most a frame of it, and how many more there were."""
    ends = await _ends(desk, query)
    grown = {place: high for place, high in ends.items() if high > at.get(place, 0)}
    if not grown:
        return [], 0
    expression, kind = query.expression
    share = max(FRAME_COUNT // len(grown), 1)
    rows: list[dict[str, Any]] = []
    skipped = 0
    for place, high in grown.items():
        begin = max(at.get(place, high), high - share)
        if begin > at.get(place, begin):
            skipped += begin - at[place]
        queue = MessageQueue(query.topic, place.broker, place.queue)
        records, _ = await desk.admin.messages.pull(
            queue, begin, count=min(high - begin, 32), expression=expression, kind=kind,
            address=desk.view.addresses[place.broker],
        )  # fmt: skip
        at[place] = high
        taken = [record for record in records if record.queue_offset < high]
        if records and taken and expression == "*":
            last = taken[-1].queue_offset + 1
            at[place] = last if last < high else high
        rows += [
            message_row(place, record)
            for record in taken
            if not query.text or query.text.encode() in record.body
        ]
    rows.sort(key=lambda row: (row["stored"], row["queue"]))
    skipped += max(len(rows) - FRAME_COUNT, 0)
    return rows[-FRAME_COUNT:], skipped


async def _ends(desk: Desk, query: Query) -> dict[Place, int]:
    await desk.view.know_ends([query.topic], age_s=1 / FRAMES_PER_S)
    found = desk.view.ends.get(query.topic)
    return {
        place: bounds.high
        for place, bounds in (found.queues.items() if found is not None else ())
        if (not query.broker or place.broker == query.broker)
        and (query.queue is None or place.queue == query.queue)
        and place.broker in desk.view.addresses
    }


def _event(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
