"""The golden data: bytes that RocketMQ 4.9.7 and 5.2.0 wrote, as values for tests.

Nothing here knows how to decode them: that is the business of the code under test.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "data"
VERSIONS = ("4.9.7", "5.2.0")


class WireFrame(NamedTuple):
    """One captured frame, whole, with its four length bytes."""

    source: str  # client, admin, broker, namesrv
    target: str
    connection: int
    kind: str  # request, oneway, response
    code: int
    opaque: int
    header: str  # json, binary
    frame: bytes


class Exchange(NamedTuple):
    """A request and, if one was captured, its answer."""

    request: WireFrame
    response: WireFrame | None


class StoreDirectory(NamedTuple):
    """A store directory as a Java broker left it, and what a Java broker read from it."""

    name: str
    path: Path
    conf: Path
    expected: Path

    def rows(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """The expected rows: queue, message, searchOffset, queryKey."""
        for row in _rows(self.expected):
            if kind is None or row["kind"] == kind:
                yield row


def wire_files(version: str | None = None) -> list[Path]:
    """The capture files of frames, sorted (the replication stream is not made of frames)."""
    found = sorted(GOLDEN.glob(f"wire/{version or '*'}/*.jsonl"))
    assert found, f"no captured frames of {version or 'any version'} under {GOLDEN}"
    return [path for path in found if path.stem != "ha-stream"]


def wire_frames(path: Path) -> Iterator[WireFrame]:
    """The frames of one capture file in the order of time."""
    for row in _rows(path):
        yield WireFrame(
            row["from"],
            row["to"],
            row["conn"],
            row["kind"],
            row["code"],
            row["opaque"],
            row["header"],
            base64.b64decode(row["frame"]),
        )


def exchanges(path: Path) -> list[Exchange]:
    """Requests with their answers: same connection and opaque, the other direction."""
    found: list[Exchange] = []
    waiting: dict[tuple[int, int, str], int] = {}
    for frame in wire_frames(path):
        if frame.kind == "response":
            place = waiting.pop((frame.connection, frame.opaque, frame.target), None)
            if place is not None:
                found[place] = Exchange(found[place].request, frame)
            continue
        if frame.kind == "request":
            waiting[frame.connection, frame.opaque, frame.source] = len(found)
        found.append(Exchange(frame, None))
    return found


def vectors(version: str, name: str) -> list[dict[str, Any]]:
    """The lines of one vector file."""
    return list(_rows(GOLDEN / "vectors" / version / f"{name}.jsonl"))


def store_directories() -> list[StoreDirectory]:
    """Every golden store. Never open one for writing: copy it first."""
    found = sorted(path for path in (GOLDEN / "store").iterdir() if path.is_dir())
    assert found, f"no store directories under {GOLDEN}"
    return [
        StoreDirectory(
            path.name,
            path,
            path.with_name(f"{path.name}.conf"),
            path.with_name(f"{path.name}.expected.jsonl"),
        )
        for path in found
    ]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
