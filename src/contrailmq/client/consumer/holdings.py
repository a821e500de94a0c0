"""The queues a consumer holds: pulled while held, committed when let go.

One task pulls each queue.  A queue whose offset is moved (by the broker, an administrator or a
seek) is replaced by a fresh one at the new offset; messages of the old one that are still in
somebody's hands settle without effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from contrailmq.client.consumer.pull_loop import PullLoop
from contrailmq.client.consumer.puller import Puller
from contrailmq.client.consumer.queue_work import QueueWork
from contrailmq.client.crew import Crew
from contrailmq.client.offset_store import OffsetStore
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.queue import MessageQueue


class Holdings:
    """Held queues, their pull tasks and their offsets."""

    def __init__(
        self,
        crew: Crew,
        puller: Puller,
        *,
        group: str,
        namespace: str,
        subscriptions: Mapping[str, SubscriptionData],
    ) -> None:
        self._crew = crew
        self._puller = puller
        self._group = group
        self._namespace = namespace
        self._subscriptions = subscriptions
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._pulls: PullLoop | None = None
        self._offsets: OffsetStore | None = None
        self.works: dict[MessageQueue, QueueWork] = {}
        self.changed = asyncio.Event()  # set whenever a queue is taken

    def attach(self, pulls: PullLoop, offsets: OffsetStore) -> None:
        """Say how queues are pulled and where their offsets are kept."""
        self._pulls, self._offsets = pulls, offsets

    def hold(self, queue: MessageQueue, offset: int) -> QueueWork:
        """Begin to pull a queue."""
        assert self._pulls is not None
        work = QueueWork(
            queue,
            group=self._group,
            namespace=self._namespace,
            subscription=self._subscriptions[queue.topic],
            offset=offset,
        )
        self.works[queue] = work
        self._tasks[queue] = self._crew.start(self._pulls.run(work), name=f"pull {queue}")
        self.changed.set()
        return work

    def drop(self, queue: MessageQueue) -> QueueWork | None:
        """Stop pulling a queue and hand out nothing more of it."""
        work = self.works.pop(queue, None)
        task = self._tasks.pop(queue, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        if work is not None:
            work.dropped = True
            work.cache.drop_waiting()
            work.room.set()
        self._puller.forget(queue)
        return work

    async def commit(self, *, confirmed: bool = False) -> None:
        """Store the offsets of all held queues."""
        if self._offsets is None:
            return
        for queue, work in self.works.items():
            self._offsets.update(queue, work.cache.commit_offset(), increase_only=False)
        await self._offsets.persist(list(self.works), confirmed=confirmed)

    async def commit_last(self, work: QueueWork) -> None:
        """Store the offset of a queue that was dropped, and forget it."""
        assert self._offsets is not None
        self._offsets.update(work.queue, work.cache.commit_offset(), increase_only=False)
        await self._offsets.persist([work.queue], confirmed=True)
        self._offsets.forget(work.queue)

    async def move(self, work: QueueWork, offset: int) -> None:
        """Continue a queue at another offset, and store that."""
        assert self._offsets is not None
        if self.works.get(work.queue) is not work:
            return
        self.drop(work.queue)
        self._offsets.update(work.queue, offset, increase_only=False)
        await self._offsets.persist([work.queue], confirmed=True)
        fresh = self.hold(work.queue, offset)
        fresh.paused = work.paused
        fresh.locked_until = work.locked_until

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue held queues at other offsets; those of others are left alone."""
        for queue, offset in offsets.items():
            work = self.works.get(queue)
            if work is not None:
                await self.move(work, offset)
