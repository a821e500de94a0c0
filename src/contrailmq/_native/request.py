"""Find the parts of a request in the bytes of a socket read, without copying any of them.

``RequestScan.scan`` looks at one frame and notes where its ext fields lie.  It understands what
clients really write: a compact or spaced JSON header with text, number or boolean ext values,
and the binary header.  Whatever else it meets it does not judge: it says ``NOT_UNDERSTOOD``, and
the ordinary decoder, which can also explain itself, takes the frame.

Every read is bounded by the frame, and the frame by the buffer.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import raw

Bytes = bytes | bytearray | memoryview

# What scan answers.
INCOMPLETE = 0
UNDERSTOOD = 1
NOT_UNDERSTOOD = -1
BAD_NUMBER = -0x7FFFFFFFFFFFFFFF
_FIELDS_MAX = 32
_SHORT = 20  # up to here a loop is quicker than a call of the C library's search
_BAD_NUMBER = -0x7FFFFFFFFFFFFFFF
_FRAME_SIZE_MAX = 16777216
_SIGN = 0x80000000
_OTHER = 0
_CODE = 1
_FLAG = 2
_OPAQUE = 3
_VERSION = 4
_EXT_FIELDS = 5


class RequestScan:
    """Where things are in one frame; overwritten by the next ``scan``."""

    def __init__(self) -> None:
        self.key_at = memoryview(bytearray(8 * 32)).cast("q")
        self.key_size = memoryview(bytearray(8 * 32)).cast("q")
        self.value_at = memoryview(bytearray(8 * 32)).cast("q")
        self.value_size = memoryview(bytearray(8 * 32)).cast("q")
        self.escaped = memoryview(bytearray(8 * 32)).cast("q")
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
        if end - start < 8:
            return 0
        size = raw.get_u32(buffer, start)
        if size < 4 or size > _FRAME_SIZE_MAX - 4:
            return -1
        if end - start - 4 < size:
            return 0
        word = raw.get_u32(buffer, start + 4)
        header_size = word & 0xFFFFFF
        if header_size > size - 4:
            return -1
        self.frame_end = start + 4 + size
        self.body_at = start + 8 + header_size
        self.field_count = 0
        self.code = -1
        self.opaque = 0
        self.flag = 0
        self.version = 0
        if word >> 24 == 0:
            self.is_binary = False
            return self._scan_json(buffer, start + 8, self.body_at)
        if word >> 24 == 1:
            self.is_binary = True
            return self._scan_binary(buffer, start + 8, self.body_at)
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

    def unescape_at(self, buffer: Any, at: int, end: int, out: Any) -> int:
        """The inside of a JSON string without its escapes; its size in ``out``, or -1."""
        return unescape(buffer, at, end, out, 0)

    def _scan_json(self, buffer: Any, at: int, end: int) -> int:
        at = skip_blank(buffer, at, end)
        if at >= end or buffer[at] != 123:
            return -1
        at = skip_blank(buffer, at + 1, end)
        if at < end and buffer[at] == 125:
            return -1
        while True:
            if at >= end or buffer[at] != 34:
                return -1
            key_at = at + 1
            at = short_end(buffer, key_at, end)
            if at < 0:
                at = string_end(buffer, key_at, end)
            if at < 0:
                return -1
            key_size = at - key_at
            at = skip_blank(buffer, at + 1, end)
            if at >= end or buffer[at] != 58:
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
            if buffer[at] == 125:
                break
            if buffer[at] != 44:
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
        if buffer[at] == 34:
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
        if buffer[at] != 123:
            return -1
        at = skip_blank(buffer, at + 1, end)
        if at < end and buffer[at] == 125:
            return at + 1
        count = 0
        while True:
            if count >= _FIELDS_MAX or at >= end or buffer[at] != 34:
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
            if at >= end or buffer[at] != 58:
                return -1
            at = skip_blank(buffer, at + 1, end)
            if at >= end:
                return -1
            self.escaped[count] = 0
            if buffer[at] == 34:
                start = at + 1
                stop = short_end(buffer, start, end)
                if stop < 0:
                    stop = string_end(buffer, start, end)
                    if stop < 0:
                        return -1
                    self.escaped[count] = raw.find_byte(buffer, start, stop, 92) >= 0
                self.value_at[count] = start
                self.value_size[count] = stop - start
                at = stop + 1
            else:
                stop = literal_end(buffer, at, end)
                if stop == at or buffer[at] == 110:  # null: absent, by the ordinary decoder
                    return -1
                self.value_at[count] = at
                self.value_size[count] = stop - at
                at = stop
            count += 1
            at = skip_blank(buffer, at, end)
            if at >= end:
                return -1
            if buffer[at] == 125:
                self.field_count = count
                return at + 1
            if buffer[at] != 44:
                return -1
            at = skip_blank(buffer, at + 1, end)

    def _scan_binary(self, buffer: Any, at: int, end: int) -> int:
        if end - at < 21:
            return -1
        self.code = (buffer[at] << 8) | buffer[at + 1]
        self.version = (buffer[at + 3] << 8) | buffer[at + 4]
        self.opaque = raw.get_i32(buffer, at + 5)
        self.flag = raw.get_i32(buffer, at + 9)
        if self.code > 0x7FFF or raw.get_u32(buffer, at + 13) != 0:
            return NOT_UNDERSTOOD  # a remark on a request: rare
        size = raw.get_u32(buffer, at + 17)
        at += 21
        if size != end - at:
            return -1
        count = 0
        while at < end:
            if count >= _FIELDS_MAX or end - at < 2:
                return -1
            size = (buffer[at] << 8) | buffer[at + 1]
            at += 2
            if size == 0 or size > end - at - 4:
                return -1
            self.key_at[count] = at
            self.key_size[count] = size
            at += size
            size = raw.get_u32(buffer, at)
            at += 4
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
    if size == 4:
        word = raw.get_u32(buffer, at)
        if word == 0x636F6465:  # code
            return 1
        if word == 0x666C6167:  # flag
            return 2
    elif size == 6:
        if raw.get_u32(buffer, at) == 0x6F706171 and raw.get_u16(buffer, at + 4) == 0x7565:
            return 3  # opaque
    elif size == 7:
        if raw.get_u32(buffer, at) == 0x76657273 and raw.get_u32(buffer, at + 3) == 0x73696F6E:
            return 4  # version
    elif size == 9 and raw.get_u32(buffer, at) == 0x65787446:
        if raw.get_u32(buffer, at + 4) == 0x69656C64 and buffer[at + 8] == 0x73:
            return 5  # extFields
    return 0


def skip_blank(buffer: Any, at: int, end: int) -> int:
    """The first position that is not blank."""
    while at < end and (
        buffer[at] == 32 or buffer[at] == 10 or buffer[at] == 13 or buffer[at] == 9
    ):
        at += 1
    return at


def short_end(buffer: Any, at: int, end: int) -> int:
    """The same as ``string_end`` for a short string without escapes; -1: ask that one."""
    if end - at > _SHORT:
        end = at + _SHORT
    while at < end:
        byte = buffer[at]
        if byte == 34:
            return at
        if byte == 92:
            return -1
        at += 1
    return -1


def string_end(buffer: Any, at: int, end: int) -> int:
    """Where the quote is that ends the string whose inside begins at ``at``; -1 if nowhere."""
    start = at
    while True:
        at = raw.find_byte(buffer, at, end, 34)
        if at < 0:
            return -1
        back = at - 1
        while back >= start and buffer[back] == 92:
            back -= 1
        if (at - back) & 1:
            return at
        at += 1


def literal_end(buffer: Any, at: int, end: int) -> int:
    """Where a number, ``true`` or ``false`` ends."""
    while at < end:
        byte = buffer[at]
        if byte == 44 or byte == 125 or byte <= 32 or byte == 93:
            return at
        if byte == 123 or byte == 91 or byte == 34 or byte == 58:
            return at
        at += 1
    return at


def parse_number(buffer: Any, at: int, size: int) -> int:
    """A decimal whole number of at most 18 digits, else ``BAD_NUMBER``."""
    end = at + size
    negative = False
    if size and buffer[at] == 45:
        negative = True
        at += 1
    if at >= end or end - at > 18:
        return _BAD_NUMBER
    value = 0
    while at < end:
        digit = buffer[at] - 48
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
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte <= 102:
            digit = byte - 87
        elif 65 <= byte <= 70:
            digit = byte - 55
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
        if buffer[at] != 92:
            stop = raw.find_byte(buffer, at, end, 92)
            if stop < 0:
                stop = end
            raw.copy_bytes(out, out_at, buffer, at, stop - at)
            out_at += stop - at
            at = stop
            continue
        if at + 1 >= end:
            return -1
        byte = buffer[at + 1]
        if byte != 117:
            if byte == 110:
                byte = 10
            elif byte == 116:
                byte = 9
            elif byte == 114:
                byte = 13
            elif byte == 98:
                byte = 8
            elif byte == 102:
                byte = 12
            elif byte != 34 and byte != 92 and byte != 47:
                return -1
            out[out_at] = byte
            out_at += 1
            at += 2
            continue
        if at + 6 > end:
            return -1
        point = hex4(buffer, at + 2)
        if point < 0:
            return -1
        at += 6
        if 0xD800 <= point <= 0xDFFF:
            if point > 0xDBFF or at + 6 > end or buffer[at] != 92 or buffer[at + 1] != 117:
                return -1
            low = hex4(buffer, at + 2)
            if low < 0xDC00 or low > 0xDFFF:
                return -1
            at += 6
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
        out_at = put_utf8(out, out_at, point)
    return out_at


def put_utf8(out: Any, at: int, point: int) -> int:
    """Write one code point; where it ends."""
    if point < 0x80:
        out[at] = point
        return at + 1
    if point < 0x800:
        out[at] = 0xC0 | (point >> 6)
        out[at + 1] = 0x80 | (point & 0x3F)
        return at + 2
    if point < 0x10000:
        out[at] = 0xE0 | (point >> 12)
        out[at + 1] = 0x80 | ((point >> 6) & 0x3F)
        out[at + 2] = 0x80 | (point & 0x3F)
        return at + 3
    out[at] = 0xF0 | (point >> 18)
    out[at + 1] = 0x80 | ((point >> 12) & 0x3F)
    out[at + 2] = 0x80 | ((point >> 6) & 0x3F)
    out[at + 3] = 0x80 | (point & 0x3F)
    return at + 4
