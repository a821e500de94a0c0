"""What commands print: tables for people, one JSON object a line for programs, times and sizes."""

from __future__ import annotations

import base64
import datetime
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

CELL_WIDTH: Final = 64
BODY_WIDTH: Final = 100


class Printer:
    """Where a command writes: rows become a table, or JSON lines when they were asked for."""

    def __init__(self, out: TextIO | None = None, *, as_json: bool = False) -> None:
        self.out = sys.stdout if out is None else out
        self.as_json = as_json

    def rows(self, rows: Iterable[Mapping[str, Any]], head: Sequence[str] = ()) -> int:
        """Print rows of one kind; ``head`` picks and orders the columns of the table.

        JSON shows every key, spelled as given; how many rows there were is returned.
        """
        found = list(rows)
        if self.as_json:
            for row in found:
                self.out.write(json_line(row))
            return len(found)
        columns = list(head) or (list(found[0]) if found else [])
        write_table(self.out, columns, [[row.get(name) for name in columns] for row in found])
        return len(found)

    def say(self, text: str) -> None:
        """A line for people; programs that asked for JSON do not get it."""
        if not self.as_json:
            self.out.write(harmless(text) + "\n")

    def value(self, value: Mapping[str, Any], text: str) -> None:
        """One outcome: a JSON object, or a line for people."""
        self.out.write(json_line(value) if self.as_json else harmless(text) + "\n")

    def pairs(self, pairs: Mapping[str, Any]) -> None:
        """A block of names and values, or one JSON object."""
        if self.as_json:
            self.out.write(json_line(pairs))
            return
        width = max(map(len, pairs), default=0)
        for name, value in pairs.items():
            self.out.write(f"{name:<{width}}  {cell_text(value)}\n")

    def flush(self) -> None:
        """Let a reader at the other end of a pipe see what was printed."""
        self.out.flush()


def harmless(text: str) -> str:
    """The text without what would steer a terminal; such characters are shown as ``\\x1b``."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text
    )


def json_line(value: Mapping[str, Any]) -> str:
    """One object on one line, text unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"


def write_table(out: TextIO, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Columns as wide as their widest cell, numbers to the right."""
    texts = [[clip(cell_text(cell), CELL_WIDTH) for cell in row] for row in rows]
    right = [
        bool(rows) and all(_is_number(row[column]) for row in rows) for column in range(len(head))
    ]
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    for cells in (list(head), *texts):
        line = "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        )
        out.write(line.rstrip() + "\n")


def cell_text(value: Any) -> str:
    """A value as people read it."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return harmless(", ".join(map(str, value))) or "-"
    return harmless(str(value))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def when(timestamp_ms: int | None) -> str:
    """A moment in local time, with milliseconds; ``-`` for never."""
    if timestamp_ms is None or timestamp_ms <= 0:
        return "-"
    try:
        moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"  # beyond the calendar
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{timestamp_ms % 1000:03d}"


def span(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def byte_size(size: float) -> str:
    """Bytes in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def clip(text: str, width: int) -> str:
    """The text, cut with a sign if it is longer."""
    return text if len(text) <= width else text[: width - 1] + "…"


def body_text(body: bytes, width: int = BODY_WIDTH) -> str:
    """A body on one line if it is text, else its size."""
    try:
        shown = body.decode()
    except UnicodeDecodeError:
        return f"({len(body):,} bytes)"
    if not all(char.isprintable() or char in "\r\n\t" for char in shown):
        return f"({len(body):,} bytes)"
    return clip(" ".join(shown.split()), width)


def message_row(message: Any, body: bytes) -> dict[str, Any]:
    """A received message or a stored record as a JSON object; binary bodies in base64."""
    properties = message.properties
    row = {
        "topic": message.topic,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "messageId": properties.get("UNIQ_KEY") or message.offset_message_id,
        "offsetMessageId": message.offset_message_id,
        "tags": message.tags,
        "keys": message.keys,
        "bornTime": message.born_ms,
        "bornHost": message.born_host,
        "storeTime": message.store_ms,
        "storeHost": message.store_host,
        "retries": message.reconsume_times,
        "properties": properties,
        "size": message.store_size,
    }
    try:
        row["body"] = body.decode()
    except UnicodeDecodeError:
        row["bodyBase64"] = base64.b64encode(body).decode()
    return row
