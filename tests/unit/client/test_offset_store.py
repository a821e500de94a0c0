"""Offsets kept by brokers that handle requests side by side."""

from __future__ import annotations

import asyncio

import pytest

from contrailmq.client.offset_store import RemoteOffsets
from contrailmq.errors import QueryNotFound
from contrailmq.protocol.queue import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)


class Broker:
    """Keeps an offset; what needs no answer takes effect only after what is asked next."""

    def __init__(self) -> None:
        self.kept: int | None = None
        self.late: list[int] = []
        self.asked = 0

    async def commit(self, queue: MessageQueue, offset: int, confirmed: bool) -> None:
        if not confirmed:
            self.late.append(offset)
            return
        self.kept = offset
        if self.late:
            self.kept = self.late.pop()

    async def fetch(self, queue: MessageQueue) -> int:
        self.asked += 1
        if self.kept is None:
            raise QueryNotFound("no offset")
        return self.kept


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_late_commit_does_not_win_over_a_confirmed_one(rounds: int) -> None:
    async def scenario() -> None:
        broker = Broker()
        offsets = RemoteOffsets(fetch=broker.fetch, commit=broker.commit)
        for number in range(rounds):
            offsets.update(QUEUE, 10 * number)
            await offsets.persist([QUEUE])
            offsets.update(QUEUE, 10 * number + 2)
            await offsets.persist([QUEUE], confirmed=True)
            assert broker.kept == 10 * number + 2

    asyncio.run(scenario())


def test_what_was_always_confirmed_is_not_read_back() -> None:
    async def scenario() -> None:
        broker = Broker()
        offsets = RemoteOffsets(fetch=broker.fetch, commit=broker.commit)
        for offset in (1, 2):
            offsets.update(QUEUE, offset)
            await offsets.persist([QUEUE], confirmed=True)
        assert (broker.kept, broker.asked) == (2, 0)

    asyncio.run(scenario())
