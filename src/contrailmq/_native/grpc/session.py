# cython: annotation_typing=False
# ruff: noqa: ERA001
"""One HTTP/2 connection without its socket: frames in, calls served, frames out.

Theory of operation.  ``take`` walks the frames of one read.  Headers open a stream, data ends in
whole messages; a unary handler is called at once and what it answers goes into ``out``, which the
host writes when the read is done.  What an answer needs beyond the peer's windows waits in its
stream and leaves as windows open.  The rest is the host's: control frames (``control``), answers
that come later (``later``), streaming calls (``begin``), refusals (``failed``), calls that are
over (``gone``), and the response headers of a client (``answered``).

A rule the peer breaks for the whole connection raises ``Http2Fault``; for one stream it is a reset.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw
from contrailmq._native.grpc import faults
from contrailmq._native.grpc.faults import Http2Fault
from contrailmq._native.grpc.hpack import HeaderDecoder, HpackError
from contrailmq._native.grpc.stream import Stream
from contrailmq._native.grpc.streams import Streams

_DATA = 0
_HEADERS = 1
_WINDOW_UPDATE = 8
_CONTINUATION = 9

_END_STREAM = 1
_END_HEADERS = 4
_PADDED = 8
_PRIORITY = 32

_HEAD_SIZE = 9
_PREFIX_SIZE = 5
_ID_AT = 5
_PRIORITY_SIZE = 5
_FRAME_MAX = 16384
_FRAGMENTS_MAX = 32
_WINDOW_MAX = 0x7FFFFFFF
_MESSAGE_EXTRA = 64  # a message without a byte takes room, too
_STREAM_EXTRA = 512  # what a stream takes besides its headers, measured
_CREDIT_LOW = 5_000
_RESET_COST = 8


class Session(Streams):
    """The frames and streams of one connection.

    ``window`` is what a peer may send per stream before we have read it, ``wide_window`` per
    connection.
    """

    def __init__(
        self, host: Any, unary: dict[str, Any], streaming: dict[str, Any], limits: Any
    ) -> None:
        super().__init__(host, bool(limits.is_client))
        self._unary = unary
        self._streaming = streaming
        self._decoder = HeaderDecoder(limits.table_size, limits.header_size_max)
        self._block_size_max = 4 * limits.header_size_max
        self._message_size_max = limits.message_size_max
        self._streams_max = limits.streams_max
        self.window = limits.window
        self.wide_window = limits.wide_window
        self.accepts = True  # new streams; not after the last GOAWAY
        self.is_closed = False
        self.receive_left = limits.wide_window
        self._stash = b""
        self._view: Any = None
        self._data: Any = raw.at_address(b"")
        self._continuing = 0
        self._fragments = bytearray()
        self._fragment_count = 0
        self._block_flags = 0
        self._is_self_dependent = False

    # -- bytes in

    def take(self, block: Any, size: int, now: float) -> None:
        """Bytes have come; raises Http2Fault where the connection cannot go on."""
        self.read_at = now
        if self.credit < _CREDIT_LOW:
            self.refill()
        whole = block
        if self._stash:
            whole = self._stash + bytes(memoryview(block)[:size])
            size = len(whole)
        self.frames.is_held = True
        try:
            at = self._walk(whole, size)
        finally:
            self.frames.is_held = False
            self._view = None
            self._data = raw.at_address(b"")
        self._stash = b"" if at == size else bytes(memoryview(whole)[at:size])

    def _walk(self, whole: Any, end: int) -> int:
        view = memoryview(whole)
        if end > len(view):
            raise Http2Fault(faults.INTERNAL_ERROR, "more was read than there is")
        self._view = view
        data = self._data = raw.at_address(view)
        at = 0
        while end - at >= _HEAD_SIZE and not self.is_closed:
            size = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2]
            if size > _FRAME_MAX:
                raise Http2Fault(
                    faults.FRAME_SIZE_ERROR, f"frame of {size} bytes, at most {_FRAME_MAX}"
                )
            if end - at - _HEAD_SIZE < size:
                break
            kind = data[at + 3]
            flags = data[at + 4]
            number = raw.get_u32(data, at + _ID_AT) & 0x7FFFFFFF
            at += _HEAD_SIZE
            if self._continuing != 0 and (kind != _CONTINUATION or number != self._continuing):
                raise Http2Fault(
                    faults.PROTOCOL_ERROR, f"frame {kind} within the headers of a stream"
                )
            if kind == _DATA:
                self._on_data(flags, number, at, size)
            elif kind == _HEADERS:
                self._on_headers(flags, number, at, size)
            elif kind == _WINDOW_UPDATE:
                if size != 4:
                    raise Http2Fault(faults.FRAME_SIZE_ERROR, f"window update of {size} bytes")
                self.spend(1)
                self.open_window(number, raw.get_u32(data, at) & _WINDOW_MAX)
            elif kind == _CONTINUATION:
                self._on_continuation(flags, number, at, size)
            else:
                self.spend(1)
                self.host.control(kind, flags, number, raw.copy_of(data, at, size))
            at += size
        return end if self.is_closed else at

    # -- headers

    def _on_headers(self, flags: int, number: int, at: int, size: int) -> None:
        if number == 0 or (not self.is_client and number & 1 == 0):
            raise Http2Fault(faults.PROTOCOL_ERROR, f"headers of stream {number}")
        end = at + size
        if flags & _PADDED:
            if size < 1 or self._data[at] >= size:
                raise Http2Fault(faults.PROTOCOL_ERROR, "more padding than frame")
            end -= self._data[at]
            at += 1
        self._is_self_dependent = False
        if flags & _PRIORITY:
            if end - at < _PRIORITY_SIZE:
                raise Http2Fault(faults.FRAME_SIZE_ERROR, "headers without their priority")
            self._is_self_dependent = raw.get_u32(self._data, at) & 0x7FFFFFFF == number
            at += _PRIORITY_SIZE
        if flags & _END_HEADERS:
            self._on_block(flags, number, at, end)
            return
        self._continuing = number
        self._block_flags = flags
        self._fragment_count = 0
        self._fragments = bytearray(raw.copy_of(self._data, at, end - at))

    def _on_continuation(self, flags: int, number: int, at: int, size: int) -> None:
        if self._continuing == 0:
            raise Http2Fault(faults.PROTOCOL_ERROR, "a continuation of nothing")
        self._fragments += raw.copy_of(self._data, at, size)
        self._fragment_count += 1
        if self._fragment_count > _FRAGMENTS_MAX or len(self._fragments) > self._block_size_max:
            raise Http2Fault(
                faults.ENHANCE_YOUR_CALM,
                f"headers of {len(self._fragments)} bytes in {self._fragment_count + 1} frames, "
                f"at most {self._block_size_max} in {_FRAGMENTS_MAX}",
            )
        if not flags & _END_HEADERS:
            return
        self._continuing = 0
        whole = self._fragments
        self._fragments = bytearray()
        kept = self._view
        self._view = memoryview(whole)
        self._data = raw.at_address(self._view)
        self._on_block(self._block_flags, number, 0, len(whole))
        self._view = kept
        self._data = raw.at_address(kept)

    def _on_block(self, flags: int, number: int, at: int, end: int) -> None:
        stream = self.streams.get(number)
        if stream is None and not self.is_client and number <= self.last_id:
            is_known = self.was_closed(number) != 0
            raise Http2Fault(
                faults.STREAM_CLOSED if is_known else faults.PROTOCOL_ERROR,
                f"headers of stream {number}, which is over",
            )
        try:
            fields = self._decoder.decode(self._view, at, end)
        except HpackError as error:
            raise Http2Fault(faults.COMPRESSION_ERROR, str(error)) from None
        has_ended = flags & _END_STREAM != 0
        if self.is_client:
            if stream is not None:
                self.host.answered(stream, fields, self._decoder, has_ended)
            return
        if stream is not None:
            if stream.has_ended:
                self.reset(stream, faults.STREAM_CLOSED)
            elif not has_ended or self._decoder.problem is not None:
                self.reset(stream, faults.PROTOCOL_ERROR)
            else:
                self._on_end(stream)
            return
        self.last_id = number
        if self.accepts:
            self._open(number, fields, has_ended, end - at)

    def _open(self, number: int, fields: dict[str, str], has_ended: bool, size: int) -> None:
        decoder = self._decoder
        path = decoder.path
        if len(self.streams) >= self._streams_max:
            self.spend(_RESET_COST)
            self.put_reset(number, faults.REFUSED_STREAM)
            return
        if (
            decoder.problem is not None
            or self._is_self_dependent
            or decoder.method is None
            or decoder.scheme is None
            or not path
            or decoder.status is not None
        ):
            self.spend(_RESET_COST)
            self.put_reset(number, faults.PROTOCOL_ERROR)
            return
        stream = Stream(self, number, path, fields)
        stream.arrived = self.read_at
        stream.send_left = self.stream_window
        stream.receive_left = self.window
        stream.has_ended = has_ended
        stream.held = _STREAM_EXTRA + size * 2
        self.held += stream.held
        self.streams[number] = stream
        handler = self._unary.get(path)
        stream.is_unary = handler is not None
        if handler is None:
            handler = self._streaming.get(path)
        stream.handler = handler
        if handler is None or decoder.is_too_large or decoder.method != "POST":
            self.host.odd(stream, decoder)
        elif not fields.get("content-type", "").startswith("application/grpc"):
            self.host.odd(stream, decoder)
        elif not stream.is_unary:
            stream.messages = []
            self.host.begin(stream)
        elif has_ended:
            self.host.failed(stream, None)

    # -- data

    def _on_data(self, flags: int, number: int, at: int, size: int) -> None:
        self.receive_left -= size
        if self.receive_left < 0:
            raise Http2Fault(faults.FLOW_CONTROL_ERROR, "data beyond the connection's window")
        if self.receive_left < self.wide_window // 2:
            self.frames.window(0, self.wide_window - self.receive_left)
            self.receive_left = self.wide_window
        stream = self.streams.get(number)
        if stream is None or stream.has_ended or stream.is_gone:
            self._on_late_data(stream, number)
            return
        data = self._data
        left = size
        if flags & _PADDED:
            if size < 1 or data[at] >= size:
                raise Http2Fault(faults.PROTOCOL_ERROR, "more padding than frame")
            left = size - 1 - data[at]
            at += 1
        stream.receive_left -= size
        if stream.receive_left < 0:
            self.reset(stream, faults.FLOW_CONTROL_ERROR)
            return
        if (
            flags & _END_STREAM
            and stream.is_unary
            and stream.buffer is None
            and stream.messages is None
            and left >= _PREFIX_SIZE
            and data[at] == 0
            and raw.get_u32(data, at + 1) == left - _PREFIX_SIZE
        ):
            stream.has_ended = True
            self._serve(stream, raw.copy_of(data, at + _PREFIX_SIZE, left - _PREFIX_SIZE))
            return
        if left > 0:
            self._gather(stream, at, left)
        elif not flags & _END_STREAM:
            self.spend(1)
        if flags & _END_STREAM and not stream.is_gone and not stream.is_done:
            self._on_end(stream)
        elif stream.receive_left < self.window // 2:
            self.replenish(stream)

    def _on_late_data(self, stream: Any, number: int) -> None:
        """Data of a stream that is over, at our end or at the peer's."""
        if stream is not None:
            if stream.has_ended:
                self.reset(stream, faults.STREAM_CLOSED)
            return
        if number == 0 or (number > self.last_id and not self.is_client):
            raise Http2Fault(faults.PROTOCOL_ERROR, f"data of stream {number}, which is idle")
        self.spend(1)
        if self.was_closed(number) != 2 and not self.is_client:
            self.put_reset(number, faults.STREAM_CLOSED)

    def _gather(self, stream: Any, at: int, size: int) -> None:
        """Add bytes to what has come; whole messages are kept or refused."""
        if stream.is_done:
            return  # refused already: what comes is dropped
        buffer = stream.buffer
        if buffer is None:
            buffer = stream.buffer = bytearray()
        buffer += raw.copy_of(self._data, at, size)
        stream.held += size
        self.held += size
        if stream.messages is None:
            stream.messages = []
        start = 0
        have = len(buffer)
        while have - start >= _PREFIX_SIZE:
            length = int.from_bytes(buffer[start + 1 : start + _PREFIX_SIZE], "big")
            if buffer[start] != 0 or length > self._message_size_max:
                self.host.unreadable(stream, buffer[start], length)
                return
            if have - start - _PREFIX_SIZE < length:
                break
            end = start + _PREFIX_SIZE + length
            stream.messages.append(bytes(memoryview(buffer)[start + _PREFIX_SIZE : end]))
            start = end
            stream.held += _MESSAGE_EXTRA
            self.held += _MESSAGE_EXTRA
        if start == have:
            stream.buffer = None
        elif start > 0:
            del buffer[:start]
        if start > 0 and not stream.is_unary and stream.waiter is not None:
            self.host.wake(stream)

    def _on_end(self, stream: Any) -> None:
        """The peer has sent all of a call."""
        stream.has_ended = True
        if not stream.is_unary:
            self.host.wake(stream)
        elif stream.is_done:
            pass
        elif stream.buffer is None and stream.messages is not None and len(stream.messages) == 1:
            self._serve(stream, stream.messages[0])
        else:
            self.host.failed(stream, None)

    def next_message(self, stream: Any) -> bytes | None:
        """Take the oldest message that was not read; None if there is none."""
        messages = stream.messages
        if not messages:
            return None
        message: bytes = messages.pop(0)
        if stream.held > 0:
            size = _PREFIX_SIZE + len(message) + _MESSAGE_EXTRA
            stream.held -= size
            self.held -= size
        if stream.receive_left < self.window // 2:
            self.replenish(stream)
        return message

    def replenish(self, stream: Any) -> None:
        """Let the peer of a stream send on, unless what it sent before was not read."""
        left = stream.receive_left
        if stream.has_ended or stream.is_done or stream.is_gone or left >= self.window // 2:
            return
        if not stream.is_unary and len(stream.messages) > 0:
            return
        stream.receive_left = self.window
        self.frames.window(stream.number, self.window - left)

    def _serve(self, stream: Any, message: bytes) -> None:
        try:
            answer = stream.handler(stream, message)
        except Exception as error:
            self.host.failed(stream, error)
            return
        if isinstance(answer, bytes):
            self.answer(stream, answer)
        else:
            self.host.later(stream, answer)
