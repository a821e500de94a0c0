# cython: annotation_typing=False
# ruff: noqa: ERA001
"""One stream of an HTTP/2 connection: one gRPC call, at either end.

A handler sees it as ``contrailmq.grpc.call.Call``.  All rules are the session's, which owns the
numbers here; what has to wait is done by the session's host.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


class Stream:
    """A call: what has come of it, what of its answer waits, and how far both may go on.

    ``buffer`` holds an unfinished message, ``messages`` whole ones that are not read yet.
    ``pending`` holds answer bytes that wait for a window, ``last`` the trailers after them.
    ``has_ended`` when the peer has sent all, ``is_done`` when we have, ``is_gone`` when nobody
    waits for us any more.
    """

    def __init__(self, session: Any, number: int, method: str, metadata: dict[str, str]) -> None:
        self.session = session
        self.number = number
        self.method = method
        self.metadata = metadata
        self.handler: Any = None
        self.is_unary = False
        self.arrived = 0.0
        self.send_left = 0
        self.receive_left = 0
        self.held = 0
        self.buffer: bytearray | None = None
        self.messages: list[bytes] | None = None
        self.pending: list[Any] | None = None
        self.last: bytes | None = None
        self.has_begun = False
        self.has_ended = False
        self.is_done = False
        self.is_gone = False
        self.waiter: Any = None  # of a reader, a writer
        self.writer: Any = None
        self.task: Any = None
        self.timer: Any = None
        self.state: Any = None  # the host's own
        self._callbacks: list[Callable[[], None]] | None = None

    @property
    def peer(self) -> str:
        """The peer as ``ip:port``."""
        found: str = self.session.host.peer
        return found

    @property
    def local(self) -> str:
        """Our end as ``ip:port``."""
        found: str = self.session.host.local
        return found

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return bool(self.session.host.is_tls)

    @property
    def deadline(self) -> float | None:
        """When the peer stops waiting, in the loop's time."""
        timeout_s = timeout_of(self.metadata.get("grpc-timeout"))
        return None if timeout_s < 0 else self.arrived + timeout_s

    def read(self) -> Coroutine[Any, Any, bytes | None]:
        """The next message of the peer; None after its last."""
        found: Coroutine[Any, Any, bytes | None] = self.session.host.read(self)
        return found

    def write(self, message: bytes) -> Coroutine[Any, Any, None]:
        """Send one message; waits while the peer takes no more."""
        found: Coroutine[Any, Any, None] = self.session.host.write(self, message)
        return found

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back once when the peer gives up; at once if it has."""
        if self.is_gone:
            callback()
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def take_callbacks(self) -> list[Callable[[], None]]:
        """Whom to call now that the peer is gone, or nobody any more."""
        found = self._callbacks
        self._callbacks = None
        return [] if found is None else found


def timeout_of(text: str | None) -> float:
    """Seconds of a ``grpc-timeout``; below 0 without one, or where it is none."""
    if text is None or not 2 <= len(text) <= 9:
        return -1.0
    unit = _UNITS.get(text[len(text) - 1 :])
    digits = text[: len(text) - 1]
    if unit is None or not digits.isascii() or not digits.isdigit():
        return -1.0
    return int(digits) * unit
