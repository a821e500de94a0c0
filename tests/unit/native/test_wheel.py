"""The timer wheel and its log, compiled and plain, against a table of lists."""

from __future__ import annotations

import random
from collections import defaultdict
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from testkit.builds import BUILDS, native_module

FILE = 52 * 40 + 16
START_MS = 1_700_000_000_000


@pytest.fixture(params=BUILDS)
def native(request: pytest.FixtureRequest) -> ModuleType:
    return native_module("store.wheel", pure=request.param == "pure")


class Filled(NamedTuple):
    wheel: Any
    chains: dict[int, list[int]]
    slots: bytearray
    files: dict[int, bytearray]


def filled(native: ModuleType, rng: random.Random) -> Filled:
    """A wheel with 300 units, the positions of each slot, and the bytes of both."""
    files: dict[int, bytearray] = {}
    slots = bytearray(native.SLOTS * native.SLOT_SIZE)
    wheel = native.Wheel(slots, 1000, FILE)
    chains: dict[int, list[int]] = defaultdict(list)
    for number in range(300):
        slot_ms = START_MS + 1000 * rng.randrange(40)
        magic = rng.choice((1, 1, 1, 3, 5))
        position = wheel.append(slot_ms, START_MS, magic, 100 * number, 91, number)
        if position < 0:
            wheel.close_file()
            base = wheel.end
            files[base] = bytearray(FILE)
            wheel.add(files[base], base)
            wheel.limit = base + FILE
            position = wheel.append(slot_ms, START_MS, magic, 100 * number, 91, number)
        assert position >= 0
        chains[slot_ms].append(position)
    return Filled(wheel, chains, slots, files)


def walked(wheel: Any, slot_ms: int) -> list[int]:
    found = []
    position = wheel.last(slot_ms)
    while position >= 0:
        unit = wheel.unit(position)
        assert unit is not None
        assert unit[3] == slot_ms
        found.append(position)
        position = unit[0]
    return found[::-1]


def test_a_slot_is_the_chain_of_its_units(native: ModuleType) -> None:
    wheel, chains, _, _ = filled(native, random.Random(1))
    assert len(wheel.files) > 5
    for slot_ms, positions in chains.items():
        assert walked(wheel, slot_ms) == positions
    used = sorted(chains)
    assert wheel.next_used(START_MS, START_MS + 10**6) == used[0]
    assert wheel.next_used(used[-1] + 1000, START_MS + 10**6) == START_MS + 10**6
    # After more than a turn of the wheel the oldest slot is found all the same.
    assert wheel.next_used(START_MS, START_MS + 3000 * native.SLOTS) == used[0]
    wheel.clear(used[0])
    assert wheel.last(used[0]) == -1
    assert wheel.next_used(START_MS, START_MS + 10**6) == used[1]
    other_turn = used[1] + 1000 * native.SLOTS
    assert wheel.last(other_turn) == -1


@pytest.mark.parametrize("lost", ["nothing", "wheel", "units", "log"])
def test_slots_are_made_again_from_the_units(native: ModuleType, lost: str) -> None:
    wheel, chains, slots, files = filled(native, random.Random(2))
    again = native.Wheel(slots if lost == "nothing" else bytearray(len(slots)), 1000, FILE)
    for base, content in files.items():
        again.add(bytearray(content), base)
    last = max(files)
    log_end = 100 * 200 + 91 if lost == "log" else 10**9
    if lost == "units":
        damaged = bytearray(files[last])
        damaged[52 : 52 * 2] = bytes(52)
        again.add(damaged, last)
    for base in sorted(again.files):
        reached = again.revise(base, 0, START_MS, log_end)
        again.end = base + reached
        if reached != FILE:
            break
    if lost in ("nothing", "wheel"):
        assert again.end == wheel.end
    for slot_ms, positions in chains.items():
        assert walked(again, slot_ms) == [at for at in positions if at < again.end]
    if lost == "units":
        assert again.end == last + 52
    assert not again.points_beyond(START_MS, again.end) or lost == "nothing"


def test_what_is_no_wheel_or_no_unit_is_not_believed(native: ModuleType) -> None:
    with pytest.raises(ValueError, match="expected 38707200"):
        native.Wheel(bytearray(100), 1000, FILE)
    wheel, _, _, _ = filled(native, random.Random(3))
    for position in (-1, 1, wheel.end, wheel.end + 10**9, 10**17):
        assert wheel.unit(position) is None
    assert wheel.append(START_MS, START_MS, 1, 0, 91, 0) >= 0 or wheel.room() == 0
