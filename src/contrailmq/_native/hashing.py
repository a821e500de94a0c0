"""Java's ``String.hashCode``, over UTF-16 units, of text that comes as UTF-8 bytes or as a str.

Tag codes, index keys and the choice of a queue by key all rest on it.  Names with an underscore
are C constants and C functions in the compiled build.
"""

from __future__ import annotations

from array import array
from typing import Any

from contrailmq._native import raw, text

Bytes = bytes | bytearray | memoryview

_MASK = 0xFFFFFFFF  # a literal of this size would be a Python int in C
_SIGN = 0x80000000
_TWO_32 = 0x100000000
_31 = 31
_31_2 = 31 * 31
_31_3 = 31 * 31 * 31
_31_4 = 31 * 31 * 31 * 31


def java_hash(data: Bytes, start: int, end: int, seed: int) -> int:
    """Return the hash of ``data[start:end]`` as unsigned 32 bits, going on from ``seed``.

    What is not UTF-8 counts as Java would have decoded it.
    """
    if start < 0 or end > len(data):
        raise ValueError("java_hash: range outside the view")
    return hash_at(raw.at_address(data), start, end, seed)


def hash_at(address: Any, start: int, end: int, seed: int) -> int:
    """Do the same at an address; the caller has checked the range."""
    value = seed
    at = start
    while end - at >= 4:
        # Four at a time: the chain of multiplications is what takes the time.
        a, b, c, d = address[at], address[at + 1], address[at + 2], address[at + 3]
        if (a | b | c | d) & text.HIGH_BIT:
            break
        value = (value * _31_4 + a * _31_3 + b * _31_2 + c * _31 + d) & _MASK
        at += 4
    while at < end:
        a = address[at]
        if a & text.HIGH_BIT:
            return _hash_units(bytes(address[at:end]).decode("utf-8", "replace"), value)
        value = (value * _31 + a) & _MASK
        at += 1
    return value


def java_hash_of(words: str) -> int:
    """Return the hash of a str as a signed number."""
    return as_int(_hash_units(words, 0))


def as_int(value: int) -> int:
    """Return what Java makes of 32 bits."""
    return value if value < _SIGN else value - _TWO_32


def _hash_units(words: str, seed: int) -> int:
    """Go on with a hash over the UTF-16 units of a str."""
    value = seed
    if words.isascii():
        for character in words:
            code = ord(character)
            value = (value * _31 + code) & _MASK
        return value
    for unit in array("H", words.encode("utf-16-le", "surrogatepass")):
        code = int(unit)
        value = (value * _31 + code) & _MASK
    return value
