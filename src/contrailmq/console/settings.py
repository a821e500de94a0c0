"""What a console is told at its start, and the bounds of what its visitors can ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_PORT: Final = 8080
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

REQUEST_SIZE_MAX: Final = 5 * 1024 * 1024  # a message to send, as JSON
CALL_S: Final = 3.0  # for one answer of a server
WINDOW_MAX: Final = 200  # rows of a list in one answer
SCAN_MAX: Final = 10_000  # messages that one search looks at before it asks whether to go on
SCAN_S: Final = 5.0
SEARCHES_MAX: Final = 4  # at a time; the next one is refused
STREAMS_MAX: Final = 20
STREAM_S: Final = 900.0
SESSIONS_MAX: Final = 256
SESSION_S: Final = 12 * 3600.0
SESSION_IDLE_S: Final = 30 * 60.0
PREVIEW_SIZE: Final = 64 * 1024
BULK_MAX: Final = 20  # dead letters that one click sends again


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Where a console listens, whom it serves, and what they may do."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    read_only: bool = False
    """No action that changes anything is done, whatever the account may."""
    allow_remote: bool = False
    """Other machines are served without access control, too."""
    hosts: tuple[str, ...] = ()
    """Names under which browsers may reach the console, besides its address and loopback."""
    login: bool | None = None
    """Whether visitors give an account of the cluster. None: if the cluster demands one."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the console."""
        return self.host in LOOPBACK

    def allowed_hosts(self) -> frozenset[str]:
        """What the header ``Host`` may name, without a port (a foreign name is a rebinding)."""
        return frozenset({*LOOPBACK, "[::1]", self.host, *self.hosts})
