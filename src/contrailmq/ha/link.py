"""One replica, as its primary sees it: what it has, what is sent to it.

The replica's first report says where its log ends, and that is where sending begins.  A report that
cannot be true (behind our end, or before our first segment) ends the connection and never counts:
Java's primaries take it for an acknowledgement of everything.

Data is sent in frames of ``haTransferBatchSize``, none of which reaches over a segment or an epoch.
Their bodies are views of the mapped segments, so nothing is copied here.  A slow replica fills its
transport's buffer, and is sent more when that has room.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator
from typing import Final, Protocol, cast

from contrailmq.errors import ProtocolError
from contrailmq.ha import wire
from contrailmq.ha.buffered import BufferedLink
from contrailmq.ha.epochs import EpochList
from contrailmq.ha.settings import HaSettings
from contrailmq.store.store import Store

log = logging.getLogger(__name__)

WRITE_SIZE: Final = 1024 * 1024  # frames that are written together
BUFFER_SIZE_MAX: Final = 4 * 1024 * 1024
REPORTS_SIZE_MAX: Final = 1024 * 1024


class LinkOwner(Protocol):
    """What a link needs of its primary."""

    store: Store
    settings: HaSettings
    epochs: EpochList | None

    def linked(self, link: Link) -> bool:
        """A replica has connected; False when there are too many."""
        ...

    def acknowledged(self, link: Link) -> None:
        """A replica has reported."""
        ...

    def unlinked(self, link: Link) -> None:
        """A replica has gone."""
        ...


class Link(BufferedLink):
    """The connection of one replica."""

    def __init__(self, owner: LinkOwner) -> None:
        super().__init__()
        self._owner = owner
        self._is_auto = owner.epochs is not None
        self._reader = wire.AutoReportReader() if self._is_auto else wire.ReportReader()
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self.hello: wire.ReplicaHello | None = None
        self.peer = ""
        self.session: ssl.SSLObject | None = None  # of TLS
        self.next_offset = -1  # of the next frame; -1 before the first report
        self.acknowledged = -1
        self._told: int | None = None  # what of the log it knows to be confirmed
        self.end_at_transfer = 0  # where the log ended when something was last sent
        self.caught_up_at = 0.0
        self.wrote_at = self.read_at = asyncio.get_running_loop().time()
        self._sent = self._sent_before = 0
        self._second = int(self.wrote_at)

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A replica has connected."""
        transport = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        self._transport = transport
        transport.set_write_buffer_limits(high=BUFFER_SIZE_MAX)
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if name else "?"
        self.session = transport.get_extra_info("ssl_object")
        if self._owner.linked(self):
            log.info("replica connected: peer=%s", self.peer)
        else:
            transport.abort()

    def data_received(self, data: memoryview | bytes) -> None:
        """Reports, and a handshake before them."""
        self.read_at = asyncio.get_running_loop().time()
        try:
            for found in self._reader.feed(bytes(data)):
                if isinstance(found, wire.ReplicaHello):
                    self._greeted(found)
                else:
                    self._reported(found)
        except ProtocolError as error:
            self.close(str(error))

    def pause_writing(self) -> None:
        """The replica is slower than we are."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """It takes more now."""
        self._is_paused = False
        self.pump()

    def connection_lost(self, error: Exception | None) -> None:
        """It has gone."""
        if self._transport is not None:
            self._transport = None
            log.info("replica has gone: peer=%s error=%s", self.peer, error)
            self._owner.unlinked(self)

    # What the primary calls

    @property
    def is_open(self) -> bool:
        """Whether the replica can be sent something."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self, reason: str) -> None:
        """End the connection."""
        if self._transport is not None:
            log.warning("replica is let go: peer=%s reason=%s", self.peer, reason)
            self._transport.abort()

    def beat(self, now: float) -> None:
        """Send a heartbeat if nothing was sent for long; end a connection that is silent."""
        settings = self._owner.settings
        if (now - self.read_at) * 1000 > settings.silence_ms:
            self.close(f"nothing heard for {settings.silence_ms} ms")
        elif self.next_offset >= 0 and (now - self.wrote_at) * 1000 > settings.heartbeat_ms:
            self.confirm()

    def confirm(self) -> None:
        """Send a frame without a body: a heartbeat, and in controller mode what is confirmed."""
        if self._transport is not None and self.next_offset >= 0 and not self._is_paused:
            self._write([self._head(self.next_offset, 0)])

    def confirm_if_new(self) -> None:
        """Send what is confirmed if the replica was not told yet."""
        if self._owner.store.bound != self._told:
            self.confirm()

    def pump(self) -> bool:
        """Send what there is to send, as far as the transport takes it; whether any was."""
        if self.next_offset < 0 or self._is_paused or not self.is_open:
            return False
        end = self._owner.store.sendable_end()
        pieces: list[bytes | memoryview] = []
        size = 0
        has_sent = False
        for head, body in self._frames(end):
            pieces += (head, body)
            size += len(body)
            if size >= WRITE_SIZE:
                self._write(pieces)
                pieces, size, has_sent = [], 0, True
                if self._is_full():
                    break
        if pieces:
            self._write(pieces)
            has_sent = True
        if has_sent:
            self.end_at_transfer = end
        return has_sent

    @property
    def bytes_a_second(self) -> int:
        """What was sent in the last whole second."""
        self._count(0)
        return self._sent_before

    # The rest

    def _greeted(self, hello: wire.ReplicaHello) -> None:
        epochs = self._owner.epochs
        if epochs is None or self._transport is None:
            return
        self.hello = hello
        end = self._owner.store.sendable_end()
        answer = wire.PrimaryHello(end, epochs.last_epoch, tuple(epochs.entries))
        self._write([wire.primary_hello(answer)])

    def _reported(self, offset: int) -> None:
        store = self._owner.store
        end = store.sendable_end()
        if self._is_auto and self.hello is None:
            raise ProtocolError("a report before the handshake")
        if self.next_offset >= 0:
            if offset > end:
                raise ProtocolError(f"it reports {offset} and our log ends at {end}")
        elif offset == 0:
            is_last = self.hello is None or self.hello.from_last_file
            size = store.settings.segment_size
            self.next_offset = end - end % size if is_last else store.min_offset
        elif store.min_offset <= offset <= end:
            self.next_offset = offset
        else:
            raise ProtocolError(
                f"its log ends at {offset} and ours has {store.min_offset} to {end}: "
                "empty the replica's store, or restore ours"
            )
        self.acknowledged = offset
        if offset >= min(end, self.end_at_transfer):
            self.caught_up_at = self.read_at
        self._owner.acknowledged(self)
        if self.next_offset < end:
            self.pump()
        elif self._is_auto:
            self.confirm_if_new()

    def _frames(self, end: int) -> Iterator[tuple[bytes, memoryview]]:
        """Frames up to an offset, each with its body."""
        store, settings = self._owner.store, self._owner.settings
        segments = store.log.segments
        while self.next_offset < end:
            offset = self.next_offset
            if settings.has_flow_control and self._count(0) >= settings.bytes_a_second:
                return
            segment = segments.find(offset)
            if segment is None:
                self.close(f"the segment of {offset} is gone; it was away for too long")
                return
            base = segments.base_of(offset)
            stop = min(end, base + segment.size, offset + settings.frame_size)
            if self._owner.epochs is not None:
                stop = min(stop, self._owner.epochs.end_of(offset))
            body = segment.buffer[offset - base : stop - base]
            head = self._head(offset, stop - offset)
            self.next_offset = stop
            self._count(stop - offset)
            yield head, body

    def _head(self, offset: int, size: int) -> bytes:
        epochs = self._owner.epochs
        if epochs is None:
            return wire.classic_frame(wire.Frame(offset, size))
        entry = epochs.at(offset)
        confirmed = self._owner.store.bound
        self._told = confirmed
        if confirmed is None:
            confirmed = 0
        return wire.auto_frame(wire.Frame(offset, size, entry.epoch, entry.start, confirmed))

    def _write(self, pieces: list[bytes | memoryview]) -> None:
        if self._transport is not None:
            self.wrote_at = asyncio.get_running_loop().time()
            self._transport.writelines(pieces)

    def _is_full(self) -> bool:
        """Whether the transport takes no more for now."""
        return self._is_paused or not self.is_open

    def _count(self, size: int) -> int:
        """Add to what was sent in this second; how much it is."""
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._sent_before = self._sent if second == self._second + 1 else 0
            self._sent, self._second = 0, second
        self._sent += size
        return self._sent
