"""A client as the tables know it: something that can be asked, told, and that ends.

Two kinds of it exist: the connection of a remoting client, and the telemetry stream of a gRPC one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from contrailmq.protocol.command import Command


class ClientLink(Protocol):
    """The way to one client. Its identity is the client's."""

    @property
    def peer(self) -> str:
        """The client's address, ``ip:port``."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the client cannot be reached now."""
        ...

    async def call(self, command: Command, *, timeout_s: float) -> Command:
        """Ask, and return the answer; raises NetworkError."""
        ...

    def oneway(self, command: Command) -> None:
        """Tell; raises NetworkError."""
        ...

    def close(self, reason: str) -> None:
        """End the connection."""
        ...

    def on_close(self, callback: Callable[[Any], None]) -> None:
        """Call back once with this link when it has ended."""
        ...
