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

from contrailmq._native import frame, inner, raw, record, text
from contrailmq._native.net.request import RequestScan

_WAIT = "WAIT\x01true\x02"
_NO_WAIT = "WAIT\x01false\x02"
_DELAY_LEVEL_MAX = 18
_INT_MAX = 0x7FFFFFFF
_BINARY_PIECES = 5
_JSON_PIECES = 6
_LONG_ESCAPE = 6  # a backslash, a u, four digits


class SendTemplate:
    """One producer's send header for one queue.

    ``pieces`` are the bytes before, between and after the values of sys flag, birth time, flag
    and properties; in a JSON header a sixth piece follows the opaque.  A binary header's first
    piece begins with its fixed part, and the values' own sizes are not in the pieces.
    """

    def __init__(self, pieces: list[bytes], is_binary: bool) -> None:
        if len(pieces) != (_BINARY_PIECES if is_binary else _JSON_PIECES):
            raise ValueError(f"{len(pieces)} pieces")
        if is_binary and len(pieces[0]) < frame.BINARY_SIZE_MIN:
            raise ValueError("the first piece has no fixed part")
        self.is_binary = is_binary
        self.first = pieces[0]
        self.second = pieces[1]
        self.third = pieces[2]
        self.fourth = pieces[3]
        self.fifth = pieces[4]
        self.sixth = b"" if is_binary else pieces[len(pieces) - 1]
        self.fixed = sum([len(piece) for piece in pieces])

    def frame(
        self, opaque: int, sys_flag: int, born_ms: int, flag: int, properties: bytes, body: bytes
    ) -> bytearray:
        """Return a whole frame; ``properties`` is UTF-8, numbers are not negative."""
        if opaque < 0 or sys_flag < 0 or born_ms < 0 or flag < 0:
            raise ValueError("a number is negative")
        properties_size = len(properties)
        source: Any = properties
        header = self.fixed + text.digits(sys_flag) + text.digits(born_ms) + text.digits(flag)
        if self.is_binary:
            header += properties_size + 4 * frame.BINARY_VALUE_HEAD
        else:
            header += escaped_size(source, properties_size) + text.digits(opaque)
        body_size = len(body)
        made = bytearray(frame.HEADER_AT + header + body_size)
        out: Any = made
        raw.put_u32(out, frame.LENGTH_AT, frame.HEADER_AT - frame.LENGTH_SIZE + header + body_size)
        if self.is_binary:
            at = self._binary(out, opaque, sys_flag, born_ms, flag)
            raw.put_u32(out, frame.MARK_AT, header | frame.BINARY << frame.KIND_SHIFT)
            fields_size = header - frame.BINARY_SIZE_MIN
            raw.put_u32(out, frame.HEADER_AT + frame.BINARY_FIELDS_LENGTH_AT, fields_size)
            raw.put_u32(out, at, properties_size)
            at += frame.BINARY_VALUE_HEAD
            raw.copy_bytes(out, at, source, 0, properties_size)
            at = put_piece(out, at + properties_size, self.fifth)
        else:
            raw.put_u32(out, frame.MARK_AT, header)
            at = put_piece(out, frame.HEADER_AT, self.first)
            at = text.put_number(out, at, sys_flag)
            at = put_piece(out, at, self.second)
            at = text.put_number(out, at, born_ms)
            at = put_piece(out, at, self.third)
            at = text.put_number(out, at, flag)
            at = put_piece(out, at, self.fourth)
            at = put_escaped(out, at, source, properties_size)
            at = put_piece(out, at, self.fifth)
            at = text.put_number(out, at, opaque)
            at = put_piece(out, at, self.sixth)
        raw.copy_bytes(out, at, body, 0, body_size)
        return made

    def _binary(self, out: Any, opaque: int, sys_flag: int, born_ms: int, flag: int) -> int:
        """All before the properties' size; where that is written."""
        at = put_piece(out, frame.HEADER_AT, self.first)
        raw.put_u32(out, frame.HEADER_AT + frame.BINARY_OPAQUE_AT, opaque)
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
    raw.put_u32(out, at, text.digits(value))
    return text.put_number(out, at + frame.BINARY_VALUE_HEAD, value)


def escaped_size(source: Any, size: int) -> int:
    """Return how long UTF-8 text is inside a JSON string."""
    count = size
    for at in range(size):
        byte = source[at]
        if byte < ord(" "):
            count += 1 if short_escape(byte) else _LONG_ESCAPE - 1
        elif byte == ord('"') or byte == ord("\\"):
            count += 1
    return count


def short_escape(byte: int) -> int:
    """Return the letter of a control character's escape; 0 for those that need a number."""
    if byte == ord("\n"):
        return ord("n")
    if byte == ord("\t"):
        return ord("t")
    if byte == ord("\r"):
        return ord("r")
    if byte == ord("\b"):
        return ord("b")
    if byte == ord("\f"):
        return ord("f")
    return 0


def put_escaped(out: Any, at: int, source: Any, size: int) -> int:
    """Write UTF-8 text as the inside of a JSON string; returns where it ends."""
    for position in range(size):
        byte = source[position]
        if byte >= ord(" ") and byte != ord('"') and byte != ord("\\"):
            out[at] = byte
            at += 1
            continue
        out[at] = ord("\\")
        if byte >= ord(" "):
            out[at + 1] = byte
            at += 2
        elif short_escape(byte):
            out[at + 1] = short_escape(byte)
            at += 2
        else:
            out[at + 1] = ord("u")
            out[at + 2] = ord("0")
            out[at + 3] = ord("0")
            at += _LONG_ESCAPE
            out[at - 2] = text.lower_hex(byte >> 4)
            out[at - 1] = text.lower_hex(byte & 15)
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
            if scan.code != 0 or not scan.flag & frame.RESPONSE:
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
            if text.is_word(data, at, size, b"queueId"):
                if scan.number_at(data, value_at, value_size) != sent.queue[2]:
                    return None
            elif text.is_word(data, at, size, b"queueOffset"):
                offset = scan.number_at(data, value_at, value_size)
            elif text.is_word(data, at, size, b"msgId"):
                message_id = buffer[value_at:stop].decode("utf-8", "replace")
            elif text.is_word(data, at, size, b"transactionId"):
                transaction_id = buffer[value_at:stop].decode("utf-8", "replace")
            elif text.is_word(data, at, size, b"MSG_REGION"):
                if not text.is_word(data, value_at, value_size, b"DefaultRegion"):
                    region = buffer[value_at:stop].decode("utf-8", "replace")
            elif not text.is_word(data, at, size, b"TRACE_ON"):
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
        for key in keys:
            if type(key) is not str or not key or " " in key or not key.isprintable():
                return None  # other white space than a blank is not printable
        text = f"{text}KEYS\x01{' '.join(keys)}\x02"
        count += 1
    tags = message.tags
    if tags:
        if type(tags) is not str or "||" in tags:
            return None
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
    if type(message.flag) is not int:
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
        if size == 0 or size > size_max or flag < -_INT_MAX - 1 or flag > _INT_MAX:
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
        size += inner.SIZE_MIN + len(bodies[index]) + len(texts[index])
    made = bytearray(size)
    out: Any = made
    at = 0
    for index in range(count):
        body = bodies[index]
        properties = texts[index]
        body_size = len(body)
        properties_size = len(properties)
        if properties_size > record.PROPERTIES_SIZE_MAX:
            raise ValueError(
                f"properties of {properties_size} bytes, at most {record.PROPERTIES_SIZE_MAX}"
            )
        raw.put_u32(out, at + inner.SIZE_AT, inner.SIZE_MIN + body_size + properties_size)
        flag = flags[index]
        raw.put_u32(out, at + inner.FLAG_AT, flag)
        raw.put_u32(out, at + inner.BODY_LENGTH_AT, body_size)
        at = put_piece(out, at + inner.BODY_AT, body)
        raw.put_u16(out, at, properties_size)
        at = put_piece(out, at + inner.PROPERTIES_HEAD, properties)
    return made
