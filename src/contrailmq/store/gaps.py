"""Units of a consume queue that stand for no message, and how to search among them.

Before the first message of a queue, and in place of messages the log does not have, there are
units (0, 2147483647, 0). The log offset in them is 0, for the original adds offset and size as 32
bits and reads past anything else (MappedFile.selectMappedBuffer). So they are in no order, and a
search by log offset goes by the unit in front of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

UNIT: Final = struct.Struct(">qiq")
UNIT_SIZE: Final = 20
FILL_SIZE: Final = 0x7FFFFFFF
FILL_UNIT: Final = UNIT.pack(0, FILL_SIZE, 0)
_RUN: Final = 512
_FILL_RUN: Final = FILL_UNIT * _RUN


def find_written(data: memoryview | bytes, first: int, index: int) -> int | None:
    """Return the last unit from ``first`` to ``index`` that stands for a message, or None."""
    while index >= first:
        if data[index * UNIT_SIZE : (index + 1) * UNIT_SIZE] != FILL_UNIT:
            return index
        run = index - _RUN + 1
        if run >= first and data[run * UNIT_SIZE : (index + 1) * UNIT_SIZE] == _FILL_RUN:
            index = run
        index -= 1
    return None


def is_gap_before(
    data: memoryview | bytes, first: int, index: int, is_before: Callable[[int, int], bool]
) -> bool:
    """Whether the unit at ``index`` is before, or is a gap behind one that is, or behind none.

    ``is_before`` gets log offset and size of a unit that is no gap.
    """
    written = find_written(data, first, index)
    if written is None:
        return True
    offset, size, _ = UNIT.unpack_from(data, written * UNIT_SIZE)
    return is_before(offset, size)


def first_not_before(data: memoryview | bytes, first: int, end: int, log_offset: int) -> int:
    """Return the first unit from ``first`` to ``end`` whose record is not before ``log_offset``."""
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if is_gap_before(data, first, middle, lambda offset, _: offset < log_offset):
            low = middle + 1
        else:
            high = middle
    return low
