"""Answers as they come from a socket: where they lie in large buffers, and what they say.

``contrailmq.bulk.wire`` reads into an ``Intake``; what its scan does not understand is decoded
there in the ordinary way.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import frame, raw, record, text
from contrailmq._native.net.request import RequestScan

_UNDERSTOOD = 1
_INCOMPLETE = 0
_BAD_NUMBER = -0x7FFFFFFFFFFFFFFF
_SPARE_MAX = 4
_INT_MAX = 0x7FFFFFFF


class Arena:
    """A buffer that answers are read into; ``pins`` counts those still needed."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.view = memoryview(self.data)
        self.filled = 0
        self.parsed = 0
        self.pins = 0


class Answer:
    """What a pull's answer says, and where in the arena frame and body are.

    ``following`` is the next offset to pull from, -1 where the answer does not say.
    """

    def __init__(self, arena: Arena, at: int, start: int, end: int) -> None:
        self.arena = arena
        self.at = at
        self.start = start
        self.end = end
        self.code = 0
        self.opaque = 0
        self.following = -1

    def body(self) -> memoryview:
        """The bytes of the body, as long as the arena is pinned."""
        return self.arena.view[self.start : self.end]


class Intake:
    """The arenas of one connection, and the answers in them."""

    def __init__(self, arena_size: int, receive_size: int) -> None:
        self.arena = Arena(arena_size)
        self.opaque = 0
        self._arena_size = arena_size
        self._receive_size = receive_size
        self._spare: list[Arena] = []
        self._scan = RequestScan()

    def next_opaque(self) -> int:
        """A number for the next request."""
        self.opaque = (self.opaque + 1) & _INT_MAX
        return self.opaque

    def room(self) -> Arena:
        """The arena to read into, with room for the frame that has begun, if one has."""
        arena = self.arena
        begun = arena.filled - arena.parsed
        if arena.pins == 0 and begun == 0:
            arena.filled = arena.parsed = 0
            return arena
        wanted = self._receive_size // 4
        if begun >= frame.LENGTH_SIZE:
            wanted = (
                frame.LENGTH_SIZE + raw.get_i32(raw.at_address(arena.data), arena.parsed) - begun
            )
            if wanted < 1:
                wanted = 1
            elif wanted > frame.SIZE_MAX:  # for parse to complain of, which looks at the head
                wanted = frame.HEADER_AT
        if len(arena.data) - arena.filled >= wanted:
            return arena
        fresh = self._take(max(self._arena_size, wanted + begun))
        fresh.view[:begun] = arena.view[arena.parsed : arena.filled]
        fresh.filled = begun
        arena.filled = arena.parsed
        self.arena = fresh
        if arena.pins == 0 and len(self._spare) < _SPARE_MAX:
            self._spare.append(arena)
        return fresh

    def _take(self, size: int) -> Arena:
        for index in range(len(self._spare)):
            arena = self._spare[index]
            if len(arena.data) >= size:
                del self._spare[index]
                arena.filled = arena.parsed = 0
                return arena
        return Arena(size)

    def release(self, arena: Arena) -> None:
        """Unpin; an arena nobody needs is filled again."""
        arena.pins -= 1
        if arena.pins == 0 and arena is not self.arena and len(self._spare) < _SPARE_MAX:
            self._spare.append(arena)

    def parse(self, answers: list[Answer]) -> bool:
        """Note the whole answers that have come in, each pins the arena.

        True: at ``parsed`` is a frame, whole or not, that only the ordinary decoder understands.
        """
        arena = self.arena
        data = raw.at_address(arena.data)
        scan = self._scan
        at = arena.parsed
        while arena.filled - at >= frame.LENGTH_SIZE:
            state = scan.scan_at(data, at, arena.filled)
            if state == _INCOMPLETE:
                break
            following = _BAD_NUMBER
            if state == _UNDERSTOOD:
                following = self._following(data)
            if following == _BAD_NUMBER:
                arena.parsed = at
                return True
            if scan.flag & frame.RESPONSE:
                answer = Answer(arena, at, scan.body_at, scan.frame_end)
                answer.code = scan.code
                answer.opaque = scan.opaque
                answer.following = following
                answers.append(answer)
                arena.pins += 1
            at = scan.frame_end
        arena.parsed = at
        return False

    def _following(self, data: Any) -> int:
        scan = self._scan
        for field in range(scan.field_count):
            if text.is_word(data, scan.key_at[field], scan.key_size[field], b"nextBeginOffset"):
                return scan.number_at(data, scan.value_at[field], scan.value_size[field])
        return -1


class Body:
    """Records of an answer; those from the queue offset ``limit`` on are not wanted."""

    def __init__(self, arena: Arena, start: int, end: int, limit: int) -> None:
        self.arena = arena
        self.start = start
        self.end = end
        self.limit = limit


def joined(bodies: list[Body]) -> tuple[bytearray, memoryview, int]:
    """Bodies in one buffer, copied when they are of several.

    Also where they are in it, as ``find_records`` wants it, and how many records there are at most.
    """
    is_one = True
    first = bodies[0]
    size = 0
    room = 0
    for body in bodies:
        if body.arena is not first.arena:
            is_one = False
        size += body.end - body.start
        room += (body.end - body.start) // record.SIZE_MIN + 1
    data = first.arena.data
    if not is_one:
        data = bytearray(size)
    spans = memoryview(bytearray(8 * 3 * len(bodies))).cast("q")
    places = spans
    target = raw.at_address(data)
    at = 0
    for index in range(len(bodies)):
        body = bodies[index]
        start = body.start
        size = body.end - start
        if not is_one:
            raw.copy_bytes(target, at, raw.at_address(body.arena.data), start, size)
            start = at
            at += size
        places[3 * index] = start
        places[3 * index + 1] = start + size
        places[3 * index + 2] = body.limit
    return data, spans, room
