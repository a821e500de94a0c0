"""What bounds one HTTP/2 connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MESSAGE_SIZE_MAX: Final = 130 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    """The same for all connections of a server or a client.

    ``window`` is what a peer may send ahead on one stream, ``wide_window`` on all of them.  A
    connection without a call ends after ``idle_s``; one whose peer is silent while calls are under
    way is asked after ``ping_s`` and ends after ``silent_s``.
    """

    is_client: bool = False
    message_size_max: int = MESSAGE_SIZE_MAX
    header_size_max: int = 8 * 1024
    table_size: int = 4096
    streams_max: int = 1000
    window: int = 1024 * 1024
    wide_window: int = 16 * 1024 * 1024
    idle_s: float = 120.0
    ping_s: float = 60.0
    silent_s: float = 90.0
    stall_s: float = 30.0
    write_high_size: int = 1024 * 1024
    write_size_max: int = 64 * 1024 * 1024
    memory_size_max: int = 192 * 1024 * 1024
    connections_max: int = 50_000
    backlog: int = 1024
    drain_s: float = 0.5
    close_timeout_s: float = 3.0
