"""TLS between a socket and a protocol: OpenSSL over two buffers in memory, driven by the reads.

The protocol sees an ordinary transport. Bytes of the socket go into ``incoming``; what can be
decrypted of them goes, as much as fits, into the protocol's own buffer, so that all frames of one
read are handled together. What is decrypted and not yet taken is invisible to the loop: whoever
pauses reading and goes on is given it without waiting for the socket.

After the handshake the socket is read in the server's turns (``join``), by the same compiled
``Reads`` as a plain one's: there, decrypting takes the place of the lane, and what the protocol
answers within a read goes to the socket at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final

from contrailmq._native.net.reads import Reads
from contrailmq._native.net.turns import Turns

OUT_SIZE_MAX: Final = 1024 * 1024  # encrypted within one read; then the transport gets it


class HandshakeFailed(Exception):
    """The peer cannot be let in; the text says why."""


class TlsTransport(asyncio.Transport):
    """The server's end of one TLS connection; ``is_open`` after the handshake."""

    def __init__(
        self,
        raw: asyncio.Transport,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.BufferedProtocol],
        *,
        buffer: bytearray,
    ) -> None:
        super().__init__()
        self._raw = raw
        self._make = make
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._context = context
        self._protocol: asyncio.BufferedProtocol | None = None
        self._is_paused = False
        self._is_closing = False
        self.is_open = False
        self.is_broken = False
        self._buffer = buffer  # of all connections: a read is decrypted before the next
        self._turns: Turns | None = None
        self._reads: Reads | None = None
        self._out: list[Any] | None = None  # the answers of the read being handled
        self._out_size = 0
        self.later: Any = None  # as an outlet: nothing is collected, and pauses are the protocol's
        self.is_paused = False

    # -- what the porter calls

    def feed(self, data: memoryview) -> None:
        """Bytes of the socket have come; raises SSLError."""
        self._incoming.write(data)
        if not self.is_open:
            self._shake()
            if not self.is_open:
                return
        self._pump()

    def flush(self) -> None:
        """Send what OpenSSL has written by itself: handshakes and alerts."""
        if self._outgoing.pending and not self._raw.is_closing():
            self._give()

    def lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        self._leave_turns()
        self._is_closing = True
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def ended(self) -> bool:
        """The peer sends no more; the socket closes."""
        return False

    def pause_writing(self) -> None:
        """The socket's buffer is above its mark."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The socket's buffer has drained."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    # -- what reads the socket calls, once it is read in turns

    def join(self, turns: Turns) -> None:
        """Read the socket in these turns from now on; the transport reads it no more."""
        sock = self._raw.get_extra_info("socket")
        if sock is None or self._is_paused or self._is_closing or self._raw.is_closing():
            return
        reads = Reads(self, self._buffer, self, asyncio.get_running_loop().time)
        reads.owner = reads.outlet = self
        reads.write, reads.waiting = self._raw.write, self._raw.get_write_buffer_size
        reads.fd, reads.is_straight = sock.fileno(), True
        self._raw.pause_reading()
        self._turns, self._reads = turns, reads
        turns.add(reads)

    def run(
        self, buffer: bytearray, start: int, end: int, connection: object, out: list[Any]
    ) -> int:
        """Decrypt a read, and hand it over; what is answered at once goes to ``out``."""
        self._out, self._out_size = out, 0
        try:
            self._incoming.write(memoryview(buffer)[:end])
            self._pump()
        except (ssl.SSLError, OSError):
            self.is_broken = True
            self._hand_out()
            self.flush()
            self._leave_turns()
            self._raw.close()
        finally:
            self._out = None
        return end

    def go_on(self, nbytes: int, position: int, out: list[Any]) -> None:
        """The socket did not take all: the transport gets the rest."""
        if self._reads is not None:
            self._reads.out = None
        self.send(out)

    def send(self, buffers: list[Any]) -> None:
        """Give encrypted bytes to the transport."""
        if not self._raw.is_closing():
            self._raw.writelines(buffers)

    def give_up(self, out: list[Any], error: Exception) -> None:
        """The protocol failed within a read."""
        self.reject(error)

    def look(self) -> None:
        """The transport tells the protocol itself when its buffer is full."""

    def give_back(self) -> None:
        """The socket has ended: let the transport find out how."""
        self._turns = self._reads = None
        if not self._is_paused and not self._raw.is_closing():
            self._raw.resume_reading()

    def reject(self, error: Exception) -> None:
        """A read failed: close at once."""
        self._leave_turns()
        self._raw.abort()

    def _leave_turns(self) -> None:
        turns, reads = self._turns, self._reads
        self._turns = self._reads = None
        if turns is not None and reads is not None:
            turns.remove(reads)

    def _hand_out(self) -> None:
        """Give what was answered to the transport now; what follows goes there, too."""
        out, self._out, self._out_size = self._out, None, 0
        if out:
            self.send(list(out))
            out.clear()

    def _give(self) -> None:
        """Send what was encrypted: at the end of the read being handled, or now."""
        data = self._outgoing.read()
        out = self._out
        if out is not None:
            out.append(data)
            self._out_size += len(data)
            if self._out_size > OUT_SIZE_MAX:
                self._hand_out()
                self._out = out
        elif self._reads is not None:
            self._reads.answer(data)
        else:
            self._raw.write(data)

    def _shake(self) -> None:
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self.flush()
            return
        self.flush()
        self.is_open = True
        self._protocol = protocol = self._make()
        protocol.connection_made(self)

    def _pump(self) -> None:
        """Decrypt and hand over until nothing whole is left, or the protocol pauses."""
        while not self._is_paused and self._protocol is not None and not self._is_closing:
            room: Any = self._protocol.get_buffer(-1)
            size, filled, is_more = len(room), 0, True
            while filled < size:
                got: Any
                try:
                    got = self._ssl.read(size - filled, room[filled:])
                except ssl.SSLWantReadError:
                    is_more = False
                    break
                except ssl.SSLZeroReturnError:
                    got = 0
                if got == 0:
                    is_more = False
                    self._is_closing = True
                    break
                filled += int(got)
                if not self._incoming.pending and not self._ssl.pending():
                    is_more = False  # without an exception to find out
                    break
            if filled:
                self._protocol.buffer_updated(filled)
            if self._is_closing:
                self._hand_out()
                self.flush()
                self._leave_turns()
                self._raw.close()
            if not is_more:
                break
        if self._outgoing.pending:
            self.flush()

    # -- what the protocol calls

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Encrypt and send."""
        if len(data) and not self.is_broken and not self._raw.is_closing():
            self._ssl.write(data)
            self._give()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        """Encrypt all and send them with one call."""
        if self.is_broken or self._raw.is_closing():
            return
        for data in list_of_data:
            if len(data):
                self._ssl.write(data)
        if self._outgoing.pending:
            self._give()

    def close(self) -> None:
        """Say goodbye, let out what is written, close."""
        self._is_closing = True
        if self.is_open and not self.is_broken and not self._raw.is_closing():
            with contextlib.suppress(ssl.SSLError, OSError):
                self._ssl.unwrap()
            self._hand_out()
            self.flush()
        self._leave_turns()
        self._raw.close()

    def abort(self) -> None:
        """Close at once."""
        self._leave_turns()
        self._is_closing = True
        self._raw.abort()

    def is_closing(self) -> bool:
        """Whether it closes or has closed."""
        return self._is_closing or self._raw.is_closing()

    def pause_reading(self) -> None:
        """Hand over nothing more for now."""
        self._is_paused = True
        if self._turns is not None and self._reads is not None:
            self._turns.remove(self._reads)
        else:
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Go on, with what was decrypted already first."""
        self._is_paused = False
        if self._turns is not None and self._reads is not None:
            self._turns.add(self._reads)
        else:
            self._raw.resume_reading()
        asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        if self.is_open and not self._is_paused and not self.is_broken:
            try:
                self._pump()
            except (ssl.SSLError, OSError):
                self.is_broken = True
                self._leave_turns()
                self._raw.abort()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As the socket's transport has it."""
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the peer, encrypted."""
        return self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the socket knows, and ``sslcontext`` and ``ssl_object``."""
        if name == "ssl_object":
            return self._ssl
        if name == "sslcontext":
            return self._context
        return self._raw.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol behind it."""
        assert self._protocol is not None
        return self._protocol


def names_of(certificate: Any) -> tuple[str, ...]:
    """The names of a peer's certificate: the common name, then the alternative ones."""
    if not certificate:
        return ()
    found = [
        value
        for part in certificate.get("subject", ())
        for name, value in part
        if name == "commonName"
    ]
    names = certificate.get("subjectAltName", ())
    found += [value for kind, value in names if kind != "IP Address"]
    return tuple(dict.fromkeys(found))
