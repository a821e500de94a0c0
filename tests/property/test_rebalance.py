"""Dividing queues: every strategy gives each queue to exactly one member, whatever the numbers."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from contrailmq.client.allocate import (
    Average,
    Circle,
    ConsistentHash,
    MachineRoom,
    NearbyMachineRoom,
    Strategy,
)
from contrailmq.client.process_queue import ProcessQueue
from contrailmq.client.producer.faults import FaultLog
from contrailmq.client.producer.queue_choice import RoundRobin, by_key
from contrailmq.client.routes import PublishRoute
from contrailmq.protocol.queue import MessageQueue
from contrailmq.testing.sim import SimClock

ROOMS = ("east", "west")
queues = st.lists(
    st.tuples(st.sampled_from(ROOMS), st.integers(0, 3), st.integers(0, 15)),
    max_size=40,
    unique=True,
).map(lambda rows: sorted(MessageQueue("T", f"{room}@{broker}", q) for room, broker, q in rows))
members = st.lists(
    st.tuples(st.sampled_from(ROOMS), st.integers(0, 10_000)), min_size=1, max_size=12, unique=True
).map(lambda rows: sorted(f"{room}-{number}" for room, number in rows))

NEARBY = NearbyMachineRoom(
    Average(),
    broker_room=lambda queue: queue.broker_name.split("@")[0],
    consumer_room=lambda member: member.split("-")[0],
)
PARTITIONING = (Average(), Circle(), ConsistentHash(), MachineRoom(ROOMS), NEARBY)


@given(queues=queues, members=members, rule=st.sampled_from(PARTITIONING))
def test_each_queue_has_exactly_one_owner(
    queues: list[MessageQueue], members: list[str], rule: Strategy
) -> None:
    shares = [rule.allocate(member, queues, members) for member in members]
    assert sorted(queue for share in shares for queue in share) == queues


@given(queues=queues, members=members, rule=st.sampled_from((Average(), Circle())))
def test_shares_differ_by_at_most_one(
    queues: list[MessageQueue], members: list[str], rule: Strategy
) -> None:
    sizes = [len(rule.allocate(member, queues, members)) for member in members]
    assert max(sizes) - min(sizes) <= 1


@given(queues=queues, members=members)
def test_a_ring_moves_only_the_queues_of_who_leaves(
    queues: list[MessageQueue], members: list[str]
) -> None:
    rule = ConsistentHash()
    if len(members) < 2:
        return
    gone, *rest = members
    for member in rest:
        before = rule.allocate(member, queues, members)
        assert set(before) <= set(rule.allocate(member, queues, rest))
    assert gone not in rest


@given(queues=queues, members=members)
def test_nearby_members_have_the_queues_of_their_room(
    queues: list[MessageQueue], members: list[str]
) -> None:
    rooms = {member.split("-")[0] for member in members}
    for member in members:
        for queue in NEARBY.allocate(member, queues, members):
            room = queue.broker_name.split("@")[0]
            assert room == member.split("-")[0] or room not in rooms


@given(queues=queues.filter(bool), key=st.text(max_size=20), seed=st.integers(0, 99))
def test_choice_stays_within_the_route(queues: list[MessageQueue], key: str, seed: int) -> None:
    route = PublishRoute("T", tuple(queues))
    robin = RoundRobin(
        rng=random.Random(seed), clock=SimClock(), faults=FaultLog(), avoid_faults=False
    )
    assert sorted(robin.choose(route) for _ in queues) == queues
    brokers = {queue.broker_name for queue in queues}
    for broker in brokers:
        chosen = robin.choose(route, last_broker=broker)
        assert len(brokers) == 1 or chosen.broker_name != broker
    assert by_key(queues, key) == by_key(queues, key)
    assert by_key(queues, key) in queues


class Cached:
    """A message as a process queue sees it."""

    def __init__(self, queue_offset: int, store_size: int) -> None:
        self.queue_offset = queue_offset
        self.store_size = store_size


@settings(max_examples=200)
@given(data=st.data())
def test_the_committed_offset_never_passes_an_unsettled_message(data: st.DataObject) -> None:
    """Against a model: a set of offsets that are pulled and not settled."""
    queue: ProcessQueue[Cached] = ProcessQueue(0)
    next_offset = 0
    out: list[Cached] = []
    unsettled: dict[int, int] = {}
    for _ in range(data.draw(st.integers(1, 40))):
        act = data.draw(st.sampled_from(["pull", "take", "settle", "settle_all", "back"]))
        if act == "pull":
            fresh = []
            for _ in range(data.draw(st.integers(0, 5))):
                next_offset += data.draw(st.integers(0, 3))  # filtered messages leave gaps
                fresh.append(Cached(next_offset, data.draw(st.integers(1, 9))))
                next_offset += 1
            queue.add(fresh, next_offset)
            unsettled.update({m.queue_offset: m.store_size for m in fresh})
        elif act == "take":
            out += queue.take(data.draw(st.integers(1, 4)))
        elif act == "settle" and out:
            message = out.pop(data.draw(st.integers(0, len(out) - 1)))
            queue.settle(message)
            queue.settle(message)  # twice does nothing
            unsettled.pop(message.queue_offset)
        elif act == "settle_all" and out:
            count = data.draw(st.integers(1, len(out)))
            done, out = sorted(out[:count], key=lambda m: m.queue_offset), out[count:]
            queue.settle_all(done)
            for message in done:
                unsettled.pop(message.queue_offset)
        elif act == "back" and out:
            queue.put_back([out.pop()])
        assert queue.commit_offset() == min(unsettled, default=next_offset)
        assert (queue.count, queue.size) == (len(unsettled), sum(unsettled.values()))
        assert queue.waiting + queue.out == queue.count
