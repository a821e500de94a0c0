"""Text in bytes: decimal and hexadecimal numbers, and the pairs of a property string.

This module is never compiled; ``text.pxd`` has the same names for compiled modules, and
``test_maps.py`` compares the two.  A property string is ``name 01 value 02``, over and over; the
last pair may lack its 02.  ``pair_at`` is the one walk over it::

    while at < end:
        pair = text.pair_at(data, at, end)
        ...
        at = pair.end + 1

The Java hash of a text is in ``hashing``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NAME_END = 1
VALUE_END = 2
NUMBER_SIZE_MAX = 20  # of a 64-bit number with its sign
HEX_64_SIZE = 16
HIGH_BIT = 0x80  # set in every byte that is not ASCII

# UTF-8 by the first byte of a character, and the bounds of what follows it (Unicode, table 3-7).
UTF8_TWO = 0xC2
UTF8_THREE = 0xE0
UTF8_FOUR = 0xF0
UTF8_LAST = 0xF4
UTF8_SURROGATES = 0xED
UTF8_TWO_MARK = 0xC0
UTF8_NEXT = 0x80
UTF8_NEXT_BITS = 0x3F
UTF8_NEXT_TOP = 0xBF
UTF8_THREE_NEXT = 0xA0  # less would be an overlong form
UTF8_FOUR_NEXT = 0x90
UTF8_SURROGATES_TOP = 0x9F
UTF8_LAST_TOP = 0x8F  # more would be above U+10FFFF


class Pair(NamedTuple):
    """Where a pair is: its value begins one after its name's end, its end is the separator's place.

    Without a separator between name and value both sizes are -1.
    """

    name: int
    name_size: int
    value: int
    value_size: int
    end: int


def is_word(data: Any, at: int, size: int, word: bytes) -> bool:
    """Whether ``data[at:at + size]`` is exactly this word, which is a literal in the source."""
    return size == len(word) and bytes(data[at : at + size]) == word


def pair_at(data: Any, at: int, end: int) -> Pair:
    """Find the pair that begins at ``at``; ``at`` is before ``end``."""
    rest = bytes(data[at:end])
    stop = rest.find(VALUE_END)
    if stop < 0:
        stop = end - at
    middle = rest.find(NAME_END, 0, stop)
    if middle < 0:
        return Pair(at, -1, at, -1, at + stop)
    return Pair(at, middle, at + middle + 1, stop - middle - 1, at + stop)


def digits(value: int) -> int:
    """Return how many characters ``put_number`` writes."""
    return len(str(value))


def put_number(out: Any, at: int, value: int) -> int:
    """Write a 64-bit number in decimal; returns where it ends."""
    written = str(value).encode()
    out[at : at + len(written)] = written
    return at + len(written)


def upper_hex(digit: int) -> int:
    """Return the character of a hexadecimal digit, in upper case."""
    return b"0123456789ABCDEF"[digit]


def lower_hex(digit: int) -> int:
    """Return the character of a hexadecimal digit, in lower case."""
    return b"0123456789abcdef"[digit]


def put_hex_8(out: Any, at: int, value: int) -> int:
    """Write a byte as two upper-case digits; returns where they end."""
    out[at] = upper_hex(value >> 4)
    out[at + 1] = upper_hex(value & 15)
    return at + 2


def put_hex_64(out: Any, at: int, value: int) -> int:
    """Write a 64-bit number as 16 upper-case digits; returns where they end."""
    out[at : at + HEX_64_SIZE] = b"%016X" % (value & 0xFFFFFFFFFFFFFFFF)
    return at + HEX_64_SIZE
