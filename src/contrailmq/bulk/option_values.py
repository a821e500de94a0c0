"""Texts of single options as values: times, offsets, assignments, expressions, directories.

Each raises ConfigError with the text and what was expected instead.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from contrailmq.errors import ConfigError
from contrailmq.protocol.compression import Compression
from contrailmq.protocol.queue import MessageQueue

EARLIEST_MARK: Final = -2  # in offsets given as JSON, as in Spark's own connectors
LATEST_MARK: Final = -1


def time_ms(text: str) -> int:
    """Milliseconds since 1970 of a number or of an ISO 8601 time (UTC unless it says else)."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"time {text!r}: expected milliseconds or a time such as 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)


def offsets_of_json(text: str) -> list[tuple[MessageQueue, int]]:
    """Offsets from ``{"topic": {"broker": {"queue id": offset}}}``, sorted by queue."""
    try:
        found = sorted(
            (MessageQueue(topic, broker, int(queue_id)), int(offset))
            for topic, brokers in json.loads(text).items()
            for broker, queues in brokers.items()
            for queue_id, offset in queues.items()
        )
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(
            f"offsets {text[:200]!r}: expected JSON such as"
            ' {"orders": {"broker-a": {"0": 17}}}'
        ) from None
    for queue, offset in found:
        if offset < EARLIEST_MARK:
            raise ConfigError(
                f"offset {offset} of {queue.topic} {queue.broker_name} {queue.queue_id}:"
                " expected 0 or more, -2 for earliest or -1 for latest"
            )
    return found


def assignment(text: str) -> tuple[tuple[str, str | None, tuple[int, ...]], ...]:
    """``{"topic": [0, 1]}`` on all brokers, or ``{"topic": {"broker": [0, 1]}}``."""
    try:
        found: list[tuple[str, str | None, tuple[int, ...]]] = []
        for topic, chosen in json.loads(text).items():
            by_broker: dict[str | None, Any] = (
                chosen if isinstance(chosen, dict) else {None: chosen}
            )
            found += [(topic, b, tuple(int(i) for i in ids)) for b, ids in by_broker.items()]
        return tuple(found)
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(
            f'assign={text[:200]!r}: expected JSON such as {{"orders": {{"broker-a": [0, 1]}}}}'
        ) from None


def check_regular(pattern: str) -> None:
    """Raise unless a pattern of topics is a regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"topicsPattern={pattern!r} is not a regular expression: {error}"
        ) from None


def compression(text: str) -> Compression:
    """A way to compress, by its name."""
    try:
        return Compression[text.upper()]
    except KeyError:
        raise ConfigError(f"compression={text!r}: expected zlib, lz4 or zstd") from None


def check_sql(expression: str) -> None:
    """Raise unless brokers of some version understand it; they pass everything if they do not."""
    from contrailmq.protocol.filter.sql import SqlError, compile_sql

    try:
        compile_sql(expression)
    except SqlError as error:
        try:
            compile_sql(expression, dialect="4.9")  # has fewer reserved words
        except SqlError:
            raise ConfigError(f"sql={expression[:200]!r}: {error}") from None


def directories(text: str) -> list[str]:
    """Directories from a JSON list or from names with commas between them, each once."""
    try:
        found = json.loads(text) if text.startswith("[") else text.split(",")
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise ConfigError(
            f"path={text[:200]!r}: expected directories with commas between them, or a JSON list"
            " of them"
        )
    paths = [path.strip() for path in found if path.strip()]
    if not paths:
        raise ConfigError(f"path={text[:200]!r}: expected at least one directory")
    seen: dict[Path, str] = {}
    for path in paths:
        real = Path(path).resolve()
        if real in seen:
            other = "" if seen[real] == path else f" (as {seen[real]}, too)"
            raise ConfigError(f"path={text[:200]!r}: {path.rstrip('/')} is in it twice{other}")
        seen[real] = path
    return paths


def names_of(paths: Sequence[str]) -> list[str]:
    """A name for each directory: as much of the end of its path as tells it from the others."""
    parts = [[part for part in path.split("/") if part] or ["store"] for path in paths]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(found[-depth:]) for found in parts]
        if len(set(names)) == len(names):
            return names
    return list(paths)
