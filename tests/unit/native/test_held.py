"""Answers that wait for the disk, on both builds."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.builds import BUILDS, native_module

SIZE_MAX = 10


@pytest.fixture(params=BUILDS)
def module(request: pytest.FixtureRequest) -> Any:
    return native_module("lanes.held", pure=request.param == "pure")


class Host:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.groups = self.steered = 0

    def held(self) -> None:
        self.groups += 1

    def steer(self) -> None:
        self.steered += 1


class Peer:
    """Keeps what is written to it, together with the others."""

    def __init__(self, name: str, written: list[tuple[str, bytes]]) -> None:
        self._name = name
        self._written = written

    def answer(self, reply: bytes) -> None:
        self._written.append((self._name, reply))


def test_answers_leave_in_the_order_they_came_group_by_group(module: Any) -> None:
    host, written = Host(), []  # type: tuple[Host, list[tuple[str, bytes]]]
    held = module.Held(host, 1000)
    one, two = Peer("one", written), Peer("two", written)
    held.hold(b"1", one)
    held.hold(b"22", two)
    held.hold(b"3", one)
    assert host.groups == 1
    first = held.take()
    held.hold(b"4444", two)
    assert host.groups == 2
    assert held.size == 8
    second = held.take()
    assert held.take() == []
    held.answer(first)
    assert written == [("one", b"1"), ("two", b"22"), ("one", b"3")]
    assert held.size == 4
    held.answer(second)
    assert written[3:] == [("two", b"4444")]
    assert (held.size, host.steered) == (0, 0)


@pytest.mark.parametrize("leave", ["answer", "drop"])
def test_the_host_is_told_when_the_bound_is_passed_either_way(module: Any, leave: str) -> None:
    host, written = Host(), []  # type: tuple[Host, list[tuple[str, bytes]]]
    held = module.Held(host, SIZE_MAX)
    peer = Peer("peer", written)
    held.hold(bytes(SIZE_MAX), peer)
    assert host.steered == 0, "as much as may wait"
    first = held.take()
    held.hold(b"x", peer)
    assert (held.size, host.steered) == (SIZE_MAX + 1, 1)
    getattr(held, leave)(held.take())
    assert (held.size, host.steered) == (SIZE_MAX, 2)
    getattr(held, leave)(first)
    assert (held.size, host.steered) == (0, 2)
    assert len(written) == (2 if leave == "answer" else 0)
