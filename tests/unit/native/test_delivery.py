"""A hand against a model of what it does, on both builds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrailmq.client.process_queue import ProcessQueue
from testkit.builds import BUILDS, native_module

MODULES = {build: native_module("client.delivery", pure=build == "pure") for build in BUILDS}
ACTS = ("plain", "async", "value", "async value", "waits", "object", "raises", "async raises",
        "retry", "async retry")  # fmt: skip
STOPS = {"waits", "object", "raises", "async raises", "retry", "async retry"}


class Refusal(Exception):
    """A handler's."""


class Awaitable:
    """An awaitable that is no coroutine."""

    def __await__(self) -> Any:
        yield


def handler_of(acts: list[str], called: list[int]) -> Callable[[Any], Any]:
    """A handler that does with each message what its offset's act says."""

    async def later(message: Any, act: str) -> Any:
        if act == "waits":
            await asyncio.sleep(0)
        elif act == "async raises":
            raise Refusal
        elif act == "async retry":
            message.retry_asked = True
        return 5 if act == "async value" else None

    def handle(message: Any) -> Any:
        act = acts[message.queue_offset]
        called.append(message.queue_offset)
        if act == "raises":
            raise Refusal
        if act == "retry":
            message.retry_asked = True
        if act == "object":
            return Awaitable()
        if act.startswith("async") or act == "waits":
            return later(message, act)
        return 5 if act == "value" else None

    return handle


def filled(module: ModuleType, count: int, topics: list[str]) -> ProcessQueue[Any]:
    """A cache of messages; each is as many bytes as its offset and one."""
    messages = [module.DeliveryFields() for _ in range(count)]
    for offset, message in enumerate(messages):
        message.queue_offset, message.store_size, message.sys_flag = offset, offset + 1, 0
        message.topic = topics[offset % len(topics)]
    assert not module.adopt(messages, None)
    cache: ProcessQueue[Any] = ProcessQueue(0)
    cache.add(messages, count)
    return cache


@pytest.mark.parametrize("build", BUILDS)
@given(
    acts=st.lists(st.sampled_from(ACTS), max_size=12),
    taken_before=st.integers(0, 3),
    count=st.integers(1, 9),
    until=st.integers(0, 9),
    topics=st.sampled_from([["T"], ["T", "T", "U"]]),
)
def test_a_run_is_single_steps_in_a_row(
    build: str, acts: list[str], taken_before: int, count: int, until: int, topics: list[str]
) -> None:
    module = MODULES[build]
    called: list[int] = []
    cache = filled(module, len(acts), topics)
    model = filled(module, len(acts), topics)
    assert len(cache.take(taken_before)) == len(model.take(taken_before))
    now = -1

    def tick() -> float:
        nonlocal now
        now += 1
        return float(now)

    hand = module.Hand(handler_of(acts, called), tick)
    raised = False
    try:
        hand.run(cache, count, float(until))
    except Refusal:
        raised = True

    first = min(taken_before, len(acts))
    expected, stopped_by = [], None
    for offset in range(first, len(acts)):
        if len(expected) == count or len(expected) > until + 1:
            break
        if topics[offset % len(topics)] != topics[first % len(topics)]:
            break
        (message,) = model.take(1)
        expected.append(offset)
        if acts[offset] in STOPS:
            stopped_by = acts[offset]
            break
        model.settle(message)
    assert called == expected
    assert raised is (stopped_by in {"raises", "async raises"})
    assert hand.count == len(expected) - (stopped_by is not None)
    assert (hand.message is not None) is (stopped_by is not None)
    assert (hand.rest is not None) is (stopped_by in {"waits", "object"})
    assert hand.is_begun is (stopped_by == "waits")
    if expected:
        assert hand.topic == topics[first % len(topics)]
        assert hand.since == len(expected) - 1
    if stopped_by is not None:
        assert hand.message.queue_offset == expected[-1]
    if hand.is_begun:
        assert hand.awaited is None  # what asyncio.sleep(0) waits for
        with pytest.raises(StopIteration):
            hand.rest.send(None)
    assert cache.commit_offset() == model.commit_offset()
    assert (cache.count, cache.size, cache.waiting) == (model.count, model.size, model.waiting)
    hand.clear()
    assert (hand.message, hand.rest, hand.awaited, hand.count) == (None, None, None, 0)


@pytest.mark.parametrize("build", BUILDS)
def test_a_message_is_settled_before_the_next_is_handed_out(build: str) -> None:
    """A handler that commits finds all that came before its own message."""
    module = MODULES[build]
    cache = filled(module, 5, ["T"])
    seen: list[int] = []
    hand = module.Hand(lambda message: seen.append(cache.commit_offset()), lambda: 0.0)
    hand.run(cache, 5, 1.0)
    assert seen == [0, 1, 2, 3, 4]
    assert cache.commit_offset() == 5


@pytest.mark.parametrize("build", BUILDS)
@given(data=st.data())
def test_a_grip_settles_what_it_held_and_stops_where_there_is_more_to_do(
    build: str, data: st.DataObject
) -> None:
    """Each step against taking and settling by hand; sometimes somebody else takes or settles."""
    module = MODULES[build]
    topics = data.draw(st.sampled_from([["T"], ["T", "T", "T", "T", "U"]]))
    count = data.draw(st.integers(1, 20))
    cache, model = filled(module, count, topics), filled(module, count, topics)
    inbox, now = SimpleNamespace(closed=False), 0.0
    grip = module.Grip(inbox, lambda: now)
    assert grip.take() is None
    left, until = data.draw(st.integers(0, 20)), data.draw(st.integers(1, 9))
    grip.begin(cache, cache.take(1)[0], left, float(until))
    (held,) = model.take(1)
    others: list[tuple[Any, Any]] = []
    settled = 0
    for _ in range(data.draw(st.integers(1, 25))):
        act = data.draw(st.sampled_from(["step"] * 5 + ["take", "settle", "retry", "close"]))
        if act == "take" and cache.waiting:
            others += zip(cache.take(1), model.take(1), strict=True)
        elif act == "settle" and others:
            mine, theirs = others.pop(data.draw(st.integers(0, len(others) - 1)))
            cache.settle(mine)
            model.settle(theirs)
        elif act == "retry":
            grip.held.retry_asked = data.draw(st.booleans())
        elif act == "close":
            inbox.closed = data.draw(st.booleans())
        now += data.draw(st.sampled_from([0.0, 0.0, 1.0]))
        stops = grip.held.retry_asked or inbox.closed or now > until or settled == left
        if stops or model.waiting < 2 or model.ready[0].topic != held.topic:
            before = grip.held
            assert grip.take() is None
            assert grip.held is before
            continue
        since = now
        taken = grip.take()
        model.settle(held)
        (held,) = model.take(1)
        settled += 1
        assert taken is grip.held
        assert (taken.queue_offset, grip.count) == (held.queue_offset, settled)
        assert grip.since == since
        assert cache.commit_offset() == model.commit_offset()
    assert grip.let_go().queue_offset == held.queue_offset
    assert (grip.held, grip.count) == (None, 0)
    assert (cache.count, cache.size, cache.waiting) == (model.count, model.size, model.waiting)


@pytest.mark.parametrize("build", BUILDS)
def test_fresh_messages_are_adopted(build: str) -> None:
    module = MODULES[build]
    messages = [module.DeliveryFields() for _ in range(3)]
    for message in messages:
        message.sys_flag = 0x10
    origin = object()
    assert module.adopt(messages, origin) is False
    for message in messages:
        assert message.origin is origin
        assert (message.retry_asked, message.retry_after_s) == (False, None)
        assert (message.started_ms, message.trace_id) == (0, "")
    messages[1].sys_flag = 0x21
    assert module.adopt(messages, origin) is True
