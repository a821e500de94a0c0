"""Broker tables under any sequence of events: what must hold after each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from contrailmq.broker.services.longpoll import LongPolls, Waiter
from contrailmq.broker.tables.consumers import ConsumerTable, Membership
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.broker.tables.revision import Revision
from contrailmq.protocol.bodies.heartbeat import SubscriptionData

QUEUES = [("T", 0), ("T", 1), ("U", 0)]


class StepLoop(asyncio.SelectorEventLoop):
    """A loop whose time moves only by ``advance``."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0

    def time(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(2):
            self.call_soon(self.stop)
            self.run_forever()


class Peer:
    """A connection as far as the tables look at it."""

    closed = False

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Peer], None]] = []

    def on_close(self, callback: Callable[[Peer], None]) -> None:
        self.callbacks.append(callback)

    def close(self) -> None:
        self.closed = True
        for callback in self.callbacks:
            callback(self)


class HeldPull:
    """A pull that is answered once, by a message that matches or by its deadline."""

    def __init__(self, machine: HeldPulls, peer: Peer, key: tuple[str, int], wait_s: float) -> None:
        self.machine = machine
        self.peer = peer
        self.seen = machine.ends[key]
        self.key = key
        self.ends_at = machine.loop.time() + wait_s
        self.answers = 0
        self.waiter = Waiter(key, peer, retry=self.retry, expire=self.expire)

    def retry(self) -> bool:
        if self.machine.ends[self.key] > self.seen:
            self.answers += 1
            return True
        return False

    def expire(self) -> None:
        assert self.machine.loop.time() >= self.ends_at - 0.001
        self.answers += 1


class HeldPulls(RuleBasedStateMachine):
    """No pull is answered twice, none is forgotten, none outlives its connection."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = StepLoop()
        self.polls = LongPolls(self.loop)
        self.ends = dict.fromkeys(QUEUES, 0)
        self.peers = [Peer() for _ in range(3)]
        self.pulls: list[HeldPull] = []

    def teardown(self) -> None:
        self.loop.close()

    @rule(
        peer=st.integers(0, 2),
        key=st.sampled_from(QUEUES),
        wait_ms=st.integers(1, 30_000),
    )
    def hold(self, peer: int, key: tuple[str, int], wait_ms: int) -> None:
        pull = HeldPull(self, self.peers[peer], key, wait_ms / 1000)
        self.pulls.append(pull)
        self.polls.hold(pull.waiter, timeout_s=wait_ms / 1000)

    @rule(key=st.sampled_from(QUEUES), count=st.integers(1, 5))
    def append(self, key: tuple[str, int], count: int) -> None:
        for _ in range(count):
            self.ends[key] += 1
            self.polls.wake(*key, self.ends[key])
        self.loop.advance(0)

    @rule(key=st.sampled_from(QUEUES))
    def wake_for_nothing(self, key: tuple[str, int]) -> None:
        self.polls.wake(*key, self.ends[key])
        self.loop.advance(0)

    @rule(ms=st.integers(0, 20_000))
    def wait(self, ms: int) -> None:
        self.loop.advance(ms / 1000)

    @rule(peer=st.integers(0, 2))
    def disconnect(self, peer: int) -> None:
        self.peers[peer].close()
        self.peers[peer] = Peer()

    @invariant()
    def every_pull_is_where_it_belongs(self) -> None:
        waiting = 0
        for pull in self.pulls:
            assert pull.answers <= 1
            if pull.answers or pull.peer.closed:
                continue
            waiting += 1
            assert self.loop.time() < pull.ends_at
            assert self.ends[pull.key] == pull.seen
        assert len(self.polls) == waiting


TestHeldPulls = HeldPulls.TestCase
TestHeldPulls.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class Clock:
    """Stands still."""

    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


class Sessions(RuleBasedStateMachine):
    """The table of consumers against a plain list of who is in which group."""

    @initialize()
    def begin(self) -> None:
        self.table = ConsumerTable(Clock(), Revision())
        self.peers = [Peer() for _ in range(4)]
        self.model: dict[tuple[str, int], str] = {}  # (group, peer) -> client id

    @rule(
        peer=st.integers(0, 3),
        client=st.sampled_from(["c0", "c1", "c2"]),
        group=st.sampled_from(["g", "h"]),
    )
    def beat(self, peer: int, client: str, group: str) -> None:
        known = self.model.get((group, peer))
        changed = self.table.register(
            self.peers[peer],
            client,
            Membership(group=group, subscriptions=[SubscriptionData(topic="T", sub_version=1)]),
        )
        assert changed == (known != client)
        for place, other in list(self.model.items()):
            if place[0] == group and other == client:
                del self.model[place]
        self.model[group, peer] = client

    @rule(peer=st.integers(0, 3), group=st.sampled_from(["g", "h"]))
    def leave(self, peer: int, group: str) -> None:
        client = self.model.pop((group, peer), None)
        if client is not None:
            left = self.table.unregister(self.peers[peer], client, group)
            assert left == any(place[0] == group for place in self.model)

    @rule(peer=st.integers(0, 3))
    def disconnect(self, peer: int) -> None:
        mine = [place for place in self.model if place[1] == peer]
        for place in mine:
            del self.model[place]
        told = self.table.drop(self.peers[peer])
        expected = {g for g, _ in mine} & {place[0] for place in self.model}
        assert set(told) == expected

    @invariant()
    def same_members(self) -> None:
        for group in ("g", "h"):
            expected = sorted(c for (name, _), c in self.model.items() if name == group)
            found = self.table.find(group)
            assert (sorted(found.client_ids()) if found is not None else []) == expected


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["commit", "reset", "take", "forget group", "forget topic"]),
            st.sampled_from(["g", "h"]),
            st.sampled_from(["T", "U"]),
            st.integers(0, 2),
            st.integers(0, 100),
        ),
        max_size=60,
    )
)
def test_offsets_are_the_last_that_counted(events: list[tuple[str, str, str, int, int]]) -> None:
    table = OffsetTable()
    model: dict[tuple[str, str, int], int] = {}
    marks: dict[tuple[str, str, int], int] = {}
    for what, group, topic, queue_id, offset in events:
        place = (group, topic, queue_id)
        if what == "commit":
            assert table.commit(group, topic, queue_id, offset=offset) == (place not in marks)
            if place not in marks:
                model[place] = offset
        elif what == "reset":
            table.reset(group, topic, queue_id, offset=offset)
            model[place] = marks[place] = offset
        elif what == "take":
            assert table.take_mark(group, topic, queue_id) == marks.pop(place, None)
        else:
            if what == "forget group":
                table.forget_group(group)
            else:
                table.forget_topic(topic)
            index, name = (0, group) if what == "forget group" else (1, topic)
            for known in (model, marks):
                for other in [other for other in known if other[index] == name]:
                    del known[other]
    for group in ("g", "h"):
        for topic in ("T", "U"):
            for queue_id in range(3):
                expected = model.get((group, topic, queue_id))
                assert table.find(group, topic, queue_id) == expected
