"""Held pulls: woken by the append, answered at their deadline, bounded, gone with their peer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from contrailmq.broker.services.longpoll import TURN_MAX, LongPolls, Waiter
from contrailmq.errors import SystemBusy


class StepLoop(asyncio.SelectorEventLoop):
    """A loop whose time moves only by ``advance``."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0

    def time(self) -> float:
        return self.now

    def turn(self) -> None:
        self.call_soon(self.stop)
        self.run_forever()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.turn()
        self.turn()


class FakePeer:
    """A connection as far as long polling looks at it."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[FakePeer], None]] = []

    def on_close(self, callback: Callable[[FakePeer], None]) -> None:
        self.callbacks.append(callback)

    def close(self) -> None:
        for callback in self.callbacks:
            callback(self)


class Pull:
    """Counts how it was re-run; answers when ``ready``."""

    def __init__(self, peer: FakePeer, key: tuple[str, int] = ("T", 0)) -> None:
        self.ready = True
        self.tries = 0
        self.expired = 0
        self.waiter = Waiter(key, peer, retry=self.retry, expire=self.expire)

    def retry(self) -> bool:
        self.tries += 1
        return self.ready

    def expire(self) -> None:
        self.expired += 1


@pytest.fixture
def loop() -> StepLoop:
    loop = StepLoop()
    yield loop
    loop.close()


def test_a_burst_of_appends_wakes_a_pull_once(loop: StepLoop) -> None:
    polls = LongPolls(loop)
    pull = Pull(FakePeer())
    polls.hold(pull.waiter, timeout_s=15)
    for offset in range(64):
        polls.wake("T", 0, offset)
    assert pull.tries == 0
    loop.turn()
    assert (pull.tries, pull.expired, len(polls)) == (1, 0, 0)
    loop.advance(20)
    assert pull.expired == 0


def test_other_queues_do_not_wake_it(loop: StepLoop) -> None:
    polls = LongPolls(loop)
    pull = Pull(FakePeer())
    polls.hold(pull.waiter, timeout_s=15)
    polls.wake("T", 1, 1)
    polls.wake("U", 0, 1)
    loop.turn()
    assert pull.tries == 0
    assert polls.waiting("T", 0) == 1


def test_what_does_not_match_the_filter_keeps_waiting(loop: StepLoop) -> None:
    polls = LongPolls(loop)
    pull = Pull(FakePeer())
    pull.ready = False
    polls.hold(pull.waiter, timeout_s=15)
    polls.wake("T", 0, 1)
    loop.turn()
    assert (pull.tries, len(polls)) == (1, 1)
    pull.ready = True
    polls.wake("T", 0, 2)
    loop.turn()
    assert (pull.tries, len(polls)) == (2, 0)


def test_very_many_are_answered_in_turns_in_which_others_come_in(loop: StepLoop) -> None:
    polls = LongPolls(loop)
    peer = FakePeer()
    pulls = [Pull(peer) for _ in range(2 * TURN_MAX + 1)]
    pulls[0].ready = False
    for pull in pulls:
        polls.hold(pull.waiter, timeout_s=15)
    polls.memo["shared"] = 1
    answered = []
    polls.wake("T", 0, 1)
    for turn in range(4):
        polls.wake("T", 0, 2 + turn)  # it keeps growing meanwhile
        loop.turn()
        answered.append(len(pulls) - len(polls))
    assert answered == [TURN_MAX - 1, 2 * TURN_MAX - 1, 2 * TURN_MAX, 2 * TURN_MAX]
    assert polls.memo == {}
    assert [pull.tries for pull in pulls[1:]] == [1] * (2 * TURN_MAX)
    polls.close()
    assert pulls[0].expired == 1
    loop.turn()
    assert len(polls) == 0


def test_deadlines_are_exact_and_in_order(loop: StepLoop) -> None:
    polls = LongPolls(loop)
    late, early = Pull(FakePeer()), Pull(FakePeer())
    polls.hold(late.waiter, timeout_s=2.0)
    polls.hold(early.waiter, timeout_s=1.0)
    loop.advance(0.99)
    assert (early.expired, late.expired) == (0, 0)
    loop.advance(0.01)
    assert (early.expired, late.expired) == (1, 0)
    loop.advance(1.0)
    assert (early.expired, late.expired) == (1, 1)
    assert len(polls) == 0


def test_a_closed_connection_takes_its_pulls_with_it(loop: StepLoop) -> None:
    polls = LongPolls(loop)
    peer, other = FakePeer(), FakePeer()
    gone, stays = Pull(peer), Pull(other)
    polls.hold(gone.waiter, timeout_s=1.0)
    polls.hold(stays.waiter, timeout_s=1.0)
    peer.close()
    assert len(polls) == 1
    loop.advance(1.0)
    assert (gone.expired, stays.expired) == (0, 1)


def test_bounds_say_which_they_are(loop: StepLoop) -> None:
    polls = LongPolls(loop, waiters_max=2, waiters_max_per_peer=1)
    peer = FakePeer()
    polls.hold(Pull(peer).waiter, timeout_s=1.0)
    with pytest.raises(SystemBusy, match="of this connection are waiting, at most 1"):
        polls.hold(Pull(peer).waiter, timeout_s=1.0)
    polls.hold(Pull(FakePeer()).waiter, timeout_s=1.0)
    with pytest.raises(SystemBusy, match="at most 2"):
        polls.hold(Pull(FakePeer()).waiter, timeout_s=1.0)


def test_answered_pulls_do_not_pile_up_in_the_heap(loop: StepLoop) -> None:
    polls = LongPolls(loop)
    peer = FakePeer()
    for _ in range(1000):
        polls.hold(Pull(peer).waiter, timeout_s=3600)
        polls.wake("T", 0, 1)
        loop.turn()
    assert len(polls) == 0
    assert len(polls._deadlines) <= 65


def test_stopping_answers_everybody(loop: StepLoop) -> None:
    polls = LongPolls(loop)
    pulls = [Pull(FakePeer(), key=("T", number)) for number in range(3)]
    for pull in pulls:
        polls.hold(pull.waiter, timeout_s=15)
    polls.close()
    assert [pull.expired for pull in pulls] == [1, 1, 1]
    assert len(polls) == 0
