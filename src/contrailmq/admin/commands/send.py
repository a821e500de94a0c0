"""``contrail send``: messages from arguments, standard input, files or JSON lines.

A JSON line is an object with ``body`` (text, or any other JSON value, which is sent as JSON) or
``bodyBase64``, and at will ``tags``, ``keys``, ``properties``, ``delayLevel``, ``delay`` (seconds)
and ``shardingKey``; other names are passed over, so that what ``contrail tail --json`` prints can
be sent again as it is.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TextIO

from contrailmq.admin.options import (
    client_settings,
    json_option,
    name_servers,
    new_parser,
    run_command,
)
from contrailmq.admin.output import Printer
from contrailmq.client.message import DELAY_LEVEL_MAX, Message, Receipt
from contrailmq.client.producer.producer import Producer
from contrailmq.client.settings import ProducerSettings
from contrailmq.errors import ClientError
from contrailmq.protocol.names import TRACE_TOPIC
from contrailmq.protocol.properties import RESERVED_PROPERTIES
from contrailmq.usage import seconds, whole

GROUP: Final = "contrail-send"
IN_FLIGHT: Final = 1000
_EPILOG: Final = """\
examples:
  contrail send orders 'order 1' 'order 2' --tags paid --keys 'k1 k2'
  echo hello | contrail send greetings          one message a line
  contrail send images -f cat.png dog.png       one message a file
  contrail send orders --json-lines orders.jsonl
  contrail send orders later --delay-level 3    level 3 is 10 s
  contrail tail orders --json | contrail send copy --json-lines -
"""


class Order(NamedTuple):
    """A message, and what keeps messages together in one queue."""

    message: Message
    sharding_key: str | None


def main(argv: Sequence[str], out: TextIO | None = None, source: BinaryIO | None = None) -> int:
    """Run one command line."""
    options = parser().parse_args(argv)
    printer = Printer(out, as_json=options.json)
    stdin = sys.stdin.buffer if source is None else source
    return run_command(options, lambda: _send(options, printer, stdin))


async def _send(options: argparse.Namespace, printer: Printer, stdin: BinaryIO) -> int:
    settings = ProducerSettings(
        send_timeout_s=options.timeout, trace_topic=TRACE_TOPIC if options.trace else None
    )
    producer = Producer(
        options.group, name_servers=name_servers(options),
        settings=settings, client=client_settings(options),
    )  # fmt: skip
    count = 0
    async with producer:
        if options.oneway:
            for order in orders(options, stdin):
                await producer.send_oneway(order.message, key=order.sharding_key)
                count += 1
        else:
            async for receipt in _receipts(producer, orders(options, stdin)):
                count += 1
                _tell(printer, receipt, quiet=options.quiet)
    if options.quiet or options.oneway:
        printer.value({"sent": count}, f"sent {count:,}")
    return 0


async def _receipts(producer: Producer, wanted: Iterator[Order]) -> AsyncIterator[Receipt]:
    """Receipts in the order of sending, with many under way at a time."""
    waiting = []
    for order in wanted:
        waiting.append(await producer.submit(order.message, key=order.sharding_key))
        if len(waiting) >= IN_FLIGHT:
            yield await waiting.pop(0)
    for receipt in waiting:
        yield await receipt


def _tell(printer: Printer, receipt: Receipt, *, quiet: bool) -> None:
    if quiet:
        return
    queue = receipt.queue
    printer.value(
        {
            "messageId": receipt.message_id,
            "offsetMessageId": receipt.offset_message_id,
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "offset": receipt.offset,
            "status": receipt.status.value,
        },
        f"{receipt.status.value} {receipt.message_id} {queue.topic} "
        f"{queue.broker_name}/{queue.queue_id} offset {receipt.offset}",
    )


def orders(options: argparse.Namespace, stdin: BinaryIO) -> Iterator[Order]:
    """What a command line asks to be sent."""
    for _ in range(options.repeat):
        if options.json_lines is not None:
            yield from _from_json(options, stdin)
            continue
        for body in _bodies(options, stdin):
            yield Order(_message(options, body, {}), options.sharding_key)


def _bodies(options: argparse.Namespace, stdin: BinaryIO) -> Iterator[bytes]:
    if options.file:
        for path in options.file:
            yield path.read_bytes()
        return
    if options.body and options.body != ["-"]:
        for body in options.body:
            yield body.encode("utf-8", "surrogateescape")
        return
    if options.whole:
        yield stdin.read()
        return
    if stdin.isatty():
        sys.stderr.write("one message a line; Ctrl-D ends\n")
    for line in stdin:
        yield line.rstrip(b"\r\n")


def _message(options: argparse.Namespace, body: bytes, more: Mapping[str, Any]) -> Message:
    return Message(
        options.topic,
        body,
        tags=more.get("tags") or options.tags,
        keys=more.get("keys") or options.keys or (),
        properties={**dict(options.property), **(more.get("properties") or {})},
        delay_level=more.get("delayLevel") or options.delay_level,
        delay_s=more.get("delay") or options.delay,
    )


def _from_json(options: argparse.Namespace, stdin: BinaryIO) -> Iterator[Order]:
    name = options.json_lines
    lines = stdin if name == "-" else Path(name).open("rb")  # noqa: SIM115 (closed below)
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _json_order(options, line, f"{name} line {number}")
    finally:
        if name != "-":
            lines.close()


def _json_order(options: argparse.Namespace, line: bytes, place: str) -> Order:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ClientError(f"{place} is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ClientError(f"{place} is {type(row).__name__}, expected an object with body")
    properties = row.get("properties") or {}
    row["properties"] = {
        name: str(value) for name, value in properties.items() if name not in RESERVED_PROPERTIES
    }
    sharding = row.pop("shardingKey", None) or options.sharding_key
    return Order(_message(options, _json_body(row, place), row), sharding)


def _json_body(row: dict[str, Any], place: str) -> bytes:
    if "bodyBase64" in row:
        try:
            return base64.b64decode(row["bodyBase64"], validate=True)
        except (binascii.Error, TypeError) as error:
            raise ClientError(f"{place}: bodyBase64: {error}") from None
    if "body" not in row:
        raise ClientError(f"{place} has neither body nor bodyBase64")
    body = row["body"]
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return text.encode()


def _property(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name, value


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    top = new_parser("send", "Send messages.", _EPILOG, connects=True, rest="body")
    top.add_argument("topic")
    top.add_argument(
        "body", nargs="*", default=[], help="one message each; none, or -: lines of stdin"
    )
    source = top.add_mutually_exclusive_group()
    source.add_argument(
        "-f", "--file", nargs="+", type=Path, metavar="FILE", help="one message a file"
    )
    source.add_argument("--json-lines", metavar="FILE", help="one JSON object a line; - is stdin")
    source.add_argument("--whole", action="store_true", help="all of stdin is one message")
    top.add_argument("--tags", help="what consumers filter by")
    top.add_argument(
        "--keys", type=str.split, metavar="KEYS", help="what it can be found by; spaces separate"
    )
    top.add_argument(
        "-p",
        "--property",
        action="append",
        default=[],
        type=_property,
        metavar="NAME=VALUE",
        help="what SQL filters see; may be repeated",
    )
    top.add_argument(
        "--delay-level",
        type=whole(0, DELAY_LEVEL_MAX),
        default=0,
        metavar="N",
        help="1 to 18: 1 s to 2 h",
    )
    top.add_argument("--delay", type=seconds, metavar="S", help="exact seconds (5.x timer)")
    top.add_argument("--sharding-key", metavar="KEY", help="equal keys go to one queue")
    top.add_argument("--repeat", type=whole(1), default=1, metavar="N", help="send all N times")
    top.add_argument("--oneway", action="store_true", help="ask for no answer")
    top.add_argument("--trace", action="store_true", help=f"write traces to {TRACE_TOPIC}")
    top.add_argument("-g", "--group", default=GROUP, help=f"producer group ({GROUP})")
    top.add_argument("-q", "--quiet", action="store_true", help="only the count at the end")
    json_option(top)
    return top
