"""The bloom filter over consumer groups that a consume-queue extension may hold.

A message's bit map says which SQL subscriptions it matched when it was stored, so that a pull
can skip it without reading the log.  Wrong answers are possible in one direction only.  Shape
and hash are RocketMQ's: murmur3 of ``group#topic``, two halves combined k times.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Final

_M64: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


class BloomFilter:
    """``error_percent`` wrong hits among ``expected`` members decide size and hash count."""

    __slots__ = ("bit_count", "hash_count")

    def __init__(self, *, error_percent: int = 20, expected: int = 32) -> None:
        if not 1 <= error_percent < 100:
            raise ValueError(f"error rate of {error_percent} %, at least 1 and less than 100")
        if expected < 1:
            raise ValueError(f"{expected} expected members, at least 1")
        rate = error_percent / 100.0
        self.hash_count = math.ceil(math.log(rate) / math.log(0.5))
        bits = math.ceil(expected * (math.log(1 / rate) / math.log(2)) * (1 / math.log(2)))
        self.bit_count = 8 * math.ceil(bits / 8)

    @property
    def size(self) -> int:
        """Bytes of a bit map."""
        return self.bit_count // 8

    def positions(self, key: str) -> list[int]:
        """The bits of one member; some may be equal."""
        value = murmur3_128(key.encode("utf-8", "replace"))[0]
        first, second = value & 0xFFFFFFFF, value >> 32
        found = []
        for count in range(1, self.hash_count + 1):
            combined = (first + count * second) & 0xFFFFFFFF
            if combined > 0x7FFFFFFF:
                combined ^= 0xFFFFFFFF
            found.append(combined % self.bit_count)
        return found


def set_bits(bits: bytearray, positions: Iterable[int]) -> None:
    """Enter a member into a bit map; bit 0 is the lowest of the first byte."""
    for position in positions:
        bits[position >> 3] |= 1 << (position & 7)


def has_bits(bits: bytes | bytearray | memoryview, positions: Iterable[int]) -> bool:
    """Whether a member may be in a bit map; False is certain."""
    return all(bits[position >> 3] >> (position & 7) & 1 for position in positions)


def murmur3_128(data: bytes, seed: int = 0) -> tuple[int, int]:
    """MurmurHash3 for 64-bit machines: the two unsigned halves, the low one first."""
    first = second = seed
    whole = len(data) & ~15
    for low, high in struct.iter_unpack("<QQ", data[:whole]):
        first ^= _mix_first(low)
        first = (_rotate(first, 27) + second) & _M64
        first = (first * 5 + 0x52DCE729) & _M64
        second ^= _mix_second(high)
        second = (_rotate(second, 31) + first) & _M64
        second = (second * 5 + 0x38495AB5) & _M64
    tail = data[whole:]
    second ^= _mix_second(int.from_bytes(tail[8:], "little"))
    first ^= _mix_first(int.from_bytes(tail[:8], "little"))
    first ^= len(data)
    second ^= len(data)
    first = (first + second) & _M64
    second = (second + first) & _M64
    first, second = _finish(first), _finish(second)
    first = (first + second) & _M64
    return first, (second + first) & _M64


def _mix_first(word: int) -> int:
    return _rotate(word * _C1 & _M64, 31) * _C2 & _M64


def _mix_second(word: int) -> int:
    return _rotate(word * _C2 & _M64, 33) * _C1 & _M64


def _rotate(word: int, count: int) -> int:
    return (word << count | word >> (64 - count)) & _M64


def _finish(word: int) -> int:
    word ^= word >> 33
    word = word * 0xFF51AFD7ED558CCD & _M64
    word ^= word >> 33
    word = word * 0xC4CEB9FE1A85EC53 & _M64
    return word ^ word >> 33
