"""Broker-side locks of an ordered consumer: one member at a time works on a queue.

A lock lives 60 s at the broker and is believed here for 30 s; it is renewed every 20 s.  A queue
whose lock is lost is given up and taken again by the next rebalance, at the offset it then has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from contrailmq.client.broker_calls import BrokerCalls
from contrailmq.client.consumer.queue_work import QueueWork
from contrailmq.errors import ContrailError
from contrailmq.protocol.queue import MessageQueue

log = logging.getLogger(__name__)


class Locks:
    """Takes, renews and gives back the locks of one consumer."""

    def __init__(self, calls: BrokerCalls, *, life_s: float) -> None:
        self._calls = calls
        self._life_s = life_s
        self._fresh: dict[MessageQueue, float] = {}

    async def acquire(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Lock queues; the ones that are ours now."""
        locked: list[MessageQueue] = []
        for broker_name, group in _by_broker(queues).items():
            asked_at = asyncio.get_running_loop().time()
            try:
                owned = await self._calls.lock(broker_name, group)
            except ContrailError as error:
                log.warning("queues not locked broker=%s error=%s", broker_name, error)
                continue
            for queue in group:
                if queue in owned:
                    self._fresh[queue] = asked_at + self._life_s
                    locked.append(queue)
        return locked

    def stamp(self, work: QueueWork) -> None:
        """Note on a queue until when its lock is believed."""
        work.locked_until = self._fresh.get(work.queue, 0.0)

    async def renew(self, works: Iterable[QueueWork]) -> list[QueueWork]:
        """Lock again what is ours; the queues whose lock is lost."""
        works = [work for work in works if not work.dropped]
        owned = set(await self.acquire(work.queue for work in works))
        now = asyncio.get_running_loop().time()
        for work in works:
            if work.queue in owned:
                self.stamp(work)
        return [work for work in works if work.locked_until <= now]

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Give locks back, so that the next owner need not wait for their end."""
        for broker_name, group in _by_broker(queues).items():
            for queue in group:
                self._fresh.pop(queue, None)
            try:
                await self._calls.unlock(broker_name, group)
            except ContrailError as error:
                log.warning("queues not unlocked broker=%s error=%s", broker_name, error)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    groups: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        groups.setdefault(queue.broker_name, []).append(queue)
    return groups
