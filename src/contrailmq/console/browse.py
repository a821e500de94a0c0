"""Reading messages of a topic for people: newest or oldest first, over all queues, within a budget.

Messages are pulled, never consumed as a group: nobody misses one because somebody looked.  Each
queue has a walk that fetches piece by piece in the direction of reading; the walks are merged by
store time.  A search ends after so many messages or seconds and says where it was; the cursor it
returns goes on from there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from contrailmq.console import bodies
from contrailmq.console.cluster import Bounds, Place
from contrailmq.console.desk import Desk
from contrailmq.console.settings import SCAN_MAX, SCAN_S
from contrailmq.console.web import Refused
from contrailmq.protocol.message import Record
from contrailmq.protocol.queue import MessageQueue

PIECE: Final = 32
PIECE_MAX: Final = 1024
QUEUES_MAX: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to read. ``cursor`` has for each queue where to go on."""

    topic: str
    newest_first: bool = True
    broker: str = ""
    queue: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    offset: int | None = None
    tags: str = ""
    sql: str = ""
    text: str = ""
    limit: int = 50
    cursor: dict[Place, int] = field(default_factory=dict)

    @property
    def expression(self) -> tuple[str, str]:
        """The filter that brokers apply, and its kind."""
        if self.sql:
            return self.sql, "SQL92"
        return self.tags or "*", "TAG"


@dataclass(slots=True)
class Found:
    """Messages in order, how much was looked at, and where to go on (empty: nowhere)."""

    records: list[tuple[Place, Record]]
    scanned: int
    total: int
    cursor: dict[Place, int]
    is_cut: bool


class _Walk:
    """One queue, read piece by piece from ``at`` towards ``stop``."""

    def __init__(self, desk: Desk, place: Place, query: Query, *, span: tuple[int, int]) -> None:
        self.place = place
        self._desk = desk
        self._query = query
        self._queue = MessageQueue(query.topic, place.broker, place.queue)
        self._address = desk.view.addresses[place.broker]
        self._low, self._high = span
        self._piece = PIECE
        self.held: list[Record] = []  # the next one last
        self.scanned = 0

    @property
    def left(self) -> int:
        """Offsets that were not looked at yet."""
        return max(self._high - self._low, 0)

    @property
    def cursor(self) -> int:
        """Where another search goes on: before the first message that was not given out."""
        if self._query.newest_first:
            return self.held[-1].queue_offset + 1 if self.held else self._high
        return self.held[-1].queue_offset if self.held else self._low

    async def fill(self) -> None:
        """Fetch the next piece; nothing may be in it."""
        size = min(self._piece, self.left)
        if self._query.newest_first:
            begin, end = self._high - size, self._high
            self._high = begin
        else:
            begin, end = self._low, self._low + size
            self._low = end
        found = [record for record in await self._read(begin, end) if self._fits(record)]
        self.held = found if self._query.newest_first else found[::-1]
        self.scanned += size
        self._piece = PIECE if found else min(self._piece * 4, PIECE_MAX)

    async def _read(self, begin: int, end: int) -> list[Record]:
        expression, kind = self._query.expression
        found: list[Record] = []
        offset = begin
        while offset < end:
            records, told = await self._desk.admin.messages.pull(
                self._queue, offset, count=min(PIECE, end - offset),
                expression=expression, kind=kind, address=self._address,
            )  # fmt: skip
            found += [record for record in records if record.queue_offset < end]
            if told.next_begin_offset <= offset:
                break
            offset = told.next_begin_offset
        return found

    def _fits(self, record: Record) -> bool:
        query = self._query
        if query.begin_ms is not None and record.store_ms < query.begin_ms:
            return False
        if query.end_ms is not None and record.store_ms > query.end_ms:
            return False
        if not query.text:
            return True
        wanted = query.text.lower()
        if any(wanted in value.lower() for value in record.properties.values()):
            return True
        return wanted.encode() in bodies.opened(record)[0].lower()


async def browse(desk: Desk, query: Query) -> Found:
    """Read messages until there are enough, the end is reached, or the budget is spent."""
    walks = await _walks(desk, query)
    total = sum(walk.left for walk in walks)
    loop = asyncio.get_running_loop()
    until = loop.time() + SCAN_S
    rows: list[tuple[Place, Record]] = []
    is_cut = False
    while len(rows) < query.limit:
        for walk in walks:
            while not walk.held and walk.left and not is_cut:
                await walk.fill()
                scanned = sum(walk.scanned for walk in walks)
                is_cut = scanned >= SCAN_MAX + PIECE * len(walks) or loop.time() > until
        ready = [walk for walk in walks if walk.held]
        if not ready or (is_cut and any(not walk.held and walk.left for walk in walks)):
            break
        best = _best(ready, newest_first=query.newest_first)
        rows.append((best.place, best.held.pop()))
    scanned = min(total, sum(walk.scanned - len(walk.held) for walk in walks))
    cursor = {walk.place: walk.cursor for walk in walks}
    is_over = all(not walk.held and not walk.left for walk in walks)
    return Found(rows, scanned, total, {} if is_over else cursor, is_cut)


def _best(walks: list[_Walk], *, newest_first: bool) -> _Walk:
    choose = max if newest_first else min
    return choose(walks, key=lambda walk: (walk.held[-1].store_ms, walk.held[-1].queue_offset))


async def _walks(desk: Desk, query: Query) -> list[_Walk]:
    await desk.view.know_ends([query.topic])
    ends = desk.view.ends.get(query.topic)
    if ends is None:
        raise Refused(f"no broker has the topic {query.topic!r}", 404)
    places = [
        (place, bounds)
        for place, bounds in sorted(ends.queues.items())
        if (not query.broker or place.broker == query.broker)
        and (query.queue is None or place.queue == query.queue)
        and place.broker in desk.view.addresses
    ]
    if len(places) > QUEUES_MAX:
        raise Refused(f"{len(places)} queues, at most {QUEUES_MAX} at a time; choose a queue")
    spans = await asyncio.gather(*(_span(desk, query, *place) for place in places))
    return [
        _Walk(desk, place, query, span=span) for (place, _), span in zip(places, spans, strict=True)
    ]


async def _span(desk: Desk, query: Query, place: Place, bounds: Bounds) -> tuple[int, int]:
    low, high = bounds.low, bounds.high
    queue = MessageQueue(query.topic, place.broker, place.queue)
    address = desk.view.addresses[place.broker]
    if query.begin_ms is not None and low < high:
        # Brokers differ in which neighbour of a moment they name: one more does no harm.
        found = await desk.admin.offsets.at_time(queue, query.begin_ms, address=address)
        low = max(low, min(found - 1, high))
    if query.end_ms is not None and low < high:
        found = await desk.admin.offsets.at_time(queue, query.end_ms, address=address)
        high = max(low, min(high, found + 2))
    if query.offset is not None:
        if query.newest_first:
            high = min(high, query.offset + 1)
        else:
            low = max(low, query.offset)
    if place in query.cursor:
        if query.newest_first:
            high = min(high, query.cursor[place])
        else:
            low = max(low, query.cursor[place])
    return low, max(low, high)


def message_row(place: Place, record: Record) -> dict[str, Any]:
    """One message as a list shows it."""
    return {
        "topic": record.topic,
        "broker": place.broker,
        "queue": place.queue,
        "offset": record.queue_offset,
        "id": record.unique_key or record.offset_message_id,
        "stored": record.store_ms,
        "tags": record.tags or "",
        "keys": record.keys[:8],
        "size": len(record.body),
        "retries": record.reconsume_times,
        "line": bodies.line(record),
    }


def cursor_text(cursor: dict[Place, int]) -> str:
    """A cursor for a query string."""
    return ",".join(f"{place.broker}/{place.queue}:{at}" for place, at in cursor.items())


def read_cursor(text: str) -> dict[Place, int]:
    """What ``cursor_text`` wrote; raises Refused."""
    cursor: dict[Place, int] = {}
    for part in filter(None, text.split(",")):
        name, _, at = part.rpartition(":")
        broker, _, queue = name.rpartition("/")
        if not broker or not queue.isdecimal() or not at.isdecimal():
            raise Refused(f"cursor {part[:60]!r}: expected broker/queue:offset")
        cursor[Place(broker, int(queue))] = int(at)
    return cursor
