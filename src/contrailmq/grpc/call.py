"""One gRPC call as its handler sees it, and how a handler ends it.

The transport (``http2``) knows nothing of RocketMQ, handlers know nothing of HTTP/2; they meet
here.  A server gets a table of ``Methods``: the full path of a method and what serves it.

A ``Unary`` handler is called when the whole request is there.  It returns the answer at once, or
an awaitable of it; an answer given at once leaves in the same turn of the loop, in one write with
all others of that read.  A ``Streaming`` handler runs in a task of its own from the first bytes of
the call on, reads and writes as it likes, and ends the call by returning.

Both refuse by raising ``GrpcError``; any other exception is a bug, logged, and INTERNAL to the
peer.  When the peer cancels, its connection goes or the deadline passes, ``read`` and ``write``
raise ``CallGone``, a handler's task is cancelled a moment later, and callbacks of ``on_gone`` run.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from contrailmq.errors import ContrailError


class GrpcStatus(enum.IntEnum):
    """How a call ended, in gRPC's numbers."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(ContrailError):
    """A call ended, or has to end, with a status other than OK; ``text`` is for humans."""

    def __init__(self, status: GrpcStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text

    def __str__(self) -> str:
        return f"{self.text} (gRPC {self.status.name})"


class CallGone(ContrailError):
    """The peer cancelled the call, its connection went, or its deadline passed."""


class Call(Protocol):
    """One call of one peer."""

    @property
    def method(self) -> str:
        """The full path: ``/package.Service/Method``."""
        ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """The peer's headers by lower-case name, ASCII; a repeated name's values are joined."""
        ...

    @property
    def peer(self) -> str:
        """The peer as ``ip:port``."""
        ...

    @property
    def local(self) -> str:
        """Our end of the connection as ``ip:port``."""
        ...

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        ...

    @property
    def deadline(self) -> float | None:
        """When the peer stops waiting, in the loop's time; None for never."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        ...

    async def read(self) -> bytes | None:
        """The next message of the peer; None after its last. Raises CallGone or GrpcError."""
        ...

    async def write(self, message: bytes) -> None:
        """Send one message; waits while the peer takes no more. Raises CallGone."""
        ...

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back once if the peer gives up before the handler has ended; at once if it has."""
        ...


Handler = Callable[[Call], Awaitable[None]]
UnaryHandler = Callable[[Call, bytes], bytes | Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Unary:
    """A method of one request and one answer."""

    handler: UnaryHandler


@dataclass(frozen=True, slots=True)
class Streaming:
    """A method that reads and writes any number of messages."""

    handler: Handler


Methods = Mapping[str, Unary | Streaming]
