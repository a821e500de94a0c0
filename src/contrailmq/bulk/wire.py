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

from contrailmq._native.spark.answers import Answer, Arena, Intake
from contrailmq.client.access import Credentials, Tls
from contrailmq.client.acl import sign
from contrailmq.errors import ConnectFailed, ConnectionLost, RemoteProtocolError, RequestTimeout
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.frame import FRAME_SIZE_MAX, LENGTH_SIZE
from contrailmq.protocol.message import Buffer

ARENA_SIZE: Final = 4 * 1024 * 1024
RECEIVE_SIZE: Final = 1024 * 1024
_LENGTH: Final = struct.Struct(">i")


def command_of(answer: Answer) -> Command:
    """An answer with its whole header and without its body, as long as it is pinned."""
    found = decode(answer.arena.view[answer.at + LENGTH_SIZE : answer.end], copy_body=False)
    found.body = b""
    return found


class Wire:
    """One connection. Errors are NetworkErrors; after one the connection is of no more use."""

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.address = address
        self._credentials = credentials
        self.intake = Intake(ARENA_SIZE, RECEIVE_SIZE)
        try:
            host, _, port = address.rpartition(":")
            place = (host.strip("[]"), int(port))
            self._socket = socket.create_connection(place, timeout=timeout_s)
            if tls is not None:
                plain = self._socket
                self._socket = tls.context().wrap_socket(plain, server_hostname=place[0])
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

    def encode(self, command: Command, *, opaque: int | None = None) -> bytes:
        """A request as bytes, numbered and signed."""
        command.opaque = self.intake.next_opaque() if opaque is None else opaque
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
                    found[index] = command_of(answer)
                    found[index].body = bytes(answer.body())
                self.intake.release(answer.arena)
        return [found[index] for index in range(len(commands))]

    def send(self, data: Buffer) -> None:
        """Write bytes of requests."""
        try:
            self._socket.sendall(data)
        except TimeoutError as error:
            raise RequestTimeout(f"{self.address} does not take our requests") from error
        except OSError as error:
            raise ConnectionLost(f"{self.address}: {error}") from error

    def receive(self) -> list[Answer]:
        """Wait for the next bytes; the answers they complete, each pinning its arena once."""
        arena = self.intake.room()
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
        answers: list[Answer] = []
        while self.intake.parse(answers):
            odd = self._decode(arena, arena.parsed)
            if odd is None:
                break
            arena.parsed = odd.end
            if command_of(odd).is_response:
                answers.append(odd)
                arena.pins += 1
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
        answer = Answer(arena, at, end - len(command.body), end)
        answer.code, answer.opaque = command.code, command.opaque
        answer.following = int(command.fields.get("nextBeginOffset", -1))
        return answer
