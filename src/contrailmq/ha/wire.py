"""The bytes between a primary and its replicas, both protocols; nothing here waits or sends.

**Classic** (DefaultHAConnection).  A replica says nothing but 8 bytes: the end of its log.  Its
primary sends frames: offset, size, that many bytes of its log; a frame without a body is a
heartbeat and
says where the next data begins.

**AutoSwitch** (controller mode of 5.x) begins each piece with a state.  Both sides shake hands
first: the replica says who it is, the primary lists the epochs of its log.  Then the replica
reports its
end, and frames have the epoch they belong to, where that began, and what is confirmed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from contrailmq.errors import ProtocolError

REPORT: Final = struct.Struct(">q")
FRAME: Final = struct.Struct(">qi")

HANDSHAKE: Final = 1
TRANSFER: Final = 2
EPOCHS_MAX: Final = 1000
_STATE: Final = struct.Struct(">i")
_REPLICA_HELLO: Final = struct.Struct(">ihhq")
_PRIMARY_HELLO: Final = struct.Struct(">iiqi")
_EPOCH: Final = struct.Struct(">iq")
_AUTO_REPORT: Final = struct.Struct(">iq")
_AUTO_FRAME: Final = struct.Struct(">iiqiqq")
BODY_SIZE_MAX: Final = 1 << 30


class Frame(NamedTuple):
    """What comes before the bytes of a stretch of log; without them a heartbeat."""

    offset: int
    size: int
    epoch: int = -1
    epoch_start: int = -1
    confirmed: int = -1


class Epoch(NamedTuple):
    """From here on the log was written under this epoch."""

    epoch: int
    start: int


class PrimaryHello(NamedTuple):
    """A primary's handshake: the end of its log and its epochs, oldest first."""

    end: int
    last_epoch: int
    epochs: tuple[Epoch, ...]


class ReplicaHello(NamedTuple):
    """A replica's handshake."""

    from_last_file: bool
    is_learner: bool
    broker_id: int


Incoming = Frame | PrimaryHello | memoryview


class FrameReader:
    """What a replica reads of a classic primary: frames, and their bodies in pieces."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0

    def feed(self, data: bytes | memoryview) -> Iterator[Incoming]:
        """Each frame as soon as its head is complete, each body as far as it has come."""
        view = memoryview(data)
        while view:
            if self._left:
                piece = view[: self._left]
                self._left -= len(piece)
                view = view[len(piece) :]
                yield piece
                continue
            missing = self._missing()
            self._head += view[:missing]
            view = view[missing:]
            if self._missing() == 0:
                found = self._decode()
                self._head.clear()
                yield found

    def _missing(self) -> int:
        """Bytes until the head, or as much of it as tells its length, is complete."""
        return FRAME.size - len(self._head)

    def _decode(self) -> Incoming:
        frame = Frame(*FRAME.unpack(self._head))
        self._expect(frame)
        return frame

    def _expect(self, frame: Frame) -> None:
        if frame.offset < 0 or not 0 <= frame.size <= BODY_SIZE_MAX:
            raise ProtocolError(
                f"frame at {frame.offset} of {frame.size} bytes, at most {BODY_SIZE_MAX}"
            )
        self._left = frame.size


class AutoFrameReader(FrameReader):
    """The same of a primary in controller mode."""

    def _missing(self) -> int:
        have = len(self._head)
        if have < _STATE.size:
            return _STATE.size - have
        (state,) = _STATE.unpack_from(self._head)
        if state == TRANSFER:
            return _AUTO_FRAME.size - have
        if state != HANDSHAKE:
            raise ProtocolError(f"state {state} of the primary, expected 1 or 2")
        if have < _PRIMARY_HELLO.size:
            return _PRIMARY_HELLO.size - have
        size = _PRIMARY_HELLO.unpack_from(self._head)[1]
        if size % _EPOCH.size or not 0 <= size <= EPOCHS_MAX * _EPOCH.size:
            raise ProtocolError(f"handshake with {size} bytes of epochs")
        return int(_PRIMARY_HELLO.size + size - have)

    def _decode(self) -> Incoming:
        (state,) = _STATE.unpack_from(self._head)
        if state == HANDSHAKE:
            _, size, end, last = _PRIMARY_HELLO.unpack_from(self._head)
            entries = bytes(self._head[_PRIMARY_HELLO.size : _PRIMARY_HELLO.size + size])
            return PrimaryHello(end, last, tuple(Epoch(*e) for e in _EPOCH.iter_unpack(entries)))
        _, size, offset, epoch, start, confirmed = _AUTO_FRAME.unpack(self._head)
        frame = Frame(offset, size, epoch, start, confirmed)
        self._expect(frame)
        return frame


class ReportReader:
    """What a primary reads of a classic replica: of all reports of a read the newest."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[ReplicaHello | int]:
        """The newest report, if one is complete."""
        whole = self._rest + data
        end = len(whole) - len(whole) % REPORT.size
        self._rest = whole[end:]
        return [] if end == 0 else [REPORT.unpack_from(whole, end - REPORT.size)[0]]


class AutoReportReader(ReportReader):
    """The same of a replica in controller mode: handshakes too."""

    def feed(self, data: bytes) -> list[ReplicaHello | int]:
        """Handshakes, and the newest report."""
        whole = self._rest + data
        found: list[ReplicaHello | int] = []
        at = 0
        while len(whole) - at >= _STATE.size:
            (state,) = _STATE.unpack_from(whole, at)
            if state == HANDSHAKE:
                if len(whole) - at < _REPLICA_HELLO.size:
                    break
                _, last, learner, broker_id = _REPLICA_HELLO.unpack_from(whole, at)
                found.append(ReplicaHello(bool(last), bool(learner), broker_id))
                at += _REPLICA_HELLO.size
            elif state == TRANSFER:
                if len(whole) - at < _AUTO_REPORT.size:
                    break
                if found and isinstance(found[-1], int):
                    found.pop()
                found.append(_AUTO_REPORT.unpack_from(whole, at)[1])
                at += _AUTO_REPORT.size
            else:
                raise ProtocolError(f"state {state} of a replica, expected 1 or 2")
        self._rest = whole[at:]
        return found


def classic_report(end: int) -> bytes:
    """A replica's report."""
    return REPORT.pack(end)


def auto_report(end: int) -> bytes:
    """The same in controller mode."""
    return _AUTO_REPORT.pack(TRANSFER, end)


def classic_frame(frame: Frame) -> bytes:
    """The head of a frame."""
    return FRAME.pack(frame.offset, frame.size)


def auto_frame(frame: Frame) -> bytes:
    """The same in controller mode."""
    return _AUTO_FRAME.pack(
        TRANSFER, frame.size, frame.offset, frame.epoch, frame.epoch_start, frame.confirmed
    )


def replica_hello(hello: ReplicaHello) -> bytes:
    """A replica's handshake; it must leave in one write, for Java's primary parses 12 bytes."""
    return _REPLICA_HELLO.pack(HANDSHAKE, hello.from_last_file, hello.is_learner, hello.broker_id)


def primary_hello(hello: PrimaryHello) -> bytes:
    """A primary's handshake; of very many epochs the newest."""
    epochs = hello.epochs[-EPOCHS_MAX:]
    body = b"".join(_EPOCH.pack(*entry) for entry in epochs)
    return _PRIMARY_HELLO.pack(HANDSHAKE, len(body), hello.end, hello.last_epoch) + body
