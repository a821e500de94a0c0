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
    slow_s: float = 1.0
    close_timeout_s: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a server treats the connections it accepts (NettyServerConfig and our own bounds)."""

    bind_address: str = key(
        "bindAddress",
        "127.0.0.1",
        doc="The address to listen on.",
    )
    backlog: int = key(
        "serverSocketBacklog",
        1024,
        low=1,
        doc="Number of connections the system holds until the server accepts them.",
    )
    idle_s: int = key(
        "serverChannelMaxIdleTimeSeconds",
        120,
        low=1,
        doc="A connection on which nothing arrives for this many seconds is closed.",
    )
    frame_size_max: int = key(
        "netFrameSizeMax",
        FRAME_SIZE_MAX,
        doc="The largest frame in bytes. A larger one closes the connection.",
    )
    connections_max: int = key(
        "netConnectionsMax",
        50_000,
        low=1,
        doc=(
            "Most connections per port. Further ones are closed at once. All ports together take "
            "at most three quarters of the open files the system allows (`ulimit -n`), or all "
            "but 4,096. Further ones wait until a connection ends."
        ),
    )
    in_flight_send_max: int = key(
        "netInFlightSendMax",
        10_000,
        low=1,
        doc=(
            "Sends per connection that may wait for an answer. Further sends are refused with "
            "SYSTEM_BUSY."
        ),
    )
    in_flight_pull_max: int = key(
        "netInFlightPullMax",
        10_000,
        low=1,
        doc=(
            "Pulls per connection that may wait for an answer. Further pulls are refused with "
            "SYSTEM_BUSY."
        ),
    )
    in_flight_admin_max: int = key(
        "netInFlightAdminMax",
        1_000,
        low=1,
        doc=(
            "Other requests per connection that may wait for an answer. Further ones are "
            "refused with SYSTEM_BUSY."
        ),
    )
    calls_max: int = key(
        "netCallsMax",
        1_024,
        low=1,
        doc="Requests of the server to one client that may wait for an answer.",
    )
    write_high_size: int = key(
        "netWriteHighSize",
        1024 * 1024,
        doc=(
            "When more bytes than this wait to be written to a peer, nothing more is read from it."
        ),
    )
    write_size_max: int = key(
        "netWriteSizeMax",
        64 * 1024 * 1024,
        doc="When more bytes than this wait to be written to a peer, the connection is closed.",
    )
    memory_size_max: int = key(
        "netMemorySizeMax",
        192 * 1024 * 1024,
        low=32 * 1024 * 1024,
        doc=(
            "Most bytes that all connections together may hold: unfinished frames, answers that "
            "are not read, pulls that wait. Above it the connections that hold most are closed."
        ),
    )
    drain_ms: int = key(
        "netDrainMillis",
        500,
        doc="How long a stop waits for answers that are under way, in ms.",
    )

    slow_ms: int = key(
        "netSlowRequestMillis",
        1_000,
        low=1,
        doc=(
            "A request whose answer took this long is named in the log, in ms. Pulls that wait "
            "for messages are not meant."
        ),
    )
    proxy_from: str = key(
        "proxyProtocolFrom",
        "",
        doc=(
            "Addresses of proxies whose PROXY protocol lines are believed, separated by commas. "
            "Empty: none are, and such a line is a broken frame."
        ),
    )

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
            slow_s=self.slow_ms / 1000,
            is_server=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientNetSettings:
    """How a client connects and waits (NettyClientConfig and our own bounds)."""

    connect_timeout_ms: int = key(
        "connectTimeoutMillis",
        3_000,
        low=1,
        doc="How long it may take to connect, in ms.",
    )
    idle_s: int = key(
        "clientChannelMaxIdleTimeSeconds",
        120,
        low=1,
        doc="A client's connection on which nothing arrives for this many seconds is closed.",
    )
    calls_max: int = key(
        "clientAsyncSemaphoreValue",
        65_535,
        low=1,
        doc="Requests per connection that may wait for an answer. Further ones fail.",
    )
    frame_size_max: int = key(
        "netFrameSizeMax",
        FRAME_SIZE_MAX,
        doc="The largest frame in bytes. A larger one closes the connection.",
    )
    write_high_size: int = key(
        "netWriteHighSize",
        1024 * 1024,
        doc=(
            "When more bytes than this wait to be written to a peer, nothing more is read from it."
        ),
    )
    write_size_max: int = key(
        "netWriteSizeMax",
        64 * 1024 * 1024,
        doc="When more bytes than this wait to be written to a peer, the connection is closed.",
    )
    backoff_ms: int = key(
        "netReconnectMillis",
        50,
        doc="First pause before a failed address is tried again, in ms.",
    )
    backoff_max_ms: int = key(
        "netReconnectMillisMax",
        2_000,
        doc="Longest pause before a failed address is tried again, in ms.",
    )
    dead_after_ms: int = key(
        "netDeadAfterMillis",
        3_000,
        doc=(
            "When a call times out and its connection has been silent for this long, the "
            "connection is closed, in ms."
        ),
    )
    drain_ms: int = key(
        "netDrainMillis",
        500,
        doc="How long a stop waits for answers that are under way, in ms.",
    )

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
