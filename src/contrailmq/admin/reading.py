"""What the reading commands share: choosing messages, counting them, and showing each."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import Final

from contrailmq.admin.moments import start_moment
from contrailmq.admin.output import (
    BODY_WIDTH,
    Printer,
    body_text,
    harmless,
    json_line,
    message_row,
    when,
)
from contrailmq.client.consumer.subscription import Expression, Sql
from contrailmq.client.message import ReceivedMessage
from contrailmq.usage import seconds, whole

STYLES: Final = ("pretty", "json", "body")
BODY_WIDTH_MIN: Final = 20


def reading_options(parser: argparse.ArgumentParser, *, start: str) -> None:
    """Filters, where to start, when to stop, and how to show."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--tags", metavar="EXPR", help="for example 'paid || refunded'")
    choice.add_argument("--sql", metavar="EXPR", help="for example 'amount > 100'")
    parser.add_argument(
        "--from", dest="start", type=start_moment, default=start, metavar="WHERE",
        help="first, last, 10m (ago), or a local time",
    )  # fmt: skip
    parser.add_argument("--wait", type=seconds, metavar="S", help="stop after S quiet seconds")
    style = parser.add_mutually_exclusive_group()
    style.add_argument(
        "--json", dest="style", action="store_const", const="json", help="one JSON object a line"
    )
    style.add_argument(
        "--body", dest="style", action="store_const", const="body", help="bodies only, one a line"
    )
    parser.set_defaults(style="pretty")
    parser.add_argument(
        "--width", type=whole(1), metavar="N",
        help=f"cut bodies to so many characters (the terminal's width, elsewhere {BODY_WIDTH})",
    )  # fmt: skip


def expression_of(options: argparse.Namespace) -> Expression:
    """Tags, SQL, or everything."""
    if options.sql is not None:
        return Sql(options.sql)
    return options.tags or "*"


class Show:
    """Prints messages one after another in the style asked for."""

    def __init__(self, printer: Printer, options: argparse.Namespace) -> None:
        self._printer = printer
        self._style: str = options.style
        self._width: int | None = options.width
        self._columns = shutil.get_terminal_size().columns if printer.out.isatty() else None
        self.count = 0

    def __call__(self, message: ReceivedMessage) -> None:
        """Print one message at once: a reader may be waiting for it."""
        self.count += 1
        out = self._printer.out
        if self._style == "json":
            out.write(json_line(message_row(message, message.body)))
        elif self._style == "body":
            if out is sys.stdout:
                out.flush()
                sys.stdout.buffer.write(bytes(message.body) + b"\n")
            else:
                out.write(bytes(message.body).decode("utf-8", "replace") + "\n")
        else:
            out.write(self._line(message) + "\n")
        self._printer.flush()

    def _line(self, message: ReceivedMessage) -> str:
        place = f"{message.origin.queue.broker_name}/{message.queue_id}@{message.queue_offset}"
        marks = [f"tags={message.tags}"] if message.tags else []
        marks += [f"keys={','.join(message.keys)}"] if message.keys else []
        marks += [f"retry={message.reconsume_times}"] if message.reconsume_times else []
        shown = harmless(" ".join([when(message.store_ms), place, *marks]))
        return f"{shown}  {body_text(bytes(message.body), self._room(len(shown) + 2))}"

    def _room(self, taken: int) -> int:
        """How wide a body may be."""
        if self._width is not None:
            return self._width
        return BODY_WIDTH if self._columns is None else max(self._columns - taken, BODY_WIDTH_MIN)
