"""Find the parts of a request in the bytes of a socket read, without copying any of them.

``RequestScan.scan`` looks at one frame and notes where its ext fields lie.  It understands what
clients really write: a compact or spaced JSON header with text, number or boolean ext values,
and the binary header.  Whatever else it meets it does not judge: it says ``NOT_UNDERSTOOD``, and
the ordinary decoder, which can also explain itself, takes the frame.

Every read is bounded by the frame, and the frame by the buffer.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import frame, raw, text

Bytes = bytes | bytearray | memoryview

# What scan answers.
INCOMPLETE = 0
UNDERSTOOD = 1
NOT_UNDERSTOOD = -1
BAD_NUMBER = -0x7FFFFFFFFFFFFFFF
_FIELDS_MAX = 32
_SHORT = 20  # up to here a loop is quicker than a call of the C library's search
_BAD_NUMBER = -0x7FFFFFFFFFFFFFFF
_SIGN = 0x80000000
_CODE_MAX = 0x7FFF
_DIGITS_MAX = 18  # of a number that surely fits 64 bits
_ESCAPE_SIZE = 6  # a backslash, a u, four digits
_SURROGATE = 0xD800  # the first; the low ones follow
_LOW_SURROGATE = 0xDC00
_SURROGATE_LAST = 0xDFFF
_SURROGATE_BITS = 10
_PLANE = 0x10000
_TWO_BYTES_END = 0x800  # the first point that UTF-8 needs three bytes for
_NEXT_BITS = 6  # of a point in each byte after the first
_OTHER = 0
_CODE = 1
_FLAG = 2
_OPAQUE = 3
_VERSION = 4
_EXT_FIELDS = 5


class RequestScan:
    """Where things are in one frame; overwritten by the next ``scan``."""

    def __init__(self) -> None:
        self.key_at = memoryview(bytearray(8 * _FIELDS_MAX)).cast("q")
        self.key_size = memoryview(bytearray(8 * _FIELDS_MAX)).cast("q")
        self.value_at = memoryview(bytearray(8 * _FIELDS_MAX)).cast("q")
        self.value_size = memoryview(bytearray(8 * _FIELDS_MAX)).cast("q")
        self.escaped = memoryview(bytearray(8 * _FIELDS_MAX)).cast("q")
        self.field_count = 0
        self.code = 0
        self.opaque = 0
        self.flag = 0
        self.version = 0
        self.is_binary = False
        self.body_at = 0
        self.frame_end = 0

    def scan(self, buffer: Bytes, start: int, end: int) -> int:
        """Look at the frame at ``start``; see the constants above for what comes back."""
        if start < 0 or end > len(buffer):
            raise ValueError("range outside the buffer")
        return self.scan_at(raw.at_address(buffer), start, end)

    def scan_at(self, buffer: Any, start: int, end: int) -> int:
        """The same for callers that have checked the range themselves."""
        if end - start < frame.HEADER_AT:
            return 0
        size = raw.get_u32(buffer, start + frame.LENGTH_AT)
        rest = frame.HEADER_AT - frame.LENGTH_SIZE
        if size < rest or size > frame.SIZE_MAX - frame.LENGTH_SIZE:
            return -1
        if end - start - frame.LENGTH_SIZE < size:
            return 0
        word = raw.get_u32(buffer, start + frame.MARK_AT)
        header_size = word & frame.HEADER_SIZE_MASK
        if header_size > size - rest:
            return -1
        self.frame_end = start + frame.LENGTH_SIZE + size
        self.body_at = start + frame.HEADER_AT + header_size
        self.field_count = 0
        self.code = -1
        self.opaque = 0
        self.flag = 0
        self.version = 0
        if word >> frame.KIND_SHIFT == frame.JSON:
            self.is_binary = False
            return self._scan_json(buffer, start + frame.HEADER_AT, self.body_at)
        if word >> frame.KIND_SHIFT == frame.BINARY:
            self.is_binary = True
            return self._scan_binary(buffer, start + frame.HEADER_AT, self.body_at)
        return -1

    def find(self, buffer: Bytes, name: Bytes) -> int:
        """The number of the ext field called ``name``, or -1."""
        data = raw.at_address(buffer)
        wanted = raw.at_address(name)
        size = len(name)
        for number in range(self.field_count):
            if self.key_size[number] == size:
                if raw.same_bytes(data, self.key_at[number], wanted, 0, size):
                    return number
        return -1

    def number(self, buffer: Bytes, field: int) -> int:
        """An ext field as a whole number; ``BAD_NUMBER`` if it is none."""
        return parse_number(raw.at_address(buffer), self.value_at[field], self.value_size[field])

    def text(self, buffer: Bytes, field: int) -> bytes | None:
        """An ext field's bytes, unescaped; None if an escape in it is broken."""
        at = self.value_at[field]
        size = self.value_size[field]
        if not self.escaped[field]:
            return bytes(buffer[at : at + size])
        out = bytearray(size)
        written = unescape(raw.at_address(buffer), at, at + size, raw.at_address(out), 0)
        if written < 0:
            return None
        return bytes(out[:written])

    def number_at(self, buffer: Any, at: int, size: int) -> int:
        """A number somewhere in the frame; ``BAD_NUMBER`` if it is none."""
        return parse_number(buffer, at, size)

    def unescape_at(self, buffer: Any, at: int, end: int, out: Any, out_at: int) -> int:
        """The inside of a JSON string without its escapes; where it ends in ``out``, or -1."""
        return unescape(buffer, at, end, out, out_at)

    def _scan_json(self, buffer: Any, at: int, end: int) -> int:
        at = skip_blank(buffer, at, end)
        if at >= end or buffer[at] != ord("{"):
            return -1
        at = skip_blank(buffer, at + 1, end)
        if at < end and buffer[at] == ord("}"):
            return -1
        while True:
            if at >= end or buffer[at] != ord('"'):
                return -1
            key_at = at + 1
            at = short_end(buffer, key_at, end)
            if at < 0:
                at = string_end(buffer, key_at, end)
            if at < 0:
                return -1
            key_size = at - key_at
            at = skip_blank(buffer, at + 1, end)
            if at >= end or buffer[at] != ord(":"):
                return -1
            at = skip_blank(buffer, at + 1, end)
            if at >= end:
                return -1
            at = self._json_member(buffer, key_at, key_size, at, end)
            if at < 0:
                return -1
            at = skip_blank(buffer, at, end)
            if at >= end:
                return -1
            if buffer[at] == ord("}"):
                break
            if buffer[at] != ord(","):
                return -1
            at = skip_blank(buffer, at + 1, end)
        at = skip_blank(buffer, at + 1, end)
        if at != end or self.code < 0:
            return -1
        return 1

    def _json_member(self, buffer: Any, key_at: int, key_size: int, at: int, end: int) -> int:
        """Take the value at ``at`` of a top-level key; where it ends, or -1."""
        name = top_level_key(buffer, key_at, key_size)
        if name == _EXT_FIELDS:
            return self._json_fields(buffer, at, end)
        if buffer[at] == ord('"'):
            stop = short_end(buffer, at + 1, end)
            if stop < 0:
                stop = string_end(buffer, at + 1, end)
            if stop < 0 or name != _OTHER:
                return -1  # code, opaque, flag or version as text: for the ordinary decoder
            return stop + 1
        stop = literal_end(buffer, at, end)
        if stop == at:
            return -1
        if name == _OTHER:
            return stop
        number = parse_number(buffer, at, stop - at)
        if number < -_SIGN or number >= _SIGN:
            return -1
        if name == _CODE:
            self.code = number
        elif name == _FLAG:
            self.flag = number
        elif name == _OPAQUE:
            self.opaque = number
        else:
            self.version = number
        return stop

    def _json_fields(self, buffer: Any, at: int, end: int) -> int:
        if buffer[at] != ord("{"):
            return -1
        at = skip_blank(buffer, at + 1, end)
        if at < end and buffer[at] == ord("}"):
            return at + 1
        count = 0
        while True:
            if count >= _FIELDS_MAX or at >= end or buffer[at] != ord('"'):
                return -1
            start = at + 1
            at = short_end(buffer, start, end)
            if at < 0:
                at = string_end(buffer, start, end)
            if at < 0:
                return -1
            self.key_at[count] = start
            self.key_size[count] = at - start
            at = skip_blank(buffer, at + 1, end)
            if at >= end or buffer[at] != ord(":"):
                return -1
            at = skip_blank(buffer, at + 1, end)
            if at >= end:
                return -1
            self.escaped[count] = 0
            if buffer[at] == ord('"'):
                start = at + 1
                stop = short_end(buffer, start, end)
                if stop < 0:
                    stop = string_end(buffer, start, end)
                    if stop < 0:
                        return -1
                    self.escaped[count] = raw.find_byte(buffer, start, stop, ord("\\")) >= 0
                self.value_at[count] = start
                self.value_size[count] = stop - start
                at = stop + 1
            else:
                stop = literal_end(buffer, at, end)
                if stop == at or buffer[at] == ord("n"):  # null: absent, by the ordinary decoder
                    return -1
                self.value_at[count] = at
                self.value_size[count] = stop - at
                at = stop
            count += 1
            at = skip_blank(buffer, at, end)
            if at >= end:
                return -1
            if buffer[at] == ord("}"):
                self.field_count = count
                return at + 1
            if buffer[at] != ord(","):
                return -1
            at = skip_blank(buffer, at + 1, end)

    def _scan_binary(self, buffer: Any, at: int, end: int) -> int:
        if end - at < frame.BINARY_SIZE_MIN:
            return -1
        self.code = raw.get_u16(buffer, at + frame.BINARY_CODE_AT)
        self.version = raw.get_u16(buffer, at + frame.BINARY_VERSION_AT)
        self.opaque = raw.get_i32(buffer, at + frame.BINARY_OPAQUE_AT)
        self.flag = raw.get_i32(buffer, at + frame.BINARY_FLAG_AT)
        remark_size = raw.get_u32(buffer, at + frame.BINARY_REMARK_LENGTH_AT)
        if self.code > _CODE_MAX or remark_size != 0:
            return NOT_UNDERSTOOD  # a remark on a request: rare
        size = raw.get_u32(buffer, at + frame.BINARY_FIELDS_LENGTH_AT)
        at += frame.BINARY_SIZE_MIN
        if size != end - at:
            return -1
        count = 0
        while at < end:
            if count >= _FIELDS_MAX or end - at < frame.BINARY_NAME_HEAD:
                return -1
            size = raw.get_u16(buffer, at)
            at += frame.BINARY_NAME_HEAD
            if size == 0 or size > end - at - frame.BINARY_VALUE_HEAD:
                return -1
            self.key_at[count] = at
            self.key_size[count] = size
            at += size
            size = raw.get_u32(buffer, at)
            at += frame.BINARY_VALUE_HEAD
            if size == 0 or size > end - at:
                return -1
            self.value_at[count] = at
            self.value_size[count] = size
            self.escaped[count] = 0
            at += size
            count += 1
        self.field_count = count
        return 1


def top_level_key(buffer: Any, at: int, size: int) -> int:
    """Which key of a JSON header this is; one with an escape in it counts as another."""
    if text.is_word(buffer, at, size, b"code"):
        return _CODE
    if text.is_word(buffer, at, size, b"flag"):
        return _FLAG
    if text.is_word(buffer, at, size, b"opaque"):
        return _OPAQUE
    if text.is_word(buffer, at, size, b"version"):
        return _VERSION
    if text.is_word(buffer, at, size, b"extFields"):
        return _EXT_FIELDS
    return _OTHER


def skip_blank(buffer: Any, at: int, end: int) -> int:
    """The first position that is not blank."""
    while at < end and (
        buffer[at] == ord(" ")
        or buffer[at] == ord("\n")
        or buffer[at] == ord("\r")
        or buffer[at] == ord("\t")
    ):
        at += 1
    return at


def short_end(buffer: Any, at: int, end: int) -> int:
    """The same as ``string_end`` for a short string without escapes; -1: ask that one."""
    if end - at > _SHORT:
        end = at + _SHORT
    while at < end:
        byte = buffer[at]
        if byte == ord('"'):
            return at
        if byte == ord("\\"):
            return -1
        at += 1
    return -1


def string_end(buffer: Any, at: int, end: int) -> int:
    """Where the quote is that ends the string whose inside begins at ``at``; -1 if nowhere."""
    start = at
    while True:
        at = raw.find_byte(buffer, at, end, ord('"'))
        if at < 0:
            return -1
        back = at - 1
        while back >= start and buffer[back] == ord("\\"):
            back -= 1
        if (at - back) & 1:
            return at
        at += 1


def literal_end(buffer: Any, at: int, end: int) -> int:
    """Where a number, ``true`` or ``false`` ends."""
    while at < end:
        byte = buffer[at]
        if byte == ord(",") or byte == ord("}") or byte <= ord(" ") or byte == ord("]"):
            return at
        if byte == ord("{") or byte == ord("[") or byte == ord('"') or byte == ord(":"):
            return at
        at += 1
    return at


def parse_number(buffer: Any, at: int, size: int) -> int:
    """A decimal whole number of at most 18 digits, else ``BAD_NUMBER``."""
    end = at + size
    negative = False
    if size and buffer[at] == ord("-"):
        negative = True
        at += 1
    if at >= end or end - at > _DIGITS_MAX:
        return _BAD_NUMBER
    value = 0
    while at < end:
        digit = buffer[at] - ord("0")
        if digit < 0 or digit > 9:
            return _BAD_NUMBER
        value = value * 10 + digit
        at += 1
    if negative:
        return -value
    return value


def number_of(text: Bytes) -> int:
    """A whole text as a number, or ``BAD_NUMBER``."""
    return parse_number(raw.at_address(text), 0, len(text))


def unescaped(text: Bytes) -> bytes | None:
    """The inside of a JSON string without its escapes; None if one is broken."""
    out = bytearray(len(text) or 1)
    end = unescape(raw.at_address(text), 0, len(text), raw.at_address(out), 0)
    if end < 0:
        return None
    return bytes(out[:end])


def hex4(buffer: Any, at: int) -> int:
    """Four hexadecimal digits, or -1."""
    value = 0
    for position in range(at, at + 4):
        byte = buffer[position]
        if ord("0") <= byte <= ord("9"):
            digit = byte - ord("0")
        elif ord("a") <= byte <= ord("f"):
            digit = byte - ord("a") + 10
        elif ord("A") <= byte <= ord("F"):
            digit = byte - ord("A") + 10
        else:
            return -1
        value = (value << 4) | digit
    return value


def unescape(buffer: Any, at: int, end: int, out: Any, out_at: int) -> int:
    """Copy the inside of a JSON string to ``out`` without its escapes, as UTF-8.

    Returns where the copy ends, or -1 for an escape that is broken or a lone surrogate.  The
    result is never longer than the source; the caller gives ``out`` that much room.
    """
    while at < end:
        if buffer[at] != ord("\\"):
            stop = raw.find_byte(buffer, at, end, ord("\\"))
            if stop < 0:
                stop = end
            raw.copy_bytes(out, out_at, buffer, at, stop - at)
            out_at += stop - at
            at = stop
            continue
        if at + 1 >= end:
            return -1
        byte = buffer[at + 1]
        if byte != ord("u"):
            if byte == ord("n"):
                byte = ord("\n")
            elif byte == ord("t"):
                byte = ord("\t")
            elif byte == ord("r"):
                byte = ord("\r")
            elif byte == ord("b"):
                byte = ord("\b")
            elif byte == ord("f"):
                byte = ord("\f")
            elif byte != ord('"') and byte != ord("\\") and byte != ord("/"):
                return -1
            out[out_at] = byte
            out_at += 1
            at += 2
            continue
        if at + _ESCAPE_SIZE > end:
            return -1
        point = hex4(buffer, at + 2)
        if point < 0:
            return -1
        at += _ESCAPE_SIZE
        if _SURROGATE <= point <= _SURROGATE_LAST:
            if (
                point >= _LOW_SURROGATE
                or at + _ESCAPE_SIZE > end
                or buffer[at] != ord("\\")
                or buffer[at + 1] != ord("u")
            ):
                return -1
            low = hex4(buffer, at + 2)
            if low < _LOW_SURROGATE or low > _SURROGATE_LAST:
                return -1
            at += _ESCAPE_SIZE
            point = _PLANE + ((point - _SURROGATE) << _SURROGATE_BITS) + (low - _LOW_SURROGATE)
        out_at = put_utf8(out, out_at, point)
    return out_at


def put_utf8(out: Any, at: int, point: int) -> int:
    """Write one code point; returns where it ends."""
    if point < text.HIGH_BIT:
        out[at] = point
        return at + 1
    if point < _TWO_BYTES_END:
        out[at] = text.UTF8_TWO_MARK | (point >> _NEXT_BITS)
        return put_next(out, at + 1, point, 1)
    if point < _PLANE:
        out[at] = text.UTF8_THREE | (point >> 2 * _NEXT_BITS)
        return put_next(out, at + 1, point, 2)
    out[at] = text.UTF8_FOUR | (point >> 3 * _NEXT_BITS)
    return put_next(out, at + 1, point, 3)


def put_next(out: Any, at: int, point: int, count: int) -> int:
    """Write the last bytes of a code point, six bits in each; returns where they end."""
    while count > 0:
        count -= 1
        out[at] = text.UTF8_NEXT | ((point >> _NEXT_BITS * count) & text.UTF8_NEXT_BITS)
        at += 1
    return at
