"""The taking side of replication: connects to the primary, puts its log behind our own, reports.

One connection at a time, to the address ``follow`` was last told.  After each read one report says
how far we are: what is written, or under synchronous flush what is on disk, which is stronger than
the original and says nothing else to a primary.  The first report leaves at once; Java's waits 5 s.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, cast

from contrailmq.clock import Clock
from contrailmq.errors import ContrailError, ProtocolError
from contrailmq.ha import wire
from contrailmq.ha.buffered import BufferedLink
from contrailmq.ha.settings import HaSettings
from contrailmq.net.network import Network
from contrailmq.net.noise import Noise
from contrailmq.protocol.bodies.stats import HAClientRuntimeInfo
from contrailmq.protocol.hosts import split_address
from contrailmq.store.settings import FlushDiskType
from contrailmq.store.store import Store

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 3.0
RETRY_S: Final = 0.5
TICK_S: Final = 0.5


class ReplicaLink(BufferedLink):
    """The connection to a classic primary."""

    READ_SIZE = 512 * 1024

    def __init__(self, store: Store, settings: HaSettings) -> None:
        super().__init__()
        self._store = store
        self._settings = settings
        self._reader: wire.FrameReader = wire.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._is_sync = store.settings.flush_disk_type is FlushDiskType.SYNC
        loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[str] = loop.create_future()
        self.wrote_at = self.read_at = loop.time()
        self.taken = 0
        self._reported = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected: say where our log ends."""
        transport = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        self._transport = transport
        self._greet()

    def data_received(self, data: memoryview | bytes) -> None:
        """Frames."""
        self.read_at = asyncio.get_running_loop().time()
        if self.closed.done():
            return
        try:
            for found in self._reader.feed(data):
                if isinstance(found, memoryview):
                    self._store.take(found)
                    self.taken += len(found)
                elif isinstance(found, wire.Frame):
                    self._begun(found)
                else:
                    self._greeted(found)
            self.report()
        except ContrailError as error:
            self.close(str(error))

    def connection_lost(self, error: Exception | None) -> None:
        """The primary has gone."""
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(str(error or "the primary closed it"))

    def close(self, reason: str) -> None:
        """End the connection."""
        if not self.closed.done():
            self.closed.set_result(reason)
        if self._transport is not None:
            self._transport.abort()

    def report(self, *, again: bool = False) -> None:
        """Say how far we are, if that has changed or is to be said again."""
        end = self._end()
        if (end != self._reported or again) and self._transport is not None:
            self._reported = end
            self.wrote_at = asyncio.get_running_loop().time()
            self._transport.write(self._encode(end))

    def beat(self, now: float) -> None:
        """Report again after a while; end a connection that is silent."""
        if (now - self.read_at) * 1000 > self._settings.silence_ms:
            self.close(f"nothing heard for {self._settings.silence_ms} ms")
        elif (now - self.wrote_at) * 1000 > self._settings.heartbeat_ms:
            self.report(again=True)

    def _greet(self) -> None:
        self.report(again=True)

    def _greeted(self, hello: wire.PrimaryHello) -> None:
        raise ProtocolError("a handshake of a primary in controller mode, which we are not in")

    def _begun(self, frame: wire.Frame) -> None:
        end = self._store.max_offset
        if end == self._store.min_offset and frame.offset != end:
            self._store.begin_at(frame.offset)
        elif frame.offset != end:
            raise ProtocolError(f"a frame at {frame.offset}, and our log ends at {end}")

    def _end(self) -> int:
        return self._store.flushed_offset if self._is_sync else self._store.max_offset

    def _encode(self, end: int) -> bytes:
        return wire.classic_report(end)


class Replica:
    """Follows one primary after another; a service that runs until cancelled."""

    def __init__(
        self, store: Store, settings: HaSettings, *, network: Network, clock: Clock
    ) -> None:
        self._store = store
        self._settings = settings
        self._network = network
        self._clock = clock
        self._noise = Noise(clock)
        self._wake = asyncio.Event()
        self._link: ReplicaLink | None = None
        self.address = ""
        self.read_ms = self.wrote_ms = 0

    def follow(self, address: str) -> None:
        """Take the log of this primary from now on; nobody's with an empty address."""
        if address != self.address:
            self.address = address
            self._wake.set()
            if self._link is not None:
                self._link.close("another primary")

    @property
    def is_linked(self) -> bool:
        """Whether a primary is connected."""
        return self._link is not None

    def flushed(self, offset: int) -> None:
        """The disk has everything before ``offset``."""
        if self._link is not None:
            self._link.report()

    async def run(self) -> None:
        """Connect, take, connect again, until cancelled."""
        try:
            while True:
                self._wake.clear()
                if self.address:
                    await self._take_from(self.address)
                await self._pause(RETRY_S if self.address else None)
        finally:
            if self._link is not None:
                self._link.close("closing down")

    async def _take_from(self, address: str) -> None:
        host, port = split_address(address)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                found = await self._network.connect(self._new_link, host, port)
        except (OSError, TimeoutError) as error:
            self._complain(address, f"cannot connect: {error or 'timeout'}")
            return
        assert isinstance(found, ReplicaLink)
        self._link = found
        log.info("connected to the primary: address=%s end=%s", address, self._store.max_offset)
        try:
            while not found.closed.done() and self.address == address:
                await asyncio.wait([found.closed], timeout=TICK_S)
                found.beat(asyncio.get_running_loop().time())
        finally:
            self._link = None
            found.close("no longer wanted")
        self._complain(address, found.closed.result())

    def _new_link(self) -> ReplicaLink:
        return ReplicaLink(self._store, self._settings)

    async def _pause(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _complain(self, address: str, reason: str) -> None:
        held_back = self._noise.held_back(address)
        if held_back is not None:
            log.warning(
                "not connected to the primary: address=%s reason=%s held_back=%s",
                address,
                reason,
                held_back,
            )

    def status(self) -> HAClientRuntimeInfo:
        """The primary as 907 shows it."""
        link = self._link
        if link is None:
            return HAClientRuntimeInfo(master_addr=self.address, max_offset=self._store.max_offset)
        late = self._clock.now_ms() - int(asyncio.get_running_loop().time() * 1000)
        return HAClientRuntimeInfo(
            last_read_timestamp=late + int(link.read_at * 1000),
            last_write_timestamp=late + int(link.wrote_at * 1000),
            master_addr=self.address,
            max_offset=self._store.max_offset,
        )
