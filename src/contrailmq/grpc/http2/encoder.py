"""Header blocks of a client: what every call repeats is one byte from the second call on.

The encoder fills the peer's table until it is full and then leaves it as it is, so that an entry's
place never has to be found again.  Fields that differ with every call stay out of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from contrailmq.grpc.http2.blocks import literal, number, text

TABLE_SIZE: Final = 4096
STATIC_COUNT: Final = 61
FIELD_EXTRA: Final = 32

_STATIC: Final = {
    (":method", "POST"): b"\x83",
    (":scheme", "http"): b"\x86",
    (":scheme", "https"): b"\x87",
}
_SECRET: Final = frozenset(("authorization", "x-mq-session-token"))


class HeaderEncoder:
    """The encoder of one connection."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], int] = {}
        self._size = 0
        self._can_enter = True

    def keep_no_table(self) -> None:
        """The peer wants a smaller table: use none."""
        self._can_enter = False

    def encode(
        self, lasting: Iterable[tuple[str, str]], passing: Iterable[tuple[str, str]]
    ) -> bytes:
        """A block of fields that other calls repeat, then of those that none does."""
        out = [self._lasting(field) for field in lasting]
        for name, value in passing:
            found = literal(name.encode("ascii"), value.encode("latin-1"))
            out.append(b"\x10" + found[1:] if name in _SECRET else found)
        return b"".join(out)

    def _lasting(self, field: tuple[str, str]) -> bytes:
        known = _STATIC.get(field)
        if known is not None:
            return known
        name, value = field[0].encode("ascii"), field[1].encode("latin-1")
        if not self._can_enter:
            return literal(name, value)
        place = self._places.get(field)
        if place is not None:
            return number(STATIC_COUNT + len(self._places) - place, 7, 0x80)
        size = len(name) + len(value) + FIELD_EXTRA
        if self._size + size > TABLE_SIZE:
            return literal(name, value)
        self._size += size
        self._places[field] = len(self._places)
        return b"\x40" + text(name) + text(value)
