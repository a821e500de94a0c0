"""Pulls under way: what to ask, and the records that come, in the order of a plan.

A broker gives few messages to a pull, so that a task that reads fast has tens of thousands of pulls
a second to ask for, to note and to put in order.  What has to be done for each is here, compiled;
``contrailmq.bulk.wire`` and ``contrailmq.bulk.pull`` say how it works, and do what is rare.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from contrailmq._native import frame, raw, record, text
from contrailmq._native.spark.answers import Answer, Arena, Body, Intake

_IN_FLIGHT_MAX = 256
_IN_FLIGHT_SIZE = 8388608
_STRIDE_FIRST = 32
_STRIDE_MAX = 4096
_STRIDE_PATIENCE = 512  # answers until a broker that gave little is asked for more again
_FILTER_COUNT = 1024
_IN_FLIGHT_MIN = 4
_RECORD_SIZE_GUESS = 256.0
_SLOWNESS = 16  # a new record size counts one part of so many
_PIECE_SIZE = 131072  # smaller runs of one arena are copied together


class Chunk:
    """Offsets ``at`` to before ``end``.

    ``bodies`` came in and were not given out yet, ``gaps`` are known to be gone.
    """

    def __init__(self, at: int, end: int) -> None:
        self.at = at
        self.end = end
        self.asked = 0
        self.bodies: list[Body] = []
        self.gaps: list[tuple[int, int]] = []

    def go_on(self, following: int) -> None:
        """Nothing is left to be asked before ``following``.

        Behind what is gone a broker gives the next it has: that is for other chunks to ask.
        """
        self.at = following if following < self.end else self.end


class Line:
    """A range of a queue on its way: its chunks under way, and where the next one begins.

    A request is ``text`` with offset, count and its number put in at three places.
    """

    def __init__(self, start: int, end: int, chained: bool) -> None:
        self.end = end
        self.chained = chained
        self.chunks: deque[Chunk] = deque()
        self.next = start
        self.given = start  # everything before was given out
        self.gone_at = self.gone_to = start  # between these is gone, and was not said yet
        self.text = b""
        self.offset_at = self.count_at = self.opaque_at = 0

    def is_done(self) -> bool:
        """Whether everything was asked for and given out."""
        return self.next >= self.end and not self.chunks

    def template(self, text: bytes, offset_at: int, count_at: int, opaque_at: int) -> None:
        """Say how a request looks."""
        if not 0 <= offset_at <= count_at <= opaque_at <= len(text):
            raise ValueError(f"places {offset_at}, {count_at}, {opaque_at} of {len(text)}")
        self.text = text
        self.offset_at = offset_at
        self.count_at = count_at
        self.opaque_at = opaque_at

    def cut(self, stride: int) -> Chunk | None:
        """The next chunk to ask for."""
        if self.next >= self.end:
            return None
        end = self.end
        if not self.chained and end - self.next > stride:
            end = self.next + stride
        chunk = Chunk(self.next, end)
        self.chunks.append(chunk)
        self.next = end
        return chunk

    def rewind(self) -> None:
        """Forget what is under way: the connection is gone."""
        if self.chunks:
            self.next = self.given
            self.chunks.clear()


Asked = tuple[Line, Chunk]


class Flow:
    """The pulls of one connection: what to ask, what came, what is next in order."""

    def __init__(self, intake: Intake, lines: list[Any], is_all: bool, held_size_max: int) -> None:
        self.asked: dict[int, Asked] = {}
        self.ready_size = 0
        self._intake = intake
        self._lines: list[Line] = lines
        self._is_all = is_all
        self._held_size_max = held_size_max
        self._stride = _STRIDE_FIRST
        self._answers_since = _STRIDE_PATIENCE  # since one fell short of what was asked
        self._probe: Chunk | None = None  # the one that was asked for more than usual
        self._record_size = _RECORD_SIZE_GUESS
        self._turn = 0
        self._front = 0  # the line whose records are given out
        self._held_size = 0  # of bodies that were not given out
        self._parked: list[Asked] = []  # not asked further until they are in front
        self._ready: list[Body] = []

    def odd(self, line: Line, chunk: Chunk, answer: Answer) -> None:
        """Take an answer without records, or raise."""
        raise ValueError(f"an answer of code {answer.code} without records")

    def gone(self, line: Line, start: int, end: int) -> None:
        """The broker has nothing from ``start`` to before ``end``: for who wants to know."""

    def note_gap(self, line: Line, chunk: Chunk, first: int) -> None:
        """The broker has nothing of this chunk before ``first``."""
        chunk.gaps.append((chunk.at, first if first < chunk.end else chunk.end))

    def settle(self, answers: list[Answer]) -> list[Asked]:
        """Note answers; those nobody asked for go, chunks that are not complete come back."""
        again: list[Asked] = []
        for answer in answers:
            found = self.asked.pop(answer.opaque, None)
            if found is None:
                self._intake.release(answer.arena)
                continue
            line, chunk = found
            if not self._take(line, chunk, answer):
                self.odd(line, chunk, answer)
                self._intake.release(answer.arena)
            if chunk is self._probe:  # answered, whatever it brought
                self._probe = None
            if chunk.at < chunk.end:
                again.append(found)
            if line is self._lines[self._front] and chunk is line.chunks[0]:
                self.give_out()
        return again

    def _take(self, line: Line, chunk: Chunk, answer: Answer) -> bool:
        """Keep the records of an answer; False when it has none as they should be."""
        start = chunk.at
        size = answer.end - answer.start
        if answer.code != 0 or answer.following <= start or size < record.SIZE_MIN:
            return False
        if self._is_all:
            data = raw.at_address(answer.arena.data)
            first = record.queue_offset(data, answer.start)
            if first > start:
                self.note_gap(line, chunk, first)
            else:
                self._learn(chunk, answer.following - start, size)
        chunk.go_on(answer.following)
        chunk.bodies.append(Body(answer.arena, answer.start, answer.end, chunk.end))
        self._held_size += size
        return True

    def _learn(self, chunk: Chunk, count: int, size: int) -> None:
        """Ask for what the broker gives: less when it fell short, more when it gave one more.

        Only one chunk at a time tries for more: a chunk that comes in two answers has its records
        in two places, and rows are made fast only of many records in one.
        """
        self._record_size += (size / count - self._record_size) / _SLOWNESS
        self._answers_since += 1
        if count < chunk.asked:
            self._answers_since = 0
        if chunk is self._probe:
            self._probe = None
            if count > chunk.asked:
                count = chunk.asked
            if count > self._stride:
                self._stride = count
        elif count < chunk.asked:
            self._stride = count

    def give_out(self) -> None:
        """Move what is next in order to the records ready for decoding."""
        while self._front < len(self._lines):
            line = self._lines[self._front]
            while line.chunks:
                chunk = line.chunks[0]
                for body in chunk.bodies:
                    self._ready.append(body)
                    self.ready_size += body.end - body.start
                    self._held_size -= body.end - body.start
                chunk.bodies.clear()
                line.given = chunk.at
                if chunk.gaps or line.gone_at < line.gone_to:
                    self._say(line, chunk)
                if chunk.at < chunk.end:
                    return
                line.chunks.popleft()
            if line.next < line.end or self._front == len(self._lines) - 1:
                return
            self._front += 1

    def _say(self, line: Line, chunk: Chunk) -> None:
        """Say what is gone in one piece, when it is known how far it reaches."""
        for start, end in chunk.gaps:
            if start != line.gone_to or line.gone_at == line.gone_to:
                self._say_gone(line)
                line.gone_at = start
            line.gone_to = end
        chunk.gaps.clear()
        if line.gone_to < chunk.at or chunk.at >= line.end:
            self._say_gone(line)

    def _say_gone(self, line: Line) -> None:
        start = line.gone_at
        line.gone_at = line.gone_to
        if start < line.gone_to:
            self.gone(line, start, line.gone_to)

    def plan(self, again: list[Asked]) -> list[Asked]:
        """What to ask now: the rest of some chunks, and as many new ones as may be under way."""
        front = self._lines[self._front]
        is_full = self._held_size >= self._held_size_max
        out: list[Asked] = []
        if self._parked or is_full:
            again = self._parked + again
            self._parked = []
            for found in again:
                if is_full and found[0] is not front:
                    self._parked.append(found)
                else:
                    out.append(found)
        else:
            out = again
        most = int(_IN_FLIGHT_SIZE / max(1.0, self._stride * self._record_size))
        if most > _IN_FLIGHT_MAX:
            most = _IN_FLIGHT_MAX
        if most < _IN_FLIGHT_MIN:
            most = _IN_FLIGHT_MIN
        if len(out) == 0 and 2 * len(self.asked) > most:
            return out  # many together cost both sides less
        idle = 0
        while len(self.asked) + len(out) < most and idle < len(self._lines):
            line = self._lines[self._turn % len(self._lines)]
            chunk = None
            if not is_full or line is front:
                chunk = self._cut(line)
            if chunk is None:
                self._turn += 1
                idle += 1
                continue
            if line.chained:
                self._turn += 1
            idle = 0
            out.append((line, chunk))
        return out

    def _cut(self, line: Line) -> Chunk | None:
        """The next chunk of a line; one of them is larger when it is time to try for more."""
        stride = self._stride
        if line.chained or stride >= _STRIDE_MAX:
            return line.cut(stride)
        if self._probe is not None or self._answers_since < _STRIDE_PATIENCE:
            return line.cut(stride)
        self._probe = line.cut(2 * stride if 2 * stride < _STRIDE_MAX else _STRIDE_MAX)
        return self._probe

    def note_asked(self, found: Asked, opaque: int) -> int:
        """A chunk goes out as a request of this number; how many messages it asks for."""
        line, chunk = found
        chunk.asked = _FILTER_COUNT if line.chained else chunk.end - chunk.at
        self.asked[opaque] = found
        return chunk.asked

    def encode(self, out: list[Asked]) -> memoryview:
        """The requests for some chunks, by the templates of their lines."""
        room = 0
        for found in out:
            line = found[0]
            room += frame.HEADER_AT + len(line.text) + 3 * text.NUMBER_SIZE_MAX
        data = bytearray(room)
        target = raw.at_address(data)
        at = 0
        for found in out:
            line, chunk = found
            opaque = self._intake.next_opaque()
            count = self.note_asked(found, opaque)
            template = raw.at_address(line.text)
            start = at
            at += frame.HEADER_AT
            raw.copy_bytes(target, at, template, 0, line.offset_at)
            at = text.put_number(target, at + line.offset_at, chunk.at)
            size = line.count_at - line.offset_at
            raw.copy_bytes(target, at, template, line.offset_at, size)
            at = text.put_number(target, at + size, count)
            size = line.opaque_at - line.count_at
            raw.copy_bytes(target, at, template, line.count_at, size)
            at = text.put_number(target, at + size, opaque)
            size = len(line.text) - line.opaque_at
            raw.copy_bytes(target, at, template, line.opaque_at, size)
            at += size
            raw.put_u32(target, start + frame.LENGTH_AT, at - start - frame.LENGTH_SIZE)
            raw.put_u32(target, start + frame.MARK_AT, at - start - frame.HEADER_AT)
        return memoryview(data)[:at]

    def collect(self) -> list[list[Body]]:
        """What is ready, in order: groups of bodies of one arena, or of small pieces of several."""
        ready = self._ready
        self._ready = []
        self.ready_size = 0
        groups: list[list[Body]] = []
        small: list[Body] = []
        run: list[Body] = []
        arena: Arena | None = None
        size = 0
        for body in ready:
            if run and body.arena is not arena:
                small = _placed(groups, small, run, size)
                run = []
                size = 0
            arena = body.arena
            run.append(body)
            size += body.end - body.start
        if run:
            small = _placed(groups, small, run, size)
        if small:
            groups.append(small)
        return groups

    def release(self, bodies: list[Body]) -> None:
        """The rows of these have been made."""
        for body in bodies:
            self._intake.release(body.arena)


def _placed(groups: list[Any], small: list[Body], run: list[Body], size: int) -> list[Body]:
    """Put a run among the groups or behind the small ones; what is small now."""
    if size < _PIECE_SIZE:
        return small + run
    if small:
        groups.append(small)
    groups.append(run)
    return []
