"""A blocking connection to one name server or broker, with several requests under way.

A Spark task is a plain function in a process of its own: an event loop would only stand between it
and the socket.  Requests are written together, answers are read straight into large buffers
(``Arena``) that the column decoder then reads from, so a record is copied once, into its column.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Final

from contrailmq._native.request import BAD_NUMBER, INCOMPLETE, UNDERSTOOD, RequestScan
from contrailmq.client.access import Credentials
from contrailmq.client.acl import sign
from contrailmq.errors import ConnectFailed, ConnectionLost, RemoteProtocolError, RequestTimeout
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.frame import FRAME_SIZE_MAX, LENGTH_SIZE

ARENA_SIZE: Final = 4 * 1024 * 1024
RECEIVE_SIZE: Final = 1024 * 1024
RESPONSE_FLAG: Final = 1
_LENGTH: Final = struct.Struct(">i")
_FOLLOWING: Final = b"nextBeginOffset"


class Arena:
    """A buffer that answers are read into; ``pins`` counts those still needed."""

    __slots__ = ("data", "filled", "parsed", "pins", "view")

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.view = memoryview(self.data)
        self.filled = 0
        self.parsed = 0
        self.pins = 0


class Answer:
    """One answer: what a pull's answer says, and where in the arena frame and body are.

    ``following`` is the next offset to pull from, -1 where the answer does not say.  The rest of
    the header is decoded only when somebody wants it.
    """

    __slots__ = ("_at", "arena", "code", "end", "following", "opaque", "start")

    def __init__(self, arena: Arena, at: int, span: tuple[int, int]) -> None:
        self.arena = arena
        self._at = at
        self.start, self.end = span
        self.code = 0
        self.opaque = 0
        self.following = -1

    @property
    def command(self) -> Command:
        """The answer with its whole header and without its body, as long as it is pinned."""
        found = decode(self.arena.view[self._at + LENGTH_SIZE : self.end], copy_body=False)
        found.body = b""
        return found

    def body(self) -> memoryview:
        """The bytes of the body, as long as the arena is pinned."""
        return self.arena.view[self.start : self.end]


class Wire:
    """One connection. Errors are NetworkErrors; after one the connection is of no more use."""

    def __init__(
        self, address: str, *, timeout_s: float, credentials: Credentials | None = None
    ) -> None:
        self.address = address
        self._credentials = credentials
        self._opaque = 0
        self._arena = Arena(ARENA_SIZE)
        self._spare: list[Arena] = []
        self._scan = RequestScan()
        try:
            host, _, port = address.rpartition(":")
            place = (host.strip("[]"), int(port))
            self._socket = socket.create_connection(place, timeout=timeout_s)
        except (OSError, ValueError) as error:
            raise ConnectFailed(f"{address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Close it; more than once is fine."""
        self._socket.close()

    @property
    def signs(self) -> bool:
        """Whether every request has to be signed."""
        return self._credentials is not None

    def next_opaque(self) -> int:
        """A number for the next request."""
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        return self._opaque

    def encode(self, command: Command) -> bytes:
        """A request as bytes, numbered and signed."""
        command.opaque = self.next_opaque()
        if self._credentials is not None:
            sign(command, self._credentials)
        return command.encode()

    def call(self, command: Command) -> Command:
        """The answer to one request, whatever its code, with its own copy of the body."""
        return self.call_many([command])[0]

    def call_many(self, commands: Sequence[Command]) -> list[Command]:
        """The answers to several requests that are under way together, in their order."""
        self.send(b"".join(map(self.encode, commands)))
        waiting = {command.opaque: index for index, command in enumerate(commands)}
        found: dict[int, Command] = {}
        while waiting:
            for answer in self.receive():
                index = waiting.pop(answer.opaque, None)
                if index is not None:
                    found[index] = answer.command
                    found[index].body = bytes(answer.body())
                self.release(answer.arena)
        return [found[index] for index in range(len(commands))]

    def send(self, data: bytes) -> None:
        """Write bytes of requests."""
        try:
            self._socket.sendall(data)
        except TimeoutError as error:
            raise RequestTimeout(f"{self.address} does not take our requests") from error
        except OSError as error:
            raise ConnectionLost(f"{self.address}: {error}") from error

    def receive(self) -> list[Answer]:
        """Wait for the next bytes; the answers they complete, each pinning its arena once."""
        arena = self._room()
        try:
            room = arena.view[arena.filled : arena.filled + RECEIVE_SIZE]
            size = self._socket.recv_into(room)
        except TimeoutError as error:
            raise RequestTimeout(f"{self.address} does not answer") from error
        except OSError as error:
            raise ConnectionLost(f"{self.address}: {error}") from error
        if size == 0:
            raise ConnectionLost(f"{self.address} closed the connection")
        arena.filled += size
        return self._parse(arena)

    def release(self, arena: Arena) -> None:
        """Unpin; an arena nobody needs is filled again."""
        arena.pins -= 1
        if arena.pins == 0 and arena is not self._arena and len(self._spare) < 4:
            self._spare.append(arena)

    def _room(self) -> Arena:
        """The arena to read into, with room for the frame that has begun, if one has."""
        arena = self._arena
        begun = arena.filled - arena.parsed
        if arena.pins == 0 and begun == 0:
            arena.filled = arena.parsed = 0
            return arena
        wanted = RECEIVE_SIZE // 4
        if begun >= LENGTH_SIZE:
            (size,) = _LENGTH.unpack_from(arena.data, arena.parsed)
            wanted = max(LENGTH_SIZE + size - begun, 1)
        if len(arena.data) - arena.filled >= wanted:
            return arena
        fresh = self._take(max(ARENA_SIZE, wanted + begun))
        fresh.view[:begun] = arena.view[arena.parsed : arena.filled]
        fresh.filled = begun
        arena.filled = arena.parsed
        self._arena = fresh
        if arena.pins == 0 and len(self._spare) < 4:
            self._spare.append(arena)
        return fresh

    def _take(self, size: int) -> Arena:
        for index, arena in enumerate(self._spare):
            if len(arena.data) >= size:
                del self._spare[index]
                arena.filled = arena.parsed = 0
                return arena
        return Arena(size)

    def _parse(self, arena: Arena) -> list[Answer]:
        answers: list[Answer] = []
        scan, data, at, filled = self._scan, arena.data, arena.parsed, arena.filled
        while filled - at >= LENGTH_SIZE:
            state = scan.scan(data, at, filled)
            if state == INCOMPLETE:
                break
            following = -1
            if state == UNDERSTOOD:
                field = scan.find(data, _FOLLOWING)
                if field >= 0:
                    following = scan.number(data, field)
            if state == UNDERSTOOD and following != BAD_NUMBER:
                end = scan.frame_end
                if scan.flag & RESPONSE_FLAG:
                    answer = Answer(arena, at, (scan.body_at, end))
                    answer.code, answer.opaque = scan.code, scan.opaque
                    answer.following = following
                    answers.append(answer)
            else:
                found = self._decode(arena, at)
                if found is None:
                    break
                end = found.end
                if found.command.is_response:
                    answers.append(found)
            at = end
        arena.pins += len(answers)
        arena.parsed = at
        return answers

    def _decode(self, arena: Arena, at: int) -> Answer | None:
        """A frame of unusual form; None when it is not complete."""
        (size,) = _LENGTH.unpack_from(arena.data, at)
        if not LENGTH_SIZE <= size <= FRAME_SIZE_MAX:
            raise RemoteProtocolError(f"{self.address} sent a frame of {size} bytes")
        end = at + LENGTH_SIZE + size
        if end > arena.filled:
            return None
        command = decode(arena.view[at + LENGTH_SIZE : end], copy_body=False)
        answer = Answer(arena, at, (end - len(command.body), end))
        answer.code, answer.opaque = command.code, command.opaque
        answer.following = int(command.fields.get("nextBeginOffset", -1))
        return answer
