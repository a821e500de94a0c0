# cython: annotation_typing=False
# ruff: noqa: ERA001
"""The slot of the timer wheel that is being delivered: its units, by millisecond.

``SlotLoad`` is filled by a walk along the chain of the slot, newest unit first, in as many steps as
its caller likes, and again whenever the slot has got new units.  A slot of more than ``WINDOW``
units is taken in windows, the oldest first, so memory is bounded whatever a slot holds.
"""

from __future__ import annotations

from array import array
from typing import Any

from contrailmq._native.store.wheel import Wheel

WINDOW = 1 << 20  # units of one slot that are held at a time


class SlotLoad:
    """The messages of one slot, by the millisecond they are due.

    ``mark`` is the millisecond of the slot up to which everything is delivered, ``mark_unit`` the
    last unit delivered in it; units before ``skip_before`` that lie behind ``skip_mark`` and
    ``skip_unit`` were delivered before a crash.  ``late_unit`` is the first unit that came after
    its own millisecond and is not delivered yet.
    """

    def __init__(self, slot_ms: int, precision_ms: int) -> None:
        self.slot_ms = slot_ms
        self.precision_ms = precision_ms
        self.top = -1  # every unit up to this position was looked at
        self.cursor = -1  # the unit to look at next, in a walk that is under way
        self.walk_top = -1
        self.pauses: list[int] = []  # where the windows of a very large slot begin
        self.stack = array("q", [0])  # units and milliseconds of the walk, newest first
        self.stack_size = 0
        self.units = array("q", bytes(8 * 1024))
        self.nexts = array("q", bytes(8 * 1024))
        self.room = 1024
        self.used = 0
        self.left = 0
        self.heads = array("q", [-1]) * (precision_ms + 1)
        self.tails = array("q", [-1]) * (precision_ms + 1)
        self.mark = 0
        self.mark_unit = -1
        self.late_unit = -1
        self.skip_mark = -1
        self.skip_unit = -1
        self.skip_before = 0
        self.cancels: set[bytes] = set()
        self.cancels_ignored = 0
        self.gone = 0
        self.given = 0  # delivered, cancelled or put again

    def is_loaded(self, wheel: Wheel) -> bool:
        """Whether every unit the slot has now was looked at."""
        return self.cursor < 0 and not self.pauses and wheel.last(self.slot_ms) <= self.top

    def next_due(self) -> int:
        """The first millisecond of the slot with something to deliver; -1 for none."""
        if self.left == 0:
            return -1
        for place in range(self.mark, self.precision_ms + 1):
            if self.heads[place] >= 0:
                return place
        return -1

    def add(self, unit: int, place: int) -> None:
        """Hold a unit until its millisecond, unless it was delivered before a crash."""
        if self.skip_mark < 0 or unit >= self.skip_before or (
            place > self.skip_mark or (place == self.skip_mark and unit > self.skip_unit)
        ):  # fmt: skip
            if place <= self.mark and self.mark > 0:
                if place < self.mark and self.late_unit < 0:
                    self.late_unit = unit
                place = self.mark
            self._hold(unit, place)

    def _hold(self, unit: int, place: int) -> None:
        if self.left == 0:
            self.used = 0
        if self.used == self.room:
            self.room *= 2
            self.units = _grown(self.units, self.room)
            self.nexts = _grown(self.nexts, self.room)
        entry = self.used
        self.used += 1
        self.left += 1
        self.units[entry] = unit
        self.nexts[entry] = -1
        if self.heads[place] < 0:
            self.heads[place] = entry
        else:
            self.nexts[self.tails[place]] = entry
        self.tails[place] = entry

    def push(self, unit: int, place: int) -> None:
        """Remember a unit of the walk."""
        if 2 * self.stack_size + 2 > len(self.stack):
            self.stack = _grown(self.stack, 4 * self.stack_size + 1024)
        self.stack[2 * self.stack_size] = unit
        self.stack[2 * self.stack_size + 1] = place
        self.stack_size += 1

    def settle(self) -> None:
        """The walk has ended: hold what it found, oldest first."""
        number = self.stack_size
        while number > 0:
            number -= 1
            self.add(self.stack[2 * number], self.stack[2 * number + 1])
        self.stack_size = 0
        if len(self.stack) > 65536:
            self.stack = array("q", [0])
        self.top = self.walk_top
        self.cursor = -1


def _grown(numbers: Any, room: int) -> array[int]:
    """The numbers, with room for more behind them."""
    found = array("q")
    found.frombytes(bytes(memoryview(numbers)))
    found.frombytes(bytes(8 * (room - len(found))))
    return found
