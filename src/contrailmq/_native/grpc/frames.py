# cython: annotation_typing=False
# ruff: noqa: ERA001
"""The frames a connection writes, gathered until its host sends them.

An answer's headers are always the same two fields, so they enter the peer's table with the first
answer and are one byte each from then on.  Nothing else is ever put into that table.
"""

from __future__ import annotations

from collections.abc import Callable

from contrailmq._native import raw

_DATA = 0
_HEADERS = 1
_RESET = 3
_WINDOW_UPDATE = 8
_END_STREAM = 1
_END_HEADERS = 4

_HEAD_SIZE = 9
_PREFIX_SIZE = 5
_ID_AT = 5

_OK = b"\x88"  # :status 200
_TYPE_ENTERS = b"\x5f\x10application/grpc"  # content-type is 31 of the static table
_TYPE_PLAIN = b"\x0f\x10\x10application/grpc"
_STATUS_ENTERS = b"\x40\x0bgrpc-status\x010"
_STATUS_PLAIN = b"\x00\x0bgrpc-status\x010"
_NEWEST = b"\xbe"  # of the peer's dynamic table
_SECOND = b"\xbf"
_NO_TABLE = b"\x20"


class FrameOut:
    """Frames that wait to be written.

    ``on_first`` is called when one comes between reads; within a read (``is_held``) the host
    writes at its end anyway.  ``can_enter`` is false when the peer keeps no table.
    """

    def __init__(self, on_first: Callable[[], object]) -> None:
        self._on_first = on_first
        self.out = bytearray()
        self.is_held = False
        self.can_enter = True
        self._has_type = False
        self._has_status = False
        self._opening = b""
        self._head = bytearray(_HEAD_SIZE)
        self._prefix = bytearray(_PREFIX_SIZE)

    def take(self) -> bytearray:
        """All that waits; the caller's from here on."""
        found = self.out
        self.out = bytearray()
        return found

    def keep_no_table(self) -> None:
        """The peer wants a smaller table than the default: use none, and say so."""
        self.can_enter = False
        self._opening = _NO_TABLE

    def opening(self) -> bytes:
        """What the next header block has to begin with; asked for once per block."""
        found = self._opening
        self._opening = b""
        return found

    def frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Write any frame of up to the peer's frame size."""
        self._touch()
        self._put_head(len(payload), kind, flags, number)
        self.out += payload

    def reset(self, number: int, code: int) -> None:
        """RST_STREAM."""
        self.frame(_RESET, 0, number, code.to_bytes(4, "big"))

    def window(self, number: int, step: int) -> None:
        """WINDOW_UPDATE."""
        self.frame(_WINDOW_UPDATE, 0, number, step.to_bytes(4, "big"))

    def data(self, number: int, flags: int, chunk: bytes | memoryview) -> None:
        """DATA."""
        self._touch()
        self._put_head(len(chunk), _DATA, flags, number)
        self.out += chunk

    def message(self, number: int, message: bytes) -> None:
        """DATA with one whole gRPC message."""
        self._touch()
        self._put_head(_PREFIX_SIZE + len(message), _DATA, 0, number)
        raw.put_u32(raw.at_address(self._prefix), 1, len(message))
        self.out += self._prefix
        self.out += message

    def first(self, number: int) -> None:
        """HEADERS before the messages of an answer."""
        if not self.can_enter:
            block = self.opening() + _OK + _TYPE_PLAIN
        elif not self._has_type:
            self._has_type = True
            block = _OK + _TYPE_ENTERS
        elif self._has_status:
            block = _OK + _SECOND
        else:
            block = _OK + _NEWEST
        self.frame(_HEADERS, _END_HEADERS, number, block)

    def last(self, number: int) -> None:
        """HEADERS after the messages of an answer whose status is OK."""
        if not self.can_enter or not self._has_type:
            block = self.opening() + _STATUS_PLAIN
        elif self._has_status:
            block = _NEWEST
        else:
            self._has_status = True
            block = _STATUS_ENTERS
        self.frame(_HEADERS, _END_HEADERS | _END_STREAM, number, block)

    def only(self, number: int) -> None:
        """HEADERS of an answer that has status OK and no message."""
        block = self.opening() + _OK + _TYPE_PLAIN + _STATUS_PLAIN
        self.frame(_HEADERS, _END_HEADERS | _END_STREAM, number, block)

    def _put_head(self, size: int, kind: int, flags: int, number: int) -> None:
        head = raw.at_address(self._head)
        raw.put_u32(head, 0, size << 8 | kind)
        head[4] = flags
        raw.put_u32(head, _ID_AT, number)
        self.out += self._head

    def _touch(self) -> None:
        if not self.is_held and not self.out:
            self._on_first()
