"""Calls to other processes by address: one connection per address, made when first needed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

from contrailmq.clock import Clock
from contrailmq.errors import ConnectFailed, NetworkError, RequestTimeout
from contrailmq.lifecycle import Tasks
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Dispatcher, Handler
from contrailmq.net.endpoint import Endpoint, FastLane
from contrailmq.net.network import AsyncioNetwork, Network
from contrailmq.net.noise import Noise
from contrailmq.net.server import drain
from contrailmq.net.settings import ClientNetSettings
from contrailmq.protocol.command import Command
from contrailmq.protocol.hosts import split_address

log = logging.getLogger(__name__)


class _Failure(NamedTuple):
    """The last attempt at an address: why it failed, and until when none is made."""

    reason: str
    attempts: int
    until_ms: int


class RemotingClient:
    """Requests to any number of addresses.

    Callers of one address share its connection and, while there is none, one attempt to connect.
    After a failed attempt, calls fail at once until a back-off with jitter has passed (50 ms to
    2 s by default): other brokers can be tried meanwhile.  The name of an address is resolved at
    every attempt.  ``handlers`` serve what the other side asks on our connections; ``lane`` sees
    what comes before they do.  ``sign`` is called with every request before it leaves.
    """

    def __init__(
        self,
        settings: ClientNetSettings | None = None,
        *,
        clock: Clock,
        handlers: Mapping[int, Handler] | None = None,
        network: Network | None = None,
        rng: random.Random | None = None,
        on_open: Callable[[str, Connection], None] | None = None,
        lane: FastLane[Connection] | None = None,
        sign: Callable[[Command], None] | None = None,
    ) -> None:
        self._sign = sign
        self._settings = settings if settings is not None else ClientNetSettings()
        self._clock = clock
        self._network: Network = network if network is not None else AsyncioNetwork()
        self._rng = rng if rng is not None else random.Random()
        self._on_open = on_open
        self._endpoint: Endpoint[Connection] = Endpoint(
            Dispatcher(handlers or {}), self._settings.limits(), noise=Noise(clock), lane=lane
        )
        self._connections: dict[str, Connection] = {}
        self._attempts: dict[str, asyncio.Task[Connection]] = {}
        self._failures: dict[str, _Failure] = {}
        self._tasks = Tasks()
        self._is_closed = False

    async def call(self, address: str, command: Command, *, timeout_s: float) -> Command:
        """Send a request and return its answer, whatever its code; raises a NetworkError."""
        if self._sign is not None:
            self._sign(command)
        connection = self._connections.get(address)
        if connection is None:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + timeout_s
            connection = await self.connect(address, timeout_s=timeout_s)
            timeout_s = max(deadline - loop.time(), 0.001)
        return await connection.call(command, timeout_s=timeout_s)

    async def oneway(self, address: str, command: Command, *, timeout_s: float = 3.0) -> None:
        """Send a request nobody answers; returns when it is handed to the connection."""
        if self._sign is not None:
            self._sign(command)
        connection = self._connections.get(address)
        if connection is None:
            connection = await self.connect(address, timeout_s=timeout_s)
        connection.oneway(command)

    def find_connection(self, address: str) -> Connection | None:
        """The open connection to an address, if there is one now."""
        return self._connections.get(address)

    @property
    def addresses(self) -> list[str]:
        """The addresses there is a connection to."""
        return list(self._connections)

    async def connect(self, address: str, *, timeout_s: float) -> Connection:
        """The connection to an address, made if need be; raises a NetworkError."""
        connection = self._connections.get(address)
        if connection is not None:
            return connection
        if self._is_closed:
            raise NetworkError("the client is closed")
        attempt = self._attempts.get(address)
        if attempt is None:
            self._check_backoff(address)
            attempt = self._tasks.start(self._attempt(address), name=f"connect-{address}")
            self._attempts[address] = attempt
        done, _ = await asyncio.wait((attempt,), timeout=timeout_s)
        if not done:
            raise RequestTimeout(f"no connection to {address} within {timeout_s:g} s")
        if attempt.cancelled():
            raise NetworkError("the client is closed")
        return attempt.result()

    def drop(self, address: str, reason: str) -> None:
        """Close the connection to an address and forget its failures."""
        self._failures.pop(address, None)
        connection = self._connections.get(address)
        if connection is not None:
            connection.close(reason)

    async def aclose(self) -> None:
        """Close all connections after what is written has gone out; calls under way fail."""
        self._is_closed = True
        await self._tasks.aclose()
        await drain(self._endpoint, drain_s=self._settings.drain_ms / 1000)

    def _check_backoff(self, address: str) -> None:
        failure = self._failures.get(address)
        if failure is not None:
            left_ms = failure.until_ms - self._clock.monotonic_ms()
            if left_ms > 0:
                raise ConnectFailed(
                    f"{address}: {failure.reason} (attempt {failure.attempts}; the next one is "
                    f"made in {left_ms} ms)"
                )

    async def _attempt(self, address: str) -> Connection:
        try:
            host, port = split_address(address)
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1000):
                connection = await self._network.connect(
                    lambda: Connection(self._endpoint), host, port
                )
        except TimeoutError:
            wait_s = self._settings.connect_timeout_ms / 1000
            raise self._failed(address, f"no connection within {wait_s:g} s") from None
        except (OSError, ValueError) as error:
            raise self._failed(address, str(error) or type(error).__name__) from error
        finally:
            self._attempts.pop(address, None)
        assert isinstance(connection, Connection)
        self._failures.pop(address, None)
        if not connection.closed:
            self._connections[address] = connection
            connection.on_close(lambda _: self._forget(address, connection))
            if self._on_open is not None:
                self._on_open(address, connection)
        return connection

    def _failed(self, address: str, reason: str) -> ConnectFailed:
        before = self._failures.get(address)
        count = before.attempts + 1 if before is not None else 1
        settings = self._settings
        backoff_ms = min(settings.backoff_ms * 2 ** min(count - 1, 16), settings.backoff_max_ms)
        wait_ms = int(backoff_ms * self._rng.uniform(0.5, 1.0))
        # Bounded by forgetting the address that failed longest ago.
        self._failures.pop(address, None)
        if len(self._failures) >= 4096:
            del self._failures[next(iter(self._failures))]
        self._failures[address] = _Failure(reason, count, self._clock.monotonic_ms() + wait_ms)
        return ConnectFailed(f"{address}: {reason}")

    def _forget(self, address: str, connection: Connection) -> None:
        if self._connections.get(address) is connection:
            del self._connections[address]
