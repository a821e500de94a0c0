"""What trace messages tell: their records, decoded (the reader's side of client/trace.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

FIELD: Final = "\x01"
RECORD: Final = "\x02"
_KINDS: Final = {0: "normal", 1: "half", 2: "committed", 3: "delayed", 4: "ordered"}
_OUTCOMES: Final = {
    "0": "success", "1": "timeout", "2": "exception", "3": "null", "4": "failed",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happened to a message."""

    event: str  # sent, consuming, consumed, transaction
    message_id: str
    timestamp_ms: int = 0
    group: str = ""
    topic: str = ""
    place: str = ""
    cost_ms: int | None = None
    success: bool | None = None
    detail: str = ""
    request_id: str = ""


def decode_trace(text: str) -> Iterator[Step]:
    """The steps of one trace message; records of unknown kinds are passed over."""
    for record in text.split(RECORD):
        fields = record.split(FIELD)
        read = _READERS.get(fields[0])
        if read is not None:
            try:
                yield read(fields)
            except (IndexError, ValueError):
                continue


def _published(f: list[str]) -> Step:
    kind = _KINDS.get(int(f[11]), f[11])
    return Step(
        event="sent", message_id=f[5], timestamp_ms=int(f[1]), group=f[3], topic=f[4],
        place=f[8], cost_ms=int(f[10]), success=f[13] == "true", detail=kind,
    )  # fmt: skip


def _consuming(f: list[str]) -> Step:
    return Step(
        event="consuming", message_id=f[5], timestamp_ms=int(f[1]), group=f[3],
        request_id=f[4], detail=f"attempt {int(f[6]) + 1}",
    )  # fmt: skip


def _consumed(f: list[str]) -> Step:
    outcome = f[6] if len(f) > 6 else ""
    return Step(
        event="consumed", message_id=f[2], cost_ms=int(f[3]), success=f[4] == "true",
        request_id=f[1], detail=_OUTCOMES.get(outcome, outcome),
        timestamp_ms=int(f[7]) if len(f) > 7 else 0, group=f[8] if len(f) > 8 else "",
    )  # fmt: skip


def _transaction(f: list[str]) -> Step:
    return Step(
        event="transaction", message_id=f[5], timestamp_ms=int(f[1]), group=f[3], topic=f[4],
        place=f[8], detail=f[11] if len(f) > 11 else "",
    )  # fmt: skip


_READERS: Final = {
    "Pub": _published,
    "SubBefore": _consuming,
    "SubAfter": _consumed,
    "EndTransaction": _transaction,
}
