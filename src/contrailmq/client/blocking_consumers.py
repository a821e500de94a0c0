"""The consumers for callers that wait; see ``blocking``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from contrailmq.client.allocate import Strategy
from contrailmq.client.consumer import lite, pull, push
from contrailmq.client.consumer.mismatch import Mismatch
from contrailmq.client.consumer.subscription import Expression, Topics
from contrailmq.client.loop_thread import Bridge, LoopThread
from contrailmq.client.message import ReceivedMessage
from contrailmq.client.settings import ClientSettings, ConsumerSettings
from contrailmq.protocol.queue import MessageQueue


class PushConsumer(Bridge):
    """A member of a consumer group: iterate over it, or give it a handler that runs in threads."""

    def __init__(
        self,
        group: str,
        *,
        topics: Topics,
        name_servers: str | Sequence[str] | None = None,
        start_from: str | int | datetime.datetime = "last",
        handler: Callable[[ReceivedMessage], None] | None = None,
        workers: int = 20,
        ordered: bool = False,
        broadcast: bool = False,
        strategy: str | Strategy = "AVG",
        settings: ConsumerSettings | None = None,
        client: ClientSettings | None = None,
        loop: LoopThread | None = None,
    ) -> None:
        super().__init__(loop)
        self._pool = (
            concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix=f"{group}-handler")
            if handler is not None
            else None
        )
        self._twin = self._make(
            lambda: push.PushConsumer(
                group,
                topics=topics,
                name_servers=name_servers,
                start_from=start_from,
                handler=_in_threads(handler, self._pool),
                workers=workers,
                ordered=ordered,
                broadcast=broadcast,
                strategy=strategy,
                settings=settings,
                client=client,
            )
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(error=error)

    def start(self) -> None:
        """Join the group and begin to pull."""
        self._call(self._twin.start)

    def close(self, *, error: BaseException | None = None) -> None:
        """Settle what is in hand, drain, commit, unlock and leave the group."""
        try:
            self._call(lambda: self._twin.aclose(error=error))
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=True)
            self._release()

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Messages, acknowledged when the loop comes back for the next."""
        deliveries = self._twin.__aiter__()
        while True:
            try:
                yield self._call(deliveries.__anext__)
            except StopAsyncIteration:
                return

    def batches(self, count: int) -> Iterator[list[ReceivedMessage]]:
        """Lists of up to ``count`` messages of one queue: fewer changes of thread."""
        deliveries = self._twin.batches(count)
        while True:
            try:
                yield self._call(deliveries.__anext__)
            except StopAsyncIteration:
                return

    def commit(self) -> None:
        """Store the offsets of what is settled now."""
        self._call(self._twin.commit)

    def wait_assigned(self, timeout_s: float = 10.0) -> list[MessageQueue]:
        """Wait until the queues were divided and some of them are ours; all that are."""
        return self._call(lambda: self._twin.wait_assigned(timeout_s))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now."""
        return self._twin.assignment

    @property
    def mismatches(self) -> list[Mismatch]:
        """Topics on which another member of the group subscribes differently."""
        return self._twin.mismatches


class LitePullConsumer(Bridge):
    """A consumer that is asked for messages with ``poll``."""

    def __init__(
        self,
        group: str,
        *,
        topics: Topics | None = None,
        name_servers: str | Sequence[str] | None = None,
        start_from: str | int | datetime.datetime = "last",
        auto_commit: bool = True,
        strategy: str | Strategy = "AVG",
        settings: ConsumerSettings | None = None,
        client: ClientSettings | None = None,
        loop: LoopThread | None = None,
    ) -> None:
        super().__init__(loop)
        self._twin = self._make(
            lambda: lite.LitePullConsumer(
                group,
                topics=topics,
                name_servers=name_servers,
                start_from=start_from,
                auto_commit=auto_commit,
                strategy=strategy,
                settings=settings,
                client=client,
            )
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(error=error)

    def start(self) -> None:
        """Begin; with topics, join the group."""
        self._call(self._twin.start)

    def close(self, *, error: BaseException | None = None) -> None:
        """Commit and leave the group."""
        try:
            self._call(lambda: self._twin.aclose(error=error))
        finally:
            self._release()

    def poll(self, timeout_s: float = 5.0, *, count: int | None = None) -> list[ReceivedMessage]:
        """Up to ``count`` messages of one queue, or none within the timeout."""
        return self._call(lambda: self._twin.poll(timeout_s, count=count))

    def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read."""
        return self._call(lambda: self._twin.queues(topic))

    def assign(self, queues: Iterable[MessageQueue], *, expression: Expression = "*") -> None:
        """Take exactly these queues, without the group's consent."""
        self._call(lambda: self._twin.assign(queues, expression=expression))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset."""
        self._call(lambda: self._twin.seek(queue, offset))

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """The offsets of the oldest and of the next message."""
        return self._call(lambda: self._twin.bounds(queue))

    def commit(self) -> None:
        """Store the offsets of what is consumed."""
        self._call(self._twin.commit)

    def committed(self, queue: MessageQueue) -> int:
        """The group's stored offset."""
        return self._call(lambda: self._twin.committed(queue))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are ours now."""
        return self._twin.assignment


class PullConsumer(Bridge):
    """Reads queues by offset."""

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Sequence[str] | None = None,
        client: ClientSettings | None = None,
        loop: LoopThread | None = None,
    ) -> None:
        super().__init__(loop)
        self._twin = self._make(
            lambda: pull.PullConsumer(group, name_servers=name_servers, client=client)
        )

    def __enter__(self) -> Self:
        self._call(self._twin.start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._call(self._twin.aclose)
        finally:
            self._release()

    def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read."""
        return self._call(lambda: self._twin.queues(topic))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        count: int = 32,
        expression: Expression = "*",
        wait_s: float = 0.0,
    ) -> pull.Pulled:
        """Messages from an offset on."""
        return self._call(
            lambda: self._twin.pull(
                queue, offset, count=count, expression=expression, wait_s=wait_s
            )
        )

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """The offsets of the oldest and of the next message."""
        return self._call(lambda: self._twin.bounds(queue))

    def committed(self, queue: MessageQueue) -> int:
        """The group's stored offset."""
        return self._call(lambda: self._twin.committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's offset."""
        self._call(lambda: self._twin.commit(queue, offset))


def _in_threads(
    handler: Callable[[ReceivedMessage], None] | None,
    pool: concurrent.futures.Executor | None,
) -> Callable[[ReceivedMessage], Coroutine[Any, Any, None]] | None:
    if handler is None:
        return None
    called: Callable[[ReceivedMessage], None] = handler

    async def call(message: ReceivedMessage) -> None:
        await asyncio.get_running_loop().run_in_executor(pool, called, message)

    return call
