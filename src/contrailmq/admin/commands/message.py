"""``contrail message``: one message by its id, messages by key, and what became of a message."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.admin.message_calls import FOREVER_MS
from contrailmq.admin.moments import moment
from contrailmq.admin.options import (
    connection_options,
    json_option,
    new_parser,
    sub_command,
    with_admin,
)
from contrailmq.admin.output import Printer, body_text, json_line, message_row, when
from contrailmq.admin.trace_text import Step, decode_trace
from contrailmq.errors import BrokerError, ClientError, NoRoute
from contrailmq.protocol.message import Record
from contrailmq.protocol.names import TRACE_TOPIC
from contrailmq.usage import whole

_EPILOG: Final = """\
examples:
  contrail message get 7F0000010000...           by the id a receipt shows; -t helps to find it
  contrail message get AC110001... -t orders --body > body.bin
  contrail message query orders order-17         by key
  contrail message trace 7F0000010000...         needs a producer or consumer that traces
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = parser().parse_args(argv)
    printer = Printer(out, as_json=options.json)
    return with_admin(options, lambda admin: options.act(admin, options, printer))


async def _get(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    records = await find_message(admin, options.id, options.topic)
    if not records:
        hint = "contrail tail TOPIC --json shows ids, contrail message query finds by key"
        printer.value({"found": 0}, f"no message {options.id}; {hint}")
        return 1
    for record in records:
        if options.body:
            printer.flush()
            sys.stdout.buffer.write(record.payload())
        elif printer.as_json:
            printer.out.write(json_line(message_row(record, record.payload())))
        else:
            _show(printer, record)
    return 0


async def find_message(admin: AdminClient, message_id: str, topic: str | None) -> list[Record]:
    """The message of an offset id or of a producer's id, in a topic or in all of them."""
    if topic is None and _is_place(message_id):
        try:
            return [await admin.messages.view(message_id)]
        except (ClientError, BrokerError, OSError):
            pass  # a producer's id looks the same: look for it in the indexes
    topics = [topic] if topic is not None else await admin.topics.names()
    for name in topics:
        try:
            found = await admin.messages.by_unique_key(name, message_id)
        except NoRoute:
            if topic is not None:
                raise
            continue
        if found:
            return found
    if topic is not None and _is_place(message_id):
        return [await admin.messages.view(message_id, topic=topic)]
    return []


def _is_place(message_id: str) -> bool:
    """Whether an id can be an offset id of a broker with a likely port (ids are alike)."""
    try:
        port = int(message_id[8:16], 16) if len(message_id) == 32 else int(message_id[32:40], 16)
    except ValueError:
        return False
    return len(message_id) in (32, 56) and 0 < port < 65536


def _show(printer: Printer, record: Record) -> None:
    row = message_row(record, record.payload())
    properties = row.pop("properties")
    row.pop("body", None)
    row.pop("bodyBase64", None)
    row["bornTime"] = when(row["bornTime"])
    row["storeTime"] = when(row["storeTime"])
    row["logOffset"] = record.commit_log_offset
    row["properties"] = " ".join(f"{name}={value}" for name, value in sorted(properties.items()))
    row["body"] = body_text(record.payload(), 2000)
    printer.pairs(row)
    printer.say("")


async def _query(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    records = await admin.messages.by_key(
        options.topic, options.key,
        count=options.count, begin_ms=options.begin, end_ms=options.end,
    )  # fmt: skip
    if printer.as_json:
        for record in records:
            printer.out.write(json_line(message_row(record, record.payload())))
    else:
        rows = [
            {
                "messageId": record.unique_key or record.offset_message_id,
                "queue": record.queue_id,
                "offset": record.queue_offset,
                "stored": when(record.store_ms),
                "tags": record.tags,
                "body": body_text(record.payload(), 60),
            }
            for record in records
        ]
        if rows:
            printer.rows(rows, ["messageId", "queue", "offset", "stored", "tags", "body"])
        else:
            printer.say(f"no message of {options.topic} has the key {options.key}")
    return 0 if records else 1


async def _trace(admin: AdminClient, options: argparse.Namespace, printer: Printer) -> int:
    try:
        records = await admin.messages.by_key(options.trace_topic, options.id)
    except NoRoute:
        raise ClientError(
            f"there is no trace topic [{options.trace_topic}]: set traceTopicEnable=true, "
            "and trace_topic in the client's settings (contrail send --trace does)"
        ) from None
    steps = [
        step
        for record in records
        for step in decode_trace(record.payload().decode("utf-8", "replace"))
        if step.message_id == options.id
    ]
    steps.sort(key=lambda step: (step.timestamp_ms, step.event))
    printer.rows([_row(step, printer) for step in steps])
    if not steps:
        printer.say(f"no trace of {options.id}; was it sent or consumed by a client that traces?")
    return 0 if steps else 1


def _row(step: Step, printer: Printer) -> dict[str, Any]:
    return {
        "event": step.event,
        "time": step.timestamp_ms if printer.as_json else when(step.timestamp_ms),
        "group": step.group,
        "topic": step.topic,
        "at": step.place,
        "costMs": step.cost_ms,
        "success": step.success,
        "detail": step.detail,
    }


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    top = new_parser("message", "Find messages, and what became of them.", _EPILOG)
    commands = top.add_subparsers(required=True, metavar="get|query|trace")
    parents = [connection_options()]
    getter = sub_command(commands, "get", _get, "one message by its id", parents=parents)
    getter.add_argument("id", help="the producer's id, or the id of its place")
    getter.add_argument("-t", "--topic", help="its topic; without it all are searched")
    getter.add_argument("--body", action="store_true", help="the body and nothing else")
    query = sub_command(commands, "query", _query, "messages with a key", parents=parents)
    query.add_argument("topic")
    query.add_argument("key")
    query.add_argument("-c", "--count", type=whole(1), default=64, help="at most so many (64)")
    query.add_argument(
        "--from", dest="begin", type=moment, default=0, metavar="TIME", help="stored since"
    )
    query.add_argument(
        "--to", dest="end", type=moment, default=FOREVER_MS, metavar="TIME", help="stored before"
    )
    tracer = sub_command(commands, "trace", _trace, "what became of it", parents=parents)
    tracer.add_argument("id", help="the producer's id")
    tracer.add_argument("--trace-topic", default=TRACE_TOPIC, help=f"({TRACE_TOPIC})")
    for command in (getter, query, tracer):
        json_option(command)
    return top
