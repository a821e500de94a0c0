# cython: annotation_typing=False
# ruff: noqa: ERA001
"""The streams of one HTTP/2 connection, and the half of it that sends.

What an answer needs beyond the peer's windows waits in its stream and leaves as windows open.

Everything a peer fills is bounded.  ``held`` counts headers, unfinished and unread messages and
pending answers.  ``credit`` falls with every frame that makes work and asks for nothing (resets,
pings, settings, empty data) and rises with calls that were answered and with time; a peer that has
used it up is a flood.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native.grpc import faults
from contrailmq._native.grpc.faults import Http2Fault
from contrailmq._native.grpc.frames import FrameOut

_HEADERS = 1
_END_STREAM = 1
_END_HEADERS = 4

_PREFIX_SIZE = 5
_FRAME_MAX = 16384  # the default
_WINDOW_MAX = 0x7FFFFFFF
_WINDOW = 65535  # the default
_RECENT = 64
_JOINED_MAX = 4096

_CREDIT_MAX = 10_000
_CREDIT_PER_S = 200
_CREDIT_PER_CALL = 4
_CREDIT_PER_DATA = 2
_RESET_COST = 8


class Streams:
    """The streams that are open, and what may be sent on them.

    ``frame_max``, ``stream_window`` and ``send_left`` are the peer's to change.
    """

    def __init__(self, host: Any, is_client: bool) -> None:
        self.host = host
        self.is_client = is_client
        self.frames = FrameOut(host.plan_flush)
        self.streams: dict[int, Any] = {}
        self.blocked: dict[int, Any] = {}
        self.last_id = 0
        self.is_write_paused = False
        self.frame_max = _FRAME_MAX
        self.stream_window = _WINDOW
        self.send_left = _WINDOW
        self.held = 0
        self.served = 0
        self.credit = _CREDIT_MAX // 2
        self.read_at = 0.0
        self._credit_at = 0.0
        self._recent = [0] * _RECENT
        self._recent_at = 0

    def answer(self, stream: Any, message: bytes) -> None:
        """Send the one answer of a call and end it."""
        if stream.is_done or stream.is_gone:
            return
        size = _PREFIX_SIZE + len(message)
        if (
            stream.pending is not None
            or size > self.frame_max
            or size > self.send_left
            or size > stream.send_left
            or self.is_write_paused
        ):
            self.write(stream, message)
            self.end(stream, None)
            return
        if not stream.has_begun:
            self.frames.first(stream.number)
        self.frames.message(stream.number, message)
        self.send_left -= size
        self.frames.last(stream.number)
        self._finish(stream)

    def write(self, stream: Any, message: bytes) -> None:
        """Send one message of a call, as far as the peer takes it; the rest is pending."""
        if stream.is_done or stream.is_gone:
            return
        if not stream.has_begun and not self.is_client:
            stream.has_begun = True
            self.frames.first(stream.number)
        if stream.pending is None:
            stream.pending = []
        prefix = b"\x00" + len(message).to_bytes(4, "big")
        if len(message) < _JOINED_MAX:
            stream.pending.append(prefix + message)
        else:
            stream.pending.append(prefix)
            stream.pending.append(message)
        stream.held += _PREFIX_SIZE + len(message)
        self.held += _PREFIX_SIZE + len(message)
        self._push(stream)

    def end(self, stream: Any, last: bytes | None) -> None:
        """End a call, with a header block or, None, with status OK."""
        if stream.is_done or stream.is_gone:
            return
        stream.is_done = True
        stream.last = b"" if last is None else last
        if stream.pending is None:
            self._put_end(stream)

    def _put_end(self, stream: Any) -> None:
        if stream.last:
            block = self.frames.opening() + stream.last
            self.frames.frame(_HEADERS, _END_HEADERS | _END_STREAM, stream.number, block)
        elif stream.has_begun:
            self.frames.last(stream.number)
        else:
            self.frames.only(stream.number)
        self._finish(stream)

    def _push(self, stream: Any) -> None:
        """Send what is pending as far as windows allow."""
        pending = stream.pending
        while pending and not self.is_write_paused:
            room = min(self.send_left, stream.send_left, self.frame_max)
            if room <= 0:
                break
            chunk = pending[0]
            size = len(chunk)
            if size > room:
                pending[0] = memoryview(chunk)[room:]
                chunk = memoryview(chunk)[:room]
                size = room
            else:
                del pending[0]
            is_last = self.is_client and len(pending) == 0 and stream.last is not None
            self.frames.data(stream.number, _END_STREAM if is_last else 0, chunk)
            self.send_left -= size
            stream.send_left -= size
            stream.held -= size
            self.held -= size
            if self.credit < _CREDIT_MAX:
                self.credit += _CREDIT_PER_DATA
        if pending:
            self.blocked[stream.number] = stream
            return
        stream.pending = None
        self.blocked.pop(stream.number, None)
        if stream.writer is not None:
            self.host.wake_writer(stream)
        if stream.last is not None and not self.is_client:
            self._put_end(stream)

    def push_all(self) -> None:
        """A window of the connection has opened, or its socket takes bytes again."""
        for stream in list(self.blocked.values()):
            if self.send_left <= 0 or self.is_write_paused:
                break
            self._push(stream)

    def open_window(self, number: int, step: int) -> None:
        """The peer takes more, of one stream or, 0, of all; raises Http2Fault."""
        if number == 0:
            self.send_left += step
            if step == 0 or self.send_left > _WINDOW_MAX:
                code = faults.FLOW_CONTROL_ERROR if step else faults.PROTOCOL_ERROR
                raise Http2Fault(code, f"window opened by {step} to {self.send_left}")
            if self.blocked:
                self.push_all()
            return
        stream = self.streams.get(number)
        if stream is None:
            if number > self.last_id:
                raise Http2Fault(faults.PROTOCOL_ERROR, f"window of stream {number}, which is idle")
            return
        stream.send_left += step
        if step == 0:
            self.reset(stream, faults.PROTOCOL_ERROR)
        elif stream.send_left > _WINDOW_MAX:
            self.reset(stream, faults.FLOW_CONTROL_ERROR)
        elif stream.pending is not None:
            self._push(stream)

    # -- ends

    def _finish(self, stream: Any) -> None:
        """Our side of a call is over; what the peer still sends is not wanted."""
        stream.is_done = True
        if not stream.has_ended:
            self.put_reset(stream.number, faults.NO_ERROR)
        self.served += 1
        if self.credit < _CREDIT_MAX:
            self.credit += _CREDIT_PER_CALL
        self.drop(stream)
        if stream.timer is not None:
            stream.timer.cancel()
            stream.timer = None

    def reset(self, stream: Any, code: int) -> None:
        """End a stream at once, for a fault of the peer or a decision of ours."""
        self.put_reset(stream.number, code)
        if not self.is_client:
            self.spend(_RESET_COST)
        self.lose(stream)

    def lose(self, stream: Any) -> None:
        """Nobody waits for a stream any more."""
        self.drop(stream)
        if not stream.is_gone:
            stream.is_gone = True
            self.host.gone(stream)

    def put_reset(self, number: int, code: int) -> None:
        """Tell the peer that a stream is over; what it still sends is ignored."""
        self.frames.reset(number, code)
        self._recent[self._recent_at] = number * 2 + 1
        self._recent_at = (self._recent_at + 1) % _RECENT

    def drop(self, stream: Any) -> None:
        """A stream is over: give its room back."""
        if self.streams.pop(stream.number, None) is None:
            return
        self.blocked.pop(stream.number, None)
        self.held -= stream.held
        stream.held = 0
        stream.pending = None
        stream.buffer = None
        self._recent[self._recent_at] = stream.number * 2
        self._recent_at = (self._recent_at + 1) % _RECENT

    def was_closed(self, number: int) -> int:
        """0 if a stream is not among the last that were open, 2 if we have reset it, else 1."""
        if number * 2 + 1 in self._recent:
            return 2
        return 1 if number * 2 in self._recent else 0

    def spend(self, cost: int) -> None:
        """Take from the peer's credit; raises Http2Fault at its end."""
        self.credit -= cost
        if self.credit < 0:
            raise Http2Fault(
                faults.ENHANCE_YOUR_CALM,
                "too many resets, pings, settings or empty frames for what was asked",
            )

    def refill(self) -> None:
        """Give credit for the time since it was last done."""
        self.credit += int(_CREDIT_PER_S * (self.read_at - self._credit_at))
        self._credit_at = self.read_at
        if self.credit > _CREDIT_MAX:
            self.credit = _CREDIT_MAX
