"""Messages: browse, find by key or id, one message whole, its raw bytes, its trace."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from contrailmq.admin.moments import moment
from contrailmq.admin.trace_text import decode_trace
from contrailmq.console import bodies
from contrailmq.console.browse import (
    Query,
    browse,
    cursor_text,
    message_row,
    read_cursor,
)
from contrailmq.console.cluster import Place
from contrailmq.console.desk import Desk
from contrailmq.console.settings import PREVIEW_SIZE, WINDOW_MAX
from contrailmq.console.web import Refused, answer, desk_of, text_of, whole_of
from contrailmq.errors import ClientError, ContrailError, NoRoute
from contrailmq.protocol.filter.sql import SqlError, compile_sql
from contrailmq.protocol.message import Record
from contrailmq.protocol.names import TRACE_TOPIC
from contrailmq.protocol.queue import MessageQueue

KEY_COUNT: Final = 64
_ID: Final = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}")
_RAW_HEADERS: Final = {
    "content-disposition": "attachment; filename=message.bin",
    "content-security-policy": "sandbox; default-src 'none'",
    "cache-control": "no-store",
}


def query_of(request: Request) -> Query:
    """What a query string asks to read."""
    queue = text_of(request, "queue")
    broker, _, number = queue.rpartition("/")
    if queue and not number.isdecimal():
        raise Refused(f"queue={queue!r}: expected a number, or broker/number")
    sql = text_of(request, "sql")
    if sql:
        try:
            compile_sql(sql)
        except SqlError as error:  # brokers take some that they do not understand for no filter
            raise Refused(f"SQL92: {error}") from error
    begin, end = text_of(request, "from"), text_of(request, "to")
    offset = text_of(request, "offset")
    return Query(
        topic=text_of(request, "topic"),
        newest_first=text_of(request, "order", "new") != "old",
        broker=broker,
        queue=int(number) if queue else None,
        begin_ms=_moment(begin) if begin else None,
        end_ms=_moment(end) if end else None,
        offset=whole_of(request, "offset", 0) if offset else None,
        tags=text_of(request, "tag"),
        sql=sql,
        text=text_of(request, "text"),
        limit=whole_of(request, "limit", 50, low=1, high=WINDOW_MAX),
        cursor=read_cursor(text_of(request, "cursor")),
    )


async def messages(request: Request) -> Response:
    """Messages of a topic, by key, by id, or as they come."""
    desk = desk_of(request)
    query = query_of(request)
    key = text_of(request, "key")
    await desk.view.fresh()
    if not query.topic:
        raise Refused("choose a topic: topic=NAME")
    if desk.searches.locked():
        raise Refused("too many searches are running; stop one, or try again", 429)
    async with desk.searches:
        if key:
            return await _by_key(desk, query, key)
        found = await browse(desk, query)
    return answer(
        {
            "rows": [message_row(place, record) for place, record in found.records],
            "scanned": found.scanned,
            "total": found.total,
            "cursor": cursor_text(found.cursor),
            "cut": found.is_cut,
        }
    )


async def _by_key(desk: Desk, query: Query, key: str) -> Response:
    """By a key of the sender's, by the producer's id, or by the id of its place."""
    records = await desk.admin.messages.by_key(query.topic, key, count=KEY_COUNT)
    if not records:
        records = await desk.admin.messages.by_unique_key(query.topic, key)
    if not records and _ID.fullmatch(key):
        try:
            records = [await desk.admin.messages.view(key, topic=query.topic)]
        except (ContrailError, OSError):
            records = []
    rows = [message_row(Place(_broker_of(desk, record), record.queue_id), record)
            for record in records]  # fmt: skip
    return answer({
        "rows": rows, "scanned": len(rows), "total": len(rows), "cursor": "", "cut": False,
    })  # fmt: skip


async def message(request: Request) -> Response:
    """One message with its body, its properties, and which groups have passed it."""
    desk = desk_of(request)
    await desk.view.fresh()
    record, place = await _the_message(desk, request)
    size = whole_of(request, "size", PREVIEW_SIZE, low=1, high=bodies.OPENED_SIZE_MAX)
    return answer(
        {
            **message_row(place, record),
            "offsetId": record.offset_message_id,
            "born": record.born_ms,
            "bornHost": record.born_host,
            "storeHost": record.store_host,
            "logOffset": record.commit_log_offset,
            "recordSize": record.store_size,
            "crc": record.body_crc,
            "flag": record.flag,
            "sysFlag": record.sys_flag,
            "properties": dict(sorted(record.properties.items())),
            "body": bodies.shown(record, size=size),
            "readers": _readers(desk, place, record),
        }
    )


async def raw(request: Request) -> Response:
    """The exact bytes of a body, as a download."""
    desk = desk_of(request)
    await desk.view.fresh()
    record, _ = await _the_message(desk, request)
    body = record.body if text_of(request, "stored") else bodies.opened(record)[0]
    return Response(body, media_type="application/octet-stream", headers=_RAW_HEADERS)


async def trace(request: Request) -> Response:
    """What became of a message, as far as clients that trace told."""
    desk = desk_of(request)
    wanted = text_of(request, "id")
    name = text_of(request, "trace_topic") or TRACE_TOPIC
    try:
        records = await desk.admin.messages.by_key(name, wanted)
    except NoRoute:
        return answer({"steps": [], "topic": name, "missing": True})
    steps = [
        {
            "event": step.event,
            "at": step.timestamp_ms,
            "group": step.group,
            "place": step.place,
            "cost": step.cost_ms,
            "success": step.success,
            "detail": step.detail,
        }
        for record in records
        for step in decode_trace(record.payload().decode("utf-8", "replace"))
        if step.message_id == wanted
    ]
    steps.sort(key=lambda step: (step["at"] or 0, str(step["event"])))
    return answer({"steps": steps, "topic": name, "missing": False})


async def _the_message(desk: Desk, request: Request) -> tuple[Record, Place]:
    """The message of a place (topic, queue, offset), or of an id."""
    topic, message_id = text_of(request, "topic"), text_of(request, "id")
    if message_id:
        found = await find_by_id(desk, topic, message_id)
        return found, Place(_broker_of(desk, found), found.queue_id)
    broker, _, queue = text_of(request, "queue").rpartition("/")
    if not topic or not broker or not queue.isdecimal():
        raise Refused("name a message: topic, queue=broker/number and offset, or topic and id")
    return await at_place(desk, topic, Place(broker, int(queue)), whole_of(request, "offset", 0))


async def at_place(desk: Desk, topic: str, place: Place, offset: int) -> tuple[Record, Place]:
    """The message at an offset of a queue."""
    address = desk.view.addresses.get(place.broker)
    if address is None:
        raise Refused(f"there is no broker {place.broker!r}", 404)
    queue = MessageQueue(topic, place.broker, place.queue)
    records, _ = await desk.admin.messages.pull(queue, offset, count=1, address=address)
    if not records or records[0].queue_offset != offset:
        raise Refused(f"{topic} {place.broker}/{place.queue} has no message at {offset}: "
                      "it was deleted with its file, or is not there yet", 404)  # fmt: skip
    return records[0], place


async def find_by_id(desk: Desk, topic: str, message_id: str) -> Record:
    """The message of a producer's id, or of an offset id of a registered broker."""
    found: Iterable[Record] = ()
    if topic:
        found = await desk.admin.messages.by_unique_key(topic, message_id)
    for record in found:
        return record
    if _ID.fullmatch(message_id):
        return await desk.admin.messages.view(message_id, topic=topic or None)
    raise Refused(f"{topic} has no message with the id {message_id[:80]!r}", 404)


def _broker_of(desk: Desk, record: Record) -> str:
    for member in desk.view.members:
        if member.address == record.store_host:
            return member.name
    return next(iter(desk.view.addresses), "")


def _readers(desk: Desk, place: Place, record: Record) -> list[dict[str, Any]]:
    """For each group of the topic whether its committed offset is past this message."""
    found = desk.view.topics.get(record.topic)
    rows = []
    for name in sorted(found.groups if found is not None else ())[:WINDOW_MAX]:
        committed = desk.view.groups[name].committed.get(record.topic, {}).get(place)
        if committed is not None:
            rows.append({"group": name, "passed": committed > record.queue_offset,
                         "ahead": max(record.queue_offset - committed, 0)})  # fmt: skip
    return rows


def _moment(text: str) -> int:
    try:
        return moment(text)
    except argparse.ArgumentTypeError as error:
        raise ClientError(str(error)) from None
