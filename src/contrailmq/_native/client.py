"""The client's share of the hot path: frames of single sends, their answers, bodies of batches.

A ``SendTemplate`` is a SEND_MESSAGE_V2 header cut at the places that change from message to
message; ``frame`` fills them in.  It is made from a header the ordinary encoder wrote, so the two
write the same bytes.  ``SendAnswers`` is the lane of a producer's connections: it reads successful
answers in the bytes of a socket read and hands a receipt to whoever waits.  Whatever else comes,
it leaves to the ordinary path.

``property_text`` and ``plain_batch`` do for ordinary messages what ``Packer`` does for all.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw
from contrailmq._native.request import RequestScan

_WAIT = "WAIT\x01true\x02"
_NO_WAIT = "WAIT\x01false\x02"
_INNER_SIZE_MIN = 22
_PROPERTIES_SIZE_MAX = 32767
_BINARY_HEAD_SIZE = 21
_DELAY_LEVEL_MAX = 18
_BAD_NUMBER = -0x7FFFFFFFFFFFFFFF


class SendTemplate:
    """One producer's send header for one queue.

    ``pieces`` are the bytes before, between and after the values of sys flag, birth time, flag
    and properties; in a JSON header a sixth piece follows the opaque.  A binary header's first
    piece begins with its fixed part, and the values' own sizes are not in the pieces.
    """

    def __init__(self, pieces: list[bytes], is_binary: bool) -> None:
        if len(pieces) != (5 if is_binary else 6):
            raise ValueError(f"{len(pieces)} pieces")
        if is_binary and len(pieces[0]) < _BINARY_HEAD_SIZE:
            raise ValueError("the first piece has no fixed part")
        self.is_binary = is_binary
        self.first = pieces[0]
        self.second = pieces[1]
        self.third = pieces[2]
        self.fourth = pieces[3]
        self.fifth = pieces[4]
        self.sixth = b"" if is_binary else pieces[5]
        self.fixed = sum([len(piece) for piece in pieces])

    def frame(
        self, opaque: int, sys_flag: int, born_ms: int, flag: int, text: bytes, body: bytes
    ) -> bytearray:
        """A whole frame; ``text`` is the properties' UTF-8, numbers are not negative."""
        if opaque < 0 or sys_flag < 0 or born_ms < 0 or flag < 0:
            raise ValueError("a number is negative")
        text_size = len(text)
        source: Any = text
        header = self.fixed + digits(sys_flag) + digits(born_ms) + digits(flag)
        if self.is_binary:
            header += text_size + 16
        else:
            header += escaped_size(source, text_size) + digits(opaque)
        body_size = len(body)
        made = bytearray(8 + header + body_size)
        out: Any = made
        raw.put_u32(out, 0, 4 + header + body_size)
        if self.is_binary:
            at = self._binary(out, opaque, sys_flag, born_ms, flag)
            raw.put_u32(out, 4, header | 0x1000000)
            raw.put_u32(out, 8 + 17, header - _BINARY_HEAD_SIZE)
            raw.put_u32(out, at, text_size)
            raw.copy_bytes(out, at + 4, source, 0, text_size)
            at = put_piece(out, at + 4 + text_size, self.fifth)
        else:
            raw.put_u32(out, 4, header)
            at = put_piece(out, 8, self.first)
            at = put_number(out, at, sys_flag)
            at = put_piece(out, at, self.second)
            at = put_number(out, at, born_ms)
            at = put_piece(out, at, self.third)
            at = put_number(out, at, flag)
            at = put_piece(out, at, self.fourth)
            at = put_escaped(out, at, source, text_size)
            at = put_piece(out, at, self.fifth)
            at = put_number(out, at, opaque)
            at = put_piece(out, at, self.sixth)
        raw.copy_bytes(out, at, body, 0, body_size)
        return made

    def _binary(self, out: Any, opaque: int, sys_flag: int, born_ms: int, flag: int) -> int:
        """All before the properties' size; where that is written."""
        at = put_piece(out, 8, self.first)
        raw.put_u32(out, 8 + 5, opaque)
        at = put_counted(out, at, sys_flag)
        at = put_piece(out, at, self.second)
        at = put_counted(out, at, born_ms)
        at = put_piece(out, at, self.third)
        at = put_counted(out, at, flag)
        return put_piece(out, at, self.fourth)


def put_piece(out: Any, at: int, piece: bytes) -> int:
    """Copy a piece; where it ends."""
    size = len(piece)
    raw.copy_bytes(out, at, piece, 0, size)
    return at + size


def put_counted(out: Any, at: int, value: int) -> int:
    """A number as text after its size; where it ends."""
    raw.put_u32(out, at, digits(value))
    return put_number(out, at + 4, value)


def digits(value: int) -> int:
    """How many decimal digits a number has."""
    count = 1
    while value >= 10:
        value //= 10
        count += 1
    return count


def put_number(out: Any, at: int, value: int) -> int:
    """A number as text; where it ends."""
    end = at + digits(value)
    at = end
    while True:
        at -= 1
        out[at] = 48 + value % 10
        value //= 10
        if value == 0:
            return end


def escaped_size(text: Any, size: int) -> int:
    """How long UTF-8 text is inside a JSON string."""
    count = size
    for at in range(size):
        byte = text[at]
        if byte < 32:
            if byte == 8 or byte == 9 or byte == 10 or byte == 12 or byte == 13:
                count += 1
            else:
                count += 5
        elif byte == 34 or byte == 92:
            count += 1
    return count


def put_escaped(out: Any, at: int, text: Any, size: int) -> int:
    """UTF-8 text as the inside of a JSON string; where it ends."""
    for position in range(size):
        byte = text[position]
        if byte >= 32 and byte != 34 and byte != 92:
            out[at] = byte
            at += 1
            continue
        out[at] = 92
        if byte == 8:
            out[at + 1] = 98
        elif byte == 9:
            out[at + 1] = 116
        elif byte == 10:
            out[at + 1] = 110
        elif byte == 12:
            out[at + 1] = 102
        elif byte == 13:
            out[at + 1] = 114
        elif byte >= 32:
            out[at + 1] = byte
        else:
            out[at + 1] = 117
            out[at + 2] = 48
            out[at + 3] = 48
            out[at + 4] = 48 + (byte >> 4)
            out[at + 5] = 48 + (byte & 15) if (byte & 15) < 10 else 87 + (byte & 15)
            at += 4
        at += 2
    return at


class QuickSend:
    """A send under way by the short way: who waits for its answer, and what was sent.

    A connection's table of calls has it in a future's place; what it is told there is passed on.
    """

    def __init__(self, future: Any, message_id: str, queue: Any, text: str, body: bytes) -> None:
        self.future = future
        self.message_id = message_id
        self.queue = queue
        self.text = text
        self.body = body
        self.flag = 0
        self.size = 0
        self.begun = 0.0

    def done(self) -> bool:
        """Whether nobody waits any more."""
        return bool(self.future.done())

    def set_result(self, answer: Any) -> None:
        """The answer, as a command: the lane did not take it."""
        self.future.set_result(answer)

    def set_exception(self, error: BaseException) -> None:
        """There will be no answer."""
        self.future.set_exception(error)

    def exception(self) -> BaseException | None:
        """Fetch the error, so that nobody complains that it was not fetched."""
        error: BaseException | None = self.future.exception()
        return error


class SendAnswers:
    """The lane that reads the answers of quick sends among the calls of a connection.

    ``receipt_type`` is the tuple type of receipts, ``status`` stands in each.
    """

    def __init__(self, receipt_type: Any, status: Any) -> None:
        self._receipt_type = receipt_type
        self._make = tuple.__new__
        self._status = status
        self._scan = RequestScan()

    def run(self, buffer: Any, start: int, end: int, connection: Any, out: Any) -> int:
        """Settle runs of successful answers; the position of the first frame left alone."""
        if start < 0 or end > len(buffer):
            raise ValueError("range outside the buffer")
        scan = self._scan
        pending = connection.calls.pending
        data: Any = buffer
        while scan.scan_at(data, start, end) == 1:
            if scan.code != 0 or not scan.flag & 1:
                return start
            opaque: Any = scan.opaque
            call = pending.get(opaque)
            if call is None:
                return start
            sent = call[0]
            if type(sent) is not QuickSend:
                return start
            receipt = self._receipt(data, buffer, sent)
            if receipt is None:
                return start
            del pending[opaque]
            future = sent.future
            if not future.done():
                future.set_result(receipt)
            start = scan.frame_end
        return start

    def _receipt(self, data: Any, buffer: Any, sent: QuickSend) -> Any:
        """The receipt the scanned frame speaks of; None when it says anything unusual."""
        scan = self._scan
        message_id: Any = None
        transaction_id: Any = None
        region: Any = "DefaultRegion"
        offset = -1
        for field in range(scan.field_count):
            size = scan.key_size[field]
            at = scan.key_at[field]
            value_at = scan.value_at[field]
            value_size = scan.value_size[field]
            stop = value_at + value_size
            if scan.escaped[field]:
                return None
            if size == 7 and raw.same_bytes(data, at, b"queueId", 0, 7):
                if scan.number_at(data, value_at, value_size) != sent.queue[2]:
                    return None
            elif size == 11 and raw.same_bytes(data, at, b"queueOffset", 0, 11):
                offset = scan.number_at(data, value_at, value_size)
            elif size == 5 and raw.same_bytes(data, at, b"msgId", 0, 5):
                message_id = buffer[value_at:stop].decode("utf-8", "replace")
            elif size == 13 and raw.same_bytes(data, at, b"transactionId", 0, 13):
                transaction_id = buffer[value_at:stop].decode("utf-8", "replace")
            elif size == 10 and raw.same_bytes(data, at, b"MSG_REGION", 0, 10):
                if value_size != 13 or not raw.same_bytes(data, value_at, b"DefaultRegion", 0, 13):
                    region = buffer[value_at:stop].decode("utf-8", "replace")
            elif size != 8 or not raw.same_bytes(data, at, b"TRACE_ON", 0, 8):
                return None  # a producer does not mind whether the broker traces
        if offset < 0 or message_id is None:
            return None
        receipt = (
            sent.message_id, message_id, sent.queue, offset,
            self._status, transaction_id, region, None,
        )  # fmt: skip
        return self._make(self._receipt_type, receipt)


def property_text(message: Any, reserved: Any) -> str | None:
    """All properties of a message in the ordinary path's order; None if one needs a closer look.

    ``reserved`` are the names a user's property may not have.  Whatever could not be stored, or is
    not of the usual types, is left to the ordinary path, which says what is wrong with it.
    """
    text = ""
    count = 1
    properties = message.properties
    if properties:
        for name, value in properties.items():
            if type(name) is not str or type(value) is not str or not name or name in reserved:
                return None
            text = f"{text}{name}\x01{value}\x02"
            count += 1
    keys = message.keys
    if keys:
        text = f"{text}KEYS\x01{' '.join(keys)}\x02"
        count += 1
    tags = message.tags
    if tags:
        text = f"{text}TAGS\x01{tags}\x02"
        count += 1
    wait = _WAIT if message.wait_stored else _NO_WAIT
    text = f"{text}{wait}" if text else wait
    level = message.delay_level
    if level:
        if type(level) is not int or level < 0 or level > _DELAY_LEVEL_MAX:
            return None
        text = f"{text}DELAY\x01{level}\x02"
        count += 1
    if message.delay_s is not None or message.deliver_at_ms is not None:
        return None
    if count > 1 and (text.count("\x01") != count or text.count("\x02") != count):
        return None  # a separator inside a name or a value
    return text


def plain_batch(
    messages: list[Any], ids: list[str], topic: str, wait: bool, before_id: str, size_max: int,
    reserved: Any,
) -> bytearray | None:  # fmt: skip
    """The body of a batch of plain messages to one topic; None if one of them is anything else.

    ``before_id`` stands between a message's own properties and its id; bodies have at least one
    byte and at most ``size_max``; ``reserved`` is as in ``property_text``.
    """
    count = len(messages)
    if len(ids) != count:
        raise ValueError(f"{len(ids)} ids for {count} messages")
    bodies = []
    texts = []
    flags = []
    for index in range(count):
        message = messages[index]
        if message.topic != topic or message.wait_stored is not wait:
            return None
        body = message.body
        flag = message.flag
        if type(body) is not bytes or type(flag) is not int:
            return None
        size = len(body)
        if size == 0 or size > size_max or flag < -0x80000000 or flag > 0x7FFFFFFF:
            return None
        if message.delay_level:
            return None
        text = property_text(message, reserved)
        if text is None:
            return None
        bodies.append(body)
        flags.append(flag)
        texts.append(f"{text}{before_id}{ids[index]}\x02".encode("utf-8", "replace"))
    return batch_body(bodies, texts, flags)


def batch_body(bodies: list[bytes], texts: list[bytes], flags: list[int]) -> bytearray:
    """The body of a batch: for each message its head, body and properties."""
    count = len(bodies)
    size = 0
    for index in range(count):
        size += _INNER_SIZE_MIN + len(bodies[index]) + len(texts[index])
    made = bytearray(size)
    out: Any = made
    at = 0
    for index in range(count):
        body = bodies[index]
        text = texts[index]
        body_size = len(body)
        text_size = len(text)
        if text_size > _PROPERTIES_SIZE_MAX:
            raise ValueError(f"properties of {text_size} bytes, at most {_PROPERTIES_SIZE_MAX}")
        raw.put_u32(out, at, _INNER_SIZE_MIN + body_size + text_size)
        raw.put_u32(out, at + 12, flags[index] & 0xFFFFFFFF)
        raw.put_u32(out, at + 16, body_size)
        at = put_piece(out, at + 20, body)
        raw.put_u16(out, at, text_size)
        at = put_piece(out, at + 2, text)
    return made
