"""Bytes at their address: the few operations compiled loops do on raw memory.

This module is never compiled.  Compiled modules take the inline C functions of ``raw.pxd`` under
the same names; the plain build takes these.  ``at_address`` is where a loop leaves checked views
behind: its caller has compared every length with the view's own before.
"""

from __future__ import annotations

from typing import Any

Bytes = bytes | bytearray | memoryview


def at_address(data: Bytes) -> Any:
    """The first byte of a view (C: its address; here: the view itself)."""
    return data


def new_buffer(size: int) -> bytearray:
    """A buffer of a size, whose content is the caller's to write (C: all of it; here: zeros)."""
    return bytearray(size)


def copy_bytes(target: Any, target_at: int, source: Any, source_at: int, size: int) -> None:
    """Copy between buffers that do not overlap."""
    target[target_at : target_at + size] = source[source_at : source_at + size]


def copy_of(data: Any, at: int, size: int) -> bytes:
    """A stretch as bytes of its own."""
    return bytes(data[at : at + size])


def same_bytes(left: Any, left_at: int, right: Any, right_at: int, size: int) -> bool:
    """Whether two stretches are equal."""
    return bool(left[left_at : left_at + size] == right[right_at : right_at + size])


def get_u16(data: Any, at: int) -> int:
    """Two bytes, big-endian, unsigned."""
    return int.from_bytes(data[at : at + 2], "big")


def get_u32(data: Any, at: int) -> int:
    """Four bytes, big-endian, unsigned."""
    return int.from_bytes(data[at : at + 4], "big")


def get_i32(data: Any, at: int) -> int:
    """Four bytes, big-endian, signed."""
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def get_i64(data: Any, at: int) -> int:
    """Eight bytes, big-endian, signed."""
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def put_u16(data: Any, at: int, value: int) -> None:
    """Two bytes, big-endian; higher bits are dropped."""
    data[at : at + 2] = (value & 0xFFFF).to_bytes(2, "big")


def put_u32(data: Any, at: int, value: int) -> None:
    """Four bytes, big-endian; higher bits are dropped."""
    data[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "big")


def put_i64(data: Any, at: int, value: int) -> None:
    """Eight bytes, big-endian; higher bits are dropped."""
    data[at : at + 8] = (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")


def is_resident(data: Any, at: int, size: int) -> bool:
    """Whether mapped bytes are in memory, so that reading them does not wait for the disk."""
    return True


def prefetch(data: Any, at: int) -> None:
    """Tell the processor that it will read here soon (C; here there is nobody to tell)."""


def find_byte(data: Any, at: int, end: int, byte: int) -> int:
    """Where ``byte`` first stands in ``data[at:end]``, or -1."""
    return int(bytes(data[at:end]).find(byte) + at) if byte in bytes(data[at:end]) else -1


def numbers_at(numbers: Any) -> Any:
    """The first of some 64-bit numbers; there must be one (C: its address; here: the view)."""
    return numbers


def words_at(words: Any) -> Any:
    """Return the first of some 32-bit numbers, of which there must be one (C: its address)."""
    return words


def is_same(data: Any, left_at: int, right_at: int, size: int) -> bool:
    """Whether two mostly short stretches of the same bytes are equal."""
    return bool(data[left_at : left_at + size] == data[right_at : right_at + size])


def copy_short(
    target: Any,
    target_at: int,
    target_end: int,
    source: Any,
    source_at: int,
    source_end: int,
    size: int,
) -> None:
    """Copy a mostly short stretch; C may write behind it, but not behind ``target_end``."""
    target[target_at : target_at + size] = source[source_at : source_at + size]


def find_64(data: Any, at: int, end: int, limit: int, byte: int) -> int:
    """Which of the next 64 bytes before ``end`` are ``byte``, the first as the lowest bit.

    ``limit`` is where the data ends: C reads whole blocks before it.
    """
    return sum(
        1 << place for place, found in enumerate(data[at : min(at + 64, end)]) if found == byte
    )


def high_64(data: Any, at: int, end: int, limit: int) -> int:
    """Which of the next 64 bytes before ``end`` are not ASCII."""
    return sum(
        1 << place for place, found in enumerate(data[at : min(at + 64, end)]) if found > 127
    )


def fits(data: Any, at: int, model: Any, mask: Any, size: int, separator: int) -> int:
    """Whether 16 or more bytes are the model's where the mask is 255, and no separator elsewhere.

    Answers 0 if they are not so, 1 if all are ASCII besides, 2 if not.
    """
    high = 0
    for place in range(size):
        byte = data[at + place]
        high |= byte
        if byte != model[place] if mask[place] else byte == separator:
            return 0
    return 1 if high < 0x80 else 2


def bit(number: int) -> int:
    """A number with one bit set."""
    return 1 << number


def lowest_bit(bits: int) -> int:
    """The number of the lowest bit that is set; there must be one."""
    return (bits & -bits).bit_length() - 1


def crc_fold_size(size: int) -> int:
    """How much of so many bytes ``crc_fold`` takes (C: what the processor is able to)."""
    return 0


def crc_fold(crc: int, data: Any, at: int, size: int) -> int:
    """Go on with a checksum over bytes the processor multiplies without carries (C only)."""
    raise AssertionError("only the compiled build folds")
