"""What bounds a server and a client on the network, under the original's keys where it has one.

Keys the original lacks are ours and begin with ``net``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from contrailmq.protocol.frame import FRAME_SIZE_MAX
from contrailmq.settings import key


class Lane(enum.IntEnum):
    """A kind of request that must not starve the others; each has a bound of its own."""

    SEND = 0
    PULL = 1
    ADMIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one connection may use; the same for all connections of a server or a client."""

    frame_size_max: int = FRAME_SIZE_MAX
    idle_s: float = 120.0
    write_high_size: int = 1024 * 1024
    write_size_max: int = 64 * 1024 * 1024
    in_flight_max: tuple[int, int, int] = (10_000, 10_000, 1_000)
    calls_max: int = 1024
    is_server: bool = True
    dead_after_s: float = 3.0
    close_timeout_s: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a server treats those who connect to it (NettyServerConfig and our own bounds)."""

    bind_address: str = key("bindAddress", "0.0.0.0")
    backlog: int = key("serverSocketBacklog", 1024, low=1)
    idle_s: int = key("serverChannelMaxIdleTimeSeconds", 120, low=1)
    frame_size_max: int = key("netFrameSizeMax", FRAME_SIZE_MAX)
    connections_max: int = key("netConnectionsMax", 50_000, low=1)
    in_flight_send_max: int = key("netInFlightSendMax", 10_000, low=1)
    in_flight_pull_max: int = key("netInFlightPullMax", 10_000, low=1)
    in_flight_admin_max: int = key("netInFlightAdminMax", 1_000, low=1)
    calls_max: int = key("netCallsMax", 1_024, low=1)
    write_high_size: int = key("netWriteHighSize", 1024 * 1024)
    write_size_max: int = key("netWriteSizeMax", 64 * 1024 * 1024)
    drain_ms: int = key("netDrainMillis", 500)

    def limits(self) -> Limits:
        """The bounds of one accepted connection."""
        return Limits(
            frame_size_max=self.frame_size_max,
            idle_s=float(self.idle_s),
            write_high_size=self.write_high_size,
            write_size_max=self.write_size_max,
            in_flight_max=(
                self.in_flight_send_max,
                self.in_flight_pull_max,
                self.in_flight_admin_max,
            ),
            calls_max=self.calls_max,
            is_server=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientNetSettings:
    """How a client connects and waits (NettyClientConfig and our own bounds)."""

    connect_timeout_ms: int = key("connectTimeoutMillis", 3_000, low=1)
    idle_s: int = key("clientChannelMaxIdleTimeSeconds", 120, low=1)
    calls_max: int = key("clientAsyncSemaphoreValue", 65_535, low=1)
    frame_size_max: int = key("netFrameSizeMax", FRAME_SIZE_MAX)
    write_high_size: int = key("netWriteHighSize", 1024 * 1024)
    write_size_max: int = key("netWriteSizeMax", 64 * 1024 * 1024)
    backoff_ms: int = key("netReconnectMillis", 50)
    backoff_max_ms: int = key("netReconnectMillisMax", 2_000)
    dead_after_ms: int = key("netDeadAfterMillis", 3_000)
    drain_ms: int = key("netDrainMillis", 500)

    def limits(self) -> Limits:
        """The bounds of one connection made by this client."""
        return Limits(
            frame_size_max=self.frame_size_max,
            idle_s=float(self.idle_s),
            write_high_size=self.write_high_size,
            write_size_max=self.write_size_max,
            calls_max=self.calls_max,
            is_server=False,
            dead_after_s=self.dead_after_ms / 1000,
        )
