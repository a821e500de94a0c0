"""The reads of many sockets in one call: everyone's turn comes, and nobody's end is missed."""

from __future__ import annotations

import random
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.builds import BUILDS, native_module

FRAME = b"frame of one size"


class Echo:
    """A lane that answers all it is given."""

    def __init__(self) -> None:
        self.on_run: Any = lambda connection: None

    def run(self, buffer: Any, start: int, end: int, connection: Any, out: list[Any]) -> int:
        out.append(bytes(buffer[start:end]))
        self.on_run(connection)
        return end


class World:
    """A set of sockets, and their other ends."""

    def __init__(self, build: str, stack: ExitStack) -> None:
        is_pure = build == "pure"
        self._make = native_module("net.reads", pure=is_pure).Reads
        self._shared = bytearray(4096)
        self._stack = stack
        self.turns = native_module("net.turns", pure=is_pure).Turns(lambda: 7.5)
        stack.callback(self.turns.close)
        self.lane = Echo()
        self.said: list[tuple[str, Any]] = []

    def join(self, name: str) -> tuple[Any, socket.socket]:
        """One more member: its reading end, and the peer."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            self._stack.enter_context(end)
            end.setblocking(False)
        connection = SimpleNamespace(
            name=name,
            give_back=lambda: self.said.append(("given back", name)),
            reject=lambda error: self.said.append((str(error), name)),
        )
        reads = self._make(connection, self._shared, self.lane, lambda: 0.0)
        reads.outlet = SimpleNamespace(later=None, is_paused=False)
        reads.waiting, reads.fd, reads.is_straight = (lambda: 0), ours.fileno(), True
        self.turns.add(reads)
        return reads, theirs

    def has_more(self) -> bool:
        """Whether the loop would call again."""
        return bool(select.select([self.turns.fd], [], [], 0)[0])


@pytest.fixture(params=BUILDS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Both builds."""
    with ExitStack() as stack:
        yield World(request.param, stack)


def test_all_that_have_something_are_read(world: World) -> None:
    members = [world.join(f"{number}") for number in range(150)]  # more than one turn takes
    rng = random.Random(3)
    for _ in range(5):
        chosen = rng.sample(members, rng.choice([1, 20, 150]))
        for _, peer in chosen:
            peer.send(FRAME)
        turns = 0
        while world.has_more():
            world.turns.run()
            turns += 1
        assert turns <= 1 + len(chosen) // 50
        for reads, peer in members:
            if (reads, peer) in chosen:
                assert (peer.recv(100), reads.read_at) == (FRAME, 7.5)
            with pytest.raises(BlockingIOError):
                peer.recv(100)


def test_one_that_is_taken_out_is_not_read_until_it_is_back(world: World) -> None:
    reads, peer = world.join("one")
    world.turns.remove(reads)
    world.turns.remove(reads)
    peer.send(FRAME)
    assert not world.has_more()
    world.turns.add(reads)
    world.turns.run()
    assert peer.recv(100) == FRAME


def test_an_end_is_given_back_when_all_before_it_is_read(world: World) -> None:
    _, peer = world.join("one")
    peer.send(FRAME)
    peer.shutdown(socket.SHUT_WR)
    world.turns.run()
    assert (peer.recv(100), world.said) == (FRAME, [])
    world.turns.run()
    assert world.said == [("given back", "one")]
    assert len(world.turns) == 0 and not world.has_more()


def test_what_another_has_closed_is_not_read(world: World) -> None:
    members = {name: world.join(name) for name in ("one", "two")}
    ran = []

    def close_the_other(connection: Any) -> None:
        ran.append(connection.name)
        other, _ = members["two" if connection.name == "one" else "one"]
        world.turns.remove(other)

    world.lane.on_run = close_the_other
    for _, peer in members.values():
        peer.send(FRAME)
    world.turns.run()
    assert len(ran) == 1 and not world.has_more()


def test_a_read_that_is_not_straight_goes_to_its_own_room(world: World) -> None:
    reads, peer = world.join("one")
    rest, taken = bytearray(8), []
    reads.is_straight, reads.room = False, memoryview(rest)[3:]
    reads.owner = SimpleNamespace(take=taken.append)
    peer.send(FRAME)
    world.turns.run()
    assert (taken, rest) == ([5], b"\0\0\0" + FRAME[:5])
    assert world.has_more()  # there is more than had room


def test_an_error_is_one_connections_own(world: World) -> None:
    broken, peer = world.join("broken")
    broken.is_straight = False

    def fail(size: int) -> None:
        raise ValueError(f"{size} bytes")

    broken.owner = SimpleNamespace(take=fail)
    _, other = world.join("other")
    for end in (peer, other):
        end.send(FRAME)
    world.turns.run()
    assert world.said == [(f"{len(FRAME)} bytes", "broken")]
    assert other.recv(100) == FRAME
